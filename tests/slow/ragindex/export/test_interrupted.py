"""Exports that are killed, and that are read from a disk that cannot be written."""

import hashlib
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import export_child
import pytest

import ragindex
from ragindex.errors import DataError
from ragindex.export.retriever_file import RETRIEVER_FILE
from ragindex.testing import DOCUMENTS

QUESTION = "Which emperor finished the Pantheon in Rome?"
FORMS = {"folder": "r", "pack": "r.ragindex"}


EARLIER, LATER = (f"evidence(weights={{folder}}/{name}.json)" for name in ("earlier", "later"))


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index, and two methods whose exports have a file of their own."""
    monkeypatch.setenv("RAGINDEX_CACHE", str(tmp_path / "cache"))
    for name, weight in (("earlier", 1.0), ("later", 2.0)):
        weights = {"made_from": "the test", "bases": [], "intercept": 0.0, "weights": {"bm25": weight}}
        (tmp_path / f"{name}.json").write_text(json.dumps(weights), encoding="utf-8")
    with ragindex.open(tmp_path / "index", encoder="lsa", create=True) as built:
        built.add(DOCUMENTS)
        built.build("bm25", EARLIER.format(folder=tmp_path), LATER.format(folder=tmp_path))
    return tmp_path / "index"


def export(index: Path, method: str, out: Path, form: str) -> None:
    with ragindex.open(index, read_only=True) as opened:
        opened.export(method.format(folder=index.parent), out, pack=form == "pack")


@pytest.fixture
def exporter(index: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, export_child.__file__, str(index)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def export_and_kill(exporter: "subprocess.Popen[str]", method: str, out: Path, form: str, number: int) -> bool:
    """Export in a process that is killed before an operation; return whether it came to its end."""
    assert exporter.stdin is not None
    assert exporter.stdout is not None
    exporter.stdin.write(json.dumps([method.format(folder=out.parents[1]), str(out), form, number]) + "\n")
    exporter.stdin.flush()
    code = int(exporter.stdout.readline())
    assert code in (0, -signal.SIGKILL)
    return code == 0


def method_of(path: Path) -> str | None:
    """The method of what is there, which answers, by the weight in its own file; None if nothing is there."""
    if not (path.is_file() or (path / RETRIEVER_FILE).is_file()):
        with pytest.raises(DataError, match="no such folder|none in"):
            ragindex.load(path)
        return None
    with ragindex.load(path) as retriever:
        assert retriever.search(QUESTION, k=1)[0].id == "d22#0"
        if "weights=" not in retriever.method:
            return retriever.method
        weights = json.loads(Path(re.split("weights=['\"]?|#", retriever.method)[1]).read_text(encoding="utf-8"))
        return {1.0: EARLIER, 2.0: LATER}[weights["weights"]["bm25"]]


def files_of(folder: Path) -> dict[str, str]:
    """The files and folders with the hashes of their contents."""
    paths = sorted(folder.rglob("*"))
    return {
        str(path.relative_to(folder)): "" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
    }


@pytest.mark.parametrize(
    ("form", "earlier", "later"),
    [
        pytest.param("folder", None, LATER, id="the first, with a file of its own"),
        pytest.param("folder", EARLIER, LATER, id="over another, both with a file"),
        pytest.param("folder", EARLIER, "bm25", id="over one with a file"),
        pytest.param("pack", EARLIER, LATER, id="packed"),
    ],
)
def test_killed_export(
    index: Path, exporter: "subprocess.Popen[str]", tmp_path: Path, form: str, earlier: str | None, later: str
) -> None:
    export(index, later, tmp_path / "whole" / "r", form)
    if earlier:
        export(index, earlier, tmp_path / "before" / "r", form)
    complete, out = files_of(tmp_path / "whole"), tmp_path / "out"
    for number in range(1, 100):
        shutil.rmtree(out, ignore_errors=True)
        if earlier:
            shutil.copytree(tmp_path / "before", out)
        ended = export_and_kill(exporter, later, out / "r", form, number)
        method = method_of(out / FORMS[form])
        if ended:
            break
        assert method in (earlier, later)
        export(index, later, out / "r", form)
        assert files_of(out) == complete, f"after a kill before operation {number}"
    assert method == later
    assert files_of(out) == complete
    assert number > 5


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


def test_disk_mounted_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
