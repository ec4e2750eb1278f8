"""Tables of the documentation: every row has as many cells as the header, or a reader would see figures shifted."""

import re

from project import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```")


def cells(row: str) -> int:
    """The number of cells of a row; an escaped bar separates none, a bar within code does."""
    return len(re.findall(r"(?<!\\)\|", row)) - 1


def shifted_rows(text: str) -> list[str]:
    """Return the rows with other cells than their header."""
    shifted, wide, fenced = list[str](), 0, False
    for line in text.splitlines():
        fenced ^= bool(FENCE.match(line))
        if fenced or not line.startswith("|"):
            wide = 0
            continue
        wide = wide or cells(line)
        if cells(line) != wide:
            shifted.append(line)
    return shifted


def test_rows_have_the_cells_of_their_header() -> None:
    assert [(page.name, row) for page in PAGES for row in shifted_rows(page.read_text(encoding="utf-8"))] == []


def test_a_shifted_row_is_found() -> None:
    table = "| method | R@5 |\n|---|---|\n| `dense`, a\\|b | 62.2 |\n| `dense` | | 62.2 |\n"
    assert shifted_rows(table) == ["| `dense` | | 62.2 |"]
    assert shifted_rows(f"```\n{table}```\n\n| another |\n|---|\n") == []
