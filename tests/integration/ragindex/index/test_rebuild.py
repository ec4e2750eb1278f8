"""An index of an older format: refused with the command that builds it again, which carries paid work over."""

import json
import shlex
import shutil
from pathlib import Path

import pytest
from command_line import failed, ragindex
from made_language import ANSWER, ORIGIN, key

from ragindex._util import durable_files
from ragindex.errors import StoreError, UsageError, WorkspaceError
from ragindex.index import repair
from ragindex.index.index import Index
from ragindex.index.models import CALLS
from ragindex.llm.cache import SQLiteCache


def make_older(folder: Path) -> Path:
    """An index with a cached answer whose manifest says format 2."""
    (folder / "my docs").mkdir()
    (folder / "my docs" / "a.md").write_text("# Light\nThe lighthouse was built in 1931.")
    older = folder / "older"
    assert ragindex("index", folder / "my docs", "--index", older, "--methods", "dense").code == 0
    SQLiteCache(older / CALLS).put(key(1), ORIGIN, ANSWER)
    for name in ("workspace.json", "workspace.copy.json"):
        value = json.loads((older / name).read_text()) | {"format": 2}
        value.pop("sha256")
        (older / name).write_bytes(durable_files.dump_hashed_json(value))
    return older


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_older(tmp_path_factory.mktemp("template"))


@pytest.fixture
def older(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "older"))


def test_command_of_the_refusal_builds_it_again(tmp_path: Path) -> None:
    older = make_older(tmp_path)
    refused = failed(4, "search", "lighthouse", "--index", older, "--method", "dense")
    start, _, command = refused.partition("Run: ")
    assert start == (
        f"The index {older} has format 2, of an earlier ragindex; this one reads 5. Build it again; cached answers and "
        "vectors are carried over. "
    )
    words = shlex.split(command)
    assert words == ["ragindex", "index", str(older.parent / "my docs"), "--index", str(older), "--rebuild"]
    vectors = (older / "caches" / "vectors.sqlite").stat().st_size
    assert ragindex(*words[1:]).code == 0
    assert SQLiteCache(older / CALLS).get(key(1)) == ANSWER
    assert (older / "caches" / "vectors.sqlite").stat().st_size >= vectors
    assert ragindex("search", "lighthouse", "--index", older).code == 0
    assert (older.with_name("older.format2") / "workspace.json").exists()


def test_a_rebuild_that_dies_is_carried_on(older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(partial: Path, path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(durable_files, "move_durably", die)
        with pytest.raises(KeyboardInterrupt):
            repair.move_aside(older)
    assert not older.exists()
    repair.move_aside(older)
    assert SQLiteCache(older / CALLS).get(key(1)) == ANSWER
    assert not older.with_name("older.rebuilding").exists()


def test_what_is_not_older_is_left_alone(older: Path, tmp_path: Path) -> None:
    repair.move_aside(older)
    before = sorted(older.rglob("*"))
    for folder in (older, tmp_path / "nowhere"):
        with pytest.raises(UsageError, match="--rebuild is for an index of an older format"):
            repair.move_aside(folder)
    assert sorted(older.rglob("*")) == before


def test_obstacles_leave_all_in_place(older: Path) -> None:
    (older / CALLS).write_bytes(b"no database at all, but long enough to be looked at" * 100)
    with pytest.raises(StoreError, match="could not be copied"):
        repair.move_aside(older)
    older.with_name("older.format2").mkdir()
    with pytest.raises(UsageError, match=r"older\.format2 is in the way"):
        repair.move_aside(older)
    assert (older / "workspace.json").exists()


def test_index_of_format_1_is_refused(tmp_path: Path) -> None:
    """It had one source, among its settings."""
    (tmp_path / "workspace.json").write_text(json.dumps({"format": 1, "settings": {"source": "my docs"}}))
    with pytest.raises(WorkspaceError) as caught:
        Index.open(tmp_path, create=True)
    assert str(caught.value).startswith(f"The index {tmp_path} has format 1, of an earlier ragindex; this one")
    assert str(caught.value).endswith(f"Run: ragindex index 'my docs' --index {tmp_path} --rebuild")
