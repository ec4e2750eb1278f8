"""Comparisons by the command that are not recorded in MLflow, which takes seconds."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ragindex_eval.cli import compare, judge, recommend
from ragindex_eval.mlflow.live import LiveRuns
from ragindex_eval.run.settings import CompareSettings


class _NoRuns(LiveRuns):
    def watch(self, *arguments: object) -> None:
        """Record nothing."""


@contextmanager
def _record_nothing(settings: CompareSettings) -> Iterator[LiveRuns]:
    yield _NoRuns("", None, Path())


def record_nothing(monkeypatch: pytest.MonkeyPatch, run: str | None = None) -> None:
    """Record no comparison, recommendation or judging; `run` is the id of the parent run that the command is given."""
    monkeypatch.setattr(compare, "record_live", _record_nothing)
    monkeypatch.setattr(compare, "track", lambda study, begun, folder: run)
    monkeypatch.setattr(recommend, "track_recommendation", lambda *recorded: None)
    monkeypatch.setattr(judge, "track_judging", lambda *recorded: None)
