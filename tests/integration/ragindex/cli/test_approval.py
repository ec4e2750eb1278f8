"""What a command prints and asks before it pays."""

import io
import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from command_line import ragindex
from till import PAID, SAID, Till, billing, open_desk

from ragindex import estimate_left
from ragindex.accounting import ledger
from ragindex.cli.approval import approve
from ragindex.cli.console import ask_consent
from ragindex.cli.documents import DataReader
from ragindex.cli.options import Approval
from ragindex.corpus import formats
from ragindex.counting import Counting, NoEstimateError
from ragindex.errors import UsageError
from ragindex.estimate import Estimate
from ragindex_eval.run import estimate_comparison

INDEX = ("index", "notes", "--index", "i", "--methods", "dense(over=topics)", *PAID)


@pytest.fixture
def till(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Till]:
    with billing() as running:
        open_desk(running, tmp_path, monkeypatch)
        monkeypatch.setenv("RAGINDEX_CONFIRM_ABOVE", "0.05")
        yield running


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Standard streams of a terminal; returns the questions that are asked, all of them answered with no."""
    questions = list[str]()
    monkeypatch.setattr(sys, "stdin", _Terminal())
    monkeypatch.setattr(sys, "stdout", _Terminal())
    monkeypatch.setattr(typer, "confirm", lambda question, **_: bool(questions.append(question)))
    return questions


def test_without_a_price_tokens_are_shown_and_nothing_is_asked(till: Till, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAGINDEX_PRICES")
    done = ragindex(*INDEX)
    assert done.code == 0, done.err
    assert "No price is known for topic, encoding, index; " in done.err
    assert "Estimate: about" not in done.err


def test_a_refit_is_estimated_with_the_summaries_that_follow_it(till: Till, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGINDEX_CONFIRM_ABOVE", "1000")
    till.server.write = lambda body: json.dumps(
        {"summary": f"Of {zlib.crc32(json.dumps(body['messages']).encode()) % 97}."}
    )
    words = ("slate", "barge", "hill", "gorge", "river", "town", "map", "bridge")
    for number in range(48):
        first, second = words[number % 8], words[number // 8]
        Path(f"notes/{number}.txt").write_text(f"The {first} of place {number} has a {second} and {number % 7} mills.")
    built = ("index", "notes", "--index", "i", "--methods", "raptor", "--llm", "openai:small")
    assert ragindex(*built).code == 0
    for number in range(48, 60):
        Path(f"notes/{number}.txt").write_text(f"A lighthouse, place {number}, has a keeper and {number % 5} lamps.")
    assert ragindex(*built).code == 0
    refit = ("index", "--index", "i", "--refit")
    shown = ragindex(*refit, "--dry-run", "--json", "-")
    assert shown.code == 0, shown.err
    estimated = {task["task"]: task["calls"] for task in shown.json["estimate"]["tasks"]}
    till.server.requests.clear()
    assert ragindex(*refit).code == 0
    request_count = len(till.server.requests)
    assert request_count > 0
    assert 0.5 * request_count <= estimated["summary"] <= 1.5 * request_count
    again = ragindex("index", "--index", "i", "--dry-run", "--json", "-")
    assert again.json["estimate"]["tasks"] == []


@pytest.mark.parametrize("command", ["search", "ask"])
def test_a_question_stops_at_what_nobody_agreed_to(till: Till, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """Rounds of agents are not known before: what is paid is counted, and a retry begins with what was paid for."""
    till.server.write = lambda body: json.dumps({**SAID, "thought": "It has to be found who is meant."})
    ircot = (command, "Which hill is highest?", "--index", "i", "--method", "ircot", "--llm", "openai:small")
    assert ragindex("index", "notes", "--index", "i", "--methods", "ircot").code == 0
    bound = 0.001 * 40 + 0.003 * 500  # about what one thought may cost
    monkeypatch.setenv("RAGINDEX_CONFIRM_ABOVE", str(bound))
    stopped = ragindex(*ircot)
    assert stopped.code == 9
    assert f"error: This question may cost more than ${bound:g} (RAGINDEX_CONFIRM_ABOVE): $" in stopped.err
    assert "To go on, add --yes, or --budget DOLLARS." in stopped.err
    assert till.money <= bound
    first = len(till.server.requests)
    for answer in (("--yes",), ("--budget", "100")):
        assert ragindex(*ircot, *answer).code == 0
    bodies = [json.dumps(received.body) for received in till.server.requests]
    assert len(bodies) == len(set(bodies)) > first


COOLER = ("--llm", "openai(model=small, temperature=0.2)")


def test_answers_of_other_settings_are_announced(till: Till) -> None:
    assert ragindex(*INDEX, "--yes").code == 0
    cost = sum(0.001 * (read + 3 * written) for path, read, written in till.receipts if "chat" in path)
    till.server.requests.clear()
    message = (
        "4 answers of this index were paid for under other settings: temperature 0 → 0.2. They are asked for again: "
    )
    message += f"about ${cost:.4f}. --reuse-answers keeps them."
    refused = ragindex(*INDEX, *COOLER)
    assert (refused.code, till.server.requests) == (2, [])
    assert message in refused.err
    shown = ragindex(*INDEX, *COOLER, "--dry-run", "--json", "-")
    (task,) = (task for task in shown.json["estimate"]["tasks"] if task["task"] == "topic")
    assert task["calls"] == 4
    assert task["repaid"] == [{"change": "temperature 0 → 0.2", "answers": 4, "money": pytest.approx(cost)}]
    assert task["money_low"] <= cost <= task["money_high"]
    assert message in ragindex(*INDEX, *COOLER, "--dry-run").out


def test_add_and_remove_ask_too(till: Till, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ragindex(*INDEX, "--yes").code == 0
    Path("more").mkdir()
    Path("more/new.txt").write_text("Ulla Brandt drew the first map of the hills.")
    add = ("add", "more", "--as", "more", "--index", "i")
    monkeypatch.setenv("RAGINDEX_CONFIRM_ABOVE", "0.001")
    till.server.requests.clear()
    refused = ragindex(*add)
    assert (refused.code, till.server.requests) == (2, [])
    dry = ragindex(*add, "--dry-run", "--json", "-")
    assert {task["task"]: task["calls"] for task in dry.json["estimate"]["tasks"]} == {
        "topic": 1,
        "encoding, index": 1,
    }
    assert ragindex(*add, "--yes").code == 0
    assert ragindex("remove", "more/new.txt", "--index", "i").code == 0  # costs nothing


DATA = ("notes", "--questions", "questions.csv")
HILL, RIVER = "Grey Anna is the highest hill of the north, and has three cairns.", "The Sarn carries barges with slate."
ABOUT_COSTS = {
    "index": INDEX[1:],
    "compare": (*DATA, "--methods", "dense(over=topics),ircot", "--read", "--index", "i", *PAID),
    "gate": ("ircot", "--against", "dense", "--data", *DATA, "--index", "i", *PAID),
    "recommend": (*DATA, "--methods", "dense,dense(over=topics)", "--index", "i", *PAID),
    "judge": (*DATA[:1], DATA[2], "--methods", "bm25,dense", "--index", "i", "--llm", "openai:small"),
}


@pytest.mark.parametrize("command", ["index", "compare"])
def test_a_dry_run_counts_what_estimate_counts(till: Till, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """Both count everything. Before work a part of a large corpus is counted, which the command says."""
    for module in (estimate_left, estimate_comparison):
        monkeypatch.setattr(module, "MOST_CHARACTERS", 100)
    monkeypatch.setattr(estimate_comparison, "SAMPLED_QUESTIONS", 1)
    arguments = ABOUT_COSTS[command]
    same = [each for each in arguments if each not in ("--index", "i")]
    estimated = ragindex("estimate", *same, "--json", "-").json["tasks"]
    dry = ragindex(command, *arguments, "--dry-run", "--json", "-").json["estimate"]["tasks"]
    assert dry == estimated
    assert {task["share"] for task in dry} == {1.0}
    part = ragindex(command, *arguments)
    assert part.code == 2
    assert "% of the documents or questions, and scaled; --dry-run counts all." in part.err
    assert "scaled" not in ragindex(command, *arguments, "--dry-run").out


@pytest.mark.parametrize("command", ABOUT_COSTS)
def test_a_missing_key_is_reported_before_any_work(till: Till, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    dry = ragindex(command, *ABOUT_COSTS[command], "--dry-run")
    assert dry.code == 0, dry.err  # nothing is asked, so no key is needed
    monkeypatch.setattr(Counting, "open", None)  # no estimate has begun
    refused = ragindex(command, *ABOUT_COSTS[command])
    assert (refused.code, till.server.requests) == (2, [])
    assert "openai:small needs a key: set OPENAI_API_KEY" in refused.err
    assert not Path("i/workspace.json").exists()


def test_documents_are_read_after_the_key(till: Till, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setattr(DataReader, "read", None)
    assert "openai:small needs a key" in ragindex(*INDEX).err
    assert "needs a key: set EMBEDDING_API_KEY" in ragindex("index", "notes", "--index", "i", *PAID[:2]).err


def test_estimate_needs_no_key(till: Till, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    done = ragindex("estimate", *DATA, "--methods", "dense(over=topics)", "--read", *PAID)
    assert done.code == 0, done.err
    assert (
        "openai:small needs a key"
        in ragindex("estimate", "notes", "--methods", "raptor", *PAID[2:], "--sample", "2").err
    )


def test_what_is_paid_needs_no_key(till: Till, monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that asks no model needs no key, nor does an index with all answers; a new document does."""
    built = ("index", "notes", "--index", "i", "--methods", "bm25(over=triples)", *PAID[2:])
    till.server.write = lambda body: json.dumps({"entities": [], "triples": [["a", "is", "b"]]})
    assert ragindex(*built, "--yes").code == 0
    monkeypatch.delenv("OPENAI_API_KEY")
    assert ragindex("index", "notes", "--index", "free", "--methods", "bm25", *PAID).code == 0
    assert ragindex(*built).code == 0
    Path("notes/new.txt").write_text("Ulla Brandt drew the first map of the hills.")
    till.server.requests.clear()
    assert "openai:small needs a key: set OPENAI_API_KEY" in (refused := ragindex(*built, "--yes")).err
    assert (refused.code, till.server.requests) == (2, [])


