"""Vector-based matcher (GRIEVER, section 4.3): names against the n-grams of a question, by cosine.

The question is encoded once; the vector of an n-gram is pooled from the vectors of its tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import regex

from ragindex.encoders.common import normalize_rows
from ragindex.interfaces import Floats, TokenEmbeddings
from ragindex.parts.records import Integers
from ragindex.types import Span

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
    found = np.array(spans(text, longest), np.int64).reshape(-1, 2)
    inside = _find_tokens(found, np.array(tokens.spans, np.int64).reshape(-1, 2))
    chosen = _find_distinct(inside)
    made = [
        _pool_tokens(inside[chosen[start : start + _BLOCK]], tokens.vectors, pool)
        for start in range(0, max(1, len(chosen)), _BLOCK)
    ]
    return Ngrams(tuple((start, end) for start, end in found[chosen].tolist()), normalize_rows(np.concatenate(made)))


def _find_tokens(found: Integers, tokens: Integers) -> Integers:
    """Return the tokens that share a character with each n-gram, ascending and padded with -1: (n-grams, most tokens).

    Tokens may overlap and nest; they are sorted by their first character. An n-gram shares characters only with tokens
    that begin before its end, and that come after all tokens that end before its start: few, if tokens are short.
    """
    if not len(found) or not len(tokens):
        return np.full((len(found), 0), -1, np.int64)
    low = np.searchsorted(np.maximum.accumulate(tokens[:, 1]), found[:, 0], side="right")
    high = np.searchsorted(tokens[:, 0], found[:, 1], side="left")
    width = max(1, int((high - low).max(initial=0)))
    blocks = []
    for start in range(0, len(found), _BLOCK):
        rows = slice(start, start + _BLOCK)
        places = low[rows, None] + np.arange(width)
        ends = tokens[np.minimum(places, len(tokens) - 1), 1]
        inside = (places < high[rows, None]) & (ends > found[rows, :1])
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
    found = [spans(text, longest) for text in texts]
    vectors = encode([text[start:end] for text, each in zip(texts, found, strict=True) for start, end in each])
    ends = np.cumsum([0, *map(len, found)]).tolist()
    return [Ngrams(tuple(each), vectors[low:high]) for each, (low, high) in zip(found, pairwise(ends), strict=True)]


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
