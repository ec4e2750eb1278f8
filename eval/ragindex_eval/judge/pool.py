"""The pool of documents to judge: for each question, the first ones of several unlike methods, as at TREC.

Depth pooling (Sparck Jones and van Rijsbergen 1975; TREC since 1992). Documents of equal text are pooled once. The seed
draws the order of the questions and, for each, that of its documents, which says nothing about who found them.
"""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ragindex._util import durable_files
from ragindex._util.canonical import digest
from ragindex.corpus.judgements import question_id
from ragindex.errors import DataError, UsageError
from ragindex.types import Document
from ragindex_eval.data.gold_classes import content
from ragindex_eval.metrics.retrieval import ranking
from ragindex_eval.results.model import SavedHit

POOL_FILE = "pool.json"
LONGEST_PASSAGE = 3_000
"""Characters of a passage that are shown."""
_MOST_PASSAGES = 3  # of one document

Rankings = Mapping[str, Sequence[Sequence[SavedHit]]]
"""The hits of each method, by label: one list for each question."""


@dataclass(frozen=True, slots=True)
class PooledDocument:
    """A document to judge: its title, and the passages of it that methods found; `content` is a hash of its text."""

    id: str
    title: str
    passages: tuple[str, ...]
    content: str = ""


@dataclass(frozen=True, slots=True)
class PooledQuestion:
    """A question, its pooled documents in the order in which they are shown, and by label each method's hits.

    A hit is given as its documents, of equal texts the first.
    """

    id: str
    text: str
    documents: tuple[PooledDocument, ...]
    hits: Mapping[str, tuple[tuple[str, ...], ...]]

    def first_documents(self, label: str, k: int) -> list[str]:
        """Return the documents of the first k hits of a method, at most k of them."""
        return _first_documents(self.hits[label], k)


def _first_documents(hits: Sequence[Sequence[str]], k: int) -> list[str]:
    return ranking(hits[:k])[:k]


@dataclass(frozen=True, slots=True)
class PoolSource:
    """What a pool was made from; `documents` and `questions` are hashes, `contents` one of documents without ids."""

    methods: tuple[str, ...]
    encoder: str
    depth: int
    ks: tuple[int, ...]
    seed: int
    documents: str
    questions: str
    contents: str = ""


@dataclass(frozen=True, slots=True)
class Pool:
    """Questions with their pooled documents, in the order in which a person judges them."""

    source: PoolSource
    questions: tuple[PooledQuestion, ...]

    def count(self) -> int:
        """Return the number of pairs of question and document."""
        return sum(len(question.documents) for question in self.questions)


def make_pool(source: PoolSource, questions: Sequence[str], documents: Iterable[Document], rankings: Rankings) -> Pool:
    """Pool the documents of the first `source.depth` hits of each method, at most so many.

    A question that is asked twice is pooled once.
    """
    documents_by_id = {document.id: document for document in documents}
    stands = _stand_ins(documents_by_id.values())
    places = {question_id(text): place for place, text in reversed(list(enumerate(questions)))}
    order = sorted(places, key=lambda id: places[id])
    random.Random(source.seed).shuffle(order)  # noqa: S311  # an order, no secret
    pooled = (
        _pool_question(
            source,
            id,
            questions[places[id]],
            documents_by_id,
            stands,
            {m: hits[places[id]] for m, hits in rankings.items()},
        )
        for id in order
    )
    return Pool(source, tuple(pooled))


def _stand_ins(documents: Iterable[Document]) -> dict[str, str]:
    """Map each document to the first one of equal text."""
    first: dict[tuple[str, str], str] = {}
    return {document.id: first.setdefault(content(document), document.id) for document in documents}


def _pool_question(
    source: PoolSource,
    id: str,
    text: str,
    by_id: Mapping[str, Document],
    stands: Mapping[str, str],
    hits_by_method: Mapping[str, Sequence[SavedHit]],
) -> PooledQuestion:
    longest = max(*source.ks, source.depth)
    named = {
        label: tuple(tuple(stands.get(doc_id, doc_id) for doc_id in hit.doc_ids) for hit in hits[:longest])
        for label, hits in hits_by_method.items()
    }
    pooled = sorted({document for hits in named.values() for document in _first_documents(hits, source.depth)})
    random.Random(f"{source.seed} {id}").shuffle(pooled)  # noqa: S311  # an order, no secret
    documents = (
        PooledDocument(
            document.id,
            document.title,
            _passages(document, hits_by_method.values(), by_id, stands),
            _hash_content(document),
        )
        for document in map(by_id.__getitem__, pooled)
    )
    return PooledQuestion(id, text, tuple(documents), named)


