"""A recommendation: what it aims at, what each candidate cost and scored and why it left, and the decision.

The help texts of the flags are those of the rules.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from ragindex.errors import UsageError
from ragindex.interfaces import Scheme
from ragindex.plugins.strict_models import Strict
from ragindex.types import Usage
from ragindex_eval.metrics.retrieval import metric_names
from ragindex_eval.results.model import DatasetFacts
from ragindex_eval.results.records import NO_USAGE, HoldoutResult
from ragindex_eval.stats.intervals import Interval


def _rule(metavar: str, help: str, default: Any = None, **limits: Any) -> Any:
    """Return a field that is an option of the command: how its value is written, and its help."""
    return Field(default=default, description=help, json_schema_extra={"metavar": metavar}, **limits)


class RecommendRules(Strict):
    """Aim and constraints of a recommendation, fixed before the first question is asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str = _rule("R@5", "The metric to decide by, as R@5, nDCG@10 or full_R@10. Default: R@5.", default="R@5")
    delta: float = _rule("D", "A difference that does not matter to you. Default: 0.02.", default=0.02, gt=0, lt=1)
    alpha: float = _rule(
        "A", "The risk that any statement of the race is wrong. Default: 0.05.", default=0.05, gt=0, lt=1
    )
    estimand: Literal["population", "questions"] = _rule(
        "WHICH",
        "population: all questions like these (default); questions: exactly those that are raced on.",
        default="population",
    )
    block: int = _rule("N", "Questions between two decisions. Default: 10.", default=10, ge=1)
    min_recall: float | None = _rule("R", "Least recall allowed, of the metric R@K that is decided by.", gt=0, lt=1)
    max_p95_ms: float | None = _rule("MS", "Slowest answer allowed (95th percentile).", gt=0)
    max_index_minutes: float | None = _rule("M", "Longest time to build the index.", gt=0)
    max_index_dollars: float | None = _rule("USD", "Most to pay for building the index.", ge=0)
    max_dollars_per_1000: float | None = _rule("USD", "Most to pay for 1,000 questions.", ge=0)
    max_mb: float | None = _rule("MB", "Largest index on disk.", gt=0)

    def require_metric(self, ks: tuple[int, ...]) -> None:
        """Check that the metric is one that the cutoffs `ks` have. Raises UsageError."""
        known = metric_names(ks)
        if self.metric not in known:
            raise UsageError(f"--metric must be one of {', '.join(known)}. Got {self.metric!r}; --k sets the cutoffs.")
        if self.min_recall is not None and not self.metric.startswith("R@"):
            recalls = ", ".join(name for name in known if name.startswith("R@"))
            raise UsageError(
                f"--min-recall bounds the metric that is decided by, which must be one of {recalls}. "
                f"Got --metric {self.metric}."
            )


def make_rules(values: Mapping[str, Any]) -> RecommendRules:
    """Return the rules. Raises UsageError for a value that is not allowed."""
    try:
        return RecommendRules.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        flag = str(problem["loc"][0]).replace("_", "-")
        raise UsageError(f"--{flag}: {problem['msg']}. Got {problem['input']!r}.") from error


# ---------------------------------------------------------------- candidates and decision


ConfirmationVerdict = Literal["confirmed", "contradicted", "open"]
State = Literal["racing", "accepted", "dropped", "constraint", "sub-corpus", "budget", "failed"]
"""`accepted` and `dropped` are statements of the race, with its risk; `sub-corpus` is a drop by a heuristic.

Of a candidate that left for the `budget`, which did not suffice to build or to ask it, nothing is known.
"""


LARGER_BUDGET = "The same command with a larger --budget goes on where this one stopped."


