"""Scores of triples (GRIEVER, section 4.4, Equations 1 and 2), and what of a question they were matched to."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragindex.interfaces import Floats
from ragindex_retrievers.griever.lookups import Aliases, Counted, Lookups, Stated
from ragindex_retrievers.griever.matching import Matches, Ngrams, Span, choose_best, match_names


@dataclass(frozen=True, slots=True)
class NameMatch:
    """How well a name fits a question, and the characters that it fits best (None: the question has no n-gram)."""

    score: float
    span: Span | None


@dataclass(frozen=True, slots=True)
class ScoredTriple:
    """A triple with its score s_t, that of its better partial triple: `inverse` says which, the matches why."""

    stated: Stated
    score: float
    inverse: bool
    entity: NameMatch
    predicate: NameMatch

    @property
    def name(self) -> str:
        """The entity of the better partial triple, as written."""
        return self.stated.triple.object if self.inverse else self.stated.triple.subject

    @property
    def other_name(self) -> str:
        """The entity that the better partial triple lacks, as written."""
        return self.stated.triple.subject if self.inverse else self.stated.triple.object


@dataclass(frozen=True, slots=True)
class ScoringInput:
    """What the triples of one sub-query are scored against: its n-grams, its vector, and the aliases that hold."""

    question: Ngrams
    vector: Floats
    triples: Sequence[Stated]
    aliases: Aliases


@dataclass(frozen=True, slots=True)
class Stored:
    """Vectors made at index time, (n, dimensions), and the row of each name."""

    vectors: Floats
    rows: Mapping[str, int]


def partial_score(entity: float, predicate: float, frequency: float) -> float:
    """s_u (Eq. 1): the mean of both matches over 1 + the natural logarithm of the partial triple's frequency."""
    return (entity + predicate) / (2 * (1 + math.log(max(1.0, frequency))))


def score_all(
    asked: Sequence[ScoringInput], index: Lookups, frequency: Counted, *, by_query: bool
) -> list[list[ScoredTriple]]:
    """The triples of each sub-query with their scores; what is stored of them is looked up for all together.

    `by_query`: a predicate's match is its cosine with the whole sub-query, not with the best n-gram (reading V8).
    """
    triples = dict.fromkeys(one for each in asked for one in each.triples)
    names = dict.fromkeys(name for one in asked for key in _keys(one) for name in (key, *one.aliases.get(key, ())))
    predicates = dict.fromkeys(one.triple.predicate for one in triples)
    partials = [id for one in triples for id in one.partials]
    of_names, of_predicates, often = index.stored(list(names), list(predicates), partials, frequency)
    entity = Stored(of_names, {name: row for row, name in enumerate(names)})
    predicate = Stored(of_predicates, {name: row for row, name in enumerate(predicates)})
    return [_scored(one, often, entity, predicate, by_query=by_query) for one in asked]


def _scored(
    asked: ScoringInput, often: Mapping[str, float], entity: Stored, predicate: Stored, *, by_query: bool
) -> list[ScoredTriple]:
    entities = _match_entities(_keys(asked), asked, entity)
    predicates = _match_predicates(list(dict.fromkeys(one.triple.predicate for one in asked.triples)), asked, predicate)
    if by_query:
        cosines = {name: float(predicate.vectors[predicate.rows[name]] @ asked.vector) for name in predicates}
        predicates = {name: NameMatch(cosines[name], match.span) for name, match in predicates.items()}
    return [_best_partial(one, entities, predicates[one.triple.predicate], often) for one in asked.triples]


def _best_partial(
    stated: Stated, entities: Mapping[str, NameMatch], predicate: NameMatch, often: Mapping[str, float]
) -> ScoredTriple:
    """s_t (Eq. 2): that of the better partial triple, of equal ones the direct one's."""
    both = [
        ScoredTriple(
            stated, partial_score(entities[key].score, predicate.score, often[id]), inverse, entities[key], predicate
        )
        for (key, inverse), id in zip(stated.sides, stated.partials, strict=True)
    ]
    return max(both, key=lambda one: one.score)


def _match_entities(keys: Sequence[str], asked: ScoringInput, stored: Stored) -> dict[str, NameMatch]:
    """s_e: the best match of an entity or one of its aliases, each encoded by itself (section 4.3)."""
    named = [(key, *asked.aliases.get(key, ())) for key in keys]
    places = {name: place for place, name in enumerate(dict.fromkeys(name for group in named for name in group))}
    found = match_names(
        stored.vectors[[stored.rows[name] for name in places]], asked.question
    )  # each once: ties are ties
    best = choose_best(found, [[places[name] for name in group] for group in named])
    return dict(zip(keys, _matches(best, asked.question), strict=True))


def _match_predicates(predicates: Sequence[str], asked: ScoringInput, stored: Stored) -> dict[str, NameMatch]:
    found = match_names(stored.vectors[[stored.rows[name] for name in predicates]], asked.question)
    return dict(zip(predicates, _matches(found, asked.question), strict=True))


def _matches(found: Matches, question: Ngrams) -> list[NameMatch]:
    pairs = zip(found.scores.tolist(), found.places.tolist(), strict=True)
    return [NameMatch(value, question.spans[place] if place >= 0 else None) for value, place in pairs]


def _keys(asked: ScoringInput) -> list[str]:
    return list(dict.fromkeys(key for one in asked.triples for key, _ in one.sides))


def describe_matches(scored: ScoredTriple, text: str) -> str:
    """What of `text` an entity and its predicate were matched to, for a person."""
    sides = ((scored.name, scored.entity), (scored.stated.triple.predicate, scored.predicate))
    return ", ".join(
        f"{name} = '{text[slice(*match.span)]}' {match.score:.2f}" if match.span else f"{name} {match.score:.2f}"
        for name, match in sides
    )
