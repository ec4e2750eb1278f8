"""Six short documents with three judged questions, and a fake scheme whose answers are given."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ragindex.corpus import Corpus
from ragindex.index.index import Index
from ragindex.interfaces import Part, Scheme
from ragindex.parts.text.passages import Passages
from ragindex.types import Document, Hit, Query, Retrieval
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.data.gold import Gold

TEXTS = {
    "anna": "Grey Anna is the highest hill of the north.",
    "sarn": "The Sarn is a river that carries barges with slate.",
    "orla": "The Orla is a short river with eleven gorges.",
    "brandt": "Ulla Brandt drew the first map of the hills.",
    "quill": "Nether Quill is a town made of slate.",
    "penn": "Aldous Penn printed cheap books in yellow covers.",
}
QUESTIONS = ("Which hill is the highest?", "Which river carries slate?", "Who drew a map of the hills?")
GOLD = {
    "q1": Gold(frozenset({"anna"}), grades={"anna": 1}),
    "q2": Gold(frozenset({"sarn", "quill"}), grades={"sarn": 2, "quill": 1}),
    "q3": Gold(frozenset({"brandt", "anna"}), grades={"brandt": 1, "anna": 1}),
}


def dataset(questions: Sequence[str] = QUESTIONS, gold: dict[str, Gold] | None = GOLD) -> Dataset:
    documents = tuple(Document(id, id.title(), text) for id, text in TEXTS.items())
    queries = tuple(Query(f"q{number}", text) for number, text in enumerate(questions, start=1))
    return Dataset("tiny", Corpus("tiny", "jsonl", documents, 0, (), True), queries, gold, "0123456789abcdef")


def hit(*doc_ids: str) -> Hit:
    return Hit("+".join(doc_ids), "passage", doc_ids, doc_ids, "", "", 1.0, "scripted")


class Scripted(Scheme):
    """A fake scheme: the same documents for every question, what it was asked written to a file."""

    version: ClassVar[int] = 1
    ranking: tuple[tuple[str, ...], ...] = (("anna",), ("sarn", "orla"), ("quill",))
    fails_on: tuple[str, ...] = ()
    stops_at: str = ""
    journal: str = ""
    mark: str = ""

    def _parts(self) -> tuple[Part[Any], ...]:
        return (Passages(),)

    def _open(self, workspace: Index) -> "ScriptedRetriever":
        return ScriptedRetriever(self)


@dataclass(frozen=True)
class ScriptedRetriever:
    scheme: Scripted

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        for query in queries:
            if self.scheme.stops_at == query.text:
                raise KeyboardInterrupt
            if query.text in self.scheme.fails_on:
                raise ValueError(f"nothing is known of [bold]{query.text}")
        if self.scheme.journal:
            with Path(self.scheme.journal).open("a") as file:
                file.writelines(f"{k} {self.scheme.mark}{query.id}\n" for query in queries)
        return [Retrieval(tuple(hit(*doc_ids) for doc_ids in self.scheme.ranking)[:k])] * len(queries)