def _passages(
    document: Document,
    rankings: Iterable[Sequence[SavedHit]],
    documents: Mapping[str, Document],
    stands: Mapping[str, str],
) -> tuple[str, ...]:
    """Return the passages that methods ranked best, in the order of the text; without any, the document's beginning.

    Which method found a passage, and at which rank, does not show.
    """
    best: dict[tuple[int, int, str], int] = {}
    for hits in rankings:
        for rank, hit in enumerate(hits):
            for place in hit.positions:
                if stands.get(place.doc_id) == document.id:
                    span = (place.start, place.end, documents[place.doc_id].text[place.start : place.end])
                    best[span] = min(rank, best.get(span, rank))
    ranked = sorted(best, key=lambda span: (best[span], span))
    chosen = [text for _, _, text in sorted(ranked[:_MOST_PASSAGES])] or [document.text]
    return tuple(text if len(text) <= LONGEST_PASSAGE else f"{text[:LONGEST_PASSAGE]} […]" for text in chosen)


def hash_contents(documents: Iterable[Document]) -> str:
    """Return a hash of the texts of documents, whatever their ids are."""
    return digest(sorted(map(_hash_content, documents)))


def _hash_content(document: Document) -> str:
    return digest(content(document))


def list_renamed(
    pool: Pool, wanted: PoolSource, documents: Iterable[Document], renames: Mapping[str, str]
) -> dict[str, str] | None:
    """Return the new ids of pooled documents; None if the documents of the pool differ in more than their ids.

    `renames` are the ids of `documents`, those that are `wanted` now, by the ids that they had before.
    """
    current = {document.id: document for document in documents}
    same_contents = pool.source.contents != "" and pool.source.contents == wanted.contents
    if not same_contents or current.keys().isdisjoint(renames.values()):
        return None
    pooled = {document.id: document.content for question in pool.questions for document in question.documents}
    ids = {id: renames.get(id, id) for id in pooled}
    if any(ids[id] not in current or _hash_content(current[ids[id]]) != pooled[id] for id in pooled):
        return None
    return {old: id for old, id in ids.items() if old != id}


# ---------------------------------------------------------------- the file


def save_pool(pool: Pool, folder: Path) -> None:
    """Write the pool to `folder`, which is made if need be. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    durable_files.write_file(folder / POOL_FILE, json.dumps(asdict(pool), ensure_ascii=False, indent=1).encode())


def load_pool(folder: Path) -> Pool | None:
    """Read the pool of `folder`; None if there is none. Raises DataError if the file is not as it was written."""
    path = folder / POOL_FILE
    if not path.is_file():
        return None
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return Pool(_read_source(value["source"]), tuple(_read_question(question) for question in value["questions"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError("a pool that `ragindex judge` wrote", f"{type(error).__name__}: {error}", path=path) from error


def require_equal(source: PoolSource, wanted: PoolSource, folder: Path) -> None:
    """Raise UsageError if the pool of `folder` was made from something else than what is wanted now."""
    before, now = asdict(source), asdict(wanted)
    other = [name for name in before if before[name] != now[name] and name != "contents"]  # documents have them
    if other:
        changes = ", ".join(_describe_change(name, before[name], now[name]) for name in other)
        raise UsageError(
            f"The pool in {folder} was made otherwise: {changes}. Give what it was made from, or another --out."
        )


def _describe_change(name: str, before: Any, now: Any) -> str:
    if name in ("documents", "questions"):
        return f"{name} have changed"
    shown = (", ".join(map(str, setting)) if isinstance(setting, tuple) else str(setting) for setting in (before, now))
    return "{} was {}, and is {}".format(name, *shown)


def _read_source(value: Mapping[str, Any]) -> PoolSource:
    return PoolSource(**{**value, "methods": tuple(value["methods"]), "ks": tuple(value["ks"])})


def _read_document(value: Mapping[str, Any]) -> PooledDocument:
    return PooledDocument(value["id"], value["title"], tuple(value["passages"]), value.get("content", ""))


def _read_question(value: Mapping[str, Any]) -> PooledQuestion:
    documents = (_read_document(document) for document in value["documents"])
    hits = {label: tuple(map(tuple, each)) for label, each in value["hits"].items()}
    return PooledQuestion(value["id"], value["text"], tuple(documents), hits)
