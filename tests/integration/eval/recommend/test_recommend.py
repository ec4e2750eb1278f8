"""Recommendations from the command to the decision, on a made-up world."""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import failed, make_desk, ragindex

import ragindex as ragindex_api
from ragindex.plugins import registry
from ragindex_eval.recommend import recommend
from ragindex_eval.recommend.candidates import sort_by_price
from ragindex_eval.recommend.decide import Choice, choose, find_pareto, more_questions
from ragindex_eval.recommend.prices import broken_constraint, price_candidates
from ragindex_eval.recommend.rules import RecommendRules
from ragindex_eval.recommend.timing import lower_end_of_p95
from ragindex_eval.recommend.values import Candidate, Costs, State
from ragindex_eval.run.settings import CompareSettings
from ragindex_eval.stats.betting_interval import betting_interval
from ragindex_eval.stats.race import count_level_questions

WORLD = ("world:100", "--methods", "bm25,dense,links", "--limit", "80", "--index", "w", "--json", "-")


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_desk(tmp_path, monkeypatch)


def candidate(label: str, state: State = "racing", score: float = 0.5, **costs: Any) -> Candidate:
    return Candidate(label, registry.scheme("bm25"), state, "", Costs(**costs), 10, score)


def answer_lines(folder: Path) -> list[str]:
    return sorted(line for path in folder.glob("runs/*/answers-*.jsonl") for line in path.read_text().splitlines())


def test_the_command_goes_on_where_it_stopped_and_asks_nothing_twice() -> None:
    first = ragindex("recommend", *WORLD)
    assert first.code == 0, first.err
    asked = answer_lines(Path("w"))
    again = ragindex("recommend", *WORLD)
    assert answer_lines(Path("w")) == asked
    values = [
        {**one.json, "candidates": [{**c, "costs": None} for c in one.json["candidates"]]} for one in (first, again)
    ]
    for value in values:
        value.pop("steps"), value.pop("pareto")  # times differ
    assert values[0] == values[1]
    assert first.json["spent"] == len(asked)
    assert first.json["full"] == 3 * 80
    assert {one["label"] for one in first.json["candidates"]} == {"bm25", "dense", "links"}


def test_candidates_of_a_file_and_flags_that_win() -> None:
    Path("race.yaml").write_text("methods: [bm25, hybrid]\ngrid: ['hybrid:depth=50,100']\nlimit: 30\nseed: 1\n")
    done = ragindex("recommend", "world:100", "--config", "race.yaml", "--limit", "20", "--index", "w", "--json", "-")
    assert done.code == 0, done.err
    labels = sorted(one["label"] for one in done.json["candidates"])
    assert labels == ["bm25", "hybrid(depth=100)", "hybrid(depth=50)"]
    assert (done.json["questions"], done.json["dataset"]["questions"]) == (20, 20)
    Path("race.yaml").write_text("methodes: [bm25]\n")
    assert "race.yaml: " in failed(2, "recommend", "world:100", "--config", "race.yaml", "--index", "w")


def test_files_that_cannot_be_read_have_the_exit_code_of_compare(tmp_path: Path) -> None:
    (tmp_path / "notes" / "empty.md").write_text("")
    command = ("recommend", "notes", "--questions", "questions.csv", "--methods", "bm25,dense", "--index", "w")
    done = ragindex(*command)
    assert done.code == 11
    assert "1 file that cannot be read was left out" in done.err
    assert ragindex(*command, "--skip-bad").code == 0
    assert ragindex(*command, "--strict").code == 3


def test_the_choice_is_exported_with_the_lines_that_use_it() -> None:
    done = ragindex("recommend", *WORLD[:-2], "--export", "kept")
    assert done.code == 0, done.err
    assert 'in Python       ragindex.load("kept").search("…")' in done.out
    hits = ragindex("search", "Where was Vandry born?", "--retriever", "kept", "--k", "3", "--json", "-").json
    chosen = ragindex("recommend", *WORLD).json["chosen"]
    same = ragindex(
        "search", "Where was Vandry born?", "--index", "w", "--method", chosen, "--k", "3", "--json", "-"
    ).json
    assert [hit["id"] for hit in hits["hits"]] == [hit["id"] for hit in same["hits"]]
    assert len(hits["hits"]) == 3


def test_the_next_commands_name_the_questions(tmp_path: Path) -> None:
    done = ragindex("recommend", "notes", "--questions", "questions.csv", "--methods", "bm25,dense", "--index", "w")
    (line,) = [one for one in done.out.splitlines() if "all figures" in one]
    arguments = shlex.split(line.split("all figures")[1])
    assert arguments[:5] == ["ragindex", "compare", "notes", "--questions", "questions.csv"]
    assert ragindex(*arguments[1:]).code == 0


