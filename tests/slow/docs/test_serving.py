"""The lines of the pages on serving, run against real servers that the pages' own commands start."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from project import ROOT

HOW_TO = ("serve-over-http.md", "judge-in-the-browser.md", "update-over-http.md")
"""Pages of docs/how-to, of which each continues with the index of the one before."""
_START_SECONDS = 500.0
_ANSWER = "The lighthouse of Lindau was built in 1856."


def read_blocks(*pages: Path) -> list[tuple[str, str]]:
    texts = "".join(page.read_text(encoding="utf-8") for page in pages)
    return re.findall(r"^```(\w+)\n(.*?)^```", texts, re.DOTALL | re.MULTILINE)


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def start_server(line: str, port: int, folder: Path, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", *line.split(), "--port", str(port)]
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return process
        assert process.poll() is None
        time.sleep(0.1)
    process.kill()
    raise AssertionError(f"no answer within {_START_SECONDS:g} s: {line}")


def stop_servers(running: "list[subprocess.Popen[bytes]]") -> None:
    for process in running:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


def run_python(code: str, port: int) -> None:
    command = [sys.executable, "-c", code.replace("8080", str(port))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert _ANSWER in done.stdout


def run_curl(line: str, port: int, environment: dict[str, str]) -> str:
    command = line.replace("8080", str(port)).replace("curl ", "curl --fail-with-body ", 1)
    done = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


def run_lines(blocks: Sequence[tuple[str, str]], folder: Path) -> list[str]:
    """Run Python and command lines of pages, beside one document, and return what `curl` printed."""
    (folder / "my-documents").mkdir()
    (folder / "my-documents" / "lindau.md").write_text(f"# Lindau\n{_ANSWER}")
    environment = dict(os.environ)
    running, answers = list["subprocess.Popen[bytes]"](), list[str]()
    port = free_port()
    try:
        for language, code in blocks:
            if language == "python":
                run_python(code, port)
            for line in code.splitlines() if language == "bash" else ():
                if line.startswith("ragindex serve "):
                    stop_servers(running)
                    port = free_port()
                    running = [start_server(line, port, folder, environment)]
                elif line.startswith("ragindex "):
                    subprocess.run([sys.executable, "-m", *line.split()], cwd=folder, check=True)
                elif match := re.match(r"export (RAGINDEX_\w+_KEY)=", line):
                    environment[match[1]] = f"{match[1]}-0123456789abcdef"
                else:
                    answers.append(run_curl(line, port, environment))
    finally:
        stop_servers(running)
    return answers


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_lines_of_how_to_pages(tmp_path: Path) -> None:
    answers = run_lines(read_blocks(*(ROOT / "docs" / "how-to" / name for name in HOW_TO)), tmp_path)
    assert all(_ANSWER in answer for answer in answers[:4])
    assert '"status":"accepted"' in answers[-3]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_lines_of_the_tutorial(tmp_path: Path) -> None:
    answers = run_lines(read_blocks(ROOT / "docs" / "tutorials" / "serve-the-winner.md"), tmp_path)
    *searches, accepted, state, update, report = answers
    assert len(searches) == 3
    assert all(_ANSWER in answer for answer in searches)
    assert '"status":"accepted"' in accepted
    assert '"id":"ferry"' in state
    for answer in (update, report):  # how far the update is by then depends on the machine
        assert json.loads(answer)["status"] in ("accepted", "running", "done"), answer
