"""Pages that are written by hand: the navigation, tables, the changelog, and the keys of a how-to page."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from project import ROOT

from ragindex.serve.keys import load_keyring

UNLISTED = {"docs/dev/prompts_compared.md"}  # evidence, which the page on prompts leads to


def list_entries(entry: Any) -> Iterator[str]:
    """The pages of an entry of the navigation, and of those inside it."""
    if isinstance(entry, str):
        yield entry
    else:
        for inner in entry.values() if isinstance(entry, dict) else entry:
            yield from list_entries(inner)


def test_navigation_has_every_page_once() -> None:
    pages = sorted(list_entries(tomllib.loads((ROOT / "docs" / "zensical.toml").read_text("utf-8"))["project"]["nav"]))
    paths = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "decisions"]
    written = {path.relative_to(ROOT).as_posix() for path in paths}
    others = {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/dev/decisions/README.md", "examples/README.md"}
    assert pages == sorted(written - UNLISTED | others)


# ---------------------------------------------------------------- tables


def count_cells(row: str) -> int:
    """The number of cells of a row; an escaped bar separates none, a bar within code does."""
    return len(re.findall(r"(?<!\\)\|", row)) - 1


def shifted_rows(text: str) -> list[str]:
    """Return the rows with other cells than their header, in which a reader would see figures shifted."""
    shifted, wide, fenced = list[str](), 0, False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        if fenced or not line.startswith("|"):
            wide = 0
            continue
        wide = wide or count_cells(line)
        if count_cells(line) != wide:
            shifted.append(line)
    return shifted


def test_rows_have_the_cells_of_their_header() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    assert [(page.name, row) for page in pages for row in shifted_rows(page.read_text(encoding="utf-8"))] == []
    table = "| method | R@5 |\n|---|---|\n| `dense`, a\\|b | 62.2 |\n| `dense` | | 62.2 |\n"
    assert shifted_rows(table) == ["| `dense` | | 62.2 |"]
    assert shifted_rows(f"```\n{table}```\n\n| another |\n|---|\n") == []


# ---------------------------------------------------------------- single pages


def test_the_newest_version_of_the_changelog_is_that_of_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert headings[1].split()[0] == version
    assert len(set(headings)) == len(headings)


def test_keys_of_the_page_on_keys_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "how-to" / "give-out-keys.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "keys.toml").write_text(code)
    monkeypatch.setenv("RED_TEAM_KEY", "red-0123456789abcdef")
    (key,) = load_keyring(tmp_path / "keys.toml", ["my-index"]).keys
    assert (key.name, key.rights, key.budget and key.budget.limit) == ("red-team", {"read"}, 2.5)
