"""What somebody else did to the indices: reported or repaired, never taken for an empty store."""

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from made_elasticsearch import TEXT, finished, indices, texts

from ragindex.errors import StoreError
from ragindex.index.index import Index
from ragindex.interfaces import FilterQuery
from ragindex.plugins import registry
from ragindex.stores.elasticsearch import bulk
from ragindex.testing import DOCUMENTS, ask_questions, assert_same


def test_an_index_deleted_behind_our_back(store: Any) -> None:
    collection = store.create("part-1.records", TEXT)
    store.create("part-1.coverage", TEXT)
    collection.upsert(texts({"a": "x"}))
    reader = finished(store, collection, "part-1.records")
    store.server.client.indices.delete(index=reader._now().index)
    for call in (
        lambda: reader.search([FilterQuery(None, 3)]),
        lambda: reader.get(["a"], ()),
        lambda: list(reader.scan(())),
        lambda: collection.upsert(texts({"b": "y"})),
        lambda: store.open("part-1.records", reader.version),
        lambda: store.create("part-1.records", TEXT),
    ):
        with pytest.raises(StoreError, match=r"(?s)deleted.*ragindex index DATA --index"):
            call()
    assert store.names() == ["part-1.coverage"]
    store.drop("part-1.coverage")
    assert store.create("part-1.records", TEXT).count() == 0  # nothing claims any more that there is something


@pytest.mark.parametrize("lost", ["passages-*.records*", "vectors-*.records*", "passages-*.*", "*-vectors-*.coverage*"])
def test_a_part_deleted_behind_our_back_is_made_anew(lost: str, written: str, tmp_path: Path) -> None:
    scheme = registry.scheme("hybrid")
    space = Index.open(tmp_path / "w", store=written, chunking=None, create=True)
    space.add(DOCUMENTS)
    space.build(scheme)
    expected = ask_questions(scheme.open(space), 5)
    lost_indexes = [index for index in indices(space.store) if fnmatch(index, f"*{lost}")]
    assert lost_indexes
    for index in lost_indexes:
        space.store.server.client.indices.delete(index=index)
    again = Index.open(tmp_path / "w", create=True)
    again.build(scheme)
    assert_same(ask_questions(scheme.open(again), 5), expected, "after its index was deleted")
    assert again.add(DOCUMENTS[:1]).unchanged == 1


def test_writes_make_no_index_by_accident(store: Any) -> None:
    collection = store.create("texts", TEXT)
    now = collection._now()
    store.server.client.indices.delete(index=now.index)
    with pytest.raises(StoreError, match="could not write 1 of 1 records .*is not an alias"):
        bulk.send(store.server, now.alias, [bulk.Action("a", b"{}")], "texts")
    assert [name for name in indices(store) if "texts" in name] == []


def test_an_index_of_another_format(store: Any) -> None:
    generation = store.create("texts", TEXT)._now()
    note = {"ragindex": {**generation.note, "format": 99}}
    store.server.client.indices.put_mapping(index=generation.index, meta=note)
    with pytest.raises(StoreError, match=r"has format 99; this ragindex reads 3\..*ragindex index DATA"):
        store.names()
