"""Error rates and spending of races, by simulation on the scores of finished comparisons.

    python -m benchmarks.races RESULTS … [--metric R@5] [--delta 0.02] [--alpha 0.05] [--races 2000]

RESULTS are folders that `ragindex compare --out` wrote, with at least 12 methods. The questions of each are a pool,
whose means are the truth. Each race draws its questions from the pool with replacement. For each number of questions it
prints, in percent of the races:

- dropped wrongly, accepted wrongly: a method within delta of the best was dropped, another one accepted; together at
  most alpha
- decided: a method was accepted; chosen wrongly: it is more than delta below the best
- undecided and wrong: none was accepted, and the best mean is that of a method more than delta below the best
- asked: questions, as a share of those of the full comparison

and, of the same questions, how often three other ways are wrong: the best mean of an equal spend (argmax), successive
halving of an equal spend, and one-sided 95 % t-tests of fixed size that are looked at after every block.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ragindex_eval.stats.intervals import SampleArray
from ragindex_eval.stats.race import Decisions, RaceRules, run_races

BLOCK = 10
COLUMNS = (
    *("dropped wrongly", "accepted wrongly", "decided", "chosen wrongly", "undecided and wrong", "asked"),
    *("argmax wrong", "halving wrong", "peeking drops wrongly"),
)
CHUNK = 250  # races at a time, which bounds memory


@dataclass(frozen=True)
class Pool:
    """Scores of shape (questions, methods), methods sorted by index time, and these times in seconds."""

    name: str
    labels: tuple[str, ...]
    scores: SampleArray
    seconds: SampleArray


def read_pool(folder: Path, metric: str) -> Pool:
    lines = [json.loads(line) for line in (folder / "per_query.jsonl").read_text().splitlines()]
    by_method: dict[str, dict[str, float]] = {}
    for line in lines:
        if metric in line["metrics"]:
            by_method.setdefault(line["method"], {})[line["query"]] = line["metrics"][metric]
    methods = json.loads((folder / "comparison.json").read_text())["methods"]
    seconds = {method["label"]: method["index"]["seconds"] for method in methods}
    labels = tuple(sorted(by_method, key=lambda label: (seconds[label], label)))
    queries = sorted(by_method[labels[0]])
    scores = np.array([[by_method[label][query] for label in labels] for query in queries])
    return Pool(folder.name, labels, scores, np.array([seconds[label] for label in labels]))


def draw(pool: Pool, races: int, questions: int, seed: int) -> SampleArray:
    drawn = np.random.default_rng(seed).integers(len(pool.scores), size=(races, questions))
    scores: SampleArray = pool.scores[drawn]
    return scores


def choose(decisions: Decisions, values: SampleArray) -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]]":
    """Return the cheapest accepted method of each race; -1 - the number of the best mean where none was accepted."""
    remaining = decisions.dropped == 0
    accepted = (decisions.accepted > 0) & remaining
    counts = decisions.answered.max(axis=1)
    cumulative = values.cumsum(axis=1)[np.arange(len(values)), counts - 1]
    best = np.where(remaining, cumulative, -np.inf).argmax(axis=1)
    return np.where(
        accepted.any(axis=1) | (remaining.sum(axis=1) == 1),
        np.where(accepted.any(axis=1), accepted.argmax(axis=1), best),
        -1 - best,
    )


def successive_halving(values: SampleArray, spend: SampleArray) -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]]":
    """Return the survivor of rounds that drop the worse half, each with an equal share of the spend."""
    chosen = []
    for race, budget in zip(values, spend.astype(int), strict=True):
        left, used = np.arange(race.shape[1]), 0
        rounds = max(1, int(np.ceil(np.log2(len(left)))))
        for _ in range(rounds):
            used = min(len(race), used + max(1, budget // rounds // len(left)))
            means = race[:used, left].mean(axis=0)
            left = left[np.argsort(-means, kind="stable")[: max(1, (len(left) + 1) // 2)]]
        chosen.append(left[0])
    return np.array(chosen)


def peeking_tests(values: SampleArray, delta: float) -> "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]":
    """Return (races, methods): whether a 95 % t-test after some block finds a method more than delta below another."""
    dropped = np.zeros((len(values), values.shape[2]), bool)
    for number in range(2 * BLOCK, values.shape[1] + 1, BLOCK):
        seen = values[:, :number]
        best = seen.mean(axis=1).argmax(axis=1)[:, None, None]
        difference = np.take_along_axis(seen, best, axis=2) - seen
        error = difference.std(axis=1, ddof=1) / np.sqrt(number)
        dropped |= difference.mean(axis=1) - delta > 1.66 * np.maximum(error, 1e-12)
    return dropped


def simulate(pool: Pool, questions: int, rules: RaceRules, races: int) -> dict[str, float]:
    truth = pool.scores.mean(axis=0)
    near = truth >= truth.max() - rules.delta - 1e-12
    rows = []
    for chunk in range(races // CHUNK):
        values = draw(pool, CHUNK, questions, seed=1000 * questions + chunk)
        decisions = run_races(values, np.arange(len(truth)), rules)
        picked = choose(decisions, values)
        decided, final = picked >= 0, np.where(picked >= 0, picked, -1 - picked)
        spend = decisions.answered.sum(axis=1)
        equal = np.maximum(1, spend // len(truth))
        argmax = values.cumsum(axis=1)[np.arange(CHUNK), np.minimum(equal, questions) - 1].argmax(axis=1)
        halved = successive_halving(values, spend.astype(float))
        peeked = peeking_tests(values, rules.delta)
        rows.append(
            {
                "dropped wrongly": ((decisions.dropped > 0) & near).any(axis=1).mean(),
                "accepted wrongly": ((decisions.accepted > 0) & ~near).any(axis=1).mean(),
                "decided": decided.mean(),
                "chosen wrongly": (decided & ~near[final]).mean(),
                "undecided and wrong": (~decided & ~near[final]).mean(),
                "asked": spend.mean() / (questions * len(truth)),
                "argmax wrong": (~near[argmax]).mean(),
                "halving wrong": (~near[halved]).mean(),
                "peeking drops wrongly": (peeked & near).any(axis=1).mean(),
            }
        )
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--metric", default="R@5")
    parser.add_argument("--delta", type=float, default=0.02)
    parser.add_argument("--alpha", type=float, default=0.05)
    parser.add_argument("--races", type=int, default=2000)
    parser.add_argument("--questions", default="30,50,100,200,300,1000")
    given = parser.parse_args()
    for folder in given.results:
        pool = read_pool(folder, given.metric)
        truth = pool.scores.mean(axis=0)
        ranked = sorted(zip(truth, pool.labels, strict=True), reverse=True)
        print(f"\n## {pool.name}: {len(pool.labels)} methods, {len(pool.scores)} questions")
        print("; ".join(f"{label} {100 * mean:.1f}" for mean, label in ranked))
        print(f"| questions | {' | '.join(COLUMNS)} |\n|{'---|' * (1 + len(COLUMNS))}")
        for count in map(int, given.questions.split(",")):
            rules = RaceRules(given.delta, given.alpha, None, block=BLOCK)
            row = simulate(pool, count, rules, given.races)
            print("| " + " | ".join([str(count), *(f"{100 * value:.1f}" for value in row.values())]) + " |", flush=True)


if __name__ == "__main__":
    main()
