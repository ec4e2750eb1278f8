"""The vector-based matcher (GRIEVER, section 4.3): names against the n-grams of a question, by cosine.

The question is encoded once; the vector of an n-gram is made from the vectors of its tokens.
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
_BLOCK = 1024  # n-grams whose tokens are looked at together
_WORD = regex.compile(r"[\w'’.-]*\w")


@dataclass(frozen=True, slots=True)
class Ngrams:
    """The word n-grams of a text: `spans[i]` are the characters of the one that row i of `vectors` stands for."""

    spans: tuple[Span, ...]
    vectors: Floats


@dataclass(frozen=True, slots=True)
class Matches:
    """For each of n names the highest cosine with an n-gram, and which n-gram that is (-1: there is none)."""

    scores: Floats
    places: Integers


def spans(text: str, longest: int) -> list[Span]:
    """Where the n-grams of 1 to `longest` words lie, the shortest first: of equal matches the first counts."""
    words = [word.span() for word in _WORD.finditer(text)]
    return [
        (words[first][0], words[first + length - 1][1])
        for length in range(1, longest + 1)
        for first in range(len(words) - length + 1)
    ]


def ngrams(text: str, tokens: TokenEmbeddings, longest: int, pool: Pooling) -> Ngrams:
    """The n-grams with a token, with the mean or the greatest of their tokens' vectors, of length one.

    Of several with the same tokens the shortest is there.
    """
    found, of = np.array(spans(text, longest), np.int64).reshape(-1, 2), np.array(tokens.spans, np.int64).reshape(-1, 2)
    found = found[_distinct([np.packbits(_inside(block, of), axis=1) for block in _blocks(found)])]
    made = [_pooled(_inside(block, of), tokens.vectors, pool) for block in _blocks(found)]
    return Ngrams(tuple((start, end) for start, end in found.tolist()), normalize_rows(np.concatenate(made)))


def _blocks(found: Integers) -> list[Integers]:
    """At least one, so that there are dimensions where there are no n-grams."""
    return [found[start : start + _BLOCK] for start in range(0, max(1, len(found)), _BLOCK)]


def _pooled(inside: Flags, vectors: Floats, pool: Pooling) -> Floats:
    if pool == "mean":
        means: Floats = (inside.astype(np.float64) @ vectors / inside.sum(axis=1)[:, None]).astype(np.float32)
        return means
    return np.array([vectors[row].max(axis=0) for row in inside], np.float32).reshape(len(inside), vectors.shape[1])


def _inside(found: Integers, tokens: Integers) -> Flags:
    """(n-grams, tokens): whether they share a character. Tokens may overlap, and lie inside each other."""
    shared: Flags = (tokens[:, 0] < found[:, 1:]) & (tokens[:, 1] > found[:, :1])
    return shared


def _distinct(inside: Sequence[Bytes]) -> Integers:
    """Places of n-grams with tokens, the first of those with the same ones: only chance would tell them apart.

    `inside` are the rows of `_inside`, packed: equal where the tokens are.
    """
    rows = np.concatenate(inside)
    _, places = np.unique(rows, axis=0, return_index=True)
    places = np.sort(places)
    return places[rows[places].any(axis=1)]


def ngrams_as_texts(texts: Sequence[str], encode: Callable[[Sequence[str]], Floats], longest: int) -> list[Ngrams]:
    """The n-grams of each text, each encoded by itself; all in one batch."""
    found = [spans(text, longest) for text in texts]
    vectors = encode([text[start:end] for text, each in zip(texts, found, strict=True) for start, end in each])
    ends = np.cumsum([0, *map(len, found)]).tolist()
    return [Ngrams(tuple(each), vectors[low:high]) for each, (low, high) in zip(found, pairwise(ends), strict=True)]


def match_names(names: Floats, among: Ngrams) -> Matches:
    """The best n-gram for each row of `names`, (n, dimensions); 0 where the question has none."""
    if not len(names) or not len(among.vectors):
        return Matches(np.zeros(len(names), np.float32), np.full(len(names), -1, np.int64))
    cosines = names @ among.vectors.T
    places = cosines.argmax(axis=1)
    return Matches(cosines[np.arange(len(names)), places], places)


def choose_best(matches: Matches, groups: Sequence[Sequence[int]]) -> Matches:
    """For each group of rows (a name and its aliases) the first best match among them."""
    rows = [max(group, key=lambda row: matches.scores[row]) for group in groups]
    return Matches(matches.scores[rows], matches.places[rows])
