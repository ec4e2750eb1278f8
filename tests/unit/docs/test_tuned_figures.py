"""Figures of presets that were chosen on the questions they are reported on say so, wherever they stand."""

import re

import pytest
from project import ROOT

CHOSEN = "sirerag(ranking=lifted)"  # on musique_train, whose figures the page of results reports
RESULTS, CHOOSING, GRIEVER, SIRERAG = (
    (ROOT / "docs" / "explanation" / name).read_text(encoding="utf-8")
    for name in ("results.md", "choosing-a-method.md", "methods/griever.md", "methods/sirerag.md")
)


def rows(text: str, method: str) -> list[str]:
    """The table rows of a method, in every table."""
    return [line for line in text.splitlines() if re.match(rf"\| .*`{re.escape(method)}`", line)]


def notes(text: str) -> dict[str, str]:
    """The notes below tables, by their marks."""
    matches = re.findall(r"^([¹²³]) (.*?)(?=^[¹²³] |\n\n|^\|)", text, re.DOTALL | re.MULTILINE)
    return {mark: " ".join(note.split()) for mark, note in matches}


@pytest.mark.parametrize("page", [RESULTS, CHOOSING], ids=["results", "choosing"])
def test_row_of_a_chosen_preset_has_its_mark_and_the_mark_its_note(page: str) -> None:
    (row,) = rows(page, CHOSEN)
    (mark,) = re.findall(r"[¹²³]", row)
    assert "chosen" in notes(page)[mark]


@pytest.mark.parametrize("page", [RESULTS, CHOOSING, SIRERAG], ids=["results", "choosing", "sirerag"])
def test_no_mark_is_without_a_note(page: str) -> None:
    assert set(re.findall(r"[¹²³]", page)) == set(notes(page))


def test_the_pages_of_methods_mark_them_too() -> None:
    by_query = [line for line in GRIEVER.splitlines() if line.startswith("|") and "`retrieval_score=query`" in line]
    assert len(by_query) == 3
    assert all("¹" in row for row in by_query)
    assert all("chosen with these questions in view" in note.lower() for note in notes(GRIEVER).values())
    lifted = [line for line in SIRERAG.splitlines() if re.match(r"\| `sirerag\(.*ranking=lifted\)`", line)]
    assert len(lifted) == 6
    assert all("¹" in row for row in lifted)
    assert "neither is a blind test of it" in notes(SIRERAG)["¹"]
