"""Two ways to one result: the bounds of a table of means hold what the rankings behind it give, as `compare` does."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from ragindex_eval import audit
from ragindex_eval.run.compare_runs import compare_runs
from ragindex_eval.run.settings import CompareSettings


def write_runs(folder: Path, questions: int, seed: int) -> tuple[list[Path], Path]:
    """Two rankings of ten documents for each question, of which one or two are relevant."""
    generator = np.random.default_rng(seed)
    qrels = {
        f"q{number}": {f"d{id}": 1 for id in generator.choice(10, 1 + number % 2, replace=False)}
        for number in range(questions)
    }
    paths = []
    for name, skill in (("first", 2.0), ("second", 1.4)):
        scores = {
            query: {f"d{id}": float(generator.normal() + skill * (f"d{id}" in gold)) for id in range(10)}
            for query, gold in qrels.items()
        }
        paths.append(folder / f"{name}.json")
        paths[-1].write_text(json.dumps(scores))
    (folder / "qrels.json").write_text(json.dumps(qrels))
    return paths, folder / "qrels.json"


@pytest.mark.parametrize(("questions", "metric"), list(product((30, 200), ("R@2", "Success@1", "nDCG@5"))))
def test_bounds_of_the_printed_means_hold_p_of_the_rankings(questions: int, metric: str, tmp_path: Path) -> None:
    runs, qrels = write_runs(tmp_path, questions, questions)
    ranked = audit(runs=runs, qrels=qrels, metric=metric).rankings
    assert ranked is not None
    printed = [f"{100 * run.value:.1f}%" for run in ranked.runs]
    (claim,) = audit(printed, n=questions, metric=metric).claims
    assert claim.p[0] <= ranked.pairs[0].p <= claim.p[1]
    assert claim.difference == pytest.approx(ranked.pairs[0].difference, abs=0.001)
    if claim.verdict in ("significant", "impossible"):
        assert (ranked.pairs[0].p < 0.05) == (claim.verdict == "significant")


def test_rankings_have_the_test_of_compare(tmp_path: Path) -> None:
    runs, qrels = write_runs(tmp_path, 60, 4)
    ranked = audit(runs=runs, qrels=qrels, metric="R@5").rankings
    comparison = compare_runs(runs, qrels, CompareSettings(k=(1, 5)))
    pair = comparison.pair("first", "second", "R@5")
    assert ranked is not None
    (own,) = ranked.pairs
    assert (own.difference, own.p) == pytest.approx((pair.value, pair.p))
    assert own.interval == pytest.approx(pair.ci95, abs=0.002)
    assert own.p_adjusted == pytest.approx(pair.p_adjusted, abs=0.002)
    for run in ranked.runs:
        method = comparison.method(run.name)
        assert (run.value, *run.interval) == pytest.approx((method.metrics["R@5"], *method.ci95["R@5"]))
