"""Search small passages, return larger ones: parent document retrieval, also called small-to-big."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from ragindex.filters import All, Ids, names_passages
from ragindex.interfaces import Collection, FilterQuery, OpenIndex, Part, PositionLookup, Retriever, Scheme
from ragindex.parts.text.passages import OVER_PASSAGES, Passages, PassagesField
from ragindex.plugins import registry
from ragindex.plugins.registry import SchemeField, label
from ragindex.retrieval.hits import check_queries, fetch_hits
from ragindex.retrieval.stages import record_ranking
from ragindex.types import Hit, Position, Query, Retrieval, Step


class Parent(Scheme):
    """Sections or whole documents that contain the passages a base retriever finds.

    The base is asked for `candidate_factor` * k hits. Each passage of a hit stands for the section (or document) that
    it begins in; a unit that contains several has the score of the best. Small passages are easier to find, and
    larger ones say more to a reader, who is given whole units.
    """

    version: ClassVar[int] = 1
    order_depends_on_filter: ClassVar[bool] = True
    base: SchemeField = Field(
        default_factory=lambda: registry.scheme("hybrid"), description="Retriever of the passages that are searched."
    )
    unit: Literal["section", "document"] = Field(default="section", description="What is returned.")
    candidate_factor: int = Field(default=5, ge=1, description="Hits asked of the base: candidate_factor * k.")
    over: PassagesField = OVER_PASSAGES

    def depends_on_k(self, k: int) -> bool:
        """Return True: the number of candidates grows with k."""
        return True

    def _parts(self) -> tuple[Part[Any], ...]:
        """Return the parts of the base, the passages, and the units."""
        return (*self.base.parts(), Passages(), self._units())

    def _open(self, index: OpenIndex) -> Retriever:
        """Open a retriever that asks the base once per batch and reads the units in one search."""
        return ParentRetriever(
            self.base.open(index),
            index.open_part(self._units()),
            index.open_part(Passages()),
            index.open_positions(Passages()),
            index.open_positions(self._units()),
            self.candidate_factor,
            label(self),
        )

    def _units(self) -> Passages:
        return Passages(by="sections" if self.unit == "section" else "documents")


@dataclass(frozen=True, slots=True)
class ParentRetriever:
    """The open retriever of Parent."""

    base: Retriever
    units: Collection
    records: Collection
    passages: PositionLookup
    parents: PositionLookup
    factor: int
    source: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Ask the base, find the units of its hits, and read them."""
        check_queries(queries, k)
        retrievals = self.base.retrieve(queries, self.factor * k)
        spans = self.passages.find({id for retrieval in retrievals for hit in retrieval.hits for id in hit.passage_ids})
        parents = self.parents.of_documents({span.doc_id for span in spans.values()})
        passing = [
            self._find_passing(query, retrieval, spans, parents)
            for query, retrieval in zip(queries, retrievals, strict=True)
        ]
        ranked = list[list[tuple[str, float]]]()
        for retrieval, units in zip(retrievals, passing, strict=True):
            pairs = [pair for pair in self._rank(retrieval.hits, spans, parents) if units is None or pair[0] in units]
            record_ranking("parent", (id for id, _ in pairs), k)
            ranked.append(pairs[:k])
        ids = sorted({id for best in ranked for id, _ in best})
        hits = {hit.id: hit for hit in fetch_hits(self.units, dict.fromkeys(ids, 0.0), self.source)}
        return [
            self._answer(query, retrieval, best, hits)
            for query, retrieval, best in zip(queries, retrievals, ranked, strict=True)
        ]

    def _find_passing(
        self,
        query: Query,
        retrieval: Retrieval,
        spans: dict[str, Position],
        parents: dict[str, dict[str, Position]],
    ) -> set[str] | None:
        """Return the units of which all passages pass the question's filter; None if all units do.

        A filter by document passes all passages of a document or none; one by passage need not.
        """
        if query.filter is None or not names_passages(query.filter):
            return None
        documents = {spans[id].doc_id for hit in retrieval.hits for id in hit.passage_ids if id in spans}
        within = {
            id: span for spans_of in self.passages.of_documents(documents).values() for id, span in spans_of.items()
        }
        (passed,) = self.records.search([FilterQuery(All((Ids(tuple(within)), query.filter)), max(1, len(within)))])
        units = {id: unit for doc_id in documents for id, unit in parents[doc_id].items()}
        failed = [span for id, span in within.items() if id not in set(passed.ids)]
        return {id for id, unit in units.items() if not any(_overlap(unit, span) for span in failed)}

    def _rank(
        self, hits: Sequence[Hit], spans: dict[str, Position], parents: dict[str, dict[str, Position]]
    ) -> list[tuple[str, float]]:
        scores: dict[str, float] = {}
        for hit in hits:
            for span in (spans[id] for id in hit.passage_ids if id in spans):
                scores.setdefault(_find_parent(span, parents[span.doc_id]), hit.score)
        return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))

    def _answer(
        self, query: Query, retrieval: Retrieval, best: Sequence[tuple[str, float]], hits: dict[str, Hit]
    ) -> Retrieval:
        step = Step(1 + max((earlier.iteration for earlier in retrieval.trace), default=0), "parent", query.text)
        chosen = tuple(replace(hits[id], score=score) for id, score in best)
        return Retrieval(
            chosen, (*retrieval.trace, replace(step, ids=tuple(hit.id for hit in chosen))), retrieval.notes
        )


def _overlap(position: Position, other: Position) -> bool:
    return position.doc_id == other.doc_id and position.start < other.end and other.start < position.end


def _find_parent(span: Position, parents: dict[str, Position]) -> str:
    """Return the last unit that begins where the passage does, or before."""
    before = [(parent.start, id) for id, parent in parents.items() if parent.start <= span.start]
    return max(before, default=(0, next(iter(parents))))[1]
