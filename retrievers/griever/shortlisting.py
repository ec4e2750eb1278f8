"""Triples shortlisting (GRIEVER, section 4.2.4 and Algorithm 2, repaired as in reading V4)."""

from collections.abc import Sequence
from typing import Literal

from ragindex.filters import Filter, Terms, both
from ragindex.interfaces import Retriever
from ragindex.types import Query, Retrieval
from retrievers.griever.index import Aliases, Index, Stated
from retrievers.griever.lines import Line, Shortlist

By = Literal["partial", "full", "none"]


def shortlist(
    lines: Sequence[Line],
    index: Index,
    searcher: Retriever | None,
    by: By,
    t_max: int,
    *,
    with_aliases: bool,
    where: Filter | None,
) -> list[Shortlist]:
    """For each line the triples of its latest passages that are nearest its text, by `searcher` over what `by` says."""
    triples = index.triples([hit.id for line in lines for hit in line.latest])
    stated = [[one for hit in line.latest for one in triples.get(hit.id, ())] for line in lines]
    entities = [entities_of(each) for each in stated]
    aliases = index.aliases([(each, list(line.found)) for each, line in zip(entities, lines, strict=True)])
    if searcher is None:
        return [Shortlist(tuple(each), of, also) for each, of, also in zip(stated, entities, aliases, strict=True)]
    asked = [
        Query("shortlist", line.text, _within(line, of, also if with_aliases else {}, by, where))
        for line, of, also in zip(lines, entities, aliases, strict=True)
    ]
    answers = searcher.retrieve(asked, t_max)
    each = zip(stated, answers, aliases, strict=True)
    return [_by_partials(*one) if by == "partial" else _by_triples(*one, index) for one in each]


def _within(line: Line, entities: Sequence[str], aliases: Aliases, by: By, where: Filter | None) -> Filter | None:
    within = both(Terms("passage_ids", tuple(hit.id for hit in line.latest)), where)
    if by == "full":
        return within
    named = dict.fromkeys([*entities, *(alias for entity in entities for alias in aliases.get(entity, ()))])
    return both(within, Terms("subject", tuple(named)))


def _by_partials(stated: Sequence[Stated], answer: Retrieval, aliases: Aliases) -> Shortlist:
    """Triples with a partial among those found; what that partial lacks is joined on."""
    found = {hit.id for hit in answer.hits}
    kept, joins = [], []
    for one in stated:
        lacking = [one.other(inverse) for id, (_, inverse) in zip(one.partials, one.sides, strict=True) if id in found]
        if lacking:
            kept.append(one)
            joins += lacking
    return Shortlist(tuple(kept), tuple(dict.fromkeys(joins)), aliases, answer.hits)


def _by_triples(stated: Sequence[Stated], answer: Retrieval, aliases: Aliases, index: Index) -> Shortlist:
    """Triples found as they are; both their entities are joined on."""
    found = {(id, hit.text) for hit in answer.hits for id in hit.passage_ids}
    kept = [one for one in stated if (one.passage_id, index.of.text(one.triple)) in found]
    return Shortlist(tuple(kept), entities_of(kept), aliases, answer.hits)


def entities_of(stated: Sequence[Stated]) -> tuple[str, ...]:
    """Their entities, each once."""
    return tuple(dict.fromkeys(key for one in stated for key, _ in one.sides))
