"""Figures of presets that were chosen on the questions they are reported on say so, wherever they stand."""

import re

from project import ROOT

CHOSEN = "sirerag(ranking=lifted)"  # on musique_train, whose figures the README reports
README, GRIEVER, SIRERAG = (
    (ROOT / name).read_text(encoding="utf-8")
    for name in ("README.md", "docs/methods/griever.md", "docs/methods/sirerag.md")
)


def rows(text: str, method: str) -> list[str]:
    """The table rows of a method, in every table."""
    return [line for line in text.splitlines() if re.match(rf"\| .*`{re.escape(method)}`", line)]


def notes(text: str) -> dict[str, str]:
    """The notes below tables, by their marks."""
    found = re.findall(r"^([¹²³]) (.*?)(?=^[¹²³] |\n\n|^\|)", text, re.DOTALL | re.MULTILINE)
    return {mark: " ".join(note.split()) for mark, note in found}


def test_each_row_of_the_readme_has_its_mark_and_the_mark_its_note() -> None:
    found = rows(README, CHOSEN)
    assert len(found) == 2  # the figures, and the advice
    assert {mark for row in found for mark in re.findall(r"[¹²³]", row)} == {"¹"}
    assert all("¹" in row for row in found), found
    assert "chosen" in notes(README)["¹"]


def test_no_mark_is_without_a_note() -> None:
    assert set(re.findall(r"[¹²³]", README)) == set(notes(README))
    assert set(re.findall(r"[¹²³]", SIRERAG)) == set(notes(SIRERAG))


def test_the_pages_of_methods_mark_them_too() -> None:
    by_query = [line for line in GRIEVER.splitlines() if line.startswith("|") and "`retrieval_score=query`" in line]
    assert len(by_query) == 3
    assert all("¹" in row for row in by_query)
    assert all("chosen with these questions in view" in note.lower() for note in notes(GRIEVER).values())
    lifted = [line for line in SIRERAG.splitlines() if re.match(r"\| `sirerag\(.*ranking=lifted\)`", line)]
    assert len(lifted) == 6
    assert all("¹" in row for row in lifted)
    assert "neither is a blind test of it" in notes(SIRERAG)["¹"]
