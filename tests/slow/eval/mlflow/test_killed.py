"""A comparison whose process is killed while MLflow shows it."""

import signal
import subprocess
import sys
from pathlib import Path

from command_line import QUESTIONS, TEXTS, ragindex, write
from mlflow_database import all_runs

COMMAND = ("compare", "notes", "--questions", "questions.csv", "--methods", "bm25,dense", "--k", "1")


def kill_after_bm25() -> None:
    """Run the comparison in a process that is killed when bm25 has answered."""
    code = (
        "import os, signal, sys\n"
        "from ragindex.cli.main import run_cli\n"
        "from ragindex_eval.mlflow import live as mlflow_live\n"
        "watch = mlflow_live.LiveRuns.watch\n"
        "def die(live, number, dataset, method):\n"
        "    watch(live, number, dataset, method)\n"
        "    if method is not None:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "mlflow_live.LiveRuns.watch = die\n"
        f"sys.argv = {['ragindex', *COMMAND]!r}\n"
        "run_cli()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_next_run_takes_over_what_a_killed_process_left(uri: str) -> None:
    write(Path("notes"), TEXTS)
    write(Path(), {"questions.csv": QUESTIONS})
    kill_after_bm25()
    left = {run.info.run_id: run.info.status for run in all_runs(uri)}
    assert sorted(left.values()) == ["FINISHED", "RUNNING"]
    assert ragindex(*COMMAND).code == 0
    statuses = {run.info.run_id: run.info.status for run in all_runs(uri)}
    assert set(statuses.values()) == {"FINISHED"}
    assert left.keys() <= statuses.keys()