@dataclass(frozen=True, slots=True)
class Costs:
    """What a method costs: to build its whole index, and to ask. None where it is unknown or was not measured.

    Each of `p95_bounds`, below and above, is wrong with a risk of 5 %, and None where too few questions were timed.
    """

    index_seconds: float | None = None
    index_bytes: float | None = None
    index_dollars: float | None = 0.0
    dollars_per_1000: float | None = None
    p95_ms: float | None = None
    p95_bounds: tuple[float | None, float | None] = (None, None)
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """A method in the race; `asked` questions were asked of it, with the mean `score` of the metric."""

    label: str
    scheme: Scheme
    state: State = "racing"
    reason: str = ""
    costs: Costs = Costs()
    asked: int = 0
    score: float | None = None

    def leave(self, state: State, reason: str) -> "Candidate":
        """Return the candidate as it left the race."""
        return replace(self, state=state, reason=reason)

    @property
    def remains(self) -> bool:
        """Whether the candidate may still be chosen."""
        return self.state in ("racing", "accepted")

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON object."""
        own = {name: getattr(self, name) for name in ("label", "state", "reason", "asked", "score")}
        return {**own, "costs": asdict(self.costs)}


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The chosen method and its rival on `questions` that were never raced on.

    It is confirmed if `difference`, chosen minus rival, lies above minus the margin, contradicted if it lies below,
    and open otherwise. After `earlier` confirmations by any of these questions the interval holds with the probability
    `confidence`, so that all together are right with 95 %.
    """

    verdict: ConfirmationVerdict
    questions: int
    score: float
    rival_score: float
    difference: Interval
    confidence: float
    earlier: int

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RaceStep:
    """The race after `questions` questions: `scores` are the means of the methods that were asked them all, by label.

    `remaining` is the number of methods that may still be chosen.
    """

    questions: int
    scores: Mapping[str, float]
    remaining: int


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The decision of a race.

    `chosen` is the label of the method to use. `decided` says whether the race accepted it as within delta of the
    best, at the risk of the rules; otherwise it is the best so far. `cheaper` are the cheaper candidates that were not
    dropped, so that one of them may do as well. `more_questions` has, for each candidate that is open against the
    chosen one, about how many more questions would tell on which side of the margin it lies; None if no number would.
    `rival` is the method that comes next, and `difference` the interval of chosen minus rival that holds at any time.
    `recall` is such an interval of the chosen method's metric, if --min-recall is given. `questions` were for the race,
    and `kept` were kept apart to confirm its choice. `pareto` are the methods that no other beats in quality, latency,
    money and index cost at once. `questions_asked` and `full` are the questions asked, and those that asking every
    candidate everything would take; in JSON the first one is `spent`, too. `paid` is what the run paid. `holdout` is
    the choice on questions that a ledger lets be used once. `steps` says what was
    done, and why. `race` has the scores after each block of questions. `tells_more` says how many more questions would
    tell the best from the other remaining ones, in the words of `compare`.
    """

    chosen: str
    decided: bool
    rival: str | None
    difference: Interval | None
    cheaper: tuple[str, ...]
    more_questions: Mapping[str, int | None]
    questions: int
    kept: int
    candidates: tuple[Candidate, ...]
    pareto: tuple[str, ...]
    questions_asked: int
    full: int
    steps: tuple[str, ...]
    would_change: tuple[str, ...]
    rules: Mapping[str, Any]
    dataset: DatasetFacts
    encoder: str
    race: tuple[RaceStep, ...] = ()
    confirmation: Confirmation | None = None
    holdout: HoldoutResult | None = None
    recall: Interval | None = None
    tells_more: str = ""
    paid: Usage = NO_USAGE

    @property
    def over_budget(self) -> tuple[Candidate, ...]:
        """The candidates that could not be built or asked within the budget."""
        return tuple(candidate for candidate in self.candidates if candidate.state == "budget")

    def candidate(self, label: str) -> Candidate:
        """Return a candidate by its label."""
        return next(candidate for candidate in self.candidates if candidate.label == label)

    def to_json(self) -> dict[str, Any]:
        """Convert to the JSON of `--json`."""
        plain: tuple[str, ...] = (
            "chosen",
            "decided",
            "rival",
            "difference",
            "recall",
            "cheaper",
            "questions",
            "kept",
            "pareto",
        )
        plain += ("questions_asked", "full", "encoder", "tells_more")
        return {
            **{name: getattr(self, name) for name in plain},
            "spent": self.questions_asked,
            "more_questions": dict(self.more_questions),
            "confirmation": self.confirmation and self.confirmation.to_json(),
            "holdout": self.holdout and self.holdout.to_json(),
            "candidates": [candidate.to_json() for candidate in self.candidates],
            "steps": list(self.steps),
            "would_change": list(self.would_change),
            "rules": dict(self.rules),
            "dataset": self.dataset.to_json(),
            "race": [asdict(step) for step in self.race],
        }


# ---------------------------------------------------------------- while it is made


Tell = Callable[[str], None]


@dataclass(slots=True)
class Progress:
    """Steps of a recommendation, each told as it happens, and the candidates as they stand, by label."""

    tell: Tell
    steps: list[str] = field(default_factory=list)
    standing: dict[str, Candidate] = field(default_factory=dict)

    def note(self, step: str) -> None:
        """Add a step."""
        self.steps.append(step)
        self.tell(step)

    def stand(self, candidates: Iterable[Candidate]) -> None:
        """Take note of how candidates stand."""
        self.standing.update({candidate.label: candidate for candidate in candidates})
