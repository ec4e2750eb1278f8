"""A sync dies at any durable moment, the corpus changes, and the next sync answers like a fresh workspace."""

import gc
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from built_retriever import built_retriever
from letters import Letters

from ragindex._util import durable_files
from ragindex.corpus import Chunking
from ragindex.errors import StoreError
from ragindex.index.coverage import Journal, PartCoverage, unfinished_parts
from ragindex.index.index import Index
from ragindex.index.sync import _made_from, drop_part
from ragindex.plugins import registry
from ragindex.stores.lancedb.collection import LanceCollection
from ragindex.stores.lancedb.store import LanceDB
from ragindex.testing import assert_same
from ragindex.types import Document, Query, Usage
from ragindex_baselines.bm25 import BM25
from ragindex_baselines.dense import Dense

METHOD = BM25()
CUTTING = Chunking(40, 0)
FIRST = [
    Document("lamp", "", "A copper lamp in winter. Bread at the harbour."),
    Document("bread", "", "Winter bread. The bridge over the river is long and wide."),
]
SECRET = Document("secret", "", "The secret orchard by the tower. Letters of glass in a meadow.")
ASKED = [Query(text, text) for text in ("secret orchard tower", "glass letters", "winter bread", "river bridge")]


class Death(BaseException):
    """The process is gone: nothing may catch it."""


@contextmanager
def dying(kind: str, monkeypatch: pytest.MonkeyPatch, *, after: bool) -> Iterator[None]:
    """Die at the next journal entry of a kind, before or after it is written."""
    real = Journal.append

    def append(self: Journal, entry: Any, values: Any, *, durable: bool) -> None:
        if entry == kind and not after:
            raise Death
        real(self, entry, values, durable=durable)
        if entry == kind:
            raise Death

    with monkeypatch.context() as patch, pytest.raises(Death):
        patch.setattr(Journal, "append", append)
        yield


def opened(folder: Path, **settings: Any) -> Index:
    return Index.open(folder, chunking=CUTTING, encoder=Letters(), **settings, create=True)


def fresh(folder: Path, documents: list[Document]) -> Index:
    workspace = opened(folder)
    workspace.add(documents)
    workspace.build(METHOD)
    return workspace


def require_like_fresh(folder: Path, documents: list[Document]) -> None:
    """Same answers, and no record or coverage of a passage that is gone."""
    workspace, expected = opened(folder), fresh(folder.with_name("fresh"), documents)
    actual, wanted = (METHOD.open(index).retrieve(ASKED, 10) for index in (workspace, expected))
    assert_same(actual, wanted, "a fresh workspace")
    assert read_records(workspace) == read_records(expected)
    assert unfinished_parts(folder) == set()


def read_records(workspace: Index) -> dict[str, list[str]]:
    """The ids in every collection of the parts."""
    names = [name for name in workspace.store.names() if name != "documents"]
    return {name: sorted(_ids(workspace, name)) for name in names}


def _ids(workspace: Index, name: str) -> Iterator[str]:
    version = workspace.store.version(name)
    assert version is not None
    for batch in workspace.store.open(name, version).scan(()):
        yield from batch.column("id").to_pylist()


def test_damaged_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = fresh(tmp_path / "workspace", FIRST)
    workspace.add([SECRET])
    with dying("cover", monkeypatch, after=False):
        workspace.build(METHOD)
    for file in (tmp_path / "workspace" / "syncing").iterdir():
        file.write_bytes(b'["begin"\n' + file.read_bytes())
    workspace.remove(["secret"])
    opened(tmp_path / "workspace").build(METHOD)
    require_like_fresh(tmp_path / "workspace", FIRST)


def test_an_entry_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    journal = Journal.of(tmp_path, "part")
    journal.start(set())
    journal.append("begin", {"ids": ["a", "\udc80"]}, durable=True)
    with journal.path.open("ab") as file:
        file.write(b'["cover", {"ids": ["a"')
    assert list(journal.entries()) == [("begin", {"ids": ["a", "\udc80"]})]
    journal.start({"b", "a"})
    assert list(journal.entries()) == [("begin", {"ids": ["a", "b"]})]
    assert unfinished_parts(tmp_path) == {"part"}
    journal.remove()
    assert (list(journal.entries()), unfinished_parts(tmp_path)) == ([], set())


def test_a_part_that_was_begun_and_abandoned_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = opened(tmp_path)
    workspace.add(FIRST)
    with dying("cover", monkeypatch, after=False):
        workspace.build(Dense())
    workspace = opened(tmp_path)
    workspace.build(METHOD)
    (abandoned,) = workspace.manifest.outdated
    monkeypatch.setattr("ragindex.index.leases._KEEP_BEGUN", -1.0)
    workspace.add([SECRET])
    workspace.build(METHOD)
    remaining = {name.rpartition(".")[0] for name in workspace.store.names()}
    assert (remaining, workspace.manifest.outdated) == ({"", *workspace.manifest.parts}, {})
    assert abandoned not in remaining
    assert unfinished_parts(tmp_path) == set()


