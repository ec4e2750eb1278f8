"""What MLflow records of a study: names, parameters, metrics and data sets of its runs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from statistics import fmean
from typing import TYPE_CHECKING, Any

import regex

from ragindex._util.redaction import hide_secrets
from ragindex.types import Usage
from ragindex_eval.metrics import answers
from ragindex_eval.results.model import (
    COSTS,
    LATENCY,
    Comparison,
    DatasetFacts,
    MethodResult,
    Percentiles,
    Study,
    headline_metric,
)
from ragindex_eval.results.records import NO_USAGE

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput

_METRIC_NAMES = {
    "R": "recall",
    "full_R": "full_recall",
    "Success": "success",
    "RR": "reciprocal_rank",
    "nDCG": "ndcg",
    "one_doc_R": "one_document_recall",
    "evidence_R": "evidence_recall",
}
_LONGEST_NAME = 250
_LONGEST_VALUE = 6000  # characters of a parameter value; MLflow rejects longer ones


# ---------------------------------------------------------------- names


def study_name(study: Study) -> str:
    """Return the name of a study's parent run."""
    files = [file for file in _values(study, "questions_file") if file]
    return title(study.name, files, datetime.fromisoformat(study.started) if study.started else None)


def title(name: str, questions_files: Iterable[str], started: datetime | None) -> str:
    """Return a name by which a person finds a run: the data, the files of questions, and when it began if known."""
    moments = [] if started is None else [f"{started.astimezone(UTC):%Y-%m-%d %H:%M} UTC"]
    return ", ".join([name, *questions_files, *moments])


def run_name(study: Study, comparison: Comparison, method: MethodResult) -> str:
    """Return the label, and in a study of several comparisons the settings that differ between them."""
    settings = {
        "dataset": comparison.dataset.name,
        "encoder": comparison.encoder,
        "seed": f"seed {comparison.seed}",
        "questions_file": comparison.dataset.questions_file,
    }
    others = [value for name, value in settings.items() if len(_values(study, name)) > 1]
    return ", ".join([method.label, *others])


def _values(study: Study, name: str) -> list[Any]:
    """Return the distinct datasets, encoders, seeds or questions files of a study."""
    named = {
        "dataset": lambda comparison: comparison.dataset.name,
        "questions_file": lambda comparison: comparison.dataset.questions_file,
    }
    return list(dict.fromkeys(named.get(name, attrgetter(name))(comparison) for comparison in study.comparisons))


def metric_name(name: str) -> str:
    """Return the MLflow name of a metric: `R@5` becomes `retrieval/recall_at_5`, `F1` becomes `qa/f1`."""
    base, _, k = name.partition("@")
    if name in answers.ANSWER_METRICS:
        return f"qa/{name.replace('-', '_').lower()}"
    return f"retrieval/{_METRIC_NAMES[base]}_at_{k}"


def _figure_name(name: str) -> str:
    """Return the MLflow name of a figure that has an interval."""
    if name in COSTS:
        return f"usage/query/{name}"
    measured = "@" in name or name in answers.ANSWER_METRICS
    return metric_name(name) if measured else f"{name.replace(f'{LATENCY}_', 'latency/')}_ms"


def distinct_names(names: Iterable[str]) -> dict[str, str]:
    """Return by name the name in MLflow: no two are equal, not even without regard to case, as MySQL compares them.

    Names that become equal are numbered in alphabetical order, those that need no change first, so that the order of
    the methods does not matter.
    """
    cleaned, taken = dict[str, str](), set[str]()
    for name in sorted(set(names), key=lambda name: (_clean_name(name) != name, name)):
        first, number, chosen = _clean_name(name), 1, _clean_name(name)
        while chosen.casefold() in taken:
            number += 1
            chosen = f"{first[: _LONGEST_NAME - len(str(number)) - 1]}_{number}"
        taken.add(chosen.casefold())
        cleaned[name] = chosen
    return cleaned


def _clean_name(name: str) -> str:
    """Replace what MLflow does not allow in names, such as //, which no path keeps, and cut at 250 characters.

    The marks between the parts of a label become _, so that names stay legible; other characters are escaped by code.
    """
    marks = regex.sub(r"[(){}\[\]=,:;'\"]", "_", name)
    allowed = str(regex.sub(r"[^\w./ -]", lambda match: f"_{ord(match[0]):02X}", marks))[:_LONGEST_NAME]
    return "/".join("_" if part in ("", ".", "..") else part for part in allowed.split("/"))


# ---------------------------------------------------------------- parameters


def shared_params(study: Study) -> Mapping[str, Any]:
    """Return the values of what differs between the comparisons of a study, or may."""
    return {name: _values(study, name) for name in ("dataset", "questions_file", "encoder", "seed")}


def params(comparison: Comparison) -> Mapping[str, Any]:
    """Return the parameters of a comparison."""
    return {
        **{f"dataset/{name}": value for name, value in comparison.dataset.to_json().items()},
        "encoder": comparison.encoder,
        "encoder_id": comparison.encoder_id,
        "llm": comparison.llm,
        **_reader_params(comparison),
        "store": comparison.store,
        "language": comparison.language,
        "seed": comparison.seed,
        "k": ",".join(map(str, comparison.ks)),
        "fingerprint": comparison.fingerprint,
    }


def _reader_params(comparison: Comparison) -> dict[str, Any]:
    """Return the reader's model and limits by name, as `reader/llm`; nothing if no answers were read."""
    facts = {} if comparison.reader is None else comparison.reader.to_json()
    return {f"reader/{name}": value for name, value in facts.items() if value is not None}


