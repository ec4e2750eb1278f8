import contextvars
import json
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from built_retriever import built_retriever
from empty_tracker import make_tracker

from ragindex import mlflow_tracing
from ragindex.errors import MissingExtraError, UsageError
from ragindex.filters import meta
from ragindex.index.index import Index
from ragindex.interfaces import Retriever
from ragindex.mlflow_tracing import TracingWarning, autolog, trace_retriever
from ragindex.types import Document, Hit, Query, Retrieval, Step, Triple

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import mlflow
    from mlflow.entities import SpanStatusCode, SpanType, Trace

# mlflow's dependencies deprecate one another
pytestmark = pytest.mark.filterwarnings("ignore", "error::ragindex.mlflow_tracing.TracingWarning")

HIT = Hit("a#0", "passage", ("a#0",), ("a",), "Slate", "Slate is a stone.", 1.5, "fixed", {"a": {"year": 2020}})
SUMMARY = Hit("s1", "summary", ("a#0", "b#0"), ("b", "a"), "", "Stones and wool.", 0.25, "fixed")
STEPS = (
    Step(1, "text", "stone", ("a#0", "b#0"), ms=2.5),
    Step(2, "triples", "slate", ("t1",), (Triple("Slate", "is", "stone"),), ((Triple("a", "b", "c"),),), ms=4.0),
)


@dataclass(frozen=True)
class Fixed:
    """Answers every query alike; raises where the text says so."""

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        for query in queries:
            if query.text == "raise":
                raise UsageError(f"The question {query.id!r} is refused.")
        return [Retrieval((HIT, SUMMARY)[:k], STEPS, ("a thought",)) for _ in queries]


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Traces go to a database of the test's own, at once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", make_tracker(tmp_path))
    monkeypatch.setenv("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING", "false")
    mlflow.tracing.reset()  # type: ignore[no-untyped-call]
    yield
    autolog(disable=True)
    mlflow.tracing.reset()  # type: ignore[no-untyped-call]


