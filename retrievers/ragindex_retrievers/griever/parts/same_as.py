"""Aliases of entities: pairs of names for one thing, why they are taken for one, and in which passages."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import pyarrow as pa
from pydantic import Field

from ragindex.canonical import digest
from ragindex.interfaces import BuildContext, Collection, Part, ReadContext, Schema, Uses
from ragindex.parts.support import replace_all
from ragindex.parts.support.records import TEXTS
from ragindex.parts.text.passages import Passages
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins.registry import PartField, of_class
from ragindex.progress import progress_bar
from ragindex_retrievers.griever.parts import alias_pairs
from ragindex_retrievers.griever.parts.alias_pairs import AliasCandidate
from ragindex_retrievers.griever.parts.alias_senses import (
    Contexts,
    NameMentions,
    find_agreeing,
    make_contexts,
    read_mentions,
    read_vectors,
)
from ragindex_retrievers.griever.parts.name_vectors import NameCollections, NameVectors

SAME_AS_SCHEMA = Schema(
    stored=("text", "evidence", replace_all.DIGEST),
    keywords=("aliases", "passage_ids"),
    numbers=("score",),
    language="none",
)
RECORDS = pa.schema(
    {
        "id": pa.string(),
        "text": pa.string(),
        "evidence": pa.string(),
        "aliases": TEXTS,
        "passage_ids": TEXTS,
        "score": pa.float64(),
    }
)
"""What a record has, but for what tells whether it has changed."""
_BATCH = 2_000  # records made at once
_SAID = 3  # reasons are kept with a pair, the strongest first
_CERTAIN = ("predicate", "spelling")
"""Evidence that a triple between the two does not refute: a statement, and the same words."""


class SameAs(Part[Collection]):
    """Pairs of names for one entity, each with the passages where they mean the same (GRIEVER; reading V2).

    `by` evidence: what triples state ("also known as"), how names are written
    (`ragindex_retrievers.griever.parts.aliases`), and names with a cosine of at least `cosine` where they are written
    alike too. `by` embedding: all pairs of that cosine. Either way a name has at most `neighbours` such pairs. Dates
    and numbers have no aliases, and two pairs that share a name are never joined: Orange is a company, and a fruit.

    A statement holds in the passages that make it; several words that differ in case and marks alone hold everywhere.
    All else holds in the passages with one of the names that agree with a passage with the other: it is the same
    passage, or both name another entity, which is no number and which at most the share `common` of all passages names,
    or the passages' vectors have a cosine of at least `passage_cosine`; and a passage with Windhoek and Namibia agrees
    with Windhoek, Namibia. At most `most_passages` of a name are compared. A pair that holds nowhere is dropped.
    """

    version: ClassVar[int] = 1
    uses: ClassVar[Uses] = frozenset({"seed"})
    of: Annotated[PartField, of_class(NameVectors)] = Field(default=NameVectors(), description="Vectors of the names.")
    by: Literal["evidence", "embedding"] = Field(
        default="evidence", description="Evidence of statements and spelling, or cosine alone (V2)."
    )
    cosine: float = Field(default=0.8, gt=0, le=1, description="Cosine from which two names are a candidate pair.")
    neighbours: int = Field(default=20, ge=0, description="Candidate pairs by cosine per name at most.")
    common: float = Field(
        default=0.02,
        ge=0,
        le=1,
        description="Share of all passages above which an entity is too common to support a pair.",
    )
    passage_cosine: float = Field(default=0.5, gt=0, le=1, description="Cosine from which two passages support a pair.")
    most_passages: int = Field(default=256, ge=1, description="Passages of a name that are compared at most.")

    def inputs(self) -> tuple[Part[Any], ...]:
        """The names, the triples that they stand in, and the passages' vectors."""
        return (self.of, self.of.over, Vectors(of=Passages()))

    def finish(self, context: BuildContext) -> None:
        """Find all pairs anew, n log n in the triples; only records that changed are written."""
        names, triples, passages = context.inputs
        mentions = read_mentions(triples)
        found = self._found(mentions, names, context.seed)
        known = make_contexts(mentions, passages, self.common, self.passage_cosine, self.most_passages)
        pairs = list(_holding(found, known))
        replace_all.replace_records(context.collection("records", SAME_AS_SCHEMA), _records(pairs, mentions))
        context.note(_said(pairs, len(found)))

    def open(self, context: ReadContext) -> Collection:
        """Records: `text` "A = B", `evidence`, `aliases` (two keys, as `Triples.key` makes them), `passage_ids`,
        `score`. Their ids are `pair_id` of the two keys.
        """
        return context.collection("records")

    def _found(
        self, mentions: NameMentions, names: NameCollections, seed: int
    ) -> Mapping[tuple[int, int], list[AliasCandidate]]:
        keys = pa.array(mentions.keys, pa.large_string())
        vectors = read_vectors(names.entities, keys)
        spelt = self.by == "evidence"
        near = alias_pairs.find_neighbours(mentions, vectors, self.cosine, self.neighbours, seed, spelt)
        found: dict[tuple[int, int], list[AliasCandidate]] = defaultdict(list)
        for one in near if self.by == "embedding" else _unrefuted(mentions, near):
            found[one.first, one.second].append(one)
        return found


