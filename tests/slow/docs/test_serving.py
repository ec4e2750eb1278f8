"""The lines of docs/how-to/serving.md, run against a real server that the page's own commands start."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from project import ROOT

PAGE = (ROOT / "docs" / "how-to" / "serving.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def start_server(line: str, port: int, folder: Path, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", *line.split(), "--port", str(port)]
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while time.monotonic() < until:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return process
        assert process.poll() is None
        time.sleep(0.1)
    raise AssertionError(line)


def stop_servers(running: "list[subprocess.Popen[bytes]]") -> None:
    for one in running:
        one.send_signal(signal.SIGTERM)
        one.wait(timeout=30)


def run_python(code: str, port: int) -> None:
    command = [sys.executable, "-c", code.replace("8080", str(port))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "The lighthouse of Lindau was built in 1856." in done.stdout


def run_curl(line: str, port: int, environment: dict[str, str]) -> str:
    asked = line.replace("8080", str(port)).replace("curl ", "curl --fail-with-body ", 1)
    done = subprocess.run(asked, shell=True, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_lines_of_page(tmp_path: Path) -> None:
    (tmp_path / "my-documents").mkdir()
    (tmp_path / "my-documents" / "lindau.md").write_text("# Lindau\nThe lighthouse of Lindau was built in 1856.")
    environment = dict(os.environ)
    running, answers = list["subprocess.Popen[bytes]"](), list[str]()
    port = free_port()
    try:
        for language, code in BLOCKS:
            if language == "python":
                run_python(code, port)
            for line in code.splitlines() if language == "bash" else ():
                if line.startswith("ragindex serve "):
                    stop_servers(running)
                    port = free_port()
                    running = [start_server(line, port, tmp_path, environment)]
                elif line.startswith("ragindex "):
                    subprocess.run([sys.executable, "-m", *line.split()], cwd=tmp_path, check=True)
                elif match := re.match(r"export (RAGINDEX_\w+_KEY)=", line):
                    environment[match[1]] = f"{match[1]}-0123456789abcdef"
                else:
                    answers.append(run_curl(line, port, environment))
    finally:
        stop_servers(running)
    assert all("The lighthouse of Lindau was built in 1856." in answer for answer in answers[:4])
    assert '"status":"accepted"' in answers[-3]
