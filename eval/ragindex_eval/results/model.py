"""The result of a comparison: frozen values, and the JSON that other programs read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ragindex.types import Query, Step, Usage
from ragindex.workspace.workspace import PartFigures
from ragindex_eval.data.gold import Gold
from ragindex_eval.metrics.tree_coverage import Coverage
from ragindex_eval.results.reader_results import ReaderAnswer, ReaderFacts, ReadingCosts
from ragindex_eval.results.reader_results import costs as reading_costs

Interval: TypeAlias = tuple[float, float]
"""The low and the high end of a 95 % interval."""

RESULT_SCHEMA = 3
NO_USAGE = Usage()
LATENCY = "latency_ms"
COSTS = ("input_tokens", "output_tokens", "money")
DIFFERENCE, RATIO = "difference of means", "ratio of geometric means"


@dataclass(frozen=True, slots=True)
class SavedHit:
    """What metrics need of a hit; of the first few also the title and how the text begins, for a person to read."""

    id: str
    doc_ids: tuple[str, ...]
    score: float
    title: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class MethodAnswer:
    """What one method found for one question; `error` says why it found nothing, where it failed.

    `usage` is what its calls of language models and of paid encoders cost when they were first made, `calls` how many
    of the former there were. `reading` is what a reader made of what was found, where one was asked.
    """

    query_id: str
    hits: tuple[SavedHit, ...]
    error: str | None = None
    trace: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    usage: Usage = NO_USAGE
    calls: int = 0
    reading: ReaderAnswer | None = None


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Milliseconds; None where no question was answered."""

    p50: float | None
    p95: float | None

    def to_json(self) -> dict[str, float | None]:
        """`{"p50", "p95"}`."""
        return {"p50": self.p50, "p95": self.p95}


@dataclass(frozen=True, slots=True)
class Latency:
    """Time of one question alone, at the largest k, over a sample: in all, and where it went.

    `per_query` is the time in all, in milliseconds, by query id. `taken` is when the timing began (UTC): methods of one
    comparison have one, for they are timed together or not compared.
    """

    total: Percentiles
    encoder: Percentiles
    store: Percentiles
    own: Percentiles
    per_query: Mapping[str, float]
    taken: str = ""

    @property
    def questions(self) -> int:
        """How many were timed."""
        return len(self.per_query)

    def to_json(self) -> dict[str, Any]:
        """`{"p50", "p95", "encoder": {…}, "store": {…}, "own": {…}, "taken"}`."""
        split = {"encoder": self.encoder, "store": self.store, "own": self.own}
        by_part = {name: value.to_json() for name, value in split.items()}
        return {**self.total.to_json(), **by_part, "taken": self.taken}


