"""Ranking files under audit, held against figures done by hand and by ir_measures."""

import json
from collections.abc import Mapping
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from scipy import stats

from ragindex.errors import UsageError
from ragindex_eval.auditing.rankings import RankingAudit, audit_rankings
from ragindex_eval.data.run_files import read_qrels, read_run

Scores = Mapping[str, Mapping[str, float]]
QRELS = {"q1": {"a": 1, "b": 1}, "q2": {"c": 2, "d": 0}, "q3": {"e": 1}, "q4": {"f": 0}}
RUN = {
    "q1": {"a": 3.0, "x": 2.0, "b": 1.0},
    "q2": {"d": 1.0, "c": 1.0, "y": 1.0},  # tied: c is first, second or third
    "q9": {"a": 1.0},
}


def audit(folder: Path, metric: str = "R@2", documents: frozenset[str] | None = None, **runs: Scores) -> RankingAudit:
    (folder / "qrels.json").write_text(json.dumps(QRELS))
    paths = []
    for name, run in runs.items():
        paths.append(folder / f"{name}.json")
        paths[-1].write_text(json.dumps(run))
    return audit_rankings(paths, folder / "qrels.json", metric, documents)


def test_what_a_run_lacks(tmp_path: Path) -> None:
    done = audit(tmp_path, first=RUN)
    (run,) = done.runs
    assert (done.questions, done.unanswerable, done.gold) == (4, 1, 4)
    assert (run.missing, run.unjudged, run.short) == (2, 1, 0)
    assert run.unjudged_hits == 0.5  # x of q1; y of q2, as the larger id of a tie comes first
    assert (done.never_found, done.examples["never_found"]) == (1, ("e",))
    assert done.unmatched is run.unknown is None


def test_order_of_ties_decides(tmp_path: Path) -> None:
    (run,) = audit(tmp_path, first=RUN).runs
    assert run.value == pytest.approx((0.5 + 0 + 0 + 0) / 4)  # y and d come before c
    assert run.by_ties == pytest.approx((0.5 / 4, 1.5 / 4))
    assert run.tied == 1
    scores_that_single_precision_cannot_tell_apart = {"q2": {"d": 1.0, "c": 1.0 + 1e-12}}
    assert audit(tmp_path, "R@1", first=scores_that_single_precision_cannot_tell_apart).runs[0].tied == 1
    assert audit(tmp_path, "R@1", first={"q2": {"d": 1.0, "c": 2.0}}).runs[0].tied == 0


def test_documents_of_the_corpus(tmp_path: Path) -> None:
    done = audit(tmp_path, documents=frozenset("abcd"), first=RUN)
    assert (done.unmatched, done.examples["unmatched"]) == (1, ("e",))
    assert done.runs[0].unknown == 2


def test_pair_is_the_paired_test(tmp_path: Path) -> None:
    done = audit(tmp_path, first=RUN, second={"q1": {"a": 2, "b": 1}, "q2": {"c": 1}, "q3": {"e": 1}})
    (pair,) = done.pairs
    differences = np.array([0.5 - 1, 0 - 1, 0 - 1, 0.0])
    assert pair.difference == pytest.approx(differences.mean())
    assert pair.p == pytest.approx(stats.ttest_1samp([*differences, 1, -1], 0).pvalue)
    assert pair.p <= pair.p_adjusted
    assert pair.interval[0] < pair.difference < pair.interval[1]
    (same,) = audit(tmp_path, first=RUN, second=RUN).pairs
    assert (same.difference, same.p, same.smallest, same.needed_questions) == (0, 1, None, None)


@pytest.mark.parametrize("metric", ["R@10", "nDCG@20"])
def test_figures_are_those_of_ir_measures(metric: str, tmp_path: Path) -> None:
    folder = Path(__file__).parents[3] / "support" / "trec_eval"
    done = audit_rankings([folder / "results.test.gz"], folder / "qrels.test.gz", metric)
    qrels = read_qrels(folder / "qrels.test.gz")
    run = {query: dict(ranked) for query, ranked in read_run(folder / "results.test.gz").rankings.items()}
    expected = ir_measures.calc_aggregate([ir_measures.parse_measure(metric)], qrels, run)
    assert done.runs[0].value == pytest.approx(next(iter(expected.values())), abs=1e-12)


def test_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--metric of rankings is one of R@10, .* Got 'EM'"):
        audit(tmp_path, "EM", first=RUN)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "first.json").write_text(json.dumps(RUN))
    (tmp_path / "first.json").write_text(json.dumps(RUN))
    (tmp_path / "qrels.json").write_text(json.dumps(QRELS))
    with pytest.raises(UsageError, match="Several runs are called first"):
        audit_rankings([tmp_path / "first.json", tmp_path / "other/first.json"], tmp_path / "qrels.json", "R@2")
    (tmp_path / "none.json").write_text('{"q1": {"a": 0}}')
    with pytest.raises(UsageError, match="judges no document as relevant"):
        audit_rankings([tmp_path / "first.json"], tmp_path / "none.json", "R@2")
