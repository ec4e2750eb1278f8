"""What a LanceDB collection keeps on disk and writes for one more record; and that its answers stay exact."""

from pathlib import Path

import lancedb
import numpy as np
import pytest
from lancedb.index import FTS
from made_lance import SCHEMA, records

from ragindex.errors import StoreError
from ragindex.filters import Ids, Not, Terms
from ragindex.interfaces import Collection, TextQuery, VectorQuery
from ragindex.stores.lancedb import collection as module
from ragindex.stores.lancedb import files, maintenance
from ragindex.stores.lancedb.engine import wait
from ragindex.stores.lancedb.store import LanceDB, LanceStore


def size(store: LanceStore, name: str = "some") -> int:
    return sum(path.stat().st_size for path in store.database.place(name).rglob("*") if path.is_file())


def versions(store: LanceStore, name: str = "some") -> set[int]:
    return files.list_versions(store.database.place(name))


def test_what_the_index_lacks_is_scored_by_the_same_statistics(tmp_path: Path) -> None:
    """Equal texts tie to the last bit, whichever of them the index knows: ties go by id."""
    collection = LanceDB(memory_gib=0).open(tmp_path).create("some", SCHEMA)
    collection.upsert(records({f"r{n}": "oak fen rye" if n % 2 else f"oak {n}" for n in range(9)}))
    collection.finish()
    for id in ("r1", "a", "z"):
        collection.upsert(records({id: "oak fen rye"}))
        collection.finish()
    hits = collection.search([TextQuery("fen", 9)])[0]
    assert hits.ids == ["a", "r1", "r3", "r5", "r7", "z"]
    assert len(set(hits.scores.tolist())) == 1
    alone = LanceDB(memory_gib=1).open(tmp_path / "b").create("some", SCHEMA)
    alone.upsert(collection.get(["a", *(f"r{n}" for n in range(9)), "z"], ("text", "tags", "vector")))
    assert alone.search([TextQuery("fen", 9)])[0].scores.tolist() == hits.scores.tolist()


