"""What messages say to install, read from the metadata of the installed distribution."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

from ragindex import distribution
from ragindex.errors import MissingExtraError

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_distribution_is_the_one_of_this_project() -> None:
    assert distribution.installed().name == PROJECT["name"] != "ragindex"  # of another project on the package index
    assert distribution.installed().version == PROJECT["version"]
    assert distribution.upgrade_line() == f"pip install --upgrade {PROJECT['name']}"


def test_the_extras_are_those_of_the_project() -> None:
    def packages(lines: Iterable[str]) -> set[str]:
        return {distribution.package_of(line).lower() for line in lines}

    declared = PROJECT["optional-dependencies"]
    assert {extra: packages(lines) for extra, lines in distribution.extras().items()} == {
        extra: packages(lines) for extra, lines in declared.items()
    }


def test_an_install_line_names_packages_and_the_versions_that_work() -> None:
    assert distribution.install_line("pypdf", "umap-learn") == "pip install 'pypdf>=5' 'umap-learn>=0.5.7'"
    assert distribution.install_line("elasticsearch") == "pip install 'elasticsearch<9,>=8.15'"
    assert distribution.install_line("unheard-of") == "pip install 'unheard-of'"


def test_a_missing_package() -> None:
    with pytest.raises(MissingExtraError, match=r"^Tea needs the package pypdf, .* Run: pip install 'pypdf>=5'$"):
        distribution.require("no_such_module", "pypdf", "Tea")


def test_no_text_says_to_install_the_project_of_another() -> None:
    root = Path(__file__).parents[2]
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("*/**/*.py")]
    found = [
        str(page.relative_to(root))
        for page in pages
        if not any(part.startswith(".") for part in page.relative_to(root).parts)
        and re.search(r"pip install[^\n`]* '?ragindex[\['\s`\"]", page.read_text(encoding="utf-8"))
    ]
    assert len(pages) > 300
    assert found == []
