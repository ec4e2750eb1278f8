"""Recall and costs by iteration, and by kind of question, from hand-made traces."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup
from comparing import compare
from hypothesis import given
from hypothesis import strategies as st
from made_comparisons import answered, make_comparison, went

from ragindex.corpus import Corpus
from ragindex.corpus.chunking import Chunking, chunk
from ragindex.retrieval.trace import IF_STOPPED, KEPT_IDS
from ragindex.types import Document, Query, Step, Usage
from ragindex_eval.conclusions import iterations as analysis
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.data.gold import Gold
from ragindex_eval.report import page
from ragindex_eval.report.sections import hops, iterations
from ragindex_eval.report.tables import MetricCell
from ragindex_eval.results.model import Comparison, MethodAnswer, SavedHit, Study


def one_step(id: str, documents: Sequence[str], **given: Any) -> MethodAnswer:
    return replace(MethodAnswer(id, tuple(SavedHit(doc, (doc,), 1.0) for doc in documents)), **given)


def four_questions() -> Comparison:
    """One that stops at once, one after two iterations, one that fails, one after three; and a method without."""
    gold = {
        "q1": Gold(frozenset({"a"}), kind="2hop"),
        "q2": Gold(frozenset({"b", "c"}), kind="2hop"),
        "q3": Gold(frozenset({"a"}), kind="3hop1"),
        "q4": Gold(frozenset({"d"}), kind="3hop2"),
    }
    gear = [
        went("q1", [["a", "b"]], [(1, 100, 10)]),
        went("q2", [["x", "b"], ["b", "c"]], [(1, 100, 10), (1, 50, 5), (2, 200, 20)]),
        MethodAnswer("q3", (), "LanguageError: no answer"),
        went("q4", [["x", "y"], ["x#0", "x#1", "d#0"], ["d#1", "d#0", "x#0"]], [(n, 100, 10) for n in (1, 2, 3)]),
    ]
    flat = [one_step(id, ["a", "b"], usage=Usage(0.0, 30, 3)) for id in gold]
    return answered({"gear": gear, "flat": flat}, gold, (1, 2))


def cells(line: iterations.IterationRow) -> list[str]:
    return [cell.text for cell in line.cells]


def shown(comparison: Comparison) -> iterations.Iterations:
    section = iterations.render_iterations(comparison)
    assert section is not None
    return section


# ---------------------------------------------------------------- the figures


def test_recall_and_tokens_after_each_iteration() -> None:
    # R@1: q1 1; q2 0, then 1/2; q3 failed: 0; q4 0, 0, then 1. A question that stopped keeps its value.
    # R@2: q1 1; q2 1/2, then 1; q4 0, 0, then 1: x#0 and x#1 are the first two hits, of one document.
    # Tokens in, of the three answered: 100 + 150 + 100; then 200 and 100 more; then 100 more.
    # Milliseconds: 10 10 10, 20 30 30 and 10 20 30; the medians. The rankings' own 1,000 are not the method's.
    section = shown(four_questions())
    assert [column.title for column in section.columns] == [
        *("questions", "R@1", "R@2", "tokens in", "tokens out", "asked", "steps ms")
    ]
    assert [(line.label, line.span, line.iteration) for line in section.lines] == [
        *(("gear", 3, "1"), ("gear", 0, "2"), ("gear", 0, "3"), ("flat", 1, "–"))
    ]
    assert [cells(line) for line in section.lines] == [
        ["3", "25.0", "37.5", "117", "11.7", "1.3", "10.0"],
        ["2", "37.5", "50.0", "217", "21.7", "2.0", "20.0"],
        ["1", "62.5", "75.0", "250", "25.0", "2.3", "30.0"],
        ["–", "50.0", "62.5", "30.0", "3.0", "–", "–"],
    ]
    assert section.notes == ()


def test_intervals_are_those_of_the_questions() -> None:
    # [1, 0, 0, 0] drawn again: Binomial(4, 1/4) reaches 0 with p = 0.32, and 3 at most with p = 0.996 (2: 0.949).
    comparison = four_questions()
    lines = shown(comparison).lines
    assert lines[0].cells[1] == MetricCell("25.0", "0.5 – 95.9")
    low, high = (100 * bound for bound in comparison.method("gear").ci95["R@1"])
    assert lines[2].cells[1] == MetricCell(
        "62.5", f"{low:.1f} – {high:.1f}"
    )  # what it gave in the end, drawn as elsewhere
    assert lines[2].cells[1].text == f"{100 * comparison.method('gear').metrics['R@1']:.1f}"


def test_the_plots_draw_the_figures_and_level_lines() -> None:
    recall, tokens = shown(four_questions()).plots
    assert (recall.title, tokens.title) == ("R@2 by iteration", "Tokens by iteration")
    described = ElementTree.fromstring(recall.drawing).findtext("{http://www.w3.org/2000/svg}desc") or ""
    curves = [re.sub(r" \([^)]*\)", "", curve) for curve in described.split("; ")]
    assert curves == ["gear: 37.5 at 1, 50.0 at 2, 75.0 at 3", "flat: 62.5 at 1, 62.5 at 3"]
    assert "gear, iteration = 2: 50.0" in recall.drawing
    described = ElementTree.fromstring(tokens.drawing).findtext("{http://www.w3.org/2000/svg}desc") or ""
    curves = [re.sub(r" \([^)]*\)", "", curve) for curve in described.split("; ")]
    assert curves == [
        "gear, in: 117 at 1, 217 at 2, 250 at 3",
        "flat, in: 30.0 at 1, 30.0 at 3",
        "gear, out: 11.7 at 1, 21.7 at 2, 25.0 at 3",
        "flat, out: 3.00 at 1, 3.00 at 3",
    ]


def test_many_tokens_are_drawn_in_thousands_and_one_iteration_not_at_all() -> None:
    answers = [went("q1", [["a"], ["a"]], [(1, 9000, 100), (2, 9000, 100)])]
    drawing = shown(answered({"gear": answers}, None, (1,))).plots[0].drawing
    assert "gear, in: 9.00 at 1, 18.0 at 2; gear, out: 0.10 at 1, 0.20 at 2" in drawing
    assert "thousand tokens a question, cumulative" in drawing
    section = shown(answered({"gear": [went("q1", [["a"]])]}, {"q1": Gold(frozenset({"a"}))}, (1,)))
    assert [cells(line) for line in section.lines] == [["1", "100.0", "0.00"]]
    assert section.plots == ()


def test_methods_of_the_same_family_are_the_first_to_compare_with() -> None:
    gold = {"q1": Gold(frozenset({"a"}))}
    flat = {f"flat{at}": [one_step("q1", ["a"] if at == 6 else [])] for at in range(7)}
    answers = {"gear": [went("q1", [["x"], ["a"]])], **flat, "gear.sync": [one_step("q1", [])]}
    labels = [line.label for line in shown(answered(answers, gold, (1,))).lines]
    assert labels == ["gear", "gear", "gear.sync", "flat6", "flat0", "flat1", "flat2", "flat3"]


# ---------------------------------------------------------------- which methods, and which questions


def test_methods_without_iterations_have_no_section_nor_have_rerankers_those_of_their_base() -> None:
    assert iterations.render_iterations(make_comparison({"a": [1.0, 0.0], "b": [0.0, 0.0]})) is None
    base = went("q1", [["a", "b"], ["b", "a"]])
    reranked = replace(base, hits=base.hits[::-1], trace=(*base.trace, Step(2, "rerank", "?", ("a", "b"))))
    comparison = answered({"gear + rerank": [reranked]}, {"q1": Gold(frozenset({"a"}))}, (1,))
    assert analysis.iterative_methods(comparison) == []


@pytest.mark.parametrize(
    "rankings",
    [[(1, ("a",)), (3, ("b",))], [(2, ("b",))], [(1, ("a",)), (1, ("b",))]],
    ids=["one is missing", "the first is missing", "one is there twice"],
)
def test_a_question_whose_trace_is_not_whole_is_left_out_and_told(rankings: list[tuple[int, tuple[str]]]) -> None:
    steps = tuple(Step(n, IF_STOPPED, "?", ids) for n, ids in rankings)
    cut_short = MethodAnswer("q2", (SavedHit("b", ("b",), 1.0),), None, steps)
    gold = {id: Gold(frozenset({"a"})) for id in ("q1", "q2")}
    section = shown(answered({"gear": [went("q1", [["a"]]), cut_short]}, gold, (1,)))
    assert [cells(line) for line in section.lines] == [["1", "100.0", "0.00"]]
    assert section.notes == ("gear: without 1 question, whose traces do not hold every iteration.",)


def test_what_the_table_does_not_have_is_a_note() -> None:
    gold = {"q1": Gold(frozenset({"a"}))}
    section = shown(answered({"gear": [went("q1", [["a"], ["a"]])]}, gold, (1, KEPT_IDS + 1, 50)))
    assert [column.title for column in section.columns] == ["questions", "R@1", "steps ms"]
    assert section.notes == ("R@21, R@50 are not shown: the first 20 passages of each iteration are kept.",)
    beside = replace(went("q1", [["a"]], [(1, 100, 10)]), usage=Usage(0.0, 150, 10))
    assert shown(answered({"gear": [beside]}, gold, (1,))).notes == ("gear: the steps account for 110 of 160 tokens.",)


def test_recall_after_an_iteration_is_of_its_first_k_hits() -> None:
    cut_up = [f"x#{at}" for at in range(KEPT_IDS)]  # 20 passages of one document
    gold = {"q1": Gold(frozenset({"a"})), "q2": Gold(frozenset({"a"}))}
    answers = [went("q1", [cut_up, ["a"]]), went("q2", [["x#0", "x#1", "a"], ["x", "a"]])]
    section = shown(answered({"gear": answers}, gold, (1, 2, 3)))
    assert [cells(line)[1:4] for line in section.lines] == [["0.0", "0.0", "50.0"], ["50.0", "100.0", "100.0"]]
    assert section.plots[0].title == "R@3 by iteration"


def test_without_gold_the_costs_are_told_alone() -> None:
    section = shown(answered({"gear": [went("q1", [["a"], ["b"]], [(1, 7, 3), (2, 7, 3)])]}, None, (1,)))
    assert [column.title for column in section.columns] == ["questions", "tokens in", "tokens out", "asked", "steps ms"]
    assert [cells(line) for line in section.lines] == [
        ["1", "7.0", "3.0", "1.0", "10.0"],
        ["1", "14.0", "6.0", "2.0", "20.0"],
    ]
    assert section.notes == ("No question has gold documents: what each iteration found was not measured.",)
    assert [plot.title for plot in section.plots] == ["Tokens by iteration"]


# ---------------------------------------------------------------- passages and documents


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.text("ab .", min_size=1, max_size=60), st.booleans())
def test_a_passage_leads_to_the_document_it_was_cut_from(id: str, text: str, undivided: bool) -> None:
    passages = chunk(Document(id, "", text), None if undivided else Chunking(5, 0))
    assert {analysis.document(passage.id, {id}) for passage in passages} == {id}


def test_a_document_may_be_called_like_a_passage() -> None:
    assert analysis.document("C#1", {"C#1"}) == "C#1"
    assert analysis.document("C#1#0", {"C#1"}) == "C#1"
    assert analysis.document("C#", set()) == "C#"
    assert analysis.document("F#sharp", set()) == "F#sharp"


# ---------------------------------------------------------------- by kind


def test_quartiles_and_means_by_kind() -> None:
    # 2hop: 1, 1, 1/2 and 0 for the one: mean 5/8, quartiles 3/8, 3/4 and 1; all are found by the other.
    kinds = ["2hop"] * 4 + ["3hop1"] * 2 + ["3hop2"]
    section = hops.render_hops(make_comparison({"one": [1, 1, 0.5, 0, 1, 0, 0], "all": [1] * 7}, kinds=kinds))
    assert section is not None
    assert section.metric == "R@5"
    assert [
        (kind.name, [(spread.label, spread.mean, spread.interval, *spread.quartiles) for spread in kind.spreads])
        for kind in section.kinds
    ] == [
        ("2hop · 4 questions", [("one", "62.5", "", "37.5", "75.0", "100.0"), ("all", *["100.0", ""], *["100.0"] * 3)]),
        ("3hop1 · 2 questions", [("one", "50.0", "", "25.0", "50.0", "75.0"), ("all", *["100.0", ""], *["100.0"] * 3)]),
        ("3hop2 · 1 question", [("one", "0.0", "", "0.0", "0.0", "0.0"), ("all", *["100.0", ""], *["100.0"] * 3)]),
    ]
    described = ElementTree.fromstring(section.plot.drawing).findtext("{http://www.w3.org/2000/svg}desc") or ""
    assert described.startswith("one: 62.5 (37.5 to 100); all: 100 (100 to 100); one: 50.0 (25.0 to 75.0)")
    assert section.stops == ()


def test_kinds_of_ten_questions_have_intervals_and_those_that_only_count_hops_no_table() -> None:
    comparison = make_comparison({"a": [1.0, 0.0] * 9 + [1.0]}, kinds=["bridge"] * 10 + ["comparison"] * 9)
    section = hops.render_hops(comparison)
    low, high = (100 * bound for bound in comparison.method("a").breakdown[0].ci95["R@5"])
    assert section is not None
    assert [kind.spreads[0].interval for kind in section.kinds] == [f"{low:.1f} – {high:.1f}", ""]
    assert hops.render_hops(make_comparison({"a": [1, 0]}, kinds=["2hop", "3hop"])) is None
    assert hops.render_hops(make_comparison({"a": [1, 0]})) is None


def test_when_questions_stopped_by_hops() -> None:
    section = hops.render_hops(four_questions())
    assert section is not None
    assert [(stop.label, stop.kind, stop.questions, stop.median, stop.mean, stop.counts) for stop in section.stops] == [
        ("gear", "2 hops", 2, "1.5", "1.50", (1, 1, 0)),
        ("gear", "3 hops", 1, "3", "3.00", (0, 0, 1)),
    ]
    assert [kind.name for kind in section.kinds] == ["2hop · 2 questions", "3hop1 · 1 question", "3hop2 · 1 question"]
    assert [(spread.label, spread.mean) for spread in section.kinds[1].spreads] == [("gear", "0.0"), ("flat", "100.0")]


# ---------------------------------------------------------------- the page


def rows(soup: BeautifulSoup, selector: str) -> list[list[str]]:
    return [
        [" ".join(cell.get_text(" ").split()) for cell in row.select("th, td")]
        for row in soup.select(f"{selector} tbody tr")
    ]


def test_the_page_shows_both() -> None:
    soup = BeautifulSoup(page.render_report(Study("s", (four_questions(),))), "html.parser")
    by_iteration = rows(soup, "#c1-iterations")
    assert by_iteration[0][:4] == ["gear", "1", "3", "25.0 0.5 – 95.9"]
    assert [row[0] for row in by_iteration[1:]] == ["2", "3", "flat"]
    assert rows(soup, "#c1-hops")[0] == ["2hop · 2 questions", "gear", "100.0", "100.0", "100.0", "100.0"]
    assert rows(soup, "#c1-hops")[-1] == ["gear", "3 hops", "1", "3", "3.00", "0", "0", "1"]
    heads = [heading.get_text() for heading in soup.select("#c1-groups h3")]
    assert [name for name in heads if name.startswith("By ")] == ["By iteration", "By kind"]


def test_what_gear_leaves_is_what_is_read(tmp_path: Path) -> None:
    documents = (
        Document("anna", "Anna Bell", "Anna Bell was born in Sarnford. Anna Bell works for the Quill Museum."),
        Document("quill", "Quill Museum", "The Quill Museum was founded by Jon Harker."),
        Document("jon", "Jon Harker", "Jon Harker was born in Nether Quill."),
    )
    queries = (Query("q1", "Where was the founder of the museum that Anna Bell works for born?"), Query("q2", "Who?"))
    gold = {"q1": Gold(frozenset({"anna", "quill", "jon"}), kind="3hop"), "q2": Gold(frozenset({"jon"}), kind="2hop")}
    data = Dataset("tiny", Corpus("tiny", "jsonl", documents, 0, (), True), queries, gold, "0123456789abcdef")
    comparison = compare(data, ["gear", "bm25"], k=(1, 2), index=tmp_path)
    (iterative,) = analysis.iterative_methods(comparison)
    assert (iterative.method.label, iterative.left_out) == ("gear", 0)
    values = analysis.recalls(iterative, comparison, (1, 2))
    gear = comparison.method("gear")
    assert values[:, -1].tolist() == [[gear.per_query[id][f"R@{k}"] for k in (1, 2)] for id in ("q1", "q2")]
