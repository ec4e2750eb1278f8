"""HippoRAG: personalised PageRank over a graph of phrases, from the question's entities or from facts near it."""

from typing import Any, ClassVar

from ragindex.errors import MissingPartError
from ragindex.interfaces import OpenIndex, Part, Retriever
from ragindex.llm.tasks import Task
from ragindex.parts.text.passages import Passages
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.retrieval.hits import PassingRecords
from ragindex_baselines.hipporag.parameters import HippoRAGParameters
from ragindex_baselines.hipporag.parts.spread_vectors import SpreadVectors
from ragindex_baselines.hipporag.retriever import EntityRetriever, FactRetriever, FilteredWalks, Walked
from ragindex_baselines.hipporag.tasks import QUESTION_ENTITIES


class HippoRAG(HippoRAGParameters):
    """Passages ranked by personalised PageRank over a graph of phrases.

    `mode=entities` is HippoRAG (Gutiérrez et al., NeurIPS 2024). It starts at the phrase nearest to each
    entity that an LLM or the rules find in the question, walks among phrases only, and scores a passage by
    the sum over its phrases. `mode=facts` is HippoRAG 2 (Gutiérrez et al., ICML 2025) without its LLM filter.
    Passages are nodes of its graph. It starts at the phrases of the `facts` triples nearest to the question,
    and at all passages, weighted by `passage_weight` times their similarity to the question. `walk` computes
    PageRank by `push`, which visits only what the walk reaches, to `tolerance`, or by `power` iteration over
    the whole graph.
    """

    version: ClassVar[int] = 2

    def parts(self) -> tuple[Part[Any], ...]:
        """Return the graph and the passages' vectors.

        `mode=facts` adds the vectors of the triples, and with `walk=push` the spread vectors.
        """
        common: tuple[Part[Any], ...] = (self.graph, Vectors(of=Passages()))
        if self.mode == "entities":
            return common
        facts = (*common, Vectors(of=self.graph.over))
        return (*facts, self._spread()) if self.walk == "push" else facts

    def tasks(self) -> tuple[Task[Any], ...]:
        """Return the task of the question's entities; `mode=facts` asks nothing."""
        return (QUESTION_ENTITIES,) if self.mode == "entities" else ()

    def open(self, index: OpenIndex) -> Retriever:
        """Open the retriever of the mode. Raises MissingPartError if a part is missing or of another corpus."""
        phrases, passages = index.open_part(self.graph), index.open_part(Vectors(of=Passages()))
        whole = Walked(phrases.graph, passages, self, registry.label(self))
        walks = FilteredWalks(whole, phrases, PassingRecords(passages))
        if self.mode == "entities":
            return EntityRetriever(walks, index.encoder, index.llm)
        triples = index.open_part(Vectors(of=self.graph.over))
        spread = index.open_part(self._spread()) if self.walk == "push" else None
        if spread is not None and not spread.passages.equals(phrases.graph.passages):
            raise MissingPartError(
                f"The parts of {registry.label(self)} are of different corpora. "
                f"Run: ragindex index --index {index.folder} --methods '{registry.label(self)}'"
            )
        return FactRetriever(walks, triples, index.encoder, self.graph.key, spread)

    def _spread(self) -> SpreadVectors:
        return SpreadVectors(graph=self.graph, damping=self.damping)
