"""A limit over all runs of a day, by the log that each of them writes; and the command that sums it up."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import TEXTS, failed
from command_line import ragindex as command
from till import PAID, RERANKED, Till, billing, open_desk

import ragindex
from ragindex.accounting import spending_log
from ragindex.errors import DailyBudgetError, UsageError
from ragindex.integrations.shared import open_built_method
from ragindex.llm.budget import CombinedBudget, parse_budget

DAY = "RAGINDEX_DAILY_BUDGET"
INDEX = ("index", "notes", "--methods", "dense", "--encoder", "openai(model=vectors, dimensions=48, batch_size=1)")


@pytest.fixture
def till() -> Iterator[Till]:
    with billing() as running:
        yield running


@pytest.fixture
def desk(till: Till, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGINDEX_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(spending_log, "_command", "python")
    return open_desk(till, tmp_path, monkeypatch)


def test_runs_of_a_day_stop_together(till: Till, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command(*INDEX, "--index", "first").code == 0
    first, sent = till.money, len(till.receipts)
    monkeypatch.setenv(DAY, str(1.5 * first))
    stopped = command(*INDEX, "--index", "second")
    output = stopped.err.splitlines()[-1]
    assert (stopped.code, stopped.out) == (9, "")
    assert output.startswith(f"error: The limit of a day for all runs, {DAY}, is reached: $0.")
    assert f"of ${1.5 * first:.4f} spent today" in output
    assert "ragindex spending" in output
    assert first < till.money <= 1.5 * first
    assert sent < len(till.receipts) < 2 * sent
    monkeypatch.setenv(DAY, str(10 * first))
    assert command(*INDEX, "--index", "second").code == 0
    assert till.money == pytest.approx(2 * first)
    assert len(till.receipts) == 2 * len(TEXTS) == 2 * sent


def test_budget_of_run_holds_within_that_of_the_day(till: Till, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DAY, "1000")
    message = failed(9, *INDEX, "--index", "w", "--budget", "0.0005")
    assert message.startswith("The budget of $0.0005 is exhausted")
    monkeypatch.setenv(DAY, "0.0005")
    assert DAY in failed(9, *INDEX, "--index", "w", "--budget", "1000")
    assert till.receipts == []


@pytest.mark.parametrize("kind", ["reader", "application", "rerank", "judge"])
def test_whatever_pays_takes_part(kind: str, till: Till, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command("index", "notes", "--index", "w", *PAID, "--methods", f"dense,bm25,{RERANKED}").code == 0
    paid = till.money
    monkeypatch.setenv(DAY, str(paid + 0.0001))
    if kind == "application":
        with pytest.raises(DailyBudgetError):
            open_built_method(desk / "w", "dense").search("Which hill?")
    elif kind == "rerank":
        method = "rerank(base=bm25, reranker=endpoint(model=ranker))"
        assert DAY in failed(9, "search", "Which hill?", "--index", "w", "--method", method)
    elif kind == "judge":
        done = command("judge", "w", "questions.csv", "--methods", "bm25", "--llm", "openai:small", "--out", "judged")
        assert (done.code, DAY in done.err) == (9, True), done.err
    else:
        assert DAY in failed(9, "ask", "Which hill?", "--index", "w", "--method", "bm25")
    assert till.money == paid


def test_limits_that_cannot_hold_are_refused(desk: Path, till: Till, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no amount, or where nothing can be logged, or nothing has a price."""
    for written in ("five", "-1", "0", "inf", "nan"):
        monkeypatch.setenv(DAY, written)
        with pytest.raises(UsageError, match=f"{DAY} must be an amount of US dollars"):
            parse_budget(None)
    monkeypatch.setenv(DAY, "5")
    (desk / "state").write_text("a file")
    assert "RAGINDEX_STATE" in command(*INDEX, "--index", "w").err
    (desk / "state").unlink()
    monkeypatch.delenv("RAGINDEX_PRICES")
    assert "A budget needs the price of vectors" in failed(2, *INDEX, "--index", "w")
    assert till.receipts == []


def test_given_budget_counts_within_the_day(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = parse_budget(2.0)
    monkeypatch.setenv(DAY, "1.0")
    combined = parse_budget(own)
    assert isinstance(combined, CombinedBudget)
    assert parse_budget(combined) is combined
    with combined.reserved(0.5) as booking:
        assert (combined.left, own.left) == (0.5, 1.5)
        booking.pay(0.25)
    assert (own.spent, combined.spent, own.left) == (0.25, 0.25, 1.75)
    with combined.recorded() as booking:
        booking.pay(0.5)
    assert own.spent == 0.75
    with combined.recorded() as booking:
        booking.lose(0.25)
    assert (own.charged, combined.charged, combined.spent) == (1.0, 1.0, 0.75)


def test_command_sums_by_index_command_and_model(till: Till, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = command("spending", "--json", "-").json
    assert (empty["today"]["dollars"], empty["month"]["by_index"], empty["daily_budget"]) == (0, [], None)
    assert command("index", "notes", "--index", "w", *PAID, "--methods", RERANKED).code == 0
    built = till.money
    assert command("ask", "Which hill?", "--index", "w", "--method", RERANKED).code == 0
    with ragindex.open("w", read_only=True) as index:
        spending_log.name_command("python")
        index.retriever(RERANKED).search("What is slate?")
    monkeypatch.setenv(DAY, "1000")
    value = command("spending", "--json", "-").json
    assert value["log"] == str(desk / "state" / "spending")
    assert value["daily_budget"] == 1000
    for name in ("today", "month"):
        total = value[name]
        assert total["dollars"] == pytest.approx(till.money)
        assert total["input_tokens"] + total["output_tokens"] == till.tokens
        assert (total["calls"], total["unpriced"]) == (len(till.receipts), 0)
        for group in ("index", "command", "model"):
            assert sum(row["dollars"] for row in total[f"by_{group}"]) == pytest.approx(till.money)
        assert [row["index"] for row in total["by_index"]] == [str(desk / "w")]
        commands = {row["command"]: row["dollars"] for row in total["by_command"]}
        assert commands.keys() == {"index", "ask", "python"}
        assert commands["index"] == pytest.approx(built)
    done = command("spending")
    assert done.code == 0
    assert f"{till.money:.4f}" in done.out
    assert f"{DAY}: $1000.0000 a day, ${1000 - till.money:.4f} left today." in done.out
    assert "Example: ragindex spending --json -" in command("spending", "--help").out


def test_command_names_what_has_no_price(till: Till, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAGINDEX_PRICES")
    assert command(*INDEX, "--index", "w").code == 0
    (path,) = (desk / "state" / "spending").iterdir()
    with path.open("a") as file:
        file.write("broken\n")
    done = command("spending")
    assert f"{len(till.receipts)} calls of models without a price" in done.err
    assert "1 line of the log in" in done.err
    value = json.loads(command("spending", "--json", "-").out)
    assert (value["today"]["unpriced"], value["today"]["dollars"]) == (len(till.receipts), 0)
