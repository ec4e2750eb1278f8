"""GraphRAG: an entity graph, reports on its communities, and a search around the entities nearest the question."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from baselines.graphrag.retriever import GraphRAGRetriever
from ragindex.interfaces import Part, Retriever
from ragindex.parts.communities import Communities
from ragindex.parts.entity_graph import EntityVectors
from ragindex.parts.passages import Passages
from ragindex.plugin import Plugin
from ragindex.registry import PartField, label, of_class
from ragindex.workspace import Workspace


class GraphRAG(Plugin):
    """Passages that the `entities` nearest the question come from, and in notes what else surrounds these.

    Passages come entity by entity, the nearest first, and within an entity by how many of its triples they state. Notes
    are the reports on the entities' communities, of at most `note_tokens` tokens, and their relations, `relations` an
    entity, of at most `relation_tokens` tokens (estimated; 0: none).
    """

    version: ClassVar[int] = 1
    communities: Annotated[PartField, of_class(Communities)] = Communities()
    entities: int = Field(default=10, ge=1)
    relations: int = Field(default=10, ge=0, le=50)
    note_tokens: int = Field(default=300, ge=0)
    relation_tokens: int = Field(default=700, ge=0)

    def parts(self) -> tuple[Part[Any], ...]:
        """Passages, the graph's entities with vectors, the communities with reports."""
        return (Passages(), EntityVectors(of=self.communities.of), self.communities)

    def open(self, workspace: Workspace) -> Retriever:
        """One encoding, one search and four look-ups a question; no language model."""
        passages, vectors, communities = (workspace.open_part(part) for part in self.parts())
        graph = workspace.open_part(self.communities.of)
        return GraphRAGRetriever(passages, vectors, graph, communities, workspace.encoder, self, label(self))
