"""The one schema of results: frozen pydantic values of a comparison, written to JSON and read from it as declared.

`RESULT_SCHEMA` is its version. `ragindex_eval.results.files` writes and reads the files.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from statistics import fmean, stdev
from typing import Annotated, Any, TypeAlias

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic.dataclasses import dataclass

from ragindex.types import PartFigures, Position, Query, Step, Usage
from ragindex_eval.data.gold import Gold
from ragindex_eval.format import count_known
from ragindex_eval.metrics.answers import ANSWER_METRICS
from ragindex_eval.metrics.evidence import TokensToRecall
from ragindex_eval.results.records import (
    NO_USAGE,
    Coverage,
    FindsNothing,
    HoldoutResult,
    PublishedComparison,
    QuestionPlan,
    ReaderAnswer,
    ReaderFacts,
    ReadingCosts,
    ResultValue,
    make_adapter,
    mean_reading_costs,
)
from ragindex_eval.stats.intervals import Interval

RESULT_SCHEMA = 7
"""The version of the schema; it is increased when the meaning of a field changes."""
UNKNOWN = "unknown"
"""What a comparison says of encoder, language model, store and language if rankings come from files."""
UNKNOWN_USAGE = Usage(money=None)
LATENCY = "latency_ms"
COSTS = ("input_tokens", "output_tokens", "money")
NAMED, NOT_NAMED = "title named", "no title named"
"""The values of `Breakdown` by "title"."""
DIFFERENCE, RATIO = "difference of means", "ratio of geometric means"


def _write_usage(usage: Usage, known: bool = True) -> dict[str, float | None]:
    """Return usage as JSON; money is null if it is unknown, and so are tokens of which nothing is `known`."""
    return {**{name: getattr(usage, name) if known else None for name in COSTS}, "estimated": usage.estimated}


def _read_usage(value: Any) -> Any:
    """Return the usage of a JSON object, whose unknown tokens are null; any other value as it is."""
    if not isinstance(value, Mapping):
        return value
    known = {name: value[name] for name in COSTS if value[name] is not None or name == "money"}
    return Usage(value.get("seconds", 0.0), **known, estimated=value.get("estimated", False))


SavedUsage: TypeAlias = Annotated[Usage, PlainSerializer(_write_usage), BeforeValidator(_read_usage)]
"""Tokens and money, as files hold them."""


@dataclasses.dataclass(frozen=True, slots=True)
class SavedHit:
    """The parts of a hit that metrics need; the first few also have title and beginning of the text.

    `tokens` is the estimated number of tokens of its title and text. It is checked when it is read from a file, and not
    when it is made, which happens ten thousand times.
    """

    id: str
    doc_ids: tuple[str, ...]
    score: float
    title: str = ""
    text: str = ""
    positions: tuple[Position, ...] = ()
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class MethodAnswer(ResultValue):
    """The hits of one method for one question; `error` is the reason if the method failed on it.

    `usage` is the cost of its LLM and paid encoder calls when they were first made, even if they came from the cache.
    `calls` counts the LLM calls. `reading` is the answer of the reader, if there is one.
    """

    query_id: str
    hits: tuple[SavedHit, ...]
    error: str | None = None
    trace: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    usage: Usage = NO_USAGE
    calls: int = 0
    reading: ReaderAnswer | None = None

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON object, without the fields that have their default values."""
        value: dict[str, Any] = make_adapter(MethodAnswer).dump_python(self, mode="json", exclude_defaults=True)
        return value


@dataclass(frozen=True, slots=True)
class Percentiles(ResultValue):
    """Percentiles in milliseconds; None if no question was answered."""

    p50: float | None
    p95: float | None


