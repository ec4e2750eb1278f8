"""What asking a language model costs, from the server's count to the comparison, its tests and its report."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import openai_server
import pytest
from comparing import compare
from made_language import ECHO
from openai_server import OpenAIServer

from ragindex.corpus import Corpus
from ragindex.errors import BudgetError, UsageError
from ragindex.interfaces import BuildContext, Change, Part, ReadContext, Retriever, Scheme, Uses
from ragindex.llm import endpoint_features
from ragindex.llm.tasks import Failure, Task
from ragindex.parts.text.passages import Passages
from ragindex.types import Document, Query, Retrieval
from ragindex.workspace.workspace import Workspace
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.data.gold import Gold
from ragindex_eval.mlflow_tracking import track
from ragindex_eval.report import page as report
from ragindex_eval.results.load import load_results
from ragindex_eval.results.model import Comparison, Study
from ragindex_eval.results.save import save_results

PLANTED = "sk-planted/0123456789+abcdef"
TEXTS = {"anna": "Grey Anna is a hill.", "sarn": "The Sarn is a river.", "quill": "Nether Quill is a town."}
QUERIES = (Query("q1", "Which hill?"), Query("q2", "Which river?"))
GOLD = {"q1": Gold(frozenset({"anna"})), "q2": Gold(frozenset({"sarn"}))}


class Echoed(Part[None]):
    """A part that asks the model once for each passage, and keeps nothing."""

    version: ClassVar[int] = 1
    uses: ClassVar[Uses] = frozenset({"model", "prompts"})

    def inputs(self) -> tuple[Part[Any], ...]:
        return (Passages(),)

    def tasks(self) -> tuple[Task[Any], ...]:
        return (ECHO,)

    def apply(self, change: Change, context: BuildContext) -> None:
        ids = list(change.upsert)
        texts = context.passages(ids).column("text").to_pylist()
        for id, output in zip(ids, context.llm.map(ECHO, [{"text": text} for text in texts], again=True), strict=True):
            if isinstance(output, Failure):
                context.failed(id, output.reason)

    def finish(self, context: BuildContext) -> None:
        context.note("echoed")

    def open(self, context: ReadContext) -> None:
        return None


class AskingScheme(Scheme):
    """BM25 that asks the model about every question first."""

    version: ClassVar[int] = 1

    def parts(self) -> tuple[Part[Any], ...]:
        return (Echoed(), Passages())

    def tasks(self) -> tuple[Task[Any], ...]:
        return (ECHO,)

    def open(self, workspace: Workspace) -> "AskingRetriever":
        from ragindex_baselines.bm25 import BM25

        return AskingRetriever(BM25().open(workspace), workspace)


@dataclass(frozen=True)
class AskingRetriever:
    base: Retriever
    workspace: Workspace

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        for query in queries:
            self.workspace.llm.run(ECHO, {"text": query.text})
        return self.base.retrieve(queries, k)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenAIServer]:
    prices = tmp_path / "prices.yaml"
    prices.write_text("models:\n  small: {input: 1000.0, output: 3000.0}\n")
    monkeypatch.setattr(endpoint_features, "_memories", {})
    monkeypatch.setenv("OPENAI_API_KEY", PLANTED)
    monkeypatch.setenv("RAGINDEX_PRICES", str(prices))
    with OpenAIServer(key=PLANTED) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        yield running


def compared(folder: Path, **options: Any) -> Comparison:
    documents = tuple(Document(id, id.title(), text) for id, text in TEXTS.items())
    data = Dataset("tiny", Corpus("tiny", "jsonl", documents, 0, (), True), QUERIES, GOLD, "0123456789abcdef")
    methods = ["bm25", AskingScheme()]
    given = {"llm": "openai:small", "k": (1, 2), "index": folder / "w", **options}
    return compare(data, methods, **given)


def test_tokens_money_and_calls_of_indexing_and_asking(server: OpenAIServer, tmp_path: Path) -> None:
    comparison = compared(tmp_path)
    free, asking = comparison.methods
    assert comparison.llm == "openai:small"
    assert (free.index_usage.input_tokens, free.calls, free.query_usage.money) == (0, 0.0, 0.0)
    sent = [sum(len(message["content"].split()) for message in one.body["messages"]) for one in server.requests]
    assert asking.calls == 1.0
    assert asking.index_usage.input_tokens + 2 * asking.query_usage.input_tokens == pytest.approx(sum(sent[:5]))
    assert asking.index_usage.money > 0
    assert asking.spent.money == pytest.approx(asking.index_usage.money + 2 * asking.query_usage.money)
    assert len(server.requests) == 5  # three passages, two questions; timing replayed the questions
    assert "echoed" in " ".join(comparison.notes)
    pair = comparison.pair(asking.label, "bm25", "input_tokens")
    assert (pair.value, pair.questions) == (asking.query_usage.input_tokens, 2)
    assert set(asking.ci95) >= {"input_tokens", "output_tokens", "money"}
    assert asking.stages == {"echo": {"strict": 5 + 5 + 20}}  # five warm up, and two are timed ten times
    value = comparison.to_json()["methods"][1]["usage"]
    assert value["query"]["calls"] == 1.0
    assert value["index"]["input_tokens"] == asking.index_usage.input_tokens


def test_a_second_run_costs_nothing_and_says_what_it_would_have_cost(server: OpenAIServer, tmp_path: Path) -> None:
    first = compared(tmp_path).methods[1]
    for path in (tmp_path / "w").rglob("answers-*.jsonl"):
        path.unlink()  # the questions are asked again, and the model's answers come from the cache
    second = compared(tmp_path).methods[1]
    assert len(server.requests) == 5
    assert second.index_usage == first.index_usage
    assert second.query_usage.money == first.query_usage.money
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
    with Workspace.open(tmp_path / "w", llm="openai:small") as workspace:
        assert list(next(iter(workspace.failures(AskingScheme()).values()))) == ["sarn"]
    server.choose = lambda request, seen: None
    again = compared(tmp_path)
    assert not any("could not be made" in note for note in again.notes)
    assert again.methods[1].fingerprint != comparison.methods[1].fingerprint


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # mlflow's dependencies deprecate one another
def test_the_key_is_in_no_file_and_costs_are_in_the_report(
    server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/runs.db")
    comparison = compared(tmp_path)
    study = Study("tiny", (comparison,), "ragindex compare tiny")
    track(study)
    assert (tmp_path / "runs.db").is_file()
    save_results(study, tmp_path / "out")
    page = report.render_report(study)
    assert "tokens a question" in page
    assert "$ a question" in page
    assert "R@1 against money" in page
    back = load_results(tmp_path / "out").comparisons[0].methods[1]
    assert (back.index_usage, back.calls) == (comparison.methods[1].index_usage, 1.0)
    assert back.query_usage.money == comparison.methods[1].query_usage.money
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert not [path for path in files if PLANTED.encode() in path.read_bytes()]
    assert json.loads((tmp_path / "out" / "comparison.json").read_text())["llm"] == "openai:small"


def test_money_that_is_not_known_is_not_zero(
    server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAGINDEX_PRICES")
    comparison = compared(tmp_path)
    assert comparison.notes[0].startswith("no price of openai:small is known, so the cost of ")
    free, asking = comparison.to_json()["methods"]
    assert (free["usage"]["index"]["money"], asking["usage"]["index"]["money"]) == (0.0, None)
    assert asking["usage"]["query"]["input_tokens"] > 0
    assert not [pair for pair in comparison.pairs if pair.metric == "money"]
    save_results(Study("tiny", (comparison,)), tmp_path / "out")
    assert load_results(tmp_path / "out").comparisons[0].methods[1].index_usage.money is None


def test_rules_cost_nothing_and_are_called_rules(tmp_path: Path) -> None:
    comparison = compared(tmp_path, llm="offline")
    assert comparison.llm == "offline"
    method = comparison.methods[1]
    assert (method.calls, method.index_usage.input_tokens, method.query_usage.money) == (0.0, 0, 0.0)
    assert "rules (no model)" in report.render_report(Study("tiny", (comparison,)))
