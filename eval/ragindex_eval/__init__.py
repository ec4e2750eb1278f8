"""Evaluation of retrievers: datasets, metrics, runs, statistics and reports. Enter by `compare` or `audit`."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragindex_eval.api import compare
    from ragindex_eval.auditing.audit import audit

__all__ = ["audit", "compare"]

_MODULES = {"audit": "ragindex_eval.auditing.audit", "compare": "ragindex_eval.api"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a function on first access, so that commands that do not need it start faster."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULES[name]), name)
