"""How often a question goes to a real server: what belongs together goes at once."""

from pathlib import Path
from typing import Any

import pytest
from built_retriever import built_retriever
from made_elasticsearch import TEXT, Trips, finished, texts

from ragindex.index.index import Index
from ragindex.interfaces import FilterQuery, TextQuery
from ragindex.parts.text.passages import Passages
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.stores.metered import search_together
from ragindex.testing import DOCUMENTS
from ragindex.types import Query


def test_round_trips_of_a_question(written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = Index.open(tmp_path / "w", store=written, chunking=None, create=True)
    space.add(DOCUMENTS)
    trips = Trips(space.store, monkeypatch)
    queries = [Query("q", "Who climbed Mont Blanc?"), Query("r", "glass")]
    for name, questions, expected in (
        ("bm25", queries, 1),
        ("dense", queries, 1),
        ("hybrid", queries, 2),
        ("composed", queries, 2),
        ("griever", queries[:1], 12),  # of two iterations, six each
        ("gear.naive", queries[:1], 6),  # two for the base; starts, neighbours, statements, passages
        ("gear.naive(graph=triple_graph(memory_gib=0))", queries[:1], 6),
        ("links", queries[:1], 7),  # candidates, their scores; seeds, names, counts; passages found; once, titles
        ("evidence", queries[:1], 10),  # the same, and the links of a second hop
        ("hipporag(mode=facts)", queries[:1], 3),  # facts, passages near the question, passages found
    ):
        retriever = built_retriever(space, registry.scheme(name))
        trips.paths.clear()
        assert retriever.retrieve(questions, 5)[0].hits
        assert (name, len(trips.paths)) == (name, expected), trips.paths
    parts = [space.open_part(part) for part in (Passages(), Vectors())]
    trips.paths.clear()
    search_together([(part, [FilterQuery(None, 1)]) for part in parts])
    assert trips.paths == ["/_msearch"]


def test_collections_searched_together_are_one_round_trip(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    readers = []
    for name in ("one", "two"):
        collection = store.create(name, TEXT)
        collection.upsert(texts({name: "shared words"}))
        readers.append(finished(store, collection, name))
    trips = Trips(store, monkeypatch)
    answers = search_together([(reader, [TextQuery("words", 3), FilterQuery(None, 3)]) for reader in readers])
    assert [[answer.ids for answer in each] for each in answers] == [[["one"], ["one"]], [["two"], ["two"]]]
    assert trips.paths == ["/_msearch"]
