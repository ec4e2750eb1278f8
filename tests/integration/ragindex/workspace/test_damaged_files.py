"""Every file that a workspace keeps, damaged in every way: it answers as before, or makes it again and says so, or
fails with an error that names the file and a command that, when it is run, helps."""

import re
import shlex
import shutil
import sqlite3
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest
from command_line import ragindex
from made_extractions import openie, spelt

from ragindex import durable_files
from ragindex.durable_files import RepairWarning
from ragindex.encoders.vector_cache import CachedEncoder
from ragindex.errors import DamagedError, EngineError, RagindexError, StaleWarning, StoreError, WorkspaceError
from ragindex.llm.cache import CachedResponse, CallSource, SQLiteCache
from ragindex.llm.export import export_calls, import_calls
from ragindex.parts.vectors.token_vectors import TokenVectors
from ragindex.plugins import registry
from ragindex.stores.lancedb.store import LanceStore
from ragindex.types import Query
from ragindex.workspace import imported_files
from ragindex.workspace.workspace import Workspace

DOCUMENTS = (
    spelt("star", "The North Star|published by|Frederick Douglass", "The North Star|is an|abolitionist newspaper"),
    spelt("helen", "Frederick Douglass|spouse|Helen Pitts Douglass", "Helen Pitts Douglass|born in|Honeoye"),
    spelt("rose", "Rosetta Sprague|married|Nathan Sprague"),
    spelt("press", "The Liberator|is an|abolitionist newspaper"),
    spelt("sky", "Polaris|also known as|The North Star", "Polaris|lies in|Ursa Minor"),
)
MORE = spelt("honeoye", "Honeoye|lies in|New York")
METHODS = ("bm25", "dense", "colbert", "hipporag(mode=facts)", "gear.naive")
QUESTION = Query("q", "Who married the publisher of The North Star?")
Answers: TypeAlias = list[list[tuple[str, float]]]

HARMS: dict[str, Callable[[Path], object]] = {
    "removed": lambda path: path.unlink(),
    "emptied": lambda path: path.write_bytes(b""),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "flipped": lambda path: path.write_bytes(_flipped(path.read_bytes())),
}


def _flipped(content: bytes) -> bytes:
    at = len(content) * 2 // 3
    return content[:at] + bytes([content[at] ^ 0x15]) + content[at + 1 :]


@dataclass(frozen=True)
class Kept:
    """A workspace that is never touched, with a copy to be harmed; what it answers, and after one more document."""

    whole: Path
    copy: Path
    file: Path
    before: Answers
    after: Answers

    def fresh(self) -> Path:
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self.whole, self.copy)
        return self.copy

    def files(self, *patterns: str) -> Iterator[Path]:
        """Relative to the workspace; what is there to be locked holds nothing."""
        found = {path for pattern in patterns for path in self.whole.glob(pattern) if path.is_file()}
        return (path.relative_to(self.whole) for path in sorted(found) if path.stat().st_size)


def read(folder: Path, *methods: str) -> Answers:
    with Workspace.open(folder) as workspace:
        schemes = [registry.scheme(method) for method in methods or METHODS]
        found = [scheme.open(workspace).retrieve([QUESTION], 3)[0].hits for scheme in schemes]
    return [[(hit.id, round(hit.score, 5)) for hit in hits] for hits in found]


def synced(folder: Path, *methods: str) -> Answers:
    with Workspace.open(folder) as workspace:
        workspace.sync([registry.scheme(method) for method in methods or METHODS])
    return read(folder, *methods)


def added(folder: Path) -> Answers:
    with Workspace.open(folder) as workspace:
        workspace.add([MORE])
    return synced(folder)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    folder = tmp_path_factory.mktemp("damaged")
    file = openie(folder / "triples.json", (*DOCUMENTS, MORE))
    with Workspace.open(folder / "w", encoder="lsa", chunking=None) as workspace:
        workspace.import_part("extractions", file)
        workspace.add(DOCUMENTS)
    before = synced(folder / "w")
    shutil.copytree(folder / "w", folder / "more")
    return Kept(folder / "w", folder / "copy", file, before, added(folder / "more"))


@dataclass(frozen=True)
class Tried:
    """What came of it: answers, or the error; and what was said."""

    answers: Answers | None
    error: RagindexError | None
    said: list[str]


