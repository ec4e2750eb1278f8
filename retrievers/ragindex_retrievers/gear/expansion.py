"""Graph expansion around a base retriever (GeAR, section 4): NaiveGE, and SyncGE, whose start triples an LLM reads."""

from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeAlias

from ragindex.encoders.vector_cache import share_question_vectors
from ragindex.interfaces import Collection, Floats, QueryEncoder, Retriever
from ragindex.interfaces.llm import LLM
from ragindex.llm.answer_question import NumberedPassage
from ragindex.parts.records import Integers
from ragindex.parts.triples.triples import Triples
from ragindex.retrieval.fusion import reciprocal_rank_fusion
from ragindex.retrieval.hits import check_queries, fetch_hits
from ragindex.retrieval.stages import record_ranking
from ragindex.retrieval.trace import Trace
from ragindex.types import Hit, Query, Retrieval, Triple
from ragindex_retrievers.gear.beams import Search, flatten, search_beams
from ragindex_retrievers.gear.space import MemorySpace, Space, StoreSpace, TriplesInMemory, triples_in_memory, unit
from ragindex_retrievers.gear.tasks import READ
from ragindex_retrievers.gear.triple_graph import NeighbourGraph

_TRACE_LENGTH = 20
"""Maximum number of chains in a trace."""


@dataclass(frozen=True, slots=True)
class ExpandedHits:
    """Fused hits, and the ids of the passages that the chains alone led to, best first."""

    hits: tuple[Hit, ...]
    chain_passages: tuple[str, ...]


@dataclass(frozen=True)
class Expansion:
    """Beam search through the triples of an index, fused with the hits of a base. Thread-safe."""

    graph: NeighbourGraph
    triples: Collection
    passages: Collection
    encoder: QueryEncoder
    search: Search
    flat: Literal["level", "beam"]
    source: str

    def space(self, query: Query, vector: Floats) -> Space:
        """Return the search space of the triples for one question.

        The store is queried if graph or vectors are not in memory, or if the query has a filter.
        """
        if query.filter is None and self._in_memory is not None:
            return MemorySpace(self._in_memory, unit(vector))
        return StoreSpace(self.graph, self.triples, unit(vector), query.filter)

    def expand(
        self, space: Space, initial: Integers, base: Sequence[Hit], trace: Trace, query: Query, n: int = 1
    ) -> "ExpandedHits":
        """Search from the triples `initial`, and fuse the passages of the chains with those of the base (Eq. 3)."""
        with trace.step(n, "triple beams", query.text) as step:
            beams = search_beams(space, initial, self.search, self.encoder.encode_passing)
            order = flatten(beams, self.flat)
            records = dict(zip(order, space.records(order), strict=True))
            fromkeys = tuple(dict.fromkeys(records[place].passage_id for place in order))
            step["ids"] = fromkeys
            record_ranking("triple beams", fromkeys)
            step["paths"] = tuple(
                tuple(records[place].triple for place in path) for path in beams.paths()[:_TRACE_LENGTH]
            )
            step["scores"] = tuple(beams.scores[:_TRACE_LENGTH].tolist())
            step["note"] = (
                f"{len(initial):,} triples to start from, {beams.considered:,} chains considered, "
                f"{beams.encoded:,} encoded"
            )
        return ExpandedHits(self.fused([fromkeys, [hit.id for hit in base]], base), fromkeys)

    def fused(self, rankings: Sequence[Sequence[str]], known: Iterable[Hit]) -> tuple[Hit, ...]:
        """Fuse rankings of ids by reciprocal rank fusion, and return the hits.

        Ids that are not among the hits `known` are looked up as passages.
        """
        by_id = {hit.id: hit for hit in known}
        fused = reciprocal_rank_fusion(rankings)
        missing = {id: score for id, score in fused if id not in by_id}
        by_id |= {hit.id: hit for hit in fetch_hits(self.passages, missing, self.source)}
        return tuple(replace(by_id[id], score=score, source=self.source) for id, score in fused if id in by_id)

    @cached_property
    def _in_memory(self) -> TriplesInMemory | None:
        return triples_in_memory(self.graph, self.triples)


# ---------------------------------------------------------------- SyncGE


ReadInput: TypeAlias = tuple[str, frozenset[str], tuple[Triple, ...]]
"""Question, ids of the passages in any order, and memory: what the answer of a read depends on."""


