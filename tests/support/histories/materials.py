"""What histories are made of: documents that share names, methods of every kind, fixed encoders, a model that fails.

All is small and quick, and the same in every process.
"""

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from ragindex.corpus.chunking import chunk, id_mark
from ragindex.errors import LLMError
from ragindex.filters import Ids, Overlaps
from ragindex.interfaces import (
    BuildContext,
    Change,
    Collection,
    Encoder,
    EncoderPlugin,
    Floats,
    Part,
    ReadContext,
    Schema,
    Scheme,
    TokenEmbeddings,
)
from ragindex.interfaces.llm import LLMPlugin, LLMSettings
from ragindex.llm.offline import OfflineRules
from ragindex.llm.tasks import Output, Task
from ragindex.parts.text.passages import Passages
from ragindex.plugins import registry
from ragindex.types import Chunking, Document, Query, Section

# ---------------------------------------------------------------- documents

SENTENCES = (
    "Ada Miller was born in Lindau.",
    "Lindau lies on Lake Constance.",
    "The Rhine flows through Lake Constance.",
    "Ada Miller met Tom Reed in Bern.",
    "Tom Reed was a painter from Bern.",
    "Bern is also known as the City of Bears.",
    "Mont Blanc was climbed by Tom Reed.",
    "Emma Stone founded Glass House in Bern.",
    "Glass House is located in Lindau.",
    "Tom Reed married Emma Stone.",
    "The City of Bears lies on the Aare.",
    "Emma Stone was born in Lindau in 1871.",
)
NAMES = ("ann", "ben", "cid", "dot", "eve", "fay")
QUERIES = tuple(
    Query(f"q{number}", text)
    for number, text in enumerate(
        (
            "Who was born in Lindau?",
            "Where did Tom Reed live with Emma Stone?",
            "Which river flows through the lake by Lindau?",
            "City of Bears",
        )
    )
)
CUTTINGS = {"passages": Chunking(64, 0), "overlapping": Chunking(64, 20), "whole": None}
Corpus = Mapping[str, Sequence[int]]
"""Documents by name: which sentences they hold, in order."""


def document(name: str, sentences: Sequence[int]) -> Document:
    """A title of its own, so that no two passages of a corpus are the same text."""
    texts = [SENTENCES[sentence] for sentence in sentences]
    starts = [sum(len(text) + 1 for text in texts[:number]) for number in range(len(texts))]
    headings = [(text.split()[0], *(["Below"] if number % 2 else [])) for number, text in enumerate(texts)]
    sections = tuple(Section(*heading) for heading in zip(starts, headings, strict=True))
    return Document(f"doc-{name}", f"Doc {name}", " ".join(texts), {"half": name < "dot"}, sections)


def named(id: str) -> str:
    """The name of the document of that id."""
    return id.removeprefix("doc-")


def documents(corpus: Corpus) -> list[Document]:
    return [document(name, sentences) for name, sentences in sorted(corpus.items())]


def passages(corpus: Corpus, chunking: str, own: Chunking | None = None) -> dict[str, tuple[str, str]]:
    """Title and text of each passage, by its id: those of the index, or of a method's `own` chunking."""
    cutting, mark = (CUTTINGS[chunking], "#") if own is None else (own, id_mark(own, of_index=False))
    every = (passage for each in documents(corpus) for passage in chunk(each, cutting, mark))
    return {passage.id: (passage.title, passage.text) for passage in every}


def openie(corpus: Corpus, chunking: str, place: Path) -> Path:
    """A file of extractions for the passages of `corpus`: other triples than the rules find."""
    docs = [
        {"title": title, "text": text, "extracted_entities": words[:2], "extracted_triples": [[*words[:2], words[-1]]]}
        for title, text in passages(corpus, chunking).values()
        if len(words := text.replace(".", "").split()) > 2
    ]
    written = json.dumps({"docs": docs}, sort_keys=True)
    path = place / f"{zlib.crc32(written.encode()):08x}.json"
    path.write_text(written)
    return path


# ---------------------------------------------------------------- encoders


class Hashed(EncoderPlugin):
    """Each word is a fixed vector, a text the sum of its words: nothing is learnt. Another `salt`, another encoder."""

    argument: ClassVar[str] = "salt"
    salt: str = "a"

    def open(self, setting: LLMSettings | None = None) -> "HashedEncoder":
        return HashedEncoder(self.salt)


