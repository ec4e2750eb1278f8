"""What every registered store must do, by value: searching. A new store is added to STORES and passes unchanged."""

from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from made_records import SCHEMA, STORES, TEXT_ONLY, filled, pinned, text_records

from ragindex.errors import UsageError
from ragindex.filters import Ids
from ragindex.interfaces import Collection, FilterQuery, Schema, SearchRequest, Store, TextQuery, VectorQuery
from ragindex.plugins import registry
from ragindex.stores.metered import search_together


def test_every_registered_store_is_here() -> None:
    assert {written.partition("(")[0] for written in STORES.values()} >= set(registry.plugin_names("stores"))


def test_nearest_gives_the_cosines_best_first(store: Store) -> None:
    hits = filled(store).search([VectorQuery(np.array([2, 0, 0], np.float32), 5, ("title",))])[0]
    assert hits.ids == ["a", "b", "c", "e"]  # d has a zero vector: it is near nothing
    precision = 1e-3 if "float16=True" in str(store) else 1e-6
    assert hits.scores.tolist() == pytest.approx([1, 0.6, 0, -1], abs=precision)
    assert hits.records.column("title").to_pylist() == ["Rivers", "Cities", "Deserts", "Rivers"]


def test_a_zero_vector_finds_nothing_and_a_wrong_one_is_refused(store: Store) -> None:
    collection = filled(store)
    assert collection.search([VectorQuery(np.zeros(3, np.float32), 5)])[0].ids == []
    with pytest.raises(UsageError, match="gave vectors of 4 dimensions, and the index has 3, so .*: ragindex index"):
        collection.search([VectorQuery(np.ones(4, np.float32), 5)])


def test_match_scores_are_lucenes_bm25(store: Store) -> None:
    """Two of the four records with words hold "vienna"; with their titles each has 4 tokens, of 15 in all."""
    collection = filled(store)
    hits = collection.search([TextQuery("VIENNA", 5, ("text",))])[0]
    assert sorted(hits.ids) == ["a", "b"]
    expected = np.log(1 + (4 - 2 + 0.5) / (2 + 0.5)) / (1 + 1.2 * (1 - 0.75 + 0.75 * 4 / (15 / 4)))
    assert hits.scores.tolist() == pytest.approx([expected] * 2, rel=1e-4)


def test_many_requests_are_answered_in_order(store: Store) -> None:
    vector = np.array([1, 0, 0], np.float32)
    hits = filled(store).search(
        [
            TextQuery("sand", 3),
            VectorQuery(vector, 1),
            FilterQuery(None, 2),
            TextQuery("capital", 3),
            VectorQuery(-vector, 1),
        ]
    )
    assert [sorted(answer.ids) for answer in hits] == [["c"], ["a"], ["a", "b"], ["b", "e"], ["e"]]


def test_several_collections_searched_together_answer_as_alone(store: Store) -> None:
    """The same word is counted in each collection by itself."""
    texts = store.create("texts", TEXT_ONLY)
    texts.upsert(text_records({"a": "vienna", "z": "sand sand vienna", "y": "sand"}))
    first, second = filled(store), pinned(store, texts, "texts")
    vector = np.array([1, 0, 0], np.float32)
    searches: list[tuple[Collection, list[SearchRequest]]] = [
        (first, [TextQuery("vienna sand", 3, ("title",)), VectorQuery(vector, 2)]),
        (second, [TextQuery("vienna sand", 3, ("text",)), FilterQuery(None, 2)]),
        (second, []),
        (first, [TextQuery("vienna", 1, (), Ids(("b",)))]),
    ]
    answers = search_together(searches)
    alone = [collection.search(requests) for collection, requests in searches]
    assert [len(each) for each in answers] == [2, 2, 0, 1]
    for answer, expected in zip(chain(*answers), chain(*alone), strict=True):
        assert answer.ids == expected.ids
        assert answer.scores.tolist() == pytest.approx(expected.scores.tolist(), abs=1e-6)
        assert answer.records.to_pydict() == expected.records.to_pydict()
    assert sorted(answers[1][0].ids) == ["a", "y", "z"]
    assert search_together([]) == []


