"""Coverage of prediction-powered intervals when a person judges few questions and a model all, by simulation.

    python -m benchmarks.judging RESULTS [--method hybrid] [--k 5] [--questions 300] [--repetitions 2000]

RESULTS is a folder that `ragindex compare --out` wrote. Its gold is the person, and the first k documents of its
methods are the pool. A model judges each pooled document wrongly with stated rates. Each repetition draws the questions
with replacement from those of RESULTS, whose mean by the gold is the truth, and the first n are judged by the person.
For each model and n it prints the mean error, the share of 95 % intervals that contain the truth, the mean width, the
mean weight of the model, and the effective number of questions (median), of these intervals:

- classical: the person's n questions alone, Student's t
- PPI++: as in the paper, normal quantiles, the weight tuned on the same questions
- cross-fitted: the weight of each of five folds tuned on the others, Student's t
- ours: `ragindex_eval.stats.prediction_powered`, the same on the scale of the log odds
- model: the model's mean over all questions, without correction
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from ragindex_eval.stats.intervals import SampleArray
from ragindex_eval.stats.prediction_powered import estimate_mean, tune_weight

POOL = ("bm25", "dense", "hybrid", "composed", "links")
FOLDS = 5


@dataclass(frozen=True)
class ModelJudge:
    """A model that misses relevant documents and accepts others with these rates.

    With `harder`, it misses twice as many of questions with more than two gold documents: its errors depend on how
    hard a question is.
    """

    name: str
    misses: float
    accepts: float
    harder: bool = False


MODELS = (
    ModelJudge("misses 5 %, accepts 10 %", 0.05, 0.10),
    ModelJudge("misses 20 %, accepts 20 %", 0.20, 0.20),
    ModelJudge("lenient: misses 5 %, accepts 50 %", 0.05, 0.50),
    ModelJudge("biased: misses 30 %, 60 % of hard questions", 0.30, 0.05, harder=True),
    ModelJudge("a coin", 0.50, 0.50),
)


def read_trec(path: Path, document: int = 2) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        columns = line.split()
        found.setdefault(columns[0], []).append(columns[document])
    return found


def pool_recall(ranked: list[str], relevant: set[str]) -> float:
    return len(relevant & set(ranked)) / len(relevant) if relevant else 0.0


@dataclass(frozen=True)
class Question:
    """The first k documents of a method, the pooled ones, and those that are relevant by the gold."""

    ranked: list[str]
    pool: list[str]
    relevant: set[str]


def read_questions(results: Path, method: str, k: int) -> list[Question]:
    gold = read_trec(results / "qrels.trec")
    runs = {name: read_trec(results / "runs" / f"{name}.trec") for name in {*POOL, method}}
    questions = []
    for id in sorted(gold):
        pool = sorted({document for run in runs.values() for document in run.get(id, [])[:k]})
        questions.append(Question(runs[method].get(id, [])[:k], pool, set(gold[id]) & set(pool)))
    return questions


def draw_model_metric(one: Question, judge: ModelJudge, random: np.random.Generator) -> float:
    misses = min(1.0, judge.misses * (2 if judge.harder and len(one.relevant) > 2 else 1))
    wrong = random.random(len(one.pool))
    relevant = {
        document
        for document, draw in zip(one.pool, wrong, strict=True)
        if (draw >= misses if document in one.relevant else draw < judge.accepts)
    }
    return pool_recall(one.ranked, relevant)


Row = tuple[float, float, float, float, float]
"""Estimate, ends of the interval, weight, effective questions."""


def classical(human: SampleArray, _model: SampleArray, _others: SampleArray) -> Row:
    half = stats.t.ppf(0.975, len(human) - 1) * human.std(ddof=1) / len(human) ** 0.5
    return float(human.mean()), human.mean() - half, human.mean() + half, 0.0, len(human)


def published(human: SampleArray, model: SampleArray, others: SampleArray) -> Row:
    weight = tune_weight(human, model, others, len(human))
    return _normal(human, model, others, np.full(len(human), weight), 1.959964)


def cross_fitted(human: SampleArray, model: SampleArray, others: SampleArray) -> Row:
    folds = np.arange(len(human)) % FOLDS
    weights = np.empty(len(human))
    for fold in range(FOLDS):
        kept = folds != fold
        weights[~kept] = tune_weight(human[kept], model[kept], others, len(human))
    return _normal(human, model, others, weights, float(stats.t.ppf(0.975, len(human) - 1)))


def _normal(human: SampleArray, model: SampleArray, others: SampleArray, weights: SampleArray, quantile: float) -> Row:
    residuals, weight = human - weights * (model - model.mean()), float(weights.mean())
    estimate = float((human - weights * model).mean()) + weight * float(others.mean())
    variance = residuals.var(ddof=1) / len(human) + weight**2 * others.var(ddof=1) / len(others)
    half = quantile * variance**0.5
    effective = human.var(ddof=1) / variance if variance > 0 else len(human)
    return estimate, estimate - half, estimate + half, weight, float(effective)


def ours(human: SampleArray, model: SampleArray, others: SampleArray) -> Row:
    found = estimate_mean(human, model, others)
    return found.estimate, *found.interval, found.weight, found.effective_questions


def model_alone(_human: SampleArray, model: SampleArray, others: SampleArray) -> Row:
    every = np.concatenate([model, others])
    half = 1.959964 * every.std(ddof=1) / len(every) ** 0.5
    return float(every.mean()), every.mean() - half, every.mean() + half, 1.0, len(every)


WAYS = {"classical": classical, "PPI++": published, "cross-fitted": cross_fitted, "ours": ours, "model": model_alone}


def simulate(
    questions: list[Question], judge: ModelJudge, n: int, total: int, repetitions: int, seed: int
) -> Mapping[str, "np.ndarray[tuple[int, int], np.dtype[np.float64]]"]:
    random = np.random.default_rng(seed)
    truth = np.array([pool_recall(one.ranked, one.relevant) for one in questions])
    rows: dict[str, list[Row]] = {name: [] for name in WAYS}
    for _ in range(repetitions):
        drawn = random.integers(len(questions), size=total)
        model = np.array([draw_model_metric(questions[at], judge, random) for at in drawn])
        for name, way in WAYS.items():
            rows[name].append(way(truth[drawn[:n]], model[:n], model[n:]))
    return {name: np.array(found) for name, found in rows.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--method", default="hybrid")
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--judged", default="20,50,100")
    parser.add_argument("--repetitions", type=int, default=2000)
    given = parser.parse_args()
    questions = read_questions(given.results, given.method, given.k)
    truth = float(np.mean([pool_recall(one.ranked, one.relevant) for one in questions]))
    print(f"{given.method}: pool recall@{given.k} {100 * truth:.1f}, {len(questions)} questions")
    columns = ("model", "n", "interval", "mean error", "coverage", "width", "weight", "effective n")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for number, judge in enumerate(MODELS):
        for n in map(int, given.judged.split(",")):
            found = simulate(questions, judge, n, given.questions, given.repetitions, 1000 * number + n)
            for name, rows in found.items():
                covered = ((rows[:, 1] <= truth) & (truth <= rows[:, 2])).mean()
                figures = (rows[:, 0].mean() - truth, covered, (rows[:, 2] - rows[:, 1]).mean())
                shown = " | ".join(f"{100 * value:.1f}" for value in figures)
                weight, effective = rows[:, 3].mean(), np.median(rows[:, 4])
                print(f"| {judge.name} | {n} | {name} | {shown} | {weight:.2f} | {effective:.0f} |", flush=True)


if __name__ == "__main__":
    main()
