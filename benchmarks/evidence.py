"""The weights that come with `evidence`: how they are made, what they are worth out of fold, and what `tune` promises.

    .venv/bin/python -m benchmarks.evidence weights FILE.json DATA …          link features alone
    .venv/bin/python -m benchmarks.evidence weights FILE.json DATA … --graphs and three graph methods as bases
    .venv/bin/python -m benchmarks.evidence weights FILE.json DATA … --hop    and `hop` as a base
    .venv/bin/python -m benchmarks.evidence resamples DATA [--graphs | --hop]

`weights` fits one set of weights to 100 questions of each data set. It prints recall out of five folds over all of
them, the mean over ten draws of the folds, and recall on each set with weights fitted to the others; then the gains
out of fold over COMPARED and the bases, with 95 % intervals and p-values of permutation tests (not adjusted), and for
each kind of question what the best of them has more than `evidence` (regret, R@5). `resamples` draws 30, 60 and 100
questions, 200 times each, and compares the gain that `tune` reports (out of fold) and the gain on the questions it was
fitted to with the gain on the questions left over.
Encoder: BENCHMARK_ENCODER; indexes: BENCHMARK_FOLDER.
"""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ragindex.corpus.judgements import question_id
from ragindex.index.index import Index
from ragindex.plugins import registry
from ragindex.types import Hit
from ragindex_eval.choose.tune import Judged, collect_judged, fit_nested
from ragindex_eval.data import datasets
from ragindex_eval.data.gold import Gold, gains
from ragindex_eval.metrics.retrieval import list_judged, score_hits
from ragindex_eval.stats.logistic import fit_weights, recall_at
from ragindex_eval.stats.paired_tests import paired_interval, run_paired_tests

KS = (5, 10, 15)
GRAPHS = ("hipporag(mode=facts)", "hipporag", "sirerag(ranking=lifted)")
ENCODER = os.environ.get("BENCHMARK_ENCODER", "lsa")
FOLDER = Path(os.environ.get("BENCHMARK_FOLDER", "evidence-indexes"))
COMPARED = ("bm25", "dense", "hybrid", "links", "hop", "hipporag(mode=facts)")
QUESTIONS, DRAWS, RESAMPLES, SIZES = 100, 10, 200, (30, 60, 100)


def judged_of(data: str, bases: tuple[str, ...]) -> Judged:
    dataset = datasets.read_dataset(data, limit=QUESTIONS, seed=0)
    folder = FOLDER / dataset.name.replace("/", "-")
    with Index.open(folder, encoder=ENCODER, chunking=None, create=True) as index:
        index.replace(dataset.corpus)
        index.build(registry.scheme({"name": "evidence", "params": {"bases": list(bases)}}))
        return collect_judged(index, datasets.match_index(dataset, index), bases, KS[-1])


def list_question_ids(data: str) -> list[str]:
    """Return the ids of the questions that weights are fitted to."""
    return [question_id(query.text) for query in list_judged(datasets.read_dataset(data, limit=QUESTIONS, seed=0))]


def recall_of(hits: Sequence[Hit], gold: Gold) -> list[float]:
    """Return the recall of a question's hits at each k."""
    scores = score_hits([hit.doc_ids for hit in hits], gains(gold.doc_ids, gold.grades), KS, gold.equivalents)
    return [scores[f"R@{k}"] for k in KS]


def fixed_of(data: str, bases: tuple[str, ...]) -> tuple[list[str], dict[str, np.ndarray]]:
    """Return the kind of each question, and the recall of COMPARED and of the bases, (questions, KS)."""
    compared = tuple(dict.fromkeys((*COMPARED, *bases)))
    dataset = datasets.read_dataset(data, limit=QUESTIONS, seed=0)
    with Index.open(FOLDER / dataset.name.replace("/", "-"), encoder=ENCODER, chunking=None, create=True) as index:
        index.build(*[registry.scheme(method) for method in compared])
        matched = datasets.match_index(dataset, index)
        gold = matched.gold or {}
        judged = [query for query in matched.queries if query.id in gold and gold[query.id].doc_ids]
        recall = {}
        for method in compared:
            answers = index.open_method(method).retrieve(judged, KS[-1])
            pairs = zip(judged, answers, strict=True)
            recall[method] = np.array([recall_of(answer.hits, gold[query.id]) for query, answer in pairs])
    return [gold[query.id].kind for query in judged], recall


