"""HippoRAG: personalised PageRank over the graph of phrases, from what a question names or from facts near it."""

from typing import Any, ClassVar

from ragindex.errors import MissingPartError
from ragindex.interfaces import OpenIndex, Part, Retriever
from ragindex.llm.tasks import Task
from ragindex.parts.text.passages import Passages
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex_baselines.hipporag.parameters import HippoRAGParameters
from ragindex_baselines.hipporag.parts.spread_vectors import SpreadVectors
from ragindex_baselines.hipporag.retriever import EntityRetriever, FactRetriever, Walked
from ragindex_baselines.hipporag.tasks import QUESTION_ENTITIES


class HippoRAG(HippoRAGParameters):
    """Passages by the walk of a personalised PageRank over a phrase graph.

    `mode`: `entities` (Gutiérrez et al., NeurIPS 2024) begins at the phrase nearest each entity that a language model
    or the rules find in the question, walks among phrases alone, and adds up the phrases of a passage. `facts`
    (HippoRAG 2, Gutiérrez et al., ICML 2025, without its filter by a language model) begins at the phrases of the
    `facts` triples nearest the question, and at all passages by `passage_weight` times how near they are; passages are
    nodes. `walk`: `push` looks only at what the walk reaches, to `tolerance`; `power` goes over the whole graph.
    """

    version: ClassVar[int] = 1

    def parts(self) -> tuple[Part[Any], ...]:
        """The graph and the passages' vectors; for facts, those of the triples, and for `push` the spread vectors."""
        common: tuple[Part[Any], ...] = (self.graph, Vectors(of=Passages()))
        if self.mode == "entities":
            return common
        facts = (*common, Vectors(of=self.graph.over))
        return (*facts, self._spread()) if self.walk == "push" else facts

    def tasks(self) -> tuple[Task[Any], ...]:
        """The entities of the question; for facts, nothing is asked."""
        return (QUESTION_ENTITIES,) if self.mode == "entities" else ()

    def open(self, index: OpenIndex) -> Retriever:
        """Raises MissingPartError."""
        phrases, passages = index.open_part(self.graph), index.open_part(Vectors(of=Passages()))
        walked = Walked(phrases.graph, passages, self, registry.label(self))
        if self.mode == "entities":
            return EntityRetriever(walked, phrases.vectors, index.encoder, index.llm)
        triples = index.open_part(Vectors(of=self.graph.over))
        spread = index.open_part(self._spread()) if self.walk == "push" else None
        if spread is not None and not spread.passages.equals(phrases.graph.passages):
            raise MissingPartError(
                f"The parts of {registry.label(self)} are of different corpora. "
                f"Run: ragindex index --index {index.folder} --methods '{registry.label(self)}'"
            )
        return FactRetriever(walked, triples, index.encoder, self.graph.key, spread)

    def _spread(self) -> SpreadVectors:
        return SpreadVectors(graph=self.graph, damping=self.damping)
