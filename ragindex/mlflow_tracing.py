"""Retrievals as MLflow traces: a RETRIEVER span a query, with its documents, and below it a span a step.

`autolog()` turns this on for every retriever that is opened afterwards, `traced(retriever, name)` for one. Where the
traces go, and whether any are kept, is MLflow's own business: `mlflow.set_tracking_uri`, `mlflow.set_experiment`,
`mlflow.tracing.disable`, MLFLOW_TRACE_SAMPLING_RATIO. MLflow takes seconds to import: that waits until tracing is on.
"""

import json
import logging
import os
import socket
import sqlite3
import time
import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from ragindex.canonical import metadata_json
from ragindex.distribution import require_module
from ragindex.errors import RagindexError
from ragindex.interfaces import Retriever
from ragindex.redaction import bare_address, hide_secrets
from ragindex.types import Hit, Query, Retrieval, Step

if TYPE_CHECKING:
    from mlflow.entities import Document, LiveSpan

# MLflow catches what goes wrong with a trace and says it here, once a trace.
_LOGGERS = ("mlflow.tracing.fluent", "mlflow.tracing.export.mlflow_v3", "mlflow.tracing.export.async_export_queue")
_PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}
_PAUSE = 60.0  # seconds without recording after a failure
_LONGEST_REASON = 300


class TracingWarning(UserWarning):
    """Retrievals could not be recorded as MLflow traces."""


def autolog(*, disable: bool = False) -> None:
    """Trace every retriever that a workspace opens from now on; with `disable`, none that is opened from now on.

    Retrievers that are open keep what they were opened with; `mlflow.tracing.disable()` stops all. Raises
    MissingExtraError without MLflow.
    """
    if not disable:
        _prepare()
    _tracker.on = not disable


def trace_retriever(retriever: Retriever, name: str) -> Retriever:
    """A retriever that does the same, and records each query as an MLflow trace called `name`.

    Inside an active MLflow span (`@mlflow.trace`, `mlflow.start_span`) it records spans below that one instead. The
    queries of a batch share its time evenly, as the steps of a `Retrieval` do, one after another. An error is recorded
    on each query's span and raised on. A tracker that fails is one TracingWarning and ends no retrieval.
    """
    _prepare()
    inner = retriever.retriever if isinstance(retriever, _TracedRetriever) else retriever
    return _TracedRetriever(inner, name)


def trace_if_enabled(retriever: Retriever, name: str) -> Retriever:
    """`traced(retriever, name)` after `autolog()`, the retriever itself otherwise."""
    return trace_retriever(retriever, name) if _tracker.on else retriever


@dataclass(frozen=True, slots=True)
class _TracedRetriever:
    """See `trace_retriever`."""

    retriever: Retriever
    name: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Passed on. Spans are made afterwards, so none of their time is the retriever's."""
        start, began = time.time_ns(), time.perf_counter_ns()
        try:
            found = self.retriever.retrieve(queries, k)
        except Exception as error:
            self._record(queries, [error] * len(queries), k, start, time.perf_counter_ns() - began)
            raise
        self._record(queries, found, k, start, time.perf_counter_ns() - began)
        return found

    def _record(
        self, queries: Sequence[Query], outcomes: Sequence[Retrieval | Exception], k: int, start: int, nanoseconds: int
    ) -> None:
        if not queries or not _tracker.ready():
            return
        share = nanoseconds // len(queries)
        try:
            for number, (query, outcome) in enumerate(zip(queries, outcomes, strict=False)):
                at = start + number * share
                span = _started(self.name, query, k, at, batch=len(queries))
                _end(span, outcome, at, share)
        except _failures() as error:
            _tracker.failed(str(error) or type(error).__name__)


# ---------------------------------------------------------------- spans


def _started(name: str, query: Query, k: int, at: int, batch: int) -> Any:
    """A LiveSpan; a NoOpSpan where MLflow's tracing is off, where this trace is not in its sample, or on failure."""
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


def _end(span: Any, outcome: Retrieval | Exception, at: int, nanoseconds: int) -> None:
    from mlflow.entities.span import NoOpSpan

    if isinstance(span, NoOpSpan):
        return
    try:
        if isinstance(outcome, Exception):
            _fail(span, outcome)
        else:
            _fill(span, outcome, at)
    finally:
        span.end(end_time_ns=at + nanoseconds)


def _fail(span: "LiveSpan", error: Exception) -> None:
    """As `record_exception` does, without secrets: others' errors quote the addresses that they asked."""
    from mlflow.entities import SpanEvent, SpanStatus, SpanStatusCode

    event = SpanEvent.from_exception(error)
    event.attributes = {name: hide_secrets(str(value)) for name, value in event.attributes.items()}
    span.add_event(event)
    status = SpanStatus(SpanStatusCode.ERROR, hide_secrets(f"{type(error).__name__}: {error}"))
    span.set_status(status)  # type: ignore[arg-type]  # as its documentation has it


