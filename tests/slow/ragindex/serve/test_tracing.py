"""Traces of a real server process in MLflow's own stores: what a request leaves, how many, and that they survive."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from empty_tracker import make_tracker
from served import build_index

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import mlflow
    from mlflow.entities import SpanType, Trace

pytestmark = pytest.mark.filterwarnings("ignore")  # mlflow's dependencies deprecate one another
QUESTION = "When was the lighthouse built?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_index(tmp_path_factory.mktemp("traced") / "docs")


@contextmanager
def process(folder: Path, store: str, *options: str) -> Iterator[httpx2.Client]:
    """A client of a server process that is stopped with SIGTERM in the end."""
    command = [sys.executable, "-m", "ragindex", "serve", f"docs={folder}", "--method", "bm25", "--port", "0"]
    environment = {**os.environ, "MLFLOW_TRACKING_URI": store, "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "true"}
    running = subprocess.Popen([*command, *options], env=environment, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    try:
        address = next(line for line in running.stderr if "Serving docs at " in line).rpartition(" ")[2].strip()
        with httpx2.Client(base_url=address, timeout=60) as client:
            yield client
        running.send_signal(signal.SIGTERM)
        errors = running.communicate(timeout=60)[1]
        assert "Traceback" not in errors
    finally:
        running.kill()
        running.wait()


def traces(store: str) -> list[Trace]:
    """Oldest first."""
    spans: Any = mlflow.MlflowClient(tracking_uri=store).search_traces(
        locations=["0"], max_results=500, order_by=["timestamp_ms ASC"]
    )
    return list(spans)


def test_each_request_of_each_face_is_a_retriever_span(folder: Path, tmp_path: Path) -> None:
    store = make_tracker(tmp_path)
    with process(folder, store, "--trace", "1") as client:
        answer = client.post("/search", json={"query": QUESTION, "k": 2, "where": {"meta.team": "red"}}).json()
        client.post("/ask", json={"query": "ask"})
        client.post("/v1/vector_stores/docs/search", json={"query": "store"})
        call = {"name": "search", "arguments": {"query": "tool"}}
        answered = client.post(
            "/mcp",
            json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
            headers={"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"},
        )
        assert "error" not in answered.json(), answered.text
        assert client.get("/ready").status_code == 200
    roots = [trace.data.spans[0] for trace in traces(store)]
    assert [root.inputs["query"] for root in roots] == [QUESTION, "ask", "store", "tool"]  # no checks and warm-ups
    assert {root.span_type for root in roots} == {SpanType.RETRIEVER}
    first = roots[0]
    assert (first.name, first.inputs["k"], first.parent_id) == ("bm25", 2, None)
    assert "meta.team" in first.attributes["filter"]
    assert [(output["page_content"], output["metadata"]["doc_uri"]) for output in first.outputs] == [
        (hit["text"], hit["doc_ids"][0]) for hit in answer["hits"]
    ]
    assert first.outputs[0]["metadata"]["doc_uri"] == "lindau"


@pytest.mark.parametrize(("share", "least", "most"), [("0.5", 10, 50), ("1", 60, 60)])
def test_traces_are_a_share_of_the_requests(folder: Path, tmp_path: Path, share: str, least: int, most: int) -> None:
    store = make_tracker(tmp_path)
    with process(folder, store, "--trace", share) as client:
        for number in range(60):
            client.post("/search", json={"query": f"question {number}"})
        end = time.monotonic() + 60  # a server that stops flushes for some seconds only
        while len(traces(store)) < least and time.monotonic() < end:
            time.sleep(0.5)
    queries = [trace.data.spans[0].inputs["query"] for trace in traces(store)]
    assert least <= len(queries) <= most
    assert set(queries) <= {f"question {number}" for number in range(60)}


def test_nothing_is_traced_by_default(folder: Path, tmp_path: Path) -> None:
    with process(folder, f"sqlite:///{tmp_path}/mlflow.db") as client:
        assert client.post("/search", json={"query": QUESTION}).status_code == 200
    assert list(tmp_path.iterdir()) == []


def test_requests_are_answered_where_traces_cannot_be_written(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with process(folder, f"sqlite:///{tmp_path}/taken/mlflow.db", "--trace", "1") as client:
        for _ in range(3):
            response = client.post("/search", json={"query": QUESTION})
            assert response.status_code == 200
            assert json.loads(response.text)["hits"][0]["doc_ids"] == ["lindau"]
