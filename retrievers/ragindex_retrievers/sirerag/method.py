"""SiReRAG (Zhang et al., ICLR 2025; readings S1 to S3 in docs/dev/evidence/sirerag.md)."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ragindex.filters import Not, Terms, combine_filters
from ragindex.interfaces import Collection, OpenIndex, Part, Retriever, Scheme
from ragindex.parts.text.passages import OVER_PASSAGES, PassagesField
from ragindex.parts.trees.summary_tree import SUMMARY_KIND
from ragindex.parts.trees.tree_pool import TreePool
from ragindex.parts.trees.tree_search import PASSAGE_KIND, Nodes, above
from ragindex.parts.vectors.base_field import FlatField, over
from ragindex.plugins import registry
from ragindex.plugins.registry import PartField, label, of_class
from ragindex.retrieval.hits import check_queries, fetch_hits
from ragindex.retrieval.stages import record_ranking
from ragindex.types import Hit, Query, Retrieval, Step, Triple


class SiReRAG(Scheme):
    """Search in two trees of summaries: one over passages, one over the propositions about each entity.

    The flat scheme `base` searches both, the second over aggregates of propositions per entity. `pool` defines the
    trees and which of their nodes are searched (the paper's ablations). `ranking=pool` returns the best nodes of any
    kind, as in the paper. `ranking=lifted` returns passages only: each is scored by its own score and that of the
    best aggregate or proposition that names it, among the `depth` best leaves, so that no summary takes the place of
    a passage.
    """

    version: ClassVar[int] = 1
    base: FlatField = Field(
        default_factory=lambda: registry.scheme("dense"), description="Flat scheme that searches the pool."
    )
    pool: Annotated[PartField, of_class(TreePool)] = Field(
        default=TreePool(), description="Trees, and which of their nodes are searched."
    )
    over: PassagesField = OVER_PASSAGES
    ranking: Literal["pool", "lifted"] = Field(
        default="pool",
        description="Rank all nodes of the pool (as in the paper), or passages, each with the best node that names it.",
    )
    depth: int = Field(default=200, ge=1, description="With ranking=lifted: leaves considered.")
    diversity: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="With ranking=pool: weight against results that share passages with better ones. 0: none.",
    )

    def depends_on_k(self, k: int) -> bool:
        """Return whether the ranking depends on k.

        The documents of a node are ordered among those of all k hits, and `diversity` chooses among four times k.
        `lifted` considers `depth` leaves, or k if that is more.
        """
        pooled = self.base.order_depends_on_filter or self.diversity > 0
        own = k > self.depth if self.ranking == "lifted" else pooled
        return own or super().depends_on_k(k)

    def _parts(self) -> tuple[Part[Any], ...]:
        """Return the parts that the base needs to search the pool, and the pool."""
        return (*self._over().parts(), self.pool)

    def _open(self, index: OpenIndex) -> Retriever:
        """Return a retriever that calls the base twice: for nodes, and for the order of their documents.

        With `ranking=lifted` it calls the base once.
        """
        base, nodes = self._over().open(index), index.open_part(self.pool)
        if self.ranking == "lifted":
            return LiftedRetriever(base, nodes, self.depth, label(self))
        return Nodes(base, nodes, above(nodes), label(self), self.diversity)

    def _over(self) -> Scheme:
        return over(self.base, self.pool)


# ---------------------------------------------------------------- ranking=lifted


_LEAVES = Not(Terms("kind", (SUMMARY_KIND,)))
_TRACE_LENGTH = 10  # passages in the trace whose lifting node is shown


@dataclass(frozen=True, slots=True)
class LiftedRetriever:
    """Retriever that ranks passages by their own score and that of the best leaf that names them (`ranking=lifted`).

    `base` searches the nodes of the pool. `depth` is how many leaves are considered. `source` is the method's
    label.
    """

    base: Retriever
    nodes: Collection
    depth: int
    source: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Return the best passages of each query. The base searches the leaves once for all queries."""
        check_queries(queries, k)
        among_leaves = [replace(query, filter=combine_filters(query.filter, _LEAVES)) for query in queries]
        answers = self.base.retrieve(among_leaves, max(self.depth, k))
        return [self._retrieve_one(query, answer, k) for query, answer in zip(queries, answers, strict=True)]

    def _retrieve_one(self, query: Query, retrieval: Retrieval, k: int) -> Retrieval:
        start = time.perf_counter()
        scores = lift_scores(retrieval.hits)
        ranked = sorted(scores, key=lambda id: (-scores[id].score, id))
        record_ranking("passages by their aggregates", ranked, k)
        best = ranked[:k]
        hits = fetch_hits(self.nodes, {id: scores[id].score for id in best}, self.source)
        ids = tuple(hit.id for hit in hits)
        paths = tuple((Triple(scores[id].by, "is made of", id),) for id in ids[:_TRACE_LENGTH] if scores[id].by)
        ms = (time.perf_counter() - start) * 1e3
        step = Step(1, "passages by their aggregates", query.text, ids, paths=paths, ms=ms)
        return Retrieval(hits, (*retrieval.trace, step), retrieval.notes)


@dataclass(frozen=True, slots=True)
class LiftedScore:
    """Score of a passage, and the node that lifted it ("" if none did)."""

    score: float
    by: str = ""


def lift_scores(leaves: Sequence[Hit]) -> Mapping[str, LiftedScore]:
    """Return the lifted score of every passage that is among the leaves of a pool or named by one.

    The score is the passage's own, or the mean of that and the score of the best leaf that names it if that
    leaf's is higher. A passage that is not itself among the leaves starts from the score of the last leaf.
    """
    last = min((hit.score for hit in leaves), default=0.0)
    scores = {hit.id: LiftedScore(hit.score) for hit in leaves if hit.kind == PASSAGE_KIND}
    best: dict[str, Hit] = {}
    for hit in leaves:
        if hit.kind != PASSAGE_KIND:
            best |= {id: hit for id in hit.passage_ids if id not in best}
    for id, hit in best.items():
        own = scores.get(id, LiftedScore(last)).score
        scores[id] = LiftedScore((own + hit.score) / 2, f"{hit.kind} {hit.id}") if hit.score > own else LiftedScore(own)
    return scores
