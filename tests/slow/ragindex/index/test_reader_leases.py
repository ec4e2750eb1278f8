"""Disk space beside followers and writers that are killed, and locks of processes that cannot write a lease."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from leased import copy_template, measure, write_texts

from ragindex.index.index import Index
from ragindex.index.leases import list_readers

pytestmark = pytest.mark.filterwarnings("ignore::ragindex.errors.StaleWarning")


def says(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("again\n")
    process.stdin.flush()
    return process.stdout.readline().split()


FOLLOWER = """
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
import ragindex

index = ragindex.open(Path(sys.argv[1]), read_only=True)
print("ready", flush=True)
for line in sys.stdin:
    index = index.newest()
    print(index.retriever("bm25").search("slate", k=1)[0].doc_ids[0], flush=True)
"""
WRITER = """
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
import ragindex
from leased import write_texts

turn = int(sys.argv[2])
with ragindex.open(Path(sys.argv[1])) as index:
    index.add(write_texts(range(turn, turn + 6), turn))
    print("ready", flush=True)
    index.build()
print("built", flush=True)
"""


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=where)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_disk_under_followers_and_kills(tmp_path: Path) -> None:
    """Syncs beside a read-only reader that follows; every fourth reader and every third writer is killed."""
    folder = tmp_path / "w"
    with Index.open(folder, create=True) as writer:
        writer.add(write_texts(range(60), 0))
        writer.build("hybrid")
    reader, sizes = start(FOLLOWER, folder), []
    for turn in range(1, 13):
        writing = start(WRITER, folder, turn)
        if turn % 3 == 0:
            time.sleep(turn / 40)
            writing.kill()
        writing.communicate()
        if turn % 4 == 0:
            reader.kill()
            reader.communicate()
            reader = start(FOLLOWER, folder)
        assert len(says(reader)) == 1
        sizes.append(measure(folder))
    with Index.open(folder) as writer:
        writer.build()
        documents = list(writer.documents)
    reader.kill()
    reader.communicate()
    with Index.open(folder) as writer:
        writer.build()
    with Index.open(tmp_path / "fresh", create=True) as fresh:
        fresh.add(documents)
        fresh.build("hybrid")
    assert max(sizes) <= 3 * measure(tmp_path / "fresh")  # with what a killed writer has left
    assert measure(folder) <= 1.5 * measure(tmp_path / "fresh")
    assert list((folder / "readers").iterdir()) == []


def test_lock_without_a_lease_is_named(tmp_path: Path) -> None:
    """A process that cannot write its lease: the command and the process are found where the system lists locks."""
    copy_template(tmp_path).close()
    leases = tmp_path / "w" / "readers"
    code = "import fcntl, os, sys\nf = os.open(sys.argv[1], os.O_RDONLY)\nfcntl.flock(f, fcntl.LOCK_SH)\n"
    with start(f"{code}print('ready', flush=True)\nsys.stdin.read()", leases) as process:
        (reader,) = list_readers(tmp_path / "w")
        process.kill()
    assert (reader.process, reader.state) == (process.pid, None)
    assert reader.command.startswith("python")
    assert reader.since is not None
    assert list_readers(tmp_path / "w") == []
