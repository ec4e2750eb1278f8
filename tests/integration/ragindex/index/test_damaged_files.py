"""Files of an index, damaged: it answers as before, or makes them again and says so, or fails with an error that names
the file and a command that helps. Every file, in every way: tests/slow."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from command_line import ragindex
from damaged import DOCUMENTS, HARMS, QUESTION, Answers, Attempt, PristineIndex, tried
from made_extractions import openie

from ragindex._util import durable_files
from ragindex._util.durable_files import RepairWarning
from ragindex.errors import DamagedError, RagindexError, StaleWarning, StoreError, WorkspaceError
from ragindex.index.index import Index
from ragindex.llm.cache import CachedResponse, CallSource, SQLiteCache
from ragindex.parts.vectors.token_vectors import TokenVectors
from ragindex.plugins import registry
from ragindex.stores.lancedb.store import LanceStore


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> PristineIndex:
    return PristineIndex(tmp_path_factory.mktemp("damaged"), ("bm25(over=triples)", "dense"))


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> PristineIndex:
    """With files of parts."""
    return PristineIndex(tmp_path_factory.mktemp("rich"), ("colbert", "hipporag(mode=facts)"))


@pytest.mark.parametrize(
    ("built", "file"), [("pristine", "encoders/*/idf.npy"), ("rich", "parts/phrase_graph-*/*/hashes.json")]
)
def test_command_told_to_a_reader_helps(built: str, file: str, request: pytest.FixtureRequest) -> None:
    index_copy: PristineIndex = request.getfixturevalue(built)
    (path,) = index_copy.files(file)
    folder = index_copy.fresh()
    HARMS["cut short"](folder / path)
    failure = tried(index_copy.read, folder).error
    assert isinstance(failure, DamagedError)
    index_copy.follow(failure)
    assert tried(index_copy.read, folder) == Attempt(index_copy.before, None, [])


@pytest.mark.parametrize("harm", ["emptied", "cut short", "flipped"])
def test_no_whole_manifest(harm: str, pristine: PristineIndex) -> None:
    folder = pristine.fresh()
    for name in ("workspace.json", "workspace.copy.json"):
        HARMS[harm](folder / name)
    error = tried(pristine.read, folder).error
    assert isinstance(error, WorkspaceError)
    assert "workspace.json is damaged, and so is workspace.copy.json" in str(error)
    assert str(error).endswith("Run: ragindex index DATA --index OTHER")
    (folder / "workspace.json").write_bytes(durable_files.dump_hashed_json({"format": 1}))
    error = tried(pristine.read, folder).error
    assert isinstance(error, WorkspaceError)
    assert "has format 1, of an earlier ragindex; this one reads 5" in str(error)


@pytest.mark.parametrize("harm", ["removed", "flipped"])
def test_damaged_import_is_asked_for(harm: str, pristine: PristineIndex) -> None:
    folder = pristine.fresh()
    (path,) = pristine.files("imports/*")
    HARMS[harm](folder / path)
    assert tried(pristine.synced, folder) == Attempt(pristine.before, None, [])  # nothing is to be read from it
    failure = tried(pristine.added, folder).error
    assert isinstance(failure, DamagedError)
    assert path.name in str(failure)
    assert str(pristine.file) in str(failure)
    failed = ragindex("repair", "--index", folder)
    assert (failed.code, path.name in failed.err) == (5, True)
    pristine.follow(failure)
    assert tried(pristine.synced, folder) == Attempt(pristine.after, None, [])


def test_damaged_fit_of_a_smaller_corpus(pristine: PristineIndex) -> None:
    """The corpus has grown since the fit, by too little for another: nothing can make the same one again."""
    folder = pristine.fresh()
    pristine.added(folder)
    (path,) = pristine.files("encoders/*/projection.npy")
    HARMS["emptied"](folder / path)
    attempt = tried(pristine.synced, folder)
    assert attempt.error is None
    assert path.name in attempt.warnings[0]
    fits = sorted(fit_folder.name for fit_folder in (folder / "encoders").iterdir() if fit_folder.is_dir())
    assert (len(fits), path.parent.name in fits) == (1, False)  # nobody reads the one that was damaged
    assert attempt.answers[0] == pristine.after[0]  # it needs no fit
    assert tried(pristine.synced, folder) == Attempt(attempt.answers, None, [])


CALL = CallSource("t", 1, "p", "m", "")
ANSWER = CachedResponse("x", "stop", "", "text", 1, 0, 1, False, None, 1.0, 2.0)


@pytest.mark.parametrize("harm", ["cut short", "flipped"])
def test_broken_cache_of_calls_is_moved_away(harm: str, pristine: PristineIndex) -> None:
    folder = pristine.fresh()
    path = folder / "calls.sqlite"
    SQLiteCache(path).put("0" * 64, CALL, ANSWER)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    content = path.read_bytes()
    path.write_bytes(b"no database" + content[11:] if harm == "flipped" else content[: len(content) // 2])
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    with pytest.raises(RagindexError, match="calls.sqlite") as failure:
        SQLiteCache(path).put("1" * 64, CALL, ANSWER)
    pristine.follow(failure.value)
    assert Path(f"{path}.damaged").exists()
    assert SQLiteCache(path).get("0" * 64) is None
    assert tried(pristine.read, folder).answers == pristine.before


@pytest.mark.parametrize("harm", ["removed", "flipped"])
def test_mapped_vectors_are_made_again(harm: str, pristine: PristineIndex) -> None:
    folder = pristine.fresh()

    def mapped(of: Path) -> Answers:
        with Index.open(of, store="lancedb(mmap=true)", create=True) as workspace:
            hits = registry.scheme("dense").open(workspace).retrieve([QUESTION], 3)[0].hits
        return [[(hit.id, round(hit.score, 5)) for hit in hits]]

    first = tried(mapped, folder)
    assert first.answers == [pristine.before[1]]
    files = [path for path in (folder / "store" / "mapped").iterdir() if path.suffix == ".npy"]
    assert files
    for path in files:
        HARMS[harm](path)
    attempt = tried(mapped, folder)
    assert attempt.answers == first.answers
    assert len(attempt.warnings) == (0 if harm == "removed" else len(files))
    assert tried(mapped, folder) == Attempt(first.answers, None, [])


@pytest.mark.parametrize("kind", ["records", "coverage"])
def test_changed_byte_of_a_part_is_found(kind: str, pristine: PristineIndex) -> None:
    """LanceDB reads most changed bytes without an error."""
    folder = pristine.fresh()
    paths = [folder / path for path in pristine.files(f"store/*.{kind}.lance/data/*.lance")]
    for path in paths:
        HARMS["flipped"](path)
    index, *damaged = ragindex("doctor", "--index", folder, "--json", "-").json
    sentences = {f"{path} has changed since it was written" for path in paths}
    assert index["state"] == "damaged"
    assert {row["detail"].partition(". Run:")[0] for row in damaged if row["state"] == "damaged"} == sentences
    part = ragindex("repair", "--index", folder, "--json", "-").json["damaged"]
    assert {sentence.partition(": ")[2] for sentence in part} == sentences
    assert tried(pristine.synced, folder) == Attempt(pristine.before, None, [])
    states = [row["state"] for row in ragindex("doctor", "--index", folder, "--json", "-").json]
    assert states == ["ok", "ok"]  # of the index and the fit


def test_hashes_of_files_that_were_removed_or_are_new(pristine: PristineIndex) -> None:
    folder = pristine.fresh()
    pristine.added(folder)
    with Index.open(folder, create=True) as workspace:
        workspace.remove([DOCUMENTS[0].id])
        pristine.synced(folder)
        assert workspace.find_changes() == []
        for path in folder.glob("store/*-*.lance/data/*.lance"):
            content = path.read_bytes()
            HARMS["flipped"](path)
            assert workspace.find_changes() == [f"{path} has changed since it was written"]
            path.write_bytes(content)


def test_token_vectors_of_other_segments_are_not_encoded_again(rich: PristineIndex) -> None:
    folder = rich.fresh()
    rich.added(folder)
    (part,) = (folder / "parts").glob("token_vectors-*")
    damaged = [path.name for path in (rich.untouched / "parts" / part.name).iterdir()]
    HARMS["flipped"](part / damaged[0] / "rows.npy")
    with Index.open(folder, create=True) as workspace:
        with pytest.warns(RepairWarning, match="rows.npy"):
            workspace.build(registry.scheme("colbert"))
        assert len(workspace.open_part(TokenVectors()).ids) == len(DOCUMENTS) + 1
    assert rich.read(folder) == rich.after


def test_trouble_without_damage_removes_nothing(pristine: PristineIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer, a disk that cannot be read today: the command stops, and all stays."""
    folder = pristine.fresh()

    def away(*_: object) -> None:
        raise StoreError("The store is away.")

    with monkeypatch.context() as patch, Index.open(folder, create=True) as workspace:
        patch.setattr(LanceStore, "open", away)
        with pytest.raises(StoreError, match="The store is away"):
            workspace.repair()
    assert tried(pristine.read, folder).answers == pristine.before


