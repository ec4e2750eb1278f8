"""The decision of a recommendation: choices, prices, constraints, and what the questions can show."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragindex.corpus import Corpus
from ragindex.plugins import registry
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.recommend import recommend
from ragindex_eval.recommend.candidates import sort_by_price
from ragindex_eval.recommend.decide import Choice, choose, find_pareto, more_questions
from ragindex_eval.recommend.prices import broken_constraint
from ragindex_eval.recommend.rules import RecommendRules
from ragindex_eval.recommend.timing import lower_end_of_p95
from ragindex_eval.recommend.values import Candidate, Costs, State
from ragindex_eval.run.settings import CompareSettings
from ragindex_eval.stats.betting_interval import betting_interval
from ragindex_eval.stats.race import count_level_questions

CORPUS = Corpus("none", "jsonl", (), 0, (), True)


def candidate(label: str, state: State = "racing", score: float = 0.5, **costs: Any) -> Candidate:
    return Candidate(label, registry.scheme("bm25"), state, "", Costs(**costs), 10, score)


def test_few_questions_are_told() -> None:
    told: list[str] = []
    progress = recommend.Progress(told.append, [])
    for rules in (RecommendRules(), RecommendRules(delta=0.1), RecommendRules(estimand="questions")):
        recommend._tell_of_questions(60, rules, progress)
    assert told == [
        "60 questions show large differences only: to show that a method is as good as an equal one, within 2.0 "
        "points, takes 170 at least"
    ]


def test_long_builds_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    priced = [candidate("bm25", index_seconds=20.0), candidate("hybrid", index_seconds=50.0)]
    monkeypatch.setattr(recommend, "price_candidates", lambda *given: (priced, 65.0))
    progress = recommend.Progress(lambda step: None, [])
    data = Dataset("none", CORPUS, (), None, "")
    recommend._price(priced, data, Path("w"), CompareSettings(), RecommendRules(), progress)
    assert progress.steps == [
        "2 candidates take about 65 s to build, hybrid with 50 s longest, less what the index has already. Name "
        "fewer with --methods, or set --max-index-minutes"
    ]


def test_as_many_level_questions_as_are_said_are_needed() -> None:
    for delta in (0.02, 0.05, 0.1):
        needed = count_level_questions(delta, 0.05)
        lows = [betting_interval(np.zeros(number), 2 * 0.05)[0] for number in (needed - 1, needed)]
        assert round(lows[0], 6) <= round(-delta - 0.001, 6)  # the interval is rounded outwards to 0.001
        assert round(lows[1], 6) >= -delta


def test_the_choice_follows_price_and_acceptance() -> None:
    cheap, good, best = candidate("a", score=0.60), candidate("b", "accepted", 0.62), candidate("c", "accepted", 0.63)
    assert choose([cheap, good, best]) == Choice(1, True, 2, (0,))
    assert choose([cheap, candidate("b"), candidate("c", score=0.7)]) == Choice(2, False, 0, (0, 1))
    assert choose([candidate("a", "dropped"), good]) == Choice(1, True, 0, ())
    assert choose([good]) == Choice(0, True, None, ())


def test_more_questions_are_few_for_a_large_difference_and_none_for_the_margin_itself() -> None:
    rules = RecommendRules(delta=0.05)
    racers = [candidate("a"), candidate("b")]
    differences = np.array([1.0, 0.0, 0.0, 0.0] * 5)
    values = np.stack([differences, np.zeros(20)], axis=1)
    count = more_questions(values, racers, Choice(0, False, 1, ()), rules)
    assert count is not None
    assert 1 <= count <= 40
    worse = np.stack([np.zeros(20), np.array([0.05] * 20)], axis=1)
    assert more_questions(worse, racers, Choice(0, False, 1, ()), rules) is None
    assert more_questions(values, racers, Choice(0, True, 1, ()), rules) == 0


def test_the_lower_end_of_a_percentile_comes_from_order_statistics() -> None:
    """Of 59 times the 53rd is the largest below the 95th percentile with 95 %: P(Bin(59, 0.95) >= 53) = 0.968."""
    times = [float(value) for value in range(1, 60)]
    assert lower_end_of_p95(times) == 53.0
    assert lower_end_of_p95([]) == 0.0


def test_prices_sort_by_questions_then_index() -> None:
    free, slow = candidate("free", index_seconds=9.0), candidate("slow", index_seconds=10.0)
    paid = candidate("paid", index_seconds=1.0, dollars_per_1000=2.0)
    unknown = candidate("unknown", index_seconds=1.0, index_dollars=None)
    assert [one.label for one in sort_by_price([paid, unknown, slow, free])] == ["free", "slow", "unknown", "paid"]


def test_an_estimate_breaks_a_limit_only_twice_over() -> None:
    rules = RecommendRules(max_index_minutes=1, max_index_dollars=5)
    assert broken_constraint(Costs(index_seconds=100, estimated=True), rules) is None
    assert broken_constraint(Costs(index_seconds=180, estimated=True), rules) == (
        "--max-index-minutes 1: about 3.00 minutes to index"
    )
    assert broken_constraint(Costs(index_seconds=61), rules) == "--max-index-minutes 1: 1.02 minutes to index"
    assert broken_constraint(Costs(index_dollars=6.0, estimated=True), rules) == (
        "--max-index-dollars 5: about 6.00 dollars to index"
    )


def test_pareto_leaves_out_what_another_beats_in_everything() -> None:
    good = candidate("good", score=0.9, p95_ms=10, dollars_per_1000=0, index_seconds=10, index_bytes=10)
    fast = candidate("fast", score=0.5, p95_ms=1, dollars_per_1000=0, index_seconds=1, index_bytes=1)
    worse = candidate("worse", score=0.4, p95_ms=2, dollars_per_1000=0, index_seconds=1, index_bytes=1)
    assert find_pareto([good, fast, worse]) == ("good", "fast")