def test_filters_of_text_searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The indexes of ids and keywords may be older than the postings."""
    monkeypatch.setattr(module, "_LOOKUPS_FROM", 1)
    for name in ("_FEW_UNLIKE", "_MANY_UNLIKE"):
        monkeypatch.setattr(maintenance, name, 0)
    collection = LanceDB(memory_gib=0).open(tmp_path).create("some", SCHEMA)
    for letter, count in (("r", 100), ("s", 8)):
        collection.upsert(records({f"{letter}{n:03d}": f"oak {letter} {n}" for n in range(count)}))
        collection.finish()
    wanted = ("r001", "s001", "s007")
    for where, ids in (
        (Ids(wanted), list(wanted)),
        (Not(Ids(wanted)), [f"r{n:03d}" for n in range(100) if n != 1] + [f"s{n:03d}" for n in (0, *range(2, 7))]),
        (Terms("tags", ("none",)), []),
    ):
        assert sorted(collection.search([TextQuery("oak", 200, (), where)])[0].ids) == ids
    assert len(collection.search([TextQuery("s", 200, (), Terms("tags", ("all",)))])[0].ids) == 8


def test_searches_by_postings_are_those_from_memory(tmp_path: Path) -> None:
    """Scores to the last bit, ties and filters, of records that the postings have, have no longer, and lack."""
    rng, texts = np.random.default_rng(0), dict[str, str]()
    beyond = LanceDB(memory_gib=0).open(tmp_path / "beyond").create("some", SCHEMA)

    def write(ids: list[str]) -> None:
        words = np.minimum(rng.zipf(1.3, (len(ids), 12)), 400)
        some = {id: " ".join(f"w{word}" for word in row) for id, row in zip(ids, words, strict=True)}
        texts.update(some)
        beyond.upsert(records(some))

    write([f"d{number:04d}" for number in range(3000)])
    beyond.finish()
    postings = files.find_text_index(files.read_version(tmp_path / "beyond/some.lance", beyond.version))
    for removed, written in (([], []), (["d0007", "d2999"], ["a", "z"]), ([], [f"d{n:04d}" for n in range(100, 400)])):
        beyond.delete(removed)
        for id in removed:
            del texts[id]
        if written:
            write(written)
        beyond.finish()
        memory = LanceDB().open(tmp_path / f"memory{len(texts)}{len(written)}").create("some", SCHEMA)
        memory.upsert(records(texts))
        memory.finish()
        for where in (None, Terms("tags", ("t1",)), Ids(("a", "d0007", "d0100", "d0500"))):
            requests = [
                TextQuery(f"w{first} w{second} w{second} w9", k, ("text", "vector"), where)
                for first, second in ((1, 2), (3, 390), (200, 201), (999, 1), (999, 998))
                for k in (0, 1, 10, 4000)
            ]
            for own, exact in zip(beyond.search(requests), memory.search(requests), strict=True):
                assert (own.ids, own.scores.tolist()) == (exact.ids, exact.scores.tolist())
                assert own.records.to_pylist() == exact.records.to_pylist()
    assert files.find_text_index(files.read_version(tmp_path / "beyond/some.lance", beyond.version)) == postings


def test_text_index_of_an_earlier_version_is_dropped(tmp_path: Path) -> None:
    collection = LanceDB(memory_gib=0).open(tmp_path).create("some", SCHEMA)
    collection.upsert(records({f"r{n}": f"oak {n}" for n in range(9)}))
    lancedb.connect(tmp_path).open_table("some").create_index("tokens", config=FTS(base_tokenizer="whitespace"))
    collection = LanceDB(memory_gib=0).open(tmp_path).create("some", SCHEMA)
    collection.finish()
    assert {index.name for index in lancedb.connect(tmp_path).open_table("some").list_indices()} == {files.ID_INDEX}
    assert collection.search([TextQuery("oak 3", 1)])[0].ids == ["r3"]


def test_bounds_of_postings_hold_when_texts_become_longer(tmp_path: Path) -> None:
    collection = LanceDB(memory_gib=0).open(tmp_path).create("some", SCHEMA)
    collection.upsert(records({f"r{n}": f"oak fen {n % 3}" for n in range(30)}))
    collection.finish()
    collection.upsert(records({f"s{n}": "rye " * 200 for n in range(3)}))
    collection.finish()
    collection.search([TextQuery("oak", 3)])
    index = collection._table.text.index  # type: ignore[attr-defined]
    weights = index.counts / (index.counts + index.saturation[index.rows])
    peaks = np.repeat(index.peaks, np.diff(index.starts))
    assert (weights <= peaks * (1 + 1e-6)).all()


def test_damaged_postings_are_an_error(tmp_path: Path) -> None:
    store = LanceDB(memory_gib=0).open(tmp_path)
    collection = store.create("some", SCHEMA)
    collection.upsert(records({f"r{n}": f"oak {n}" for n in range(9)}))
    collection.finish()
    (path,) = tmp_path.rglob(files.POSTINGS)
    content = path.read_bytes()
    rows = content.index(np.arange(9, dtype=np.int32).tobytes())
    for damaged in (content[:-20], content[:rows] + b"\xff\xff\xff\x7f" + content[rows + 4 :]):
        path.write_bytes(damaged)
        assert files.POSTINGS in str(store.find_changed_file("some"))
        with pytest.raises(StoreError, match="could not search the collection some"):
            store.open("some", collection.version).search([TextQuery("oak 0", 3)])


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[LanceStore, Collection]:
    """3,000 records beyond memory, with their index of text."""
    store = LanceDB(memory_gib=0).open(tmp_path_factory.mktemp("filled"))
    collection = store.create("some", SCHEMA)
    rng = np.random.default_rng(0)
    for start in range(0, 3000, 1000):
        words = rng.integers(0, 4000, (1000, 60))
        collection.upsert(records({f"d{start + n:04d}": " ".join(f"w{w}" for w in row) for n, row in enumerate(words)}))
    collection.finish()
    store.clean("some", set())
    return store, collection


def test_size_after_twelve_syncs(
    filled: tuple[LanceStore, Collection],
) -> None:
    store, collection = filled
    first, index = size(store), wait(collection.table.list_indices())[0].index_uuid  # type: ignore[attr-defined]
    assert collection.describe()["bytes"] == pytest.approx(first, rel=0.01)
    for number in range(12):
        before = {path for path in store.database.place("some").rglob("*") if path.is_file()}
        collection.upsert(records({f"d{number:04d}": f"w{number} changed"}))
        collection.finish()
        new = {path for path in store.database.place("some").rglob("*") if path.is_file()} - before
        assert sum(path.stat().st_size for path in new) < 20_000  # of 1.2 MB
        store.clean("some", set())
    assert wait(collection.table.list_indices())[0].index_uuid == index  # type: ignore[attr-defined]
    served = int(collection.describe()["bytes"])
    assert size(store) <= 1.02 * served
    assert served <= 1.1 * first
    assert len(versions(store)) <= 2  # and the one that the index was made from


def test_bytes_are_those_of_the_version_read(tmp_path: Path) -> None:
    store = LanceDB(memory_gib=0).open(tmp_path)
    collection = store.create("some", SCHEMA)
    collection.upsert(records({f"r{n}": "oak " * 200 for n in range(50)}))
    collection.finish()
    small = store.open("some", collection.version)
    described = small.describe()["bytes"]
    collection.upsert(records({f"s{n}": f"{n} fen " * 2000 for n in range(50)}))
    collection.finish()
    assert small.describe()["bytes"] == described
    assert int(collection.describe()["bytes"]) > 1.5 * int(described)
    assert size(store) >= int(collection.describe()["bytes"])


def test_small_fragments_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_FRAGMENTS", 6)
    store = LanceDB(memory_gib=0).open(tmp_path)
    collection = store.create("some", SCHEMA)
    collection.upsert(records({f"r{n:03d}": f"oak w{n}" for n in range(100)}))
    collection.finish()
    (large,) = files.read_version(store.database.place("some"), collection.version).fragments
    for number in range(40):
        collection.upsert(records({f"s{number:03d}": f"fen w{number}"}))
        collection.finish()
        now = files.read_version(store.database.place("some"), collection.version)
        assert len(now.fragments) <= 7
        assert large in now.fragments
    assert collection.count() == 140
    ids = collection.search([TextQuery("w3 w7", 10)])[0].ids
    assert ids == ["r003", "r007", "s003", "s007"]


def test_large_records_are_merged_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge takes several times the memory of the records that it writes at once."""
    monkeypatch.setattr(maintenance, "_FRAGMENTS", 6)
    monkeypatch.setattr(maintenance, "_BLOCK_RECORDS", 2)
    monkeypatch.setattr(maintenance, "_BLOCK_BYTES", 45_000)
    store = LanceDB(memory_gib=0).open(tmp_path)
    collection = store.create("some", SCHEMA)
    collection.upsert(records({f"large{n}": "oak " * 2_500 for n in range(20)}))
    for number in range(7):
        collection.upsert(records({f"s{number}{n}": f"w{number} " + "fen " * 2_500 for n in range(2)}))
    collection.finish()
    now = files.read_version(store.database.place("some"), collection.version)
    assert len(now.fragments) <= 7
    assert sorted(fragment.rows for fragment in now.fragments) == [2, 4, 4, 4, 20]
    assert collection.count() == 34
    assert collection.search([TextQuery("w3", 10)])[0].ids == ["s30", "s31"]


