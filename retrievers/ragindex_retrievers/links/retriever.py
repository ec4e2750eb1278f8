"""The open retriever of links."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from ragindex.filters import Ids
from ragindex.interfaces import Collection, Encoder, FilterQuery
from ragindex.retrieval.hits import HIT_FIELDS, check_queries, read_hits
from ragindex.types import Hit, Query, Retrieval
from ragindex_retrievers.links.walk import LinkWalk, WalkedParts


@dataclass(frozen=True, slots=True)
class LinksRetriever:
    """The open retriever of Links."""

    parts: WalkedParts
    encoder: Encoder
    kept: int
    source: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Answer the questions one after the other, with one batch of the encoder."""
        check_queries(queries, k)
        vectors = self.encoder.encode_queries([query.text for query in queries])
        walks = [LinkWalk(self.parts, query, vector) for query, vector in zip(queries, vectors, strict=True)]
        return [self._answer(walk, k) for walk in walks]

    def _answer(self, walk: LinkWalk, k: int) -> Retrieval:
        walk.find_candidates(k)
        for _ in range(self.parts.settings.hops):
            walk.follow_links()
        scores = dict(islice(walk.scores.rank(self.kept).items(), k))
        return Retrieval(read_ranking(self.parts.passages, scores, self.source), tuple(walk.steps))


def read_ranking(passages: Collection, scores: Mapping[str, float], source: str) -> tuple[Hit, ...]:
    """Return the passages of a ranking as hits, in the order of `scores`."""
    if not scores:
        return ()
    (found,) = passages.search([FilterQuery(Ids(tuple(scores)), len(scores), HIT_FIELDS)])
    hits = {hit.id: hit for hit in read_hits(found, source)}
    return tuple(replace(hits[id], score=score) for id, score in scores.items())
