"""Which share of the words of the current passages the fit of an encoder does not know, measured by each sync.

An encoder that is fitted to the corpus, as `lsa` is, knows the words of the passages that it was fitted to. A sync
looks up the words of a sample of the current passages: those with the smallest revisions, which are hashes. So a sync
of few documents finds most of the sample as it was, and only reads the rest.

What a fit does not know is in the passages that came after it, and questions about these lose by it alone. So they are
watched apart, once they are no longer few.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ragindex._util import durable_files
from ragindex.encoders.word_counts import WordCount, count_words
from ragindex.interfaces import Encoder

UNKNOWN_LIMIT = 0.005
"""An encoder is fitted again once it does not know so many more of the passages' words than when it was fitted.

Questions by the titles of Python's PEPs find 2 points fewer of them at rank 1 then, and 5 points fewer at 0.025.
"""
NEW_LIMIT = 0.02
"""The share of passages that came after the fit from which on the limit holds for their words alone.

What questions about these lose does not depend on how many they are; below, one passage more decides.
"""
SAMPLED_PASSAGES = 512
"""Passages of which the words are looked up."""


@dataclass(frozen=True, slots=True)
class SampledWords:
    """The words of the sampled passages by revision; `fitted` are those of the sample when the encoder was fitted."""

    counts: Mapping[str, WordCount] = field(default_factory=dict)
    fitted: Set[str] = frozenset()

    @property
    def total(self) -> WordCount:
        """The words of all sampled passages."""
        return sum(self.counts.values(), WordCount())

    @property
    def new(self) -> dict[str, WordCount]:
        """The counts of those that came after the fit.

        A passage behind the last one of the full sample of then may be as old: it follows where others have left.
        """
        last = max(self.fitted, default="") if len(self.fitted) >= SAMPLED_PASSAGES else None
        added = self.counts.keys() - self.fitted
        return {revision: self.counts[revision] for revision in sorted(added) if last is None or revision < last}

    @property
    def new_share(self) -> float:
        """The share of the sampled passages that came after the fit."""
        return len(self.new) / max(1, len(self.counts))

    @property
    def unknown_new(self) -> float:
        """The share of the words of these passages that the fit does not know; 0 while they are few."""
        return sum(self.new.values(), WordCount()).unknown_share if self.new_share >= NEW_LIMIT else 0.0


def knows_too_few(unknown: float, unknown_new: float, unknown_then: float) -> bool:
    """Return whether a fit does not know too many words: shares of all passages, of new ones, and when it was made."""
    return max(unknown, unknown_new) > unknown_then + UNKNOWN_LIMIT


@dataclass(frozen=True, slots=True)
class PassageSample:
    """The passages whose words are looked up: their ids by revision. `read` returns the texts of ids, in their order.

    Passages of one revision have the same words.
    """

    ids: Mapping[str, str]
    read: Callable[[Sequence[str]], Sequence[str]]

    @classmethod
    def draw(cls, revisions: pa.Table, read: Callable[[Sequence[str]], Sequence[str]]) -> "PassageSample":
        """Draw the sample from the ids and revisions of all passages."""
        chosen = revisions
        if len(revisions) > SAMPLED_PASSAGES:
            keys = [("revision", "ascending"), ("id", "ascending")]
            chosen = revisions.take(pc.select_k_unstable(revisions, SAMPLED_PASSAGES, sort_keys=keys))
        return cls(dict(zip(chosen.column("revision").to_pylist(), chosen.column("id").to_pylist(), strict=True)), read)

    def count(self, encoder: Encoder, known: Mapping[str, WordCount]) -> dict[str, WordCount]:
        """Return the counts of each passage by revision. Only texts that are not among the `known` ones are read."""
        missing = sorted(self.ids.keys() - known.keys())
        texts = self.read([self.ids[revision] for revision in missing]) if missing else ()
        counted = {revision: count_words(encoder, text) for revision, text in zip(missing, texts, strict=True)}
        return {revision: counted.get(revision) or known[revision] for revision in self.ids}


def read_counts(path: Path, fit: str) -> SampledWords | None:
    """Return the counts of passages that were kept for a fit; None where there are no intact ones."""
    try:
        value: Any = durable_files.load_hashed_json(path.read_bytes())
    except FileNotFoundError:
        return None
    if value is None or value["fit"] != fit:
        return None
    counts = {revision: WordCount(*counts) for revision, counts in value["counts"].items()}
    return SampledWords(counts, frozenset(value.get("fitted", counts)))


def write_counts(path: Path, fit: str, words: SampledWords) -> None:
    """Keep the counts of passages for a fit."""
    counts = {revision: [count.words, count.unknown] for revision, count in words.counts.items()}
    value = {"fit": fit, "counts": counts, "fitted": sorted(words.fitted)}
    durable_files.write_file(path, durable_files.dump_hashed_json(value))
