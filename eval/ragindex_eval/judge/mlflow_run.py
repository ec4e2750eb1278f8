"""A judging session that paid for something, in MLflow: what was judged, by whom, and what it cost."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ragindex._util.canonical import digest
from ragindex.types import Usage
from ragindex_eval import mlflow_values as values
from ragindex_eval.judge.estimate import PoolEstimates
from ragindex_eval.judge.pool import PoolSource
from ragindex_eval.mlflow_runs import RunFiles, log_values, source_tags
from ragindex_eval.mlflow_tracking import record_runs

if TYPE_CHECKING:
    from mlflow import MlflowClient

_ID = "ragindex.judging"
"""Tag by which the run of the same pool is found again."""


def track_judging(
    name: str, source: PoolSource, found: PoolEstimates, model: str | None, paid: Usage, started: float, seconds: float
) -> str | None:
    """Record a session over the pool of `source` and return the id of its run; one pool has one run, which adds up.

    `started` is in Unix seconds. Warn and return None if MLflow is not installed or the tracker fails.
    """

    def log(client: "MlflowClient", experiment: str, files: RunFiles) -> str:
        id = digest(asdict(source))
        runs = client.search_runs([experiment], f"tags.`{_ID}` = '{id}'", max_results=1)
        title = values.title(f"judge {name}", [], datetime.fromtimestamp(started, UTC))
        run = runs[0] if runs else client.create_run(experiment, int(started * 1000), {_ID: id, **source_tags()}, title)
        params = {"methods": ",".join(source.methods), "depth": source.depth, "seed": source.seed, "llm": model or ""}
        metrics = {
            "questions": float(found.questions),
            "documents": float(found.documents),
            "duration_seconds": seconds,
            **values.spent_metrics(paid, run.data.metrics),
        }
        log_values(client, run, params, metrics, {}, [])
        client.set_terminated(run.info.run_id, "FINISHED")
        return str(run.info.run_id)

    return record_runs("judging session", log)
