"""The command `results`, and results by question in Python."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import ragindex
from made_comparisons import answered

from ragindex.errors import UnknownNameError
from ragindex_eval.data.gold import Gold
from ragindex_eval.result import Result
from ragindex_eval.results.files import save_results
from ragindex_eval.results.model import Comparison, MethodAnswer, SavedHit, Study
from ragindex_eval.results.questions import QuestionAnswer


def make_answer(query: str, *documents: str) -> MethodAnswer:
    return MethodAnswer(
        query, tuple(SavedHit(f"{document}#0", (document,), 0.5, document.title()) for document in documents)
    )


@pytest.fixture
def comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Comparison:
    """`t` has the text of the gold document `a`. The newest results are these; older ones have other questions."""
    monkeypatch.chdir(tmp_path)
    gold = {"q1": Gold(frozenset({"a", "b"}), equivalents={"t": "a"}), "q2": Gold(frozenset({"c"}))}
    answers = {
        "bm25": [make_answer("q1", "x", "t", "a"), make_answer("q2", "c")],
        "dense": [make_answer("q1", "b", "a"), make_answer("q2", "x")],
    }
    result = answered(answers, gold, (1, 3))
    save_results(Study("new", (result,)), Path("ragindex-results/new"))
    only = answered({"bm25": [make_answer("q9", "c")]}, {"q9": Gold(frozenset({"c"}))}, (1,))
    save_results(Study("old", (only,)), Path("ragindex-results/old"))
    os.utime("ragindex-results/old/study.json", (0, 0))
    return result


def test_results_by_question_in_python(comparison: Comparison) -> None:
    result = Result(comparison)
    assert [(question.id, question.gold) for question in result.questions] == [
        ("q1", {"a": 1, "b": 1}),
        ("q2", {"c": 1}),
    ]
    assert {label: answer.gold_ranks for label, answer in result.question("q1").methods.items()} == {
        "bm25": {"a": 2},
        "dense": {"b": 1, "a": 2},
    }
    assert result.question("What is q2?") == result.question("IS Q2") == result.questions[1]
    dense = result.question("q2").methods["dense"]
    assert (dense.hits[0].id, dense.metrics["R@3"], dense.error) == ("x#0", 0.0, None)
    assert type(dense) is QuestionAnswer
    for written, message in (
        ("is q", "2 questions have 'is q' in them"),
        ("What was q1?", "near it are 'What is q1.'"),
    ):
        with pytest.raises(UnknownNameError, match=message):
            result.question(written)


def test_one_question_of_the_newest_results(comparison: Comparison) -> None:
    done = ragindex("results", "--question", "q1", "-k", "1")
    assert done.code == 0, done.err
    lines = [line.split(";")[0] for line in done.out.splitlines()]
    assert [line for line in lines if "ms" not in line] == [
        "q1: What is q1?",
        "gold: a, b",
        "",
        "bm25  R@1 0.0",
        "  1.        0.5000  x#0  X",
        "  … gold a at rank 2",
        "",
        "dense  R@1 50.0",
        "  1. gold   0.5000  b#0  B",
        "  … gold a at rank 2",
    ]
    value = ragindex("results", "--question", "q1", "--json", "-").json
    assert value["methods"]["bm25"]["gold_ranks"] == {"a": 2}
    assert [hit["id"] for hit in value["methods"]["bm25"]["hits"]] == ["x#0", "t#0", "a#0"]


def test_all_questions_and_other_folders(comparison: Comparison) -> None:
    rows = [line.split() for line in ragindex("results").out.splitlines()]
    assert rows[:2] == [["R@1"], ["id", "question", *(method.label for method in comparison.methods)]]
    assert [(row[0], row[-2:]) for row in rows[2:]] == [("q1", ["0.0", "50.0"]), ("q2", ["100.0", "0.0"])]
    assert [question["id"] for question in ragindex("results", "ragindex-results/old", "--json", "-").json] == ["q9"]
    save_results(Study("both", (comparison, replace(comparison, seed=1))), Path("ragindex-results/both"))
    several = ragindex("results", "ragindex-results/both", "--question", "q1")
    assert several.code == 3
    assert "expected results of one comparison; found 2; they are in ragindex-results/both/01-" in several.err
    os.chdir("/")
    assert "There are no results in ragindex-results." in ragindex("results").err
