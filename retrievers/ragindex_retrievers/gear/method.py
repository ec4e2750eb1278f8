"""The GeAR schemes and their parameters (Shen et al., ACL 2025; readings: docs/dev/evidence/gear.md)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from ragindex.accounting import ledger
from ragindex.encoders.vector_cache import share_question_vectors
from ragindex.errors import LLMError
from ragindex.interfaces import OpenIndex, Part, Retriever, Scheme
from ragindex.interfaces.llm import LLM
from ragindex.llm.tasks import Task
from ragindex.parts.text.passages import OVER_PASSAGES, Passages, PassagesField
from ragindex.parts.triples.triples import Triples
from ragindex.parts.vectors.base_field import FlatField, is_flat, over
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.plugins.registry import PartField, SchemeField, label
from ragindex.retrieval.fusion import reciprocal_rank_fusion
from ragindex.retrieval.hits import check_queries
from ragindex.retrieval.stages import record_ranking
from ragindex.retrieval.trace import IF_STOPPED, KEPT_IDS, Trace
from ragindex.types import Hit, Query, Retrieval, Triple
from ragindex_retrievers.gear.beams import Scoring, Search
from ragindex_retrievers.gear.expansion import (
    ExpandingRetriever,
    Expansion,
    Linker,
    SyncRound,
    TripleReader,
)
from ragindex_retrievers.gear.tasks import READ, REASON, REWRITE_QUESTION, Reasoning
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

    def _parts(self) -> tuple[Part[Any], ...]:
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

    def _open(self, index: OpenIndex) -> Retriever:
        """Return a retriever that calls the base once per batch and runs one beam search per question."""
        return ExpandingRetriever(self.base.open(index), self.base_k, self.expansion(index))


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

    def _parts(self) -> tuple[Part[Any], ...]:
        """Return the parts of the base class and of the linking scheme."""
        return (*super()._parts(), *self.link().parts())

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

    def _open(self, index: OpenIndex) -> Retriever:
        """Return a retriever with one base call per batch.

        Each question then takes one read, one linking step and one beam search.
        """
        sync = self.round(index)
        return ExpandingRetriever(self.base.open(index), self.base_k, sync.expansion, sync)


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

    def _open(self, index: OpenIndex) -> Retriever:
        """Return a retriever that answers one question at a time."""
        return Agent(self.base.open(index), self.round(index), index.llm, self)


# ---------------------------------------------------------------- the agent (section 5)


MEMORY = "gist memory"
_UNREADABLE_KINDS = frozenset(("malformed", "empty", "truncated"))


@dataclass(slots=True)
class _State:
    """State of one question. `lengths` are those of the memory after each iteration; `notes` are the base's notes."""

    query: Query
    questions: list[str]
    trace: Trace = field(default_factory=Trace)
    memory: list[Triple] = field(default_factory=list)
    rounds: list[tuple[Hit, ...]] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Return the number of the current iteration, from 1."""
        return len(self.rounds)


@dataclass(frozen=True, slots=True)
class Agent:
    """Retriever of the agent (`ragindex_retrievers.gear.method.Gear`)."""

    base: Retriever
    sync: SyncRound
    llm: LLM
    settings: Gear

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Return the best k hits per query, one query after the other, since each has its own rounds."""
        check_queries(queries, k)
        return [replace(self, sync=self.sync.for_question())._answered(query, k) for query in queries]

    def _answered(self, query: Query, k: int) -> Retrieval:
        state = _State(query, [query.text])
        end = self._rounds(state)
        hits = self._final(state)
        record_ranking("fusion", hits, k)
        with state.trace.step(state.n, MEMORY, query.text) as step:
            step["triples"], step["note"] = tuple(state.memory), f"stopped: {end}"
        return Retrieval(hits[:k], tuple(state.trace.steps), tuple(state.notes))

    def _rounds(self, state: _State) -> str:
        """Run rounds until the memory answers the question, and return why they stopped."""
        for _ in range(self.settings.iterations):
            self._round(state)
            reasoned = self._reasoned(state)
            if reasoned.answerable:
                return "the memory answers the question"
            if state.n == self.settings.iterations:
                break
            question = self._rewritten(state, reasoned)
            repeated = _normalize_question(question) in map(_normalize_question, state.questions)
            if self.settings.repeated == "stop" and (repeated or not question):
                return "the next question was asked before" if repeated else "there is no next question"
            state.questions.append(question or state.questions[-1])
        return f"after {state.n} iterations, of at most {self.settings.iterations}"

    # ------------------------------------------------------------ one iteration

    def _round(self, state: _State) -> None:
        """Retrieve and extend the memory: steps 1 and 2 (Eqs. 1 to 5)."""
        current, n = replace(state.query, text=state.questions[-1]), state.n + 1
        with share_question_vectors():
            base = self.base.retrieve([current], self.settings.base_k)[0]
            searched = state.query if self.settings.sync_query == "original" else current
            vector = self.sync.expansion.encoder.encode_queries([searched.text])[0]
        state.trace.of_base(base.trace, n)
        state.notes.update(dict.fromkeys(base.notes))
        known = state.memory if self.settings.sync_memory else ()
        expanded = self.sync.expanded(searched, base.hits, vector, state.trace, n, known)
        state.rounds.append(expanded.hits)
        passages = expanded.hits
        if self.settings.gist_source == "expanded":
            by_id = {hit.id: hit for hit in expanded.hits}
            passages = tuple(by_id[id] for id in expanded.chain_passages)
        triples = self.sync.reader.read(state.query.text, passages, state.memory, state.trace, n, "gist read")
        state.memory.extend(triples)
        state.lengths.append(len(state.memory))

    def _reasoned(self, state: _State) -> Reasoning:
        """Ask whether the memory answers the question (Eq. 6).

        An unreadable reply counts as No and is counted in the ledger; a missing reply raises LLMError.
        """
        question = state.query.text
        inputs = {"question": question, "triples": state.memory, "language": self.sync.reader.language}
        with state.trace.step(state.n, "reason", question) as step:
            try:
                reasoned = self.llm.run(REASON, inputs)
            except LLMError as error:
                if error.kind not in _UNREADABLE_KINDS:
                    raise
                ledger.count_outcome(REASON.name, "taken for no")
                reasoned = Reasoning(answerable=False, why=f"the reply could not be read: {error}")
            step["note"] = f"answerable: {reasoned.answer}" if reasoned.answerable else f"not yet: {reasoned.why}"
        return reasoned

    def _rewritten(self, state: _State, reasoned: Reasoning) -> str:
        """Return the next question (Eq. 7); with `show_asked`, the model also sees those that were asked before."""
        question, language = state.query.text, self.sync.reader.language
        known = {"question": question, "triples": state.memory, "reason": reasoned.why}
        earlier = state.questions if self.settings.show_asked else []
        inputs = {**known, "asked": earlier, "language": language}
        with state.trace.step(state.n, "rewrite", question) as step:
            question_text = self.llm.run(REWRITE_QUESTION, inputs).question.strip()
            step["note"] = question_text
        return question_text

    # ------------------------------------------------------------ after termination

    def _linked(self, state: _State) -> "_Links":
        """Return the ranking of passages that each triple of the memory leads to (Eqs. 8 and 10)."""
        triples, k = list(dict.fromkeys(state.memory)), self.settings.passage_link_k
        if not triples:
            return _Links({}, ())
        with state.trace.step(state.n, "passageLink", state.query.text) as step:
            queries = self.sync.linker.queries(triples, state.query)
            with share_question_vectors():
                by_passage = [retrieval.hits for retrieval in self.base.retrieve(queries, k)]
                by_triple = self.sync.linker.passages(queries, k)
            rankings = {
                triple: _take_ids(reciprocal_rank_fusion([[hit.id for hit in hits], passages]), k)
                for triple, hits, passages in zip(triples, by_passage, by_triple, strict=True)
            }
            step["triples"] = tuple(triples)
            step["ids"] = tuple(dict.fromkeys(id for ranking in rankings.values() for id in ranking))
        return _Links(rankings, tuple(hit for hits in by_passage for hit in hits))

    def _final(self, state: _State) -> tuple[Hit, ...]:
        """Return the final ranking (Eq. 9), and trace the ranking that stopping at each iteration would give."""
        links = self._linked(state)
        for n in range(1, state.n + 1):
            with state.trace.step(n, IF_STOPPED, state.query.text) as step:
                step["ids"] = _take_ids(reciprocal_rank_fusion(_list_rankings(state, links, n)), KEPT_IDS)
        known = [*links.known, *(hit for hits in state.rounds for hit in hits)]
        return self.sync.expansion.fused(_list_rankings(state, links, state.n), known)


@dataclass(frozen=True, slots=True)
class _Links:
    """Ranking of passages by triple, and the linked passages that are known as hits."""

    rankings: dict[Triple, tuple[str, ...]]
    known: tuple[Hit, ...]


def _list_rankings(state: _State, links: _Links, n: int) -> list[Sequence[str]]:
    """Return the rankings that Eq. 9 fuses after `n` iterations.

    A triple that is in the memory twice contributes two rankings.
    """
    linked: list[Sequence[str]] = [links.rankings[triple] for triple in state.memory[: state.lengths[n - 1]]]
    return [*linked, *([hit.id for hit in hits] for hits in state.rounds[:n])]


def _take_ids(ranked: Iterable[tuple[str, float]], k: int) -> tuple[str, ...]:
    return tuple(id for id, _ in ranked)[:k]


def _normalize_question(question: str) -> str:
    """Return a question without differences of case and white space, to compare it with others."""
    return " ".join(question.casefold().split())
