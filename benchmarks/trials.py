"""How often `ragindex recommend` drops a dear method wrongly after a trial on a part of the corpus.

    python -m benchmarks.trials DATA … [--cheap bm25,…]… [--dear raptor,…] [--seeds 3] [--trials 300] [--limit 200]
        [--metric R@5] [--delta 0.02]

For each corpus, all methods are built over the whole and over the parts that a trial takes, drawn by each seed, and
asked all questions; the means over the whole are the truth. Each trial then draws its questions without replacement and
decides as `recommend` does. For each set of cheap methods and each dear one it prints, in percent of the trials, how
often it is dropped, beside what it gains over the best cheap method in truth: a drop is wrong if that is more than
delta. The error is twice the larger standard error, of trials or of draws of the parts.
"""

import argparse
import math
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragindex.plugins.specs import parse_many, render_spec
from ragindex_eval.choose.candidates import (
    PARTS,
    TRIAL_QUESTIONS,
    choose_candidates,
    largest_gain,
    part_of,
    score_candidates,
)
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.metrics.score import list_judged
from ragindex_eval.run.experiment import load_dataset, load_experiment, prepare_index
from ragindex_eval.run.settings import CompareSettings, make_settings
from ragindex_eval.stats.intervals import SampleArray

CHEAP = ("bm25", "dense", "hybrid", "links")
DEAR = ("hipporag(mode=facts)", "hipporag", "graphrag", "raptor", "sirerag", "griever", "gear.naive")
Labels: TypeAlias = Sequence[str]
Scores: TypeAlias = dict[str, SampleArray]


def score_all(data: Dataset, settings: CompareSettings, metric: str) -> Scores:
    """Return the scores of all methods on all judged questions, by label, over the documents of `data`."""
    candidates = choose_candidates(settings)
    with tempfile.TemporaryDirectory() as folder:
        own = settings.model_copy(update={"index": Path(folder, "index")})
        with prepare_index(own, data, None, None) as index:
            experiment = load_experiment(own, data, [one.scheme for one in candidates], index)
            return score_candidates(candidates, experiment, metric, list_judged(experiment.dataset))


def split_methods(written: str) -> tuple[str, ...]:
    return tuple(map(render_spec, parse_many(written)))


def try_once(parts: list[Scores], rows: list[int], cheap: Labels, dear: Labels, delta: float) -> dict[str, int]:
    """Return for each dear method the number of the part after which it is dropped, from 1; 0 if it goes on."""
    dropped = dict.fromkeys(dear, 0)
    for number, scores in enumerate(parts, start=1):
        best = max(cheap, key=lambda label: float(scores[label][rows].mean()))
        for label in dear:
            if not dropped[label] and largest_gain(scores[label][rows], scores[best][rows]) < delta:
                dropped[label] = number
    return dropped


def describe_share(dropped: NDArray[np.bool_]) -> str:
    """Return the share of dropped trials, of shape (draws of the parts, trials), in percent with its error."""
    share, draws = float(dropped.mean()), dropped.mean(axis=1)
    between = float(draws.std(ddof=1)) / math.sqrt(len(draws)) if len(draws) > 1 else 0.0
    error = max(between, math.sqrt(share * (1 - share) / dropped.size))
    return f"{100 * share:.0f} ± {200 * error:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--cheap", action="append", type=split_methods, help="may be given several times")
    parser.add_argument("--dear", default=DEAR, type=split_methods)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--metric", default="R@5")
    parser.add_argument("--delta", type=float, default=0.02)
    given = parser.parse_args()
    sets = given.cheap or [CHEAP]
    every = dict.fromkeys([*(label for cheap in sets for label in cheap), *given.dear])
    for place in given.data:
        settings = make_settings({"data": place, "methods": ",".join(every), "encoder": "lsa", "k": "5"})
        settings = settings.model_copy(update={"limit": given.limit})
        data = load_dataset(settings)
        whole = score_all(data, settings, given.metric)
        drawn = [
            [score_all(part_of(data, share, seed), settings, given.metric) for share in PARTS]
            for seed in range(given.seeds)
        ]
        questions = len(next(iter(whole.values())))
        chance, size = random.Random(0), min(TRIAL_QUESTIONS, questions)
        rows = [chance.sample(range(questions), size) for _ in range(given.trials // given.seeds)]
        print(f"\n**{data.name}** ({len(data.corpus.documents):,} documents, {questions} questions)")
        for cheap in sets:
            dear = [label for label in every if label not in cheap]
            best = max(float(whole[label].mean()) for label in cheap)
            tried = [[try_once(parts, one, cheap, dear, given.delta) for one in rows] for parts in drawn]
            print(f"\n| over {', '.join(cheap)} | gain in truth | dropped at 10 % | at 30 % | wrong |")
            print("|---|---|---|---|---|")
            for label in dear:
                number = np.array([[one[label] for one in trials] for trials in tried])
                gain = float(whole[label].mean()) - best
                wrong = describe_share(number > 0) if gain > given.delta else "–"
                shares = f"{describe_share(number == 1)} | {describe_share(number == 2)} | {wrong}"
                print(f"| `{label}` | {100 * gain:+.1f} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
