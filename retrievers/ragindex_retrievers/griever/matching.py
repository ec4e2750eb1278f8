"""Vector-based matcher (GRIEVER, section 4.3): names against the n-grams of a question, by cosine.

The question is encoded once; the vector of an n-gram is pooled from the vectors of its tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import regex

from ragindex.encoders.common import normalize_rows
from ragindex.interfaces import Floats, TokenEmbeddings
from ragindex.parts.support.arrays import Flags, Integers

Pooling = Literal["mean", "max"]
Span: TypeAlias = tuple[int, int]
Bytes: TypeAlias = npt.NDArray[np.uint8]
_BLOCK = 1024  # n-grams per block, to bound the memory of the (n-grams, tokens) matrix
_WORD = regex.compile(r"[\w'’.-]*\w")


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
    found, of = np.array(spans(text, longest), np.int64).reshape(-1, 2), np.array(tokens.spans, np.int64).reshape(-1, 2)
    found = found[_find_distinct([np.packbits(_find_overlaps(block, of), axis=1) for block in _split_blocks(found)])]
    made = [_pool_tokens(_find_overlaps(block, of), tokens.vectors, pool) for block in _split_blocks(found)]
    return Ngrams(tuple((start, end) for start, end in found.tolist()), normalize_rows(np.concatenate(made)))


def _split_blocks(found: Integers) -> list[Integers]:
    """Return the n-grams in blocks, at least one, so that the vectors have their dimensions even without n-grams."""
    return [found[start : start + _BLOCK] for start in range(0, max(1, len(found)), _BLOCK)]


def _pool_tokens(inside: Flags, vectors: Floats, pool: Pooling) -> Floats:
    if pool == "mean":
        means: Floats = (inside.astype(np.float64) @ vectors / inside.sum(axis=1)[:, None]).astype(np.float32)
        return means
    return np.array([vectors[row].max(axis=0) for row in inside], np.float32).reshape(len(inside), vectors.shape[1])


def _find_overlaps(found: Integers, tokens: Integers) -> Flags:
    """Return whether each n-gram shares a character with each token, (n-grams, tokens). Tokens may overlap and nest."""
    shared: Flags = (tokens[:, 0] < found[:, 1:]) & (tokens[:, 1] > found[:, :1])
    return shared


def _find_distinct(inside: Sequence[Bytes]) -> Integers:
    """Return the places of the n-grams with tokens, and of those with the same tokens only the first.

    Only rounding would tell the others apart. `inside` are the packed rows of `_find_overlaps`: equal rows mean equal
    tokens.
    """
    rows = np.concatenate(inside)
    _, places = np.unique(rows, axis=0, return_index=True)
    places = np.sort(places)
    return places[rows[places].any(axis=1)]


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