def weights(out: Path, sources: list[str], bases: tuple[str, ...]) -> None:
    judged = {Path(data).name: judged_of(data, bases) for data in sources}
    first = next(iter(judged.values()))
    names, increasing = first.names, first.increasing
    rows = {name: np.zeros((len(part.questions), len(KS))) for name, part in judged.items()}
    for draw in range(DRAWS):
        generator = np.random.default_rng(draw)
        folds = {name: generator.permutation(len(part.questions)) % 5 for name, part in judged.items()}
        for fold in range(5):
            split = [(name, place, f == fold) for name in judged for place, f in enumerate(folds[name].tolist())]
            fitted, _ = fit_weights([judged[name].questions[n] for name, n, unseen in split if not unseen], increasing)
            for name, place, unseen in split:
                if unseen:
                    rows[name][place] += np.divide(recall_at(judged[name].questions[place], fitted, KS), DRAWS)
    for name, part in judged.items():
        links = [recall_at(q, np.eye(len(names))[names.index("links")], KS) for q in part.questions]
        print(f"{name}: links {percents(links)}; out of fold {percents(rows[name])}", end="")
        others = [q for other, each in judged.items() if other != name for q in each.questions]
        if others:
            fitted, _ = fit_weights(others, increasing)
            print(f"; fitted to the other sets {percents([recall_at(q, fitted, KS) for q in part.questions])}", end="")
        print()
    for data in sources:
        print(f"{Path(data).name}, out of fold:")
        compare_out_of_fold(rows[Path(data).name], *fixed_of(data, bases))
    every = [question for part in judged.values() for question in part.questions]
    fitted, intercept = fit_weights(every, increasing)
    content = {
        "made_from": f"{len(every)} questions of {', '.join(judged)}; {ENCODER.rpartition('/')[2]}",
        "questions": [id for data in sources for id in list_question_ids(data)],
        "bases": list(bases),
        "intercept": round(intercept, 6),
        "weights": {name: round(value, 6) for name, value in zip(names, fitted.tolist(), strict=True) if value != 0},
    }
    out.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(content, indent=2))


def compare_out_of_fold(fitted: np.ndarray, kinds: list[str], fixed: dict[str, np.ndarray]) -> None:
    """Print gains over fixed methods, and for each kind of question R@5 and the regret."""
    for name, recall in fixed.items():
        gains = fitted - recall
        intervals = map(paired_interval, gains.T)
        p_values = run_paired_tests(np.stack([fitted, recall], axis=1), [(0, 1)], 0).p[0]
        sentences = [
            f"{100 * mean:+.1f} ({100 * low:.1f} to {100 * high:.1f}, p {p:.4f})"
            for mean, (low, high), p in zip(gains.mean(axis=0), intervals, p_values, strict=True)
        ]
        print(f"  over {name}: {', '.join(sentences)}")
    for kind in sorted(set(kinds)):
        rows = np.array([own == kind for own in kinds])
        theirs = {name: 100 * float(recall[rows, 0].mean()) for name, recall in fixed.items()}
        best, mine = max(theirs, key=lambda name: theirs[name]), 100 * float(fitted[rows, 0].mean())
        print(f"  {kind} ({rows.sum()}): {mine:.1f}, best {best} {theirs[best]:.1f}, regret {theirs[best] - mine:+.1f}")


def resamples(data: str, bases: tuple[str, ...]) -> None:
    judged = judged_of(data, bases)
    draws, total = np.random.default_rng(0), len(judged.questions)
    for size in SIZES:
        gains = []
        for number in range(RESAMPLES):
            drawn = draws.permutation(total)[:size] if size < total else draws.integers(0, total, size)
            tuned = fit_nested(replace(judged, questions=tuple(judged.questions[n] for n in drawn)), KS, number)
            left = [judged.questions[n] for n in sorted(set(range(total)) - set(drawn.tolist()))]
            weights = np.array([tuned.weights.get(name, 0.0) for name in judged.names])
            single = np.eye(len(judged.names))[column_of(judged, tuned.best_single)]
            true = np.mean([np.subtract(recall_at(q, weights, KS), recall_at(q, single, KS)) for q in left], axis=0)
            claimed = np.subtract(tuned.in_sample, tuned.single)
            significant = [low > 0 for low, _ in tuned.interval]
            gains.append((tuned.gain, claimed, true, significant))
        means = [percents([drawn_gains[part] for drawn_gains in gains]) for part in range(4)]
        print(
            f"{size} questions: gain out of fold {means[0]}, on those fitted to {means[1]}, "
            f"on those left over {means[2]}; interval above 0 in {means[3]} % of the draws",
            flush=True,
        )


def column_of(judged: Judged, name: str) -> int:
    return next(n for n, feature in enumerate(judged.names) if feature in (f"rank:{name}", f"{name}_rank"))


def percents(rows: object) -> str:
    return " / ".join(f"{100 * value:.1f}" for value in np.mean(rows, axis=0))  # type: ignore[arg-type]


if __name__ == "__main__":
    command, *given = sys.argv[1:]
    chosen = GRAPHS if "--graphs" in given else ("hop",) if "--hop" in given else ()
    rest = [argument for argument in given if not argument.startswith("--")]
    if command == "weights":
        weights(Path(rest[0]), rest[1:], chosen)
    else:
        resamples(rest[0], chosen)
