"""The text of a question: its sub-queries and n-grams, the names of triples that match these, and its rewriting.

Sections 4.2.1 and 4.3 to 4.5 of GRIEVER. The question is encoded once; the vector of an n-gram is pooled from the
vectors of its tokens.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
import regex

from ragindex.encoders.vectors import normalize_rows
from ragindex.interfaces import Floats, TokenEmbeddings
from ragindex.parts.records import Integers
from ragindex.types import Span
from ragindex_retrievers.griever.lookups import Aliases, Counted, Lookups, StatedTriple

Pooling = Literal["mean", "max"]
_BLOCK = 1024  # n-grams per block, to bound the memory of their tokens' vectors
_WORD = regex.compile(r"(?:(?<!['’.-])['’.-]++)?+\w++(?:['’.-]++\w++)*+")


@dataclass(frozen=True, slots=True)
class Ngrams:
    """Word n-grams of a text. `spans[i]` are the character offsets of the n-gram in row i of `vectors`."""

    spans: tuple[Span, ...]
    vectors: Floats


@dataclass(frozen=True, slots=True)
class Matches:
    """The highest cosine of each of n names with an n-gram, and the number of that n-gram (-1 if there is none)."""

    scores: Floats
    places: Integers


def spans(text: str, longest: int) -> list[Span]:
    """Return the character spans of all n-grams of 1 to `longest` words.

    Shorter n-grams come first: of equal matches the first counts.
    """
    words = [word.span() for word in _WORD.finditer(text)]
    return [
        (words[first][0], words[first + length - 1][1])
        for length in range(1, longest + 1)
        for first in range(len(words) - length + 1)
    ]


def ngrams(text: str, tokens: TokenEmbeddings, longest: int, pool: Pooling) -> Ngrams:
    """Return the n-grams that contain a token, with the mean or maximum of their token vectors, normalized.

    Of several n-grams with the same tokens only the shortest is returned.
    """
    positions = np.array(spans(text, longest), np.int64).reshape(-1, 2)
    inside = _find_tokens(positions, np.array(tokens.spans, np.int64).reshape(-1, 2))
    chosen = _find_distinct(inside)
    vectors = [
        _pool_tokens(inside[chosen[start : start + _BLOCK]], tokens.vectors, pool)
        for start in range(0, max(1, len(chosen)), _BLOCK)
    ]
    return Ngrams(
        tuple((start, end) for start, end in positions[chosen].tolist()), normalize_rows(np.concatenate(vectors))
    )


def _find_tokens(positions: Integers, tokens: Integers) -> Integers:
    """Return the tokens that share a character with each n-gram, ascending and padded with -1: (n-grams, most tokens).

    Tokens may overlap and nest; they are sorted by their first character. An n-gram shares characters only with tokens
    that begin before its end, and that come after all tokens that end before its start: few, if tokens are short.
    """
    if not len(positions) or not len(tokens):
        return np.full((len(positions), 0), -1, np.int64)
    low = np.searchsorted(np.maximum.accumulate(tokens[:, 1]), positions[:, 0], side="right")
    high = np.searchsorted(tokens[:, 0], positions[:, 1], side="left")
    width = max(1, int((high - low).max(initial=0)))
    blocks = []
    for start in range(0, len(positions), _BLOCK):
        rows = slice(start, start + _BLOCK)
        places = low[rows, None] + np.arange(width)
        ends = tokens[np.minimum(places, len(tokens) - 1), 1]
        inside = (places < high[rows, None]) & (ends > positions[rows, :1])
        block = np.where(inside, places, -1)
        order = np.argsort(~inside, axis=1, kind="stable")  # padding last, so that equal tokens are equal rows
        blocks.append(np.take_along_axis(block, order, axis=1))
    tokens_of: Integers = np.concatenate(blocks)
    return tokens_of


def _find_distinct(inside: Integers) -> Integers:
    """Return the places of the n-grams with tokens, and of those with the same tokens only the first.

    Only rounding would tell the others apart.
    """
    if not inside.shape[1]:
        return np.empty(0, np.int64)
    _, places = np.unique(inside, axis=0, return_index=True)
    places = np.sort(places)
    chosen: Integers = places[inside[places, 0] >= 0]
    return chosen


def _pool_tokens(inside: Integers, vectors: Floats, pool: Pooling) -> Floats:
    if not len(inside):
        return np.empty((0, vectors.shape[1]), np.float32)
    known = (inside >= 0)[:, :, None]
    rows = vectors[inside]
    if pool == "mean":
        sums = np.where(known, rows, 0).sum(axis=1, dtype=np.float64)
        means: Floats = (sums / known.sum(axis=1)).astype(np.float32)
        return means
    highest: Floats = np.where(known, rows, -np.inf).max(axis=1).astype(np.float32)
    return highest


def ngrams_as_texts(texts: Sequence[str], encode: Callable[[Sequence[str]], Floats], longest: int) -> list[Ngrams]:
    """Return the n-grams of each text, with each n-gram encoded by itself, all in one batch."""
    positions = [spans(text, longest) for text in texts]
    vectors = encode([text[start:end] for text, each in zip(texts, positions, strict=True) for start, end in each])
    ends = np.cumsum([0, *map(len, positions)]).tolist()
    return [Ngrams(tuple(each), vectors[low:high]) for each, (low, high) in zip(positions, pairwise(ends), strict=True)]


def match_names(names: Floats, among: Ngrams) -> Matches:
    """Return the best n-gram for each row of `names`, (n, dimensions); the score is 0 if there are no n-grams."""
    if not len(names) or not len(among.vectors):
        return Matches(np.zeros(len(names), np.float32), np.full(len(names), -1, np.int64))
    cosines = names @ among.vectors.T
    places = cosines.argmax(axis=1)
    return Matches(cosines[np.arange(len(names)), places], places)


def choose_best(matches: Matches, groups: Sequence[Sequence[int]]) -> Matches:
    """Return the best match in each group of rows (a name and its aliases); of equal ones the first."""
    rows = [max(group, key=lambda row: matches.scores[row]) for group in groups]
    return Matches(matches.scores[rows], matches.places[rows])


# ---------------------------------------------------------------- scores of triples (Eqs. 1 and 2)


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

    stated: StatedTriple
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
    triples: Sequence[StatedTriple]
    aliases: Aliases


@dataclass(frozen=True, slots=True)
class NameTable:
    """Vectors from the index, (n, dimensions), and the row of each name."""

    vectors: Floats
    rows: Mapping[str, int]


def partial_score(entity: float, predicate: float, frequency: float) -> float:
    """Return s_u (Eq. 1): the mean of both matches, divided by 1 + ln(frequency of the partial triple)."""
    return (entity + predicate) / (2 * (1 + math.log(max(1.0, frequency))))


def score_all(
    inputs: Sequence[ScoringInput], index: Lookups, frequency: Counted, *, by_query: bool
) -> list[list[ScoredTriple]]:
    """Return the scored triples of each sub-query; what the index stores of them is looked up for all together.

    `by_query`: a predicate's match is its cosine with the whole sub-query, not with the best n-gram (reading
    V8).
    """
    triples = dict.fromkeys(triple for each in inputs for triple in each.triples)
    names = dict.fromkeys(
        name for line in inputs for key in _list_keys(line) for name in (key, *line.aliases.get(key, ()))
    )
    predicates = dict.fromkeys(triple.triple.predicate for triple in triples)
    partials = [id for triple in triples for id in triple.partials]
    of_names, of_predicates, often = index.stored(list(names), list(predicates), partials, frequency)
    entity = NameTable(of_names, {name: row for row, name in enumerate(names)})
    predicate = NameTable(of_predicates, {name: row for row, name in enumerate(predicates)})
    return [_score_triples(line, often, entity, predicate, by_query=by_query) for line in inputs]


def _score_triples(
    inputs: ScoringInput, often: Mapping[str, float], entity: NameTable, predicate: NameTable, *, by_query: bool
) -> list[ScoredTriple]:
    entities = _match_entities(_list_keys(inputs), inputs, entity)
    distinct = list(dict.fromkeys(triple.triple.predicate for triple in inputs.triples))
    names = match_names(predicate.vectors[[predicate.rows[name] for name in distinct]], inputs.question)
    predicates = dict(zip(distinct, _make_matches(names, inputs.question), strict=True))
    if by_query:
        cosines = {name: float(predicate.vectors[predicate.rows[name]] @ inputs.vector) for name in predicates}
        predicates = {name: NameMatch(cosines[name], match.span) for name, match in predicates.items()}
    return [_choose_partial(triple, entities, predicates[triple.triple.predicate], often) for triple in inputs.triples]


def _choose_partial(
    stated: StatedTriple, entities: Mapping[str, NameMatch], predicate: NameMatch, often: Mapping[str, float]
) -> ScoredTriple:
    """Return the triple with s_t (Eq. 2), the score of its better partial triple; of equal ones the direct one."""
    both = [
        ScoredTriple(
            stated, partial_score(entities[key].score, predicate.score, often[id]), inverse, entities[key], predicate
        )
        for (key, inverse), id in zip(stated.sides, stated.partials, strict=True)
    ]
    return max(both, key=lambda scored: scored.score)


def _match_entities(keys: Sequence[str], inputs: ScoringInput, stored: NameTable) -> dict[str, NameMatch]:
    """Return s_e: the best match of each entity or one of its aliases, each encoded by itself (section 4.3)."""
    spellings = [(key, *inputs.aliases.get(key, ())) for key in keys]
    places = {name: place for place, name in enumerate(dict.fromkeys(name for group in spellings for name in group))}
    names = match_names(
        stored.vectors[[stored.rows[name] for name in places]], inputs.question
    )  # one row per distinct name, so that equal names have equal scores
    best = choose_best(names, [[places[name] for name in group] for group in spellings])
    return dict(zip(keys, _make_matches(best, inputs.question), strict=True))


def _make_matches(matches: Matches, question: Ngrams) -> list[NameMatch]:
    pairs = zip(matches.scores.tolist(), matches.places.tolist(), strict=True)
    return [NameMatch(value, question.spans[place] if place >= 0 else None) for value, place in pairs]


def _list_keys(inputs: ScoringInput) -> list[str]:
    return list(dict.fromkeys(key for triple in inputs.triples for key, _ in triple.sides))


def describe_matches(scored: ScoredTriple, text: str) -> str:
    """Return a readable description of the words in `text` that an entity and its predicate match."""
    sides = ((scored.name, scored.entity), (scored.stated.triple.predicate, scored.predicate))
    return ", ".join(
        f"{name} = '{text[slice(*match.span)]}' {match.score:.2f}" if match.span else f"{name} {match.score:.2f}"
        for name, match in sides
    )


# ---------------------------------------------------------------- sub-queries and rewriting


CONNECTORS = ("who", "whom", "whose", "which", "that", "where", "when")
"""English connectors. The paper shows `where` and `who`, and gives no list (reading V3)."""

_FEWEST_WORDS = 2
_PLAIN_WORD = regex.compile(r"\w+")


def split_question(question: str, connectors: Sequence[str], *, with_question: bool, most: int) -> list[str]:
    """Return at most `most` sub-queries: the question if `with_question`, and the text from each connector to the end.

    A connector stays in its clause and matches in any case. The first word never splits, and a rest of one word
    is no clause. A question without clauses is its own sub-query.
    """
    connector_words = {connector.casefold() for connector in connectors}
    words = list(_PLAIN_WORD.finditer(question))
    starts = [
        word.start()
        for place, word in enumerate(words)
        if 0 < place <= len(words) - _FEWEST_WORDS and word[0].casefold() in connector_words
    ]
    clauses = [question[start:].strip() for start in starts]
    return ([question, *clauses] if with_question or not clauses else clauses)[:most]


_LEAST_PREDICATE = 0.5
"""Score from which a predicate counts as matched in rewriting."""
RewriteOrder: TypeAlias = Literal["triple", "entity"]


def rewrite(
    question: str,
    scored: Sequence[ScoredTriple],
    least_entity: float,
    most: int,
    order: RewriteOrder = "triple",
) -> str:
    """Return the question with the mention of a matched entity replaced by the other entity of the triple
    (reading V11).

    Triples are used best first (`order=triple`), or those with the best matched entity first (`order=entity`), at
    most `most` of them, if they match with a score of at least `least_entity` and their mentions do not overlap. The
    words that match the predicate with at least 0.5 are removed. A triple whose other entity is the
    mention itself (it states an alias) is skipped. Returns the question unchanged if there is no such triple, or if
    nothing would be left to ask.
    """
    mentions: dict[Span, str] = {}
    replaced: list[Span] = []
    for triple in sorted(
        scored, key=lambda triple: (-triple.entity.score if order == "entity" else 0.0, -triple.score)
    ):
        if len(mentions) == most:
            break
        mention = triple.entity.span
        if mention is None or triple.entity.score < least_entity or any(_overlap(mention, span) for span in mentions):
            continue
        if triple.other_name.casefold() == question[slice(*mention)].casefold():
            continue
        mentions[mention] = triple.other_name
        if triple.predicate.span is not None and triple.predicate.score >= _LEAST_PREDICATE:
            replaced.append(triple.predicate.span)
    remaining = [piece for span in replaced for piece in _subtract_spans(span, list(mentions))]
    edits = [*mentions.items(), *((span, "") for span in _remove_overlaps(remaining))]
    return _apply_edits(question, edits) or question


def _overlap(span: Span, other: Span) -> bool:
    return span[0] < other[1] and other[0] < span[1]


def _subtract_spans(span: Span, others: Sequence[Span]) -> list[Span]:
    """Return the pieces of a span outside the `others`."""
    pieces = [span]
    for start, end in others:
        pieces = [
            piece
            for low, high in pieces
            for piece in ((low, min(high, start)), (max(low, end), high))
            if piece[0] < piece[1]
        ]
    return pieces


def _remove_overlaps(spans: Sequence[Span]) -> list[Span]:
    """Return spans that cover the same characters without overlap."""
    apart: list[Span] = []
    for span in spans:
        apart += _subtract_spans(span, apart)
    return apart


def _apply_edits(question: str, edits: Sequence[tuple[Span, str]]) -> str:
    for (start, end), text in sorted(edits, reverse=True):
        question = question[:start] + text + question[end:]
    return " ".join(question.split())
