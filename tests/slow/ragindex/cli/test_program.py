"""The command line as a program of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import build, make_desk


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_desk(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Never written to."""
    return build(tmp_path_factory.mktemp("built"))


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
