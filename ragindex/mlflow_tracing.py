"""Retrievals as MLflow traces: one RETRIEVER span per query, with its documents, and a child span per step.

`autolog()` enables tracing for every retriever opened afterwards, `trace_retriever(retriever, name)` for one. MLflow's
own settings decide where the traces go and which are kept: `mlflow.set_tracking_uri`, `mlflow.set_experiment`,
`mlflow.tracing.disable`, MLFLOW_TRACE_SAMPLING_RATIO. MLflow takes seconds to import, so it is imported only when
tracing is enabled.
"""

import json
import logging
import os
import socket
import sqlite3
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from ragindex._util.canonical import metadata_json
from ragindex._util.distribution import require_module
from ragindex._util.redaction import bare_address, hide_secrets
from ragindex.errors import RagindexError
from ragindex.interfaces import Retriever
from ragindex.types import Hit, Query, Retrieval, Step

if TYPE_CHECKING:
    from mlflow.entities import Document, LiveSpan

# MLflow catches errors of a trace and logs them to these loggers, once per trace.
_LOGGERS = ("mlflow.tracing.fluent", "mlflow.tracing.export.mlflow_v3", "mlflow.tracing.export.async_export_queue")
_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
_PAUSE = 60.0  # seconds without recording after a failure
_LONGEST_REASON = 300
_ANSWER_SECONDS = 5  # MLflow itself waits for minutes, several times


class TracingWarning(UserWarning):
    """Retrievals could not be recorded as MLflow traces."""


def autolog(*, disable: bool = False) -> None:
    """Trace every retriever that an index opens from now on; with `disable`, stop tracing new retrievers.

    Open retrievers keep their setting; `mlflow.tracing.disable()` stops all tracing. Raises MissingExtraError if MLflow
    is not installed.
    """
    if not disable:
        _prepare()
    _tracker.on = not disable


def trace_retriever(retriever: Retriever, name: str) -> Retriever:
    """Wrap a retriever so that each query is recorded as an MLflow trace called `name`; the results stay the same.

    Inside an active MLflow span (`@mlflow.trace`, `mlflow.start_span`), queries become child spans of it instead. The
    queries of a batch share its time evenly, one after another, as the steps of a `Retrieval` do. An error is recorded
    on each query's span and raised again. If recording fails, one TracingWarning is issued and retrieval goes on.
    Raises MissingExtraError if MLflow is not installed.
    """
    _prepare()
    inner = retriever.retriever if isinstance(retriever, _TracedRetriever) else retriever
    return _TracedRetriever(inner, name)


def trace_if_enabled(retriever: Retriever, name: str) -> Retriever:
    """Return `trace_retriever(retriever, name)` if `autolog()` is on, else the retriever itself."""
    return trace_retriever(retriever, name) if _tracker.on else retriever


@contextmanager
def without_traces() -> Iterator[None]:
    """Record no queries inside, and in threads that copy the context: those of checks and warm-ups."""
    token = _unrecorded.set(True)
    try:
        yield
    finally:
        _unrecorded.reset(token)


_unrecorded: ContextVar[bool] = ContextVar("ragindex_unrecorded", default=False)