def test_a_dropped_part_loses_its_coverage_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its other collections are called: with coverage and without them it would be taken for whole."""
    workspace = fresh(tmp_path, FIRST)
    dropped = list[str]()
    monkeypatch.setattr(type(workspace.store), "drop", lambda self, name: dropped.append(name))
    drop_part(workspace, "KEY", ["KEY.aliases", "KEY.coverage", "KEY.records"])
    assert dropped == ["KEY.coverage", "KEY.aliases", "KEY.records"]


def test_new_index_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    workspace = Index.open(tmp_path, create=True)
    workspace.add(FIRST)
    assert len(built_retriever(workspace, "bm25").retrieve([Query("q", "lamp")], 1)[0].hits) == 1


def test_reading_the_documents_writes_nothing(tmp_path: Path) -> None:
    workspace = Index.open(tmp_path, create=True)
    before = sorted((str(path), path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    with workspace.store.lease("somebody else"):
        assert list(Index.open(tmp_path, create=True).documents) == []
    after = sorted((str(path), path.stat().st_mtime_ns) for path in tmp_path.rglob("*") if "writer" not in path.name)
    assert [path for path in after if path not in before and Path(path[0]).is_file()] == []
    assert workspace.store.version("documents") == workspace.manifest.documents_version


def covered(tmp_path: Path, *, shares: bool) -> tuple[PartCoverage, Callable[[], PartCoverage]]:
    store = LanceDB().open(tmp_path / "store")

    def again() -> PartCoverage:
        return PartCoverage.open(store, "part", Journal.of(tmp_path, "part"), shares=shares)

    return again(), again


def rows(coverage: PartCoverage) -> dict[str, str]:
    table = coverage.stored
    return dict(zip(table.column("id").to_pylist(), table.column("revision").to_pylist(), strict=True))


@pytest.mark.parametrize("flushed", [False, True])
def test_coverage_is_read_back(flushed: bool, tmp_path: Path) -> None:
    coverage, again = covered(tmp_path, shares=True)
    coverage.cover(["a", "b", "c"], ["r1", "r2", "r3"], Usage(3.0, 6, 9, 0.75))
    coverage.touch(["b", "nobody"])
    coverage.forget(["c"])
    coverage.begin(["d", "a"])
    if flushed:
        coverage.flush()
    back = again()
    assert rows(back) == rows(coverage) == {"a": "", "b": "r2", "d": ""}
    assert back.outputs.sort_by("id").equals(coverage.outputs.sort_by("id"))
    assert back.cost() == coverage.cost() == Usage(2.0, 4, 6, 0.5)
    back.forget(["a", "d"])
    assert rows(again()) == {"b": "r2"}


def test_output_revisions_never_repeat(tmp_path: Path) -> None:
    coverage, again = covered(tmp_path, shares=True)
    coverage.cover(["a"], ["r"], Usage())
    outputs = {coverage.outputs.column("revision")[0].as_py()}
    coverage.touch(["a"])
    outputs.add(coverage.outputs.column("revision")[0].as_py())
    coverage.forget(["a"])
    later = again()
    later.cover(["a"], ["r"], Usage())
    outputs.add(later.outputs.column("revision")[0].as_py())
    assert len(outputs) == 3


def test_few_writes_for_many_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write to an engine costs a pass over the collection: batches times passages, if each batch were written."""
    writes = list[int]()
    real = LanceCollection.upsert
    monkeypatch.setattr(LanceCollection, "upsert", lambda self, batch: (writes.append(len(batch)), real(self, batch)))
    monkeypatch.setattr("ragindex.index.coverage._PENDING", 64)
    coverage, again = covered(tmp_path, shares=False)
    for start in range(0, 1_000, 10):
        ids = [f"p{number}" for number in range(start, start + 10)]
        coverage.begin(ids)
        coverage.cover(ids, ids, Usage())
    coverage.flush()
    assert (len(again().stored), sum(writes)) == (1_000, 1_000)
    assert len(writes) < 20
    before = json.dumps(writes)
    again()
    assert json.dumps(writes) == before


