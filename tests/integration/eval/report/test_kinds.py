"""The figures of each group of questions, in the report and in the terminal."""

import csv
import io
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from command_line import make_desk, ragindex
from made_comparisons import make_comparison
from rich.console import Console

from ragindex.types import Usage
from ragindex_eval.report import page
from ragindex_eval.report.sections import kinds
from ragindex_eval.report.terminal import render_comparison
from ragindex_eval.results.files import load_results
from ragindex_eval.results.model import Comparison, Study

KINDS = ["single"] * 10 + ["two"] * 2
# a finds every `single` and no `two`; b half of the `single` and every `two`. Only q11 and q12 name no title.
RECALLS = {"a": [1.0] * 10 + [0.0] * 2, "b": [1.0, 0.0] * 5 + [1.0] * 2}
TIMES = {"a": [2.0] * 10 + [4.0, 6.0], "b": [1.0] * 12}


def mixed() -> Comparison:
    return make_comparison(RECALLS, TIMES, kinds=KINDS, naming=[f"q{number}" for number in range(1, 11)])


def rows(html: str) -> list[list[str]]:
    elements = BeautifulSoup(html, "html.parser").select("#c1-kinds tbody tr")
    return [[" ".join(cell.get_text(" ").split()) for cell in row.select("th, td")] for row in elements]


def test_the_report_has_the_table_of_each_group() -> None:
    html = page.render_report(Study("s", (mixed(),)))
    low, high = (100 * bound for bound in mixed().method("b").breakdown[0].ci95["R@5"])
    by_kind = [
        ["single · 10 questions", "a", "100.0 69.2 – 100.0", "2.00 2.00 – 2.00", "2.00"],
        ["b", f"50.0 {low:.1f} – {high:.1f}", "1.00 1.00 – 1.00", "1.00"],
        ["two · 2 questions", "a", "0.0", "5.00", "5.90"],
        ["b", "100.0", "1.00", "1.00"],
    ]
    by_title = [["no title named · 2 questions", *by_kind[2][1:]], by_kind[3]]
    by_title += [["title named · 10 questions", *by_kind[0][1:]], by_kind[1]]
    assert rows(html) == [*by_kind, *by_title]
    soup = BeautifulSoup(html, "html.parser")
    headings = [heading.get_text() for heading in soup.select("#c1-kinds h4")]
    assert headings == ["By kind of question", "By title in the question"]
    heads = [heading.get_text() for heading in soup.select("#c1-kinds thead")[0].select("th")]
    assert heads == ["group", "method", "R@5", "p50 ms", "p95 ms"]


def test_tokens_and_calls_are_shown_where_a_method_has_some() -> None:
    usages = [Usage(0.0, 100, 10, 0.001)] * 10 + [Usage(0.0, 300, 30, 0.003)] * 2
    section = kinds.render_kinds(make_comparison({"a": RECALLS["a"]}, kinds=KINDS, paid={"a": usages}))
    assert section is not None
    (table,) = section.tables
    assert [column.title for column in table.columns[-3:]] == ["tokens a question", "$ a question", "calls a question"]
    cells = [[cell.text for cell in group.rows[0].cells[-3:]] for group in table.groups]
    assert cells == [["110", "0.00100", "0.0"], ["330", "0.00300", "0.0"]]


def test_questions_of_one_kind_have_no_section() -> None:
    comparison = make_comparison({"a": [1, 0]}, kinds=["single", "single"])
    assert kinds.render_kinds(comparison) is None
    assert "by kind" not in printed(comparison, 80)


def printed(comparison: Comparison, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), record=True, highlight=False)
    console.print(render_comparison(comparison))
    return console.export_text()


def test_the_terminal_has_the_first_metric_of_each_group() -> None:
    lines = [line.rstrip() for line in printed(mixed(), 80).splitlines()]
    at = lines.index("R@5 by kind of question and by title in the question")
    assert lines[at + 1 : at + 5] == [
        "        single    two  no title named  title named",
        "method  n = 10  n = 2           n = 2       n = 10",
        "a        100.0    0.0             0.0        100.0",
        "b         50.0  100.0           100.0         50.0",
    ]
    narrow = printed(mixed(), 40)
    assert "no title named  title named" in narrow
    assert "two  no title" not in narrow


# ---------------------------------------------------------------- from a file of questions


def test_kinds_of_a_csv_split_every_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """rivers/sarn.md has the title Sarn, hill.md Grey Anna and quill.txt, without a heading, quill."""
    make_desk(tmp_path, monkeypatch)
    with Path("kinds.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "answer", "documents", "kind", "source"])
        writer.writerow(["What does the Sarn carry?", "slate", "rivers/sarn.md", "plain", ""])
        writer.writerow(["Which hill is the highest, Grey Anna?", "Grey Anna", "hill.md", "plain", ""])
        writer.writerow(["Which town is made of stone?", "Nether Quill", "quill.txt", "reworded", ""])
    done = ragindex(
        "compare", "notes", "--questions", "kinds.csv", "--methods", "bm25,dense", "--k", "1", "--json", "-"
    )
    (bm25,) = [method for method in done.json["methods"] if method["label"] == "bm25"]
    figures = {
        (group["by"], group["value"]): (group["questions"], group["metrics"]["R@1"]) for group in bm25["breakdown"]
    }
    assert figures == {
        ("kind", "plain"): (2, 1.0),
        ("kind", "reworded"): (1, 1.0),
        ("title", "no title named"): (1, 1.0),
        ("title", "title named"): (2, 1.0),
    }
    assert done.json["notes"][0] == (
        "2 of 3 questions name the title of a document that answers them: "
        "compare the figures of both groups of questions, because their mean hides the difference"
    )
    results = Path("ragindex-results/notes-kinds")
    saved = load_results(results).comparisons[0]
    assert [method.to_json() for method in saved.methods] == done.json["methods"]
    assert "By kind of question" in (results / "report.html").read_text()
