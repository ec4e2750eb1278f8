"""What a process leaves in the folder of LanceDB when it dies while a collection is made or removed."""

from pathlib import Path

import pyarrow as pa
import pytest

from ragindex.interfaces import Schema
from ragindex.stores.lancedb.store import LanceDB

SCHEMA = Schema(stored=("text",))


def records(*ids: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(ids), "text": list(ids)})


@pytest.mark.parametrize("left", ["", "_transactions/.tmp1", "_versions/.tmp1", "data/1.lance"])
def test_a_collection_without_a_version_is_none(left: str, tmp_path: Path) -> None:
    store = LanceDB().open(tmp_path)
    file = tmp_path / "half.lance" / left / "file" if not left else tmp_path / "half.lance" / left
    file.parent.mkdir(parents=True)
    file.write_bytes(b"half")
    assert (store.names(), store.version("half")) == ([], None)
    collection = store.create("half", SCHEMA)
    collection.upsert(records("a"))
    assert [store.names(), collection.get(["a"], ("text",)).to_pylist()] == [["half"], [{"id": "a", "text": "a"}]]
    store.drop("half")
    assert (store.names(), (tmp_path / "half.lance").exists()) == ([], False)


def test_a_removal_that_died_leaves_nothing_to_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LanceDB().open(tmp_path)
    store.create("gone", SCHEMA).upsert(records("a"))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("shutil.rmtree", _dies)
        store.drop("gone")
    assert (store.names(), store.version("gone")) == ([], None)
    store.create("gone", SCHEMA).upsert(records("b"))
    assert list(store.create("gone", SCHEMA).get(["a", "b"], ()).column("id").to_pylist()) == ["b"]
    store.drop("nothing")
    assert not (tmp_path / "dropped").exists()


def _dies(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
