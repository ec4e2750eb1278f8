"""The three GeAR schemes and their parameters (Shen et al., ACL 2025; readings G1 to G9 in docs/methods/gear.md)."""

from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from ragindex.interfaces import OpenIndex, Part, Retriever, Scheme
from ragindex.llm.tasks import Task
from ragindex.parts.text.passages import OVER_PASSAGES, Passages, PassagesField
from ragindex.parts.triples.triples import Triples
from ragindex.parts.vectors.base_field import FlatField, is_flat, over
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.plugins.registry import PartField, SchemeField, label
from ragindex_retrievers.gear.agent import Agent, Loop
from ragindex_retrievers.gear.beams import Scoring, Search
from ragindex_retrievers.gear.expansion import Expansion, Linker, NaiveRetriever, SyncRetriever, SyncRound, TripleReader
from ragindex_retrievers.gear.tasks import READ, REASON, REWRITE_QUESTION
from ragindex_retrievers.gear.triple_graph import TripleGraph


class ExpandingScheme(Scheme):
    """Base class of the three schemes: a base retriever, expanded by a beam search through triples (Alg. 1).

    With `base_k` null the base is asked for k passages, so every k is a run of its own, as in appendix B.2.
    """

    version: ClassVar[int] = 1
    base: SchemeField = Field(
        default_factory=lambda: registry.scheme("hybrid"), description="Retriever that is expanded (C in the paper)."
    )
    base_k: int | None = Field(default=None, ge=1, description="Passages asked of the base. null: k.")
    graph: PartField = Field(default=TripleGraph(), description="Triples and their neighbours (T in the paper).")
    beam_width: int = Field(default=10, ge=1, description="Beam width (b in Algorithm 1).")
    beam_length: int = Field(default=2, ge=1, description="Triples per chain (l in Algorithm 1).")
    neighbours_per_beam: int = Field(default=100, ge=1, description="Neighbours considered per beam.")
    gamma: float | None = Field(default=None, gt=0, description="Diversity discount (γ in Algorithm 1). null: 2b.")
    diversity: bool = Field(default=True, description="Discount candidates that extend the same beam.")
    scoring: Scoring = Field(
        default="refined",
        description="How chains are scored: each one encoded, from stored vectors, or by stored vectors first "
        "and then encoded.",
    )
    survivors: int | None = Field(
        default=None, ge=1, description="With scoring=refined: chains that are encoded. null: 2b."
    )
    flatten: Literal["level", "beam"] = Field(
        default="level", description="Order in which chains become one ranking: level by level, or beam by beam (G2)."
    )
    dead_end: Literal["drop", "keep"] = Field(
        default="drop", description="Chains that nothing extends are dropped, or kept as they are (G8)."
    )
    triple_identity: Literal["record", "spo"] = Field(
        default="record",
        description="When two triples are the same: the same record, or the same subject, predicate and object (G1).",
    )
    over: PassagesField = OVER_PASSAGES

    @field_validator("graph")
    @classmethod
    def _is_graph(cls, graph: Part[Any]) -> Part[Any]:
        if not isinstance(graph, TripleGraph) or not isinstance(graph.over, Triples):
            raise ValueError("a triple_graph over triples, as triple_graph(numbers=false)")
        return graph

    def depends_on_k(self, k: int) -> bool:
        """Return True if the base is asked for k passages."""
        return self.base_k is None

    def parts(self) -> tuple[Part[Any], ...]:
        """Return the parts of the base, the passages, the triples with their vectors, and the graph of triples."""
        return (*self.base.parts(), Passages(), Vectors(of=self.graph.over), self.graph)

    def expansion(self, index: OpenIndex) -> Expansion:
        """Open the search through the triples."""
        width = self.beam_width
        search = Search(
            width,
            self.beam_length,
            self.neighbours_per_beam,
            2 * width if self.gamma is None else self.gamma,
            self.diversity,
            self.scoring,
            2 * width if self.survivors is None else self.survivors,
            self.dead_end,
            self.triple_identity,
        )
        triples, passages = index.open_part(Vectors(of=self.graph.over)), index.open_part(Passages())
        graph, source = index.open_part(self.graph), label(self)
        return Expansion(graph, triples, passages, index.encoder, search, self.flatten, source)


