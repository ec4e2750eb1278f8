"""Multiple-choice and ambiguous questions in a comparison: what a reader is shown, and what is measured."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from comparing import compare
from openai_server import KEY, OpenAIServer

from ragindex.corpus import Corpus
from ragindex.errors import UsageError
from ragindex.llm import openai_chat
from ragindex.types import Document, Query
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.data.gold import Gold, SubQuestion
from ragindex_eval.report.page import render_report
from ragindex_eval.results.files import load_results
from ragindex_eval.results.model import Comparison, MethodAnswer, Study
from ragindex_eval.results.records import ReaderAnswer
from ragindex_eval.results.seeds import study_to_json
from ragindex_eval.run import experiment, scores
from ragindex_eval.run.settings import make_settings
from ragindex_eval.run.study import run_study

DOCUMENTS = (
    Document("mara", "Mara", "Mara left the valley in spring to find work. She never sang again."),
    Document("mill", "Mill", "The mill burned in the winter of 1871. Nobody swam in its pond."),
)
CHOICES = {
    "q1": ("Why did Mara leave?", "mara", ("To sing", "To find work", "To sleep"), 1),
    "q2": ("When did the mill burn?", "mill", ("In winter", "In May"), 0),
    "q3": ("Where did nobody swim?", "mill", ("In the pond", "In the sea"), 0),
}


def dataset(questions: Mapping[str, tuple[str, Gold]]) -> Dataset:
    queries = tuple(Query(id, text) for id, (text, _) in questions.items())
    gold = {id: question for id, (_, question) in questions.items()}
    return Dataset("tiny", Corpus("tiny", "jsonl", DOCUMENTS, 0, (), True), queries, gold, "0123456789abcdef")


MULTIPLE_CHOICE = {
    id: (text, Gold(frozenset({doc_id}), (options[right],), options=options))
    for id, (text, doc_id, options, right) in CHOICES.items()
}


def run(folder: Path, questions: Mapping[str, tuple[str, Gold]], *methods: str, **options: Any) -> Comparison:
    given = {"k": (1, 2), "read": True, **options}
    return compare(dataset(questions), methods or ["bm25", "dense"], index=folder / "index", **given)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.setattr(openai_chat, "_memories", {})
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        yield running


# ---------------------------------------------------------------- multiple choice


def test_the_rules_choose(tmp_path: Path) -> None:
    comparison = run(tmp_path, MULTIPLE_CHOICE, "bm25")
    (method,), (nothing, everything) = comparison.methods, comparison.bounds
    assert [chosen.reading and chosen.reading.answer for chosen in everything.final] == [
        "B. To find work",
        "A. In winter",
        "A. In the pond",
    ]
    assert {name: method.metrics[name] for name in method.metrics if "@" not in name} == {"accuracy": 1.0}
    assert (nothing.metrics, everything.metrics) == ({"accuracy": 0.0}, {"accuracy": 1.0})
    assert comparison.notes[1:] == ("no-passages: 3 answers named no option and count as wrong",)


def test_a_model_chooses_and_what_names_no_option_is_counted(tmp_path: Path, server: OpenAIServer) -> None:
    replies = {"Mara leave": "(b)", "mill burn": "in May", "swim": "nowhere"}

    def write(body: Mapping[str, Any]) -> str:
        question = body["messages"][-1]["content"].rpartition("Question: ")[2]
        answer = next(answer for part, answer in replies.items() if part in question)
        return json.dumps({"answer": answer, "passages": [1], "found": True})

    server.write = write
    comparison = run(tmp_path, MULTIPLE_CHOICE, "bm25", llm="openai:small", out=tmp_path / "out")
    (method,) = comparison.methods
    assert {id: values["accuracy"] for id, values in method.per_query.items()} == {"q1": 1.0, "q2": 0.0, "q3": 0.0}
    assert [given.reading and given.reading.answer for given in method.final] == [
        "B. To find work",
        "B. In May",
        "nowhere",
    ]
    assert "bm25: 1 answer named no option and count as wrong" in comparison.notes
    shown = [request.body["messages"][-1]["content"] for request in server.requests]
    assert any(
        text.rstrip().endswith("Why did Mara leave?\nA. To sing\nB. To find work\nC. To sleep") for text in shown
    )
    lines = [json.loads(line) for line in (tmp_path / "out" / "questions.jsonl").read_text().splitlines()]
    assert [line["options"] for line in lines] == [list(options) for _, _, options, _ in CHOICES.values()]
    back = load_results(tmp_path / "out")
    assert back.comparisons[0].gold == comparison.gold
    assert study_to_json(back) == study_to_json(Study("tiny", (comparison,)))
    page = render_report(back)
    assert "accuracy of each method" in page
    assert "An answer that names none is wrong." in page


# ---------------------------------------------------------------- ambiguous questions

LONG = ("The mill burned in 1871. Mara left in spring.", "In 1871.")
PARTS = (SubQuestion("When did the mill burn?", ("1871", "winter")), SubQuestion("When did Mara leave?", ("spring",)))
AMBIGUOUS = {
    "q1": ("When did it happen?", Gold(frozenset({"mill", "mara"}), LONG, sub_questions=PARTS)),
    "q2": ("When did the mill burn?", Gold(frozenset(), ("In 1871.",), sub_questions=PARTS[:1])),
}


def first_four_digits(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """A model for extractive QA that finds 1871, and nothing else."""
    return ["1871" if "1871" in context else "" for _, context in pairs]


def answer(id: str, text: str, error: str | None = None) -> MethodAnswer:
    return MethodAnswer(id, (), reading=ReaderAnswer(text, True, error=error))


def test_measures_of_asqa_by_hand() -> None:
    gold = {id: ambiguou for id, (_, ambiguou) in AMBIGUOUS.items()}
    answers = [answer("q1", "In 1871."), answer("q2", "In spring", "refused")]
    figures = scores.score_answers(answers, gold, first_four_digits)
    assert figures == {
        "q1": {"STR-EM": 0.5, "ROUGE-Lsum": 1.0, "Disambig-F1": 0.5},
        "q2": {"STR-EM": 0.0, "ROUGE-Lsum": 0.0, "Disambig-F1": 0.0},
    }
    assert list(scores.score_answers(answers, gold)["q1"]) == ["STR-EM", "ROUGE-Lsum"]


def test_dr_is_of_the_means(tmp_path: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "open_span_model", lambda name: first_four_digits)
    server.write = lambda body: json.dumps({"answer": "It burned in 1871.", "passages": [1], "found": True})
    comparison = run(tmp_path, AMBIGUOUS, llm="openai:small", qa_model="made", out=tmp_path / "out")
    systems = {request.body["messages"][0]["content"].partition("\n")[0] for request in server.requests}
    assert systems == {"You answer questions that can be understood in several ways, each with its own answer."}
    for method in (*comparison.methods, *comparison.bounds):
        means = {
            name: sum(figures[name] for figures in method.per_query.values()) / 2
            for name in ("ROUGE-Lsum", "Disambig-F1")
        }
        assert method.metrics["DR"] == pytest.approx((means["ROUGE-Lsum"] * means["Disambig-F1"]) ** 0.5)
        assert "DR" not in method.per_query["q1"]
        assert "DR" not in method.ci95
    assert comparison.bounds[1].metrics["Disambig-F1"] == 0.75  # 1871 is one of two answers, and the only one
    assert "R@1" not in comparison.methods[0].per_query["q2"]
    assert "Disambig-F1 is by the spans of made" in comparison.notes
    back = load_results(tmp_path / "out")
    assert back.comparisons[0].gold == comparison.gold
    page = render_report(back)
    assert page == render_report(Study("tiny", (comparison,)))
    assert all(f'<th scope="col">{name}' in page or name in page for name in ("STR-EM", "Disambig-F1", "DR"))


def test_without_a_model_disambig_f1_is_not_there(tmp_path: Path) -> None:
    comparison = run(tmp_path, AMBIGUOUS, "bm25")
    assert {name for name in comparison.methods[0].metrics if "@" not in name} == {"STR-EM", "ROUGE-Lsum"}
    assert comparison.methods[0].final[1].reading is not None
    assert comparison.methods[0].final[1].reading.answer == "The mill burned in the winter of 1871."
    with pytest.raises(UsageError, match="--qa-model measures answers. Add --read."):
        run_study(make_settings({"data": "world:20", "methods": "bm25", "qa_model": "made"}))
