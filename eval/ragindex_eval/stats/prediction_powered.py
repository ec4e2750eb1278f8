"""Means over questions from a person's judgements of some and a model's of all: prediction-powered inference (PPI++).

A person judged n questions, drawn at random; a model judged these and N others. The mean is that of the person's
metric Y, corrected by what the model's metric f says of the others (Angelopoulos, Duchi and Zrnic 2023, PPI++):

    estimate = mean_n(Y - weight * f) + weight * mean_N(f)                           (section 2)
    weight   = Cov_n(Y, f) / ((1 + n/N) Var(f)), within [0, 1]                       (power tuning, section 6)
    variance = Var_n(Y - weight * f) / n + weight^2 * Var_N(f) / N

However wrong the model is, the estimate is centred on the person's mean, and a useless model gets a weight near 0. The
paper's intervals are normal and hold for large n; three things differ here, for 20 questions and fewer. The weight of
each fold of questions is tuned on the other folds (cross-fitting, Zrnic and Candès 2023), since a weight tuned on the
questions that it weighs biases the mean. The quantile is that of Student's t. And the interval is made on the scale
of the log odds, since a mean near 1 is further from the truth below than above. Coverage of each:
docs/dev/evidence/model-judgements.md.
"""

from dataclasses import dataclass

import numpy as np

from ragindex_eval.stats.intervals import LEVEL, Interval, SampleArray, log_odds_interval

FEWEST_JUDGED = 5
"""Questions that a person must have judged before there is an interval."""
FOLDS = 5
_EQUAL = 1e-12  # values that differ less are equal


@dataclass(frozen=True, slots=True)
class PoweredMean:
    """An estimated mean with its 95 % interval.

    `weight` is how far the model is trusted, from 0 to 1. `effective_questions` is the number of questions that a
    person would have to judge for a mean of this variance without the model.
    """

    estimate: float
    interval: Interval
    weight: float
    effective_questions: float


def estimate_mean(human: SampleArray, model: SampleArray, others: SampleArray, level: float = LEVEL) -> PoweredMean:
    """Return the prediction-powered mean of a metric in [0, 1], for questions like these.

    `human` and `model` are the metric by each judge's judgements on the same n questions, in random order, and `others`
    the model's on the questions that no person judged; both are empty if there is no model. Raises ValueError for fewer
    than five questions, values outside [0, 1], or `human` and `model` of different length.
    """
    if len(human) < FEWEST_JUDGED:
        raise ValueError(f"an interval needs {FEWEST_JUDGED} questions that a person judged; got {len(human)}")
    if len(others) and len(human) != len(model):
        raise ValueError(f"a model must have judged the questions of the person; got {len(model)} for {len(human)}")
    if any(values.size and not 0 <= values.min() <= values.max() <= 1 for values in (human, model, others)):
        raise ValueError("a metric must lie in [0, 1]")
    weights = _cross_fit(human, model, others) if len(others) else np.zeros(len(human))
    used = bool(weights.any())
    weight, centred = float(weights.mean()), model - model.mean() if used else np.zeros(len(human))
    estimate = float((human - weights * model).mean()) + weight * float(others.mean()) if used else float(human.mean())
    estimate = min(1.0, max(0.0, estimate))
    residuals = human - weights * centred
    spread = weight**2 * _variance(others) / len(others) if used else 0.0
    variance = _variance(residuals) / len(human) + spread
    effective = _variance(human) / variance if variance > 0 else float(len(human))
    return PoweredMean(estimate, log_odds_interval(estimate, variance, residuals, level), weight, effective)


def tune_weight(human: SampleArray, model: SampleArray, others: SampleArray, questions: int) -> float:
    """Return the weight, within [0, 1], that makes the variance of a mean smallest.

    `questions` is the number n that a person judged; `human` and `model` may be those of only some of these.
    """
    spread = _variance(np.concatenate([model, others]))
    if spread < _EQUAL:
        return 0.0
    together = float(np.cov(human, model)[0, 1])
    return min(1.0, max(0.0, together / ((1 + questions / len(others)) * spread)))


def _cross_fit(human: SampleArray, model: SampleArray, others: SampleArray) -> SampleArray:
    """Return for each question the weight tuned on the questions of the other folds."""
    folds, weights = np.arange(len(human)) % FOLDS, np.zeros(len(human))
    for fold in range(FOLDS):
        others_folds = folds != fold
        weights[~others_folds] = tune_weight(human[others_folds], model[others_folds], others, len(human))
    return weights


def _variance(values: SampleArray) -> float:
    return float(values.var(ddof=1)) if len(values) > 1 else 0.0
