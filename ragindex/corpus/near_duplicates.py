"""Documents whose texts are almost equal, and long ones that hold others, found by samples of their word sequences.

A document's sample is the smallest hashes of its sequences of five words (Broder, "On the resemblance and containment
of documents", 1997, bottom-k sketches). Documents are compared if they share one of the smallest hashes of a sample,
so the time is linear in the text. A long document holds another if it has nearly all of the other's sample.
"""

from collections import defaultdict
from collections.abc import Sequence
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
    hashes = ((document.id, _hash_sequences(document.text[:_MOST_CHARACTERS])) for document in documents)
    return {id: sample[:_SAMPLE] for id, sample in hashes if len(sample) >= _FEWEST_SEQUENCES}


def find_near_duplicates(samples: Samples) -> list[tuple[str, str]]:
    """Return pairs of ids of documents that are almost equal: each document with the first one that resembles it."""
    by_hash = defaultdict[int, list[str]](list)
    for id, sample in samples.items():
        for key in sample[:_KEYS].tolist():
            by_hash[key].append(id)
    candidates = {pair for group in by_hash.values() for pair in combinations(group[:_MOST_COMPARED], 2)}
    places = {id: place for place, id in enumerate(samples)}
    originals: dict[str, str] = {}
    for first, second in sorted(candidates, key=lambda pair: (places[pair[1]], places[pair[0]])):
        if second not in originals and are_almost_equal(samples[first], samples[second]):
            originals[second] = originals.get(first, first)
    return [(first, second) for second, first in originals.items()]


def are_almost_equal(first: SequenceSample, second: SequenceSample) -> bool:
    """Return whether two documents, given as their samples, have a RESEMBLANCE or more.

    It is estimated by the share of the smallest hashes of both that both have.
    """
    smallest = np.union1d(first, second)[: min(_SAMPLE, max(len(first), len(second)))]
    common = np.intersect1d(np.intersect1d(first, second), smallest)
    return len(common) / len(smallest) >= RESEMBLANCE


def find_holders(documents: Sequence[Document], samples: Samples) -> dict[str, list[str]]:
    """Return the ids of long documents that hold the texts of several others, such as a manual on one page.

    Each with the ids of what it holds: at least three documents, half as long as itself at most.
    """
    lengths = {document.id: len(document.text) for document in documents}
    if len(samples) <= _FEWEST_HELD:
        return {}
    ids, starts_of_samples = list(samples), [sample[:_HELD_SAMPLE] for sample in samples.values()]
    hashes, counts = np.concatenate(starts_of_samples), np.array([len(sample) for sample in starts_of_samples])
    starts = np.cumsum(counts) - counts
    holders: dict[str, list[str]] = {}
    for holder in sorted(documents, key=lambda document: -len(document.text))[:_MOST_HOLDERS]:
        shares = np.add.reduceat(np.isin(hashes, _hash_sequences(holder.text[:_MOST_OF_HOLDER])), starts) / counts
        similar = [ids[place] for place in np.flatnonzero(shares >= _HELD_SHARE).tolist()]
        inside = [id for id in similar if _LONGER * lengths[id] <= len(holder.text)]
        if len(inside) >= _FEWEST_HELD:
            holders[holder.id] = inside
    return holders


def _hash_sequences(text: str) -> SequenceSample:
    """Return the distinct hashes of the text's word sequences, ascending."""
    words = (word[0] for word in _WORD.finditer(text.lower()))
    hashes = np.fromiter((crc32(word.encode()) for word in words), np.uint64)
    if len(hashes) < _WORDS:
        return np.empty(0, np.uint64)
    sequences = np.zeros(len(hashes) - _WORDS + 1, np.uint64)
    for place in range(_WORDS):
        sequences = sequences * np.uint64(0x9E3779B97F4A7C15) + hashes[place : place + len(sequences)]
    return np.unique((sequences ^ (sequences >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9))
