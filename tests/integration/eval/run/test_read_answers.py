"""Answers read from what methods find: what they are worth, what they cost, and the bounds beside them."""

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from comparing import compare
from made_language import PRICES, QUICK
from openai_server import KEY, OpenAIServer
from rich.console import Console

from ragindex.accounting import ledger
from ragindex.corpus import Chunking, Corpus
from ragindex.errors import BelowThresholdError, BudgetError, QuestionError, UsageError
from ragindex.index.index import Index
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm import openai_chat
from ragindex.llm.answer_question import ContextLimits
from ragindex.llm.budget import Budget
from ragindex.llm.offline import OfflineRules
from ragindex.types import Document, Hit, Query, Retrieval, Usage
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.data.gold import Gold
from ragindex_eval.report import page as report
from ragindex_eval.report.terminal import render_comparison
from ragindex_eval.results.model import Comparison, MethodAnswer, Study
from ragindex_eval.results.records import ReaderAnswer
from ragindex_eval.run import scores
from ragindex_eval.run.bounds import GoldPassages
from ragindex_eval.run.read_answers import AnswerReader
from ragindex_eval.run.thresholds import parse_threshold, require_reached

TEXTS = {
    "anna": ("Grey Anna", "Grey Anna is the highest hill of the north."),
    "sarn": ("Sarn", "The Sarn is a river that carries barges with slate. It was surveyed in 1871."),
    "orla": ("Orla", "The Orla is a short river with eleven gorges."),
    "brandt": ("Ulla Brandt", "Ulla Brandt drew the first map of the hills."),
}
ASKED = {
    "q1": ("Which hill is the highest of the north?", "anna", ("Grey Anna", "Anna")),
    "q2": ("When was the Sarn surveyed?", "sarn", ("1871",)),
    "q3": ("Who drew the first map of the hills?", "brandt", ("Ulla Brandt",)),
    "q4": ("What has eleven gorges, and is no hill?", "orla", ("the Orla",)),
}
QUERIES = tuple(Query(id, text) for id, (text, _, _) in ASKED.items())
GOLD = {id: Gold(frozenset({doc_id}), answers, "2hop") for id, (_, doc_id, answers) in ASKED.items()}
UNLIMITED = {"passages": None, "input": "notes"}
NAMES = ("EM", "F1", "STR-EM", "ROUGE-L")


def dataset(gold: Mapping[str, Gold] | None = GOLD) -> Dataset:
    documents = tuple(Document(id, title, text) for id, (title, text) in TEXTS.items())
    return Dataset("tiny", Corpus("tiny", "jsonl", documents, 0, (), True), QUERIES, gold, "0123456789abcdef")


