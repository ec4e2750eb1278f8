"""The weights that come with `evidence`: how they are made, what they are worth out of fold, and what `tune` promises.

    .venv/bin/python -m benchmarks.evidence weights FILE.json DATA …          link features alone
    .venv/bin/python -m benchmarks.evidence weights FILE.json DATA … --graphs and three graph methods as bases
    .venv/bin/python -m benchmarks.evidence resamples DATA [--graphs]

`weights` fits one set of weights to 100 questions of each data set. It prints recall out of five folds over all of
them, the mean over ten draws of the folds, and recall on each set with weights fitted to the others. `resamples` draws
30, 60 and 100 questions, 200 times each, and compares the gain that `tune` reports (out of fold) and the gain on the
questions it was fitted to with the gain on the questions left over.
Encoder: BENCHMARK_ENCODER; indexes: BENCHMARK_FOLDER.
"""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from ragindex.plugins import registry
from ragindex.workspace.workspace import Workspace
from ragindex_eval.data import datasets
from ragindex_eval.run.tune import Judged, collect_judged, fit_nested
from ragindex_eval.stats.logistic import fit_weights, recall_at

KS = (5, 10, 15)
GRAPHS = ("hipporag(mode=facts)", "hipporag", "sirerag(ranking=lifted)")
ENCODER = os.environ.get("BENCHMARK_ENCODER", "lsa")
FOLDER = Path(os.environ.get("BENCHMARK_FOLDER", "evidence-indexes"))
QUESTIONS, DRAWS, RESAMPLES, SIZES = 100, 10, 200, (30, 60, 100)


def judged_of(data: str, bases: tuple[str, ...]) -> Judged:
    dataset = datasets.read_dataset(data, limit=QUESTIONS, seed=0)
    folder = FOLDER / dataset.name.replace("/", "-")
    with Workspace.open(folder, encoder=ENCODER, chunking=None) as index:
        index.replace(dataset.corpus)
        index.sync([registry.scheme({"name": "evidence", "params": {"bases": list(bases)}})])
        return collect_judged(index, datasets.match_workspace(dataset, index), bases, KS[-1])


def weights(out: Path, sources: list[str], bases: tuple[str, ...]) -> None:
    judged = {Path(data).name: judged_of(data, bases) for data in sources}
    first = next(iter(judged.values()))
    names, increasing = first.names, first.increasing
    rows: dict[str, list[list[float]]] = {name: [] for name in judged}
    for draw in range(DRAWS):
        generator = np.random.default_rng(draw)
        folds = {name: generator.permutation(len(one.questions)) % 5 for name, one in judged.items()}
        for fold in range(5):
            split = [
                (name, q, f == fold)
                for name in judged
                for q, f in zip(judged[name].questions, folds[name], strict=True)
            ]
            fitted, _ = fit_weights([question for _, question, unseen in split if not unseen], increasing)
            for name, question, unseen in split:
                rows[name] += [recall_at(question, fitted, KS)] if unseen else []
    for name, one in judged.items():
        links = [recall_at(q, np.eye(len(names))[names.index("links")], KS) for q in one.questions]
        print(f"{name}: links {percents(links)}; out of fold {percents(rows[name])}", end="")
        others = [q for other, each in judged.items() if other != name for q in each.questions]
        if others:
            fitted, _ = fit_weights(others, increasing)
            print(f"; fitted to the other sets {percents([recall_at(q, fitted, KS) for q in one.questions])}", end="")
        print()
    every = [question for one in judged.values() for question in one.questions]
    fitted, intercept = fit_weights(every, increasing)
    content = {
        "made_from": f"{len(every)} questions of {', '.join(judged)}; {ENCODER.rpartition('/')[2]}",
        "bases": list(bases),
        "intercept": round(intercept, 6),
        "weights": {name: round(value, 6) for name, value in zip(names, fitted.tolist(), strict=True) if value != 0},
    }
    out.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(content, indent=2))


def resamples(data: str, bases: tuple[str, ...]) -> None:
    judged = judged_of(data, bases)
    draws, total = np.random.default_rng(0), len(judged.questions)
    for size in SIZES:
        found = []
        for number in range(RESAMPLES):
            drawn = draws.permutation(total)[:size] if size < total else draws.integers(0, total, size)
            tuned = fit_nested(replace(judged, questions=tuple(judged.questions[n] for n in drawn)), KS, number)
            left = [judged.questions[n] for n in sorted(set(range(total)) - set(drawn.tolist()))]
            weights = np.array([tuned.weights.get(name, 0.0) for name in judged.names])
            single = np.eye(len(judged.names))[column_of(judged, tuned.best_single)]
            true = np.mean([np.subtract(recall_at(q, weights, KS), recall_at(q, single, KS)) for q in left], axis=0)
            claimed = np.subtract(tuned.in_sample, tuned.single)
            significant = [low > 0 for low, _ in tuned.interval]
            found.append((tuned.gain, claimed, true, significant))
        means = [percents([one[part] for one in found]) for part in range(4)]
        print(
            f"{size} questions: gain out of fold {means[0]}, on those fitted to {means[1]}, "
            f"on those left over {means[2]}; interval above 0 in {means[3]} % of the draws",
            flush=True,
        )


def column_of(judged: Judged, name: str) -> int:
    return next(n for n, one in enumerate(judged.names) if one in (f"rank:{name}", f"{name}_rank"))


def percents(rows: object) -> str:
    return " / ".join(f"{100 * value:.1f}" for value in np.mean(rows, axis=0))  # type: ignore[arg-type]


if __name__ == "__main__":
    command, *given = sys.argv[1:]
    chosen = GRAPHS if "--graphs" in given else ()
    rest = [one for one in given if one != "--graphs"]
    if command == "weights":
        weights(Path(rest[0]), rest[1:], chosen)
    else:
        resamples(rest[0], chosen)