def tried(work: Callable[[Path], Answers], folder: Path) -> Tried:
    """Anything but our own errors is a traceback for whoever runs it, and fails the test."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RepairWarning)
        try:
            answers, error = work(folder), None
        except RagindexError as raised:
            answers, error = None, raised
    return Tried(answers, error, [str(one.message) for one in caught if one.category is RepairWarning])


def followed(error: RagindexError, kept: Kept) -> None:
    """Run the command that the error names."""
    found = re.search(r"Run: (ragindex .*)$", str(error))
    assert found is not None, str(error)
    _, *arguments = shlex.split(found[1])
    done = ragindex(*[{"FILE": str(kept.file)}.get(one, one) for one in arguments])
    assert done.code == 0, done


# ---------------------------------------------------------------- files of ours


OPENED_BY = {
    "encoders": "dense",
    "phrase_graph": "hipporag(mode=facts)",
    "spread_vectors": "hipporag(mode=facts)",
    "token_vectors": "colbert",
    "triple_graph": "gear.naive",
}
"""A method that reads the files of a folder."""


@pytest.mark.slow
def test_files_that_are_made_again(kept: Kept) -> None:
    """A reader of what is damaged is told the command; a sync makes it again, says so, and answers as before.

    Every file is harmed, in one way after the other; where a folder has few, each in all ways.
    """
    for kind, method in OPENED_BY.items():
        files = list(kept.files(f"{kind}/**/*", f"parts/{kind}-*/**/*"))
        harms = list(HARMS.items())
        rounds = 4 if len(files) < 4 else 1
        cases = [(path, *harms[(number + turn) % 4]) for turn in range(rounds) for number, path in enumerate(files)]
        assert len(cases) >= 4
        for path, name, harm in cases:
            folder = kept.fresh()
            harm(folder / path)
            require_mended(kept, folder, method, f"{path} {name}", path)


def require_mended(kept: Kept, folder: Path, method: str, case: str, path: Path) -> None:
    wanted = [kept.before[METHODS.index(method)]]
    first = tried(lambda at: read(at, method), folder)
    second = tried(lambda at: synced(at, method), folder)
    pointer = path.parent.name == "encoders"  # names the fit that builds use: readers have it in the manifest
    assert (first.answers == wanted) if pointer else isinstance(first.error, DamagedError), (case, first)
    assert pointer or path.name in str(first.error), (case, first)
    assert second.answers == wanted, (case, second)
    assert any(path.name in sentence and "rebuilt" in sentence for sentence in second.said), (case, second)
    assert tried(lambda at: read(at, method), folder) == Tried(wanted, None, []), case


def test_the_command_that_a_reader_is_told_helps(kept: Kept) -> None:
    for pattern in ("encoders/*/idf.npy", "parts/token_vectors-*/*/rows.npy", "parts/phrase_graph-*/*/hashes.json"):
        (path,) = kept.files(pattern)
        folder = kept.fresh()
        HARMS["cut short"](folder / path)
        failure = tried(read, folder).error
        assert failure is not None
        followed(failure, kept)
        assert tried(read, folder) == Tried(kept.before, None, []), path


@pytest.mark.slow
@pytest.mark.parametrize("harm", HARMS)
def test_a_whole_folder_of_a_part_is_made_again(harm: str, kept: Kept) -> None:
    folder = kept.fresh()
    if harm == "removed":
        shutil.rmtree(folder / "parts")
    for path in kept.files("parts/**/*") if harm != "removed" else ():
        HARMS[harm](folder / path)
    second = tried(synced, folder)
    assert second.answers == kept.before
    assert len(second.said) == 4
    assert tried(added, folder) == Tried(kept.after, None, [])


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("name", ["workspace.json", "workspace.copy.json"])
def test_the_manifest_has_a_copy(name: str, harm: str, kept: Kept) -> None:
    folder = kept.fresh()
    HARMS[harm](folder / name)
    first = tried(read, folder)
    assert first.answers == kept.before
    assert all("workspace.json is damaged or missing; its copy was read" in one for one in first.said)
    assert bool(first.said) == (name == "workspace.json")
    assert ragindex("repair", "--index", folder).code == 0
    assert (folder / name).read_bytes() == (kept.whole / "workspace.json").read_bytes()
    assert tried(read, folder) == Tried(kept.before, None, [])


@pytest.mark.parametrize("harm", ["emptied", "cut short", "flipped"])
def test_without_a_whole_manifest_there_is_one_clear_line(harm: str, kept: Kept, tmp_path: Path) -> None:
    folder = kept.fresh()
    for name in ("workspace.json", "workspace.copy.json"):
        HARMS[harm](folder / name)
    error = tried(read, folder).error
    assert isinstance(error, WorkspaceError)
    assert "workspace.json is damaged, and so is workspace.copy.json" in str(error)
    assert str(error).endswith("Run: ragindex index DATA --index OTHER")
    (folder / "workspace.json").write_bytes(durable_files.dump_hashed_json({"format": 1}))
    error = tried(read, folder).error
    assert isinstance(error, WorkspaceError)
    assert "has format 1, of an earlier ragindex; this one reads 5" in str(error)


@pytest.mark.parametrize("harm", HARMS)
def test_an_imported_file_is_asked_for_where_it_is_needed(harm: str, kept: Kept) -> None:
    folder = kept.fresh()
    (path,) = kept.files("imports/*")
    HARMS[harm](folder / path)
    assert tried(synced, folder) == Tried(kept.before, None, [])  # nothing is to be read from it
    failure = tried(added, folder).error
    assert isinstance(failure, DamagedError)
    assert path.name in str(failure)
    assert str(kept.file) in str(failure)
    failed = ragindex("repair", "--index", folder)
    assert (failed.code, path.name in failed.err) == (5, True)
    followed(failure, kept)
    assert tried(synced, folder) == Tried(kept.after, None, [])


@pytest.mark.parametrize("harm", HARMS)
def test_importing_again_does_not_trust_the_copy_that_is_there(harm: str, tmp_path: Path) -> None:
    file = openie(tmp_path / "f.json", DOCUMENTS)
    name = imported_files.store_import(file, tmp_path)
    kept = imported_files.imported_path(tmp_path, name)
    HARMS[harm](kept)
    with pytest.raises(DamagedError, match=f"{name} .* --triples /from/here"):
        imported_files.require_import(tmp_path, name, "/from/here")
    assert imported_files.store_import(file, tmp_path) == name
    assert imported_files.require_import(tmp_path, name, "").read_bytes() == file.read_bytes()


def test_a_fit_of_a_smaller_corpus_is_made_anew_and_all_with_it(kept: Kept) -> None:
    """The corpus has grown since the fit, by too little for another: nothing can make the same one again."""
    folder = kept.fresh()
    added(folder)
    (path,) = kept.files("encoders/*/projection.npy")
    HARMS["emptied"](folder / path)
    found = tried(synced, folder)
    assert found.error is None
    assert path.name in found.said[0]
    fits = sorted(one.name for one in (folder / "encoders").iterdir() if one.is_dir())
    assert (len(fits), path.parent.name in fits) == (1, False)  # nobody reads the one that was damaged
    assert found.answers is not None
    assert [id for id, _ in found.answers[0]] == [id for id, _ in kept.after[0]]  # bm25 needs no fit
    assert tried(synced, folder) == Tried(found.answers, None, [])


# ---------------------------------------------------------------- databases


@pytest.mark.parametrize("harm", HARMS)
def test_the_cache_of_vectors(harm: str, kept: Kept) -> None:
    folder = kept.fresh()
    HARMS[harm](folder / "caches" / "vectors.sqlite")
    found = tried(added, folder)
    if found.error is not None:
        assert "vectors.sqlite" in str(found.error)
        followed(found.error, kept)
        found = tried(synced, folder)
    assert found.answers == kept.after


def _every_byte(path: Path, step: int) -> Iterator[int]:
    """Places in the pages that hold records."""
    return iter(range(0, path.stat().st_size, step))


@pytest.mark.slow
def test_no_flipped_byte_of_the_cache_becomes_a_vector(tmp_path: Path) -> None:
    """Wherever it lies: the vectors are those of before, or an error names the file."""
    workspace = Workspace.open(tmp_path / "w", encoder="lsa", chunking=None)
    workspace.add(DOCUMENTS)
    workspace.sync([registry.scheme("dense")])
    encoder, path = workspace.encoder, tmp_path / "w" / "caches" / "vectors.sqlite"
    assert isinstance(encoder, CachedEncoder)
    texts = [document.text for document in DOCUMENTS]
    wanted, whole = encoder.encode_documents(texts), path.read_bytes()
    errors = list[str]()
    for at in _every_byte(path, 97):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
        for end in ("-wal", "-shm"):
            Path(f"{path}{end}").unlink(missing_ok=True)
        try:
            assert (encoder.encode_documents(texts) == wanted).all(), at
        except RagindexError as error:
            errors.append(str(error))
    assert len(errors) < 40
    assert all("vectors.sqlite" in error for error in errors)


@pytest.mark.slow
def test_no_flipped_byte_of_the_calls_becomes_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    answers = {
        f"{number:064x}": CachedResponse(f"said {number} " * 9, "stop", "", "text", 3, 0, 2, False, 0.5, 1.5, 7.0)
        for number in range(20)
    }
    cache = SQLiteCache(path)
    for key, answer in answers.items():
        cache.put(key, CallSource("task", 1, "openai", "small", "http://x"), answer)
    with cache.connection() as connection, closing(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")) as done:
        done.fetchall()
    del cache
    whole, lost, errors, again = path.read_bytes(), 0, list[str](), SQLiteCache(tmp_path / "again" / "calls.sqlite")
    for at in _every_byte(path, 211):
        other = tmp_path / f"{at}" / "calls.sqlite"
        other.parent.mkdir()
        other.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RepairWarning)
            try:
                harmed = SQLiteCache(other)
                found = {key: harmed.get(key) for key in answers}
                lost += sum(answer is None for answer in found.values())
                assert all(found[key] in (None, answer) for key, answer in answers.items()), at
                export_calls(harmed, tmp_path / "calls.jsonl")
                import_calls(again, tmp_path / "calls.jsonl")
            except RagindexError as error:
                errors.append(str(error))
    assert lost > 0
    assert all("calls.sqlite" in error for error in errors)
    assert {key: again.get(key) for key in answers} == answers


@pytest.mark.parametrize("harm", ["cut short", "flipped"])
def test_a_broken_cache_of_calls_is_moved_away_by_the_command(harm: str, kept: Kept) -> None:
    folder = kept.fresh()
    path = folder / "calls.sqlite"
    SQLiteCache(path).put(
        "0" * 64,
        CallSource("t", 1, "p", "m", ""),
        CachedResponse("x", "stop", "", "text", 1, 0, 1, False, None, 1.0, 2.0),
    )
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    content = path.read_bytes()
    path.write_bytes(b"no database" + content[11:] if harm == "flipped" else content[: len(content) // 2])
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    with pytest.raises(RagindexError, match="calls.sqlite") as failure:
        SQLiteCache(path).put(
            "1" * 64,
            CallSource("t", 1, "p", "m", ""),
            CachedResponse("y", "stop", "", "text", 1, 0, 1, False, None, 1.0, 2.0),
        )
    followed(failure.value, kept)
    assert Path(f"{path}.damaged").exists()
    assert SQLiteCache(path).get("0" * 64) is None
    assert tried(read, folder).answers == kept.before


# ---------------------------------------------------------------- mapped vectors


@pytest.mark.parametrize("harm", HARMS)
def test_mapped_vectors_are_made_again(harm: str, kept: Kept) -> None:
    folder = kept.fresh()

    def mapped(of: Path) -> Answers:
        with Workspace.open(of, store="lancedb(mmap=true)") as workspace:
            hits = registry.scheme("dense").open(workspace).retrieve([QUESTION], 3)[0].hits
        return [[(hit.id, round(hit.score, 5)) for hit in hits]]

    first = tried(mapped, folder)
    assert first.answers == [kept.before[1]]
    files = [path for path in (folder / "store" / "mapped").iterdir() if path.suffix == ".npy"]
    assert files
    for path in files:
        HARMS[harm](path)
    found = tried(mapped, folder)
    assert found.answers == first.answers
    assert len(found.said) == (0 if harm == "removed" else len(files))
    assert tried(mapped, folder) == Tried(first.answers, None, [])


# ---------------------------------------------------------------- the engine's files


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["removed", "emptied", "cut short"])
@pytest.mark.parametrize(
    "kind", ["passages-*.records", "triples-*.records", "token_vectors-*.segments", "vectors-*.coverage"]
)
def test_a_collection_of_a_part_is_made_again(kind: str, harm: str, kept: Kept) -> None:
    """LanceDB's files have no hashes: what it fails over is named with the command that makes it again."""
    for pattern in ("data/*", "_versions/*.manifest"):
        files = list(kept.files(f"store/{kind}.lance/{pattern}"))
        folder = kept.fresh()
        for path in files:
            HARMS[harm](folder / path)
        for work, wanted in ((read, kept.before), (synced, kept.before), (added, kept.after)):
            found = tried(work, folder)
            if found.error is not None:
                assert isinstance(found.error, EngineError) or "Run: ragindex" in str(found.error), found.error
                followed(found.error, kept)
                found = tried(work, folder)
            assert found.answers == wanted, (kind, pattern, harm, work.__name__, found)