def _fill(span: "LiveSpan", found: Retrieval, at: int) -> None:
    for step in found.trace:
        at = _child(span, step, at)
    if found.notes:
        span.set_attribute("notes", list(found.notes))
    span.set_outputs([_document(hit) for hit in found.hits])


def _child(parent: "LiveSpan", step: Step, at: int) -> int:
    """Record one step. A step knows how long it took, not when: each begins where the one before ended."""
    import mlflow

    until = at + round(step.ms * 1e6)
    attributes: dict[str, Any] = {"iteration": step.iteration, "ms": step.ms}
    if step.input_tokens or step.output_tokens:
        attributes |= {"input_tokens": step.input_tokens, "output_tokens": step.output_tokens}
    span = mlflow.start_span_no_context(
        f"{step.iteration} {step.index}",
        span_type="TASK",  # not RETRIEVER: its documents would be counted twice
        parent_span=parent,
        inputs={"index": step.index, "query": step.query},
        attributes=attributes,
        start_time_ns=at,
    )
    outputs: dict[str, Any] = {"ids": list(step.ids)}
    if step.triples:
        outputs["triples"] = [[one.subject, one.predicate, one.object] for one in step.triples]
    if step.paths:
        outputs["paths"] = [[[one.subject, one.predicate, one.object] for one in path] for path in step.paths]
    if step.scores:
        outputs["scores"] = list(step.scores)
    if step.note:
        outputs["note"] = step.note
    span.end(outputs=outputs, end_time_ns=until)
    return until


def _document(hit: Hit) -> "Document":
    """The hit as MLflow shows it and its retrieval scorers read it: `doc_uri` is the nearest of its documents."""
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


# ---------------------------------------------------------------- a tracker that fails


@dataclass(slots=True)
class _Tracker:
    """What is known of the tracker. One for all threads, as MLflow's own settings are."""

    on: bool = False
    warned: bool = False
    works_at: str = ""
    again_at: float = 0.0
    lock: Lock = field(default_factory=Lock)

    def ready(self) -> bool:
        """Whether to record: not for a while after a failure, and not where nobody answers."""
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
        """Warn once, and let retrievals pass unrecorded for a while."""
        import mlflow

        with self.lock:
            first, self.warned = not self.warned, True
            self.works_at, self.again_at = "", time.monotonic() + _PAUSE
        if first:
            said = hide_secrets(reason.strip().partition("\n")[0])[:_LONGEST_REASON].rstrip(".")
            where = bare_address(mlflow.get_tracking_uri())
            warnings.warn(
                f"Retrievals are not recorded in MLflow at {where}: {said}. Searches go on, "
                f"and recording is retried every {_PAUSE:.0f} seconds. Set MLFLOW_TRACKING_URI, or "
                "mlflow.set_tracking_uri, to record elsewhere.",
                TracingWarning,
                stacklevel=2,
            )


_tracker = _Tracker()


class _OneWarning(logging.Filter):
    """Turns what MLflow logs of traces that it could not record into one warning."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        _tracker.failed(record.getMessage())
        return False


_one_warning = _OneWarning()


def _prepare() -> None:
    """Import MLflow, which warns of its dependencies, and begin anew with the tracker.

    Raises MissingExtraError without MLflow.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when mlflow is imported
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        require_module("mlflow.tracing", "mlflow", "Tracing")
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_one_warning)  # one that is there already is not added again
    _tracker.warned, _tracker.works_at, _tracker.again_at = False, "", 0.0


def _failures() -> tuple[type[Exception], ...]:
    """What a tracker may fail with while spans are made."""
    from mlflow.exceptions import MlflowException

    known = (OSError, ValueError, TypeError, LookupError, AttributeError, RuntimeError, ImportError, sqlite3.Error)
    return (*known, MlflowException, RagindexError)


def check_connection(uri: str) -> None:
    """Raises at once where a database cannot be written or a server not reached: MLflow would try again for minutes."""
    parts = urlsplit(uri)
    scheme = parts.scheme.partition("+")[0]
    if uri.startswith("sqlite:///"):
        path = Path(uri.removeprefix("sqlite:///").partition("?")[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=5)) as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            database.rollback()
    elif scheme in _PORTS and parts.hostname:
        socket.create_connection((parts.hostname, _port(parts) or _PORTS[scheme]), timeout=5).close()


def _port(parts: SplitResult) -> int | None:
    """Raises ValueError, which quotes nothing: what stands there may be a piece of a password."""
    try:
        return parts.port
    except ValueError:
        pass
    raise ValueError("its port is not a number; / @ : ? # in a user and password are written as %2F %40 %3A %3F %23")
