"""How often `ragindex recommend` drops a dear method wrongly after a trial on a part of the corpus.

    python -m benchmarks.trials DATA … [--cheap bm25,…] [--dear raptor,…] [--seeds 3] [--trials 500] [--limit 200]
        [--metric R@5] [--delta 0.02]

For each corpus, all methods are built over the whole and over the parts that a trial takes, drawn by each seed, and
asked all questions; the means over the whole are the truth. Each trial then draws its questions without replacement and
decides as `recommend` does. For each dear method it prints, in percent of the trials, how often it is dropped, beside
what it gains over the best cheap method in truth: a drop is wrong if that is more than delta.
"""

import argparse
import random
import tempfile
from pathlib import Path

import numpy as np

from ragindex.plugins.specs import parse_many, render_spec
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.metrics.score import list_judged
from ragindex_eval.recommend.candidates import choose_candidates
from ragindex_eval.recommend.trials import PARTS, TRIAL_QUESTIONS, largest_gain, part_of, score_candidates
from ragindex_eval.run.methods import Method
from ragindex_eval.run.pipeline import Plan, load_experiment, open_workspace
from ragindex_eval.run.settings import CompareSettings, make_settings
from ragindex_eval.run.study import load_dataset
from ragindex_eval.stats.resampling import SampleArray

CHEAP = ("bm25", "dense", "hybrid", "links")
DEAR = ("hipporag(mode=facts)", "hipporag", "graphrag", "raptor", "sirerag", "griever", "gear.naive")
Scores = dict[str, SampleArray]


def score_all(data: Dataset, settings: CompareSettings, metric: str) -> Scores:
    """Return the scores of all methods on all judged questions, by label, over the documents of `data`."""
    candidates = choose_candidates(settings)
    plan = Plan(tuple(Method(one.label, one.scheme, True) for one in candidates), ())
    with tempfile.TemporaryDirectory() as folder:
        own = settings.model_copy(update={"index": Path(folder, "index")})
        with open_workspace(own, data, None, None) as index:
            experiment = load_experiment(own, data, plan, index)
            return score_candidates(candidates, experiment, metric, list_judged(experiment.dataset))


def split_methods(written: str) -> tuple[str, ...]:
    return tuple(map(render_spec, parse_many(written)))


def try_once(parts: list[Scores], rows: list[int], given: argparse.Namespace, seed: int) -> dict[str, int]:
    """Return for each dear method the number of the part after which it is dropped, from 1; 0 if it goes on."""
    dropped = dict.fromkeys(given.dear, 0)
    for number, scores in enumerate(parts, start=1):
        best = max(given.cheap, key=lambda label: float(scores[label][rows].mean()))
        for label in given.dear:
            if not dropped[label] and largest_gain(scores[label][rows], scores[best][rows], seed) < given.delta:
                dropped[label] = number
    return dropped


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--cheap", default=CHEAP, type=split_methods)
    parser.add_argument("--dear", default=DEAR, type=split_methods)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--metric", default="R@5")
    parser.add_argument("--delta", type=float, default=0.02)
    given = parser.parse_args()
    for place in given.data:
        settings = make_settings(
            {"data": place, "methods": ",".join((*given.cheap, *given.dear)), "encoder": "lsa", "k": "5"}
        )
        settings = settings.model_copy(update={"limit": given.limit})
        data = load_dataset(settings)
        whole = score_all(data, settings, given.metric)
        best = max(float(whole[label].mean()) for label in given.cheap)
        gains = {label: float(whole[label].mean()) - best for label in given.dear}
        questions, drops = len(whole[given.cheap[0]]), list[dict[str, int]]()
        for seed in range(given.seeds):
            parts = [score_all(part_of(data, share, seed), settings, given.metric) for share in PARTS]
            for trial in range(given.trials // given.seeds):
                rows = random.Random(trial).sample(range(questions), min(TRIAL_QUESTIONS, questions))
                drops.append(try_once(parts, rows, given, trial))
        print(f"\n**{data.name}** ({len(data.corpus.documents):,} documents, {questions} questions)\n")
        print("| method | gain over the best cheap one | dropped at 10 % | dropped at 30 % | of these wrong |")
        print("|---|---|---|---|---|")
        for label in given.dear:
            found = np.array([one[label] for one in drops])
            first, second = (100 * float((found == number).mean()) for number in (1, 2))
            wrong = first + second if gains[label] > given.delta else 0.0
            print(f"| `{label}` | {100 * gains[label]:+.1f} | {first:.0f} | {second:.0f} | {wrong:.0f} |", flush=True)


if __name__ == "__main__":
    main()
