"""A real process is killed with SIGKILL at random moments of its work; what comes out equals an undisturbed build."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import crash_child
import pytest
from sessions import wait_for_end_of_session

from ragindex.interfaces import Scheme
from ragindex.testing import assert_same
from ragindex.types import Query, Retrieval
from ragindex.workspace.workspace import Workspace

pytestmark = pytest.mark.slow

CHILD = Path(crash_child.__file__)
QUESTIONS = ("winter bread", "copper lamp item5", "bridge", "garden stone item36", "Number 410")


def run_child(
    folder: Path, which: str, kill_after: float | None, *mode: str, signalled: signal.Signals = signal.SIGKILL
) -> float:
    """Start the work and stop it after so many seconds, or wait for its end; the seconds it worked.

    Whatever happens, no process of its session remains.
    """
    program = [sys.executable, str(CHILD), str(folder), which, *mode]
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


def answers(workspace: Workspace, method: Scheme = crash_child.METHOD) -> list[Retrieval]:
    retriever = method.open(workspace)
    return retriever.retrieve([Query(text, text) for text in QUESTIONS], 50)


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_while_building(seed: int, tmp_path: Path) -> None:
    whole = run_child(tmp_path / "undisturbed", "first", None)
    rng = random.Random(seed)
    for _ in range(5):
        run_child(tmp_path / "killed", "first", rng.uniform(0, whole))
    run_child(tmp_path / "killed", "first", None)
    undisturbed, killed = (Workspace.open(tmp_path / name) for name in ("undisturbed", "killed"))
    assert_same(answers(killed), answers(undisturbed), "after five kills")
    assert killed.counts() == undisturbed.counts()
    assert killed.manifest.corpus == undisturbed.manifest.corpus


def test_killed_while_adding_and_removing(tmp_path: Path) -> None:
    folder, rng = tmp_path / "workspace", random.Random(3)
    expected = answers(crash_child.bring(folder, "first"))
    whole = run_child(folder, "both", None)
    for which in ("first", "both", "first", "both", "first"):
        run_child(folder, which, rng.uniform(0, whole))
        reader = Workspace.open(folder)  # whatever happened, a reader sees a finished sync
        assert reader.counts().documents in {len(crash_child.FIRST), len(crash_child.BOTH)}
    run_child(folder, "first", None)
    assert_same(answers(Workspace.open(folder)), expected, "after additions and removals with kills")


@pytest.mark.skipif(sys.platform == "win32", reason="process groups")
@pytest.mark.parametrize("signalled", [signal.SIGINT, signal.SIGKILL])
def test_stopped_while_workers_build_trees(signalled: signal.Signals, tmp_path: Path) -> None:
    """The main process is stopped, its workers end, and the next run goes on to what one process builds."""
    folder, rng = tmp_path / "stopped", random.Random(4)
    whole = run_child(tmp_path / "undisturbed", "first", None, "workers")
    for _ in range(3):
        run_child(folder, "first", rng.uniform(0, whole), "workers", signalled=signalled)
    run_child(folder, "first", None, "workers")
    alone = crash_child.bring(tmp_path / "alone", "first", crash_child.TREES)
    for name in ("undisturbed", "stopped"):
        workspace = Workspace.open(tmp_path / name)
        assert_same(answers(workspace, crash_child.TREES), answers(alone, crash_child.TREES), name)
        assert workspace.counts() == alone.counts()
