"""Aliases of entities: pairs of names for one thing, with their evidence and the passages where they hold."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ragindex._util.canonical import digest
from ragindex._util.progress import progress_bar
from ragindex.interfaces import BuildContext, Collection, Floats, Part, ReadContext, Schema, SearchKind, Uses
from ragindex.parts.records import DIGEST, TEXTS, Flags, Integers, replace_records
from ragindex.parts.text.passages import Passages
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins.registry import PartField, of_class
from ragindex_retrievers.griever.parts import alias_pairs
from ragindex_retrievers.griever.parts.alias_pairs import AliasCandidate, NameMentions, read_mentions
from ragindex_retrievers.griever.parts.aliases import EvidenceScope
from ragindex_retrievers.griever.parts.name_vectors import NameCollections, NameVectors

SAME_AS_SCHEMA = Schema(
    stored=("text", "evidence", DIGEST),
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
"""Fields of a record, without the digest that detects changes."""
_BATCH = 2_000  # records built at once
_MAX_REASONS = 3  # reasons kept with a pair, the strongest first
_FEW = 3
"""Passages that may name an entity in any corpus, however small, without making it too common."""
_CERTAIN_KINDS = ("predicate", "spelling")
"""Kinds of evidence that a triple between two names does not refute: statements, and the same words."""


class SameAs(Part[Collection]):
    """Pairs of names for one entity, each with the passages where they mean the same (GRIEVER; reading V2).

    `by=evidence` takes what triples state ("also known as"), how names are written
    (`ragindex_retrievers.griever.parts.aliases`), and names with a cosine of at least `cosine` if they are also
    written alike. `by=embedding` takes all pairs with that cosine. In both, a name has at most `neighbours`
    pairs by cosine. Dates and numbers have no aliases. Pairs that share a name are never joined: Orange is a
    company, and a fruit.

    A statement holds in the passages that make it. Names of several words that differ only in case and marks
    hold everywhere. All other evidence holds in the passages with one name that agree with a passage with the
    other name. Passages agree if they are the same passage; if both name another entity that is no number and
    that at most the share `common` of all passages names; or if their vectors have a cosine of at least
    `passage_cosine`. A passage with Windhoek and Namibia also agrees with "Windhoek, Namibia". At most
    `most_passages` passages per name are compared. A pair that holds nowhere is dropped.
    """

    version: ClassVar[int] = 1
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset()
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
        """Return the names, their triples, and the vectors of the passages."""
        return (self.of, self.of.over, Vectors(of=Passages()))

    def finish(self, context: BuildContext) -> None:
        """Find all pairs anew in O(n log n) of the triples; only changed records are written."""
        names, triples, passages = context.inputs
        mentions = read_mentions(triples)
        candidates = self._find_candidates(mentions, names, context.seed)
        known = make_contexts(mentions, passages, self.common, self.passage_cosine, self.most_passages)
        pairs = list(_find_holding(candidates, known))
        replace_records(context.collection("records", SAME_AS_SCHEMA), _build_records(pairs, mentions))
        kinds = Counter(item.candidates[0].evidence.kind for item in pairs)
        ordered = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
        counted = ", ".join(f"{count:,} by {kind}" for kind, count in ordered) or "none"
        dropped = f"{len(candidates) - len(pairs):,} more were dropped: no passages agree on them."
        context.note(f"{len(pairs):,} pairs of names are taken for one ({counted}). {dropped}", detail=True)

    def open(self, context: ReadContext) -> Collection:
        """Return the collection of pairs, with ids by `pair_id`.

        Fields: `text` "A = B", `evidence`, `aliases` (two keys, as `Triples.key` makes them), `passage_ids`,
        `score`.
        """
        return context.collection("records")

    def _find_candidates(
        self, mentions: NameMentions, names: NameCollections, seed: int
    ) -> Mapping[tuple[int, int], list[AliasCandidate]]:
        keys = pa.array(mentions.keys, pa.large_string())
        vectors = read_vectors(names.entities, keys)
        spelt = self.by == "evidence"
        near = alias_pairs.find_neighbours(mentions, vectors, self.cosine, self.neighbours, seed, spelt)
        candidates: dict[tuple[int, int], list[AliasCandidate]] = defaultdict(list)
        for candidate in near if self.by == "embedding" else _drop_refuted(mentions, near):
            candidates[candidate.first, candidate.second].append(candidate)
        return candidates


# ---------------------------------------------------------------- passages in which two names may mean the same


@dataclass(frozen=True, slots=True)
class Contexts:
    """Context by which passages are compared.

    `telling` (entities,): sharing the entity is meaningful, since it is no number and few passages name it.
    `vectors` (passages, dimensions) have unit length, or are zero for a passage without a vector. `near` is the
    cosine from which passages agree. At most `most` passages per name are compared.
    """

    mentions: NameMentions
    telling: Flags
    vectors: Floats
    near: float
    most: int


def make_contexts(mentions: NameMentions, passages: Collection, common: float, near: float, most: int) -> Contexts:
    """Build the contexts. An entity that more than the share `common` of the passages name is not telling."""
    least = max(_FEW, common * len(mentions.passages))
    few = mentions.passages_of.counts() <= least
    return Contexts(mentions, few & mentions.named, read_vectors(passages, mentions.passages), near, most)


def read_vectors(records: Collection, ids: pa.Array) -> Floats:
    """Return the vectors of the records with these ids, (ids, dimensions); zero for missing records."""
    vectors = np.zeros((len(ids), records.schema.dimensions or 0), np.float32)
    for batch in records.scan(("vector",)):
        places = pc.index_in(batch.column("id").cast(pa.large_string()), value_set=ids.cast(pa.large_string()))
        stored = places.fill_null(-1).to_numpy(zero_copy_only=False)
        rows = batch.column("vector").flatten().to_numpy(zero_copy_only=False).reshape(len(batch), -1)
        vectors[stored[stored >= 0]] = rows[stored >= 0]
    return vectors


def find_agreeing(known: Contexts, first: int, second: int, where: EvidenceScope = "agreeing") -> Integers:
    """Return the passages with one of two names in which both mean the same, given where the evidence counts; sorted.

    Passages agree if they name both, share a telling entity with a passage of the other name, or are near one.
    Linear in the passages of the two names; at most `most` passages per name are compared.
    """
    left, other = (known.mentions.passages_of.of(place) for place in (first, second))
    both = np.intersect1d(left, other, assume_unique=True)
    if where == "everywhere":
        return np.union1d(left, other)
    if where in ("together", "given"):
        return both if where == "together" else both[:0]
    if where == "apart" and len(both):
        return both[:0]
    left, other = (_sample_passages(passages, both, known.most) for passages in (left, other))
    shared = _share_entities(known, left, other, (first, second)), _share_entities(known, other, left, (first, second))
    close = known.vectors[left] @ known.vectors[other].T >= known.near
    return np.union1d(both, np.concatenate([left[shared[0] | close.any(axis=1)], other[shared[1] | close.any(axis=0)]]))


def _sample_passages(passages: Integers, both: Integers, most: int) -> Integers:
    """Return at most `most` passages: first those with both names, then an even sample of the others."""
    if len(passages) <= most:
        return passages
    others = np.setdiff1d(passages, both, assume_unique=True)
    count = max(0, most - len(both))
    evenly = np.linspace(0, len(others) - 1, count).astype(np.int64) if count else np.empty(0, np.int64)
    return np.concatenate([both[:most], others[evenly]])


def _share_entities(known: Contexts, these: Integers, those: Integers, names: tuple[int, int]) -> Flags:
    """Return which of `these` passages name an entity, other than the two, that one of `those` names too."""
    here, owners = known.mentions.entities_of.of_many(these)
    there, _ = known.mentions.entities_of.of_many(those)
    telling = known.telling[here] & ~np.isin(here, names) & np.isin(here, there)
    shared: npt.NDArray[Any] = np.bincount(owners[telling], minlength=len(these)) > 0
    return shared


# ---------------------------------------------------------------- pairs with their evidence


class Holding(NamedTuple):
    """A pair of entities by place, with its evidence and the places of the passages where it holds."""

    first: int
    second: int
    candidates: tuple[AliasCandidate, ...]
    passages: tuple[int, ...]


def pair_id(first: str, second: str) -> str:
    """Return the record id of a pair of names by their keys, in either order."""
    return digest(sorted((first, second)))


def _drop_refuted(mentions: NameMentions, near: Iterator[AliasCandidate]) -> Iterator[AliasCandidate]:
    apart = alias_pairs.find_different(mentions)
    for candidates in (alias_pairs.find_stated(mentions), alias_pairs.find_alike(mentions), near):
        for candidate in candidates:
            if candidate.evidence.kind in _CERTAIN_KINDS or (candidate.first, candidate.second) not in apart:
                yield candidate


def _find_holding(candidates_of: Mapping[tuple[int, int], list[AliasCandidate]], known: Contexts) -> Iterator[Holding]:
    with progress_bar("same_as: comparing passages", len(candidates_of)) as advance:
        for (first, second), candidates in sorted(candidates_of.items()):
            ordered = sorted(candidates, key=_rank_evidence)
            passages = sorted(_find_passages(ordered, known))
            if passages:
                yield Holding(first, second, tuple(ordered), tuple(passages))
            advance(1)


def _rank_evidence(candidate: AliasCandidate) -> tuple[bool, float, str]:
    """Return the sort key of evidence, strongest first; neighbours last, since cosines depend on the encoder."""
    return candidate.evidence.kind == alias_pairs.NEIGHBOUR, -candidate.evidence.score, str(candidate.evidence)


def _find_passages(candidates: Sequence[AliasCandidate], known: Contexts) -> set[int]:
    passages = {place for candidate in candidates for place in candidate.passages}
    for where in {candidate.evidence.where for candidate in candidates}:
        passages.update(find_agreeing(known, candidates[0].first, candidates[0].second, where).tolist())
    return passages


def _build_records(pairs: Sequence[Holding], mentions: NameMentions) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(pairs), _BATCH):
        block = pairs[start : start + _BATCH]
        aliases = [[mentions.keys[holding.first], mentions.keys[holding.second]] for holding in block]
        passages = [mentions.passages.take(pa.array(holding.passages)).to_pylist() for holding in block]
        reasons = [dict.fromkeys(str(each.evidence) for each in holding.candidates) for holding in block]
        columns = [
            [pair_id(*keys) for keys in aliases],
            [f"{mentions.names[holding.first]} = {mentions.names[holding.second]}" for holding in block],
            ["; ".join(list(each)[:_MAX_REASONS]) for each in reasons],
            aliases,
            passages,
            [holding.candidates[0].evidence.score for holding in block],
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, RECORDS, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=RECORDS)
