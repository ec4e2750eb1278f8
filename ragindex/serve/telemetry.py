"""What a server tells of its work: logs (a line of JSON per event), Prometheus metrics, and MLflow traces."""

import atexit
import contextlib
import json
import logging
import os
import queue
import sys
import threading
import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from ragindex import mlflow_tracing
from ragindex._util.redaction import hide_secrets
from ragindex.errors import DataError, LLMError, RagindexError, UsageError

_logger = logging.getLogger("ragindex.serve")
_STANDARD_ERROR = 2
_MOST_LINES = 10_000
_DRAIN_SECONDS = 2.0
_GATHER_SECONDS = 0.05
_ENCODER = json.JSONEncoder(default=str)


def log_event(event: str, **values: Any) -> None:
    """Log an event with its values. Texts of questions and documents are no values, unless `log_texts` is set."""
    if _logger.isEnabledFor(logging.INFO):
        line = {"time": round(time.time(), 3), "event": event, **values}
        _logger.info(hide_secrets(_ENCODER.encode(line)))


def log_error(error: RagindexError) -> None:
    """Log an error. Messages that quote what a client or a model has written are left out."""
    quotes = isinstance(error, UsageError | DataError | LLMError)
    log_event("error", kind=type(error).__name__, **({} if quotes else {"message": str(error)}))


class _ErrorWriter(logging.Handler):
    """Writes lines to standard error in a thread of its own, so that no request waits for whoever reads them.

    Lines beyond what fits into the queue are left out, and their number is written when the queue takes lines again.
    """

    def __init__(self, descriptor: int = _STANDARD_ERROR) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: queue.SimpleQueue[str | threading.Event] = queue.SimpleQueue()
        self._left_out = 0
        threading.Thread(target=self._write, name="ragindex-log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Put a line into the queue."""
        if self._lines.qsize() >= _MOST_LINES:
            self._left_out += 1
            return
        if self._left_out:
            self._lines.put(json.dumps({"event": "lines_left_out", "count": self._left_out}))
            self._left_out = 0
        self._lines.put(self.format(record))

    def drain(self) -> None:
        """Wait until all lines are written, for a few seconds at most."""
        is_written = threading.Event()
        self._lines.put(is_written)
        is_written.wait(_DRAIN_SECONDS)

    def _write(self) -> None:
        while True:
            lines = [self._lines.get()]
            time.sleep(_GATHER_SECONDS)  # one call for many lines: requests wait while this thread has the lock
            lines += [self._lines.get() for _ in range(self._lines.qsize())]
            rest = "".join(f"{line}\n" for line in lines if isinstance(line, str)).encode("utf-8", "backslashreplace")
            with contextlib.suppress(OSError):  # nobody reads any more
                while rest:  # not by sys.stderr, whose lock a thread that waits here would keep when the program ends
                    rest = rest[os.write(self._descriptor, rest) :]
            for written in lines:
                if isinstance(written, threading.Event):
                    written.set()


def show_logs() -> None:
    """Write the events, and what uvicorn and asyncio report, to standard error, as the command does."""
    handler = _ErrorWriter()
    atexit.register(handler.drain)
    for logger in (_logger, logging.getLogger("uvicorn.error"), logging.getLogger("asyncio")):
        logger.addHandler(handler)
        logger.propagate = False
    _logger.setLevel(logging.INFO)


_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class ServerMetrics:
    """The metrics that the parts of a server update."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "ragindex_requests", "Requests by route and status.", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "ragindex_request_seconds", "Time to answer.", ["route"], buckets=_SECONDS, registry=self.registry
        )
        self.working = Gauge("ragindex_working", "Searches and answers in progress.", registry=self.registry)
        self.refused = Counter(
            "ragindex_refused",
            "Requests refused because of the cap on concurrency or time.",
            ["why"],
            registry=self.registry,
        )
        self.searches = Counter(
            "ragindex_searches", "Searches by collection and method.", ["collection", "method"], registry=self.registry
        )
        self.pending = Gauge(
            "ragindex_pending_documents",
            "Accepted changes that are not searched yet.",
            ["collection"],
            registry=self.registry,
        )
        self.state_time = Gauge(
            "ragindex_state_timestamp_seconds",
            "When the state that is searched was opened.",
            ["collection"],
            registry=self.registry,
        )
        self.sync_failures = Counter(
            "ragindex_sync_failures", "Times that the sync process failed.", ["collection"], registry=self.registry
        )
        self.tokens = Counter(
            "ragindex_paid_tokens", "Tokens paid for by requests, by key.", ["key"], registry=self.registry
        )
        self.dollars = Counter(
            "ragindex_paid_dollars",
            "Dollars paid by requests, by key; unknown prices count 0.",
            ["key"],
            registry=self.registry,
        )

    def render(self) -> bytes:
        """Return the metrics in Prometheus's text format."""
        return generate_latest(self.registry)


_SHARE_VARIABLE = "MLFLOW_TRACE_SAMPLING_RATIO"
_FLUSH_SECONDS = 5.0


def trace_searches(share: float) -> None:
    """Trace this share of the searches of retrievers opened from now on; 0 traces none.

    MLflow's own settings say where traces go (MLFLOW_TRACKING_URI, OTEL_EXPORTER_OTLP_ENDPOINT). Raises
    MissingExtraError if MLflow is not installed.
    """
    if share > 0:
        os.environ[_SHARE_VARIABLE] = str(share)
        mlflow_tracing.autolog()


def flush_traces() -> None:
    """Wait, for a few seconds at most, until recorded traces are in MLflow's store. Does nothing without MLflow."""
    if "mlflow" in sys.modules:
        flushing = threading.Thread(target=sys.modules["mlflow"].flush_trace_async_logging, daemon=True)
        flushing.start()
        flushing.join(_FLUSH_SECONDS)  # a tracker that is away is retried for minutes