def test_words_unknown_and_words_left_out_find_nothing(store: Store) -> None:
    assert [
        hit.ids for hit in filled(store).search([TextQuery("xylophone", 3), TextQuery("", 3), TextQuery("\0 \t", 3)])
    ] == [[], [], []]


def test_statistics_forget_what_was_deleted(written: str, tmp_path: Path) -> None:
    texts = {f"d{n:03d}": f"common word{n % 7} number{n}" for n in range(60)}
    disturbed = registry.store(written).open(tmp_path / "disturbed")
    collection = disturbed.create("texts", TEXT_ONLY)
    collection.upsert(text_records(texts))
    collection.upsert(text_records({f"x{n}": "common common word3 extra" for n in range(40)}))
    collection.finish()
    collection.delete([f"x{n}" for n in range(40)])
    fresh = registry.store(written).open(tmp_path / "fresh")
    undisturbed = fresh.create("texts", TEXT_ONLY)
    undisturbed.upsert(text_records(texts))
    requests = [TextQuery("common word3 number10", 60)]
    first = pinned(disturbed, collection, "texts").search(requests)[0]
    second = pinned(fresh, undisturbed, "texts").search(requests)[0]
    assert first.ids == second.ids
    assert first.scores.tolist() == pytest.approx(second.scores.tolist(), abs=1e-5)


def test_equal_scores_come_by_id_among_ten_thousand_identical_records(store: Store) -> None:
    ids = [f"{(n * 7919) % 10_000:05d}" for n in range(10_000)]
    collection = store.create("same", Schema(stored=("text",), text=("text",), dimensions=3))
    vectors = pa.array([[0.1, 0.2, 0.3]] * 10_000, pa.list_(pa.float32(), 3))
    collection.upsert(pa.RecordBatch.from_pydict({"id": ids, "text": ["same words"] * 10_000, "vector": vectors}))
    reader = pinned(store, collection, "same")
    best = reader.search([TextQuery("same", 5), FilterQuery(None, 5), VectorQuery(np.array([3, 2, 1], np.float32), 5)])
    expected = ["00000", "00001", "00002", "00003", "00004"]
    if "memory_gib=0.0" in str(store):  # an engine's own index cuts ties where it likes
        assert all(len(answer.ids) == 5 for answer in best)
    else:
        assert [answer.ids for answer in best] == [expected] * 3
    assert reader.count() == 10_000


def test_ten_thousand_records_agree_with_arithmetic(store: Store) -> None:
    rng = np.random.default_rng(5)
    vectors = rng.standard_normal((10_000, 8)).astype(np.float32)
    collection = store.create("many", Schema(dimensions=8))
    ids = [f"{n:05d}" for n in range(10_000)]
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8)
    collection.upsert(pa.RecordBatch.from_arrays([pa.array(ids), column], names=["id", "vector"]))
    query = rng.standard_normal(8).astype(np.float32)
    cosines = (vectors @ query) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
    expected = [ids[row] for row in np.argsort(-cosines)[:10]]
    hits = pinned(store, collection, "many").search([VectorQuery(query, 10)])[0]
    overlap = len(set(hits.ids) & set(expected))
    assert overlap >= 8 if "memory_gib=0.0" in str(store) or "float16=True" in str(store) else hits.ids == expected


def test_an_empty_collection_answers(store: Store) -> None:
    reader = pinned(store, store.create("things", SCHEMA))
    vector = np.array([1, 0, 0], np.float32)
    assert [hit.ids for hit in reader.search([TextQuery("x", 3), VectorQuery(vector, 3), FilterQuery(None, 3)])] == [
        [],
        [],
        [],
    ]
    assert reader.get(["a"], ("text",)).num_rows == 0
    assert reader.count() == 0


def test_a_huge_k(store: Store) -> None:
    hits = filled(store).search([TextQuery("vienna", 10**12), VectorQuery(np.array([1, 0, 0], np.float32), 10**12)])
    assert [len(answer.ids) for answer in hits] == [2, 4]


def test_vectors_that_are_not_finite_are_no_query(store: Store) -> None:
    with pytest.raises(UsageError, match="finite"):
        filled(store).search([VectorQuery(np.array([np.nan, 0, 0], np.float32), 3)])
