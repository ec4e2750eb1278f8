"""Which share of the words of the current passages the fit of an encoder does not know, measured by each sync.

An encoder that is fitted to the corpus, as `lsa` is, knows the words of the passages that it was fitted to. A sync
looks up the words of a sample of the current passages: those with the smallest revisions, which are hashes. So a sync
of few documents finds most of the sample as it was, and only reads the rest.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
SAMPLED_PASSAGES = 512
"""Passages of which the words are looked up."""


def knows_too_few(unknown: float, unknown_then: float) -> bool:
    """Return whether a fit does not know too many words: a share of them now, and one when it was made."""
    return unknown > unknown_then + UNKNOWN_LIMIT


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


def read_counts(path: Path, fit: str) -> dict[str, WordCount]:
    """Return the counts of passages by revision that were kept for a fit; none where there are no intact ones."""
    try:
        value: Any = durable_files.load_hashed_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    if value is None or value["fit"] != fit:
        return {}
    return {revision: WordCount(*counts) for revision, counts in value["counts"].items()}


def write_counts(path: Path, fit: str, counts: Mapping[str, WordCount]) -> None:
    """Keep the counts of passages for a fit."""
    value = {"fit": fit, "counts": {revision: [count.words, count.unknown] for revision, count in counts.items()}}
    durable_files.write_file(path, durable_files.dump_hashed_json(value))
