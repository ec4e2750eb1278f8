"""Searches as MLflow traces: a RETRIEVER span per search, of a share of them."""

import os

from ragindex import mlflow_tracing

_SHARE_VARIABLE = "MLFLOW_TRACE_SAMPLING_RATIO"


def trace_searches(share: float) -> None:
    """Trace this share of the searches of retrievers opened from now on; 0 traces none.

    MLflow's own settings say where traces go (MLFLOW_TRACKING_URI, OTEL_EXPORTER_OTLP_ENDPOINT). Raises
    MissingExtraError if MLflow is not installed.
    """
    if share > 0:
        os.environ[_SHARE_VARIABLE] = str(share)
        mlflow_tracing.autolog()