def test_records_that_were_deleted_go_from_the_disk(tmp_path: Path) -> None:
    store = LanceDB(memory_gib=0).open(tmp_path)
    collection = store.create("some", SCHEMA)
    words = np.random.default_rng(0).integers(0, 10**6, (2000, 30))
    collection.upsert(records({f"r{n:04d}": " ".join(map(str, [n, *row])) for n, row in enumerate(words)}))
    collection.finish()
    store.clean("some", set())
    before = size(store)
    collection.delete([f"r{n:04d}" for n in range(1600)])
    collection.finish()
    store.clean("some", set())
    assert size(store) < 0.4 * before
    assert collection.search([TextQuery("1650", 1)])[0].ids == ["r1650"]


def test_cleaning(tmp_path: Path) -> None:
    store = LanceDB(memory_gib=0).open(tmp_path)
    collection = store.create("some", SCHEMA)
    opened = {}
    for number in range(5):
        collection.upsert(records({f"r{number}": f"oak {number}"}))
        collection.finish()
        opened[collection.version] = (store.open("some", collection.version), number + 1)
    first, middle, *_ = opened
    store.clean("some", {middle, 999})
    assert middle in versions(store)
    assert first not in versions(store)
    with pytest.raises(StoreError, match=f"could not open the collection some at version {first}"):
        store.open("some", first)
    for version in (middle, collection.version):
        reader, count = opened[version]
        again = store.open("some", version)
        for reader_state in (reader, again):
            assert reader_state.count() == count
            assert len(reader_state.search([TextQuery("oak", 9, ("text", "vector"))])[0].ids) == count
            assert len(reader_state.search([VectorQuery(np.array([1, 1], np.float32), 9)])[0].ids) == count
    store.clean("some", set())
    assert middle not in versions(store)
    assert store.version("some") == collection.version


def test_what_a_killed_writer_left_goes(tmp_path: Path) -> None:
    store = LanceDB(memory_gib=0).open(tmp_path)
    collection = store.create("some", SCHEMA)
    collection.upsert(records({"a": "oak"}))
    left = store.database.place("some") / "data" / "00010110000001011101010098cf6843ce803c9107f4a4847f.lance"
    left.write_bytes(b"of a write that was never committed")
    collection.upsert(records({"b": "fen"}))
    collection.finish()
    store.clean("some", set())
    assert not left.exists()
    assert collection.count() == 2


