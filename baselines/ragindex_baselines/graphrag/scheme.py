"""GraphRAG: a graph of entities, reports on its communities, and a search around the entities near the question."""

from typing import Any, ClassVar

from ragindex.interfaces import OpenIndex, Part, Retriever
from ragindex.parts.text.passages import Passages
from ragindex.plugins.registry import label
from ragindex.retrieval.hits import PassingRecords
from ragindex_baselines.graphrag.parameters import GraphRAGParameters
from ragindex_baselines.graphrag.parts.entity_graph import EntityVectors
from ragindex_baselines.graphrag.retriever import GraphRAGRetriever


class GraphRAG(GraphRAGParameters):
    """Passages of the entities nearest to the question, with notes on these entities' communities and relations.

    The nearest `entities` are taken. Passages are ranked entity by entity, nearest first, and for each entity by the
    number of its triples that they state. Notes are the reports on the entities' communities, up to `note_tokens`
    tokens, and the entities' relations, `relations` per entity, up to `relation_tokens` tokens (estimated; 0: none).
    """

    version: ClassVar[int] = 1

    def parts(self) -> tuple[Part[Any], ...]:
        """Return the passages, the entities with vectors, and the communities with reports."""
        return (Passages(), EntityVectors(of=self.communities.of), self.communities)

    def open(self, index: OpenIndex) -> Retriever:
        """Open a retriever: one encoding, one search and four look-ups per question, and no LLM."""
        passages, vectors, communities = (index.open_part(part) for part in self.parts())
        graph = index.open_part(self.communities.of)
        passing = PassingRecords(passages)
        return GraphRAGRetriever(passages, passing, vectors, graph, communities, index.encoder, self, label(self))
