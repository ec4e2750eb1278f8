"""The method links."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar

from pydantic import Field

from ragindex.filters import Ids
from ragindex.interfaces import Collection, Encoder, FilterQuery, OpenIndex, Part, Retriever
from ragindex.parts.text.passages import Passages
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins.registry import label
from ragindex.retrieval.hits import HIT_FIELDS, check_queries, read_hits
from ragindex.types import Hit, Query, Retrieval
from ragindex_retrievers.links.lookups import LinkLookups, LinksParameters
from ragindex_retrievers.links.passage_links import PassageLinks
from ragindex_retrievers.links.walk import LinkWalk, WalkedParts


class Links(LinksParameters):
    """Keyword search and search by meaning, and what the best passages mention by name or are mentioned by.

    The candidates are the `depth` best of BM25 and of dense. Their base score is the mean of both scores, min-max
    normalized over the candidates, with `weight` for the cosine, plus `title_bonus` if the question holds a name of
    the passage. The links of the `seeds` best are followed, `hops` times, in both directions (`backward`); links from
    rarely mentioned names weigh more, and names in more than `max_mentions` passages link nothing. A linked passage
    gains its seed's score times the link's weight times `link_weight` + `novelty_weight` * what it adds to the
    question's words; of a document's linked passages only the best one does. The `kept` best by base score stay first.
    No model is asked, and nothing is encoded beyond what `dense` needs.
    """

    version: ClassVar[int] = 2
    order_depends_on_filter: ClassVar[bool] = True
    kept: int = Field(default=2, ge=0, description="Best passages by their own scores that stay before all others.")

    def depends_on_k(self, k: int) -> bool:
        """Return True for k above `depth`, where more passages are candidates."""
        return k > self.depth

    def _parts(self) -> tuple[Part[Any], ...]:
        """Return the passages, their vectors, and their names and mentions."""
        return link_parts()

    def _open(self, index: OpenIndex) -> Retriever:
        """Open a retriever over the three parts."""
        return LinksRetriever(open_parts(index, self), index.encoder, self.kept, label(self))


def link_parts() -> tuple[Part[Any], ...]:
    """Return the parts that links are walked over: passages, their vectors, and their names and mentions."""
    return (Passages(), Vectors(of=Passages()), PassageLinks())


def open_parts(index: OpenIndex, settings: LinksParameters) -> WalkedParts:
    """Open `link_parts`. Raises MissingPartError."""
    passages, vectors, links = (index.open_part(part) for part in link_parts())
    return WalkedParts(passages, vectors, LinkLookups(links, settings), settings)


# ---------------------------------------------------------------- the open retriever


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
