"""Evaluation of retrievers: datasets, metrics, runs, statistics and reports. The entry point is `compare`."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragindex_eval.api import compare

__all__ = ["compare"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import `compare` on first access, so that commands that do not need it start faster."""
        if name != "compare":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module("ragindex_eval.api").compare
