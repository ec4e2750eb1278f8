"""The base class of rerankers, and what they give."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from ragindex.interfaces import OpenIndex
from ragindex.llm.tasks import Task
from ragindex.plugins.base import Plugin

TitledTexts: TypeAlias = Sequence[tuple[str, str]]
"""Titles and texts of passages."""
PlaceScores: TypeAlias = Sequence[tuple[int, float]]
"""Places of candidates and their scores as a reranker gave them, not yet checked."""


class PassageScorer(Protocol):
    """An opened reranker. Thread-safe."""

    def scores(self, question: str, passages: TitledTexts) -> PlaceScores:
        """Score passages for a question: places among `passages` and scores, higher for a better passage."""
        ...


class Reranker(Plugin):
    """Base class of a reranker's parameters."""

    def tasks(self) -> tuple[Task[Any], ...]:
        """What the reranker asks the index's LLM. Default: nothing."""
        return ()

    @abstractmethod
    def open(self, index: OpenIndex) -> PassageScorer:
        """Open the reranker. Raises UsageError where something is missing."""
