"""What a recommendation aims at: metric, margin, risk and constraints; the help texts of the flags are here."""

from typing import Literal

from pydantic import ConfigDict, Field

from ragindex.errors import UsageError
from ragindex.plugins.strict_models import Strict
from ragindex_eval.metrics.retrieval import metric_names


class RecommendRules(Strict):
    """Aim and constraints of a recommendation, fixed before the first question is asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str = Field(default="R@5", description="The metric to decide by, as R@5, nDCG@10 or full_R@10.")
    delta: float = Field(default=0.02, gt=0, lt=1, description="A difference that does not matter to you.")
    alpha: float = Field(default=0.05, gt=0, lt=1, description="The risk that any statement of the race is wrong.")
    estimand: Literal["population", "questions"] = Field(
        default="population",
        description="population: all questions like these (default); questions: exactly those that are raced on.",
    )
    block: int = Field(default=10, ge=1, description="Questions between two decisions.")
    min_recall: float | None = Field(
        default=None, gt=0, lt=1, description="Least recall allowed, of the metric R@K that is decided by."
    )
    max_p95_ms: float | None = Field(default=None, gt=0, description="Slowest answer allowed (95th percentile).")
    max_index_minutes: float | None = Field(default=None, gt=0, description="Longest time to build the index.")
    max_index_dollars: float | None = Field(default=None, ge=0, description="Most to pay for building the index.")
    max_dollars_per_1000: float | None = Field(default=None, ge=0, description="Most to pay for 1,000 questions.")
    max_mb: float | None = Field(default=None, gt=0, description="Largest index on disk.")

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
