"""Tables of the documentation: every row has as many cells as the header, or a reader would see figures shifted."""

import re
from pathlib import Path

import pytest
from project import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```")


def cells(row: str) -> int:
    """The number of cells of a row; an escaped bar separates none, a bar within code does."""
    return len(re.findall(r"(?<!\\)\|", row)) - 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_rows_have_the_cells_of_their_header(page: Path) -> None:
    wide, fenced = 0, False
    for line in page.read_text(encoding="utf-8").splitlines():
        fenced ^= bool(FENCE.match(line))
        if fenced or not line.startswith("|"):
            wide = 0
            continue
        wide = wide or cells(line)
        assert cells(line) == wide, f"{page.name}: {line}"


def test_a_shifted_row_is_found() -> None:
    assert cells("| `dense`, a\\|b | 62.2 |") == cells("|---|---|") == 2
    assert cells("| `dense` | | 62.2 |") == 3
