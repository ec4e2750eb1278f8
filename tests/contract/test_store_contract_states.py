"""What every registered store must do, by value: writing, versions, one writer."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from made_records import SCHEMA, TEXT_ONLY, filled, passing, pinned, records, text_records

from ragindex.errors import StoreError, UsageError, WriterBusyError
from ragindex.filters import Terms
from ragindex.interfaces import Schema, Store, TextQuery, VectorQuery
from ragindex.plugins import registry


def test_fields_come_back_as_they_went_in(store: Store) -> None:
    collection = filled(store)
    got = collection.get(["e", "nobody", "a"], ("text", "tags", "size", "meta.page", "vector")).to_pylist()
    assert [row["id"] for row in got] == ["e", "a"]
    assert got[1]["tags"] == ["water", "europe"]
    assert got[1]["size"] == 1.0
    assert got[1]["meta.page"] == ["12"]
    assert got[0]["meta.page"] is None
    assert got[0]["vector"] == [-1, 0, 0]
    assert set(collection.fields()) == {"title", "text", "tags", "size", "meta.page", "meta.day of issue"}


def test_an_upsert_replaces_and_a_delete_forgets(store: Store) -> None:
    collection = store.create("texts", TEXT_ONLY)
    collection.upsert(text_records({"a": "old words", "b": "other words"}))
    collection.upsert(text_records({"a": "new sentence", "c": "third"}))
    collection.delete(["b", "nobody"])
    reader = pinned(store, collection, "texts")
    assert reader.count() == 2
    assert [
        hit.ids for hit in reader.search([TextQuery("words", 5), TextQuery("sentence", 5), TextQuery("third", 5)])
    ] == [[], ["a"], ["c"]]


def test_what_was_written_is_there_after_reopening(written: str, tmp_path: Path) -> None:
    collection = registry.store(written).open(tmp_path).create("things", SCHEMA)
    collection.upsert(records())
    collection.finish()
    again = registry.store(written).open(tmp_path)
    assert again.names() == ["things"]
    assert again.version("things") == collection.version
    assert passing(again.open("things", collection.version), Terms("tags", ("dry",))) == ["c"]


def test_a_reader_stays_at_its_version(store: Store) -> None:
    collection = store.create("texts", TEXT_ONLY)
    collection.upsert(text_records({"a": "first"}))
    reader = pinned(store, collection, "texts")
    collection.upsert(text_records({"b": "second"}))
    collection.delete(["a"])
    assert passing(reader, None) == ["a"]
    assert passing(pinned(store, collection, "texts"), None) == ["b"]
    assert [row["text"] for row in reader.get(["a", "b"], ("text",)).to_pylist()] == ["first"]


def test_only_one_writer(written: str, tmp_path: Path) -> None:
    first, second = (registry.store(written).open(tmp_path) for _ in range(2))
    caught = pytest.raises(WriterBusyError, match="the first command")
    with first.lease("the first command"), caught, second.lease("the second"):
        pass
    with second.lease("the second"):
        pass


def test_what_does_not_fit_the_schema_is_refused(store: Store) -> None:
    collection = store.create("texts", TEXT_ONLY)
    with pytest.raises(UsageError, match="missing \\['text'\\]"):
        collection.upsert(pa.RecordBatch.from_pydict({"id": ["a"]}))
    with pytest.raises(UsageError, match="unknown \\['more'\\]"):
        collection.upsert(pa.RecordBatch.from_pydict({"id": ["a"], "text": ["b"], "more": ["c"]}))
    with pytest.raises(StoreError, match="was created with"):
        store.create("texts", SCHEMA)
    store.create("vectors", Schema(dimensions=3))
    with pytest.raises(StoreError, match="gave vectors of 2 dimensions, and the index has 3, so .*: ragindex index"):
        store.create("vectors", Schema(dimensions=2))
    with pytest.raises(StoreError):
        store.open("nothing", 1)


def test_nan_vectors_are_refused(store: Store) -> None:
    collection = store.create("vectors", Schema(dimensions=2))
    vectors = pa.array([[float("nan"), 1.0]], pa.list_(pa.float32(), 2))
    with pytest.raises(UsageError, match="finite"):
        collection.upsert(pa.RecordBatch.from_arrays([pa.array(["a"]), vectors], names=["id", "vector"]))


def test_one_id_once_a_batch(store: Store) -> None:
    collection = store.create("texts", TEXT_ONLY)
    with pytest.raises(UsageError, match="some ids occur twice"):
        collection.upsert(pa.RecordBatch.from_pydict({"id": ["a", "a"], "text": ["b", "c"]}))
    assert collection.count() == 0


def test_dropping(store: Store) -> None:
    store.create("texts", TEXT_ONLY)
    store.drop("texts")
    store.drop("texts")
    assert store.names() == []
    assert store.version("texts") is None


def test_a_collection_made_again_under_its_name_is_another(store: Store) -> None:
    schema, query = Schema(dimensions=2), [VectorQuery(np.array([1, 0], np.float32), 2)]

    def vectors(**of: list[float]) -> pa.RecordBatch:
        column = pa.array(list(of.values()), pa.list_(pa.float32(), 2))
        return pa.RecordBatch.from_arrays([pa.array(list(of)), column], names=["id", "vector"])

    first = store.create("x", schema)
    first.upsert(vectors(a=[1, 0], b=[0, 1]))
    before = pinned(store, first, "x")
    assert before.search(query)[0].ids == ["a", "b"]
    first.delete(["b"])
    first.finish()
    first_identity = first.identity
    assert first_identity == before.identity == store.open("x", first.version).identity
    store.drop("x")
    second = store.create("x", schema)
    second.upsert(vectors(b=[1, 0], a=[0, 1]))
    again = pinned(store, second, "x")
    assert again.search(query)[0].ids == ["b", "a"]
    assert again.identity == second.identity != first_identity


def test_cleaning_leaves_the_newest(store: Store) -> None:
    collection = store.create("texts", TEXT_ONLY)
    for n in range(70):  # enough small writes for an engine to tidy up
        collection.upsert(text_records({f"{n:02d}": "word"}))
    reader = pinned(store, collection, "texts")
    store.clean("texts", set())
    assert store.version("texts") == reader.version
    for opened in (reader, store.open("texts", reader.version)):
        assert passing(opened, None) == [f"{n:02d}" for n in range(70)]
