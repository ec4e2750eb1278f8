"""Figures of presets that were chosen on the questions they are reported on say so, wherever they stand."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHOSEN = ("griever.paths", "sirerag(ranking=lifted)")  # on musique_train, whose figures the README reports
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


@pytest.mark.parametrize("method", CHOSEN)
def test_each_row_of_the_readme_has_its_mark_and_each_mark_its_note(method: str) -> None:
    found = rows(README, method)
    assert len(found) == (1 if method == "griever.paths" else 2)  # the figures, and the advice where there is any
    marks = {mark for row in found for mark in re.findall(r"[¹²³]", row)}
    assert all(re.search(r"[¹²³]", row) for row in found), found
    (mark,) = marks
    assert "chosen" in notes(README)[mark]


def test_no_mark_is_without_a_note() -> None:
    assert set(re.findall(r"[¹²³]", README)) == set(notes(README))
    assert set(re.findall(r"[¹²³]", SIRERAG)) == set(notes(SIRERAG))


def test_held_out_figures_are_those_of_the_methods_page() -> None:
    (row,) = [line for line in README.splitlines() if "measured on the rest ¹" in line]
    assert " / ".join(re.findall(r"\d\d\.\d", row)) == "64.9 / 72.2 / 78.5"
    assert "held out 64.9 / 72.2 / 78.5" in GRIEVER
    note = notes(README)["¹"]
    composed, hybrid = re.search(
        r"\| \*\*`griever\.paths`\*\*, ours, not chosen on these \| [^|]*\| ([^|]*)\| ([^|]*)\|", GRIEVER
    ).groups()  # type: ignore[union-attr]
    for less, said in ((composed, "0.5 / 6.5 / 7.5"), (hybrid, "−0.5 / 3.5 / 3.5")):
        assert [figure.lstrip("+") for figure in re.findall(r"([+−]\d+\.\d) \(", less)] == said.split(" / ")
        assert said in note
    assert "hotpotqa_train was not looked at" in GRIEVER


def test_the_pages_of_methods_mark_them_too() -> None:
    assert all("chosen" in row for row in rows(GRIEVER, "griever.paths") if row.startswith("| **"))
    lifted = [line for line in SIRERAG.splitlines() if re.match(r"\| `sirerag\(.*ranking=lifted\)`", line)]
    assert len(lifted) == 6
    assert all("¹" in row for row in lifted)
    assert "neither is a blind test of it" in notes(SIRERAG)["¹"]
