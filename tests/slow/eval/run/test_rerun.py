"""A rerun in a process of its own, which imports little and records nothing."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from command_line import QUESTIONS, TEXTS, write
from empty_tracker import make_tracker


def test_rerun_imports_neither_engine_nor_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "notes", TEXTS)
    write(tmp_path, {"questions.csv": QUESTIONS})
    command = [sys.executable, "-m", "ragindex", "compare", "notes", "--k", "1,3"]
    command += ["--questions", "questions.csv", "--methods", "bm25,hybrid"]
    environment = {**os.environ, "MLFLOW_TRACKING_URI": make_tracker(tmp_path)}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    recorded = count_runs()
    assert recorded["runs"] == 3
    code = (
        "import runpy, sys\n"
        f"sys.argv = {['ragindex', *command[3:]]!r}\n"
        "try:\n    runpy.run_module('ragindex', run_name='__main__')\n"
        "except SystemExit:\n    pass\n"
        "late = {'mlflow', 'lancedb', 'pandas', 'sklearn', 'torch', 'matplotlib'} & sys.modules.keys()\n"
        "print(sorted(late), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    assert "unchanged       since" in done.stdout
    assert done.stderr == "[]\n"
    assert count_runs() == recorded
    make_tracker(tmp_path)
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert "unchanged       since" in done.stdout
    # A store that lacks the runs gets them, without the durations of the two methods, which the files do not have.
    assert count_runs() == {**recorded, "metrics": recorded["metrics"] - 2}


def count_runs() -> dict[str, int]:
    with closing(sqlite3.connect("mlflow.db")) as database:
        tables = ("runs", "metrics", "params", "tags", "inputs")
        return {table: database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}
