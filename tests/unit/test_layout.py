"""The layout of the packages: what import-linter's contracts in pyproject.toml do not hold."""

import ast
import re
import zipfile
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
from hatchling.builders.wheel import WheelBuilder
from project import ROOT

PACKAGES = ("ragindex", "ragindex_retrievers", "ragindex_baselines", "ragindex_eval")


def test_no_module_imports_itself_through_others() -> None:
    """Imports for type checking and inside functions count too."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    order = list(
        TopologicalSorter(
            {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
        ).static_order()
    )
    assert len(order) == len(graph.modules) > 300


def test_a_wheel_has_no_other_top_level_names(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == set(PACKAGES)
    for package in PACKAGES:
        parent = ROOT / package.removeprefix("ragindex_") if package != "ragindex" else ROOT
        data = {
            path
            for path in (parent / package).rglob("*.*")
            if path.suffix in {".jinja", ".html", ".yaml", ".txt", ".json", ".template"}
        }
        assert {str(path.relative_to(parent)) for path in data} <= set(names)


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/dev/design.md"])
def test_files_that_pages_name_are_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"\b(?:tests|docs|eval|baselines|retrievers|ragindex|benchmarks)/[\w./-]+\w", text))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_a_public_name_is_defined_once() -> None:
    """`compare` and `read` are commands and functions; `compare` also a front door, which imports no evaluation."""
    places: dict[str, set[str]] = {}
    for root in (ROOT / "ragindex", ROOT / "retrievers", ROOT / "baselines", ROOT / "eval"):
        for file in root.rglob("*.py"):
            for name in _public_names(ast.parse(file.read_text(encoding="utf-8"))):
                places.setdefault(name, set()).add(str(file.relative_to(ROOT)))
    assert len(places) > 1000
    several = {name: sorted(files) for name, files in places.items() if len(files) > 1}
    assert several.keys() == {"compare", "read"}, several


def _public_names(module: ast.Module) -> Iterator[str]:
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [statement.name]
        elif isinstance(statement, ast.Assign):
            names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            names = [statement.target.id]
        else:
            names = []
        yield from (name for name in names if not name.startswith("_"))