def test_the_next_commands_read_the_same_files(tmp_path: Path) -> None:
    (tmp_path / "notes" / "big.log").write_text("slate " * 1000)
    given = ("--questions", "questions.csv", "--methods", "bm25,dense", "--index", "w", "--exclude", "big *.md")
    done = ragindex("recommend", "notes", *given, "--exclude", "*.log", "--max-file-mb", "3")
    (line,) = [one for one in done.out.splitlines() if "all figures" in one]
    arguments = shlex.split(line.split("all figures")[1])
    assert arguments[5:11] == ["--exclude", "big *.md", "--exclude", "*.log", "--max-file-mb", "3"]
    assert "big.log" not in ragindex(*arguments[1:]).err


def test_compare_reuses_the_answers() -> None:
    ragindex("recommend", *WORLD)
    asked = answer_lines(Path("w"))
    done = ragindex("compare", "world:100", "--methods", "links", "--limit", "80", "--index", "w", "--json", "-")
    scores = {one["label"]: one["score"] for one in ragindex("recommend", *WORLD).json["candidates"]}
    assert answer_lines(Path("w")) == asked
    assert scores["links"] == pytest.approx(done.json["methods"][0]["metrics"]["R@5"])


def test_a_candidate_that_breaks_a_constraint_leaves_with_its_figure() -> None:
    done = ragindex("recommend", *WORLD, "--max-mb", "0.1")
    assert done.code == 0
    states = {one["label"]: (one["state"], one["reason"]) for one in done.json["candidates"]}
    assert states["bm25"] == ("accepted", "no other meets the constraints")
    assert states["dense"][0] == states["links"][0] == "constraint"
    assert states["dense"][1].startswith("--max-mb 0.1: ")
    assert states["links"][1] == f"{states['dense'][1]} of the parts of dense alone"
    assert f"links is left out before it is built: {states['links'][1]}" in done.json["steps"]
    assert done.json["chosen"] == "bm25"
    assert any(said.startswith("dense may enter without --max-mb 0.1") for said in done.json["would_change"])


def test_recall_below_the_least_allowed_leaves_and_the_chosen_one_is_said_to_have_it() -> None:
    """Of exactly these questions, all is known in the end: 56.2 and 53.3 for two methods, 63.6 for links."""
    options = ("--min-recall", "0.6", "--estimand", "questions")
    done = ragindex("recommend", *WORLD, *options)
    assert done.code == 0, done.err
    states = {one["label"]: (one["state"], one["reason"]) for one in done.json["candidates"]}
    below = "--min-recall 0.6: R@5 is below it for certain"
    assert states["bm25"] == states["dense"] == ("constraint", below)
    assert states["links"][0] == "accepted"
    assert done.json["chosen"] == "links"
    low, high = done.json["recall"]
    assert low == pytest.approx(0.6364, abs=0.002)
    assert high == pytest.approx(0.6364, abs=0.002)
    said = ragindex("recommend", *WORLD[:-2], *options).out
    assert "--min-recall 0.6 is met: R@5 of links is 63.5 to 63.7 (risk 5 %)." in said
    assert "bm25 may enter without --min-recall 0.6" in said


@pytest.mark.parametrize(("least", "met"), [("0.3", "is met"), ("0.6", "may be met or not")])
def test_whether_recall_is_enough_is_said_with_its_interval(least: str, met: str) -> None:
    done = ragindex("recommend", *WORLD[:-2], "--min-recall", least)
    assert f"--min-recall {least} {met}: R@5 of links is 50.1 to 72.3 (risk 5 %)." in done.out
    assert "These bounds hold whenever one stops, so they are wider than the intervals of compare." in done.out


def test_recall_too_low_everywhere_is_an_error_with_each_figure() -> None:
    said = failed_last_line(2, "recommend", *WORLD, "--min-recall", "0.95")
    assert said.startswith("error: No candidate meets the constraints. bm25: --min-recall 0.95: R@5 is below it")
    said = failed_last_line(2, "recommend", *WORLD, "--min-recall", "0.6", "--metric", "nDCG@5")
    assert said == (
        "error: --min-recall bounds the metric that is decided by, which must be one of R@5, R@10, R@20. "
        "Got --metric nDCG@5."
    )


def test_one_candidate_is_asked_all_or_until_its_recall_is_known() -> None:
    alone = (*WORLD, "--max-mb", "0.1")
    assert ragindex("recommend", *alone).json["spent"] == 80
    said = "Use bm25: it is the only candidate that meets the constraints. R@5 56.2 on 80 questions."
    assert said in " ".join(ragindex("recommend", *alone[:-4], *alone[-2:]).out.split())
    done = ragindex("recommend", *alone, "--min-recall", "0.2")
    assert (done.json["chosen"], done.json["spent"]) == ("bm25", 30)
    assert done.json["recall"][0] >= 0.2


def test_when_none_meets_the_constraints_each_reason_is_given() -> None:
    said = failed_last_line(2, "recommend", *WORLD, "--max-p95-ms", "0.000001")
    assert said.startswith(
        "error: No candidate meets the constraints. bm25: --max-p95-ms 1e-06: the 95th percentile is above"
    )


