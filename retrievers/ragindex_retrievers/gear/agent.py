"""The GeAR agent (section 5): rounds of SyncGE that fill a memory of triples until it answers the question."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ragindex.accounting import ledger
from ragindex.encoders.vector_cache import share_question_vectors
from ragindex.errors import LLMError
from ragindex.interfaces import Retriever
from ragindex.llm.tasks import LLM
from ragindex.retrieval.fusion import reciprocal_rank_fusion
from ragindex.retrieval.hits import check_queries
from ragindex.retrieval.trace import IF_STOPPED, KEPT_IDS, Trace
from ragindex.types import Hit, Query, Retrieval, Triple
from ragindex_retrievers.gear.expansion import Expanded, SyncRound
from ragindex_retrievers.gear.tasks import REASON, REWRITE_QUESTION, Reasoned

MEMORY = "gist memory"
_UNREADABLE_KINDS = frozenset(("malformed", "empty", "truncated"))


@dataclass(frozen=True, slots=True)
class Loop:
    """Parameters of the agent, named as in `ragindex_retrievers.gear.method.Gear`."""

    iterations: int
    base_k: int
    passage_link_k: int
    sync_query: Literal["current", "original"]
    sync_memory: bool
    gist_source: Literal["fused", "expanded"]
    repeated: Literal["stop", "ask"]
    show_asked: bool


@dataclass(slots=True)
class _State:
    """State of one question. `held` is the length of the memory after each iteration; `notes` are the base's notes."""

    query: Query
    asked: list[str]
    trace: Trace = field(default_factory=Trace)
    memory: list[Triple] = field(default_factory=list)
    rounds: list[tuple[Hit, ...]] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
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
    loop: Loop

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Return the best k hits per query, one query after the other, since each has its own rounds."""
        check_queries(queries, k)
        return [replace(self, sync=self.sync.for_question())._answered(query, k) for query in queries]

    def _answered(self, query: Query, k: int) -> Retrieval:
        state = _State(query, [query.text])
        end = self._rounds(state)
        hits = self._final(state)
        with state.trace.step(state.n, MEMORY, query.text) as step:
            step["triples"], step["note"] = tuple(state.memory), f"stopped: {end}"
        return Retrieval(hits[:k], tuple(state.trace.steps), tuple(state.notes))

    def _rounds(self, state: _State) -> str:
        """Run rounds until the memory answers the question, and return why they stopped."""
        for _ in range(self.loop.iterations):
            self._round(state)
            reasoned = self._reasoned(state)
            if reasoned.answerable:
                return "the memory answers the question"
            if state.n == self.loop.iterations:
                break
            question = self._rewritten(state, reasoned)
            repeated = _normalize_question(question) in map(_normalize_question, state.asked)
            if self.loop.repeated == "stop" and (repeated or not question):
                return "the next question was asked before" if repeated else "there is no next question"
            state.asked.append(question or state.asked[-1])
        return f"after {state.n} iterations, of at most {self.loop.iterations}"

    # ------------------------------------------------------------ one iteration

    def _round(self, state: _State) -> None:
        """Retrieve and extend the memory: steps 1 and 2 (Eqs. 1 to 5)."""
        current, n = replace(state.query, text=state.asked[-1]), state.n + 1
        with share_question_vectors():
            base = self.base.retrieve([current], self.loop.base_k)[0]
            searched = state.query if self.loop.sync_query == "original" else current
            vector = self.sync.expansion.encoder.encode_queries([searched.text])[0]
        state.trace.of_base(base.trace, n)
        state.notes.update(dict.fromkeys(base.notes))
        known = state.memory if self.loop.sync_memory else ()
        expanded = self.sync.expanded(searched, base.hits, vector, state.trace, n, known)
        state.rounds.append(expanded.hits)
        read = self._gist_source(expanded)
        state.memory.extend(self.sync.reader.read(state.query.text, read, state.memory, state.trace, n, "gist read"))
        state.held.append(len(state.memory))

    def _gist_source(self, expanded: Expanded) -> tuple[Hit, ...]:
        if self.loop.gist_source == "fused":
            return expanded.hits
        by_id = {hit.id: hit for hit in expanded.hits}
        return tuple(by_id[id] for id in expanded.found)

    def _reasoned(self, state: _State) -> Reasoned:
        """Ask whether the memory answers the question (Eq. 6).

        An unreadable reply counts as No and is counted in the ledger; a missing reply raises LLMError.
        """
        question = state.query.text
        given = {"question": question, "triples": state.memory, "language": self.sync.reader.language}
        with state.trace.step(state.n, "reason", question) as step:
            try:
                reasoned = self.llm.run(REASON, given)
            except LLMError as error:
                if error.kind not in _UNREADABLE_KINDS:
                    raise
                ledger.count_outcome(REASON.name, "taken for no")
                reasoned = Reasoned(answerable=False, why=f"the reply could not be read: {error}")
            step["note"] = f"answerable: {reasoned.answer}" if reasoned.answerable else f"not yet: {reasoned.why}"
        return reasoned

    def _rewritten(self, state: _State, reasoned: Reasoned) -> str:
        """Return the next question (Eq. 7); with `show_asked`, the model also sees those that were asked before."""
        question, language = state.query.text, self.sync.reader.language
        asked = state.asked if self.loop.show_asked else []
        known = {"question": question, "triples": state.memory, "reason": reasoned.why}
        given = {**known, "asked": asked, "language": language}
        with state.trace.step(state.n, "rewrite", question) as step:
            written = self.llm.run(REWRITE_QUESTION, given).question.strip()
            step["note"] = written
        return written

    # ------------------------------------------------------------ after termination

    def _linked(self, state: _State) -> "_Links":
        """Return the ranking of passages that each triple of the memory leads to (Eqs. 8 and 10)."""
        triples, k = list(dict.fromkeys(state.memory)), self.loop.passage_link_k
        if not triples:
            return _Links({}, ())
        with state.trace.step(state.n, "passageLink", state.query.text) as step:
            asked = self.sync.linker.asked(triples, state.query)
            with share_question_vectors():
                by_passage = [retrieval.hits for retrieval in self.base.retrieve(asked, k)]
                by_triple = self.sync.linker.passages(asked, k)
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
    linked: list[Sequence[str]] = [links.rankings[triple] for triple in state.memory[: state.held[n - 1]]]
    return [*linked, *([hit.id for hit in hits] for hits in state.rounds[:n])]


def _take_ids(ranked: Iterable[tuple[str, float]], k: int) -> tuple[str, ...]:
    return tuple(id for id, _ in ranked)[:k]


def _normalize_question(question: str) -> str:
    """Return a question without differences of case and white space, to compare it with others."""
    return " ".join(question.casefold().split())
