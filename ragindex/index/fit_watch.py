"""Which share of the words of the current passages the fit of an encoder does not know, measured by each sync.

An encoder that is fitted to the corpus, as `lsa` is, knows the words of the passages that it was fitted to. A sync
looks up the words of a sample of the current passages: those with the smallest revisions, which are hashes. So a sync
of few documents finds most of the sample as it was, and only reads the rest.

What a fit does not know is in the passages that came after it, and questions about these lose by it alone. So they are
watched apart, once they are no longer few, in a sample of their own: in one of all passages there are too few of them.
They are known by their texts: a passage that got another id, other metadata or another place in its document is none
of them. A fit keeps a checksum of each text and of each revision that it was made from.
"""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
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
"""Passages of which the words are looked up, of all and of those that came after the fit."""
_FITTED_TEXTS = "fitted_texts.u32"
_FITTED_REVISIONS = "fitted_revisions.u32"
_Checksums: TypeAlias = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class SampledWords:
    """The words of sampled passages by revision: of all, and of those that came after the fit, the `new_share` of all.

    `moved` are revisions that came after the fit, whose texts did not.
    """

    counts: Mapping[str, WordCount] = field(default_factory=dict)
    new: Mapping[str, WordCount] = field(default_factory=dict)
    moved: Set[str] = frozenset()
    new_share: float = 0.0

    @property
    def total(self) -> WordCount:
        """The words of the sample of all passages."""
        return sum(self.counts.values(), WordCount())

    @property
    def unknown_new(self) -> float:
        """The share of the words of new passages that the fit does not know; 0 while they are few."""
        return 0.0 if self.new_share < NEW_LIMIT else sum(self.new.values(), WordCount()).unknown_share


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
    """The passages whose words are looked up. `revisions` has the id and revision of each passage of the index.

    `read` returns the texts of ids, in their order. Passages of one revision have the same words.
    """

    revisions: pa.Table
    read: Callable[[Sequence[str]], Sequence[str]]

    def count(self, encoder: Encoder, known: SampledWords, fit: Path) -> SampledWords:
        """Return the counts of sampled passages, and which came after the fit in a folder.

        Only texts whose revisions are not among the `known` ones are read, and compared with those of the fit.
        """
        fitted = FittedTexts.read(fit)
        later = self.revisions.slice(0, 0) if fitted is None else fitted.filter_later(self.revisions)
        chosen, chosen_later = _draw(self.revisions), _draw(later)
        counts = {**known.new, **known.counts}
        ids = {
            revision: id
            for revision, id in {**chosen, **chosen_later}.items()
            if revision not in counts and (revision in chosen or revision not in known.moved)
        }
        texts = self.read(list(ids.values())) if ids else ()
        counts |= {revision: count_words(encoder, text) for revision, text in zip(ids, texts, strict=True)}
        moved = set(known.moved)
        if fitted is not None:
            lacking = fitted.lack(texts)
            moved |= {revision for revision, is_new in zip(ids, lacking, strict=True) if not is_new}
        new = {revision: counts[revision] for revision in chosen_later if revision not in moved}
        return SampledWords(
            {revision: counts[revision] for revision in chosen},
            new,
            frozenset(moved & chosen_later.keys()),
            len(new) / max(1, len(chosen_later)) * len(later) / max(1, len(self.revisions)),
        )


def _draw(revisions: pa.Table) -> dict[str, str]:
    """Return the ids of the passages with the smallest revisions, by revision."""
    chosen = revisions
    if len(revisions) > SAMPLED_PASSAGES:
        keys = [("revision", "ascending"), ("id", "ascending")]
        chosen = revisions.take(pc.select_k_unstable(revisions, SAMPLED_PASSAGES, sort_keys=keys))
    return dict(zip(chosen.column("revision").to_pylist(), chosen.column("id").to_pylist(), strict=True))


@dataclass(frozen=True, slots=True)
class FittedTexts:
    """The texts that an encoder was fitted to, and the revisions of their passages: sorted checksums, four bytes each.

    `revisions` is None for a fit that was made before they were kept: any passage may be later.
    """

    texts: _Checksums
    revisions: _Checksums | None

    def lack(self, texts: Iterable[str]) -> list[bool]:
        """Return for each text whether it is none of the fitted ones.

        Of a million fitted texts, one new text in four thousand has the checksum of one of them, and is taken for it.
        """
        known: list[bool] = np.isin(_compute_checksums(texts), self.texts).tolist()
        return [not is_known for is_known in known]

    def filter_later(self, revisions: pa.Table) -> pa.Table:
        """Return the rows of passages that are new or have changed since the fit, if in their ids or metadata alone."""
        if self.revisions is None:
            return revisions
        checksums = _compute_checksums(revisions.column("revision").to_pylist())
        return revisions.filter(pa.array(~np.isin(checksums, self.revisions)))

    @classmethod
    def read(cls, folder: Path) -> "FittedTexts | None":
        """Read the checksums from the folder of a fit; None for a fit that was made before they were kept."""
        texts, revisions = (_read_checksums(folder / name) for name in (_FITTED_TEXTS, _FITTED_REVISIONS))
        return None if texts is None else cls(texts, revisions)

    @staticmethod
    def write(folder: Path, texts: Iterable[str], revisions: pa.Table) -> None:
        """Write the checksums of the texts and of the revisions of a fit to its folder."""
        for name, values in ((_FITTED_TEXTS, texts), (_FITTED_REVISIONS, revisions.column("revision").to_pylist())):
            durable_files.write_file(folder / name, np.unique(_compute_checksums(values)).astype("<u4").tobytes())


def _compute_checksums(texts: Iterable[str]) -> _Checksums:
    return np.fromiter((zlib.crc32(text.encode("utf-8", "surrogatepass")) for text in texts), np.uint32)


def _read_checksums(file: Path) -> _Checksums | None:
    try:
        return np.fromfile(file, "<u4").astype(np.uint32)
    except FileNotFoundError:
        return None


def read_counts(path: Path, fit: str) -> SampledWords | None:
    """Return the counts of passages that were kept for a fit; None where there are no intact ones."""
    try:
        value: Any = durable_files.load_hashed_json(path.read_bytes())
    except FileNotFoundError:
        return None
    if value is None or value["fit"] != fit or "moved" not in value:
        return None
    counts, new = (
        {revision: WordCount(*numbers) for revision, numbers in value[name].items()} for name in ("counts", "new")
    )
    return SampledWords(counts, new, frozenset(value["moved"]), value["new_share"])


def write_counts(path: Path, fit: str, words: SampledWords) -> None:
    """Keep the counts of passages for a fit."""
    counts, new = (
        {revision: [count.words, count.unknown] for revision, count in sample.items()}
        for sample in (words.counts, words.new)
    )
    value = {"fit": fit, "counts": counts, "new": new, "moved": sorted(words.moved), "new_share": words.new_share}
    durable_files.write_file(path, durable_files.dump_hashed_json(value))
