"""The base class of rerankers, and the types of their results."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from ragindex.interfaces import OpenIndex
from ragindex.llm.tasks import Task
from ragindex.plugins.base import Plugin

TitledTexts: TypeAlias = Sequence[tuple[str, str]]
"""Titles and texts of passages."""
PlaceScores: TypeAlias = Sequence[tuple[int, float]]
"""Positions of candidates and their scores, as a reranker returned them and not yet validated."""


class PassageScorer(Protocol):
    """An open reranker. Thread-safe."""

    def scores(self, question: str, passages: TitledTexts) -> PlaceScores:
        """Score passages for a question. Return pairs of a position in `passages` and a score; higher is better."""
        ...


class Reranker(Plugin):
    """Base class of a reranker's parameters."""

    def tasks(self) -> tuple[Task[Any], ...]:
        """Return the tasks that the reranker gives the index's LLM. Default: none."""
        return ()

    @abstractmethod
    def open(self, index: OpenIndex) -> PassageScorer:
        """Open the reranker. Raises UsageError if something that it needs is missing."""
