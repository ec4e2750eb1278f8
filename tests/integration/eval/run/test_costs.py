"""What asking a language model costs, from the server's count to the comparison, its tests and its report."""

from collections.abc import Iterator
from pathlib import Path

import openai_server
import pytest
from asking import AskingScheme, compared, priced_server
from openai_server import OpenAIServer
from snapshots import printed

from ragindex.errors import BudgetError, UsageError
from ragindex.index.index import Index
from ragindex_eval.report import page as report
from ragindex_eval.report.terminal import render_comparison
from ragindex_eval.results.files import load_results, save_results
from ragindex_eval.results.model import Study


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenAIServer]:
    with priced_server(monkeypatch, tmp_path) as running:
        yield running


def test_tokens_money_and_calls_of_indexing_and_asking(server: OpenAIServer, tmp_path: Path) -> None:
    comparison = compared(tmp_path)
    free, asking = comparison.methods
    assert comparison.llm == "openai:small"
    assert (free.index_usage.input_tokens, free.calls, free.query_usage.money) == (0, 0.0, 0.0)
    sent = [sum(len(message["content"].split()) for message in request.body["messages"]) for request in server.requests]
    assert asking.calls == 1.0
    assert asking.index_usage.input_tokens + 2 * asking.query_usage.input_tokens == pytest.approx(sum(sent[:5]))
    assert asking.index_usage.money > 0
    assert asking.spent.money == pytest.approx(asking.index_usage.money + 2 * asking.query_usage.money)
    assert len(server.requests) == 5  # three passages, two questions; timing replayed the questions
    assert "echoed" in " ".join(comparison.notes)
    pair = comparison.pair(asking.label, "bm25", "input_tokens")
    assert (pair.value, pair.questions) == (asking.query_usage.input_tokens, 2)
    assert set(asking.ci95) >= {"input_tokens", "output_tokens", "money"}
    assert asking.stages == {"echo": {"strict": 5 + 5 + 4}}  # five warm up, and two are timed twice
    value = comparison.to_json()["methods"][1]["usage"]
    assert value["query"]["calls"] == 1.0
    assert value["index"]["input_tokens"] == asking.index_usage.input_tokens
    for path in (tmp_path / "w").rglob("answers-*.jsonl"):
        path.unlink()  # the questions are asked again, and the model's answers come from the cache
    second = compared(tmp_path).methods[1]
    assert len(server.requests) == 5
    assert second.index_usage == asking.index_usage
    assert second.query_usage.money == asking.query_usage.money
    assert (second.spent.money, second.spent.input_tokens) == (0.0, 0)


def test_a_budget_stops_before_it_is_spent_and_the_rest_goes_on(server: OpenAIServer, tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match=r"The budget of \$0\.4000 is exhausted"):
        compared(tmp_path, budget=0.4)
    before = len(server.requests)
    assert before < 5
    assert compared(tmp_path, budget=100.0).methods[1].calls == 1.0
    assert len(server.requests) == 5
    with pytest.raises(UsageError, match="A budget must be more than 0"):
        compared(tmp_path, budget=0.0)


def test_a_passage_that_failed_is_counted_and_made_the_next_time(server: OpenAIServer, tmp_path: Path) -> None:
    server.refuses = set()
    server.choose = lambda request, seen: (
        openai_server.status(400, "moderated") if "Sarn" in str(request.body) else None
    )
    comparison = compared(tmp_path)
    assert any("1 record could not be made and is tried again the next time" in note for note in comparison.notes)
    with Index.open(tmp_path / "w", llm="openai:small", create=True) as workspace:
        assert list(next(iter(workspace.failures(AskingScheme()).values()))) == ["sarn"]
    server.choose = lambda request, seen: None
    again = compared(tmp_path)
    assert not any("could not be made" in note for note in again.notes)
    assert again.methods[1].fingerprint != comparison.methods[1].fingerprint


def test_estimated_tokens_and_dollars_are_marked(server: OpenAIServer, tmp_path: Path) -> None:
    """Also those of a part that was built, and of answers that were paid for, by an earlier run."""
    server.choose = lambda request, seen: openai_server.usage(None)
    for _ in range(2):
        comparison = compared(tmp_path)
        asking = comparison.methods[1]
        usage = asking.to_json()["usage"]
        assert (usage["index"]["estimated"], usage["query"]["estimated"]) == (True, True)
        shown = printed(render_comparison(comparison), 200)
        cells = next(line for line in shown.splitlines() if line.startswith(asking.label)).split()
        index, query = asking.index_usage, asking.query_usage
        tokens, dollars = index.input_tokens + index.output_tokens, (f"{index.money:.4f}", f"{query.money:.5f}")
        assert {f"~{figure}" for figure in (tokens, *dollars)} <= {*cells}
        save_results(Study("tiny", (comparison,)), tmp_path / "out")
        page = report.render_report(load_results(tmp_path / "out"))
        assert all(f">~{figure}<" in page for figure in dollars)
        for path in (tmp_path / "w").rglob("answers-*.jsonl"):
            path.unlink()
    assert usage["spent"] == {"input_tokens": 0, "output_tokens": 0, "money": 0.0, "estimated": False}


def test_rules_cost_nothing_and_are_called_rules(tmp_path: Path) -> None:
    comparison = compared(tmp_path, llm="offline")
    assert comparison.llm == "offline"
    method = comparison.methods[1]
    assert (method.calls, method.index_usage.input_tokens, method.query_usage.money) == (0.0, 0, 0.0)
    assert "rules (no model)" in report.render_report(Study("tiny", (comparison,)))
