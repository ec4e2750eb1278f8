"""Another process keeps the state that it reads until it is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from leased import FIVE, made, more, states

from ragindex_baselines.bm25 import BM25

pytestmark = pytest.mark.filterwarnings("ignore::ragindex.errors.StaleWarning")

CHILD = """
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
from leased import BM25, ids, opened

reader = opened(Path(sys.argv[1]))
retriever = BM25().open(reader) if sys.argv[2] == "opened" else None
print("ready", flush=True)
for line in sys.stdin:
    retriever = retriever or BM25().open(reader)
    print(" ".join(ids(retriever)), flush=True)
"""


@contextmanager
def child(tmp_path: Path, how: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", CHILD, str(tmp_path), how]
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=where) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def says(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("again\n")
    process.stdin.flush()
    return process.stdout.readline().split()


@pytest.mark.parametrize("how", ["opened", "not yet"])
def test_another_process_keeps_its_state_until_it_is_killed(tmp_path: Path, how: str) -> None:
    writer = made(tmp_path)
    with child(tmp_path, how) as reader:
        more(writer, 1, 2)
        assert says(reader) == FIVE
        more(writer, 3)
        assert says(reader) == FIVE
        assert states(writer) == 2
        reader.send_signal(signal.SIGKILL)
        reader.wait()
        writer.build(BM25())
        assert states(writer) == 1
