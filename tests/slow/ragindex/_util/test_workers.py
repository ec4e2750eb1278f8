"""Worker processes that die, or whose process does, and clusters that are found by several."""

import os
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
from sessions import live_members, wait_for_end_of_session

from ragindex._util import workers
from ragindex._util.workers import map_in_processes, use_workers
from ragindex.errors import RagindexError
from ragindex.parts.trees.soft_clusters import Clustering, soft_clusters


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two processes from the first item on."""
    monkeypatch.setattr(workers, "SERIAL_SECONDS", 0.0)
    with use_workers(2):
        yield


def _square(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


def _die(number: int) -> int:
    os._exit(9)


@pytest.mark.usefixtures("processes")
def test_a_process_that_dies_is_named_with_what_to_do() -> None:
    with pytest.raises(RagindexError, match="One of 2 worker processes died.*--workers 1, or RAGINDEX_WORKERS=1"):
        list(map_in_processes(_die, range(4)))
    assert [result for result, _ in map_in_processes(_square, range(3))] == [0, 1, 4]  # the next work has new processes


@pytest.mark.usefixtures("processes")
def test_clusters_are_those_of_one_process() -> None:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((12, 24))
    vectors = (centres[rng.integers(0, 12, 300)] + 0.3 * rng.standard_normal((300, 24))).astype(np.float32)
    clusters = soft_clusters(vectors, [1.0] * 300, 12.0, Clustering(dimensions=6))
    with use_workers(1):
        assert soft_clusters(vectors, [1.0] * 300, 12.0, Clustering(dimensions=6)) == clusters
    assert len(clusters) > 12


_PROGRAM = """
import signal, time
from ragindex._util import workers

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in jobs that a shell started in the background

def work(number):
    time.sleep(0.2)
    return number

workers.SERIAL_SECONDS = 0.0
with workers.use_workers(2):
    for number in workers.map_in_processes(work, range(10_000)):
        print(number, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="process groups")
@pytest.mark.parametrize("signalled", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_process(signalled: signal.Signals) -> None:
    """Without a guard for `__main__`: workers do not import the caller's program."""
    program = [sys.executable, "-c", _PROGRAM]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True) as run:
        assert run.stdout is not None
        run.stdout.readline()
        assert len(live_members(run.pid)) >= 3
        os.kill(run.pid, signalled)
        run.stdout.read()
    wait_for_end_of_session(run.pid)


_LARGE_ITEMS = """
from ragindex._util import workers

workers.SERIAL_SECONDS = 0.0
with workers.use_workers(2):
    print("ready", flush=True)
    list(workers.map_in_processes(len, [b"x" * 10_000_000] * 4))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="process groups")
def test_workers_end_with_a_process_that_is_killed_while_it_writes_their_first_item() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _LARGE_ITEMS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as run:
        assert run.stdout is not None
        run.stdout.readline()
        while not (started := live_members(run.pid, "LokyProcess")):
            time.sleep(0.01)
        for pid in started:
            os.kill(pid, signal.SIGSTOP)  # so that the item, larger than a pipe, stays half written
        time.sleep(2.0)
        started = live_members(run.pid, "LokyProcess")
        run.kill()
        run.wait()
        for pid in started:
            os.kill(pid, signal.SIGCONT)
        wait_for_end_of_session(run.pid)


_LEFT = """
import os
from ragindex._util import workers
workers.SERIAL_SECONDS = 0.0
with workers.use_workers(2):
    next(workers.map_in_processes(abs, range(10_000)))
    os._exit(130)  # as the second Ctrl-C does
"""


def test_a_process_that_exits_at_once_warns_of_no_leaks() -> None:
    done = subprocess.run([sys.executable, "-c", _LEFT], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