def failed_last_line(code: int, *arguments: object) -> str:
    done = ragindex(*arguments)
    assert done.code == code
    return done.err.strip().splitlines()[-1]


def test_questions_without_gold_and_unknown_metrics_are_refused() -> None:
    said = failed_last_line(2, "recommend", "notes", "--questions", "questions.txt", "--methods", "bm25,dense")
    assert said.startswith("error: recommend needs questions with gold documents")
    assert "--metric must be one of R@5" in failed(2, "recommend", *WORLD, "--metric", "R@7")
    assert failed(2, "recommend", *WORLD, "--delta", "2").startswith("--delta: Input should be less than 1. Got 2")
    assert "two candidates at least" in failed(2, "recommend", "world:100", "--methods", "bm25")


def test_dear_methods_are_tried_on_a_growing_part_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every method counts as dear but bm25; what is not built over the whole corpus says so, with its figure."""
    price = recommend._price

    def price_alike(*given: Any) -> list[Candidate]:
        """What building takes, whatever this machine does besides."""
        return [
            replace(one, costs=replace(one.costs, index_seconds=0.0 if one.label == "bm25" else 100.0))
            for one in price(*given)
        ]

    monkeypatch.setattr(recommend, "_price", price_alike)
    done = ragindex(
        "recommend", "world:500", "--methods", "bm25,raptor", "--limit", "60", "--index", "w", "--json", "-"
    )
    assert done.code == 0, done.err
    said = [step for step in done.json["steps"] if step.startswith("trial on ")]
    assert said[0].endswith("of 500 documents")
    sizes = [int(step.split()[2]) for step in said]
    assert sizes == sorted(sizes)
    assert sizes[0] < 500
    state = {one["label"]: one for one in done.json["candidates"]}["raptor"]
    built = any(step.startswith("raptor is built") for step in done.json["steps"])
    assert built == (state["state"] != "sub-corpus")
    assert ragindex("search", "Where?", "--index", "w", "--method", "bm25", "--json", "-").code == 0


def test_what_the_questions_can_show_and_what_building_takes_are_said_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommend, "_LONG_SECONDS", 0.01)
    given = ("world:400", "--methods", "bm25,hybrid", "--limit", "60", "--index", "w", "--json", "-")
    steps = ragindex("recommend", *given).json["steps"]
    assert steps[0] == (
        "60 questions show large differences only: to show that a method is as good as an equal one, within 2.0 "
        "points, takes 170 at least"
    )
    expected = (
        r"2 candidates take about \d+ s to build, hybrid with \d+ s longest, less what the index has already\. Name "
        r"fewer with --methods, or set --max-index-minutes"
    )
    assert re.fullmatch(expected, steps[1])
    enough = ragindex("recommend", *given, "--delta", "0.1").json["steps"]
    exactly_these = ragindex("recommend", *given, "--estimand", "questions").json["steps"]
    assert not any("large differences only" in step for step in (*enough, *exactly_these))


def test_as_many_level_questions_as_are_said_are_needed() -> None:
    for delta in (0.02, 0.05, 0.1):
        needed = count_level_questions(delta, 0.05)
        lows = [betting_interval(np.zeros(number), 2 * 0.05)[0] for number in (needed - 1, needed)]
        assert round(lows[0], 6) <= round(-delta - 0.001, 6)  # the interval is rounded outwards to 0.001
        assert round(lows[1], 6) >= -delta


def test_parts_that_candidates_share_count_once_among_the_seconds_of_all() -> None:
    corpus = ragindex_api.read("world:400")
    candidates = [candidate("bm25"), replace(candidate("dense"), scheme=registry.scheme("dense"))]
    candidates += [replace(candidate("hybrid"), scheme=registry.scheme("hybrid"))]
    priced, seconds = price_candidates(candidates, corpus, CompareSettings())
    bm25, dense, hybrid = (one.costs.index_seconds or 0.0 for one in priced)
    assert seconds == pytest.approx(hybrid)
    assert 0 < bm25 < hybrid
    assert 0 < dense <= hybrid


def test_the_choice_follows_price_and_acceptance() -> None:
    cheap, good, best = candidate("a", score=0.60), candidate("b", "accepted", 0.62), candidate("c", "accepted", 0.63)
    assert choose([cheap, good, best]) == Choice(1, True, 2, (0,))
    assert choose([cheap, candidate("b"), candidate("c", score=0.7)]) == Choice(2, False, 0, (0, 1))
    assert choose([candidate("a", "dropped"), good]) == Choice(1, True, 0, ())
    assert choose([good]) == Choice(0, True, None, ())


def test_an_undecided_race_says_how_many_questions_would_tell_what() -> None:
    said = ragindex("recommend", "world:100", "--methods", "bm25,links", "--limit", "15", "--index", "w").out
    pattern = r"Undecided between bm25 and links \(the cheapest first\) on .*, with a margin of 2\.0 points: "
    assert re.search(
        pattern + r"add about [\d,]*00 questions to tell whether 2\.0 points lie between them\. Best",
        " ".join(said.split()),
    )


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