def traces() -> list[Trace]:
    """Oldest first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recorded: Any = mlflow.search_traces(return_type="list", order_by=["timestamp_ms ASC"])
    return list(recorded)


class Silent(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server in this process."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_server_behind_a_proxy_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    statuses, paths = [200, 401, 503], list[str]()

    class Proxy(Silent):
        def do_GET(self) -> None:
            self.send_response(statuses[len(paths)])
            paths.append(self.path)
            self.end_headers()

    with serving(Proxy) as address:
        monkeypatch.setenv("http_proxy", address)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        for _ in statuses:
            mlflow_tracing.check_connection("http://mlflow.invalid:5000")
    assert paths == ["http://mlflow.invalid:5000/health"] * 3


def test_a_trace_of_one_query() -> None:
    from mlflow.genai.utils.trace_utils import extract_retrieval_context_from_trace

    query = Query("q7", "What is slate?", meta("kind", "note"))
    assert trace_retriever(Fixed(), "fixed").retrieve([query], 2) == Fixed().retrieve([query], 2)
    (trace,) = traces()
    root, text, triples = trace.data.spans
    assert (root.name, root.span_type, root.parent_id) == ("fixed", SpanType.RETRIEVER, None)
    assert root.inputs == {"query": "What is slate?", "k": 2}
    assert root.status.status_code == SpanStatusCode.OK
    assert root.outputs == [
        {
            "page_content": "Slate is a stone.",
            "id": "a#0",
            "metadata": {
                "doc_uri": "a",
                "doc_ids": ["a"],
                "passage_ids": ["a#0"],
                "title": "Slate",
                "score": 1.5,
                "kind": "passage",
                "source": "fixed",
                "metadata": {"a": {"year": 2020}},
            },
        },
        {
            "page_content": "Stones and wool.",
            "id": "s1",
            "metadata": {
                "doc_uri": "b",
                "doc_ids": ["b", "a"],
                "passage_ids": ["a#0", "b#0"],
                "title": "",
                "score": 0.25,
                "kind": "summary",
                "source": "fixed",
                "metadata": {},
            },
        },
    ]
    assert root.attributes["query_id"] == "q7"
    assert root.attributes["notes"] == ["a thought"]
    assert root.attributes["filter"] == repr(query.filter)
    assert (text.parent_id, triples.parent_id) == (root.span_id, root.span_id)
    assert (text.name, text.span_type) == ("1 text", "TASK")
    assert text.inputs == {"index": "text", "query": "stone"}
    assert text.outputs == {"ids": ["a#0", "b#0"]}
    assert triples.name == "2 triples"
    assert triples.outputs == {"ids": ["t1"], "triples": [["Slate", "is", "stone"]], "paths": [[["a", "b", "c"]]]}
    assert (text.start_time_ns, text.end_time_ns) == (root.start_time_ns, root.start_time_ns + 2_500_000)
    assert (triples.start_time_ns, triples.end_time_ns) == (text.end_time_ns, (text.end_time_ns or 0) + 4_000_000)
    (chunks,) = extract_retrieval_context_from_trace(trace).values()  # what retrieval scorers read
    assert [(chunk["content"], chunk["doc_uri"]) for chunk in chunks] == [
        ("Slate is a stone.", "a"),
        ("Stones and wool.", "b"),
    ]
    assert json.loads(trace.to_json())["info"]["state"] == "OK"


def test_a_batch_is_a_trace_a_query() -> None:
    queries = [Query(f"q{number}", f"question {number}") for number in range(5)]
    trace_retriever(Fixed(), "fixed").retrieve(queries, 1)
    roots = [trace.data.spans[0] for trace in traces()]
    assert sorted(root.inputs["query"] for root in roots) == [query.text for query in queries]
    assert {root.attributes["batch_size"] for root in roots} == {5}
    ordered = sorted(roots, key=lambda root: root.inputs["query"])
    assert [span.end_time_ns for span in ordered[:-1]] == [span.start_time_ns for span in ordered[1:]]


def test_an_error_is_recorded_and_raised_on() -> None:
    with pytest.raises(UsageError, match="'q2' is refused"):
        trace_retriever(Fixed(), "fixed").retrieve([Query("q1", "slate"), Query("q2", "raise")], 1)
    roots = [trace.data.spans[0] for trace in traces()]
    assert [root.status.status_code for root in roots] == [SpanStatusCode.ERROR] * 2
    assert {root.status.description for root in roots} == {"UsageError: The question 'q2' is refused."}
    assert {root.events[0].attributes["exception.message"] for root in roots} == {"The question 'q2' is refused."}
    assert {root.inputs["query"] for root in roots} == {"slate", "raise"}


def test_below_the_span_that_is_active() -> None:
    with mlflow.start_span("application") as application:
        trace_retriever(Fixed(), "fixed").retrieve([Query("q1", "slate")], 1)
    (trace,) = traces()
    spans = {span.name: span for span in trace.data.spans}
    assert set(spans) == {"application", "fixed", "1 text", "2 triples"}
    assert spans["fixed"].parent_id == application.span_id
    assert spans["1 text"].parent_id == spans["fixed"].span_id


def test_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded in the background, as MLflow does where nobody says otherwise."""
    monkeypatch.setenv("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING", "true")
    mlflow.tracing.reset()  # type: ignore[no-untyped-call]
    retriever = trace_retriever(Fixed(), "fixed")
    with ThreadPoolExecutor(4) as pool:
        contexts = [contextvars.copy_context() for _ in range(12)]
        list(
            pool.map(
                lambda pair: pair[1].run(retriever.retrieve, [Query(f"q{pair[0]}", f"question {pair[0]}")], 1),
                enumerate(contexts),
            )
        )
    mlflow.flush_trace_async_logging()
    recorded = traces()
    assert {trace.data.spans[0].inputs["query"] for trace in recorded} == {f"question {n}" for n in range(12)}
    assert [len(trace.data.spans) for trace in recorded] == [3] * 12


def test_mlflow_decides_whether_traces_are_kept() -> None:
    retriever = trace_retriever(Fixed(), "fixed")
    mlflow.tracing.disable()
    try:
        assert retriever.retrieve([Query("q1", "slate")], 1)[0].hits == (HIT,)
    finally:
        mlflow.tracing.enable()
    assert retriever.retrieve([], 1) == []  # no query, no trace
    assert traces() == []
    retriever.retrieve([Query("q1", "slate")], 1)
    assert len(traces()) == 1