def method_params(comparison: Comparison, method: MethodResult) -> Mapping[str, Any]:
    """Return the parameters of a method, and those of its comparison."""
    own = {f"params/{name}": value for name, value in method.params.items()}
    shared = {**params(comparison), "fingerprint": method.fingerprint}
    return {"method": method.name, "label": method.label, **own, **shared}


def param_text(value: Any) -> str:
    """Return the text of a parameter without secrets, cut at the longest that MLflow accepts."""
    return hide_secrets(value if isinstance(value, str) else json.dumps(value))[:_LONGEST_VALUE]


# ---------------------------------------------------------------- metrics


def bound_metrics(comparison: Comparison) -> dict[str, float]:
    """Return the metrics of the reader's bounds by MLflow name, such as `bounds/gold-passages/qa/f1`."""
    return {
        f"bounds/{bound.label}/{metric_name(name)}": value
        for bound in comparison.bounds
        for name, value in bound.metrics.items()
    }


def method_metrics(method: MethodResult) -> dict[str, float]:
    """Return the figures of a method; unknown ones are left out."""
    values = {metric_name(name): value for name, value in method.metrics.items()}
    split = method.latency
    for prefix, part in (("", split.total), ("encoder_", split.encoder), ("store_", split.store), ("own_", split.own)):
        values |= _milliseconds(prefix, part)
    for name, figures in method.parts.items():
        values |= {f"index/{name}/seconds": figures.seconds, f"index/{name}/bytes": figures.bytes}
    for name, bounds in method.ci95.items():
        values |= {f"{_figure_name(name)}/ci95_low": bounds[0], f"{_figure_name(name)}/ci95_high": bounds[1]}
    for phase, usage in (("index", method.index_usage), ("spent", method.spent), ("query", method.query_usage)):
        known = method.built or phase == "spent"
        costs = {cost: getattr(usage, cost) for cost in COSTS if known}
        values |= {f"usage/{phase}/{cost}": float(value) for cost, value in costs.items() if value is not None}
    for task, counts in method.stages.items():
        values |= {f"language/{task}/{stage}": float(count) for stage, count in counts.items()}
    read = method.reading_costs
    reading = read.to_json() if read else {}
    values |= {f"usage/reader/{name}": value for name, value in reading.items() if value is not None}
    totals = {
        "index/seconds": method.index_seconds,
        "index/bytes": method.index_bytes,
        "usage/query/calls": method.calls,
    }
    values |= {name: value for name, value in totals.items() if value is not None}
    return {**values, "unanswered": len(method.failures)}


def _milliseconds(prefix: str, part: Percentiles) -> dict[str, float]:
    named = {f"latency/{prefix}p50_ms": part.p50, f"latency/{prefix}p95_ms": part.p95}
    return {name: value for name, value in named.items() if value is not None}


def summary_metrics(study: Study) -> Mapping[str, float]:
    """Return the first quality metric and the median latency of each method, by label, and counts.

    Of several comparisons, these are the means of a method's figures.
    """
    figures: dict[str, list[float]] = {}
    for comparison in study.comparisons:
        name = headline_metric(comparison.methods, comparison.ks)
        for method in comparison.methods:
            values = {metric_name(name): method.metrics[name]} if name in method.metrics else {}
            values |= {"latency/p50_ms": method.latency.total.p50} if method.latency.total.p50 is not None else {}
            for metric, value in values.items():
                figures.setdefault(f"methods/{method.label}/{metric}", []).append(value)
    return {
        **{name: fmean(values) for name, values in figures.items()},
        "methods": max(len(comparison.methods) for comparison in study.comparisons),
        "failed_methods": sum(len(comparison.failed) for comparison in study.comparisons),
        "questions": sum(comparison.dataset.questions for comparison in study.comparisons),
        **spent_metrics(sum((comparison.spent for comparison in study.comparisons), NO_USAGE)),
        **_lost_metrics(study.comparisons),
    }


def _lost_metrics(comparisons: Sequence[Comparison]) -> dict[str, float]:
    """Return what attempts without an answer can have cost, if that is known, and how many were repeated."""
    lost, retries = [comparison.possibly_charged for comparison in comparisons], [each.retries for each in comparisons]
    money = {} if None in lost else {"usage/spent/possibly_charged": sum(each or 0.0 for each in lost)}
    return {**money, "usage/spent/retries": float(sum(retries))}


def spent_metrics(spent: Usage, before: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return what a run paid in all, as `usage/spent/money`; an unknown amount is left out.

    `before` are the metrics of a run that goes on: what was paid then is added.
    """
    costs = {f"usage/spent/{name}": getattr(spent, name) for name in COSTS}
    earlier = before or {}
    return {name: float(cost) + earlier.get(name, 0.0) for name, cost in costs.items() if cost is not None}


# ---------------------------------------------------------------- data sets


def dataset_inputs(datasets: Iterable[DatasetFacts]) -> list["DatasetInput"]:
    """Return the corpora and the questions as MLflow datasets, with digests of their content."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    def make(context: str, name: str, content: str, profile: Mapping[str, int]) -> DatasetInput:
        source = json.dumps({"uri": hide_secrets(name)})
        dataset = Dataset(hide_secrets(name)[:500], content, "local", source, profile=json.dumps(dict(profile)))
        return DatasetInput(dataset, [InputTag("mlflow.data.context", context)])

    inputs = {}
    for facts in datasets:
        counts = {"documents": facts.documents, "passages": facts.passages}
        sizes = {name: count for name, count in counts.items() if count is not None}
        question_counts = {"questions": facts.questions, "judged": facts.judged}
        name = facts.questions_file or f"{facts.name} questions"
        inputs["corpus", facts.corpus_digest] = make("corpus", facts.name, facts.corpus_digest, sizes)
        inputs["questions", facts.questions_digest] = make("questions", name, facts.questions_digest, question_counts)
    return list(inputs.values())
