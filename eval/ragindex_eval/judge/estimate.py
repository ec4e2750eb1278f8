"""What judgements say of methods: means relative to the pool, with a model's judgements where there are any.

The unit is a question. Counted are the first questions, in the order that the seed drew, all of whose documents a
person judged; so they are a random sample, whenever the person stopped. Metrics of one question, for the first k
documents of a method and the documents of grade 1 or 2 as relevant:

- pool recall@k: the share of the relevant documents *of the pool* that is among them; 0 if the pool has none
- precision@k: the share of k that is relevant
- judged@k: the share of them that is judged
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ragindex_eval.judge.pool import Pool, PooledQuestion
from ragindex_eval.judge.session import Grades
from ragindex_eval.stats.intervals import Interval, SampleArray
from ragindex_eval.stats.prediction_powered import FEWEST_JUDGED, PoweredMean, estimate_mean

RECALL, PRECISION, JUDGED = "pool recall", "precision", "judged"


@dataclass(frozen=True, slots=True)
class MetricEstimate:
    """A metric of a method.

    `person` and `model` are the means by the judgements of each alone, over the questions that the person judged and
    over all. `powered` combines both, or is the person's mean with its interval without a model; None if the person
    judged fewer than five questions. `bounds` are the least and the greatest mean over the person's questions,
    whatever the unjudged documents are; None without such questions.
    """

    metric: str
    person: float | None
    model: float | None
    powered: PoweredMean | None
    bounds: Interval | None


@dataclass(frozen=True, slots=True)
class JudgedMethod:
    """Estimates of a method, and the share of its first documents that is judged, by k."""

    label: str
    estimates: tuple[MetricEstimate, ...]
    judged: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """How often model and person agree on whether a document is relevant; `kappa` is Cohen's, None if undefined.

    `missed` is the share of the person's relevant documents that the model calls irrelevant, `accepted` that of the
    person's irrelevant ones that it calls relevant; None if there are none.
    """

    documents: int
    share: float
    kappa: float | None
    missed: float | None
    accepted: float | None


@dataclass(frozen=True, slots=True)
class PoolEstimates:
    """All that the judgements of a pool say."""

    depth: int
    seed: int
    questions: int
    documents: int
    by_person: int
    documents_by_person: int
    without_relevant: int
    model: str | None
    agreement: JudgeAgreement | None
    methods: tuple[JudgedMethod, ...]

    def to_json(self) -> dict[str, Any]:
        """Convert to the JSON of `--json`."""
        return asdict(self)


def estimate_methods(pool: Pool, person: Grades, model: Grades | None, model_name: str | None = None) -> PoolEstimates:
    """Estimate each metric of each method. `model` are its grades of the pool; a document without one counts as no."""
    complete = count_complete(pool, person)
    ours = pool.questions[:complete]
    relevant = [_relevant(our, person) for our in ours]
    by_model = None if model is None else [_relevant(question, model) for question in pool.questions]
    methods = tuple(
        JudgedMethod(
            label,
            tuple(
                _estimate(pool, label, name, k, relevant, by_model, person)
                for k in pool.source.ks
                for name in (RECALL, PRECISION)
            ),
            {f"{JUDGED}@{k}": _mean([_judged_share(our, label, k, person) for our in ours]) for k in pool.source.ks},
        )
        for label in pool.source.methods
    )
    return PoolEstimates(
        pool.source.depth,
        pool.source.seed,
        len(pool.questions),
        pool.count(),
        complete,
        sum(len(our.documents) for our in ours),
        sum(not is_relevant for is_relevant in relevant),
        model_name if model is not None else None,
        None if model is None else _agree(ours, person, model),
        methods,
    )


def count_complete(pool: Pool, grades: Grades) -> int:
    """Return how many questions, from the first on, are judged completely."""
    for place, question in enumerate(pool.questions):
        if any((question.id, document.id) not in grades for document in question.documents):
            return place
    return len(pool.questions)


def _estimate(
    pool: Pool,
    label: str,
    name: str,
    k: int,
    relevant: Sequence[frozenset[str]],
    by_model: Sequence[frozenset[str]] | None,
    person: Grades,
) -> MetricEstimate:
    score = _recall if name == RECALL else _precision
    ours = pool.questions[: len(relevant)]
    human = _array([score(our.first_documents(label, k), ids, k) for our, ids in zip(ours, relevant, strict=True)])
    every = [] if by_model is None else zip(pool.questions, by_model, strict=True)
    predicted = _array([score(question.first_documents(label, k), ids, k) for question, ids in every])
    count = len(human)
    powered = None
    if count >= FEWEST_JUDGED:
        powered = estimate_mean(human, predicted[:count], predicted[count:])
    find_bounds = _recall_bounds if name == RECALL else _precision_bounds
    ends = [find_bounds(our, label, k, ids, person) for our, ids in zip(ours, relevant, strict=True)]
    return MetricEstimate(
        f"{name}@{k}",
        float(human.mean()) if count else None,
        float(predicted.mean()) if len(predicted) else None,
        powered,
        (_mean([low for low, _ in ends]), _mean([high for _, high in ends])) if ends else None,
    )


def _relevant(question: PooledQuestion, grades: Grades) -> frozenset[str]:
    """Return the relevant documents of the pool."""
    return frozenset(document.id for document in question.documents if grades.get((question.id, document.id), 0) > 0)


def _recall(ranked: Sequence[str], relevant: frozenset[str], _: int) -> float:
    return len(relevant & set(ranked)) / len(relevant) if relevant else 0.0


def _precision(ranked: Sequence[str], relevant: frozenset[str], k: int) -> float:
    return len(relevant & set(ranked)) / k


def _unjudged(question: PooledQuestion, ranked: Sequence[str], grades: Grades) -> set[str]:
    return {id for id in ranked if (question.id, id) not in grades}


def _recall_bounds(
    question: PooledQuestion, label: str, k: int, relevant: frozenset[str], grades: Grades
) -> tuple[float, float]:
    """Return the least and the greatest recall of all relevant documents among the first k of any method.

    The least: the unjudged documents of this method are irrelevant, those that only others found relevant. The
    greatest: the reverse.
    """
    ranked = question.first_documents(label, k)
    own = _unjudged(question, ranked, grades)
    every = {id for each in question.hits for id in _unjudged(question, question.first_documents(each, k), grades)}
    hits, known = len(relevant & set(ranked)), len(relevant)
    low, high = known + len(every - own), known + len(own)
    return hits / low if low else 0.0, (hits + len(own)) / high if high else 0.0


def _precision_bounds(
    question: PooledQuestion, label: str, k: int, relevant: frozenset[str], grades: Grades
) -> tuple[float, float]:
    ranked = question.first_documents(label, k)
    hits = len(relevant & set(ranked))
    return hits / k, (hits + len(_unjudged(question, ranked, grades))) / k


def _judged_share(question: PooledQuestion, label: str, k: int, grades: Grades) -> float:
    ranked = question.first_documents(label, k)
    return 1 - len(_unjudged(question, ranked, grades)) / len(ranked) if ranked else 1.0


def _agree(questions: Sequence[PooledQuestion], person: Grades, model: Grades) -> JudgeAgreement | None:
    """Compare the judgements of the documents that both have judged; None if there are none."""
    pairs = [(question.id, document.id) for question in questions for document in question.documents]
    both = np.array([[person[pair] > 0, model[pair] > 0] for pair in pairs if pair in model], bool)
    if not len(both):
        return None
    ours, its = both[:, 0], both[:, 1]
    share = float((ours == its).mean())
    chance = float(ours.mean() * its.mean() + (1 - ours.mean()) * (1 - its.mean()))
    return JudgeAgreement(
        len(both),
        share,
        (share - chance) / (1 - chance) if chance < 1 else None,
        float((~its[ours]).mean()) if ours.any() else None,
        float(its[~ours].mean()) if (~ours).any() else None,
    )


def _array(values: Sequence[float]) -> SampleArray:
    return np.array(values, np.float64)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0
