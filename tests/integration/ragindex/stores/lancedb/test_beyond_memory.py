"""What LanceDB answers without holding a collection in memory: the same, read in few waits."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from built_retriever import built_retriever

from ragindex.filters import All, Ids, Not, Terms
from ragindex.index.index import Index
from ragindex.interfaces import (
    Collection,
    FilterQuery,
    Floats,
    Schema,
    SearchRequest,
    SearchResult,
    TextQuery,
    VectorQuery,
)
from ragindex.parts.text.passages import Passages
from ragindex.stores.lancedb import collection as lancedb
from ragindex.stores.lancedb import index as lance_index
from ragindex.stores.lancedb import maintenance
from ragindex.stores.lancedb.engine import wait
from ragindex.stores.lancedb.store import LanceDB
from ragindex.stores.metered import search_together
from ragindex.types import Query
from ragindex_eval.data import worlds

SCHEMA = Schema(stored=("text",), keywords=("tags",), text=("text",), language="none", dimensions=4)
RECORDS = 40
QUESTION = np.array([1, 2, 3, 4], np.float32)


def random_vectors(centre: float = 0.0) -> Floats:
    """The greater `centre`, the nearer are the vectors to each other; one is zero."""
    vectors = np.random.default_rng(0).standard_normal((RECORDS, 4)) + centre
    vectors[7] = 0
    return vectors.astype(np.float32)


def filled(folder: Path, memory: float, name: str = "some", vectors: Floats | None = None) -> Collection:
    vectors = random_vectors() if vectors is None else vectors
    columns = {
        "id": [f"r{number:02d}" for number in range(RECORDS)],
        "text": [f"word{number % 3} word{number % 5}" for number in range(RECORDS)],
        "tags": [[f"t{number % 4}", "all"] for number in range(RECORDS)],
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 4),
    }
    collection = LanceDB(memory_gib=memory).open(folder).create(name, SCHEMA)
    collection.upsert(pa.RecordBatch.from_pydict(columns))
    collection.finish()
    return collection


def round_answer(answer: SearchResult) -> tuple[list[str], list[float], list[dict[str, Any]]]:
    return answer.ids, np.round(answer.scores, 5).tolist(), answer.records.to_pylist()


SOME = Ids(("r39", "r03", "missing", "r07", "r11"))
REQUESTS: list[SearchRequest] = [
    FilterQuery(SOME, 3, ("tags",)),
    VectorQuery(QUESTION, 2, ("text",), SOME),
    VectorQuery(-QUESTION, 10, (), Ids(("r00", "r07"))),
    VectorQuery(np.zeros(4, np.float32), 10, (), SOME),
    FilterQuery(Ids(()), 3),
    VectorQuery(QUESTION, 5, ("tags", "meta.none"), Terms("tags", ("t1",))),
    VectorQuery(QUESTION, 50, (), All((Not(SOME), Terms("tags", ("all",))))),
    VectorQuery(QUESTION, 5, (), Terms("tags", ("nobody",))),
    TextQuery("word1 word4", 4, ("text",), SOME),
    TextQuery("word1", 4, ("text",), Not(SOME)),
    TextQuery("", 4),
    FilterQuery(Terms("tags", ("t2",)), 4, ("text", "vector")),
    VectorQuery(QUESTION, 6),
]


@pytest.mark.parametrize("few", [0, 3, 2_000])
def test_answers_are_those_from_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr(lance_index, "_FEW", few)
    memory, beyond = filled(tmp_path / "a", 1), filled(tmp_path / "b", 0)
    assert [round_answer(hit) for hit in beyond.search(REQUESTS)] == [
        round_answer(hit) for hit in memory.search(REQUESTS)
    ]
    assert [round_answer(beyond.search([request])[0]) for request in REQUESTS] == [
        round_answer(hit) for hit in memory.search(REQUESTS)
    ]


@pytest.mark.parametrize("ann_from", [1, 10_000])
def test_near_equal_cosines_are_those_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ann_from: int
) -> None:
    """To the last digit, so that they come in the same order where float32 cannot tell them apart."""
    monkeypatch.setattr(maintenance, "_ANN_FROM", ann_from)
    vectors = random_vectors(centre=1e6)
    memory, beyond = (filled(tmp_path / str(budget), budget, vectors=vectors) for budget in (1, 0))
    requests = [VectorQuery(QUESTION, 12, ("text", "vector"), where) for where in (None, Terms("tags", ("t1",)))]
    for exact, stored in zip(memory.search(requests), beyond.search(requests), strict=True):
        assert len(set(exact.scores.astype(np.float32).tolist())) < len(set(exact.scores.tolist()))
        assert (stored.ids, stored.scores.tolist()) == (exact.ids, exact.scores.tolist())
        assert stored.records.to_pylist() == exact.records.to_pylist()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many queries LanceDB was asked at once, each time."""
    counted, reading = list[int](), lance_index._read

    async def read(queries: Any) -> list[pa.Table]:
        counted.append(len(queries))
        return await reading(queries)

    monkeypatch.setattr(lance_index, "_read", read)
    return counted