@pytest.mark.slow
@pytest.mark.parametrize("harm", [*HARMS, "all removed"])
def test_lost_documents_are_named_and_never_taken_for_none(harm: str, kept: Kept, tmp_path: Path) -> None:
    folder = kept.fresh()
    if harm == "all removed":
        shutil.rmtree(folder / "store" / "documents.lance")
    else:
        for path in kept.files("store/documents.lance/_versions/*.manifest", "store/documents.lance/data/*"):
            HARMS[harm](folder / path)
    found = tried(added, folder)
    assert found.error is not None
    done = ragindex("repair", "--index", folder)
    assert (done.code, "The documents of" in done.err) == (5, True)
    assert "Run: ragindex index DATA --index" in done.err.replace("\n", " ")
    with Workspace.open(folder) as workspace:  # as that command does
        workspace.replace(DOCUMENTS, source="data")
    assert synced(folder) == kept.before
    assert tried(added, folder).error is None


# ---------------------------------------------------------------- pieces


def test_what_the_command_says_of_a_whole_workspace(kept: Kept) -> None:
    folder = kept.fresh()
    assert ragindex("repair", "--index", folder).out == "No damaged files.\n"
    assert ragindex("repair", "--index", folder, "--json", "-").json == {"damaged": [], "made": 0}
    assert read(folder) == kept.before


