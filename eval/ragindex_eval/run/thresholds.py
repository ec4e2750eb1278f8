"""What a comparison must reach: the thresholds of --fail-below, an answer of each method, all files read."""

from collections.abc import Sequence
from dataclasses import dataclass

from ragindex.errors import BelowThresholdError, LeftOutError, QuestionError, UsageError
from ragindex_eval.metrics import answers
from ragindex_eval.metrics.retrieval import metric_names
from ragindex_eval.results.model import Comparison, Study, describe_failed


@dataclass(frozen=True, slots=True)
class Threshold:
    """Smallest acceptable mean of a metric for the method with this label."""

    label: str
    metric: str
    least: float


def parse_threshold(written: str, ks: Sequence[int]) -> Threshold:
    """Parse `LABEL:METRIC=VALUE`, such as `dense:R@5=0.60`. Raises UsageError for wrong syntax, value or metric."""
    label, _, rest = written.rpartition(":")
    metric, _, value = rest.partition("=")
    try:
        least = float(value)
    except ValueError:
        least = -1.0
    if not label or not 0 <= least <= 1:
        raise UsageError(
            f"--fail-below must be LABEL:METRIC=VALUE with a value from 0 to 1, as 'dense:R@5=0.60'. Got {written!r}."
        )
    known = [*metric_names(ks), *(f"evidence_R@{k}" for k in ks), *answers.ANSWER_METRICS]
    if metric not in known:
        listed = ", ".join(known)
        raise UsageError(f"--fail-below names the metric {metric!r}, which is not measured. Available: {listed}.")
    return Threshold(label, metric, least)


def require_methods(thresholds: Sequence[Threshold], labels: Sequence[str]) -> None:
    """Check the methods of thresholds. Raises UsageError if one names a method that is not in the comparison."""
    for threshold in thresholds:
        if threshold.label not in labels:
            raise UsageError(
                f"--fail-below names the method {threshold.label!r}, which is not in this comparison. "
                f"Available: {', '.join(labels)}."
            )


def require_answers(study: Study) -> None:
    """Check for failed methods, after all results are written.

    Raises QuestionError if a method failed on every question.
    """
    failed = [describe_failed(comparison.failed) for comparison in study.comparisons if comparison.failed]
    if failed:
        raise QuestionError(f"{' '.join(failed)} The others are complete.")


def count_skipped(study: Study) -> int:
    """Return how many files and items were left out of the documents and questions of a study."""
    return sum(
        {comparison.dataset.fingerprint: comparison.dataset.skipped for comparison in study.comparisons}.values()
    )


def require_all_read(skipped: int, skip_bad: bool | None) -> None:
    """Check that no file or item was left out, after all results are written.

    Raises LeftOutError if something was, unless `skip_bad` asked for it.
    """
    if skipped and skip_bad is None:
        raise LeftOutError(skipped)


def require_reached(study: Study, thresholds: Sequence[Threshold]) -> None:
    """Check all thresholds. Raises BelowThresholdError that names every metric too low or not measured."""
    missed = [
        miss
        for comparison in study.comparisons
        for threshold in thresholds
        if (miss := _explain_miss(threshold, _find_mean(comparison, threshold), _describe_data(study, comparison)))
    ]
    if missed:
        raise BelowThresholdError("; ".join(missed) + ".")


def _find_mean(comparison: Comparison, threshold: Threshold) -> float | None:
    """Return the mean of the metric; None if it was not measured or the method was left out."""
    return next(
        (method.metrics.get(threshold.metric) for method in comparison.methods if method.label == threshold.label), None
    )


def _describe_data(study: Study, comparison: Comparison) -> str:
    """Return the dataset name, with encoder and seed if the study has several comparisons."""
    several = f" (encoder {comparison.encoder}, seed {comparison.seed})" if len(study.comparisons) > 1 else ""
    return f"{comparison.dataset.name}{several}"


def _explain_miss(threshold: Threshold, reached: float | None, dataset: str) -> str | None:
    """Return why a threshold is missed; None if it is reached."""
    where = f"{threshold.metric} of {threshold.label} on {dataset}"
    if reached is None:
        needed = (
            "that needs --read and accepted answers"
            if threshold.metric in answers.ANSWER_METRICS
            else "the questions have no gold"
        )
        return f"{where} was not measured: {needed}"
    return None if reached >= threshold.least else f"{where} is {reached:.4f}, below the required {threshold.least:g}"
