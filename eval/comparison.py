"""The result of a comparison: frozen values, and the JSON that other programs read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eval.datasets import Gold
from ragindex.types import Query
from ragindex.workspace import PartFigures

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Ranked:
    """What metrics need of a hit."""

    id: str
    doc_ids: tuple[str, ...]
    score: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What one method found for one question; `error` says why it found nothing, where it failed."""

    query_id: str
    hits: tuple[Ranked, ...]
    error: str | None = None


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
    """Time of one question alone, at the largest k, over a sample of `questions`: in all, and where it went."""

    total: Percentiles
    encoder: Percentiles
    store: Percentiles
    own: Percentiles
    questions: int

    def to_json(self) -> dict[str, Any]:
        """`{"p50", "p95", "encoder": {…}, "store": {…}, "own": {…}}`."""
        split = {"encoder": self.encoder, "store": self.store, "own": self.own}
        return {**self.total.to_json(), **{name: value.to_json() for name, value in split.items()}}


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
class MethodResult:
    """One method's figures. `answers` are by k: at the largest alone, unless the method reads k.

    `per_query` are the metrics of every judged question by its id, `metrics` their means; `parts` is the index, as if
    the method were built alone; `fingerprint` names all that the answers depend on.
    """

    name: str
    label: str
    params: Mapping[str, Any]
    fingerprint: str
    answers: Mapping[int, tuple[Answer, ...]]
    per_query: Mapping[str, Mapping[str, float]]
    metrics: Mapping[str, float]
    latency: Latency
    parts: Mapping[str, PartFigures]

    @property
    def final(self) -> tuple[Answer, ...]:
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
            name: {"seconds": part.seconds, "bytes": part.bytes, "search": part.search}
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
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `compare` found.

    `notes` say what was not read of the data; `left_out` why methods that were not asked for by name are missing.
    """

    dataset: DatasetFacts
    encoder: str
    encoder_id: str | None
    store: str
    language: str
    seed: int
    ks: tuple[int, ...]
    queries: tuple[Query, ...]
    gold: Mapping[str, Gold] | None
    methods: tuple[MethodResult, ...]
    notes: tuple[str, ...]
    left_out: tuple[str, ...]
    fingerprint: str

    def method(self, label: str) -> MethodResult:
        """The result of the method with this label. Raises KeyError."""
        return {method.label: method for method in self.methods}[label]

    def to_json(self) -> dict[str, Any]:
        """The versioned schema that `--json` writes; later versions only add to it."""
        return {
            "schema": SCHEMA,
            "dataset": self.dataset.to_json(),
            "encoder": self.encoder,
            "store": self.store,
            "seed": self.seed,
            "methods": [method.to_json() for method in self.methods],
        }
