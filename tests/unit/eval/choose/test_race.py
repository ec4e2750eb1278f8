"""The decision of a recommendation: choices, prices, constraints, and what the questions can show."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_comparisons import make_comparison
from rich.console import Console

from ragindex.plugins import registry
from ragindex_eval.choose import candidates as before_building
from ragindex_eval.choose import recommend
from ragindex_eval.choose.candidates import broken_constraint, sort_by_price
from ragindex_eval.choose.race import Choice, choose, find_pareto, more_questions
from ragindex_eval.choose.recommend import confirmation_level, judge_confirmation
from ragindex_eval.choose.recommendation import (
    Candidate,
    Confirmation,
    Costs,
    Progress,
    Recommendation,
    RecommendRules,
    State,
)
from ragindex_eval.choose.show import describe_decision, describe_standing, render_recommendation
from ragindex_eval.conclusions.first_sentence import state_conclusion
from ragindex_eval.results.model import DatasetFacts
from ragindex_eval.results.records import HoldoutResult
from ragindex_eval.run.build_costs import BuildCosts, PartCost
from ragindex_eval.run.settings import CompareSettings
from ragindex_eval.stats.intervals import Interval
from ragindex_eval.stats.race import betting_interval, count_level_questions


def candidate(label: str, state: State = "racing", score: float = 0.5, **costs: Any) -> Candidate:
    return Candidate(label, registry.scheme("bm25"), state, "", Costs(**costs), 10, score)


def test_few_questions_are_told() -> None:
    lines: list[str] = []
    progress = Progress(lines.append)
    for rules in (RecommendRules(), RecommendRules(delta=0.1), RecommendRules(estimand="questions")):
        recommend._tell_of_questions(60, rules, progress)
    assert lines == [
        "60 questions show large differences only, so that the race is likely to end undecided; then the last lines "
        "say about how many more would tell"
    ]


@pytest.mark.parametrize(
    ("methods", "minutes", "advice"),
    [
        (None, None, " To shorten it: name fewer with --methods, or set --max-index-minutes."),
        ("bm25,hybrid", None, " To shorten it: set --max-index-minutes."),
        (None, 5.0, " To shorten it: name fewer with --methods."),
        ("bm25,hybrid", 5.0, ""),
    ],
)
def test_long_builds_are_announced_with_the_flags_that_the_command_lacks(
    methods: str | None, minutes: float | None, advice: str
) -> None:
    """What the index has is not counted, and what two candidates share is counted once."""
    parts = {"passages": PartCost(100.0, 0, built=True), "vectors": PartCost(50.0, 0), "links": PartCost(15.0, 0)}
    building = BuildCosts(parts, {"dense": ["passages", "vectors"], "links": ["passages", "vectors", "links"]})
    progress = Progress(lambda step: None)
    settings, rules = CompareSettings(methods=methods), RecommendRules(max_index_minutes=minutes)
    before_building._announce_building(["dense", "links"], building, settings, rules, progress)
    assert progress.steps == [
        f"building 2 candidates takes about 65 s beyond what the index has, links longest with 65 s.{advice}"
    ]
    before_building._announce_building(["dense"], building, settings, rules, progress)
    assert len(progress.steps) == 1  # 50 s are not worth a word


def test_an_interrupted_race_says_how_it_stands() -> None:
    racing = [replace(candidate("bm25", score=0.5), asked=10), replace(candidate("links", score=0.8), asked=10)]
    waiting = replace(candidate("raptor"), score=None)
    gone = candidate("griever", state="constraint")
    assert describe_standing([*racing, waiting, gone], "R@5", "ragindex recommend x") == (
        "Provisional: links leads, R@5 80.0 on 10 questions; bm25 50.0. Nothing is decided between links and bm25. "
        "Not built or not asked yet: raptor. Left the race: griever. To go on: ragindex recommend x"
    )
    assert describe_standing([waiting, gone], "R@5", "ragindex recommend x") == ""


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
    racers = [candidate("a"), candidate("b"), candidate("c")]
    values = np.zeros((20, 3))
    values[:, 0] = [1.0, 0.0, 0.0, 0.0] * 5
    values[:, 2] = values[:, 0] - 0.05  # just the margin below the first
    counts = more_questions(values, racers, Choice(0, False, 1, ()), rules)
    assert set(counts) == {1, 2}
    assert 1 <= (counts[1] or 0) <= 40
    level = more_questions(values * 0, racers, Choice(2, True, 1, (0,)), rules)
    assert level[0] == pytest.approx(count_level_questions(0.05, 0.05 / 3) - 20, abs=1)
    assert more_questions(values[:, [2, 0]], racers[:2], Choice(1, True, 0, (0,)), rules) == {0: None}
    assert more_questions(values, racers, Choice(0, True, 1, ()), rules) == {}


@pytest.mark.parametrize(
    ("difference", "verdict"),
    [
        ((0.021, 0.059), "confirmed"),
        ((-0.02, 0.01), "confirmed"),
        ((-0.021, 0.01), "open"),
        ((-0.1, -0.02), "open"),
        ((-0.20, -0.04), "contradicted"),
    ],
)
def test_a_choice_is_confirmed_by_the_interval_against_the_margin(difference: Interval, verdict: str) -> None:
    assert judge_confirmation(difference, 0.02) == verdict


def test_all_confirmations_together_have_the_stated_risk() -> None:
    assert confirmation_level(0) == 0.025
    assert 0.0499 < sum(confirmation_level(earlier) for earlier in range(1000)) < 0.05


def recommendation(candidates: Sequence[Candidate], chosen: str, **values: Any) -> Recommendation:
    facts = DatasetFacts("notes", "folder", 10, 10, 100, 100, "")
    given = {"decided": True, "rival": "dense", "difference": (-0.01, 0.05), "cheaper": (), "more_questions": {}}
    sizes = {
        "questions": 100,
        "kept": 0,
        "pareto": (),
        "questions_asked": 0,
        "full": 0,
        "steps": (),
        "would_change": (),
    }
    more = {"rules": {}, "dataset": facts, "encoder": "lsa", **given, **sizes, **values}
    return Recommendation(chosen=chosen, candidates=tuple(candidates), **more)


DROPPED = candidate("bm25", "dropped", 0.5, index_seconds=1.0)
SLOW = replace(candidate("dense", "constraint", index_seconds=2.0), asked=0, score=None)
TRIED = replace(candidate("tree", "sub-corpus", index_seconds=90.0), asked=0, score=None)
HYBRID = candidate("hybrid", index_seconds=3.0)
LINKS = replace(candidate("links", "accepted", 0.7, index_seconds=9.0), scheme=registry.scheme("links"))
_WITHIN = "Use links: on questions like these it is within 2.0 points of the best"
_FIGURES = "in R@5 (risk 5 %). R@5 70.0 so far; links less dense: −1.0 to +5.0 points."


def test_the_decision_says_of_each_candidate_what_was_tested() -> None:
    population = RecommendRules()
    cases = [
        (([LINKS, SLOW], {"rival": None}), "Use links: it is the only candidate that meets the constraints. R@5 70.0 "),
        (
            ([LINKS, SLOW, TRIED], {"rival": None}),
            "Use links: no other candidate is left. dense left for a constraint; tree left after a trial on a part of "
            "the corpus, a heuristic outside the risk. R@5 70.0 on ",
        ),
        (
            ([LINKS, candidate("tree", "dropped", index_seconds=90.0)], {}),
            f"{_WITHIN} candidate {_FIGURES} No candidate is cheaper.",
        ),
        (([DROPPED, LINKS], {}), f"{_WITHIN} candidate {_FIGURES} No cheaper candidate is: the race dropped bm25."),
        (
            ([DROPPED, LINKS, SLOW], {}),
            f"{_WITHIN} of the 2 candidates raced {_FIGURES} Cheaper ones that are not: the race dropped "
            "bm25. Cheaper too, but left before that was known: dense left for a constraint.",
        ),
        (
            ([HYBRID, LINKS], {"cheaper": ("hybrid",), "tells_more": "90 more would show it."}),
            f"{_WITHIN} candidate {_FIGURES} Whether a cheaper one is (hybrid) is undecided. 90 more would show it.",
        ),
    ]
    for (candidates, values), beginning in cases:
        assert describe_decision(recommendation(candidates, "links", **values), population).startswith(beginning)


def test_more_questions_are_said_as_compare_says_it() -> None:
    """Also where a method of the race left before its end, and so has fewer answers."""
    scores = {"hybrid": [1.0] * 12, "dense": [1.0] * 10 + [0.0] * 2, "bm25": [0.0] * 6}
    comparison = make_comparison(
        {label: scores[label] for label in ("hybrid", "dense")}, {"hybrid": [1.0], "dense": [1.0]}
    )
    values = np.array([[*score, *[math.nan] * (12 - len(score))] for score in scores.values()]).T
    racers = [candidate(label, score=sum(score) / len(score)) for label, score in scores.items()]
    sentence = recommend._describe_more(racers[:2], values[:, :2])
    assert sentence in state_conclusion(comparison)
    assert "more questions would show hybrid ahead of dense" in sentence
    assert "ahead of dense" in recommend._describe_more([*racers[:2], racers[2].leave("dropped", "")], values)
    advice = recommendation(racers, "hybrid", decided=False, tells_more=sentence, questions=667, kept=333)
    assert sentence in describe_decision(advice, RecommendRules())
    decision = describe_decision(advice, RecommendRules(estimand="questions"))
    assert "on the 667 questions of the race (not the 333 kept apart)," in decision


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((10.0, 40.0), "--max-p95-ms 50 is met: the 95th percentile of links is 10.0 to 40.0 ms (a risk of"),
        ((10.0, 60.0), "--max-p95-ms 50 may be met or not: the 95th percentile of links is 10.0 to 60.0 ms"),
        ((10.0, None), "--max-p95-ms 50 may be met or not by links: an upper bound of the"),
    ],
)
def test_whether_answers_are_fast_enough_is_said_with_bounds(bounds: tuple[float, float | None], message: str) -> None:
    advice = recommendation([replace(LINKS, costs=Costs(p95_bounds=bounds))], "links")
    assert message in shown(advice, RecommendRules(max_p95_ms=50))


def test_confirmations_say_what_they_are() -> None:
    advice = recommendation([DROPPED, LINKS], "links", rival="bm25", kept=90)
    for verdict, difference, sentence in (
        ("confirmed", (0.01, 0.05), "Confirmed on 90 questions kept apart: links is not more than 2.0 points"),
        ("contradicted", (-0.2, -0.04), "Contradicted on 90 questions kept apart: links is more than 2.0 points"),
        ("open", (-0.05, 0.05), "Open on 90 questions kept apart: links may be more than 2.0 points worse than bm25."),
    ):
        confirmed = Confirmation(verdict, 90, 0.7, 0.6, difference, 0.975, 0)
        assert sentence in shown(replace(advice, confirmation=confirmed), RecommendRules())
        sealed = HoldoutResult("sealed.csv", 90, "R@5", "links", "bm25", 0.7, 0.6, difference, "today")
        on_holdout = shown(replace(advice, holdout=sealed), RecommendRules())
        assert sentence.replace("90 questions kept apart", "the holdout") in on_holdout
        reused = replace(sealed, earlier=("yesterday",))
        assert "on the holdout" not in shown(replace(advice, holdout=reused), RecommendRules())
    again = replace(advice, confirmation=Confirmation("open", 90, 0.7, 0.6, (-0.05, 0.05), 1 - 0.05 / 6, 1))
    sentence = (
        "difference −5.0 to +5.0 (99.2 %). 1 earlier confirmation used some of these questions, so the interval is"
    )
    assert sentence in shown(again, RecommendRules())
    undecided = replace(advice, decided=False, more_questions={"bm25": 9})
    sentence = "90 questions stay kept apart, to confirm a choice once one is made."
    assert sentence in shown(undecided, RecommendRules())


def shown(advice: Recommendation, rules: RecommendRules) -> str:
    console = Console(width=300)
    with console.capture() as captured:
        console.print(render_recommendation(advice, rules))
    return captured.get()


def test_prices_sort_by_questions_then_index() -> None:
    free, slow = candidate("free", index_seconds=9.0), candidate("slow", index_seconds=10.0)
    paid = candidate("paid", index_seconds=1.0, dollars_per_1000=2.0)
    unknown = candidate("unknown", index_seconds=1.0, index_dollars=None)
    assert [method.label for method in sort_by_price([paid, unknown, slow, free])] == [
        "free",
        "slow",
        "unknown",
        "paid",
    ]


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
