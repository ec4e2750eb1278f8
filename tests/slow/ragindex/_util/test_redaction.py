"""A password is planted in the addresses and keys of whole comparisons, and looked for in files and output."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from command_line import ragindex
from openai_server import Fault, OpenAIServer, Received
from planted_secrets import ADDRESSES, LOGIN, PLANTED, QUOTED, find_needles, leaks, planted_desk
from rerank_server import reranking

pytestmark = pytest.mark.filterwarnings(
    "ignore",  # mlflow's dependencies deprecate one another
    "always::ragindex_eval.mlflow.tracking.TrackingWarning",
    "always::ragindex.mlflow_tracing.TracingWarning",
    "error::pytest.PytestUnhandledThreadExceptionWarning",
)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with planted_desk(tmp_path, monkeypatch) as folder:
        yield folder


@pytest.fixture
def server(desk: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """Lets in who has the user and the password that the addresses of the environment hold."""
    with OpenAIServer(key=PLANTED) as running:
        reranking(running)
        running.choose = let_in(running)
        there = running.url.replace("//", f"//me:{QUOTED}@")
        for name in ("OPENAI", "EMBEDDING", "RERANK"):
            monkeypatch.setenv(f"{name}_API_KEY", PLANTED)
            monkeypatch.setenv(f"{name}_BASE_URL", there)
        yield running


def let_in(server: OpenAIServer) -> Callable[[Received, int], Fault]:
    def choose(received: Received, _: int) -> Fault:
        assert received.headers["authorization"] == f"Basic {LOGIN}"
        return lambda _: server.routes[received.path](received.body)

    return choose


def test_commands_write_and_print_no_secret(server: OpenAIServer, desk: Path) -> None:
    rerank = "rerank(base=bm25, reranker=endpoint(model=small))"
    answer = {"answer": "slate", "passages": [1], "found": True}

    def write(body: Mapping[str, Any]) -> str:
        return json.dumps(
            {key: answer.get(key, "slate") for key in body["response_format"]["json_schema"]["schema"]["properties"]}
        )

    server.write = write
    outputs = [
        ragindex("doctor"),
        ragindex("index", "notes", "--index", "w", "--methods", "hybrid", "--encoder", "openai:small",
                 "--llm", "openai:small"),
        ragindex("compare", "notes", "--questions", "questions.csv", "--methods", f"bm25,dense,ircot,{rerank}",
                 "--encoder", "openai:small", "--llm", "openai:small", "--index", "c", "--out", "results",
                 "--read", "--trace", "--json", "result.json"),
        ragindex("report", "results"),
        ragindex("search", "slate?", "--index", "w", "--method", rerank, "--explain"),
        ragindex("ask", "slate?", "--index", "w"),
        ragindex("cache", "--index", "c"),
        ragindex("cache", "--index", "c", "--export", "calls.jsonl"),
    ]  # fmt: skip
    assert [done.code for done in outputs] == [0] * 8, [done.err for done in outputs]
    assert len(server.requests) > 5
    assert {"mlflow.db", "results", "result.json"} <= {path.name for path in desk.iterdir()}
    assert leaks(desk, *outputs) == []


CRASH = """
import sys, threading
from ragindex.cli import console, main
from ragindex.plugins.base import Plugin

__name__ = "crash"  # what fails in a user's script is reported in one line

def crash():
    try:
        raise OSError("GET " + sys.argv[1])
    except OSError as error:
        raise ZeroDivisionError(sys.argv[1]) from error

def start():
    thread = threading.Thread(target=crash)
    thread.start()
    thread.join()
    crash()

console.run_with_exit_codes(start)
"""


@pytest.mark.parametrize("how", ["a user and a password", "a key in the query", "a password that is not quoted"])
def test_unforeseen_exception(how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CRASH, ADDRESSES[how]], check=False, capture_output=True, text=True, env=os.environ
    )
    assert done.returncode == 1
    assert done.stderr.count("ZeroDivisionError: http://") == 2
    assert find_needles(done.stderr) == []
