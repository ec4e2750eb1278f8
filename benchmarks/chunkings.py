"""What chunking is worth beside what the method is worth: five chunkings of five methods on questions with evidence.

    .venv/bin/python -m benchmarks.chunkings FOLDER QUESTIONS [ENCODER [OUT [INDEX]]]
    .venv/bin/python -m benchmarks.chunkings alone FOLDER [ENCODER]

The first prints evidence_R@5 (R@5 in brackets) of each method and chunking; the effect of each chunking, averaged over
the methods, and of each method, averaged over the chunkings, with intervals over the questions; and how many
tokens must be read. The report goes to OUT. Where INDEX is given, the index stays there, and the same command resumes
an interrupted run. `alone` builds the 25 in one index and each in an index of its own, and prints the seconds.
QUESTIONS are in benchmarks/chunking; ENCODER is lsa if it is not given.
"""

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

import ragindex
from ragindex.plugins import registry
from ragindex_eval.results.model import MethodResult
from ragindex_eval.stats.paired_tests import paired_interval

METHODS = ("bm25", "dense", "hybrid", "links", "hipporag(mode=facts)")
CHUNKINGS = (
    "passages",
    "passages(size=64)",
    "passages(size=256, overlap=32)",
    "passages(by=sentences, size=128)",
    "passages(by=headings, size=200)",
)
KS = (5, 20, 50)
METRICS = ("evidence_R@5", "R@5")
Values = Mapping[tuple[str, str], npt.NDArray[np.float64]]
"""The values of each question, by method and chunking."""


def written(method: str, chunking: str) -> str:
    """Return the label of a method over a chunking, as `compare` takes it."""
    text = f"{method[:-1]}, over={chunking})" if method.endswith(")") else f"{method}(over={chunking})"
    return registry.label(registry.scheme(text))


VARIANTS = {(method, chunking): written(method, chunking) for method in METHODS for chunking in CHUNKINGS}


def compare(folder: Path, questions: Path, encoder: str, out: Path | None, kept: Path | None) -> None:
    """Print the figures of all variants; `kept` is the folder of an index that stays, for resuming."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        labels = list(VARIANTS.values())
        index = kept or Path(place, "index")
        result = ragindex.compare(folder, labels, questions=questions, encoder=encoder, index=index, k=KS)
    if out is not None:
        result.save(out)
    by_label = {one.label: one for one in result.comparison.methods}
    found = {key: by_label[text] for key, text in VARIANTS.items()}
    data = result.comparison.dataset
    print(f"{folder.name}: {data.documents} documents, {data.questions} questions, {encoder}")
    print(f"whole comparison: {time.perf_counter() - start:.0f} s")
    _print_table(found)
    for metric in METRICS:
        values = {key: _per_question(method, metric) for key, method in found.items()}
        print(f"\n{metric}: each chunking against {CHUNKINGS[0]}, mean of the methods")
        for chunking in CHUNKINGS[1:]:
            print(f"  {chunking:36} {_effect([values[m, chunking] - values[m, CHUNKINGS[0]] for m in METHODS])}")
        print(f"{metric}: each method against {METHODS[0]}, mean of the chunkings")
        for method in METHODS[1:]:
            print(f"  {method:36} {_effect([values[method, c] - values[METHODS[0], c] for c in CHUNKINGS])}")
        ranges = [np.ptp([values[method, c].mean() for c in CHUNKINGS]) for method in METHODS]
        across = [np.ptp([values[method, c].mean() for method in METHODS]) for c in CHUNKINGS]
        print(f"best minus worst: chunkings {100 * np.mean(ranges):.1f}, methods {100 * np.mean(across):.1f}")


def _print_table(found: Mapping[tuple[str, str], MethodResult]) -> None:
    print("| | " + " | ".join(METHODS) + " | tokens to 50 %, 80 % (hybrid) | index s, MB (hybrid) |")
    print("|---|" + "---|" * (len(METHODS) + 2))
    for chunking in CHUNKINGS:
        cells = [
            " (".join(f"{100 * found[method, chunking].metrics[metric]:.1f}" for metric in METRICS) + ")"
            for method in METHODS
        ]
        hybrid = found["hybrid", chunking]
        tokens = ", ".join(f"{one.tokens or 'not reached'}" for one in hybrid.tokens_to_recall.values())
        size = f"{hybrid.index_seconds:.1f}, {hybrid.index_bytes / 1e6:.1f}"
        print(f"| `{chunking}` | " + " | ".join(cells) + f" | {tokens} | {size} |")


def _per_question(method: MethodResult, metric: str) -> npt.NDArray[np.float64]:
    return np.array([values[metric] for _, values in sorted(method.per_query.items())])


def _effect(differences: Sequence[npt.NDArray[np.float64]]) -> str:
    """Return the mean of the differences with its interval over the questions, in points."""
    each = np.mean(differences, axis=0)
    low, high = paired_interval(each)
    return f"{100 * each.mean():+5.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def build_alone(folder: Path, encoder: str) -> None:
    """Print the seconds of building all variants in one index, and each in an index of its own."""
    documents = ragindex.read(folder)
    together = _build(documents, list(VARIANTS.values()), encoder)
    alone = [_build(documents, [text], encoder) for text in VARIANTS.values()]
    print(
        f"{folder.name}: 25 in one index {together:.1f} s, each alone {sum(alone):.1f} s: {sum(alone) / together:.1f}"
    )


def _build(documents: ragindex.Corpus, methods: Sequence[str], encoder: str) -> float:
    with tempfile.TemporaryDirectory() as place, ragindex.open(Path(place, "i"), encoder=encoder, create=True) as index:
        start = time.perf_counter()
        index.add(documents)
        for method in methods:
            index.build(method)
        return time.perf_counter() - start


if __name__ == "__main__":
    given = sys.argv[1:]
    if given[0] == "alone":
        build_alone(Path(given[1]), *(given[2:] or ["lsa"]))
    else:
        places = [Path(text) for text in given[3:]]
        compare(Path(given[0]), Path(given[1]), [*given[2:], "lsa"][0], *[*places, None, None][:2])
