"""Parsers for --grid (variants of a method) and --fail-below (thresholds that metrics must reach)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import regex

from ragindex.errors import BelowThresholdError, LeftOutError, QuestionError, UsageError
from ragindex.plugins import registry
from ragindex.plugins.specs import Spec, parse_spec, render_spec
from ragindex_eval.metrics import answers
from ragindex_eval.metrics.retrieval import metric_names
from ragindex_eval.results.model import Comparison, Study, describe_failed
from ragindex_eval.run.methods import Method

_PARAMETER = regex.compile(r"\s*\w+\s*=")


def expand_grid(methods: Sequence[Method], grids: Sequence[str]) -> list[Method]:
    """Replace each method that a grid names by its variants: `LABEL:beam_width=5,10;depth=50,100`.

    A grid without a label, as `over=passages(size=64),passages(size=256)`, is one of every method. Several
    parameters give every combination of their values; the label of a variant names the varied parameters.
    Raises UsageError if a grid cannot be parsed or names an unknown method, or if a parameter is invalid.
    """
    asked: dict[str, dict[str, list[Any]]] = {}
    for grid in grids:
        label, values = _parse_grid(grid)
        asked.setdefault(label, {}).update(values)
    there = [method.label for method in methods]
    for label in asked:
        if label and label not in there:
            raise UsageError(f"--grid names {label!r}, which is not in this comparison. Available: {', '.join(there)}.")
    every = asked.get("", {})
    return [
        variant for method in methods for variant in _make_variants(method, {**every, **asked.get(method.label, {})})
    ]


def _parse_grid(written: str) -> tuple[str, dict[str, list[Any]]]:
    label, colon, rest = ("", ":", written) if _PARAMETER.match(written) else written.rpartition(":")
    pairs = [pair.partition("=") for pair in rest.split(";")]
    if not colon or not all(name.strip() and equals and values.strip() for name, equals, values in pairs):
        raise UsageError(
            "--grid must be parameter=value,value or LABEL:parameter=value,value, as 'hybrid:rrf_k=10,60'. "
            f"Got {written!r}."
        )
    return label.strip(), {name.strip(): _parse_values(values) for name, _, values in pairs}


def _parse_values(values: str) -> list[Any]:
    """Parse the values as in a plugin spec."""
    listed = parse_spec(f"grid(values=[{values}])").params["values"]
    return listed if isinstance(listed, list) else [listed]


def _make_variants(method: Method, values: Mapping[str, Sequence[Any]]) -> list[Method]:
    if not values:
        return [method]
    described = registry.describe(method.scheme)
    made = []
    for chosen in product(*values.values()):
        varied = dict(zip(values, chosen, strict=True))
        scheme = registry.scheme(Spec(described["name"], {**described["params"], **varied}))
        made.append(Method(_variant_label(method.label, varied), scheme, True))
    return made


def _variant_label(label: str, varied: Mapping[str, Any]) -> str:
    """Add the varied parameters to a label: `hybrid` becomes `hybrid(rrf_k=10)`."""
    added = render_spec(Spec("", dict(varied)))
    return f"{label[:-1]}, {added[1:]}" if label.endswith(")") else f"{label}{added}"


# ---------------------------------------------------------------- thresholds


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
        there = ", ".join(known)
        raise UsageError(f"--fail-below names the metric {metric!r}, which is not measured. Available: {there}.")
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
    said = [describe_failed(comparison.failed) for comparison in study.comparisons if comparison.failed]
    if said:
        raise QuestionError(f"{' '.join(said)} The others are complete.")


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
        said
        for comparison in study.comparisons
        for threshold in thresholds
        if (said := _explain_miss(threshold, _find_mean(comparison, threshold), _describe_data(study, comparison)))
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