@dataclass(frozen=True)
class HashedEncoder(Encoder):
    salt: str
    dimensions: int = 12

    @property
    def id(self) -> str:
        return f"hashed {self.salt}"

    def _words(self, text: str) -> Floats:
        words = text.lower().replace(".", " ").replace("?", " ").split() or [""]
        seeds = [zlib.crc32(f"{self.salt} {word}".encode()) for word in words]
        return np.stack([np.random.default_rng(seed).standard_normal(self.dimensions) for seed in seeds]).astype("f4")

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        sums = np.stack([self._words(text).sum(axis=0) for text in texts])
        return (sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)).astype(np.float32)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        return self.encode_documents(texts)

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenEmbeddings]:
        return [self._tokens(text) for text in texts]

    def encode_queries_with_tokens(self, texts: Sequence[str]) -> tuple[Floats, list[TokenEmbeddings]]:
        return self.encode_queries(texts), self.encode_tokens(texts)

    def _tokens(self, text: str) -> TokenEmbeddings:
        spans, at = [], 0
        for word in text.split():
            start = text.index(word, at)
            at = start + len(word)
            spans.append((start, at))
        vectors = np.stack([self._words(text[start:end]).sum(axis=0) for start, end in spans] or [np.zeros(12)])
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        return TokenEmbeddings(tuple(spans), vectors.astype(np.float32)[: len(spans)])


ENCODERS: Mapping[str, Any] = {"hashed": Hashed(), "other": Hashed(salt="b"), "lsa": "lsa"}

# ---------------------------------------------------------------- a language model that fails

Fails = Callable[[str, str, str], bool]
"""Whether a task gets no answer for a passage of that title and text."""
_fails: list[Fails] = [lambda task, title, text: False]
ASKED = {"extract": "extractions", "rewrite": "propositions"}
"""The tasks that may fail, and the parts whose passages then stay out."""


@contextmanager
def failing(fails: Fails) -> Iterator[None]:
    _fails.append(fails)
    try:
        yield
    finally:
        _fails.pop()


class Model(LLMPlugin):
    """The rules, but some passages get no answer. They count as the rules, so what is made is the same part."""

    def open(self, setting: LLMSettings | None = None) -> "FailingRules":
        return FailingRules()


class FailingRules(OfflineRules):
    def run(self, task: Task[Output], inputs: Mapping[str, Any], *, repeat: int = 0, again: bool = False) -> Output:
        if task.name in ASKED and _fails[-1](task.name, inputs["title"], inputs["text"]):
            raise LLMError(f"{task.name}: no answer", "empty")
        return super().run(task, inputs, repeat=repeat, again=again)


def with_word(word: str) -> Fails:
    """Passages with the word fail; none where it is empty."""
    return lambda task, title, text: bool(word) and word in text


def with_passages(failed: frozenset[tuple[str, str, str]]) -> Fails:
    """Just these fail: task, title and text."""
    return lambda task, title, text: (task, title, text) in failed


# ---------------------------------------------------------------- methods


class Words(Part[Collection]):
    """A part whose records are merged from several passages: each word with the passages that hold it.

    Unlike the parts of ours it merges in `apply`, as anybody's part may.
    """

    version: ClassVar[int] = 1

    def inputs(self) -> tuple[Part[Any], ...]:
        return (Passages(),)

    @property
    def shares_records(self) -> bool:
        return True

    def passages_sharing_with(self, ids: Sequence[str], context: BuildContext) -> set[str]:
        return {
            id for _, owners in _holding(self.records(context), Overlaps("passage_ids", tuple(ids))) for id in owners
        }

    def records(self, context: BuildContext) -> Collection:
        return context.collection("records", _merged_schema(context.language))

    def apply(self, change: Change, context: BuildContext) -> None:
        records, source = self.records(context), context.inputs[0]
        touched = {*change.upsert, *change.remove}
        rows = source.get(list(change.upsert), ("text", "doc_ids")).to_pylist()
        words_by_id = {row["id"]: set(row["text"].split()) for row in rows}
        known_words = {word for word, _ in _holding(records, Overlaps("passage_ids", tuple(sorted(touched))))}
        known = dict(_holding(records, Ids(tuple(sorted(known_words.union(*words_by_id.values()))))))
        merged = {
            word: sorted(
                (set(known.get(word, ())) - touched) | {id for id, words in words_by_id.items() if word in words}
            )
            for word in known_words.union(*words_by_id.values())
        }
        records.delete(sorted(word for word, owners in merged.items() if not owners))
        owned = sorted(word for word, owners in merged.items() if owners)
        if owned:
            records.upsert(_merged(owned, [merged[word] for word in owned]))

    def open(self, context: ReadContext) -> Collection:
        return context.collection("records")


