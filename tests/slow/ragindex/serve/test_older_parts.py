"""What a server process says of parts that are older than the corpus."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest
from served import build_index

import ragindex
from ragindex.serve import app


@pytest.mark.parametrize("read_only", [False, True])
def test_only_a_server_without_a_sync_warns_of_parts_that_are_older(tmp_path: Path, read_only: bool) -> None:
    folder = build_index(tmp_path / "docs")
    command = [sys.executable, "-m", "ragindex", "serve", f"docs={folder}", "--method", "bm25", "--port", "0"]
    environment = {**os.environ, "RAGINDEX_WRITE_KEY": "write-0123456789abcdef"}
    command = [*command, *(["--read-only"] if read_only else [])]
    running = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    try:
        address = next(line for line in running.stderr if "Serving docs at " in line).rpartition(" ")[2].strip()
        with ragindex.open(folder) as index:
            index.add([ragindex.Document("new", "", "a document that no part knows yet")], source="another")
        time.sleep(3 * app._CHECK_SECONDS)  # until the server has moved on to this state
        assert httpx2.get(f"{address}/documents/ferry", timeout=60).json()["status"] == "indexed"
        running.send_signal(signal.SIGTERM)
        errors = running.communicate(timeout=60)[1]
    finally:
        running.kill()
        running.wait()
    assert ("The part passages is older than the corpus." in errors) == read_only, errors
