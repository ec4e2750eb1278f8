"""Search over the nodes of trees: documents ordered by nearness, and paths from nodes down to their passages."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ragindex.encoders.vector_cache import share_question_vectors
from ragindex.filters import Ids, Terms
from ragindex.interfaces import Collection, Retriever
from ragindex.parts.trees.summary_tree import SUMMARY_KIND
from ragindex.retrieval.hits import check_queries, fetch_records
from ragindex.retrieval.stages import is_recording, record_ranking, record_stages
from ragindex.types import Hit, Query, Retrieval, Step, Triple

PASSAGE_KIND = "passage"
WAYS = "ways to passages"
"""The trace step with the paths from hits that are not passages down to the nearest passage of each."""
_SHOWN_PATHS = 10  # hits whose path is shown
_NEAREST_PASSAGES = 200  # passages of a question's hits that are ordered by nearness


@dataclass(frozen=True, slots=True)
class Above:
    """The summaries of a tree, by id: their children, and their passages in the order of the source."""

    children: Mapping[str, tuple[str, ...]]
    passages: Mapping[str, tuple[str, ...]]


def above(nodes: Collection) -> Above:
    """Read the summaries of a summary_tree or a tree_pool, in one scan that is linear in the number of children."""
    batches = nodes.scan(("children", "passage_ids"), Terms("kind", (SUMMARY_KIND,)))
    rows = [row for batch in batches for row in batch.to_pylist()]
    children = {row["id"]: tuple(row["children"]) for row in rows}
    return Above(children, {row["id"]: tuple(row["passage_ids"]) for row in rows})


@dataclass(frozen=True, slots=True)
class Nodes:
    """A retriever of tree nodes: `base` searches them, and `source` is the label of the method.

    With `diversity` above 0, the results are chosen by `diversify_hits` among four times as many.
    """

    base: Retriever
    collection: Collection
    above: Above
    source: str
    diversity: float = 0.0

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Return the k best nodes, as `explained` completes them."""
        check_queries(queries, k)
        with share_question_vectors():
            return self.explained(queries, self._search(queries, k))

    def _search(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        if not self.diversity:
            return self.base.retrieve(queries, k)
        retrievals = self.base.retrieve(queries, POOL * k)
        for retrieval in retrievals:
            if is_recording():
                chosen = diversify_hits(retrieval.hits, len(retrieval.hits), self.diversity)
                record_ranking("diversity", chosen, k)
        return [replace(retrieval, hits=diversify_hits(retrieval.hits, k, self.diversity)) for retrieval in retrievals]

    def explained(self, queries: Sequence[Query], retrievals: Sequence[Retrieval]) -> list[Retrieval]:
        """Order the documents of each hit by nearness, and add the paths from the hits down to their passages.

        This takes one more search for all questions together.
        """
        sources = self.nearest(
            queries, [[hit for hit in retrieval.hits if len(hit.doc_ids) > 1] for retrieval in retrievals]
        )
        return [self._retrieve_one(*each) for each in zip(queries, retrievals, sources, strict=True)]

    def nearest(self, queries: Sequence[Query], hits: Sequence[Sequence[Hit]]) -> list[tuple[Hit, ...]]:
        """Return for each question the passages that its hits name, as hits of `base`, nearest first.

        Passages that are neither found by `base` nor leaves of the tree are missing.
        """
        passage_ids = [tuple(dict.fromkeys(id for hit in some for id in hit.passage_ids)) for some in hits]
        if not any(passage_ids):
            return [()] * len(queries)
        narrowed = [replace(query, filter=Ids(ids)) for query, ids in zip(queries, passage_ids, strict=True)]
        most = min(_NEAREST_PASSAGES, max(map(len, passage_ids)))
        with record_stages(None):  # it orders the documents of hits that are chosen
            return [retrieval.hits for retrieval in self.base.retrieve(narrowed, most)]

    def _retrieve_one(self, query: Query, retrieval: Retrieval, nearest: Sequence[Hit]) -> Retrieval:
        start = time.perf_counter()
        rank = {hit.doc_ids[0]: place for place, hit in reversed(list(enumerate(nearest)))}
        order = {hit.id: place for place, hit in enumerate(nearest)}
        hits = tuple(
            replace(hit, doc_ids=tuple(sorted(hit.doc_ids, key=lambda id: rank.get(id, len(rank)))), source=self.source)
            for hit in retrieval.hits
        )
        summaries = [hit for hit in hits if hit.kind != PASSAGE_KIND and hit.passage_ids][:_SHOWN_PATHS]
        if not summaries:
            return Retrieval(hits, retrieval.trace, retrieval.notes)
        paths = tuple(self._ways(summaries, order))
        ms = (time.perf_counter() - start) * 1e3
        scores = tuple(hit.score for hit in summaries)
        step = Step(1, WAYS, query.text, tuple(hit.id for hit in summaries), paths=paths, scores=scores, ms=ms)
        return Retrieval(hits, (*retrieval.trace, step), retrieval.notes)

    def _ways(self, hits: Sequence[Hit], order: Mapping[str, int]) -> Iterator[tuple[Triple, ...]]:
        """Yield a path for each hit, through children that name its nearest passage.

        One search fetches the leaves of all paths.
        """
        ends = [min(hit.passage_ids, key=lambda id: order.get(id, len(order))) for hit in hits]
        walks = [self._walk(hit.id, end) for hit, end in zip(hits, ends, strict=True)]
        leaves = self._leaves([walk[-1] for walk in walks])
        for hit, end, walk in zip(hits, ends, walks, strict=True):
            children = self.above.children.get(walk[-1], ())
            leaf = next((id for id in children if id != end and end in leaves.get(id, ("", ()))[1]), None)
            kinds = [hit.kind, *[SUMMARY_KIND] * (len(walk) - 1)]
            steps = [f"{kind} {id}" for kind, id in zip(kinds, walk, strict=True)]
            steps += [f"{leaves[leaf][0]} {leaf}"] if leaf else []
            yield tuple(Triple(step, "is made of", other) for step, other in zip(steps, [*steps[1:], end], strict=True))

    def _walk(self, id: str, passage: str) -> list[str]:
        """Return the node and the summaries below it that name the passage, from top to bottom."""
        walk = [id]
        while (following := self._below(walk[-1], passage)) is not None:
            walk.append(following)
        return walk

    def _below(self, id: str, passage: str) -> str | None:
        children = self.above.children.get(id, ())
        return next((child for child in children if passage in self.above.passages.get(child, ())), None)

    def _leaves(self, summaries: Sequence[str]) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Return the kind and passages of the leaves below `summaries` that are not passages themselves."""
        leaf_ids = [id for summary in dict.fromkeys(summaries) for id in self.above.children.get(summary, ())]
        if not leaf_ids:
            return {}
        rows = fetch_records(self.collection, leaf_ids, ("kind", "passage_ids")).to_pylist()
        return {row["id"]: (row["kind"], tuple(row["passage_ids"])) for row in rows if row["kind"] != PASSAGE_KIND}


# ---------------------------------------------------------------- diversity


POOL = 4
"""Candidates for each result."""


def diversify_hits(hits: Sequence[Hit], k: int, weight: float) -> tuple[Hit, ...]:
    """Return `k` of the hits, chosen one by one by relevance less `weight` times likeness (maximal marginal relevance).

    Relevance is the score divided by that of the best hit. Likeness is the share of common passages among those of two
    hits (Jaccard), to the most similar hit chosen before. Scores become these values, which fall with the rank; equal
    ones go in the order of the hits. O(k n) in the number of hits and the passages of a hit.
    """
    best = max((abs(hit.score) for hit in hits), default=0.0) or 1.0
    left = [(hit.score / best, hit) for hit in hits]
    passages = {hit.id: frozenset(hit.passage_ids) for hit in hits}
    likeness = dict.fromkeys(passages, 0.0)
    chosen: list[Hit] = []
    while left and len(chosen) < k:
        values = [relevance - weight * likeness[hit.id] for relevance, hit in left]
        place = max(range(len(left)), key=lambda candidate: (values[candidate], -candidate))
        _, hit = left.pop(place)
        chosen.append(replace(hit, score=values[place]))
        for _, other in left:
            likeness[other.id] = max(likeness[other.id], _compare(passages[hit.id], passages[other.id]))
    return tuple(chosen)


def _compare(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / len(first | second) if first or second else 0.0