def test_the_key_of_a_reranker_is_reported_before_any_work(till: Till, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RERANK", "OPENAI"):
        monkeypatch.delenv(f"{name}_API_KEY")
    refused = ragindex(
        "compare", *DATA, "--methods", "bm25,rerank(base=bm25, reranker=endpoint(model=ranker))", "--index", "i"
    )
    assert (refused.code, till.server.requests) == (2, [])
    assert "endpoint:ranker needs a key: set RERANK_API_KEY" in refused.err
    assert not Path("i/workspace.json").exists()


def test_the_limit_must_be_an_amount(till: Till, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGINDEX_CONFIRM_ABOVE", "much")
    done = ragindex(*INDEX)
    assert (done.code, till.server.requests) == (2, [])
    assert "RAGINDEX_CONFIRM_ABOVE must be an amount in dollars, 0 or more. Got 'much'." in done.err


def test_on_a_terminal_the_user_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with pytest.raises(UsageError, match=r"Nothing was done\. To go on without this question, add --yes\."):
        ask_consent("This is expensive.", "Go on?", "--yes", None)
    assert terminal == ["Go on?"]
    monkeypatch.setattr(typer, "confirm", lambda question, **_: True)
    ask_consent("This is expensive.", "Go on?", "--yes", None)


def test_with_json_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with pytest.raises(UsageError, match=r"This is expensive\. Nothing was done: .* add --yes"):
        ask_consent("This is expensive.", "Go on?", "--yes", "result.json")
    assert terminal == []
    assert UsageError.exit_code == 2


def test_what_cannot_be_estimated_is_said_and_not_asked_about(capsys: pytest.CaptureFixture[str]) -> None:
    def estimating() -> list[Estimate]:
        raise NoEstimateError("guess cannot be estimated: it has no rule to take the place of the LLM.")

    approve(estimating, Approval())
    assert capsys.readouterr().err == (
        "What this may cost is not known: guess cannot be estimated: it has no rule to take the place of the LLM.\n"
    )


@pytest.mark.parametrize("command", [*ABOUT_COSTS, "estimate"])
def test_no_document_is_read_before_a_missing_key_is_reported(
    till: Till, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setattr(formats, "read_folder", None)
    arguments = ("notes", *PAID, "--methods", "dense(over=topics)", "--sample", "2")
    refused = ragindex(command, *ABOUT_COSTS.get(command, arguments))
    assert refused.code == 2, refused.err
    assert "openai:small needs a key: set OPENAI_API_KEY" in refused.err


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        ((), 3),
        (("--chunking", "passages(size=5)"), 7),
        (("--skip-stubs",), 2),
    ],
)
def test_both_estimates_read_and_split_alike(till: Till, options: tuple[str, ...], calls: int) -> None:
    del till
    Path("pages").mkdir()
    for name, text in {"hill": HILL, "river": RIVER, "moved": "This page has moved to [a](a.md)."}.items():
        Path("pages", f"{name}.md").write_text(f"# {name}\n\n{text}\n")
    methods = ("--methods", "bm25(over=triples)", *PAID, "--json", "-", *options)
    (estimated,) = ragindex("estimate", "pages", *methods).json["tasks"]
    dry = ragindex("index", "pages", "--index", "i", *methods, "--dry-run").json["estimate"]["tasks"]
    assert dry == [estimated]
    assert estimated["calls"] == calls
    assert ragindex("index", "pages", "--index", "i", "--methods", "bm25").code == 0
    again = ragindex("index", "pages", "--index", "i", *methods, "--allow-removals", "--dry-run").json["estimate"][
        "tasks"
    ]
    assert [task["calls"] for task in again] == [calls]


def test_what_is_paid_corrects_the_estimate_while_the_command_runs(till: Till, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers are many times as long as estimated, and the total that is shown follows them."""
    monkeypatch.setattr(till.server, "count", lambda text: 400)
    totals = list[float | None]()
    record = ledger.Tally._add

    def note(tally: ledger.Tally, entry: ledger.CallRecord) -> None:
        record(tally, entry)
        totals.append(tally.project())

    monkeypatch.setattr(ledger.Tally, "_add", note)
    done = ragindex(*INDEX, "--yes", "--json", "-")
    assert done.code == 0, done.err
    shown = [total for total in totals if total is not None]
    assert shown == sorted(shown)
    assert 0 < shown[0] < shown[-1] == pytest.approx(done.json["spent"]["money"], rel=0.01)
