"""A method whose part and whose questions ask a priced model on a server, over three documents."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from comparing import compare
from made_language import ECHO
from openai_server import OpenAIServer

from ragindex.corpus import Corpus
from ragindex.index.index import Index
from ragindex.interfaces import BuildContext, Change, Part, ReadContext, Retriever, Scheme, Uses
from ragindex.llm import openai_chat
from ragindex.llm.tasks import Failure, Task
from ragindex.parts.text.passages import Passages
from ragindex.types import Document, Query, Retrieval
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.data.gold import Gold
from ragindex_eval.results.model import Comparison

PLANTED = "sk-planted/0123456789+abcdef"
TEXTS = {"anna": "Grey Anna is a hill.", "sarn": "The Sarn is a river.", "quill": "Nether Quill is a town."}
QUERIES = (Query("q1", "Which hill?"), Query("q2", "Which river?"))
GOLD = {"q1": Gold(frozenset({"anna"})), "q2": Gold(frozenset({"sarn"}))}


class Echoed(Part[None]):
    """A part that asks the model once for each passage, and keeps nothing."""

    version: ClassVar[int] = 1
    uses: ClassVar[Uses] = frozenset({"model", "prompts"})

    def inputs(self) -> tuple[Part[Any], ...]:
        return (Passages(),)

    def tasks(self) -> tuple[Task[Any], ...]:
        return (ECHO,)

    def apply(self, change: Change, context: BuildContext) -> None:
        ids = list(change.upsert)
        texts = context.passages(ids).column("text").to_pylist()
        for id, output in zip(ids, context.llm.map(ECHO, [{"text": text} for text in texts], again=True), strict=True):
            if isinstance(output, Failure):
                context.failed(id, output.reason)

    def finish(self, context: BuildContext) -> None:
        context.note("echoed")

    def open(self, context: ReadContext) -> None:
        return None


class AskingScheme(Scheme):
    """BM25 that asks the model about every question first."""

    version: ClassVar[int] = 1

    def _parts(self) -> tuple[Part[Any], ...]:
        return (Echoed(), Passages())

    def tasks(self) -> tuple[Task[Any], ...]:
        return (ECHO,)

    def _open(self, workspace: Index) -> "AskingRetriever":
        from ragindex_baselines.bm25 import BM25

        return AskingRetriever(BM25().open(workspace), workspace)


@dataclass(frozen=True)
class AskingRetriever:
    base: Retriever
    workspace: Index

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        for query in queries:
            self.workspace.llm.run(ECHO, {"text": query.text})
        return self.base.retrieve(queries, k)


@contextmanager
def priced_server(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[OpenAIServer]:
    """A server whose key is PLANTED, and whose model `small` has a price."""
    prices = folder / "prices.yaml"
    prices.write_text("models:\n  small: {input: 1000.0, output: 3000.0}\n")
    monkeypatch.setattr(openai_chat, "_memories", {})
    monkeypatch.setenv("OPENAI_API_KEY", PLANTED)
    monkeypatch.setenv("RAGINDEX_PRICES", str(prices))
    with OpenAIServer(key=PLANTED) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        yield running


def compared(folder: Path, **options: Any) -> Comparison:
    documents = tuple(Document(id, id.title(), text) for id, text in TEXTS.items())
    data = Dataset("tiny", Corpus("tiny", "jsonl", documents, 0, (), True), QUERIES, GOLD, "0123456789abcdef")
    methods = ["bm25", AskingScheme()]
    given = {"llm": "openai:small", "k": (1, 2), "index": folder / "w", **options}
    return compare(data, methods, **given)
