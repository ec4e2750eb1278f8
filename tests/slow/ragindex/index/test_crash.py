"""A process with workers is stopped again and again; what comes out equals an undisturbed build.

Processes without workers that are killed: `histories.killed`.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path

import crash_child
import pytest
from sessions import wait_for_end_of_session

from ragindex.index.index import Index
from ragindex.testing import assert_same
from ragindex.types import Query, Retrieval

CHILD = Path(crash_child.__file__)
QUESTIONS = ("winter bread", "copper lamp item5", "bridge", "garden stone item36", "Number 410")


def run_child(folder: Path, kill_after: float | None, signalled: signal.Signals = signal.SIGKILL) -> float:
    """Start the work and stop it after so many seconds, or wait for its end; the seconds it worked.

    Whatever happens, no process of its session remains.
    """
    program = [sys.executable, str(CHILD), str(folder)]
    child = subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    start = time.monotonic()
    if kill_after is not None:
        time.sleep(kill_after)
        child.send_signal(signalled)
    rest = child.stdout.read()
    child.wait()
    child.stdout.close()
    assert kill_after is not None or (child.returncode, rest) == (0, "done\n")
    worked = time.monotonic() - start
    wait_for_end_of_session(child.pid)
    return worked


def answers(workspace: Index) -> list[Retrieval]:
    retriever = crash_child.TREES.open(workspace)
    return retriever.retrieve([Query(text, text) for text in QUESTIONS], 50)


@pytest.mark.skipif(sys.platform == "win32", reason="process groups")
def test_stopped_while_workers_build_trees(tmp_path: Path) -> None:
    """The main process is stopped, its workers end, and the next run goes on to what one process builds."""
    folder = tmp_path / "stopped"
    duration = run_child(tmp_path / "undisturbed", None)
    for share, signalled in ((0.3, signal.SIGINT), (0.6, signal.SIGKILL), (0.3, signal.SIGKILL), (0.5, signal.SIGINT)):
        run_child(folder, share * duration, signalled)
    run_child(folder, None)
    alone = crash_child.build(tmp_path / "alone")
    for name in ("undisturbed", "stopped"):
        workspace = Index.open(tmp_path / name, create=True)
        assert_same(answers(workspace), answers(alone), name)
        assert workspace.counts() == alone.counts()
