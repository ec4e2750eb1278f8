"""State of a search, the ranking over it, and the shortlist of triples (GRIEVER, section 4.2.4 and Algorithm 2).

Algorithm 2 is repaired as in reading V4.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ragindex.filters import Filter, Ids
from ragindex.interfaces import Collection, Floats, TextQuery, VectorQuery
from ragindex.parts.triples.triples import triple_id
from ragindex.retrieval.fusion import reciprocal_rank_fusion
from ragindex.stores.metered import search_together
from ragindex.types import Hit
from ragindex_retrievers.griever.lookups import Aliases, Lookups, Stated, aliases_in
from ragindex_retrievers.griever.matching import Ngrams, ScoredTriple
from ragindex_retrievers.griever.paths import Subgraph


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


# ---------------------------------------------------------------- shortlisting


By: TypeAlias = Literal["partial", "full"]
_DEPTH = 100
"""Minimum number of records per ranking that are fused, as in `hybrid`."""


@dataclass(frozen=True, slots=True)
class Shortlister:
    """Choice of triples by their partial triples or by themselves: the `t_max` nearest by text and by vector, fused."""

    by: By
    text: Collection
    vectors: Collection
    t_max: int

    def nearest(self, lines: Sequence[SubquerySearch], among: Sequence[Ids]) -> list[tuple[str, ...]]:
        """Return for each line the ids of the records nearest its text among some."""
        depth, asked = max(_DEPTH, self.t_max), list(zip(lines, among, strict=True))
        by_text, by_vector = search_together(
            [
                (self.text, [TextQuery(line.text, depth, (), where) for line, where in asked]),
                (self.vectors, [VectorQuery(line.vector, depth, (), where) for line, where in asked]),
            ]
        )
        fused = [reciprocal_rank_fusion([one.ids, other.ids]) for one, other in zip(by_text, by_vector, strict=True)]
        return [tuple(id for id, _ in each[: self.t_max]) for each in fused]


def shortlist(
    lines: Sequence[SubquerySearch], index: Lookups, shortlister: Shortlister | None, where: Filter | None
) -> list[Shortlist]:
    """Return the shortlist of each line's latest passages; without a shortlister it keeps all triples.

    The passages pass the question's filter `where`, and so do their triples. A partial triple counts if one of these
    passages states it, whoever else does.
    """
    latest = [hit.id for line in lines for hit in line.latest]
    triples, pairs = index.around(latest, [list(line.found) for line in lines], where)
    stated = [[one for hit in line.latest for one in triples.get(hit.id, ())] for line in lines]
    entities = [entities_of(each) for each in stated]
    aliases = [aliases_in(*each) for each in zip(pairs, entities, strict=True)]
    if shortlister is None:
        return [Shortlist(tuple(each), of, also) for each, of, also in zip(stated, entities, aliases, strict=True)]
    found = shortlister.nearest(lines, [Ids(_list_record_ids(shortlister.by, each)) for each in stated])
    choose = _select_by_partials if shortlister.by == "partial" else _select_by_triples
    return [choose(*each) for each in zip(stated, found, aliases, strict=True)]


def _list_record_ids(by: By, stated: Sequence[Stated]) -> tuple[str, ...]:
    """Return the ids of the records of the latest passages' triples, without duplicates.

    Algorithm 2 filters partial triples by passage and by their entities and aliases. That filter passes exactly
    these records, since every partial triple of a passage belongs to an entity that its triples name.
    """
    if by == "full":
        return tuple(triple_id(one.passage_id, one.number) for one in stated)
    return tuple(dict.fromkeys(id for one in stated for id in one.partials))


def _select_by_partials(stated: Sequence[Stated], found: tuple[str, ...], aliases: Aliases) -> Shortlist:
    """Keep the triples with a partial triple among those found; the entity that it lacks is joined on."""
    known, kept, joins = set(found), [], []
    for one in stated:
        lacking = [one.other(inverse) for id, (_, inverse) in zip(one.partials, one.sides, strict=True) if id in known]
        if lacking:
            kept.append(one)
            joins += lacking
    return Shortlist(tuple(kept), tuple(dict.fromkeys(joins)), aliases, found)


def _select_by_triples(stated: Sequence[Stated], found: tuple[str, ...], aliases: Aliases) -> Shortlist:
    """Keep the triples that were found; both their entities are joined on."""
    known = set(found)
    kept = [one for one in stated if triple_id(one.passage_id, one.number) in known]
    return Shortlist(tuple(kept), entities_of(kept), aliases, found)


def entities_of(stated: Sequence[Stated]) -> tuple[str, ...]:
    """Return the entity keys of the triples, without duplicates."""
    return tuple(dict.fromkeys(key for one in stated for key, _ in one.sides))