@contextmanager
def dying_at(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Die before the file `name` of the workspace is replaced."""
    real = durable_files.write_file

    def write(path: Path, content: bytes) -> None:
        if path.name == name:
            raise Death
        real(path, content)

    with monkeypatch.context() as patch, pytest.raises(Death):
        patch.setattr(durable_files, "write_file", write)
        yield
    gc.collect()  # what died here holds its lease no more


def test_manifest_copy_before_cleaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dead between the two, then while cleaning: what the copy names is still there, and is read where it must be."""
    small = LanceDB(memory_gib=0)
    workspace = fresh(tmp_path, FIRST)
    expected = METHOD.open(workspace).retrieve(ASKED, 10)
    workspace.close()
    del workspace
    with dying_at("workspace.copy.json", monkeypatch):
        opened(tmp_path, store=small).build(METHOD)  # finishes every collection again
    manifest, copy = (tmp_path / name for name in ("workspace.json", "workspace.copy.json"))
    assert manifest.read_bytes() != copy.read_bytes()
    with dying_at("workspace.json", monkeypatch):  # after it has cleaned
        opened(tmp_path, store=small).build(METHOD)
    assert manifest.read_bytes() == copy.read_bytes()
    manifest.write_bytes(b"")
    with pytest.warns(durable_files.RepairWarning, match="its copy was read"):
        retrievals = METHOD.open(opened(tmp_path, store=small)).retrieve(ASKED, 10)
    assert_same(retrievals, expected, "read by the copy")


def test_dead_before_cleaning_the_next_sync_cleans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = fresh(tmp_path, FIRST)
    workspace.add([SECRET])

    def die(*_: object) -> None:
        raise Death

    with monkeypatch.context() as patch, pytest.raises(Death):
        patch.setattr("ragindex.index.sync.remove_unread", die)
        workspace.build(METHOD)
    workspace.close()
    del workspace
    gc.collect()  # what died here holds its lease no more
    assert max(map(len, _versions(tmp_path).values())) > 1
    again = opened(tmp_path)
    assert again.manifest.leftover
    again.build(METHOD)
    assert (set(map(len, _versions(tmp_path).values())), again.manifest.leftover) == ({1}, False)


def _versions(folder: Path) -> dict[str, list[str]]:
    tables = (folder / "store").glob("*.lance")
    return {table.stem: [path.stem for path in (table / "_versions").glob("*.manifest")] for table in tables}


def test_derived_parts_are_outdated(tmp_path: Path) -> None:
    """Another encoder fit replaces the vectors, and with them what is made from them, whoever asks for it."""
    workspace = Index.open(tmp_path, encoder="lsa:2", chunking=None, create=True)
    workspace.add(FIRST)
    workspace.build(Dense(), registry.scheme("raptor"))
    built_keys = {record.name: key for key, record in workspace.manifest.parts.items()}
    outdated = {built_keys["vectors"]}
    assert _made_from(outdated, workspace.manifest.parts) == {
        key for key, record in workspace.manifest.parts.items() if not outdated.isdisjoint(record.inputs)
    }
    workspace.add([Document(f"new{n}", "", f"Something else {n} of winter bread.") for n in range(8)])
    workspace.build(Dense())
    keys = set(workspace.manifest.parts)
    assert all(set(record.inputs) <= keys for record in workspace.manifest.parts.values())


def test_rebuilt_collection_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions begin at 1 again: a half-made collection passes the number that the reader is pinned to."""
    workspace = fresh(tmp_path, [*FIRST, SECRET])
    reader = opened(tmp_path)
    monkeypatch.setattr("ragindex.index.sync._BATCH", 1)
    key = next(key for key, record in workspace.manifest.parts.items() if record.name == "passages")
    workspace.store.drop(f"{key}.records")
    with dying("cover", monkeypatch, after=False):
        workspace.build(METHOD)
    name = f"{key}.records"
    pinned = reader.manifest.parts[key].collections["records"]
    while (workspace.store.version(name) or 0) < pinned:
        workspace.store.create(name, workspace.store.open(name, 1).schema).delete(["nobody"])
    for late in (reader, opened(tmp_path)):
        with pytest.raises(StoreError, match="has been rebuilt since this index was opened"):
            METHOD.open(late).retrieve(ASKED, 10)
    opened(tmp_path).build(METHOD)
    require_like_fresh(tmp_path, [*FIRST, SECRET])


def test_lost_documents_indexed_again(tmp_path: Path) -> None:
    """The collection's version has the same number as that of the one that was lost."""
    workspace = opened(tmp_path / "workspace")
    workspace.replace([*FIRST, SECRET], source="data")
    workspace.build(METHOD)
    before = workspace.store.version("documents")
    workspace.store.drop("documents")
    workspace = opened(tmp_path / "workspace")
    with pytest.raises(StoreError, match="has lost its documents. Run: ragindex repair"):
        workspace.replace(FIRST, source="data")
    assert len(workspace.repair().lost) == 1
    workspace.replace(FIRST, source="data")
    assert workspace.store.version("documents") == before
    opened(tmp_path / "workspace").build(METHOD)
    require_like_fresh(tmp_path / "workspace", FIRST)
