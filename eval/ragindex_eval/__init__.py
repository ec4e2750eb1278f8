"""Compare retrievers: data sets, metrics, runs, statistics, reports. `compare` is the comparison as a function."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragindex_eval.api import compare

__all__ = ["compare"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """`compare`, imported when it is asked for: commands that need less import less."""
        if name != "compare":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module("ragindex_eval.api").compare