def test_token_vectors_of_other_segments_are_not_encoded_again(kept: Kept) -> None:
    folder = kept.fresh()
    added(folder)
    (part,) = (folder / "parts").glob("token_vectors-*")
    damaged = [one.name for one in (kept.whole / "parts" / part.name).iterdir()]
    HARMS["flipped"](part / damaged[0] / "rows.npy")
    with Workspace.open(folder) as workspace, pytest.warns(RepairWarning, match="rows.npy"):
        workspace.sync([registry.scheme("colbert")])
    assert read(folder) == kept.after
    with Workspace.open(folder) as workspace:
        assert len(workspace.open_part(TokenVectors()).ids) == len(DOCUMENTS) + 1


# ---------------------------------------------------------------- what is no damage, and what may hold something yet


def test_trouble_that_is_no_damage_removes_nothing(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer, a disk that cannot be read today: the command stops, and all stays."""
    folder = kept.fresh()

    def away(*_: object) -> None:
        raise StoreError("The store is away.")

    with monkeypatch.context() as patch, Workspace.open(folder) as workspace:
        patch.setattr(LanceStore, "open", away)
        with pytest.raises(StoreError, match="The store is away"):
            workspace.repair()
    assert tried(read, folder).answers == kept.before


def test_a_part_is_dropped_and_documents_are_moved_out_of_the_way(kept: Kept) -> None:
    """A part can be made again; of the documents what can still be read may be all that there is."""
    folder = kept.fresh()
    data = [folder / path for path in kept.files("store/documents.lance/data/*")]
    for path in data:
        HARMS["cut short"](path)
    left = sorted(path.read_bytes() for path in data)
    ragindex("repair", "--index", folder)
    (aside,) = (folder / "damaged").iterdir()
    assert sorted(path.read_bytes() for path in (aside / "data").iterdir()) == left


@pytest.mark.parametrize("harm", ["no database", "emptied"])
def test_a_broken_cache_of_calls_keeps_its_log(harm: str, kept: Kept) -> None:
    """The newest answers that were paid are in the write-ahead log, not in the file."""
    folder = kept.fresh()
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
    held = [path.read_bytes(), Path(f"{path}-wal").read_bytes()]
    connection.close()  # this writes the log back
    path.write_bytes(held[0])
    Path(f"{path}-wal").write_bytes(held[1])
    return path


def test_a_part_whose_plugin_is_gone_stays_and_stops_no_import(kept: Kept) -> None:
    folder = kept.fresh()
    with Workspace.open(folder) as workspace:
        record = next(iter(workspace.manifest.parts.values()))
        gone = record.model_copy(update={"name": "gone", "part": {"name": "gone"}})
        workspace.save(parts={**workspace.manifest.parts, "gone-1": gone})
        with pytest.warns(StaleWarning, match="The part gone is not updated"):
            workspace.import_part("extractions", openie(kept.file.with_name("fewer.json"), DOCUMENTS))
        assert workspace.manifest.imports["extractions"] != ""
        assert workspace.manifest.parts["gone-1"] == gone
