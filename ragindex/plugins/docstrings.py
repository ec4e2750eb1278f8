"""The docstrings of plugins, read without importing them, so that lists of plugins take no time."""

import ast
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path

from ragindex.plugins.code_fingerprint import OURS


def read_docstring(point: EntryPoint) -> str | None:
    """Return the docstring of a function or class of this distribution from its source; None for other packages."""
    source = find_spec(point.module) if point.module.partition(".")[0] in OURS else None
    if source is None or source.origin is None:
        return None
    for node in ast.parse(Path(source.origin).read_bytes()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == point.attr:
            return ast.get_docstring(node)
    return None
