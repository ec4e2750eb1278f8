"""Eight short documents about mills, and 32 judged questions about them, half of which name the title."""

import csv
from pathlib import Path

from command_line import write

_ROWS = ("name", "river", "grain", "builder", "year")
_MILLS = (
    ("Anna", "Sarn", "rye", "Ulla Brandt", "1711"),
    ("Quill", "Orla", "oats", "Aldous Penn", "1722"),
    ("Velka", "Tamm", "wheat", "Mara Hollis", "1733"),
    ("Stern", "Irre", "barley", "Jonas Vey", "1744"),
    ("Dorn", "Wend", "maize", "Greta Holm", "1755"),
    ("Falk", "Ruhn", "millet", "Peter Anders", "1766"),
    ("Lund", "Ebba", "spelt", "Clara Wood", "1777"),
    ("Marsh", "Neth", "buckwheat", "Otto Kern", "1788"),
)
_TEXT = "# {name}\n\nThe mill of {name} stands by the {river} and grinds {grain}. {builder} built it in {year}.\n"
_QUESTIONS = (
    "Which of them stands by the {river}?",
    "What does {name} grind?",
    "When did {builder} build one?",
    "Who built the mill of {name}?",
)


def write_mills(folder: Path, count: int = 32) -> list[tuple[str, str]]:
    """Write mills/ and, with the first `count` questions, questions.csv; return all questions and their documents."""
    mills = [dict(zip(_ROWS, row, strict=True)) for row in _MILLS]
    write(folder / "mills", {f"{mill['name'].lower()}.md": _TEXT.format(**mill) for mill in mills})
    questions = [(text.format(**mill), f"{mill['name'].lower()}.md") for text in _QUESTIONS for mill in mills]
    write_questions(folder / "questions.csv", questions[:count])
    return questions


def write_questions(file: Path, questions: list[tuple[str, str]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows([("question", "documents"), *questions])
