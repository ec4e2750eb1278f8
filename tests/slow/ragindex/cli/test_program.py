"""The command line when it is killed, and as a program of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import build, make_desk, ragindex


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_desk(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Never written to."""
    return build(tmp_path_factory.mktemp("built"))


_KILLED = """
import os, signal
from ragindex.cli import main
from ragindex_eval.run import answers

answer_all = answers.answer_all
def killed(retriever, queries, k, path, asking, **more):
    if asking.label == "hybrid":
        os.kill(os.getpid(), signal.SIGKILL)
    return answer_all(retriever, queries, k, path, asking, **more)
answers.answer_all = killed
main.run_cli()
"""


def test_a_comparison_that_was_killed_goes_on() -> None:
    arguments = ("compare", "notes", "--questions", "questions.csv", "--methods", "bm25,hybrid", "--json", "-")
    child = subprocess.run([sys.executable, "-c", _KILLED, *arguments], capture_output=True, timeout=60, check=False)
    assert (child.returncode, child.stdout) == (-signal.SIGKILL, b"")
    (path,) = Path("ragindex-workspaces/notes/runs").rglob("answers-20.jsonl")
    before = path.stat().st_mtime_ns
    value = ragindex(*arguments).json
    assert path.stat().st_mtime_ns == before
    assert [(method["label"], method["metrics"]["R@5"]) for method in value["methods"]] == [("bm25", 1), ("hybrid", 1)]


def test_the_program_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "ragindex", "methods"], capture_output=True, timeout=60, check=True)
    assert b"bm25" in done.stdout
    assert done.stderr == b""


def test_the_program_itself_where_nothing_is_utf_8(built: Path) -> None:
    program = [sys.executable, "-m", "ragindex.cli.main"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = subprocess.run(
        [*program, "index", "--index", built, "--methods", "bm25"],
        capture_output=True,
        env=environment,
        timeout=60,
        check=True,
    )
    assert shown.stdout.splitlines()[-1].startswith(b"Next: ragindex search '\\u2026' --index ")
    assert shown.stderr == b""
    refused = subprocess.run(
        [*program, "methods", "bm52\u00e9"], capture_output=True, env=environment, timeout=60, check=False
    )
    assert refused.returncode == 2
    assert refused.stderr == b"error: No method is called 'bm52\\xe9'. Did you mean bm25?\n"
