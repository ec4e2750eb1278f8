"""Variants of a method, and figures that must be reached: the small languages of --grid and --fail-below."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from ragindex.errors import BelowThresholdError, QuestionError, UsageError
from ragindex.plugins import registry
from ragindex.plugins.specs import Spec, parse_spec, render_spec
from ragindex_eval.metrics import answers
from ragindex_eval.metrics.retrieval import metric_names
from ragindex_eval.results.model import Comparison, Study, describe_failed
from ragindex_eval.run.methods import Method


def expand_grid(methods: Sequence[Method], grids: Sequence[str]) -> list[Method]:
    """`methods`, each one that a grid names replaced by its variants: `LABEL:beam_width=5,10;depth=50,100`.

    Several values of several parameters give every combination; a label says what was varied. Raises UsageError for
    a grid that cannot be read, names no method or one twice, and for parameters that cannot be.
    """
    asked: dict[str, dict[str, list[Any]]] = {}
    for grid in grids:
        label, values = _grid(grid)
        asked.setdefault(label, {}).update(values)
    there = [method.label for method in methods]
    for label in asked:
        if label not in there:
            raise UsageError(f"--grid names {label!r}, which is not in this comparison. Available: {', '.join(there)}.")
    return [variant for method in methods for variant in _varied(method, asked.get(method.label))]


def _grid(written: str) -> tuple[str, dict[str, list[Any]]]:
    label, colon, rest = written.rpartition(":")
    pairs = [pair.partition("=") for pair in rest.split(";")]
    if not colon or not all(name.strip() and equals and values.strip() for name, equals, values in pairs):
        raise UsageError(f"--grid must be LABEL:parameter=value,value, as 'hybrid:rrf_k=10,60'. Got {written!r}.")
    return label.strip(), {name.strip(): _listed(values) for name, _, values in pairs}


def _listed(values: str) -> list[Any]:
    """The values as they are read inside a specification."""
    listed = parse_spec(f"grid(values=[{values}])").params["values"]
    return listed if isinstance(listed, list) else [listed]


def _varied(method: Method, values: Mapping[str, Sequence[Any]] | None) -> list[Method]:
    if values is None:
        return [method]
    described = registry.describe(method.scheme)
    made = []
    for chosen in product(*values.values()):
        varied = dict(zip(values, chosen, strict=True))
        scheme = registry.scheme(Spec(described["name"], {**described["params"], **varied}))
        made.append(Method(_label(method.label, varied), scheme, True))
    return made


def _label(label: str, varied: Mapping[str, Any]) -> str:
    """`hybrid(rrf_k=10)`; `hybrid(depth=50,rrf_k=10)` where it had parameters already."""
    added = render_spec(Spec("", dict(varied)))
    return f"{label[:-1]}, {added[1:]}" if label.endswith(")") else f"{label}{added}"


# ---------------------------------------------------------------- figures that must be reached


@dataclass(frozen=True, slots=True)
class Threshold:
    """A method, by label, and the least mean of a metric that is enough."""

    label: str
    metric: str
    least: float


def parse_threshold(written: str, ks: Sequence[int]) -> Threshold:
    """What `LABEL:METRIC=VALUE` says, as `dense:R@5=0.60`. Raises UsageError."""
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
    known = [*metric_names(ks), *answers.ANSWER_METRICS]
    if metric not in known:
        there = ", ".join(known)
        raise UsageError(f"--fail-below names the metric {metric!r}, which is not measured. Available: {there}.")
    return Threshold(label, metric, least)


def require_methods(thresholds: Sequence[Threshold], labels: Sequence[str]) -> None:
    """Raises UsageError where a threshold names a method that is not in the comparison."""
    for one in thresholds:
        if one.label not in labels:
            raise UsageError(
                f"--fail-below names the method {one.label!r}, which is not in this comparison. "
                f"Available: {', '.join(labels)}."
            )


def require_answers(study: Study) -> None:
    """Raises QuestionError, after all is shown and written, where a method failed on every question."""
    said = [describe_failed(comparison.failed) for comparison in study.comparisons if comparison.failed]
    if said:
        raise QuestionError(f"{' '.join(said)} The others are complete.")


def require_reached(study: Study, thresholds: Sequence[Threshold]) -> None:
    """Raises BelowThresholdError, naming every figure that is too low, or was not measured."""
    missed = [
        said
        for comparison in study.comparisons
        for one in thresholds
        if (said := _missed(one, _reached(comparison, one), _where(study, comparison)))
    ]
    if missed:
        raise BelowThresholdError("; ".join(missed) + ".")


def _reached(comparison: Comparison, one: Threshold) -> float | None:
    """None where it was not measured, or the method was left out."""
    return next((method.metrics.get(one.metric) for method in comparison.methods if method.label == one.label), None)


def _where(study: Study, comparison: Comparison) -> str:
    """The data; in a study, also the encoder and the seed."""
    several = f" (encoder {comparison.encoder}, seed {comparison.seed})" if len(study.comparisons) > 1 else ""
    return f"{comparison.dataset.name}{several}"


def _missed(one: Threshold, reached: float | None, dataset: str) -> str | None:
    """Why a threshold is missed; None where it is reached."""
    where = f"{one.metric} of {one.label} on {dataset}"
    if reached is None:
        needed = (
            "that needs --read and accepted answers"
            if one.metric in answers.ANSWER_METRICS
            else "the questions have no gold"
        )
        return f"{where} was not measured: {needed}"
    return None if reached >= one.least else f"{where} is {reached:.4f}, below the required {one.least:g}"