@dataclass(frozen=True, slots=True)
class TripleReader:
    """Reader that extracts from passages the triples that help to answer a question (Eqs. 1 and 4).

    `done` has the triples of what was read. The same passages in another order are not read again.
    """

    llm: LLM
    language: str
    done: MutableMapping[ReadInput, tuple[Triple, ...]] = field(default_factory=dict)

    def forget(self) -> "TripleReader":
        """Return the reader that has read nothing yet: one per question of an agent."""
        return replace(self, done={})

    def read(
        self, question: str, passages: Sequence[Hit], memory: Sequence[Triple], trace: Trace, n: int, what: str
    ) -> tuple[Triple, ...]:
        """Return the triples that help to answer the question, beyond those in `memory`.

        Raises what `LLM.run` raises.
        """
        key = (question, frozenset(hit.id for hit in passages), tuple(memory))
        with trace.step(n, what, question) as step:
            if key in self.done:
                step["note"] = "These passages were read before, in this or another order."
            else:
                numbered = [
                    NumberedPassage(at, hit.id, hit.title, hit.text) for at, hit in enumerate(passages, start=1)
                ]
                inputs = {"question": question, "passages": numbered, "memory": list(memory), "language": self.language}
                self.done[key] = self.llm.run(READ, inputs).distinct()
            step["ids"], step["triples"] = tuple(hit.id for hit in passages), self.done[key]
        return self.done[key]


@dataclass(frozen=True, slots=True)
class Linker:
    """Linker of read triples to the nearest triples of the graph T (Eq. 2). `link` is a flat retriever over T."""

    link: Retriever
    triples: Triples

    def linked(self, triples: Sequence[Triple], query: Query, trace: Trace, n: int) -> list[str]:
        """Return the ids of the nearest triple in T of each given triple, without duplicates.

        There is no threshold, so some triples are linked to one that states something else.
        """
        if not triples:
            return []
        with trace.step(n, "tripleLink", query.text) as step:
            hits = [hit for retrieval in self.link.retrieve(self.queries(triples, query), 1) for hit in retrieval.hits]
            ids = list(dict.fromkeys(hit.id for hit in hits))
            step["ids"] = tuple(ids)
        return ids

    def queries(self, triples: Sequence[Triple], query: Query) -> list[Query]:
        """Return the triples as queries to an index, with the filter of the question."""
        return [replace(query, text=self.triples.text(triple)) for triple in triples]

    def passages(self, queries: Sequence[Query], k: int) -> list[list[str]]:
        """Return for each query the first `k` distinct passages of its nearest triples (the T side of Eq. 10)."""
        passage_ids: list[list[str]] = [[] for _ in queries]
        left, depth = list(range(len(queries))), 2 * k
        while left:
            answers = self.link.retrieve([queries[at] for at in left], depth)
            more = []
            for at, answer in zip(left, answers, strict=True):
                passage_ids[at] = list(dict.fromkeys(id for hit in answer.hits for id in hit.passage_ids))[:k]
                if len(passage_ids[at]) < k and len(answer.hits) == depth:
                    more.append(at)
            left, depth = more, 2 * depth
        return passage_ids


@dataclass(frozen=True, slots=True)
class SyncRound:
    """One round of SyncGE: read, link, search, fuse."""

    reader: TripleReader
    linker: Linker
    expansion: Expansion

    def for_question(self) -> "SyncRound":
        """Return the round for one question, whose reader has read nothing yet."""
        return replace(self, reader=self.reader.forget())

    def expanded(
        self,
        query: Query,
        base: Sequence[Hit],
        vector: Floats,
        trace: Trace,
        n: int = 1,
        memory: Sequence[Triple] = (),
    ) -> ExpandedHits:
        """Read triples from the base's hits and expand from them; without triples only the base's hits remain."""
        triples = self.reader.read(query.text, base, memory, trace, n, "read")
        space = self.expansion.space(query, vector)
        initial = space.of_ids(self.linker.linked(triples, query, trace, n))
        return self.expansion.expand(space, initial, base, trace, query, n)


@dataclass(frozen=True, slots=True)
class ExpandingRetriever:
    """Retriever of NaiveGE and SyncGE.

    The expansion starts from all triples of the base's passages (section 6.2), or with `sync` from those that are read.
    """

    base: Retriever
    base_k: int | None
    expansion: Expansion
    sync: SyncRound | None = None

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Return the best k hits per query. The base answers all queries in one call; each is then expanded alone."""
        check_queries(queries, k)
        with share_question_vectors():
            retrievals = self.base.retrieve(queries, self.base_k or k)
            vectors = self.expansion.encoder.encode_queries([query.text for query in queries])
        return [self._expand(*query, k) for query in zip(queries, vectors, retrievals, strict=True)]

    def _expand(self, query: Query, vector: Floats, base: Retrieval, k: int) -> Retrieval:
        trace = Trace()
        trace.of_base(base.trace, 1)
        if self.sync is not None:
            expanded = self.sync.for_question().expanded(query, base.hits, vector, trace)
        else:
            space = self.expansion.space(query, vector)
            initial = space.of_passages(list(dict.fromkeys(id for hit in base.hits for id in hit.passage_ids)))
            expanded = self.expansion.expand(space, initial, base.hits, trace, query)
        record_ranking("fusion", expanded.hits, k)
        return Retrieval(expanded.hits[:k], tuple(trace.steps), base.notes)