@dataclass(frozen=True, slots=True)
class _TracedRetriever:
    """A retriever that records its queries as MLflow traces; made by `trace_retriever`."""

    retriever: Retriever
    name: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Retrieve, then record the spans, so that recording does not count as retrieval time."""
        start, began = time.time_ns(), time.perf_counter_ns()
        try:
            retrievals = self.retriever.retrieve(queries, k)
        except Exception as error:
            self._record(queries, [error] * len(queries), k, start, time.perf_counter_ns() - began)
            raise
        self._record(queries, retrievals, k, start, time.perf_counter_ns() - began)
        return retrievals

    def _record(
        self, queries: Sequence[Query], outcomes: Sequence[Retrieval | Exception], k: int, start: int, nanoseconds: int
    ) -> None:
        if not queries or _unrecorded.get() or not _tracker.ready():
            return
        share = nanoseconds // len(queries)
        try:
            for number, (query, outcome) in enumerate(zip(queries, outcomes, strict=False)):
                at = start + number * share
                span = _start_span(self.name, query, k, at, batch=len(queries))
                _end_span(span, outcome, at, share)
        except _tracker_errors() as error:
            _tracker.failed(str(error) or type(error).__name__)


# ---------------------------------------------------------------- spans


def _start_span(name: str, query: Query, k: int, at: int, batch: int) -> Any:
    """Start a LiveSpan. MLflow returns a NoOpSpan if tracing is off, the trace is not sampled, or starting fails."""
    import mlflow
    from mlflow.entities import SpanType

    attributes: dict[str, Any] = {"query_id": query.id, "batch_size": batch}
    if query.filter is not None:
        attributes["filter"] = repr(query.filter)
    return mlflow.start_span_no_context(
        name,
        span_type=SpanType.RETRIEVER,
        parent_span=mlflow.get_current_active_span(),
        inputs={"query": query.text, "k": k},
        attributes=attributes,
        start_time_ns=at,
    )


def _end_span(span: Any, outcome: Retrieval | Exception, at: int, nanoseconds: int) -> None:
    from mlflow.entities.span import NoOpSpan

    if isinstance(span, NoOpSpan):
        return
    try:
        if isinstance(outcome, Exception):
            _record_error(span, outcome)
        else:
            start = at
            for step in outcome.trace:
                start = _record_step(span, step, start)
            if outcome.notes:
                span.set_attribute("notes", list(outcome.notes))
            span.set_outputs([_to_document(hit) for hit in outcome.hits])
    finally:
        span.end(end_time_ns=at + nanoseconds)


def _record_error(span: "LiveSpan", error: Exception) -> None:
    """Record an error like `record_exception`, but without secrets: errors of clients quote addresses."""
    from mlflow.entities import SpanEvent, SpanStatus, SpanStatusCode

    event = SpanEvent.from_exception(error)
    event.attributes = {name: hide_secrets(str(value)) for name, value in event.attributes.items()}
    span.add_event(event)
    status = SpanStatus(SpanStatusCode.ERROR, hide_secrets(f"{type(error).__name__}: {error}"))
    span.set_status(status)  # type: ignore[arg-type]  # MLflow's documentation allows a SpanStatus


def _record_step(parent: "LiveSpan", step: Step, at: int) -> int:
    """Record one step and return its end time in ns. Steps have no start time: each starts where the last one ended."""
    import mlflow

    until = at + round(step.ms * 1e6)
    attributes: dict[str, Any] = {"iteration": step.iteration, "ms": step.ms}
    if step.input_tokens or step.output_tokens:
        attributes |= {"input_tokens": step.input_tokens, "output_tokens": step.output_tokens}
    span = mlflow.start_span_no_context(
        f"{step.iteration} {step.index}",
        span_type="TASK",  # not RETRIEVER, because its documents would be counted twice
        parent_span=parent,
        inputs={"index": step.index, "query": step.query},
        attributes=attributes,
        start_time_ns=at,
    )
    outputs: dict[str, Any] = {"ids": list(step.ids)}
    if step.triples:
        outputs["triples"] = [[fact.subject, fact.predicate, fact.object] for fact in step.triples]
    if step.paths:
        outputs["paths"] = [[[fact.subject, fact.predicate, fact.object] for fact in path] for path in step.paths]
    if step.scores:
        outputs["scores"] = list(step.scores)
    if step.note:
        outputs["note"] = step.note
    span.end(outputs=outputs, end_time_ns=until)
    return until


def _to_document(hit: Hit) -> "Document":
    """Convert a hit into the Document that MLflow shows and its scorers read; `doc_uri` is its first document id."""
    from mlflow.entities import Document

    metadata = {
        "doc_uri": hit.doc_ids[0] if hit.doc_ids else hit.id,
        "doc_ids": list(hit.doc_ids),
        "passage_ids": list(hit.passage_ids),
        "title": hit.title,
        "score": float(hit.score),
        "kind": hit.kind,
        "source": hit.source,
        "metadata": {id: json.loads(metadata_json(value)) for id, value in hit.metadata.items()},
    }
    return Document(page_content=hit.text, metadata=metadata, id=hit.id)


# ---------------------------------------------------------------- tracker failures


@dataclass(slots=True)
class _Tracker:
    """The state of the MLflow tracker, shared by all threads like MLflow's own settings."""

    on: bool = False
    warned: bool = False
    works_at: str = ""
    again_at: float = 0.0
    lock: Lock = field(default_factory=Lock)

    def ready(self) -> bool:
        """Return whether to record: not while paused after a failure, and not if the tracker is unreachable."""
        import mlflow

        if time.monotonic() < self.again_at:
            return False
        uri = mlflow.get_tracking_uri()
        if uri == self.works_at:
            return True
        try:
            check_connection(uri)
        except (OSError, ValueError, sqlite3.Error) as error:
            self.failed(str(error))
            return False
        self.works_at = uri
        return True

    def failed(self, reason: str) -> None:
        """Warn once, and pause recording for a while."""
        import mlflow

        with self.lock:
            first, self.warned = not self.warned, True
            self.works_at, self.again_at = "", time.monotonic() + _PAUSE
        if first:
            message = hide_secrets(reason.strip().partition("\n")[0])[:_LONGEST_REASON].rstrip(".")
            where = bare_address(mlflow.get_tracking_uri())
            warnings.warn(
                f"Retrievals are not recorded in MLflow at {where}: {message}. Searches go on, "
                f"and recording is retried every {_PAUSE:.0f} seconds. Set MLFLOW_TRACKING_URI, or "
                "mlflow.set_tracking_uri, to record elsewhere.",
                TracingWarning,
                stacklevel=2,
            )


