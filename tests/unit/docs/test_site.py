"""The navigation of the site leads to every page that a user reads."""

import tomllib
from collections.abc import Iterator
from typing import Any

from project import ROOT

UNLISTED = {"docs/dev/prompts_compared.md"}  # evidence, which the page on prompts leads to


def listed(entry: Any) -> Iterator[str]:
    """The pages of an entry of the navigation, and of those inside it."""
    if isinstance(entry, str):
        yield entry
    else:
        for inner in entry.values() if isinstance(entry, dict) else entry:
            yield from listed(inner)


def test_navigation_has_every_page_once() -> None:
    pages = sorted(listed(tomllib.loads((ROOT / "docs" / "zensical.toml").read_text("utf-8"))["project"]["nav"]))
    paths = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "decisions"]
    written = {path.relative_to(ROOT).as_posix() for path in paths}
    others = {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/dev/decisions/README.md", "examples/README.md"}
    assert pages == sorted(written - UNLISTED | others)