@pytest.mark.parametrize("harm", ["no database", "emptied"])
def test_broken_cache_of_calls_keeps_its_log(harm: str, pristine: PristineIndex) -> None:
    """The newest answers that were paid are in the write-ahead log, not in the file."""
    folder = pristine.fresh()
    path = folder / "calls.sqlite"
    shutil.copy(_with_a_log(folder / "made.sqlite"), path)
    shutil.copy(f"{folder / 'made.sqlite'}-wal", f"{path}-wal")
    log = Path(f"{path}-wal").read_bytes()
    path.write_bytes(b"" if harm == "emptied" else b"no database" + path.read_bytes()[11:])
    assert len(log) > 0
    if harm == "emptied":  # it is not even opened: that would remove the log
        with pytest.raises(StoreError, match="is damaged: it is empty, and its log is not"):
            SQLiteCache(path).get("0" * 64)
    done = ragindex("repair", "--index", folder)
    assert "calls.sqlite.damaged" in done.out + done.err
    assert Path(f"{path}.damaged-wal").read_bytes() == log


def _with_a_log(path: Path) -> Path:
    """A database whose last row is in its log alone."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("CREATE TABLE things (name TEXT)")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.execute("INSERT INTO things VALUES ('paid')")
    connection.commit()
    contents = [path.read_bytes(), Path(f"{path}-wal").read_bytes()]
    connection.close()  # this writes the log back
    path.write_bytes(contents[0])
    Path(f"{path}-wal").write_bytes(contents[1])
    return path


def test_part_of_a_missing_plugin_stays(pristine: PristineIndex) -> None:
    folder = pristine.fresh()
    with Index.open(folder, create=True) as workspace:
        record = next(iter(workspace.manifest.parts.values()))
        gone = record.model_copy(update={"name": "gone", "part": {"name": "gone"}})
        workspace.save(parts={**workspace.manifest.parts, "gone-1": gone})
        with pytest.warns(StaleWarning, match="The part gone is not updated"):
            workspace.import_part("extractions", openie(pristine.file.with_name("fewer.json"), DOCUMENTS))
        assert workspace.manifest.imports["extractions"] != ""
        assert workspace.manifest.parts["gone-1"] == gone
