"""A reader of its own: its model, its prices and tokens, and how much of what was found it is given."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import failed, make_desk, ragindex
from comparing import compare
from made_language import QUICK
from openai_server import KEY, OpenAIServer, Received

from ragindex.accounting import ledger
from ragindex.errors import UsageError
from ragindex.index.index import Index
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm import openai_chat
from ragindex.llm.answer_question import ContextLimits
from ragindex.llm.budget import Budget
from ragindex.llm.offline import OfflineRules
from ragindex.llm.prices import Price, Prices
from ragindex.plugins import registry
from ragindex_eval.export_compared import find_compared
from ragindex_eval.mlflow.values import params
from ragindex_eval.report.page import render_report
from ragindex_eval.results.files import load_results
from ragindex_eval.results.model import Study
from ragindex_eval.results.records import ReaderFacts
from ragindex_eval.run import rerun
from ragindex_eval.run.read_answers import AnswerReader
from ragindex_eval.run.settings import make_settings

OF_SMALL, OF_LARGE = 1.0, 10.0  # dollars for a million tokens, read or written
PRICES = Prices(
    {
        "small": Price(input=OF_SMALL, output=OF_SMALL),
        "large": Price(input=OF_LARGE, output=OF_LARGE),
    }
)
TRIPLES = json.dumps({"entities": ["Grey Anna"], "triples": [["Grey Anna", "is", "the highest hill"]]})
ANSWER = json.dumps({"answer": "Grey Anna", "passages": [1], "found": True})


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_desk(tmp_path, monkeypatch)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """Writes triples, thoughts and answers, each as the task asks."""
    monkeypatch.setattr(openai_chat, "_memories", {})
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        running.write = lambda body: ANSWER if is_reading(body) else TRIPLES
        yield running


def is_reading(body: Mapping[str, Any]) -> bool:
    return "You answer questions" in str(body["messages"][0]["content"]) or "Question:" in last_message(body)


def last_message(body: Mapping[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


def models(requests: list[Received]) -> list[str]:
    return sorted({str(request.body["model"]) for request in requests})


def opened(budget: float | None = None, prices: Prices = PRICES) -> Index:
    asking = LLMSettings(prices=prices, clock=QUICK, budget=None if budget is None else Budget(budget))
    return Index.open("w", llm="openai:small", llm_settings=asking, create=True)


def read(index: Index | str, *methods: str, **options: Any) -> Any:
    given = {"k": (2,), "read": True, "questions": "questions.csv", **options}
    return compare("notes", methods or ["bm25(over=triples)"], index=index, **given)


# ---------------------------------------------------------------- its model


def test_one_model_indexes_and_another_reads(server: OpenAIServer) -> None:
    with opened() as index, ledger.record_calls() as tally:
        comparison = read(index, reader_llm="openai:large", out=Path("r"))
    by_task = {entry.task: entry.model for entry in tally.entries if not entry.rule}
    assert {task: model.partition(" ")[0] for task, model in by_task.items()} == {
        "extract": by_task["extract"],
        "answer": by_task["answer"],
    }
    model_names = {"reading": set(), "indexing": set()}  # type: dict[str, set[str]]
    for request in server.requests:
        model_names["reading" if is_reading(request.body) else "indexing"].add(str(request.body["model"]))
    assert model_names == {"reading": {"large"}, "indexing": {"small"}}
    (method,) = comparison.methods
    costs = method.reading_costs
    assert costs is not None
    assert costs.money == pytest.approx(OF_LARGE * (costs.input_tokens + costs.output_tokens) / 1e6)
    assert method.index_usage.money == pytest.approx(
        OF_SMALL * (method.index_usage.input_tokens + method.index_usage.output_tokens) / 1e6
    )
    assert (comparison.llm, comparison.reader and comparison.reader.llm) == ("openai:small", "openai:large")
    assert load_results(Path("r")).comparisons[0].reader == comparison.reader
    page = render_report(Study("notes", (comparison,)))
    assert "openai:large, from at most 2,000 tokens (estimated) of what was found, prompt short" in page
    assert params(comparison)["reader/llm"] == "openai:large"


def test_answers_are_paid_once_for_each_model(server: OpenAIServer) -> None:
    def count(**options: Any) -> tuple[int, list[str]]:
        before = len(server.requests)
        with opened() as index:
            read(index, "bm25", **options)
        return len(server.requests) - before, models(server.requests[before:])

    first, by_first = count()
    assert (by_first, count()) == (["small"], (0, []))
    assert count(reader_llm="openai:large") == (first, ["large"])
    assert count(reader_llm="openai:large") == count(reader_llm="openai:small") == count() == (0, [])


def test_rules_index_and_a_model_reads(server: OpenAIServer) -> None:
    comparison = read("w", "bm25", reader_llm="openai:small")
    assert (comparison.llm, comparison.reader.llm) == ("none", "openai:small")
    assert comparison.methods[0].metrics["EM"] == 1.0
    with Index.open("w") as index:
        assert index.llm_name == "offline"  # the reader does not become the model of the index


def test_a_model_indexes_and_rules_read(server: OpenAIServer) -> None:
    with opened() as index:
        comparison = read(index, reader_llm="offline")
    assert (comparison.llm, comparison.reader.llm) == ("openai:small", "offline")
    assert not any(is_reading(request.body) for request in server.requests)


def test_a_budget_needs_the_price_of_the_reader(server: OpenAIServer) -> None:
    lacking = replace(PRICES, models={"small": PRICES.models["small"]})
    with opened(1.0, lacking) as index, pytest.raises(UsageError, match="A budget needs the price of large"):
        read(index, "bm25", reader_llm="openai:large")
    assert server.requests == []
    with opened(1.0, replace(PRICES, models={"large": PRICES.models["large"]})) as index:
        assert read(index, "bm25", reader_llm="openai:large").reader.llm == "openai:large"  # none of small is needed


def test_evidence_of_an_export_needs_the_same_reader(server: OpenAIServer) -> None:
    with opened() as index:
        comparison = read(index, "bm25", reader_llm="openai:large", reader_passages=1, reader_input="passages")
        compared = find_compared(comparison, "bm25")
        scheme = registry.scheme("bm25")
        assert compared.evidence_for(index, scheme).fingerprint == compared.result.fingerprint
        assert comparison.reader is not None
        for other in ({"llm": "openai:small"}, {"passages": 2}, {"input": "notes"}):
            changed = replace(comparison, reader=replace(comparison.reader, **other))
            with pytest.raises(UsageError, match="are not those of w as it is now"):
                find_compared(changed, "bm25").evidence_for(index, scheme)


# ---------------------------------------------------------------- what it is given


def test_a_limit_of_passages_takes_the_place_of_that_of_tokens(server: OpenAIServer) -> None:
    for number in range(6):
        Path("notes", f"long-{number}.md").write_text(f"# Hill {number}\n\n" + "A hill of the north. " * 300)
    read("w", "bm25", reader_llm="openai:small", k=(20,), reader_passages=15, questions="questions.txt")
    readings = [last_message(request.body) for request in server.requests]
    full = [text for text in readings if "[15] " in text]
    assert full
    assert not any("[16] " in text for text in readings)
    assert max(len(text.split()) for text in full) > 2_000
    shown = ragindex(
        *("compare", "notes", "--questions", "questions.txt", "--methods", "bm25", "--index", "w", "--k", 20),
        *("--read", "--reader-llm", "openai:small", "--reader-passages", 15, "--yes"),
    )
    assert "answers read by openai:small, from the first 15 hits, in full" in shown.out


def test_both_limits_may_be_given(server: OpenAIServer) -> None:
    comparison = read("w", "bm25", reader_llm="openai:small", reader_passages=1, reader_tokens=12)
    assert comparison.reader is not None
    assert (comparison.reader.tokens, comparison.reader.passages) == (12, 1)
    assert max(answer.reading.tokens for answer in comparison.methods[0].final if answer.reading) <= 12


@pytest.mark.parametrize(("given", "noted"), [("notes", True), ("passages", False)])
def test_thoughts_of_an_agent_are_given_to_the_reader_or_not(given: str, noted: bool, server: OpenAIServer) -> None:
    thought = "Hills of the north are listed somewhere."
    server.write = lambda body: ANSWER if body["model"] == "large" else json.dumps({"thought": thought})
    with opened() as index:
        read(index, "ircot", reader_llm="openai:large", reader_input=given)
    readings = [last_message(request.body) for request in server.requests if request.body["model"] == "large"]
    assert readings
    assert any(thought in text for text in readings) is noted


def test_what_a_reader_is_given_is_said_in_words() -> None:
    facts = ReaderFacts("offline", 2000, False, "short")
    described = {
        facts.describe_input("at most ", ""): "at most 2,000 tokens of what was found",
        replace(facts, tokens=None, passages=1).describe_input("", ""): "the first 1 hit, in full",
        replace(facts, passages=5, input="passages").describe_input("", " (estimated)"): (
            "2,000 tokens (estimated) of the first 5 hits, without notes"
        ),
    }
    assert list(described) == list(described.values())


# ---------------------------------------------------------------- what was saved and paid for before


def test_the_reader_of_saved_results_is_read() -> None:
    saved = ReaderFacts.from_json({"llm": "openai:small", "tokens": 2000, "estimated": True})
    assert saved == ReaderFacts("openai:small", 2000, True, "six-words", None, "notes")


def test_defaults_change_no_fingerprint() -> None:
    """The values are those of the version before there were such settings: no answer is paid for again."""
    plain = AnswerReader(OfflineRules(), ContextLimits(2000), "", "english")
    other = AnswerReader(
        *(OfflineRules(), ContextLimits(500), "small", "german", {"q": ("a", "b")}, frozenset("p"), "six-words")
    )
    assert (plain.id, other.id) == ("13d27cfa5defd36a", "2e75f6e2a5acb965")
    limits = [ContextLimits(2000, 5), ContextLimits(2000, notes=False), ContextLimits(None, 5), ContextLimits(None, 6)]
    assert len({plain.id, *(replace(plain, limits=each).id for each in limits)}) == 5
    given = {"data": "notes", "methods": "bm25", "read": True}
    digests = [rerun.settings_digest(make_settings({**given, **more})) for more in ({}, {"reader_tokens": 500})]
    assert digests == ["5a27600a827c3b3c", "80dd51deee20ea3c"]
    later = [{"reader_llm": "openai:large"}, {"reader_passages": 5}, {"reader_input": "passages"}]
    assert len({*digests, *(rerun.settings_digest(make_settings({**given, **each})) for each in later)}) == 5


# ---------------------------------------------------------------- commands


@pytest.fixture
def priced(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> OpenAIServer:
    Path("prices.yaml").write_text(
        "models:\n  small: {input: 1.0, output: 1.0}\n  large: {input: 100.0, output: 100.0}\n"
    )
    monkeypatch.setenv("RAGINDEX_PRICES", "prices.yaml")
    return server


ASKED = ("--questions", "questions.csv", "--methods", "bm25(over=triples)", "--read")


def test_the_estimate_has_the_price_of_each_model(priced: OpenAIServer) -> None:
    done = ragindex("estimate", "notes", *ASKED, "--llm", "openai:small", "--reader-llm", "openai:large", "--json", "-")
    assert done.code == 0, done.err
    prices = {
        row["task"].partition(",")[0]: row["money"] / (row["input_tokens"] + row["output_tokens"]) * 1e6
        for row in done.json["tasks"]
    }
    assert prices == pytest.approx({"extract": 1.0, "answer": 100.0})
    by_rules = ragindex("estimate", "notes", *ASKED, "--llm", "offline", "--reader-llm", "openai:large", "--json", "-")
    assert by_rules.code == 0, by_rules.err
    assert {row["task"] for row in by_rules.json["tasks"]} == {
        row["task"] for row in done.json["tasks"] if row["task"] != "extract"
    }
    assert priced.requests == []


def test_a_dry_run_of_a_comparison_has_the_reader_and_asks_nothing(priced: OpenAIServer) -> None:
    models_of = ("--llm", "openai:small", "--reader-llm", "openai:large", "--index", "w")
    done = ragindex("compare", "notes", *ASKED, *models_of, "--dry-run", "--json", "-")
    assert done.code == 0, done.err
    tasks = [row["task"] for row in done.json["estimate"]["tasks"]]
    assert tasks == ["extract", "answer, bm25(over=triples)", "answer, no-passages", "answer, gold-passages"]
    assert priced.requests == []
    paid = ragindex("compare", "notes", *ASKED, *models_of, "--yes", "--json", "-")
    assert paid.code == 0, paid.err
    assert (paid.json["llm"], paid.json["reader"]["llm"]) == ("openai:small", "openai:large")
    again = ragindex("compare", "notes", *ASKED, *models_of, "--fresh", "--dry-run", "--json", "-").json
    assert again["estimate"]["tasks"] == []  # all answers of both models are paid for


def test_reader_options_of_a_file(priced: OpenAIServer) -> None:
    Path("c.yaml").write_text("read: true\nreader-llm: openai:small\nreader-passages: 1\nreader-input: passages\n")
    arguments = ("compare", "notes", "--questions", "questions.csv", "--methods", "bm25", "--config", "c.yaml", "--yes")
    assert ragindex(*arguments, "--json", "-").json["reader"] == {
        "llm": "openai:small",
        "tokens": None,
        "estimated": True,
        "prompt": "short",
        "passages": 1,
        "input": "passages",
    }
    unread = failed(2, "compare", "notes", "--questions", "questions.csv", "--reader-llm", "openai:small")
    assert unread == "--reader-llm reads answers. Add --read."
    assert "'reader-input': Input should be 'notes' or 'passages'" in failed(2, *arguments, "--reader-input", "hits")


def test_one_question_is_answered_by_a_model_of_its_own(priced: OpenAIServer) -> None:
    assert ragindex("index", "notes", "--index", "w", "--methods", "bm25").code == 0
    arguments = ("ask", "Which hill is highest?", "--index", "w", "--method", "bm25", "--reader-llm", "openai:large")
    done = ragindex(*arguments, "--reader-passages", 1, "--yes", "--json", "-")
    assert done.code == 0, done.err
    assert {name: done.json[name] for name in ("answer", "llm", "reader", "rules")} == {
        "answer": "Grey Anna",
        "llm": "offline",
        "reader": "openai:large",
        "rules": False,
    }
    assert len(done.json["passages"]) == 1
    assert models(priced.requests) == ["large"]
    assert "Answered by openai:large; 1 of" in ragindex(*arguments, "--reader-passages", 1).out
    assert len(priced.requests) == 1  # the answer was kept


def test_another_model_judges(priced: OpenAIServer) -> None:
    priced.write = lambda body: json.dumps({"relevant": "yes"}) if body["model"] == "large" else TRIPLES
    arguments = ("judge", "notes", "questions.txt", "--methods", "bm25(over=triples)", "--index", "w", "--depth", 1)
    models_of = ("--llm", "openai:small", "--judge-llm", "openai:large")
    dry = ragindex(*arguments, *models_of, "--dry-run", "--json", "-")
    rows = dry.json["estimate"]["tasks"]
    prices = {row["task"]: row["money"] / (row["input_tokens"] + row["output_tokens"]) * 1e6 for row in rows}
    assert prices == pytest.approx({"extract": 1.0, "judge": 100.0})
    done = ragindex(*arguments, *models_of, "--yes", "--json", "-")
    assert done.code == 0, done.err
    assert done.json["model"] == "openai:large"
    assert json.loads(Path("judged/model/model.json").read_text()) == {"model": "openai:large", "whole": True}
    judging = [request for request in priced.requests if "relevant" in last_message(request.body)]
    assert models(priced.requests) == ["large", "small"]
    assert {request.body["model"] for request in judging} <= {"large"}
    refused = failed(2, *arguments, "--llm", "openai:small", "--judge-llm", "offline")
    assert refused == (
        "The pool was judged by openai:large, and --judge-llm is offline. Give --judge-llm openai:large, or another "
        "--out."
    )
