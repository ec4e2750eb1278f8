"""Logistic regression in which some weights must not be negative: those of features that only speak for a candidate."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragindex_eval.stats.intervals import SampleArray

L2 = 1e-3
"""The strength of the penalty on squared weights of standardized features, relative to the mean loss of a candidate."""
_ITERATIONS = 500


@dataclass(frozen=True, slots=True)
class JudgedCandidates:
    """The candidates of one question: features (candidates, features), which are relevant, and ids, for ties.

    `gold` is the number of relevant documents in the corpus, found or not; `relevant[i]` is the document that candidate
    i counts for, "" if it counts for none.
    """

    features: SampleArray
    relevant: tuple[str, ...]
    ids: tuple[str, ...]
    gold: int


def fit_weights(
    judged: Sequence[JudgedCandidates], increasing: Sequence[bool], l2: float = L2
) -> tuple[SampleArray, float]:
    """Return the weights of the features and the intercept of P(relevant) = sigmoid(w · x + b).

    Weights of the features marked in `increasing` are at least 0. Each question counts alike, however many candidates
    it has. Fitted by L-BFGS-B to the mean log loss plus `l2` times the squared weights of features scaled to unit
    variance.
    """
    from scipy.optimize import minimize  # takes a second to import

    features = np.concatenate([judged_question.features for judged_question in judged])
    relevant = np.concatenate(
        [np.array([bool(id) for id in judged_question.relevant], np.float64) for judged_question in judged]
    )
    share = np.concatenate(
        [np.full(len(judged_question.ids), 1 / max(1, len(judged_question.ids))) for judged_question in judged]
    )
    share /= max(share.sum(), 1e-12)
    scale = features.std(axis=0)
    scale[scale == 0] = 1.0
    scaled = features / scale

    def loss(fitted: SampleArray) -> tuple[float, SampleArray]:
        logits = scaled @ fitted[:-1] + fitted[-1]
        errors = share * (1 / (1 + np.exp(-logits)) - relevant)
        value = float((share * (np.logaddexp(0, logits) - relevant * logits)).sum() + l2 * (fitted[:-1] ** 2).sum())
        return value, np.append(scaled.T @ errors + 2 * l2 * fitted[:-1], errors.sum())

    bounds = [*((0.0 if judged_question else None, None) for judged_question in increasing), (None, None)]
    options = {"maxiter": _ITERATIONS}
    optimum = minimize(loss, np.zeros(len(bounds)), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return optimum.x[:-1] / scale, float(optimum.x[-1])


def rank_candidates(judged: JudgedCandidates, weights: SampleArray) -> list[int]:
    """Return the rows of the candidates, best first, equal scores by id."""
    scores = judged.features @ weights
    return sorted(range(len(judged.ids)), key=lambda row: (-scores[row], judged.ids[row]))


def recall_at(judged: JudgedCandidates, weights: SampleArray, ks: Sequence[int]) -> list[float]:
    """Return the recall of relevant documents among the first k candidates, for each k."""
    order = rank_candidates(judged, weights)
    return [len({judged.relevant[row] for row in order[:k]} - {""}) / max(1, judged.gold) for k in ks]