@pytest.mark.parametrize("how", ["rows", "file", "manifest"])
def test_unknown_files_are_not_cleaned(tmp_path: Path, how: str) -> None:
    store = LanceDB(memory_gib=0).open(tmp_path)
    collection = store.create("some", SCHEMA)
    for id in ("a", "b"):
        collection.upsert(records({id: "oak"}))
    folder, newest = store.database.place("some"), collection.version
    if how == "file":
        next((folder / "data").glob("*.lance")).unlink()
    if how == "manifest":
        files.read_version(folder, newest - 1).path.write_bytes(b"something else" * 9)
    left = sorted(folder.rglob("*"))
    with pytest.raises(ValueError, match="manifest|which is missing|records; LanceDB counts"):
        files.remove_other_versions(folder, {newest - 1, newest}, 7 if how == "rows" else 2)
    assert sorted(folder.rglob("*")) == left


def test_cleaning_reads_only_kept_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LanceDB().open(tmp_path)
    collection = store.create("some", SCHEMA)
    for number in range(12):
        collection.upsert(records({f"r{number}": "oak"}))
    read = list[Path]()
    real = files._read_manifest
    monkeypatch.setattr(files, "_read_manifest", lambda path: read.append(path) or real(path))
    store.clean("some", {collection.version - 3})
    assert len(set(read)) == 2
    assert files.list_versions(store.database.place("some")) == {collection.version - 3, collection.version}


def test_a_mapped_file_goes_with_its_version(tmp_path: Path) -> None:
    store = LanceDB(memory_gib=1, mmap=True).open(tmp_path)
    collection = store.create("some", SCHEMA)
    collection.upsert(records({"a": "oak"}))
    collection.finish()
    assert collection.resident() is not None
    assert len(list((tmp_path / "mapped").iterdir())) == 1
    collection.upsert(records({"b": "fen"}))
    collection.finish()
    store.clean("some", set())
    assert list((tmp_path / "mapped").iterdir()) == []


def test_manifests_are_read_as_lancedb_writes_them(tmp_path: Path) -> None:
    """What the engine tells of its own: versions, records, indexes, and what they were made from."""
    store = LanceDB(memory_gib=0).open(tmp_path)
    collection = store.create("some", SCHEMA)
    collection.upsert(records({"a": "oak", "b": "fen"}))
    made_from = collection.version
    collection.finish()
    collection.delete(["a"])
    now = files.read_version(store.database.place("some"), collection.version)
    table = lancedb.connect(tmp_path).open_table("some")
    assert files.list_versions(store.database.place("some")) == {
        version["version"] for version in table.list_versions()
    }
    assert (now.number, now.rows, now.written) == (table.version, table.count_rows(), 2)
    assert {(index.name, index.index_uuid) for index in table.list_indices()} == {
        (index.name, index.uuid) for index in now.indexes.values()
    }
    assert now.indexes["id_idx"].made_from == made_from
    with pytest.raises(ValueError, match="some no longer has version 99"):
        files.read_version(store.database.place("some"), 99)


# ---------------------------------------------------------------- processes that die


@pytest.mark.parametrize("left", ["file", "_transactions/.tmp1", "_versions/.tmp1", "data/1.lance"])
def test_a_collection_without_a_version_is_none(left: str, tmp_path: Path) -> None:
    store = LanceDB().open(tmp_path)
    file = tmp_path / "half.lance" / left
    file.parent.mkdir(parents=True)
    file.write_bytes(b"half")
    assert (store.names(), store.version("half")) == ([], None)
    collection = store.create("half", SCHEMA)
    collection.upsert(records({"a": "oak"}))
    assert [store.names(), collection.get(["a"], ("text",)).to_pylist()] == [["half"], [{"id": "a", "text": "oak"}]]
    store.drop("half")
    assert (store.names(), (tmp_path / "half.lance").exists()) == ([], False)


def test_a_removal_that_died_leaves_nothing_to_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    store = LanceDB().open(tmp_path)
    store.create("gone", SCHEMA).upsert(records({"a": "oak"}))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("shutil.rmtree", die)
        store.drop("gone")
    assert (store.names(), store.version("gone")) == ([], None)
    store.create("gone", SCHEMA).upsert(records({"b": "fen"}))
    assert list(store.create("gone", SCHEMA).get(["a", "b"], ()).column("id").to_pylist()) == ["b"]
    store.drop("nothing")
    assert not (tmp_path / "dropped").exists()