def run(folder: Path | Index, *methods: str, data: Dataset | None = None, **options: Any) -> Comparison:
    given = {"k": (1, 2), "read": True, **options}
    return compare(data or dataset(), methods or ["bm25", "dense"], index=folder, **given)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the documents."""
    folder = tmp_path_factory.mktemp("shared")
    run(folder)
    return folder


def shown(comparison: Comparison) -> list[str]:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(render_comparison(comparison))
    return console.export_text().splitlines()


def knows(body: Mapping[str, Any]) -> str:
    """A reader that answers what stands in the first sentence of some passage, else guesses."""
    content = body["messages"][-1]["content"]
    for question, doc_id, answers in ASKED.values():
        if content.endswith(question):
            known = TEXTS[doc_id][1] in content
            return json.dumps({"answer": answers[0] if known else "a river", "passages": [1] * known, "found": known})
    raise AssertionError(content)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.setattr(openai_chat, "_memories", {})
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        running.write = knows
        yield running


def opened(folder: Path, budget: float | None = None) -> Index:
    """A workspace whose model has a price."""
    asking = LLMSettings(prices=PRICES, clock=QUICK, budget=None if budget is None else Budget(budget))
    return Index.open(folder, llm="openai:small", chunking=None, llm_settings=asking, create=True)


# ---------------------------------------------------------------- what answers are worth


def read(id: str, answer: str, error: str | None = None) -> MethodAnswer:
    return MethodAnswer(id, (), reading=ReaderAnswer(answer, True, error=error))


def test_measures_of_answers() -> None:
    answers = [
        read("q1", "grey anna!"),
        read("q2", "in 1871"),
        read("q3", "Ulla Brandt", "refused"),
        MethodAnswer("q4", ()),
    ]
    assert scores.score_answers(answers, GOLD) == {
        "q1": {"EM": 1.0, "F1": 1.0, "STR-EM": 1.0, "ROUGE-L": 1.0},
        "q2": {"EM": 0.0, "F1": pytest.approx(2 / 3), "STR-EM": 1.0, "ROUGE-L": pytest.approx(2 / 3)},
        "q3": dict.fromkeys(NAMES, 0.0),
        "q4": dict.fromkeys(NAMES, 0.0),
    }


def test_what_is_measured_depends_on_the_accepted_answers() -> None:
    with_answer = {"q1": Gold(frozenset({"a"}), ("x",))}
    none = {"q2": Gold(frozenset({"a"}))}
    assert scores.score_answers([read("q2", "x")], none) == scores.score_answers([read("q2", "x")], None) == {}
    assert scores.score_answers([read("q1", "x"), read("q2", "x")], {**with_answer, **none}) == {
        "q1": {"EM": 1.0, "F1": 1.0}
    }
    answers = {5: [read("q1", "x"), read("q2", "x")]}
    both = scores.score(answers, {**with_answer, **none}, (5,), read=True)
    assert (both["q1"]["F1"], both["q1"]["R@5"]) == (1.0, 0.0)
    assert "F1" not in both["q2"]
    assert "F1" not in scores.score(answers, {**with_answer, **none}, (5,), read=False)["q1"]


# ---------------------------------------------------------------- the bounds


def test_gold_documents_take_turns_nearest_passages_first() -> None:
    documents = {
        "a": Document("a", "A", "Alpha tells of nothing. " * 4 + "The lighthouse was built in 1856. " * 2),
        "b": Document("b", "B", "The lighthouse keeper was Beta."),
    }
    gold = {"q": Gold(frozenset({"a", "b", "gone"}), grades={"a": 1, "b": 2, "gone": 1})}
    source = GoldPassages(gold, documents, Chunking(100, 0), "english")
    (retrieval,) = source.retrieve([Query("q", "When was the lighthouse built?")], 10)
    assert [hit.id for hit in retrieval.hits] == ["b#0", "a#1", "a#0"]
    assert {hit.source for hit in retrieval.hits} == {"gold-passages"}
    assert [hit.doc_ids for hit in source.retrieve([Query("q", "When?")], 2)[0].hits] == [("b",), ("a",)]


def test_methods_lie_between_the_bounds(tmp_path: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    misleading = "What has gorges, and is no river with barges and slate?"
    monkeypatch.setitem(ASKED, "q4", (misleading, "orla", ("the Orla",)))
    data = replace(dataset(), queries=(*QUERIES[:3], Query("q4", misleading)))
    comparison = run(tmp_path, "bm25", data=data, llm="openai:small", k=(1,))
    (method,), (nothing, everything) = comparison.methods, comparison.bounds
    assert (nothing.label, everything.label) == ("no-passages", "gold-passages")
    assert method.metrics["R@1"] == 0.75  # not the gold of q4
    assert [bound.metrics["EM"] for bound in (nothing, method, everything)] == [0.0, 0.75, 1.0]
    assert {answer.reading and answer.reading.answer for answer in nothing.final} == {"a river"}
    assert [answer.reading and answer.reading.rests_on for answer in method.final] == [
        ("anna",),
        ("sarn",),
        ("brandt",),
        (),
    ]
    assert everything.ci95["EM"] == pytest.approx((0.025 ** (1 / 4), 1.0))  # of four questions
    assert set(everything.metrics) == set(NAMES)
    assert comparison.llm == "openai:small"


def test_one_budget_for_all(tmp_path: Path, server: OpenAIServer) -> None:
    comparison = run(tmp_path, "bm25", llm="openai:small", reader_tokens=15)
    every = [answer.reading for method in (*comparison.methods, *comparison.bounds) for answer in method.final]
    assert max(read.tokens for read in every if read) == 15
    scored = {method.label: method.metrics["EM"] for method in (*comparison.methods, *comparison.bounds)}
    assert scored == {"bm25": 0.5, "no-passages": 0.0, "gold-passages": 0.5}  # two passages have more tokens
    with pytest.raises(UsageError, match="'reader-tokens': Input should be greater than or equal to 1"):
        run(tmp_path, "bm25", reader_tokens=0)


def test_the_prompt_of_the_reader(tmp_path: Path, server: OpenAIServer) -> None:
    """Methods and bounds get the same prompt: one that asks for the fewest words, without an example."""
    run(tmp_path, "bm25", llm="openai:small", reader_prompt="fewest-words")
    systems = {str(request.body["messages"][0]["content"]) for request in server.requests}
    assert len(systems) == 2  # with and without passages
    assert all("fewest words" in system and "Velka" not in system for system in systems)
    with pytest.raises(UsageError, match="'reader-prompt': Input should be 'short', 'six-words' or 'fewest-words'"):
        run(tmp_path, "bm25", reader_prompt="long")


# ---------------------------------------------------------------- in a comparison


def test_answers_join_the_other_metrics(shared: Path, tmp_path: Path) -> None:
    comparison = run(shared, "bm25", "hybrid(bases=[bm25])", out=tmp_path / "out")
    value = comparison.to_json()
    assert value["reader"] == {**UNLIMITED, "llm": "offline", "tokens": 2000, "estimated": True, "prompt": "short"}
    assert value["methods"][0]["metrics"]["EM"] == value["methods"][1]["metrics"]["F1"] == 1.0
    assert value["methods"][0]["ci95"]["F1"] == pytest.approx([0.025 ** (1 / 4), 1.0])  # of four questions
    assert [(pair["a"], pair["b"], pair["questions"]) for pair in value["pairs"] if pair["metric"] == "F1"] == [
        ("bm25", "hybrid(bases=[bm25])", 4)
    ]
    assert [bound["label"] for bound in value["bounds"]] == ["no-passages", "gold-passages"]
    assert [bound["metrics"]["F1"] for bound in value["bounds"]] == [0.0, 1.0]
    assert "bounds" not in {pair["a"] for pair in value["pairs"]} | {method["label"] for method in value["methods"]}
    lines = [json.loads(line) for line in (tmp_path / "out" / "per_query.jsonl").read_text().splitlines()]
    assert lines[1]["metrics"]["F1"] == 1.0
    assert (lines[1]["reading"]["answer"], lines[1]["reading"]["rests_on"]) == ("1871", ["sarn"])


def test_without_a_reader_nothing_of_it_is_there(shared: Path) -> None:
    comparison = run(shared, "bm25", read=False)
    value = comparison.to_json()
    assert {"reader", "bounds"} & set(value) == set()
    assert "reader" not in value["methods"][0]["usage"]
    assert "EM" not in comparison.methods[0].metrics
    again = run(shared, "bm25")
    assert again.methods[0].metrics["EM"] == 1.0  # what was found before is found again, and read
    assert again.methods[0].fingerprint != comparison.methods[0].fingerprint
    assert again.fingerprint != comparison.fingerprint


def test_what_a_person_sees(tmp_path: Path, server: OpenAIServer) -> None:
    comparison = run(tmp_path, "bm25", "dense", llm="openai:small", k=(1,))
    lines = shown(comparison)
    assert lines[0].split()[:5] == ["R", "full", "R", "nDCG", "p50"]
    assert lines[1].split()[4:6] == ["EM", "F1"]
    assert [line.split() for line in lines[4:7]] == [
        ["no-passages", "0.0", "0.0", "–"],  # no price is known
        ["gold-passages", "100.0", "100.0", "0.0000"],  # the same answers as those of bm25
        ["together", "–"],
    ]
    assert any(line.startswith("answers read by openai:small, from 2,000 tokens (estimated) of") for line in lines)
    page = report.render_report(Study("tiny", (comparison,)))
    assert '<tr class="bound first"><th scope="row">no-passages</th>' in page
    assert "a river (not held by what was found; F1 0.0)" in page
    assert "F1 of each method" in page
    assert "openai:small, from at most 2,000 tokens (estimated) of what was found" in page


def test_questions_without_accepted_answers_are_not_measured(shared: Path) -> None:
    some = {**GOLD, "q1": replace(GOLD["q1"], answers=()), "q2": replace(GOLD["q2"], answers=())}
    comparison = run(shared, data=dataset(some), fresh=True)
    assert "EM" not in comparison.methods[0].per_query["q1"]
    assert comparison.methods[0].metrics["EM"] == 1.0
    assert {pair.metric: pair.questions for pair in comparison.pairs if pair.metric in ("R@1", "EM")} == {
        "R@1": 4,
        "EM": 2,
    }
    assert comparison.notes == ("EM and F1 are over 2 of 4 questions: the others have no accepted answers",)
    assert [len(bound.final) for bound in comparison.bounds] == [2, 2]
    assert set(comparison.methods[0].metrics) & set(NAMES) == {"EM", "F1"}
    without = {id: replace(grade, answers=()) for id, grade in GOLD.items()}
    none = run(shared, "bm25", data=dataset(without), fresh=True)
    assert none.notes == ("no question has accepted answers: answers were read, and not measured",)
    assert (set(none.methods[0].metrics) & set(NAMES), none.bounds) == (set(), ())
    bare = run(shared, "bm25", data=dataset(None), fresh=True)
    assert [answer.reading and answer.reading.answer for answer in bare.methods[0].final][1] == "1871"
    assert bare.methods[0].metrics == {}


# ---------------------------------------------------------------- calls


def words(body: Mapping[str, Any]) -> int:
    return sum(len(message["content"].split()) for message in body["messages"])


def test_what_reading_costs_is_apart_from_finding(tmp_path: Path, server: OpenAIServer) -> None:
    with opened(tmp_path) as workspace, ledger.record_calls() as tally:
        (method,) = run(workspace, "bm25").methods
    read = method.reading_costs
    assert read is not None
    of_method = [entry for entry in tally.entries if entry.method == "bm25"]
    assert {(entry.phase, entry.task) for entry in of_method} == {("query", "answer")}
    assert read.input_tokens == sum(words(request.body) for request in server.requests[:4]) / 4
    assert (read.calls, method.calls, method.query_usage) == (1.0, 0.0, Usage())
    assert read.money == pytest.approx(sum(entry.usage.money for entry in of_method) / 4)
    assert method.spent.money == pytest.approx(4 * read.money)
    assert method.to_json()["usage"]["reader"] == read.to_json()
    assert not any(method.costs()["input_tokens"].values())


def test_an_answer_that_cannot_be_used_scores_nothing_and_is_asked_for_again(
    tmp_path: Path, server: OpenAIServer
) -> None:
    server.write = lambda body: "No idea." if "surveyed?" in body["messages"][1]["content"] else knows(body)
    comparison = run(tmp_path, "bm25", llm="openai:small")
    (method,) = comparison.methods
    assert [method.per_query[id]["EM"] for id in ASKED] == [1.0, 0.0, 1.0, 1.0]
    assert method.per_query["q2"]["R@1"] == 1.0
    assert method.failures == {}
    unpriced, *unread = comparison.notes
    assert unpriced.startswith("no price of openai:small is known, so the cost of bm25 is unknown: ")
    assert [note.partition(": answer:")[0] for note in unread] == [
        f"{label}: 1 answer could not be read and scores 0 at EM and F1"
        for label in ("bm25", "no-passages", "gold-passages")
    ]
    with pytest.raises(QuestionError, match="bm25 failed on the question q2 .*: answer: small gave no usable answer"):
        run(tmp_path, "bm25", llm="openai:small", strict=True)
    server.write = knows
    assert run(tmp_path, "bm25", llm="openai:small", no_cache=True).methods[0].metrics["EM"] == 1.0


def test_readers_are_told_apart() -> None:
    first = AnswerReader(OfflineRules(), ContextLimits(2000), "", "english")
    others = [
        replace(first, limits=ContextLimits(1000)),
        replace(first, language="german"),
        replace(first, model="small"),
    ]
    assert len({first.id, *(other.id for other in others)}) == 4
    hit = Hit("a", "passage", ("a",), ("a",), "Sarn", TEXTS["sarn"][1], 1.0, "test")
    (reading,) = first.read([Query("q", "When was the Sarn surveyed?")], [Retrieval((hit,))])
    assert (reading.answer, reading.rests_on, reading.tokens, reading.calls) == ("1871", ("a",), 22, 0)


def test_a_budget_stops_reading_and_keeps_what_was_read(tmp_path: Path, server: OpenAIServer) -> None:
    with opened(tmp_path, budget=1.0) as workspace, pytest.raises(BudgetError, match="The budget of"):
        run(workspace, "bm25")  # one call alone may cost more
    with opened(tmp_path, budget=100.0) as workspace:
        assert run(workspace, "bm25").methods[0].metrics["EM"] == 1.0


def test_a_figure_that_must_be_reached(shared: Path) -> None:
    require_reached(Study("tiny", (run(shared, "bm25"),)), [parse_threshold("bm25:F1=0.9", (1, 2))])
    unread = run(shared, "bm25", read=False)
    with pytest.raises(
        BelowThresholdError, match="EM of bm25 on tiny was not measured: that needs --read and accepted answers"
    ):
        require_reached(Study("tiny", (unread,)), [parse_threshold("bm25:EM=0.5", (1, 2))])
