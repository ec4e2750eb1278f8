"""Exports that are killed, that run beside a sync, and that are read from a disk that cannot be written."""

import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import export_child
import pytest

import ragindex
from ragindex.errors import DataError
from ragindex.export.retriever_file import RETRIEVER_FILE
from ragindex.testing import DOCUMENTS

QUESTION = "Which emperor finished the Pantheon in Rome?"
FORMS = {"folder": "r", "pack": "r.ragindex"}


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGINDEX_CACHE", str(tmp_path / "cache"))
    with ragindex.open(tmp_path / "index", encoder="lsa", create=True) as built:
        built.add(DOCUMENTS)
        built.build("bm25", "dense")
    return tmp_path / "index"


def export(index: Path, out: Path, form: str, number: int) -> bool:
    """Export in a process that is killed before an operation; return whether it came to its end."""
    command = [sys.executable, export_child.__file__, str(index), str(out), form, str(number)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode == 0


def method(path: Path) -> str | None:
    """The method of what is there, which answers; None if nothing is. What is half made is neither."""
    if not (path.is_file() or (path / RETRIEVER_FILE).is_file()):
        with pytest.raises(DataError, match="no such folder|none in"):
            ragindex.load(path)
        return None
    with ragindex.load(path) as retriever:
        assert retriever.search(QUESTION, k=1)[0].id == "d22#0"
        return retriever.method


@pytest.mark.slow
@pytest.mark.parametrize("form", ["folder", "pack"])
@pytest.mark.parametrize("earlier", [False, True])
def test_a_killed_export_leaves_the_earlier_one_or_the_new_one(
    index: Path, tmp_path: Path, form: str, earlier: bool
) -> None:
    (tmp_path / "out").mkdir()
    kills = 0
    for number in range(1, 100):
        for path in (tmp_path / "out").iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if earlier:
            with ragindex.open(index, read_only=True) as opened:
                opened.export("dense", tmp_path / "out" / "r", pack=form == "pack")
        ended = export(index, tmp_path / "out" / "r", form, number)
        found = method(tmp_path / "out" / FORMS[form])
        if ended:
            assert found == "bm25"
            break
        kills += 1
        assert found in ("dense" if earlier else None, "bm25")
    else:
        raise AssertionError("no export came to its end")
    assert kills >= 3
    assert export(index, tmp_path / "out" / "r", form, 1) is False  # killed once more, with the new one there
    with ragindex.open(index, read_only=True) as opened:
        opened.export("bm25", tmp_path / "out" / "r", pack=form == "pack")
    assert method(tmp_path / "out" / FORMS[form]) == "bm25"


def test_an_export_beside_a_sync_is_one_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each state has the documents 0 to n; an export has those of one state, and counts as many."""
    monkeypatch.setenv("RAGINDEX_CACHE", str(tmp_path / "cache"))
    with ragindex.open(tmp_path / "index", encoder="lsa", create=True) as built:
        built.add([ragindex.Document("0", "", "everyone")], source="a")
        built.build("bm25")
    stop = threading.Event()

    def write() -> None:
        number = 0
        with ragindex.open(tmp_path / "index") as writer:
            while not stop.is_set():
                number += 1
                writer.add([ragindex.Document(str(number), "", f"everyone number{number}")], source="a")
                writer.build()

    writing = threading.Thread(target=write)
    writing.start()
    sizes = list[int]()
    try:
        while len(set(sizes)) < 4:  # the syncs go on meanwhile
            with ragindex.open(tmp_path / "index", read_only=True) as index:
                exported = index.export("bm25", tmp_path / f"r{len(sizes)}", pack=True)
            with ragindex.load(exported.path) as retriever:
                found = {hit.id for hit in retriever.search("everyone", k=1000)}
            sizes.append(exported.retriever.index.documents)
            assert found == {f"{one}#0" for one in range(sizes[-1])}
            assert len(sizes) < 500, "no sync has ended"
    finally:
        stop.set()
        writing.join()
    assert sizes == sorted(sizes)


READ = """
import sys
import ragindex

folder, question = sys.argv[1:]
try:
    open(f"{folder}/new", "w")
except OSError as error:
    print(error.strerror)
for name in ("r", "there", "packed.ragindex"):
    with ragindex.load(f"{folder}/{name}") as retriever:
        print(retriever.search(question, k=1)[0].id)
with ragindex.open(f"{folder}/index", read_only=True) as index:
    print(index.retriever("hybrid").search(question, k=1)[0].id)
"""


def test_a_disk_that_is_mounted_read_only_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root cannot write to such a disk either. It is mounted for one process, and gone with that."""
    monkeypatch.setenv("RAGINDEX_CACHE", str(tmp_path / "cache"))
    disk = tmp_path / "disk"
    with ragindex.open(disk / "index", encoder="lsa", create=True) as index:
        index.add(DOCUMENTS)
        index.build("hybrid")
        index.export("hybrid", disk / "r")
        index.export("hybrid", disk / "packed", pack=True)
    with ragindex.load(disk / "packed.ragindex", into=disk / "there"):
        pass
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"'
    alone = ["unshare", "--mount", "sh", "-c"]
    if shutil.which("unshare") is None or subprocess.run([*alone, mount, str(disk)], capture_output=True).returncode:
        pytest.skip("only root may mount a folder, and not everywhere")
    script = f'{mount} && exec "$1" -c "$2" "$0" "$3"'
    done = subprocess.run(
        [*alone, script, str(disk), sys.executable, READ, QUESTION], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["Read-only file system", *["d22#0"] * 4], done.stderr
