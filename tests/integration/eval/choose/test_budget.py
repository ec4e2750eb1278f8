"""A race with a budget: what it did not suffice for stays unknown, and wins nothing."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ragindex
from till import PAID, SAID, Till, billing, checked, open_desk

COMMAND = ("recommend", "notes", "--questions", "questions.csv", "--index", "i", *PAID[2:], "--json", "r.json")


@pytest.fixture
def till(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Till]:
    with billing() as running:
        open_desk(running, tmp_path, monkeypatch)
        running.server.write = lambda body: json.dumps({**SAID, "thought": "So the answer is: Grey Anna."})
        yield running


def test_what_costs_more_than_the_budget_is_not_begun_until_it_is_larger(till: Till) -> None:
    done = ragindex(*COMMAND, "--methods", "bm25,dense(over=topics)", "--budget", "0.05")
    assert done.code == 9, done
    assert till.server.requests == []  # nothing is paid for an index that cannot be finished
    report = json.loads(Path("r.json").read_text())
    states = {candidate["label"]: candidate["state"] for candidate in report["candidates"]}
    assert states == {"bm25": "racing", "dense(over=topics)": "budget"}
    assert (report["chosen"], report["decided"]) == ("bm25", False)
    assert "only candidate" not in done.out
    assert (
        "Undecided: dense(over=topics) could not be built or asked within --budget, so nothing is known of it. "
        "Best of the others so far: bm25, "
    ) in " ".join(done.out.split())
    assert (
        "error: The budget did not suffice for dense(over=topics), of which nothing is known. "
        "The same command with a larger --budget goes on where this one stopped."
    ) in done.err
    reason = next(candidate["reason"] for candidate in report["candidates"] if candidate["state"] == "budget")
    assert reason.startswith("not built, as its index costs $")
    assert reason.endswith(" at least, and $0.0500 of the budget is left")
    assert report["would_change"][0].startswith("dense(over=topics) may be chosen with a larger --budget: ")
    larger = ragindex(*COMMAND, "--methods", "bm25,dense(over=topics)", "--budget", "50")
    assert larger.code == 0, larger.err
    report = json.loads(Path("r.json").read_text())
    assert "budget" not in {candidate["state"] for candidate in report["candidates"]}
    assert f" Paid ${till.money:.4f}." in " ".join(larger.out.split())
    assert report["questions_asked"] == report["spent"] == 4  # two questions of two candidates
    checked(till, report["paid"])


def test_a_budget_that_ends_while_answers_are_paid_for(till: Till) -> None:
    done = ragindex(*COMMAND, "--methods", "bm25,ircot", "--budget", "0.8")
    assert done.code == 9, done
    report = json.loads(Path("r.json").read_text())
    states = {candidate["label"]: candidate["state"] for candidate in report["candidates"]}
    assert states == {"bm25": "racing", "ircot": "budget"}
    assert (report["chosen"], report["decided"]) == ("bm25", False)
    assert "only candidate" not in done.out
    assert till.money < 0.8
    checked(till, report["paid"])


def test_nobody_is_left(till: Till) -> None:
    done = ragindex(*COMMAND, "--methods", "dense(over=topics),bm25(over=topics)", "--budget", "0.05")
    assert (done.code, till.server.requests) == (9, [])
    assert "error: No candidate could be judged within the budget. " in done.err