def test_metadata_that_json_cannot_hold_is_said(tmp_path: Path) -> None:
    class Odd:
        def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
            hit = Hit("a", "passage", ("a",), ("a",), "", "", 1.0, "odd", {"a": {"bytes": b"\0"}})
            return [Retrieval((hit,)) for _ in queries]

    with pytest.warns(TracingWarning, match="metadata that JSON can hold"):
        assert len(trace_retriever(Odd(), "odd").retrieve([Query("q1", "slate")], 1)[0].hits) == 1


# ---------------------------------------------------------------- autolog


@pytest.fixture
def workspace(tmp_path: Path) -> Index:
    opened = Index.open(tmp_path / "workspace", create=True)
    opened.add([Document("a", "Slate", "Slate is a stone."), Document("b", "Wool", "Wool is spun and dyed.")])
    return opened


def test_autolog_traces_what_a_workspace_opens(workspace: Index) -> None:
    before = built_retriever(workspace, "bm25")
    autolog()
    query = Query("q1", "Which stone is slate?")
    retrievals = built_retriever(workspace, "hybrid(depth=3)").retrieve([query], 2)
    before.retrieve([query], 2)
    autolog(disable=True)
    assert built_retriever(workspace, "hybrid(depth=3)").retrieve([query], 2)[0].hits == retrievals[0].hits
    (trace,) = traces()
    root, *children = trace.data.spans
    assert root.name == "hybrid(depth=3)"
    assert [document["id"] for document in root.outputs] == [hit.id for hit in retrievals[0].hits]
    assert root.outputs[0]["metadata"]["doc_uri"] == "a"
    assert [child.name for child in children] == ["1 text", "1 vectors"]
    durations = [((child.end_time_ns or 0) - child.start_time_ns) / 1e6 for child in children]
    assert durations == [pytest.approx(step.ms, abs=1e-6) for step in retrievals[0].trace]


def test_traced_twice_is_traced_once(workspace: Index) -> None:
    autolog()
    trace_retriever(built_retriever(workspace, "bm25"), "mine").retrieve([Query("q1", "slate")], 1)
    assert [trace.data.spans[0].name for trace in traces()] == ["mine"]


def test_mlflow_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, ragindex.index.index, ragindex.mlflow_tracing; print('mlflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_without_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)  # as if it were not installed
    monkeypatch.setitem(sys.modules, "mlflow.tracing", None)
    with pytest.raises(
        MissingExtraError, match=r"^Tracing needs the package mlflow, .* Run: pip install 'mlflow>=3\.1'$"
    ):
        autolog()
    plain = Fixed()
    assert mlflow_tracing.trace_if_enabled(plain, "fixed") is plain


# ---------------------------------------------------------------- a tracker that fails


def fails(match: str) -> Retriever:
    """Three retrievals are answered, with one warning, by the retriever that is returned."""
    retriever = trace_retriever(Fixed(), "fixed")
    with pytest.warns(TracingWarning, match=match) as caught:
        answers = [retriever.retrieve([Query(f"q{number}", "slate")], 2) for number in range(3)]
    assert [answer[0].hits for answer in answers] == [(HIT, SUMMARY)] * 3
    assert len(caught) == 1
    assert "Searches go on" in str(caught[0].message)
    return retriever


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as listener:  # bound but not listening: every connection is refused
        listener.bind(("127.0.0.1", 0))
        for scheme in ("http", "postgresql"):
            monkeypatch.setenv("MLFLOW_TRACKING_URI", f"{scheme}://127.0.0.1:{listener.getsockname()[1]}")
            fails(f"at {scheme}://127.0.0.1.*refused")


def test_a_server_that_knows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dumb(Silent):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_error(404)

        do_GET = do_POST  # noqa: N815  # the base class calls it so

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    mlflow.tracing.reset()  # type: ignore[no-untyped-call]
    with serving(Dumb) as address:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        fails("Failed to send trace to MLflow backend")


def test_recording_goes_on_when_the_tracker_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mlflow.db").unlink()
    (tmp_path / "mlflow.db").mkdir()
    retriever = fails("unable to open database file")
    (tmp_path / "mlflow.db").rmdir()
    make_tracker(tmp_path)
    retriever.retrieve([Query("q2", "within the pause")], 1)
    monkeypatch.setattr(mlflow_tracing._tracker, "again_at", 0.0)  # the pause is over
    retriever.retrieve([Query("q3", "after the pause")], 1)
    assert [trace.data.spans[0].inputs["query"] for trace in traces()] == ["after the pause"]
