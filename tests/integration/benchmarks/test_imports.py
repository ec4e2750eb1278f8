"""Benchmarks import names that are there."""

import ast
import importlib
from importlib.util import find_spec

import pytest
from project import ROOT

BENCHMARKS = sorted(str(file.relative_to(ROOT)) for file in (ROOT / "benchmarks").rglob("*.py"))


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_names_that_a_benchmark_imports_are_there(benchmark: str) -> None:
    """No test runs benchmarks, and mypy does not read them."""
    tree = ast.parse((ROOT / benchmark).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = [
        (node.module, alias.name)
        for node in imports
        if node.module and node.module.startswith(("ragindex", "benchmarks"))
        for alias in node.names
    ]
    missing = [(module, name) for module, name in names if not _has(module, name)]
    assert missing == []


def _has(module: str, name: str) -> bool:
    imported = importlib.import_module(module)
    return hasattr(imported, name) or (hasattr(imported, "__path__") and find_spec(f"{module}.{name}") is not None)
