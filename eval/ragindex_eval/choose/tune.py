"""Fitting the weights of a method that ranks by features, and what they are worth on questions they have not seen.

Nested cross-validation: in each outer fold, bases are dropped and weights fitted on the other folds alone, so the
figures out of fold include the choice of bases. The weights that are returned are fitted the same way on all questions.
While bases are chosen, what a dropped base has found stays among the candidates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ragindex._util.progress import progress_bar
from ragindex.encoders.paid_vectors import remember_paid_questions
from ragindex.errors import UsageError
from ragindex.index.index import Index
from ragindex.interfaces import FeatureRetriever, Scheme
from ragindex.parts.records import Doubles
from ragindex.plugins import registry
from ragindex.plugins.registry import PluginSpec
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.metrics.retrieval import list_judged
from ragindex_eval.run.answers import part_figures
from ragindex_eval.run.experiment import load_experiment, prepare_index
from ragindex_eval.run.settings import CompareSettings
from ragindex_eval.stats.intervals import LEVEL, Interval
from ragindex_eval.stats.logistic import JudgedCandidates, fit_weights, recall_at
from ragindex_eval.stats.paired_tests import paired_interval, run_paired_tests

METHOD = "evidence"
FEWEST_QUESTIONS = 30
_FOLDS = 5
_WORTH = 0.005
"""A base is dropped if recall without it, the mean over all k, is lower by less than this."""
_RANK = "rank:"
_BATCH = 32


@dataclass(frozen=True, slots=True)
class Judged:
    """The judged candidates of all questions, the names of the features, and which of them are increasing."""

    questions: tuple[JudgedCandidates, ...]
    names: tuple[str, ...]
    increasing: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Tuned:
    """Fitted weights, and their recall at each k: out of fold, in sample, and of the best single ranking.

    `bases` are the labels of the bases that were kept, and `dropped` what each of the others would add to the mean
    recall. `gain` is the recall out of fold less that of the best single ranking, for each k, with its 95 % interval
    and the `p` of the paired test, corrected for the number of k (Bonferroni).
    `base_seconds` says how long the parts of each base took to build.
    """

    questions: int
    ks: tuple[int, ...]
    best_single: str
    single: tuple[float, ...]
    out_of_fold: tuple[float, ...]
    in_sample: tuple[float, ...]
    gain: tuple[float, ...]
    interval: tuple[Interval, ...]
    p: tuple[float, ...]
    bases: tuple[str, ...]
    dropped: Mapping[str, float]
    base_seconds: Mapping[str, float]
    weights: Mapping[str, float]
    intercept: float

    @property
    def gains(self) -> bool:
        """Whether the recall out of fold is significantly above that of the best single ranking at any k."""
        return any(gain > 0 and p < LEVEL for gain, p in zip(self.gain, self.p, strict=True))


def tune(settings: CompareSettings, data: Dataset | None, bases: Sequence[PluginSpec]) -> Tuned:
    """Fit the weights of `evidence` with these bases to the judged questions of `data`.

    Raises UsageError if there are fewer than FEWEST_QUESTIONS with gold documents.
    """
    scheme = make_method(bases)
    if data is not None:
        _require_enough(len(list_judged(data)))
    with prepare_index(settings, data, None, None) as index, remember_paid_questions():
        experiment = load_experiment(settings, data, (), index)
        index.build(scheme)
        judged = collect_judged(index, experiment.dataset, bases, settings.k[-1])
        seconds = {
            registry.label(base): sum(part.seconds for part in part_figures(index, base).values())
            for base in map(registry.scheme, bases)
        }
    _require_enough(len(judged.questions))
    seed = settings.seed or 0
    return replace(fit_nested(judged, settings.k, seed), base_seconds=seconds)


def make_method(bases: Sequence[PluginSpec]) -> Scheme:
    """Return the method whose weights are fitted."""
    return registry.scheme({"name": METHOD, "params": {"bases": list(bases)}})


def _require_enough(questions: int) -> None:
    if questions < FEWEST_QUESTIONS:
        raise UsageError(
            f"tune needs at least {FEWEST_QUESTIONS} questions with gold documents, and got {questions}. "
            "Draft more: ragindex questions DATA --out drafts.csv"
        )


def collect_judged(index: Index, dataset: Dataset, bases: Sequence[PluginSpec], k: int) -> Judged:
    """Return the candidates of each question that has gold documents, with features and relevance."""
    retriever = index.open_method({"name": METHOD, "params": {"bases": list(bases)}})
    if not isinstance(retriever, FeatureRetriever):
        raise UsageError(f"{METHOD} gives no features; its package ragindex_retrievers is of another version.")
    gold = dataset.gold or {}
    judged = list_judged(dataset)
    questions, names, increasing = list[JudgedCandidates](), tuple[str, ...](), tuple[bool, ...]()
    with progress_bar("features", len(judged)) as advance:
        for start in range(0, len(judged), _BATCH):
            batch = judged[start : start + _BATCH]
            for query, feature in zip(batch, retriever.features(batch, k), strict=True):
                names, increasing, right = feature.names, feature.increasing, gold[query.id]
                equal = {**right.equivalents, **{id: id for id in right.doc_ids}}
                rows = [row for row, ids in enumerate(feature.doc_ids) if tuple(ids) != (right.own_document,)]
                relevant = tuple(next((equal[id] for id in feature.doc_ids[row] if id in equal), "") for row in rows)
                ids = tuple(feature.ids[row] for row in rows)
                questions.append(JudgedCandidates(feature.values[rows], relevant, ids, len(right.doc_ids)))
            advance(len(batch))
    return Judged(tuple(questions), names, increasing)


# ---------------------------------------------------------------- fitting


def fit_nested(judged: Judged, ks: Sequence[int], seed: int) -> Tuned:
    """Fit weights by nested cross-validation, with folds drawn by the seed."""
    questions = judged.questions
    folds = _draw_folds(len(questions), seed)
    unseen = np.zeros((len(questions), len(ks)))
    for fold in range(_FOLDS):
        seen = tuple(question for question, number in zip(questions, folds, strict=True) if number != fold)
        columns, _ = choose_columns(replace(judged, questions=seen), ks, seed)
        weights, _ = _fit(replace(judged, questions=seen), columns)
        for place in np.flatnonzero(folds == fold):
            unseen[place] = recall_at(questions[place], weights, ks)
    columns, dropped = choose_columns(judged, ks, seed)
    weights, intercept = _fit(judged, columns)
    seen_recall = _recall(questions, weights, ks)
    best, single = _find_best_single(judged, ks)
    gains = unseen - single
    intervals = tuple(paired_interval(gain, level=LEVEL / len(ks)) for gain in gains.T)
    tested = run_paired_tests(np.stack([unseen, single], axis=1), [(0, 1)], seed).p[0]
    return Tuned(
        questions=len(questions),
        ks=tuple(ks),
        best_single=best,
        single=tuple(single.mean(axis=0).tolist()),
        out_of_fold=tuple(unseen.mean(axis=0).tolist()),
        in_sample=tuple(seen_recall.mean(axis=0).tolist()),
        gain=tuple(gains.mean(axis=0).tolist()),
        interval=intervals,
        p=tuple(np.minimum(1.0, len(ks) * tested).tolist()),
        bases=tuple(judged.names[column].removeprefix(_RANK) for column in columns if _is_base(judged.names[column])),
        dropped=dropped,
        base_seconds={},
        weights={judged.names[column]: float(weights[column]) for column in columns if weights[column] != 0},
        intercept=intercept,
    )


def choose_columns(judged: Judged, ks: Sequence[int], seed: int) -> tuple[list[int], dict[str, float]]:
    """Drop the bases, one by one, whose absence costs less than _WORTH of recall in cross-validation.

    Return the columns that are kept, and what each dropped base would have added.
    """
    names, dropped = judged.names, dict[str, float]()
    columns = list(range(len(names)))
    recall = _cross_validate(judged, columns, ks, seed)
    while any(_is_base(names[column]) for column in columns):
        without = {
            column: _cross_validate(judged, _leave_out(columns, names, column), ks, seed)
            for column in columns
            if _is_base(names[column])
        }
        least = max(without, key=lambda column: (without[column], names[column]))
        if recall - without[least] >= _WORTH:
            break
        columns = _leave_out(columns, names, least)
        dropped[names[least].removeprefix(_RANK)] = recall - without[least]
        recall = without[least]
    return columns, dropped


def _cross_validate(judged: Judged, columns: Sequence[int], ks: Sequence[int], seed: int) -> float:
    """Return the mean recall out of fold, over questions and all k."""
    questions = judged.questions
    folds, total = _draw_folds(len(questions), seed + 1), 0.0
    for fold in range(_FOLDS):
        seen = tuple(question for question, number in zip(questions, folds, strict=True) if number != fold)
        unseen = [question for question, number in zip(questions, folds, strict=True) if number == fold]
        weights, _ = _fit(replace(judged, questions=seen), columns)
        total += float(_recall(unseen, weights, ks).sum())
    return total / (len(questions) * len(ks))


def _fit(judged: Judged, columns: Sequence[int]) -> tuple[Doubles, float]:
    """Return the weights of all features, 0 for those that are not among `columns`, and the intercept."""
    chosen = list(columns)
    questions = [replace(question, features=question.features[:, chosen]) for question in judged.questions]
    fitted, intercept = fit_weights(questions, [judged.increasing[column] for column in chosen])
    weights = np.zeros(len(judged.names))
    weights[chosen] = fitted
    return weights, intercept


def _recall(questions: Sequence[JudgedCandidates], weights: Doubles, ks: Sequence[int]) -> Doubles:
    return np.array([recall_at(question, weights, ks) for question in questions])


def _find_best_single(judged: Judged, ks: Sequence[int]) -> tuple[str, Doubles]:
    """Return the single ranking with the best mean recall over all k, and its recall, (questions, ks)."""
    single = {
        name.removeprefix(_RANK).removesuffix("_rank"): np.array(
            [recall_at(question, np.eye(len(judged.names))[column], ks) for question in judged.questions]
        )
        for column, name in enumerate(judged.names)
        if _is_base(name) or name.endswith("_rank")
    }
    best = max(single, key=lambda name: (float(single[name].mean()), name))
    return best, single[best]


def _leave_out(columns: Sequence[int], names: Sequence[str], base: int) -> list[int]:
    """Return the columns without those of the base whose rank is the column `base`."""
    label = names[base].removeprefix(_RANK)
    return [column for column in columns if names[column].partition(":")[2] != label]


def _is_base(name: str) -> bool:
    return name.startswith(_RANK)


def _draw_folds(count: int, seed: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Return the fold of each question; folds differ in size by one at most."""
    return np.random.default_rng(seed).permutation(count) % _FOLDS