_NOTHING = Percentiles(None, None)
NOT_TIMED = Latency(_NOTHING, _NOTHING, _NOTHING, _NOTHING, {})


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """What was searched and asked. `judged` questions have gold documents; means are over these."""

    name: str
    format: str
    documents: int
    passages: int
    questions: int
    judged: int
    fingerprint: str

    def to_json(self) -> dict[str, Any]:
        """With `judged` only where it is not every question."""
        names = ("name", "format", "documents", "passages", "questions", "fingerprint")
        facts = {name: getattr(self, name) for name in names}
        return facts if self.judged == self.questions else {**facts, "judged": self.judged}


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The means over the questions of one kind: `by` is "hops" or "kind", `value` which."""

    by: str
    value: str
    questions: int
    metrics: Mapping[str, float]
    ci95: Mapping[str, Interval]

    def to_json(self) -> dict[str, Any]:
        """One element of `breakdown`."""
        intervals = {name: list(bounds) for name, bounds in self.ci95.items()}
        metrics = dict(self.metrics)
        return {"by": self.by, "value": self.value, "questions": self.questions, "metrics": metrics, "ci95": intervals}


@dataclass(frozen=True, slots=True)
class MethodPair:
    """How two methods differ, over the questions that both have a figure for: one statistic with its interval and test.

    `metric` is a metric of quality, or one of `MethodResult.costs`. `value` is the mean of `a` less the mean of `b`; of
    latency, which is skewed, the geometric mean of `a` divided by that of `b` (`statistic` says which). `ci95` is its
    interval, None where there are fewer than two questions; `p` is that of the paired permutation test of the same
    value, `p_holm` corrected for all pairs of this metric.
    """

    a: str
    b: str
    metric: str
    questions: int
    value: float
    ci95: Interval | None
    p: float
    p_holm: float

    @property
    def statistic(self) -> str:
        """What `value` is."""
        return RATIO if self.metric == LATENCY else DIFFERENCE

    @property
    def excess(self) -> float:
        """More than 0 where the figure of `a` is the higher one, less where it is the lower one."""
        return self.value - 1.0 if self.statistic == RATIO else self.value

    def turned(self) -> "MethodPair":
        """The same, from the other side."""
        bounds = None if self.ci95 is None else (self._turned(self.ci95[1]), self._turned(self.ci95[0]))
        return replace(self, a=self.b, b=self.a, value=self._turned(self.value), ci95=bounds)

    def _turned(self, value: float) -> float:
        return 1.0 / value if self.statistic == RATIO else -value

    def to_json(self) -> dict[str, Any]:
        """One element of `pairs`."""
        bounds = None if self.ci95 is None else list(self.ci95)
        named = {"a": self.a, "b": self.b, "metric": self.metric, "statistic": self.statistic}
        tested = {"value": self.value, "ci95": bounds, "p": self.p, "p_holm": self.p_holm}
        return {**named, "questions": self.questions, **tested}


@dataclass(frozen=True, slots=True)
class MethodResult:
    """One method's figures. `answers` are by k: at the largest alone, unless the method reads k.

    `per_query` are the metrics of every judged question by its id, `metrics` their means, `ci95` the intervals of the
    means and of latency_ms_p50 and latency_ms_p95 (none where fewer than two questions were asked); `parts` is the
    index, as if the method were built alone; `spent` is what this run paid for it; `stages` how the answers of
    language models were read in this run (strict, repaired, failed, …), by task; `fingerprint` names all that the
    answers depend on. Money is None wherever a part of it is not known, as of a model without a price.
    """

    name: str
    label: str
    params: Mapping[str, Any]
    fingerprint: str
    answers: Mapping[int, tuple[MethodAnswer, ...]]
    per_query: Mapping[str, Mapping[str, float]]
    metrics: Mapping[str, float]
    latency: Latency
    parts: Mapping[str, PartFigures]
    ci95: Mapping[str, Interval] = field(default_factory=dict)
    breakdown: tuple[Breakdown, ...] = ()
    spent: Usage = NO_USAGE
    stages: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def index_usage(self) -> Usage:
        """Tokens and money of all parts, as if the method were built alone and nothing had been paid before."""
        return sum((part.usage for part in self.parts.values()), NO_USAGE)

    @property
    def query_usage(self) -> Usage:
        """The mean over all questions at the largest k, with what those that failed had paid."""
        whole = sum((answer.usage for answer in self.final), NO_USAGE)
        costs = {name: getattr(whole, name) for name in ("seconds", *COSTS)}
        known = {name: cost / max(1, len(self.final)) for name, cost in costs.items() if cost is not None}
        return replace(whole, **known)

    @property
    def reading_costs(self) -> ReadingCosts | None:
        """What reading took, a question: apart from `query_usage`. None where nothing was read."""
        return reading_costs([one.reading for one in self.final if one.reading is not None])

    @property
    def calls(self) -> float:
        """Calls of language models a question: the mean over all of them."""
        return sum(answer.calls for answer in self.final) / max(1, len(self.final))

    def costs(self) -> Mapping[str, Mapping[str, float]]:
        """What each question cost, by metric and query id: latency_ms, tokens, and money where all of it is known."""
        paid = {name: {one.query_id: getattr(one.usage, name) for one in self.final} for name in COSTS}
        known = {name: values for name, values in paid.items() if None not in values.values()}
        return {LATENCY: self.latency.per_query, **known}

    @property
    def final(self) -> tuple[MethodAnswer, ...]:
        """The answers at the largest k, in the order of the questions."""
        return self.answers[max(self.answers)]

    @property
    def failures(self) -> Mapping[str, str]:
        """The questions that were not answered at some k, and why."""
        pairs = (answer for answers in self.answers.values() for answer in answers)
        return {answer.query_id: answer.error for answer in pairs if answer.error is not None}

    @property
    def index_seconds(self) -> float:
        """Seconds of building all parts."""
        return sum(part.seconds for part in self.parts.values())

    @property
    def index_bytes(self) -> int:
        """Bytes on disk of all parts."""
        return sum(part.bytes for part in self.parts.values())

    def to_json(self) -> dict[str, Any]:
        """One element of `methods`."""
        parts = {
            name: {"seconds": part.seconds, "bytes": part.bytes, "search": part.search, **_usage(part.usage)}
            for name, part in self.parts.items()
        }
        return {
            "name": self.name,
            "label": self.label,
            "params": dict(self.params),
            "metrics": dict(self.metrics),
            "latency_ms": self.latency.to_json(),
            "index": {"seconds": self.index_seconds, "bytes": self.index_bytes, "parts": parts},
            "unanswered": len(self.failures),
            "usage": {
                "index": _usage(self.index_usage),
                "spent": _usage(self.spent),
                "query": {**_usage(self.query_usage), "calls": self.calls},
                "stages": {task: dict(counts) for task, counts in self.stages.items()},
                **({"reader": read.to_json()} if (read := self.reading_costs) else {}),
            },
            "ci95": {name: list(bounds) for name, bounds in self.ci95.items()},
            "breakdown": [one.to_json() for one in self.breakdown],
            "fingerprint": self.fingerprint,
        }


def sort_methods(methods: Sequence[MethodResult], ks: Sequence[int]) -> list[MethodResult]:
    """Sorted by the first metric: recall at the smallest k where there is gold, else EM where answers were read.

    Of equal ones, and without any metric, in the order given.
    """
    first = next((name for name in (f"R@{ks[0]}", "EM") if any(name in one.metrics for one in methods)), "")
    return sorted(methods, key=lambda method: -method.metrics.get(first, 0.0))


def describe_failed(failed: Sequence[MethodResult]) -> str:
    """A sentence for each method that failed on every question, with its first reason."""
    return " ".join(f"{method.label} {failed_on(method)}, and is not compared: {_reason(method)}." for method in failed)


def failed_on(method: MethodResult) -> str:
    """`failed on every question`, of a method that did: at some k, or of those that have gold documents or answers."""
    unread = {one.query_id for one in method.final if one.reading is not None and one.reading.error}
    whole = len(method.failures.keys() | unread) == len(method.final)
    return f"failed on every question{'' if whole else ' with gold'}"


def _reason(method: MethodResult) -> str:
    unread = (one.reading.error for one in method.final if one.reading is not None and one.reading.error)
    return next(iter([*method.failures.values(), *unread]), "").rstrip(".")[:300]


def _usage(usage: Usage) -> dict[str, float | None]:
    """Money is null where it is not known."""
    return {name: getattr(usage, name) for name in COSTS}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Holds the result of one comparison.

    `methods` are sorted by the first metric, the best first; `asked` are their labels in the order in which they were
    named. `failed` are methods that failed on every question: they have no metrics, no latency and no pairs. `pairs`
    are all pairs of methods by every metric; `titles` those of the gold documents, by id; `notes` say what was not read
    of the data; `left_out` why methods that were not asked for by name are missing; `environment` are versions and the
    number of processors; `llm` is "none" where no method asks a language model. Where answers were read,
    `reader` says by whom, and `bounds` are what that reader answers from nothing and from the gold documents.
    `coverage` is known where a method searches trees of summaries.
    """

    dataset: DatasetFacts
    encoder: str
    encoder_id: str | None
    llm: str
    store: str
    language: str
    seed: int
    ks: tuple[int, ...]
    queries: tuple[Query, ...]
    gold: Mapping[str, Gold] | None
    titles: Mapping[str, str]
    methods: tuple[MethodResult, ...]
    pairs: tuple[MethodPair, ...]
    notes: tuple[str, ...]
    left_out: tuple[str, ...]
    environment: Mapping[str, str]
    fingerprint: str
    reader: ReaderFacts | None = None
    bounds: tuple[MethodResult, ...] = ()
    coverage: Coverage | None = None
    asked: tuple[str, ...] = ()
    failed: tuple[MethodResult, ...] = ()

    def method(self, label: str) -> MethodResult:
        """The result of the method with this label. Raises KeyError."""
        return {method.label: method for method in self.methods}[label]

    def pair(self, a: str, b: str, metric: str) -> MethodPair:
        """How `a` differs from `b`. Raises KeyError where the metric is not known of both."""
        for pair in self.pairs:
            if pair.metric == metric and {pair.a, pair.b} == {a, b}:
                return pair if pair.a == a else pair.turned()
        raise KeyError((a, b, metric))

    def to_json(self) -> dict[str, Any]:
        """The schema that `--json` writes; its version rises where the meaning of a field changes."""
        bounds = [bound.to_json() for bound in self.bounds]
        return {
            "schema": RESULT_SCHEMA,
            "dataset": self.dataset.to_json(),
            "encoder": self.encoder,
            "store": self.store,
            "seed": self.seed,
            "methods": [method.to_json() for method in self.methods],
            "failed": [method.to_json() for method in self.failed],
            "asked": list(self.asked),
            "pairs": [pair.to_json() for pair in self.pairs],
            "ks": list(self.ks),
            "language": self.language,
            "encoder_id": self.encoder_id,
            "llm": self.llm,
            "notes": list(self.notes),
            "left_out": list(self.left_out),
            "environment": dict(self.environment),
            "fingerprint": self.fingerprint,
            **({} if self.coverage is None else {"coverage": self.coverage.to_json()}),
            **({} if self.reader is None else {"reader": self.reader.to_json(), "bounds": bounds}),
        }


@dataclass(frozen=True, slots=True)
class Study:
    """Comparisons that belong together: several corpora, encoders or seeds; one comparison is a study of one.

    `command` is what a person would write to make it again.
    """

    name: str
    comparisons: tuple[Comparison, ...]
    command: str = ""