@dataclass(frozen=True, slots=True)
class Latency(ResultValue):
    """Latency of single questions at the largest k, over a sample: in total, and in encoder, store and method itself.

    `per_query` is the total time in milliseconds by query id, the median if a question was timed several times.
    `taken` is when the timing began (UTC). All methods of a comparison share it, because latencies of different timing
    runs are not compared. `reference` is the time in milliseconds of a fixed computation just before each question, by
    query id: it differs between methods only by the noise of the machine.
    """

    total: Percentiles
    encoder: Percentiles
    store: Percentiles
    own: Percentiles
    per_query: Annotated[Mapping[str, float], Field(exclude=True)]
    taken: str = ""
    reference: Annotated[Mapping[str, float], Field(exclude=True)] = field(default_factory=dict)

    @property
    def questions(self) -> int:
        """The number of timed questions."""
        return len(self.per_query)

    @property
    def mean(self) -> float | None:
        """The mean total time in milliseconds; None if no question was answered."""
        return fmean(self.per_query.values()) if self.per_query else None

    @property
    def sd(self) -> float | None:
        """The standard deviation of the total times (of a sample) in milliseconds; None for fewer than two."""
        return stdev(self.per_query.values()) if len(self.per_query) > 1 else None

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write the percentiles of the total time beside those of its parts, and `mean` and `sd` for readers."""
        value = write(self)
        total = value.pop("total")
        return {**total, "mean": self.mean, "sd": self.sd, **value}

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or "total" in value:
            return value
        return {**value, "total": {name: value[name] for name in ("p50", "p95")}}


_NO_PERCENTILES = Percentiles(None, None)
NOT_TIMED = Latency(_NO_PERCENTILES, _NO_PERCENTILES, _NO_PERCENTILES, _NO_PERCENTILES, {})


@dataclass(frozen=True, slots=True)
class DatasetFacts(ResultValue):
    """Size and identity of the dataset. `judged` questions have gold documents; means of metrics are over these.

    `documents` and `passages` are None if only rankings are known. `corpus_digest` is a hash of the documents,
    `questions_digest` of the questions and gold, and `fingerprint` of both.
    `questions_file` is the name of the file of questions, "" if they come with the documents. `skipped` files and items
    were left out, for they cannot be read.
    """

    name: str
    format: str
    documents: int | None
    passages: int | None
    questions: int
    judged: int
    fingerprint: str
    corpus_digest: str = ""
    questions_digest: str = ""
    questions_file: str = ""
    skipped: int = 0

    def describe_size(self) -> str:
        """Return how many documents and passages there are."""
        return f"{count_known(self.documents, 'document')}, {count_known(self.passages, 'passage')}"

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out `judged` if every question is judged, and what is unknown."""
        rare = ("corpus_digest", "questions_digest", "questions_file", "skipped")
        left_out = {
            *(name for name in rare if not getattr(self, name)),
            *(["judged"] * (self.judged == self.questions)),
        }
        return {name: value for name, value in write(self).items() if name not in left_out}

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        return {"judged": value["questions"], **value} if isinstance(value, Mapping) else value


@dataclass(frozen=True, slots=True)
class Breakdown(ResultValue):
    """Figures over one group of questions: `by` is "hops", "kind" or "title", `value` is the group.

    `usage` and `calls` are means over the group. "title" tells questions that name the title of a document that answers
    them from those that do not.
    """

    by: str
    value: str
    questions: int
    metrics: Mapping[str, float]
    ci95: Mapping[str, Interval]
    latency: Percentiles
    usage: SavedUsage
    calls: float | None

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        value = write(self)
        calls, latency = value.pop("calls"), value.pop("latency")
        usage = {**_write_usage(self.usage, calls is not None), "calls": calls}
        return {**value, LATENCY: latency, "usage": usage}

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or LATENCY not in value:
            return value
        return {**value, "latency": value[LATENCY], "calls": value["usage"]["calls"]}


@dataclass(frozen=True, slots=True)
class MethodPair(ResultValue):
    """Difference of two methods by one metric over the questions that both have, with its interval and test.

    `metric` is a quality metric or one of `MethodResult.costs`. `value` is the mean of `a` minus the mean of `b`. For
    latency, which is skewed, it is the geometric mean of `a` divided by that of `b`; `statistic` says which. `ci95` is
    the interval of `value`, None if there are fewer than two questions; that of a latency includes the noise of the
    machine. `p` is the p-value of the paired test of `value`; `p_adjusted` and `ci95` are corrected for all pairs of
    this metric.
    """

    a: str
    b: str
    metric: str
    questions: int
    value: float
    ci95: Interval | None
    p: float
    p_adjusted: float

    @property
    def statistic(self) -> str:
        """The name of the statistic in `value`: DIFFERENCE, or RATIO for latency."""
        return RATIO if self.metric == LATENCY else DIFFERENCE

    @property
    def excess(self) -> float:
        """A number above 0 if the figure of `a` is higher than that of `b`, and below 0 if it is lower."""
        return self.value - 1.0 if self.statistic == RATIO else self.value

    def turned(self) -> "MethodPair":
        """Return the same difference with `a` and `b` exchanged."""
        bounds = None if self.ci95 is None else (self._turned(self.ci95[1]), self._turned(self.ci95[0]))
        return replace(self, a=self.b, b=self.a, value=self._turned(self.value), ci95=bounds)

    def _turned(self, value: float) -> float:
        return 1.0 / value if self.statistic == RATIO else -value

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        value = write(self)
        names = {name: value.pop(name) for name in ("a", "b", "metric")}
        return {**names, "statistic": self.statistic, **value}


