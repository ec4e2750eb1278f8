"""What messages say to install, read from the metadata of the installed distribution."""

import inspect
import re
import tomllib
from collections.abc import Iterable
from importlib import metadata

import pytest
from project import ROOT

from ragindex._util import distribution
from ragindex.errors import MissingExtraError
from ragindex.plugins.code_fingerprint import OURS

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_distribution_is_the_one_of_this_project() -> None:
    assert (
        distribution.find_distribution().name == PROJECT["name"] != "ragindex"
    )  # of another project on the package index
    assert distribution.find_distribution().version == PROJECT["version"]
    assert distribution.upgrade_line() == f"pip install --upgrade {PROJECT['name']}"


def test_the_extras_are_those_of_the_project() -> None:
    def packages(lines: Iterable[str]) -> set[str]:
        return {distribution.package_of(line).lower() for line in lines}

    declared = PROJECT["optional-dependencies"]
    assert {
        extra: packages(lines) for extra, lines in distribution.read_extras().items() if not extra.startswith("dev")
    } == {extra: packages(lines) for extra, lines in declared.items() if not extra.startswith("dev")}


def test_an_install_line_names_packages_and_the_versions_that_work() -> None:
    assert distribution.install_line("dspy", "umap-learn") == "pip install 'dspy>=3.0' 'umap-learn>=0.5.7'"
    assert distribution.install_line("elasticsearch") == "pip install 'elasticsearch<10,>=8.15'"
    assert distribution.install_line("unheard-of") == "pip install 'unheard-of'"


def test_a_missing_package() -> None:
    with pytest.raises(
        MissingExtraError, match=r"^Tea needs the package umap-learn, .* Run: pip install 'umap-learn>=0.5.7'$"
    ):
        distribution.require_module("no_such_module", "umap-learn", "Tea")


def test_all_missing_packages_are_named_in_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = ("mcp", "sse_starlette")
    monkeypatch.setattr(distribution, "find_spec", lambda module: None if module in missing else module)
    distribution.require_all_installed(("fastapi", "uvicorn"), "Tea")
    with pytest.raises(MissingExtraError, match=r"^Tea needs the package mcp, which is not .* 'mcp>=2'$"):
        distribution.require_all_installed(("fastapi", "mcp"), "Tea")
    with pytest.raises(MissingExtraError) as error:
        distribution.require_all_installed(distribution.SERVER_PACKAGES, "Tea")
    assert str(error.value) == (
        "Tea needs the packages mcp, sse-starlette, which are not installed. "
        "Run: pip install 'mcp>=2' 'sse-starlette>=2.1'"
    )


def test_the_packages_of_the_server_are_its_extra() -> None:
    lines = distribution.read_extras()["serve"]
    assert set(map(distribution.package_of, lines)) == set(distribution.SERVER_PACKAGES)


def test_no_text_says_to_install_the_project_of_another() -> None:
    folders = [ROOT / name for name in ("ragindex", "retrievers", "baselines", "eval", "docs", "tests")]
    pages = [
        *ROOT.glob("*.md"),
        *(page for folder in folders for page in folder.rglob("*") if page.suffix in (".md", ".py")),
    ]
    theirs = re.compile(r"""pip install[^\n`]* '?ragindex[\['\s`"]|dependencies = \["ragindex["\[]""")
    assert len(pages) > 300
    assert [str(page) for page in pages if theirs.search(page.read_text(encoding="utf-8"))] == []


def test_entry_points_of_all_groups_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    groups, read = ("ragindex.schemes", "ragindex.commands", "nobody"), metadata.entry_points
    expected = {group: set(read(group=group)) for group in groups}
    reads = list[int]()

    def count() -> object:
        reads.append(1)
        return read()

    monkeypatch.setattr(metadata, "entry_points", count)
    distribution._read_entry_points.cache_clear()
    assert {group: set(distribution.entry_points(group)) for group in groups} == expected
    assert len(reads) == 1


@pytest.mark.parametrize("group", ["ragindex.commands", "ragindex.schemes"])
def test_docstrings_read_from_source_are_those_of_the_code(group: str) -> None:
    points = [point for point in distribution.entry_points(group) if point.module.partition(".")[0] in OURS]
    assert len(points) > 10
    for point in points:
        assert distribution.read_docstring(point) == inspect.getdoc(point.load())
