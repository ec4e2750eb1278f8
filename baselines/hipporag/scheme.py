"""HippoRAG: personalised PageRank over the graph of phrases, from what a question names or from facts near it."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from baselines.hipporag.retriever import EntityRetriever, FactRetriever, Walked
from baselines.hipporag.spread_vectors import SpreadVectors
from baselines.hipporag.tasks import QUESTION_ENTITIES
from ragindex import registry
from ragindex.errors import MissingPartError
from ragindex.interfaces import Part, Retriever
from ragindex.language.tasks import Task
from ragindex.parts.passages import Passages
from ragindex.parts.phrase_graph import PhraseGraph
from ragindex.parts.vectors import Vectors
from ragindex.plugin import Plugin
from ragindex.workspace import Workspace

GraphField = Annotated[
    PhraseGraph, BeforeValidator(registry.part), PlainSerializer(registry.describe, return_type=dict[str, Any])
]


class HippoRAG(Plugin):
    """Passages by the walk of a personalised PageRank over a phrase graph.

    `mode`: `entities` (Gutiérrez et al., NeurIPS 2024) begins at the phrase nearest each entity that a language model
    or the rules find in the question, walks among phrases alone, and adds up the phrases of a passage. `facts`
    (HippoRAG 2, Gutiérrez et al., ICML 2025, without its filter by a language model) begins at the phrases of the
    `facts` triples nearest the question, and at all passages by `passage_weight` times how near they are; passages are
    nodes. `walk`: `push` looks only at what the walk reaches, to `tolerance`; `power` goes over the whole graph.
    """

    version: ClassVar[int] = 1
    mode: Literal["entities", "facts"] = "entities"
    graph: GraphField = PhraseGraph()
    facts: int = Field(default=5, ge=1)
    passage_weight: float = Field(default=0.05, ge=0)
    damping: float = Field(default=0.5, ge=0, lt=1)
    walk: Literal["push", "power"] = "push"
    tolerance: float = Field(default=3e-7, gt=0, lt=1)

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

    def open(self, workspace: Workspace) -> Retriever:
        """Raises MissingPartError."""
        phrases, passages = workspace.open_part(self.graph), workspace.open_part(Vectors(of=Passages()))
        walked = Walked(phrases.graph, passages, self, registry.label(self))
        if self.mode == "entities":
            return EntityRetriever(walked, phrases.vectors, workspace.encoder, workspace.llm)
        triples = workspace.open_part(Vectors(of=self.graph.over))
        spread = workspace.open_part(self._spread()) if self.walk == "push" else None
        if spread is not None and not spread.passages.equals(phrases.graph.passages):
            raise MissingPartError(
                f"The parts of {registry.label(self)} are of different corpora. "
                f"Run: ragindex index --workspace {workspace.folder} --methods '{registry.label(self)}'"
            )
        return FactRetriever(walked, triples, workspace.encoder, self.graph.key, spread)

    def _spread(self) -> SpreadVectors:
        return SpreadVectors(graph=self.graph, damping=self.damping)
