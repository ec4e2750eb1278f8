"""Documents whose texts are almost equal, and long ones that hold others, found by samples of their word sequences.

A document's sample is the smallest hashes of its sequences of five words (Broder, "On the resemblance and containment
of documents", 1997, bottom-k sketches). Documents are compared if they share one of the smallest hashes of a sample,
so the time is linear in the text. A long document holds another if it has nearly all of the other's sample.
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
_MOST_HOLDERS = 10  # the longest documents, which are looked at as ones that hold others
_FEWEST_HELD = 3  # documents
_HELD_SAMPLE = 16  # hashes of a sample that are looked up in a longer document
_HELD_SHARE = 0.9  # of these
_LONGER = 2.0  # times as long as what it holds
_MOST_OF_HOLDER = 5_000_000  # characters, from its start
SequenceSample: TypeAlias = NDArray[np.uint64]
Samples: TypeAlias = dict[str, SequenceSample]
"""The smallest hashes of the word sequences of documents, by id."""


def sample_documents(documents: Sequence[Document]) -> Samples:
    """Return the samples of the documents that are long enough to tell."""
    return {one.id: sample for one in documents if len(sample := _sample(one.text)) >= _FEWEST_SEQUENCES}


def find_near_duplicates(samples: Samples) -> list[tuple[str, str]]:
    """Return pairs of ids of documents that are almost equal: each document with the first one that resembles it."""
    places = {id: place for place, id in enumerate(samples)}
    found: dict[str, str] = {}
    for first, second in sorted(_candidates(samples), key=lambda pair: (places[pair[1]], places[pair[0]])):
        if second not in found and are_almost_equal(samples[first], samples[second]):
            found[second] = found.get(first, first)
    return [(first, second) for second, first in found.items()]


def are_almost_equal(first: SequenceSample, second: SequenceSample) -> bool:
    """Return whether two documents, given as their samples, have a RESEMBLANCE or more."""
    return _resemblance(first, second) >= RESEMBLANCE


def find_holders(documents: Sequence[Document], samples: Samples) -> dict[str, list[str]]:
    """Return the ids of long documents that hold the texts of several others, such as a manual on one page.

    Each with the ids of what it holds: at least three documents, half as long as itself at most.
    """
    lengths = {one.id: len(one.text) for one in documents}
    if len(samples) <= _FEWEST_HELD:
        return {}
    ids, kept = list(samples), [sample[:_HELD_SAMPLE] for sample in samples.values()]
    hashes, counts = np.concatenate(kept), np.array([len(sample) for sample in kept])
    starts = np.cumsum(counts) - counts
    found: dict[str, list[str]] = {}
    for holder in sorted(documents, key=lambda one: -len(one.text))[:_MOST_HOLDERS]:
        shares = np.add.reduceat(np.isin(hashes, _hash_sequences(holder.text[:_MOST_OF_HOLDER])), starts) / counts
        held = [ids[place] for place in np.flatnonzero(shares >= _HELD_SHARE).tolist()]
        held = [id for id in held if _LONGER * lengths[id] <= len(holder.text)]
        if len(held) >= _FEWEST_HELD:
            found[holder.id] = held
    return found


def _sample(text: str) -> SequenceSample:
    """Return the smallest distinct hashes of the text's word sequences, ascending."""
    return _hash_sequences(text[:_MOST_CHARACTERS])[:_SAMPLE]


def _hash_sequences(text: str) -> SequenceSample:
    """Return the distinct hashes of the text's word sequences, ascending."""
    words = (word[0] for word in _WORD.finditer(text.lower()))
    hashes = np.fromiter((crc32(word.encode()) for word in words), np.uint64)
    if len(hashes) < _WORDS:
        return np.empty(0, np.uint64)
    sequences = np.zeros(len(hashes) - _WORDS + 1, np.uint64)
    for place in range(_WORDS):
        sequences = sequences * np.uint64(0x9E3779B97F4A7C15) + hashes[place : place + len(sequences)]
    mixed = (sequences ^ (sequences >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.unique(mixed)


def _candidates(samples: Samples) -> set[tuple[str, str]]:
    by_hash: dict[int, list[str]] = {}
    for id, sample in samples.items():
        for key in sample[:_KEYS].tolist():
            by_hash.setdefault(key, []).append(id)
    return set(_pairs(by_hash.values()))


def _pairs(groups: Iterable[Sequence[str]]) -> Iterator[tuple[str, str]]:
    for group in groups:
        yield from combinations(group[:_MOST_COMPARED], 2)


def _resemblance(first: SequenceSample, second: SequenceSample) -> float:
    """Return the estimated Jaccard index: the share of the smallest hashes of both that both have."""
    smallest = np.union1d(first, second)[: min(_SAMPLE, max(len(first), len(second)))]
    common = np.intersect1d(np.intersect1d(first, second), smallest)
    return len(common) / len(smallest)
