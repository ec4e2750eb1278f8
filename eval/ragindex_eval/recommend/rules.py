"""What a recommendation aims at: metric, margin, risk and constraints; the help texts of the flags are here."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from ragindex.errors import UsageError
from ragindex.plugins.strict_models import Strict
from ragindex_eval.metrics.retrieval import metric_names


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
