"""What the commands of the evaluation print and ask before they pay."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Done, ragindex
from till import PAID, SAID, Till, billing, open_desk

COMPARE = ("compare", "notes", "--questions", "questions.csv", "--methods", "ircot,dense(over=topics)", *PAID)
COMMANDS = {
    "compare": (*COMPARE, "--index", "i", "--out", "o"),
    "recommend": ("recommend", *COMPARE[1:], "--index", "i"),
    "gate": ("gate", "ircot", "--against", "bm25", "--data", "notes", "--questions", "questions.csv", *PAID),
    "judge": ("judge", "notes", "questions.txt", "--out", "judged", "--methods", "bm25,dense", "--index", "i", *PAID),
}


@pytest.fixture
def till(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Till]:
    with billing() as running:
        open_desk(running, tmp_path, monkeypatch)
        running.server.write = lambda body: json.dumps({**SAID, "thought": "So the answer is: Grey Anna."})
        monkeypatch.setenv("RAGINDEX_CONFIRM_ABOVE", "0.01")
        yield running


def list_tasks(done: Done) -> dict[str, int]:
    return {task["task"]: task["calls"] for task in done.json["estimate"]["tasks"]}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_pays_asks_first(till: Till, name: str) -> None:
    done = ragindex(*COMMANDS[name])
    assert (done.code, done.out, till.server.requests) == (2, "", []), done
    assert "(RAGINDEX_CONFIRM_ABOVE). Nothing was done" in done.err
    assert "add --yes, or --budget DOLLARS." in done.err
    assert "Estimate: about $" in done.err
    assert not Path("i").exists()


def test_tune_asks_first(till: Till) -> None:
    questions = [f"Which hill is highest {number}?,Grey Anna,hill.md" for number in range(30)]
    Path("many.csv").write_text("\n".join(["question,answer,documents", *questions]))
    done = ragindex("tune", "notes", "--questions", "many.csv", "--index", "i", *PAID)
    assert (done.code, till.server.requests, Path("i").exists()) == (2, [], False)
    assert "encoding, index" in done.err


@pytest.mark.parametrize("name", COMMANDS)
def test_a_dry_run_ends_after_the_estimate(till: Till, name: str) -> None:
    done = ragindex(*COMMANDS[name], "--dry-run", "--json", "-")
    assert (done.code, till.server.requests, Path("i").exists(), Path("judged").exists()) == (0, [], False, False), done
    tasks = list_tasks(done)
    if name == "judge":
        assert tasks["judge"] >= 2  # a document at least for each of two questions
        assert "encoding, questions" in tasks
        return
    assert {"encoding, questions", "thought, ircot"} <= tasks.keys() or name == "gate"
    assert tasks["thought, ircot"] >= 2


def test_a_budget_answers_and_what_a_comparison_has_paid_for_is_not_estimated_again(till: Till) -> None:
    done = ragindex(*COMMANDS["compare"], "--budget", "100")
    assert done.code == 0, done.err
    assert "Estimate: about $" in done.err
    till.server.requests.clear()
    again = ragindex(*COMMANDS["compare"], "--dry-run", "--json", "-")
    assert (again.code, till.server.requests) == (0, [])
    assert list_tasks(again) == {}  # its results are shown as they are
    fresh = ragindex(*COMMANDS["compare"], "--fresh", "--dry-run", "--json", "-")
    assert list_tasks(fresh) == {"encoding, questions": 2}  # vectors of questions are not kept


def test_answers_of_other_settings_are_announced_and_kept_on_demand(till: Till) -> None:
    assert ragindex(*COMMANDS["compare"], "--yes").code == 0
    till.server.requests.clear()
    cooler = (*COMMANDS["compare"], "--llm", "openai(model=small, temperature=0.2)")
    refused = ragindex(*cooler)
    assert (refused.code, till.server.requests) == (2, [])
    assert "answers of this index were paid for under other settings: temperature 0 → 0.2. They are" in refused.err
    repaid = {
        task["task"]: sum(each["answers"] for each in task["repaid"])
        for task in ragindex(*cooler, "--dry-run", "--json", "-").json["estimate"]["tasks"]
    }
    assert (repaid["topic"], repaid["thought, ircot"]) == (4, 2)
    reused = ragindex(*cooler, "--reuse-answers")
    assert reused.code == 0, reused.err
    assert [each.path for each in till.server.requests if "chat" in each.path] == []


def test_a_sample_asks_first(till: Till) -> None:
    sampling = ("estimate", "notes", "--methods", "dense(over=topics)", "--llm", "openai:small", "--sample", "3")
    refused = ragindex(*sampling, "--json", "-")
    assert (refused.code, till.server.requests) == (2, [])
    assert "add --yes, or --budget DOLLARS." in refused.err
    done = ragindex(*sampling, "--json", "-", "--yes")
    assert done.code == 0, done.err
    assert len(till.server.requests) == 3
    assert done.json["spent"]["money"] == pytest.approx(till.money)
