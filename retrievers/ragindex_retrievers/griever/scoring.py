"""Scores of triples (GRIEVER, section 4.4, Eqs. 1 and 2), and the parts of a question that they match."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragindex.interfaces import Floats
from ragindex.types import Span
from ragindex_retrievers.griever.lookups import Aliases, Counted, Lookups, Stated
from ragindex_retrievers.griever.matching import Matches, Ngrams, choose_best, match_names


@dataclass(frozen=True, slots=True)
class NameMatch:
    """How well a name matches a question, and the span that it matches best (None if the question has no n-gram)."""

    score: float
    span: Span | None


@dataclass(frozen=True, slots=True)
class ScoredTriple:
    """Triple with its score s_t, which is that of its better partial triple.

    `inverse` says which partial triple that is; `entity` and `predicate` are its matches.
    """

    stated: Stated
    score: float
    inverse: bool
    entity: NameMatch
    predicate: NameMatch

    @property
    def name(self) -> str:
        """Return the entity of the better partial triple, as written."""
        return self.stated.triple.object if self.inverse else self.stated.triple.subject

    @property
    def other_name(self) -> str:
        """Return the entity that the better partial triple lacks, as written."""
        return self.stated.triple.subject if self.inverse else self.stated.triple.object


@dataclass(frozen=True, slots=True)
class ScoringInput:
    """Triples of one sub-query, and what they are scored against: n-grams, vector, and the aliases that hold."""

    question: Ngrams
    vector: Floats
    triples: Sequence[Stated]
    aliases: Aliases


@dataclass(frozen=True, slots=True)
class Stored:
    """Vectors from the index, (n, dimensions), and the row of each name."""

    vectors: Floats
    rows: Mapping[str, int]


def partial_score(entity: float, predicate: float, frequency: float) -> float:
    """Return s_u (Eq. 1): the mean of both matches, divided by 1 + ln(frequency of the partial triple)."""
    return (entity + predicate) / (2 * (1 + math.log(max(1.0, frequency))))


def score_all(
    asked: Sequence[ScoringInput], index: Lookups, frequency: Counted, *, by_query: bool
) -> list[list[ScoredTriple]]:
    """Return the scored triples of each sub-query; what the index stores of them is looked up for all together.

    `by_query`: a predicate's match is its cosine with the whole sub-query, not with the best n-gram (reading
    V8).
    """
    triples = dict.fromkeys(one for each in asked for one in each.triples)
    names = dict.fromkeys(name for one in asked for key in _list_keys(one) for name in (key, *one.aliases.get(key, ())))
    predicates = dict.fromkeys(one.triple.predicate for one in triples)
    partials = [id for one in triples for id in one.partials]
    of_names, of_predicates, often = index.stored(list(names), list(predicates), partials, frequency)
    entity = Stored(of_names, {name: row for row, name in enumerate(names)})
    predicate = Stored(of_predicates, {name: row for row, name in enumerate(predicates)})
    return [_score_triples(one, often, entity, predicate, by_query=by_query) for one in asked]


def _score_triples(
    asked: ScoringInput, often: Mapping[str, float], entity: Stored, predicate: Stored, *, by_query: bool
) -> list[ScoredTriple]:
    entities = _match_entities(_list_keys(asked), asked, entity)
    predicates = _match_predicates(list(dict.fromkeys(one.triple.predicate for one in asked.triples)), asked, predicate)
    if by_query:
        cosines = {name: float(predicate.vectors[predicate.rows[name]] @ asked.vector) for name in predicates}
        predicates = {name: NameMatch(cosines[name], match.span) for name, match in predicates.items()}
    return [_choose_partial(one, entities, predicates[one.triple.predicate], often) for one in asked.triples]


def _choose_partial(
    stated: Stated, entities: Mapping[str, NameMatch], predicate: NameMatch, often: Mapping[str, float]
) -> ScoredTriple:
    """Return the triple with s_t (Eq. 2), the score of its better partial triple; of equal ones the direct one."""
    both = [
        ScoredTriple(
            stated, partial_score(entities[key].score, predicate.score, often[id]), inverse, entities[key], predicate
        )
        for (key, inverse), id in zip(stated.sides, stated.partials, strict=True)
    ]
    return max(both, key=lambda one: one.score)


def _match_entities(keys: Sequence[str], asked: ScoringInput, stored: Stored) -> dict[str, NameMatch]:
    """Return s_e: the best match of each entity or one of its aliases, each encoded by itself (section 4.3)."""
    named = [(key, *asked.aliases.get(key, ())) for key in keys]
    places = {name: place for place, name in enumerate(dict.fromkeys(name for group in named for name in group))}
    found = match_names(
        stored.vectors[[stored.rows[name] for name in places]], asked.question
    )  # one row per distinct name, so that equal names have equal scores
    best = choose_best(found, [[places[name] for name in group] for group in named])
    return dict(zip(keys, _make_matches(best, asked.question), strict=True))


def _match_predicates(predicates: Sequence[str], asked: ScoringInput, stored: Stored) -> dict[str, NameMatch]:
    found = match_names(stored.vectors[[stored.rows[name] for name in predicates]], asked.question)
    return dict(zip(predicates, _make_matches(found, asked.question), strict=True))


def _make_matches(found: Matches, question: Ngrams) -> list[NameMatch]:
    pairs = zip(found.scores.tolist(), found.places.tolist(), strict=True)
    return [NameMatch(value, question.spans[place] if place >= 0 else None) for value, place in pairs]


def _list_keys(asked: ScoringInput) -> list[str]:
    return list(dict.fromkeys(key for one in asked.triples for key, _ in one.sides))


def describe_matches(scored: ScoredTriple, text: str) -> str:
    """Return a readable description of the words in `text` that an entity and its predicate match."""
    sides = ((scored.name, scored.entity), (scored.stated.triple.predicate, scored.predicate))
    return ", ".join(
        f"{name} = '{text[slice(*match.span)]}' {match.score:.2f}" if match.span else f"{name} {match.score:.2f}"
        for name, match in sides
    )
