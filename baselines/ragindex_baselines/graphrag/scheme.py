"""GraphRAG: an entity graph, reports on its communities, and a search around the entities nearest the question."""

from typing import Any, ClassVar

from ragindex.interfaces import OpenIndex, Part, Retriever
from ragindex.parts.text.passages import Passages
from ragindex.plugins.registry import label
from ragindex_baselines.graphrag.parameters import GraphRAGParameters
from ragindex_baselines.graphrag.parts.entity_graph import EntityVectors
from ragindex_baselines.graphrag.retriever import GraphRAGRetriever


class GraphRAG(GraphRAGParameters):
    """Passages that the `entities` nearest the question come from, and in notes what else surrounds these.

    Passages come entity by entity, the nearest first, and within an entity by how many of its triples they state. Notes
    are the reports on the entities' communities, of at most `note_tokens` tokens, and their relations, `relations` an
    entity, of at most `relation_tokens` tokens (estimated; 0: none).
    """

    version: ClassVar[int] = 1

    def parts(self) -> tuple[Part[Any], ...]:
        """Passages, the graph's entities with vectors, the communities with reports."""
        return (Passages(), EntityVectors(of=self.communities.of), self.communities)

    def open(self, index: OpenIndex) -> Retriever:
        """One encoding, one search and four look-ups a question; no language model."""
        passages, vectors, communities = (index.open_part(part) for part in self.parts())
        graph = index.open_part(self.communities.of)
        return GraphRAGRetriever(passages, vectors, graph, communities, index.encoder, self, label(self))
