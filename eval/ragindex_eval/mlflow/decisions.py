"""A recommendation, or a judging session that paid for something, as a run in MLflow.

The run of a recommendation has the decision as tags, the race as metrics over questions, and its files; that of a
session says what was judged, by which model, and what it cost.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragindex._util.canonical import digest
from ragindex.types import Usage
from ragindex_eval.choose.recommendation import Recommendation
from ragindex_eval.judge.estimate import PoolEstimates
from ragindex_eval.judge.pool import PoolSource
from ragindex_eval.mlflow import values
from ragindex_eval.mlflow.runs import RunFiles, log_values, source_tags
from ragindex_eval.mlflow.tracking import record_runs
from ragindex_eval.run.settings import CompareSettings

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_RECOMMENDATION, _JUDGING = "ragindex.recommendation", "ragindex.judging"
"""Tags by which the run of the same recommendation, or over the same pool, is found again."""
_REMAINING = "race/remaining"
_SHARED = ("encoder", "llm", "store", "seed")
"""The settings that a recommendation depends on, beside data, candidates and rules."""
RETRIEVER = "retriever"
"""Folder of the exported method among the artifacts."""


def track_recommendation(
    recommendation: Recommendation, settings: CompareSettings, started: float, seconds: float, exported: Path | None
) -> str | None:
    """Record a recommendation in MLflow and return the id of its run; the same recommendation has one, when run again.

    `started` is in Unix seconds. Warn and return None if MLflow is not installed or the tracker fails.
    """
    shared = {name: getattr(settings, name) for name in _SHARED}

    def log(client: "MlflowClient", experiment: str, files: RunFiles) -> str:
        run = _take_run(client, experiment, recommendation, shared, started)
        _log(client, run, recommendation, shared, seconds)
        (files.folder / "recommendation.json").write_text(
            json.dumps(recommendation.to_json(), indent=1), encoding="utf-8"
        )
        id = str(run.info.run_id)
        files.store(id, files.folder)
        if exported is not None:
            files.store(id, exported, RETRIEVER)
        client.set_terminated(id, "FINISHED", run.info.start_time + int(seconds * 1000))
        return id

    return record_runs("recommendation", log)


def _take_run(
    client: "MlflowClient", experiment: str, recommendation: Recommendation, settings: Mapping[str, Any], started: float
) -> "Run":
    """Return the run of a recommendation with the same data, candidates, rules and settings, else a new one."""
    labels = sorted(candidate.label for candidate in recommendation.candidates)
    id = digest([recommendation.dataset.fingerprint, labels, dict(recommendation.rules), dict(settings)])
    runs = client.search_runs(
        [experiment], f"tags.`{_RECOMMENDATION}` = '{id}'", max_results=1, order_by=["start_time ASC"]
    )
    if runs:
        return runs[0]
    files = [recommendation.dataset.questions_file] if recommendation.dataset.questions_file else []
    name = values.title(f"recommend {recommendation.dataset.name}", files, datetime.fromtimestamp(started, UTC))
    return client.create_run(experiment, int(started * 1000), {_RECOMMENDATION: id, **source_tags()}, name)


def _log(
    client: "MlflowClient", run: "Run", recommendation: Recommendation, settings: Mapping[str, Any], seconds: float
) -> None:
    """Log tags, parameters, figures, and the steps of the race that the run lacks."""
    from mlflow.entities import Metric

    tags = {
        "ragindex.recommended": recommendation.chosen,
        "ragindex.decided": str(recommendation.decided).lower(),
        "ragindex.runner_up": recommendation.rival or "",
        "ragindex.confirmation": recommendation.confirmation.verdict if recommendation.confirmation else "",
    }
    params = {
        **{f"dataset/{name}": value for name, value in recommendation.dataset.to_json().items()},
        **{f"rules/{name}": value for name, value in recommendation.rules.items()},
        **settings,
        "methods": ",".join(candidate.label for candidate in recommendation.candidates),
    }
    figures = {**_figures(recommendation, seconds), **values.spent_metrics(recommendation.paid, run.data.metrics)}
    log_values(client, run, params, figures, tags, [recommendation.dataset])
    id, now = run.info.run_id, int(time.time() * 1000)
    known = max((one.step for one in client.get_metric_history(id, _REMAINING)), default=0)
    races = values.distinct_names(
        _race_name(recommendation, candidate.label) for candidate in recommendation.candidates
    )
    for step in recommendation.race:
        if step.questions > known:
            scores = {races[_race_name(recommendation, label)]: score for label, score in step.scores.items()}
            metrics = {**scores, _REMAINING: float(step.remaining)}
            client.log_batch(id, metrics=[Metric(name, value, now, step.questions) for name, value in metrics.items()])


def _race_name(recommendation: Recommendation, label: str) -> str:
    return f"race/{label}/{values.metric_name(recommendation.rules['metric'])}"


def _figures(recommendation: Recommendation, seconds: float) -> dict[str, float]:
    """Return the figures of the decision; unknown ones are left out."""
    figures: dict[str, float | None] = {
        "duration_seconds": seconds,
        "questions_asked": recommendation.questions_asked,
        "questions_of_full_comparison": recommendation.full,
        **{f"methods/{label}/more_questions": count for label, count in recommendation.more_questions.items()},
    }
    for name, bounds in (("difference", recommendation.difference), ("recall", recommendation.recall)):
        if bounds is not None:
            figures |= {f"{name}/low": bounds[0], f"{name}/high": bounds[1]}
    if recommendation.confirmation is not None:
        low, high = recommendation.confirmation.difference
        figures |= {"confirmation/difference/low": low, "confirmation/difference/high": high}
    for candidate in recommendation.candidates:
        costs = {
            name: value
            for name, value in candidate.to_json()["costs"].items()
            if name not in ("estimated", "p95_bounds")
        }
        for name, value in {**costs, "score": candidate.score, "asked": candidate.asked}.items():
            figures[f"methods/{candidate.label}/{name}"] = value
    return {name: float(value) for name, value in figures.items() if value is not None}


def track_judging(
    name: str,
    source: PoolSource,
    estimates: PoolEstimates,
    model: str | None,
    paid: Usage,
    started: float,
    seconds: float,
) -> str | None:
    """Record a session over the pool of `source` and return the id of its run; one pool has one run, which adds up.

    `started` is in Unix seconds. Warn and return None if MLflow is not installed or the tracker fails.
    """

    def log(client: "MlflowClient", experiment: str, files: RunFiles) -> str:
        id = digest(asdict(source))
        runs = client.search_runs([experiment], f"tags.`{_JUDGING}` = '{id}'", max_results=1)
        title = values.title(f"judge {name}", [], datetime.fromtimestamp(started, UTC))
        run = (
            runs[0]
            if runs
            else client.create_run(experiment, int(started * 1000), {_JUDGING: id, **source_tags()}, title)
        )
        params = {"methods": ",".join(source.methods), "depth": source.depth, "seed": source.seed, "llm": model or ""}
        metrics = {
            "questions": float(estimates.questions),
            "documents": float(estimates.documents),
            "duration_seconds": seconds,
            **values.spent_metrics(paid, run.data.metrics),
        }
        log_values(client, run, params, metrics, {}, [])
        client.set_terminated(run.info.run_id, "FINISHED")
        return str(run.info.run_id)

    return record_runs("judging session", log)
