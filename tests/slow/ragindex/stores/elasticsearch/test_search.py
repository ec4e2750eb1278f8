"""Answers on a real server: those of memory, where the store contract leaves anything open."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from elasticsearch_node.node import store as elasticsearch_store
from made_elasticsearch import TEXT, Trips, finished, held_in_memory, texts

from ragindex.errors import StoreError
from ragindex.filters import Ids, Not
from ragindex.interfaces import FilterQuery, Schema, TextQuery, VectorQuery
from ragindex.plugins import registry
from ragindex.stores.elasticsearch import indices, search


@pytest.mark.parametrize("shards", [1, 3])
def test_bm25_of_long_texts_is_that_of_memory(shards: int, tmp_path: Path) -> None:
    """Lucene's lengths are coarse above 40 tokens; ours are not, nor do they depend on shards."""
    rng = np.random.default_rng(3)
    words = [f"word{n}" for n in range(60)]
    share = np.arange(1, 61) ** -1.0 / (np.arange(1, 61) ** -1.0).sum()
    texts_by_id = {f"{n:04d}": " ".join(rng.choice(words, size=rng.integers(1, 300), p=share)) for n in range(600)}
    text_queries = [TextQuery(" ".join(rng.choice(words, 5)), k) for k in (1, 10, 50, 700) for _ in range(10)]
    with elasticsearch_store(shards=shards) as written:
        store = registry.store(written).open(tmp_path / "elastic")
        collection = store.create("long", TEXT)
        collection.upsert(texts(texts_by_id))
        hits = finished(store, collection, "long").search(text_queries)
    expected = held_in_memory(texts(texts_by_id), TEXT, tmp_path / "lance").search(text_queries)
    assert [ranking.ids for ranking in hits] == [ranking.ids for ranking in expected]
    for answer, twin in zip(hits, expected, strict=True):
        np.testing.assert_allclose(answer.scores, twin.scores, atol=1e-5)