@dataclass(frozen=True, slots=True)
class MethodResult(ResultValue):
    """Results of one method.

    - `answers`: by k; only at the largest k, unless the ranking of the method depends on k.
    - `per_query`, `metrics`: the metrics of every judged question by id, and their means.
    - `ci95`: the intervals of the means, latency_ms_p50 and latency_ms_p95, as far as there are enough questions: two
      for means, 6 for p50, 72 for p95.
    - `parts`: the figures of each part of the index, as if the method were built alone.
    - `spent`: what this run paid for the method; `seconds` is how long it was built and asked, 0 if read from files.
    - `stages`: how the LLM outputs of this run were parsed (strict, repaired, failed, …), counted by task.
    - `fingerprint`: a hash of everything that the answers depend on.
    - `tokens_to_recall`: how many tokens a reader must be given, by the name of the figure; empty without gold.
    - `built`: False for rankings that come from elsewhere: what they took to build and to find is unknown.

    Money is None if any part of it is unknown, for example for a model without a price.
    """

    name: str
    label: str
    params: Mapping[str, Any]
    fingerprint: str
    answers: Annotated[Mapping[int, tuple[MethodAnswer, ...]], Field(exclude=True)]
    per_query: Annotated[Mapping[str, Mapping[str, float]], Field(exclude=True)]
    metrics: Mapping[str, float]
    latency: Latency
    parts: Annotated[Mapping[str, PartFigures], Field(exclude=True)]
    ci95: Mapping[str, Interval] = field(default_factory=dict)
    breakdown: tuple[Breakdown, ...] = ()
    spent: Annotated[Usage, Field(exclude=True)] = NO_USAGE
    stages: Annotated[Mapping[str, Mapping[str, int]], Field(exclude=True)] = field(default_factory=dict)
    tokens_to_recall: Mapping[str, TokensToRecall] = field(default_factory=dict)
    built: Annotated[bool, Field(exclude=True)] = True

    @property
    def index_usage(self) -> Usage:
        """Tokens and money of indexing, as if the method were built alone and nothing were cached."""
        return sum((part.usage for part in self.parts.values()), NO_USAGE if self.built else UNKNOWN_USAGE)

    @property
    def index_tokens(self) -> int | None:
        """Tokens of indexing, in and out; None if they are unknown."""
        return self.index_usage.input_tokens + self.index_usage.output_tokens if self.built else None

    @property
    def seconds_per_question(self) -> float | None:
        """Mean seconds to retrieve for a timed question, plus those to read, if it was read; None without times."""
        if not self.latency.per_query:
            return None
        readings = [answer.reading for answer in self.final if answer.reading and answer.reading.error is None]
        reading = fmean(reading.usage.seconds for reading in readings) if readings else 0.0
        return fmean(self.latency.per_query.values()) / 1e3 + reading

    @property
    def query_tokens(self) -> float | None:
        """Mean tokens per question, in and out; None if they are unknown."""
        return self.query_usage.input_tokens + self.query_usage.output_tokens if self.built else None

    @property
    def query_usage(self) -> Usage:
        """Mean usage per question at the largest k, including questions on which the method failed."""
        total = sum((answer.usage for answer in self.final), NO_USAGE)
        costs = {name: getattr(total, name) for name in ("seconds", *COSTS)}
        known = {name: cost / max(1, len(self.final)) for name, cost in costs.items() if cost is not None}
        return replace(total, **known)

    @property
    def reading_costs(self) -> ReadingCosts | None:
        """Mean costs of reading per question, which `query_usage` does not include; None if nothing was read."""
        return mean_reading_costs([answer.reading for answer in self.final if answer.reading is not None])

    @property
    def calls(self) -> float | None:
        """Mean number of LLM calls per question; None if it is unknown."""
        return None if not self.built else sum(answer.calls for answer in self.final) / max(1, len(self.final))

    def costs(self) -> Mapping[str, Mapping[str, float]]:
        """Return the costs of each question by metric and query id: latency_ms, tokens, and money if it is known."""
        paid = {name: {answer.query_id: getattr(answer.usage, name) for answer in self.final} for name in COSTS}
        known = {name: values for name, values in paid.items() if self.built and None not in values.values()}
        return {LATENCY: self.latency.per_query, **known}

    @property
    def final(self) -> tuple[MethodAnswer, ...]:
        """The answers at the largest k, in the order of the questions."""
        return self.answers[max(self.answers)]

    @property
    def failures(self) -> Mapping[str, str]:
        """The questions that were not answered at some k, with the reasons."""
        pairs = (answer for answers in self.answers.values() for answer in answers)
        return {answer.query_id: answer.error for answer in pairs if answer.error is not None}

    @property
    def index_seconds(self) -> float | None:
        """Total seconds of building all parts; None if they are unknown."""
        return sum(part.seconds for part in self.parts.values()) if self.built else None

    @property
    def index_bytes(self) -> int | None:
        """Total bytes of all parts on disk; None if they are unknown."""
        return sum(part.bytes for part in self.parts.values()) if self.built else None

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write the figures, with what follows from the answers and the parts; `files` writes the answers."""
        value = write(self)
        parts = {
            name: {"seconds": part.seconds, "bytes": part.bytes, "search": part.search, **_write_usage(part.usage)}
            for name, part in self.parts.items()
        }
        reading = self.reading_costs
        usage = {
            "index": _write_usage(self.index_usage, self.built),
            "spent": _write_usage(self.spent),
            "query": {**_write_usage(self.query_usage, self.built), "calls": self.calls},
            "stages": {task: dict(counts) for task, counts in self.stages.items()},
            **({"reader": reading.to_json()} if reading else {}),
        }
        index = {"seconds": self.index_seconds, "bytes": self.index_bytes, "parts": parts}
        own = {name: value.pop(name) for name in ("name", "label", "params", "metrics")}
        measured = {LATENCY: value.pop("latency"), "index": index, "unanswered": len(self.failures), "usage": usage}
        last = {name: value[name] for name in ("ci95", "tokens_to_recall", "breakdown", "fingerprint")}
        return {**own, **measured, **last}

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or "index" not in value:
            return value
        index, usage = value["index"], value["usage"]
        parts = {
            name: PartFigures(name, part["seconds"], part["bytes"], part["search"], _read_usage(part))
            for name, part in index["parts"].items()
        }
        spent, built = _read_usage(usage["spent"]), index["seconds"] is not None
        return {
            **value,
            "latency": value[LATENCY],
            "parts": parts,
            "spent": spent,
            "stages": usage["stages"],
            "built": built,
        }


def headline_metric(methods: Sequence[MethodResult], ks: Sequence[int]) -> str:
    """Return the name of recall at the smallest k, else of the first answer metric; "" if nothing was measured."""
    return next(
        (name for name in (f"R@{ks[0]}", *ANSWER_METRICS) if any(name in method.metrics for method in methods)), ""
    )


def sort_methods(methods: Sequence[MethodResult], ks: Sequence[int]) -> list[MethodResult]:
    """Sort methods, best first, by the headline metric. The sort is stable; without it, the order stays as it is."""
    first = headline_metric(methods, ks)
    return sorted(methods, key=lambda method: -method.metrics.get(first, 0.0))


def describe_failed(failed: Sequence[MethodResult]) -> str:
    """Return a sentence for each method that failed on every question, with its first reason."""
    return " ".join(
        f"{method.label} {failed_on(method)}, and is not compared: {_first_reason(method)}." for method in failed
    )


def failed_on(method: MethodResult) -> str:
    """Say whether a failed method failed on every question, or on every question with gold."""
    unread = {answer.query_id for answer in method.final if answer.reading is not None and answer.reading.error}
    everywhere = len(method.failures.keys() | unread) == len(method.final)
    return f"failed on every question{'' if everywhere else ' with gold'}"


def _first_reason(method: MethodResult) -> str:
    unread = (answer.reading.error for answer in method.final if answer.reading is not None and answer.reading.error)
    return next(iter([*method.failures.values(), *unread]), "").rstrip(".")[:300]


_RARE = ("coverage", "finds_nothing", "enough", "holdout", "published", "reader", "bounds")
"""The fields of a comparison that most have not."""
_FIRST = ("dataset", "encoder", "store", "seed", "methods", "failed", "asked", "pairs")
"""The fields that JSON has first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMethods(ResultValue):
    """Methods that answered the same questions, and their differences: what conclusions are drawn from.

    - `methods`: sorted by the first metric, best first.
    - `pairs`: all pairs of methods by every metric.
    """

    ks: tuple[int, ...]
    methods: tuple[MethodResult, ...]
    pairs: tuple[MethodPair, ...]
    _by_labels: Mapping[tuple[str, str, str], MethodPair] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index the pairs, of which there may be thousands."""
        object.__setattr__(self, "_by_labels", {(pair.a, pair.b, pair.metric): pair for pair in self.pairs})

    def method(self, label: str) -> MethodResult:
        """Return the result of a method by its label. Raises KeyError if there is none."""
        return {method.label: method for method in self.methods}[label]

    def pair(self, a: str, b: str, metric: str) -> MethodPair:
        """Return the difference of `a` and `b` by a metric. Raises KeyError if the metric is not known for both."""
        pair = self._by_labels.get((a, b, metric))
        return self._by_labels[b, a, metric].turned() if pair is None else pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(ComparedMethods):
    """Result of one comparison.

    - `asked`: the labels of the methods in the order given.
    - `failed`: methods that failed on every question, without metrics, latency and pairs.
    - `titles`: the titles of the gold documents by id.
    - `near_gold`: by question, documents among the first hits that have nearly the text of a gold document that a
      method missed at the smallest k, each with that gold document.
    - `read_shares`: which share of its file's words was read, of gold documents with too low a share.
    - `notes`: what changes a figure or the user's next step, such as files that were skipped; all are shown.
    - `details`: other remarks on the data and the index, of which a short output shows the first.
    - `left_out`: why methods that were not named explicitly are missing.
    - `environment`: versions and processors of the machine.
    - `llm`: the name of the LLM, "none" if no method uses one.
    - `reader`, `bounds`: if answers were read, the reader, and what it answers without passages and from the gold
      documents.
    - `coverage`: set if a method searches trees of summaries.
    - `finds_nothing`: how often methods find nothing, if some questions have no answer in the documents.
    - `enough`: what the questions can show, if there are at least two methods and a few judged questions.
    - `holdout`: set if the choice was confirmed by questions kept apart.
    - `published`: set if the settings have a published table with figures on this data set.
    - `paid`: what the run paid in all; None if that was not recorded.
    - `possibly_charged`, `retries`: the most dollars that attempts without an answer can have cost on top of that (None
      if a price is unknown), and how many attempts were repeated.
    """

    dataset: DatasetFacts
    encoder: str
    store: str
    seed: int
    failed: tuple[MethodResult, ...] = ()
    asked: tuple[str, ...] = ()
    language: str
    encoder_id: str | None
    llm: str
    notes: tuple[str, ...]
    details: tuple[str, ...] = ()
    left_out: tuple[str, ...]
    environment: Mapping[str, str]
    fingerprint: str
    coverage: Coverage | None = None
    finds_nothing: tuple[FindsNothing, ...] = ()
    enough: QuestionPlan | None = None
    holdout: HoldoutResult | None = None
    published: PublishedComparison | None = None
    reader: ReaderFacts | None = None
    bounds: tuple[MethodResult, ...] = ()
    queries: Annotated[tuple[Query, ...], Field(exclude=True)]
    gold: Annotated[Mapping[str, Gold] | None, Field(exclude=True)]
    titles: Annotated[Mapping[str, str], Field(exclude=True)]
    near_gold: Annotated[Mapping[str, Mapping[str, str]], Field(exclude=True)] = field(default_factory=dict)
    read_shares: Annotated[Mapping[str, float], Field(exclude=True)] = field(default_factory=dict)
    paid: Annotated[Usage | None, Field(exclude=True)] = None
    possibly_charged: Annotated[float | None, Field(exclude=True)] = 0.0
    retries: Annotated[int, Field(exclude=True)] = 0

    @property
    def spent(self) -> Usage:
        """What this run paid in all: for the methods, those that failed, the reader's bounds and a holdout."""
        each = (method.spent for method in (*self.methods, *self.failed, *self.bounds))
        return sum(each, NO_USAGE) if self.paid is None else self.paid

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write the JSON of `--json`, without what was not measured; `files` writes questions and gold."""
        value = write(self)
        lost = {"possibly_charged": self.possibly_charged, "retries": self.retries}
        spent = {"spent": {**_write_usage(self.spent), **lost}}
        measured = {name: value.pop(name) for name in _RARE}
        named = {name: part for name, part in measured.items() if (self.reader if name == "bounds" else part)}
        first = {name: value.pop(name) for name in _FIRST}
        return {"schema": RESULT_SCHEMA, **first, **value, **spent, **named}

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or "spent" not in value:
            return value
        spent = value["spent"]
        lost = {name: spent[name] for name in ("possibly_charged", "retries") if name in spent}
        return {**value, **lost, "paid": _read_usage(spent)}


@dataclass(frozen=True, slots=True)
class Study:
    """One or more comparisons that belong together, over several corpora, encoders or seeds.

    `command` is the command line that reproduces the study. It ran for `seconds` from `started`, an ISO time in UTC; ""
    if unknown.
    """

    name: str
    comparisons: tuple[Comparison, ...]
    command: str = ""
    started: str = ""
    seconds: float = 0.0
