"""Documents whose texts are almost equal, found by comparing samples of their word sequences.

A document's sample is the smallest hashes of its sequences of five words (Broder, "On the resemblance and containment
of documents", 1997, bottom-k sketches). Documents are compared if they share one of the smallest hashes of a sample,
so the time is linear in the text.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import TypeAlias
from zlib import crc32

import numpy as np
import regex
from numpy.typing import NDArray

from ragindex.types import Document

RESEMBLANCE = 0.8
"""Share of common word sequences (Jaccard) from which two documents are near-duplicates."""
_WORD = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]|\w+")
_WORDS = 5
_SAMPLE, _KEYS = 64, 8
_MOST_COMPARED = 50  # documents that share a hash: more share boilerplate
_MOST_CHARACTERS = 200_000  # of a document, from its start
_FEWEST_SEQUENCES = 10
_Hashes: TypeAlias = NDArray[np.uint64]


def find_near_duplicates(documents: Sequence[Document]) -> list[tuple[str, str]]:
    """Return pairs of ids of documents that are almost equal: each document with the first one that resembles it."""
    samples = {one.id: sample for one in documents if len(sample := _sample(one.text)) >= _FEWEST_SEQUENCES}
    places = {id: place for place, id in enumerate(samples)}
    found: dict[str, str] = {}
    for first, second in sorted(_candidates(samples), key=lambda pair: (places[pair[1]], places[pair[0]])):
        if second not in found and _resemblance(samples[first], samples[second]) >= RESEMBLANCE:
            found[second] = found.get(first, first)
    return [(first, second) for second, first in found.items()]


def _sample(text: str) -> _Hashes:
    """Return the smallest distinct hashes of the text's word sequences, ascending."""
    words = (word[0] for word in _WORD.finditer(text[:_MOST_CHARACTERS].lower()))
    hashes = np.fromiter((crc32(word.encode()) for word in words), np.uint64)
    if len(hashes) < _WORDS:
        return np.empty(0, np.uint64)
    sequences = np.zeros(len(hashes) - _WORDS + 1, np.uint64)
    for place in range(_WORDS):
        sequences = sequences * np.uint64(0x9E3779B97F4A7C15) + hashes[place : place + len(sequences)]
    mixed = (sequences ^ (sequences >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.unique(mixed)[:_SAMPLE]


def _candidates(samples: dict[str, _Hashes]) -> set[tuple[str, str]]:
    by_hash: dict[int, list[str]] = {}
    for id, sample in samples.items():
        for key in sample[:_KEYS].tolist():
            by_hash.setdefault(key, []).append(id)
    return set(_pairs(by_hash.values()))


def _pairs(groups: Iterable[Sequence[str]]) -> Iterator[tuple[str, str]]:
    for group in groups:
        yield from combinations(group[:_MOST_COMPARED], 2)


def _resemblance(first: _Hashes, second: _Hashes) -> float:
    """Return the estimated Jaccard index: the share of the smallest hashes of both that both have."""
    smallest = np.union1d(first, second)[: min(_SAMPLE, max(len(first), len(second)))]
    common = np.intersect1d(np.intersect1d(first, second), smallest)
    return len(common) / len(smallest)