def test_several_collections_are_waited_for_once(tmp_path: Path, waits: list[int]) -> None:
    first, other = filled(tmp_path / "a", 0, "one"), filled(tmp_path / "a", 0, "other")
    searches = [(first, REQUESTS[:5]), (other, [TextQuery("word1", 3, ("text",))])]
    alone = [[round_answer(hit) for hit in collection.search(requests)] for collection, requests in searches]
    waits.clear()
    assert [[round_answer(answer) for answer in answers] for answers in search_together(searches)] == alone
    assert waits == [2]  # the five requests within ids are one query


def test_search_in_memory_and_beyond(tmp_path: Path, waits: list[int]) -> None:
    beyond = [filled(tmp_path / "a", 0, name) for name in ("one", "other")]
    searches = [(collection, REQUESTS[:5]) for collection in (beyond[0], filled(tmp_path / "b", 1), beyond[1])]
    answers = [
        [round_answer(answer) for answer in collection_answers] for collection_answers in search_together(searches)
    ]
    assert waits == [2]
    assert answers[0] == answers[1] == answers[2]


def test_what_may_not_fit_beside_others_is_indexed(tmp_path: Path) -> None:
    """Each fits the budget, both do not: the second is searched by its indexes, where all its records would be read."""
    size = filled(tmp_path / "alone", 1).estimate()
    store = LanceDB(memory_gib=1.6 * size / 2**30).open(tmp_path / "a")
    collections = [filled(tmp_path / "a", 1.6 * size / 2**30, name) for name in ("one", "other")]
    assert [[index.columns for index in wait(collection.table.list_indices())] for collection in collections] == [
        [["id"]],
        [["id"]],
    ]
    opened = [store.open(collection.name, collection.version) for collection in collections]
    answers = [[round_answer(hit) for hit in collection.search(REQUESTS)] for collection in opened]
    assert [str(collection.describe()["search"]).partition(",")[0] for collection in opened] == ["exact", "approximate"]
    assert answers[0] == answers[1]


def test_vector_index_is_small_and_misses_little(tmp_path: Path) -> None:
    rng, count, dimensions = np.random.default_rng(0), 10_000, 64
    vectors = rng.standard_normal((count, dimensions)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    collection = LanceDB(memory_gib=0).open(tmp_path).create("some", Schema(dimensions=dimensions))
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), dimensions)
    collection.upsert(pa.RecordBatch.from_pydict({"id": [f"{n:05d}" for n in range(count)], "vector": column}))
    collection.finish()
    (size,) = [index.size_bytes for index in wait(collection.table.list_indices()) if index.columns == ["vector"]]
    assert size < 0.5 * vectors.nbytes
    questions = rng.standard_normal((20, dimensions)).astype(np.float32)
    results = collection.search([VectorQuery(question, 10) for question in questions])
    exact = [{f"{row:05d}" for row in np.argsort(-(vectors @ question))[:10]} for question in questions]
    assert sum(len(best & set(result.ids)) for best, result in zip(exact, results, strict=True)) >= 0.98 * 200