_tracker = _Tracker()


class _WarningFilter(logging.Filter):
    """A log filter that turns MLflow's messages about unrecorded traces into one warning."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        _tracker.failed(record.getMessage())
        return False


_warning_filter = _WarningFilter()


def _prepare() -> None:
    """Import MLflow without the warnings of its dependencies, and reset the state of the tracker.

    Raises MissingExtraError if MLflow is not installed.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when mlflow is imported
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        require_module("mlflow.tracing", "mlflow", "Tracing")
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_warning_filter)  # has no effect if the filter was added before
    _tracker.warned, _tracker.works_at, _tracker.again_at = False, "", 0.0


def _tracker_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that a tracker may raise while spans are recorded."""
    from mlflow.exceptions import MlflowException

    known = (OSError, ValueError, TypeError, LookupError, AttributeError, RuntimeError, ImportError, sqlite3.Error)
    return (*known, MlflowException, RagindexError)


def check_connection(uri: str) -> None:
    """Check that the tracker's SQLite database is writable or that its server answers, soon.

    Raises OSError, ValueError or sqlite3.Error, and ImportError without MLflow.
    """
    parts = urlsplit(uri)
    scheme = parts.scheme.partition("+")[0]
    if uri.startswith("sqlite:///"):
        path = Path(uri.removeprefix("sqlite:///").partition("?")[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=5)) as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            database.rollback()
    elif scheme in ("http", "https"):
        _parse_port(parts)
        _require_answer(uri)
    elif scheme in _PORTS and parts.hostname:
        address = (parts.hostname, _parse_port(parts) or _PORTS[scheme])
        socket.create_connection(address, timeout=_ANSWER_SECONDS).close()


def _require_answer(uri: str) -> None:
    """Send one request as MLflow does: through the same proxies, with the same certificates. Raises OSError."""
    from mlflow.exceptions import MlflowException
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

    try:
        credentials = get_default_host_creds(uri)  # type: ignore[no-untyped-call]
        http_request(  # type: ignore[no-untyped-call]
            credentials, "/health", "GET", max_retries=0, timeout=_ANSWER_SECONDS, raise_on_status=False
        )
    except MlflowException as error:
        cause: BaseException = error
        while (before := cause.__cause__ or cause.__context__) is not None:
            cause = before
        slow = isinstance(cause, TimeoutError)
        raise OSError(f"it does not answer within {_ANSWER_SECONDS} seconds" if slow else str(cause)) from error


def _parse_port(parts: SplitResult) -> int | None:
    """Return the port. Raises ValueError without quoting it, because it may be a piece of a password."""
    try:
        return parts.port
    except ValueError:
        pass
    raise ValueError("its port is not a number; / @ : ? # in a user and password are written as %2F %40 %3A %3F %23")