def _merged_schema(language: str) -> Schema:
    stored, keywords = ("kind", "title", "text", "metadata"), ("passage_ids", "doc_ids")
    return Schema(stored=stored, keywords=keywords, text=("text",), language=language)


def _holding(records: Collection, where: Any) -> list[tuple[str, list[str]]]:
    batches = records.scan(("passage_ids",), where)
    return [(row["id"], row["passage_ids"]) for batch in batches for row in batch.to_pylist()]


def _merged(words: Sequence[str], owners: Sequence[Sequence[str]]) -> pa.RecordBatch:
    lists = pa.list_(pa.string())
    columns = {
        "id": pa.array(words, pa.string()),
        "kind": pa.array(["word"] * len(words), pa.string()),
        "title": pa.array([""] * len(words), pa.string()),
        "text": pa.array([f"{word} in {len(those)}" for word, those in zip(words, owners, strict=True)], pa.string()),
        "metadata": pa.array([""] * len(words), pa.string()),
        "passage_ids": pa.array(owners, lists),
        "doc_ids": pa.array(
            [sorted({passage_id.partition("#")[0] for passage_id in those}) for those in owners], lists
        ),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def register_words() -> None:
    """Register the part `words` like one of an installed package; again after a test has read the plugins anew."""
    value = f"{Words.__module__}:{Words.__qualname__}"
    table = registry._table("parts")
    table.points.setdefault("words", (EntryPoint("words", value, "ragindex.parts"),))
    table.names.setdefault(value, "words")


register_words()
_TREES = "[summary_tree(stop_at=1, levels=3), summary_tree(over=aggregates, stop_at=1, levels=3)]"
METHODS: Mapping[str, Scheme] = {
    "bm25": registry.scheme("bm25"),
    "dense": registry.scheme("dense"),
    "hybrid": registry.scheme("hybrid"),
    "composed": registry.scheme("composed"),
    "bm25 triples": registry.scheme("bm25(over=triples)"),
    "composed triples": registry.scheme("composed(over=triples)"),
    "bm25 words": registry.scheme({"name": "bm25", "params": {"over": Words()}}),
    "dense words": registry.scheme({"name": "dense", "params": {"over": Words()}}),
    "composed words": registry.scheme({"name": "composed", "params": {"over": Words()}}),
    "colbert": registry.scheme("colbert"),
    "gear.naive": registry.scheme("gear.naive"),
    "gear.naive store": registry.scheme("gear.naive(graph=triple_graph(memory_gib=0))"),
    "hipporag": registry.scheme("hipporag"),
    "hipporag push": registry.scheme("hipporag(mode=facts, walk=push)"),
    "graphrag": registry.scheme("graphrag"),
    "griever": registry.scheme("griever"),
    "griever passage": registry.scheme("griever(partial_scope=passage)"),
    "griever full": registry.scheme("griever(shortlist=full)"),
    "links": registry.scheme("links(hops=2, max_mentions=3)"),
    "bm25 sentences": registry.scheme("bm25(over=passages(by=sentences, size=14, overlap=7))"),
    "hybrid headings": registry.scheme("hybrid(over=passages(by=headings, size=14))"),
    "links words": registry.scheme("links(hops=2, max_mentions=3, over=passages(size=9, overlap=2))"),
    "raptor sections": registry.scheme("raptor(tree=summary_tree(stop_at=1, levels=3), over=passages(by=sections))"),
    "bm25 placed": registry.scheme("bm25(over=passages(by=sentences, size=14, context=sentence))"),
    "dense below headings": registry.scheme("dense(over=passages(by=headings, size=14, context=headings))"),
    "parent": registry.scheme("parent(base=bm25(over=passages(size=9)), unit=section)"),
    "raptor": registry.scheme("raptor(tree=summary_tree(stop_at=1, levels=3))"),
    "sirerag": registry.scheme(f"sirerag(pool=tree_pool(trees={_TREES}))"),
}
"""By what a history calls them."""
KINDS: Mapping[str, tuple[str, ...]] = {
    "flat": ("bm25", "dense", "hybrid", "composed"),
    "records": ("bm25 triples", "composed triples", "colbert", "links"),
    "merged": ("composed words", "griever", "griever passage", "griever full"),
    "graph": ("gear.naive", "gear.naive store", "hipporag", "hipporag push", "graphrag"),
    "tree": ("raptor", "sirerag"),
    "chunked": ("bm25 sentences", "hybrid headings", "links words", "raptor sections"),
    "placed": ("bm25 placed", "dense below headings", "parent"),
}
"""A history draws its methods from several of them."""