def test_vector_index_is_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what it lacks is found all the same."""
    monkeypatch.setattr(maintenance, "_ANN_FROM", 1)
    collection = filled(tmp_path, 0)

    def added(first: int, last: int) -> tuple[int, int]:
        vectors = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 0, 0, 0] * (last - first), pa.float32()), 4)
        ids = [f"s{number:02d}" for number in range(first, last)]
        columns = {"id": ids, "text": [""] * len(ids), "tags": [["new"]] * len(ids), "vector": vectors}
        collection.upsert(pa.RecordBatch.from_pydict(columns))
        collection.finish()
        stats = wait(collection.table.index_stats("vector_idx"))
        return stats.num_indexed_rows, stats.num_unindexed_rows

    assert added(0, 1) == (RECORDS, 1)
    assert collection.search([VectorQuery(np.array([1, 0, 0, 0], np.float32), 1)])[0].ids == ["s00"]
    assert added(1, 4) == (RECORDS, 4)  # of 44
    assert added(4, 5) == (RECORDS + 5, 0)
    assert collection.search([VectorQuery(np.array([1, 0, 0, 0], np.float32), 5)])[0].ids == [
        f"s{n:02d}" for n in range(5)
    ]


def test_what_is_small_beside_the_budget_is_not_indexed(tmp_path: Path) -> None:
    size = filled(tmp_path / "alone", 1).estimate()
    small = filled(tmp_path / "a", 4.1 * size / 2**30)
    assert wait(small.table.list_indices()) == []


def test_lower_budget(tmp_path: Path) -> None:
    def indexed(workspace: Index) -> list[list[str]]:
        records = workspace.open_part(Passages()).inner
        return sorted(index.columns for index in wait(records.table.list_indices()))

    def opened(memory: float) -> Index:
        return Index.open(tmp_path / "w", chunking=None, store=LanceDB(memory_gib=memory), create=True)

    queries = [
        Query(str(number), question.text) for number, question in enumerate(worlds.make_questions(50, per_kind=1))
    ]
    roomy = opened(1)
    roomy.add(worlds.make_documents(50))
    retrievals = built_retriever(roomy, "bm25").retrieve(queries, 5)
    assert indexed(roomy) == []
    tight = opened(0)
    again = built_retriever(tight, "bm25").retrieve(queries, 5)
    assert indexed(tight) == [["id"]]
    assert [[hit.id for hit in retrieval.hits] for retrieval in again] == [
        [hit.id for hit in retrieval.hits] for retrieval in retrievals
    ]
    version = tight.open_part(Passages()).version
    assert tight.build(Passages()).finish_seconds == 0
    assert opened(0).open_part(Passages()).version == version, "finished once"


def test_indexes_follow_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten rounds of adding, changing and removing, finished or not, beside a dictionary that holds the same."""
    monkeypatch.setattr(lancedb, "_LOOKUPS_FROM", 1)
    rng, tags_by_id = np.random.default_rng(1), dict[str, list[str]]()
    store = LanceDB(memory_gib=0).open(tmp_path)
    collection = store.create("some", Schema(keywords=("tags",)))
    for number in range(10):
        ids = [f"r{value:02d}" for value in rng.choice(60, 20, replace=False)]
        tags = [[f"t{value}" for value in rng.choice(6, 2)] for _ in ids]
        collection.upsert(pa.RecordBatch.from_pydict({"id": ids, "tags": tags}))
        tags_by_id |= dict(zip(ids, tags, strict=True))
        gone = [f"r{value:02d}" for value in rng.choice(60, 5, replace=False)]
        collection.delete(gone)
        tags_by_id = {id: own for id, own in tags_by_id.items() if id not in gone}
        if number % 3:
            collection.finish()
        for tag in ("t0", "t5"):
            expected = sorted(id for id, own in tags_by_id.items() if tag in own)
            where, but = Terms("tags", (tag,)), Not(Terms("tags", (tag,)))
            ids_found = [id for batch in collection.scan((), where) for id in batch.column("id").to_pylist()]
            assert sorted(ids_found) == expected
            assert collection.search([FilterQuery(where, 100)])[0].ids == expected
            assert collection.search([FilterQuery(but, 100)])[0].ids == sorted(tags_by_id.keys() - set(expected))
        assert collection.get(ids, ()).column("id").to_pylist() == [id for id in ids if id in tags_by_id]
    pinned = store.open("some", collection.version)
    assert pinned.search([FilterQuery(Terms("tags", ("t1",)), 100)])[0].ids == sorted(
        id for id, own in tags_by_id.items() if "t1" in own
    )