class Naive(ExpandingScheme):
    """Beam search over a graph of triples, from all triples of the base's passages, without an LLM (section 6.2)."""

    def open(self, index: OpenIndex) -> Retriever:
        """Return a retriever that calls the base once per batch and runs one beam search per question."""
        return NaiveRetriever(self.base.open(index), self.base_k, self.expansion(index))


class LinkingScheme(ExpandingScheme):
    """Base class of SyncGE and the agent, which link triples read by an LLM to triples of the graph.

    In the paper the base searches both passages and triples (Eqs. 2 and 10). A base that cannot search triples is
    replaced by `hybrid` there. `link_base` searches the triples, whatever its own `over` is.
    """

    version: ClassVar[int] = 2
    link_base: FlatField | None = Field(
        default=None,
        description="Method that links the triples that were read to triples of the graph. null: the base if it "
        "searches one part `over`, else hybrid.",
    )

    def link(self) -> Scheme:
        """Return the method that searches the triples."""
        base = self.base if is_flat(self.base) else registry.scheme("hybrid")
        return over(self.link_base or base, self.graph.over)

    def parts(self) -> tuple[Part[Any], ...]:
        """Return the parts of the base class and of the linking scheme."""
        return (*super().parts(), *self.link().parts())

    def round(self, index: OpenIndex) -> SyncRound:
        """Open one round of reading, linking and searching."""
        linker = Linker(self.link().open(index), self.graph.over)
        return SyncRound(TripleReader(index.llm, index.language), linker, self.expansion(index))


class Sync(LinkingScheme):
    """Beam search over a graph of triples, from those that an LLM reads in the base's passages (section 4).

    The beam search starts from the triples of the graph that are nearest to them.
    """

    def tasks(self) -> tuple[Task[Any], ...]:
        """Return the LLM task: one read per question."""
        return (READ,)

    def open(self, index: OpenIndex) -> Retriever:
        """Return a retriever with one base call per batch.

        Each question then takes one read, one linking step and one beam search.
        """
        return SyncRetriever(self.base.open(index), self.base_k, self.round(index))


class Gear(LinkingScheme):
    """An LLM agent: rounds of `gear.sync` add triples to a memory until it answers the question (section 5).

    The paper runs at most 4 rounds on MuSiQue, and 2 on 2Wiki and HotpotQA. It does not state
    `passage_link_k`.
    """

    base_k: int = Field(default=10, ge=1, description="Passages asked of the base in each round.")
    iterations: int = Field(default=4, ge=1, description="Rounds at most (n in section 5).")
    passage_link_k: int = Field(default=10, ge=1, description="Passages linked to each triple of the memory (G6).")
    sync_query: Literal["current", "original"] = Field(
        default="current",
        description="Question that read and beams of later rounds take; the base searches with the current one (G5).",
    )
    sync_memory: bool = Field(default=False, description="Give the first read the memory besides the question (G5).")
    gist_source: Literal["fused", "expanded"] = Field(
        default="fused", description="Passages that are read: after fusion, or after expansion (G5)."
    )
    repeated: Literal["stop", "ask"] = Field(
        default="stop",
        description="A rewritten question that was asked before ends the rounds, or is asked again (G9).",
    )
    show_asked: bool = Field(
        default=False,
        description="Show the model that rewrites the questions that were asked before, which Eq. 7 does not (G9).",
    )

    def tasks(self) -> tuple[Task[Any], ...]:
        """Return the LLM tasks: two reads, one reasoning step and one rewrite per iteration."""
        return (READ, REASON, REWRITE_QUESTION)

    def open(self, index: OpenIndex) -> Retriever:
        """Return a retriever that answers one question at a time."""
        loop = Loop(**{name: getattr(self, name) for name in Loop.__dataclass_fields__})
        return Agent(self.base.open(index), self.round(index), index.llm, loop)
