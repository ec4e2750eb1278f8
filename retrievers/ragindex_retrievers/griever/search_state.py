"""State of a search: one line per sub-query, and the ranking of passages over all lines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ragindex.filters import Filter
from ragindex.interfaces import Floats
from ragindex.types import Hit
from ragindex_retrievers.griever.lookups import Aliases, Stated
from ragindex_retrievers.griever.matching import Ngrams
from ragindex_retrievers.griever.paths import PassageScore, Subgraph


@dataclass(slots=True)
class SubquerySearch:
    """One line of a search: a sub-query and what it has found.

    `text` is the current text, with its `vector` and n-grams (`question`). `latest` are the hits of this
    iteration; `found` are all hits so far, in the order found. `wanted` is the filter of the next iteration:
    its passages share one of the entities `joins`. A line that is `over` retrieves no more.
    """

    text: str
    vector: Floats
    question: Ngrams
    wanted: Filter | None
    subgraph: Subgraph
    found: dict[str, Hit] = field(default_factory=dict)
    latest: tuple[Hit, ...] = ()
    joins: tuple[str, ...] = ()
    over: bool = False

    def add(self, hits: tuple[Hit, ...]) -> None:
        """Add the hits of one iteration; a line without hits is over."""
        self.latest, self.over = hits, not hits
        for hit in hits:
            self.found.setdefault(hit.id, hit)


@dataclass(frozen=True, slots=True)
class Shortlist:
    """Triples kept of a line's latest passages, the entities to continue from, and the aliases of all their entities.

    `found` are the ids of the records that the triples were chosen by.
    """

    kept: tuple[Stated, ...]
    joins: tuple[str, ...]
    aliases: Aliases
    found: tuple[str, ...] = ()


def rank(
    lines: Sequence[SubquerySearch], by: PassageScore, added: Mapping[str, float], otherwise: Mapping[str, float]
) -> list[tuple[str, float]]:
    """Return the passages of all lines with their scores, best first, ties by id.

    A passage has its best score over the lines. `added` is added to the scores. A passage without a scored
    triple has its score in `otherwise`. Passages that have neither follow in the order in which they were
    found, with scores of at most -1 (reading V10).
    """
    scores: dict[str, float] = {}
    places: dict[str, int] = {}
    for line in lines:
        triples = line.subgraph.passage_scores(by)
        for place, id in enumerate(line.found):
            places[id] = min(place, places.get(id, place))
            own = triples.get(id, otherwise.get(id))
            if own is not None:
                value = own + added.get(id, 0.0)
                scores[id] = max(value, scores.get(id, value))
    rest = {id: 1 / (place + 1) - 2 for id, place in places.items() if id not in scores}
    return sorted((scores | rest).items(), key=lambda pair: (-pair[1], pair[0]))
