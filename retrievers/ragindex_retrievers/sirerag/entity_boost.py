"""Ranking of passages whose scores are lifted by the propositions and aggregates that name them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ragindex.filters import Not, Terms, combine_filters
from ragindex.interfaces import Collection, Retriever, SearchResult
from ragindex.parts.trees.summary_tree import SUMMARY_KIND
from ragindex.parts.trees.tree_search import PASSAGE_KIND
from ragindex.retrieval.hits import HIT_FIELDS, check_queries, fetch_records, read_hits
from ragindex.types import Hit, Query, Retrieval, Step, Triple

_LEAVES = Not(Terms("kind", (SUMMARY_KIND,)))
_TRACE_LENGTH = 10  # passages in the trace whose lifting node is shown


@dataclass(frozen=True, slots=True)
class Lifted:
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
        asked = [replace(query, filter=combine_filters(query.filter, _LEAVES)) for query in queries]
        found = self.base.retrieve(asked, max(self.depth, k))
        return [self._one(query, one, k) for query, one in zip(queries, found, strict=True)]

    def _one(self, query: Query, found: Retrieval, k: int) -> Retrieval:
        start = time.perf_counter()
        raised = lifted(found.hits)
        best = sorted(raised, key=lambda id: (-raised[id].score, id))[:k]
        records = fetch_records(self.nodes, best, HIT_FIELDS)
        ids = records.column("id").to_pylist()
        scores = np.array([raised[id].score for id in ids], np.float64)
        by = {id: raised[id].by for id in ids[:_TRACE_LENGTH]}
        paths = tuple((Triple(name, "is made of", id),) for id, name in by.items() if name)
        ms = (time.perf_counter() - start) * 1e3
        step = Step(1, "passages by their aggregates", query.text, tuple(ids), paths=paths, ms=ms)
        return Retrieval(read_hits(SearchResult(ids, scores, records), self.source), (*found.trace, step), found.notes)


@dataclass(frozen=True, slots=True)
class Raised:
    """Score of a passage, and the node that lifted it ("" if none did)."""

    score: float
    by: str = ""


def lifted(leaves: Sequence[Hit]) -> Mapping[str, Raised]:
    """Return the lifted score of every passage that is among the leaves of a pool or named by one.

    The score is the passage's own, or the mean of that and the score of the best leaf that names it if that
    leaf's is higher. A passage that is not itself among the leaves starts from the score of the last leaf.
    """
    last = min((hit.score for hit in leaves), default=0.0)
    found = {hit.id: Raised(hit.score) for hit in leaves if hit.kind == PASSAGE_KIND}
    best: dict[str, Hit] = {}
    for hit in leaves:
        if hit.kind != PASSAGE_KIND:
            best |= {id: hit for id in hit.passage_ids if id not in best}
    for id, hit in best.items():
        own = found.get(id, Raised(last)).score
        found[id] = Raised((own + hit.score) / 2, f"{hit.kind} {hit.id}") if hit.score > own else Raised(own)
    return found
