"""Which share of the words of the current passages the fit of an encoder does not know, measured by each sync.

An encoder that is fitted to the corpus, as `lsa` is, knows the words of the passages that it was fitted to. A sync
looks up the words of a sample of the current passages: those with the smallest revisions, which are hashes. So a sync
of few documents finds most of the sample as it was, and only reads the rest.

What a fit does not know is in the passages that came after it, and questions about these lose by it alone. So they are
watched apart, once they are no longer few. They are known by their texts: a passage that got another id, other metadata
or another place in its document is none of them. A fit keeps a checksum of each text that it was made from.
"""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ragindex._util import durable_files
from ragindex.encoders.vectors import WordCount, count_words
from ragindex.interfaces import Encoder

UNKNOWN_LIMIT = 0.005
"""An encoder is fitted again once it does not know so many more of the passages' words than when it was fitted.

Questions by the titles of Python's PEPs find 2 points fewer of them at rank 1 then, and 5 points fewer at 0.025.
"""
NEW_LIMIT = 0.02
"""The share of passages that came after the fit from which on the limit holds for their words alone.

What questions about these lose does not depend on how many they are; below, one passage more decides.
"""
TURNOVER_LIMIT = 1 / 3
"""The share of passages that came after the fit from which on it is made again, as after growth by half."""
SAMPLED_PASSAGES = 512
"""Passages of which the words are looked up."""


_FITTED_TEXTS = "fitted_texts.u32"


@dataclass(frozen=True, slots=True)
class SampledWords:
    """The words of the sampled passages by revision; `new` are the revisions of those that came after the fit."""

    counts: Mapping[str, WordCount] = field(default_factory=dict)
    new: Set[str] = frozenset()

    @property
    def total(self) -> WordCount:
        """The words of all sampled passages."""
        return sum(self.counts.values(), WordCount())

    @property
    def new_share(self) -> float:
        """The share of the sampled passages that came after the fit."""
        return len(self.new) / max(1, len(self.counts))

    @property
    def unknown_new(self) -> float:
        """The share of the words of these passages that the fit does not know; 0 while they are few."""
        if self.new_share < NEW_LIMIT:
            return 0.0
        return sum((self.counts[revision] for revision in self.new), WordCount()).unknown_share


def describe_lack(unknown: float, unknown_new: float, new_share: float, unknown_then: float) -> str | None:
    """Say of what a fit knows too little, as "3.0% of the words of the passages"; None if it knows enough.

    The shares are of unknown words in all passages, in the `new_share` of them that came after it, and in those that it
    was fitted to.
    """
    if max(unknown, unknown_new) > unknown_then + UNKNOWN_LIMIT:
        came = f"the {new_share:.0%} of the passages that came after it"
        return f"{max(unknown, unknown_new):.1%} of the words of {'the passages' if unknown >= unknown_new else came}"
    return f"{new_share:.0%} of the passages, which came after it" if new_share >= TURNOVER_LIMIT else None


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

    def count(self, encoder: Encoder, known: SampledWords, fit: Path) -> SampledWords:
        """Return the counts of each passage by revision, and which of them came after the fit in a folder.

        Only texts whose revisions are not among the `known` ones are read, and compared with those of the fit.
        """
        missing = sorted(self.ids.keys() - known.counts.keys())
        texts = self.read([self.ids[revision] for revision in missing]) if missing else ()
        counted = {revision: count_words(encoder, text) for revision, text in zip(missing, texts, strict=True)}
        new = set(known.new & self.ids.keys())
        if missing and (fitted := FittedTexts.read(fit)) is not None:
            new.update(revision for revision, is_new in zip(missing, fitted.lack(texts), strict=True) if is_new)
        counts = {revision: counted.get(revision) or known.counts[revision] for revision in self.ids}
        return SampledWords(counts, frozenset(new))


@dataclass(frozen=True, slots=True)
class FittedTexts:
    """The texts that an encoder was fitted to, as sorted checksums: four bytes each."""

    checksums: "np.ndarray[Any, np.dtype[np.uint32]]"

    def lack(self, texts: Iterable[str]) -> list[bool]:
        """Return for each text whether it is none of the fitted ones.

        Of a million fitted texts, one new text in four thousand has the checksum of one of them, and is taken for it.
        """
        known: list[bool] = np.isin(_compute_checksums(texts), self.checksums).tolist()
        return [not is_known for is_known in known]

    @classmethod
    def read(cls, folder: Path) -> "FittedTexts | None":
        """Read the checksums from the folder of a fit; None for a fit that was made before they were kept."""
        try:
            return cls(np.fromfile(folder / _FITTED_TEXTS, "<u4").astype(np.uint32))
        except FileNotFoundError:
            return None

    @staticmethod
    def write(folder: Path, texts: Iterable[str]) -> None:
        """Write the checksums of the texts of a fit to its folder."""
        durable_files.write_file(folder / _FITTED_TEXTS, np.unique(_compute_checksums(texts)).astype("<u4").tobytes())


def _compute_checksums(texts: Iterable[str]) -> "np.ndarray[Any, np.dtype[np.uint32]]":
    return np.fromiter((zlib.crc32(text.encode("utf-8", "surrogatepass")) for text in texts), np.uint32)


def read_counts(path: Path, fit: str) -> SampledWords | None:
    """Return the counts of passages that were kept for a fit; None where there are no intact ones."""
    try:
        value: Any = durable_files.load_hashed_json(path.read_bytes())
    except FileNotFoundError:
        return None
    if value is None or value["fit"] != fit:
        return None
    counts = {revision: WordCount(*counts) for revision, counts in value["counts"].items()}
    return SampledWords(counts, frozenset(value.get("new", ())))


def write_counts(path: Path, fit: str, words: SampledWords) -> None:
    """Keep the counts of passages for a fit."""
    counts = {revision: [count.words, count.unknown] for revision, count in words.counts.items()}
    value = {"fit": fit, "counts": counts, "new": sorted(words.new)}
    durable_files.write_file(path, durable_files.dump_hashed_json(value))
