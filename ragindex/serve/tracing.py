"""Searches as MLflow traces: a RETRIEVER span per search, of a share of them."""

import os
import sys
import threading

from ragindex import mlflow_tracing

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
