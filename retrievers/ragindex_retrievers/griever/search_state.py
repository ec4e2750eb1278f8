"""State of a search: one line per sub-query, and the ranking of passages over all lines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ragindex.filters import Filter
from ragindex.interfaces import Floats
from ragindex.types import Hit
from ragindex_retrievers.griever.lookups import Aliases, Stated
from ragindex_retrievers.griever.matching import Ngrams
from ragindex_retrievers.griever.paths import Subgraph
from ragindex_retrievers.griever.scoring import ScoredTriple


@dataclass(slots=True)
class SubquerySearch:
    """One line of a search: a sub-query and what it has found.

    `text` is the current text, with its `vector` and n-grams (`question`). `latest` are the hits of this
    iteration; `found` are all hits so far, in the order found. `wanted` is the filter of the next iteration:
    its passages share one of the entities `joins`. A line that is `over` retrieves no more. With one sub-graph for
    all lines, they share `subgraph` and `found`.
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


def extend_subgraphs(
    lines: Sequence[SubquerySearch], found: Sequence[Shortlist], scored: Sequence[Sequence[ScoredTriple]]
) -> None:
    """Extend the sub-graph of each line by its latest triples, or the one sub-graph of all lines by those of all.

    A triple that several lines have found has its best score. A triple that the sub-graph has already keeps its own.
    """
    subgraphs = {id(line.subgraph): line.subgraph for line in lines}
    for key, subgraph in subgraphs.items():
        of = [n for n, line in enumerate(lines) if id(line.subgraph) == key]
        known = {one.stated.key for one in subgraph.triples}
        best: dict[tuple[str, int], ScoredTriple] = {}
        for one in (one for n in of for one in scored[n] if one.stated.key not in known):
            if one.stated.key not in best or one.score > best[one.stated.key].score:
                best[one.stated.key] = one
        aliases: dict[str, tuple[str, ...]] = {}
        for name, others in (pair for n in of for pair in found[n].aliases.items()):
            aliases[name] = tuple(dict.fromkeys((*aliases.get(name, ()), *others)))
        subgraph.extend(list(best.values()), aliases)


def rank(lines: Sequence[SubquerySearch], added: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return the passages of all lines with their scores, best first, ties by id.

    A passage has its best score over the lines, plus its value in `added`. Passages without a scored triple and
    such a value follow in the order in which they were found, with scores of at most -1 (reading V10).
    """
    scores: dict[str, float] = {}
    places: dict[str, int] = {}
    for line in lines:
        triples = line.subgraph.passage_scores()
        for place, id in enumerate(line.found):
            places[id] = min(place, places.get(id, place))
            if id in triples or id in added:
                value = triples.get(id, 0.0) + added.get(id, 0.0)
                scores[id] = max(value, scores.get(id, value))
    rest = {id: 1 / (place + 1) - 2 for id, place in places.items() if id not in scores}
    return sorted((scores | rest).items(), key=lambda pair: (-pair[1], pair[0]))