class Holding(NamedTuple):
    """A pair of entities by their places, with the evidence for it and the places of the passages it holds in."""

    first: int
    second: int
    candidates: tuple[AliasCandidate, ...]
    passages: tuple[int, ...]


def pair_id(one: str, other: str) -> str:
    """The id of the record of two names, by their keys, whichever comes first."""
    return digest(sorted((one, other)))


def _unrefuted(mentions: NameMentions, near: Iterator[AliasCandidate]) -> Iterator[AliasCandidate]:
    apart = alias_pairs.find_different(mentions)
    for found in (alias_pairs.find_stated(mentions), alias_pairs.find_alike(mentions), near):
        for one in found:
            if one.evidence.kind in _CERTAIN or (one.first, one.second) not in apart:
                yield one


def _holding(found: Mapping[tuple[int, int], list[AliasCandidate]], known: Contexts) -> Iterator[Holding]:
    with progress_bar("same_as: comparing passages", len(found)) as advance:
        for (first, second), candidates in sorted(found.items()):
            ordered = sorted(candidates, key=_strength)
            passages = sorted(_passages(ordered, known))
            if passages:
                yield Holding(first, second, tuple(ordered), tuple(passages))
            advance(1)


def _strength(one: AliasCandidate) -> tuple[bool, float, str]:
    """Neighbours last: how near two names are depends on the encoder."""
    return one.evidence.kind == alias_pairs.NEIGHBOUR, -one.evidence.score, str(one.evidence)


def _passages(candidates: Sequence[AliasCandidate], known: Contexts) -> set[int]:
    held = {place for one in candidates for place in one.passages}
    for where in {one.evidence.where for one in candidates}:
        held.update(find_agreeing(known, candidates[0].first, candidates[0].second, where).tolist())
    return held


def _records(pairs: Sequence[Holding], mentions: NameMentions) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(pairs), _BATCH):
        block = pairs[start : start + _BATCH]
        aliases = [[mentions.keys[one.first], mentions.keys[one.second]] for one in block]
        passages = [mentions.passages.take(pa.array(one.passages)).to_pylist() for one in block]
        columns = [
            [pair_id(*keys) for keys in aliases],
            [f"{mentions.names[one.first]} = {mentions.names[one.second]}" for one in block],
            [_evidence(one) for one in block],
            aliases,
            passages,
            [one.candidates[0].evidence.score for one in block],
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, RECORDS, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=RECORDS)


def _evidence(pair: Holding) -> str:
    """The strongest reasons, each once."""
    return "; ".join(list(dict.fromkeys(str(one.evidence) for one in pair.candidates))[:_SAID])


def _said(pairs: Sequence[Holding], found: int) -> str:
    kinds = Counter(one.candidates[0].evidence.kind for one in pairs)
    ordered = sorted(kinds.items(), key=lambda one: (-one[1], one[0]))
    counted = ", ".join(f"{count:,} by {kind}" for kind, count in ordered) or "none"
    dropped = f"{found - len(pairs):,} more were dropped: no passages agree on them."
    return f"{len(pairs):,} pairs of names are taken for one ({counted}). {dropped}"
