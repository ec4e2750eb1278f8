"""Figures of presets that were chosen on the questions they are reported on say so, wherever they stand."""

import re

import pytest
from project import ROOT

CHOSEN = "sirerag(ranking=lifted)"  # on musique_train, whose figures the table of all methods reports
RESULTS, OVERVIEW, CHOOSING, GRIEVER, SIRERAG, GRIEVER_PAGE, SIRERAG_PAGE = (
    (ROOT / "docs" / name).read_text(encoding="utf-8")
    for name in (
        "dev/evidence/all-methods-on-musique.md",
        *("explanation/results.md", "explanation/choosing-a-method.md"),
        *("dev/evidence/griever.md", "dev/evidence/sirerag.md"),
        *("explanation/methods/griever.md", "explanation/methods/sirerag.md"),
    )
)


def rows(text: str, method: str) -> list[str]:
    """The table rows of a method, in every table."""
    return [line for line in text.splitlines() if re.match(rf"\| .*`{re.escape(method)}`", line)]


def notes(text: str) -> dict[str, str]:
    """The notes below tables, by their marks."""
    found = re.findall(r"^([¹²³]) (.*?)(?=^[¹²³] |\n\n|^\|)", text, re.DOTALL | re.MULTILINE)
    return {mark: " ".join(note.split()) for mark, note in found}


@pytest.mark.parametrize("page", [RESULTS, CHOOSING], ids=["results", "choosing"])
def test_row_of_a_chosen_preset_has_its_mark_and_the_mark_its_note(page: str) -> None:
    (row,) = rows(page, CHOSEN)
    (mark,) = re.findall(r"[¹²³]", row)
    assert "chosen" in notes(page)[mark]


@pytest.mark.parametrize(
    "page",
    [RESULTS, OVERVIEW, CHOOSING, SIRERAG, SIRERAG_PAGE, GRIEVER_PAGE],
    ids=["results", "overview", "choosing", "sirerag", "sirerag-page", "griever-page"],
)
def test_no_mark_is_without_a_note(page: str) -> None:
    assert set(re.findall(r"[¹²³]", page)) == set(notes(page))


@pytest.mark.parametrize(("page", "count"), [(GRIEVER, 3), (GRIEVER_PAGE, 1)], ids=["evidence", "page"])
def test_rows_of_griever_that_were_chosen_are_marked(page: str, count: int) -> None:
    by_query = [line for line in page.splitlines() if line.startswith("|") and "`retrieval_score=query`" in line]
    assert len(by_query) == count
    assert all("¹" in row for row in by_query)
    assert all("chosen with these questions in view" in note.lower() for note in notes(page).values())


@pytest.mark.parametrize(("page", "count"), [(SIRERAG, 6), (SIRERAG_PAGE, 2)], ids=["evidence", "page"])
def test_rows_of_sirerag_that_were_chosen_are_marked(page: str, count: int) -> None:
    lifted = [line for line in page.splitlines() if re.match(r"\| `sirerag\(.*ranking=lifted\)`", line)]
    assert len(lifted) == count
    assert all("¹" in row for row in lifted)
    assert "neither is a blind test of it" in notes(page)["¹"]