def test_a_candidate_that_the_engine_undervalues_is_found(store: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """Texts of 152 to 167 tokens have one length for Lucene; the shortest have late ids, beyond the first page."""
    monkeypatch.setattr(search, "_SPARE", 0)
    texts_by_id = {f"{n:03d}": "rare " + "common " * (165 - n // 10) for n in range(70)}
    texts_by_id |= {f"z{n:03d}": "common " * 160 for n in range(200)}
    collection = store.create("near", TEXT)
    collection.upsert(texts(texts_by_id))
    requests = [TextQuery("rare", 3)]
    trips = Trips(store, monkeypatch)
    hits = finished(store, collection, "near").search(requests)[0]
    assert (
        hits.ids == ["060", "061", "062"] == held_in_memory(texts(texts_by_id), TEXT, tmp_path).search(requests)[0].ids
    )
    assert trips.paths.count("/_msearch") > 1


def test_a_question_of_more_tokens_than_a_query_may_have(store: Any, tmp_path: Path) -> None:
    texts_by_id = {f"{n:03d}": f"word{n} word{n + 1} shared" for n in range(300)}
    collection = store.create("texts", TEXT)
    collection.upsert(texts(texts_by_id))
    requests = [TextQuery(" ".join(f"word{n}" for n in range(100, 2000)), 5)]
    hits = finished(store, collection, "texts").search(requests)[0]
    assert hits.ids == held_in_memory(texts(texts_by_id), TEXT, tmp_path).search(requests)[0].ids


def test_answers_longer_than_the_servers_window(store: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(search, "WINDOW", 7)
    monkeypatch.setattr(search, "_PAGE", 3)
    rng = np.random.default_rng(1)
    schema = Schema(stored=("text",), text=("text",), dimensions=4)
    vectors = rng.standard_normal((40, 4)).astype(np.float32)
    vectors[5] = 0
    batch = texts({f"{n:02d}": f"word word{n % 3}" for n in range(40)}).append_column(
        "vector", pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 4)
    )
    collection = store.create("many", schema)
    collection.upsert(batch)
    reader, twin = finished(store, collection, "many"), held_in_memory(batch, schema, tmp_path)
    requests = [
        FilterQuery(None, 33),
        FilterQuery(Not(Ids(("03",))), 100),
        TextQuery("word word1", 30, ("text",)),
        VectorQuery(vectors[0], 30, ("text",)),
        VectorQuery(vectors[0], 39, (), Ids(tuple(f"{n:02d}" for n in range(0, 40, 2)))),
    ]
    for answer, expected in zip(reader.search(requests), twin.search(requests), strict=True):
        assert answer.ids == expected.ids
        np.testing.assert_allclose(answer.scores, expected.scores, atol=1e-6)
        assert answer.records.to_pydict() == expected.records.to_pydict()


def test_many_vectors_go_through_a_graph_and_are_scored_whole(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    vectors = rng.standard_normal((1500, 16)).astype(np.float32)
    ids = [f"{n:04d}" for n in range(1500)]
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 16)
    batch = pa.RecordBatch.from_arrays([pa.array(ids), column], names=["id", "vector"])
    schema = Schema(dimensions=16)
    vector_queries = [VectorQuery(vector, 10) for vector in rng.standard_normal((20, 16)).astype(np.float32)]
    few = [VectorQuery(request.vector, 10, (), Ids(tuple(ids[::7]))) for request in vector_queries]
    with elasticsearch_store(exact_up_to=1000) as written:
        store = registry.store(written).open(tmp_path / "elastic")
        collection = store.create("many", schema)
        collection.upsert(batch.slice(0, 900))
        assert finished(store, collection, "many").describe()["search"].startswith("exact")
        collection.upsert(batch.slice(900))
        reader = finished(store, collection, "many")
        assert reader.describe()["search"].startswith("approximate")
        answers, found_few = reader.search(vector_queries), reader.search(few)
    twin = held_in_memory(batch, schema, tmp_path / "lance")
    assert [ranking.ids for ranking in found_few] == [hit.ids for hit in twin.search(few)]
    expected = twin.search(vector_queries)
    overlap = [len(set(ranking.ids) & set(other.ids)) / 10 for ranking, other in zip(answers, expected, strict=True)]
    assert np.mean(overlap) >= 0.98
    for answer, other in zip(answers, expected, strict=True):
        exact_scores = dict(zip(other.ids, other.scores, strict=True))
        assert [
            score for id, score in zip(answer.ids, answer.scores, strict=True) if id in exact_scores
        ] == pytest.approx([exact_scores[id] for id in answer.ids if id in exact_scores], abs=1e-6)


def test_vectors_that_came_at_once_get_a_graph_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine merges no segment that is alone: without more ado its vectors would stay as they are.

    Where the merge was cut short, the next `finish` does it again, though the index take no more writes.
    """
    merging = indices.merge_segments
    tries = []

    def merge(*arguments: Any, **how: Any) -> None:
        tries.append(how)
        if len(tries) == 1:
            raise StoreError("cut short")
        merging(*arguments, **how)

    monkeypatch.setattr(indices, "merge_segments", merge)
    vectors = np.random.default_rng(2).standard_normal((1500, 16)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 16)
    batch = pa.RecordBatch.from_arrays([pa.array([f"{n:04d}" for n in range(1500)]), column], names=["id", "vector"])
    taken, read = [], []
    for most in (1500, 1499):
        with elasticsearch_store(exact_up_to=most) as written:
            store = registry.store(written).open(tmp_path / str(most))
            collection = store.create("many", Schema(dimensions=16))
            collection.upsert(batch)
            if most < 1500:
                with pytest.raises(StoreError, match="cut short"):
                    collection.finish()
                indices.block_writes(store.server, "many", store.newest("many"))  # as one that was cut short later
            reader = finished(store, collection, "many")
            taken.append(int(reader.describe()["bytes"]))
            read.append(pa.Table.from_batches(reader.scan(("vector",))).sort_by("id").to_pydict())
    assert (len(read[0]["id"]), read[0]) == (1500, read[1])
    assert tries == [{"max_num_segments": 1}] * 2
    assert taken[1] - taken[0] >= 1500 * (16 + 4)  # a byte a dimension and a correction, and the graph's links


def test_an_engines_own_analyser(tmp_path: Path) -> None:
    with elasticsearch_store(analyser="standard") as written:
        store = registry.store(written).open(tmp_path)
        collection = store.create("texts", TEXT)
        collection.upsert(texts({"a": "The rivers", "b": "A river"}))
        reader = finished(store, collection, "texts")
        assert [hit.ids for hit in reader.search([TextQuery("river", 5), TextQuery("THE", 5)])] == [["b"], ["a"]]
        other = registry.store(written.replace("standard", "simple")).open(tmp_path)
        with pytest.raises(StoreError, match="was created with the analyser standard"):
            other.create("texts", TEXT)
