"""The logistic regression of `tune`: against scikit-learn, and by hand."""

from collections.abc import Sequence

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from ragindex_eval.stats.logistic import JudgedCandidates, fit_weights, rank_candidates, recall_at

L2 = 0.01


def judged(features: Sequence[Sequence[float]], relevant: Sequence[str], gold: int = 1) -> JudgedCandidates:
    return JudgedCandidates(
        np.array(features, float), tuple(relevant), tuple(f"p{n}" for n in range(len(relevant))), gold
    )


def drawn_questions(seed: int) -> list[JudgedCandidates]:
    """Questions with 3 to 12 candidates: the first feature speaks for a passage, the second against it."""
    generator = np.random.default_rng(seed)
    questions = []
    for count in generator.integers(3, 13, 40).tolist():
        features = generator.normal(size=(count, 3)) * [1, 5, 0.1]
        logits = 1.5 * features[:, 0] - 0.2 * features[:, 1] - 1
        right = generator.random(count) < 1 / (1 + np.exp(-logits))
        questions.append(judged(features.tolist(), ["d" if answer else "" for answer in right]))
    return questions


@pytest.mark.parametrize("seed", range(3))
def test_weights_are_those_of_scikit_learn(seed: int) -> None:
    questions = drawn_questions(seed)
    features = np.concatenate([question.features for question in questions])
    share = np.concatenate(
        [np.full(len(question.ids), 1 / len(question.ids) / len(questions)) for question in questions]
    )
    scale = features.std(axis=0)
    peer = LogisticRegression(C=1 / (2 * L2), tol=1e-10, max_iter=10_000)
    peer.fit(features / scale, [bool(id) for question in questions for id in question.relevant], sample_weight=share)
    weights, intercept = fit_weights(questions, [False] * 3, L2)
    assert weights == pytest.approx(peer.coef_[0] / scale, rel=1e-3, abs=1e-4)
    assert intercept == pytest.approx(float(peer.intercept_[0]), rel=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_a_feature_that_may_not_count_against_gets_no_weight(seed: int) -> None:
    questions = drawn_questions(seed)
    weights, intercept = fit_weights(questions, [True, True, False], L2)
    without = [judged(question.features[:, [0, 2]].tolist(), question.relevant) for question in questions]
    others, alone = fit_weights(without, [True, False], L2)
    assert weights[1] == 0
    assert weights[[0, 2]] == pytest.approx(others, rel=1e-3, abs=1e-4)
    assert intercept == pytest.approx(alone, rel=1e-3)


def test_each_question_counts_alike_however_many_candidates_it_has() -> None:
    questions = drawn_questions(0)
    first, *rest = questions
    repeated = judged([*first.features.tolist()] * 5, first.relevant * 5)
    # The scale of a feature depends on how often it is there, and with it the penalty; without a penalty it does not.
    weights, other = fit_weights([repeated, *rest], [False] * 3, 0.0)
    expected, intercept = fit_weights(questions, [False] * 3, 0.0)
    assert weights == pytest.approx(expected, rel=1e-3, abs=1e-4)
    assert other == pytest.approx(intercept, rel=1e-3)


def test_recall_counts_documents_once() -> None:
    """Five candidates, of which two belong to document a and one to b; a third gold document was not found."""
    question = judged([[5], [4], [3], [3], [1]], ["a", "a", "", "b", ""], gold=3)
    assert rank_candidates(question, np.ones(1)) == [0, 1, 2, 3, 4]
    assert recall_at(question, np.ones(1), (1, 2, 3, 4)) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 2 / 3])
    assert rank_candidates(question, -np.ones(1)) == [4, 2, 3, 1, 0]
    assert recall_at(question, np.zeros(1), (1, 5)) == pytest.approx([1 / 3, 2 / 3])  # equal scores by id


def test_a_feature_that_never_differs_gets_no_weight() -> None:
    questions = [judged([[1, 7], [0, 7]], ["a", ""]), judged([[1, 7], [0, 7]], ["a", ""])]
    weights, _ = fit_weights(questions, [True, True])
    assert weights[0] > 1
    assert weights[1] == pytest.approx(0, abs=1e-2)
