"""Finished states on a real server: as indices that never change, kept for their readers, deleted a day later."""

from typing import Any

import pytest
from made_elasticsearch import TEXT, finished, indices, texts

from ragindex.errors import StoreError
from ragindex.interfaces import FilterQuery
from ragindex.stores.elasticsearch import indices as elastic_indices


def test_versions_rise_with_every_write_and_a_finished_state_never_changes(store: Any) -> None:
    collection = store.create("texts", TEXT)
    seen = [collection.version]
    for change in (lambda: collection.upsert(texts({"a": "x"})), lambda: collection.delete(["a"])):
        change()
        seen.append(collection.version)
    assert seen == sorted(set(seen))
    collection.upsert(texts({"a": "first"}))
    reader = finished(store, collection, "texts")
    assert store.version("texts") == collection.version == reader.version
    with pytest.raises(StoreError, match="opened for reading"):
        reader.upsert(texts({"a": "second"}))
    from elasticsearch import AuthorizationException

    with pytest.raises(AuthorizationException, match="index write"):
        store.server.client.index(index=reader._now().index, document={})
    collection.upsert(texts({"a": "second"}))
    assert reader.get(["a"], ("text",)).column("text").to_pylist() == ["first"]
    assert collection.get(["a"], ("text",)).column("text").to_pylist() == ["second"]
    assert collection.version > reader.version


def test_a_finish_that_was_cut_short(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes were blocked, the state was not noted: what was written is there, and can be written on."""
    collection = store.create("texts", TEXT)
    collection.upsert(texts({"a": "one", "b": "two"}))
    with monkeypatch.context() as patch:
        patch.setattr(elastic_indices, "write_note", _killed)
        with pytest.raises(RuntimeError, match="killed"):
            collection.finish()
    again = store.create("texts", TEXT)
    again.upsert(texts({"c": "three"}))
    assert finished(store, again, "texts").count() == 3


def test_a_finish_that_was_cut_short_while_deleted_records_go(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = store.create("texts", TEXT)
    collection.upsert(texts({"a": "one", "b": "two"}))
    collection.delete(["a"])
    with monkeypatch.context() as patch:
        patch.setattr(elastic_indices, "merge_segments", _killed)
        with pytest.raises(RuntimeError, match="killed"):
            collection.finish()
    reader = finished(store, store.create("texts", TEXT), "texts")
    assert [hit.ids for hit in reader.search([FilterQuery(None, 5)])] == [["b"]]
    store.clean("texts", set())
    assert len([name for name in indices(store) if "-texts-" in name]) == 1


def _killed(*_: Any, **__: Any) -> None:
    raise RuntimeError("killed")


def test_replaced_states_are_deleted_a_day_later(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from ragindex.stores.elasticsearch import store as module

    collection = store.create("texts", TEXT)
    collection.upsert(texts({"a": "one"}))
    first = finished(store, collection, "texts")
    collection.upsert(texts({"b": "two"}))
    second = finished(store, collection, "texts")
    store.clean("texts", set())
    assert (first.count(), second.count()) == (1, 2)
    monkeypatch.setattr(module, "_KEEP", 0.0)
    store.clean("texts", set())
    assert second.count() == 2
    with pytest.raises(StoreError, match="at version .*, no longer at"):
        store.open("texts", first.version)


def test_names_that_indices_cannot_have(store: Any) -> None:
    names = ["Über-Part.records", "über-part.records", "a" * 200, "documents"]
    for number, name in enumerate(names):
        store.create(name, TEXT).upsert(texts({str(number): "x"}))
    assert store.names() == sorted(names)
    assert [store.create(name, TEXT).get([str(n)], ()).num_rows for n, name in enumerate(names)] == [1] * 4
    assert all(index.startswith(f"{store.layout.base}-") for index in indices(store))
