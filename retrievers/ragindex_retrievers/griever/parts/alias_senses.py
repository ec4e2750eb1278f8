"""Passages in which two names may mean the same, judged by where the names occur and by the entities beside them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ragindex.english import is_number
from ragindex.interfaces import Collection, Floats
from ragindex.parts.records import Flags, Integers, large_text
from ragindex_retrievers.griever.parts.aliases import EvidenceScope

_FIELDS = ("subject", "predicate", "object", "subject_key", "object_key", "passage_ids")
_FEW = 3
"""Passages that may name an entity in any corpus, however small, without making it too common."""


@dataclass(frozen=True, slots=True)
class MemberLists:
    """Lists of members in one array: `members[starts[i] : starts[i + 1]]` are those of place i, sorted and distinct."""

    starts: Integers
    members: Integers

    def of(self, place: int) -> Integers:
        """Return the members of one place."""
        return self.members[self.starts[place] : self.starts[place + 1]]

    def counts(self) -> Integers:
        """Return the number of members of each place, (places,)."""
        return np.diff(self.starts)

    def of_many(self, places: Integers) -> tuple[Integers, Integers]:
        """Return the concatenated members of several places, and for each member the index of its place in `places`."""
        counts = self.starts[places + 1] - self.starts[places]
        numbers = np.repeat(np.arange(len(places)), counts)
        before = np.cumsum(counts) - counts
        return self.members[np.arange(len(numbers)) - before[numbers] + self.starts[places][numbers]], numbers


@dataclass(frozen=True, slots=True)
class NameMentions:
    """Names in the triples of a corpus, as arrays of places.

    Entities go by their place in the sorted `keys`, passages by their place in the sorted `passages`. `names`
    is the most frequent spelling of each entity; `named` (entities,) is false for numbers. Per triple: `sides`
    (n, 2) are its entities, `owners` (n,) its passage, `predicates` (n,) its predicate by place in `spoken`.
    """

    keys: list[str]
    names: list[str]
    named: Flags
    passages: pa.Array
    sides: Integers
    owners: Integers
    predicates: Integers
    spoken: list[str]
    passages_of: MemberLists
    entities_of: MemberLists


def read_mentions(triples: Collection) -> NameMentions:
    """Read all triples, in O(n log n); the result does not depend on their order."""
    batches = [_flatten_batch(batch) for batch in triples.scan(_FIELDS)]
    table = pa.Table.from_batches(batches, pa.schema([(name, pa.large_string()) for name in ("id", *_FIELDS)]))
    table = table.take(pc.sort_indices(table.column("id")))
    ends = pa.concat_arrays([_read_column(table, name) for name in ("subject_key", "object_key")])
    written = pa.concat_arrays([_read_column(table, name) for name in ("subject", "object")])
    (keys, codes), (passages, owners) = _encode_texts(ends), _encode_texts(_read_column(table, "passage_ids"))
    spoken, predicates = _encode_texts(_read_column(table, "predicate"))
    twice, names = np.tile(owners, 2), _find_most_frequent(codes, written)
    return NameMentions(
        keys.to_pylist(),
        names,
        np.array([not is_number(name) for name in names], np.bool_),
        passages,
        np.ascontiguousarray(codes.reshape(2, -1).T),
        owners,
        predicates,
        spoken.to_pylist(),
        _group_members(codes, twice, len(keys)),
        _group_members(twice, codes, len(passages)),
    )


def _flatten_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [batch.column(name) for name in ("id", *_FIELDS)]
    flat = [column.flatten() if pa.types.is_list(column.type) else column for column in columns]
    return pa.RecordBatch.from_arrays([each.cast(pa.large_string()) for each in flat], names=["id", *_FIELDS])


def _read_column(table: pa.Table, name: str) -> pa.Array:
    return large_text(table.column(name).chunks)


def _encode_texts(texts: pa.Array) -> tuple[pa.Array, Integers]:
    """Return the sorted distinct texts, and the place of each text among them."""
    distinct = texts.unique()
    distinct = distinct.take(pc.sort_indices(distinct))
    places = pc.index_in(texts, value_set=distinct)
    return distinct, np.asarray(places.to_numpy(zero_copy_only=False), np.int64)


def _find_most_frequent(codes: Integers, written: pa.Array) -> list[str]:
    """Return the most frequent spelling of each entity; of equally frequent ones the first."""
    counts = (
        pa.table({"code": pa.array(codes), "name": written}).group_by(["code", "name"]).aggregate([([], "count_all")])
    )
    ordered = counts.sort_by([("code", "ascending"), ("count_all", "descending"), ("name", "ascending")])
    _, first = np.unique(ordered.column("code").to_numpy(), return_index=True)
    return [str(name) for name in ordered.column("name").take(pa.array(first)).to_pylist()]


def _group_members(places: Integers, members: Integers, count: int) -> MemberLists:
    width = int(members.max(initial=0)) + 1
    pairs = np.unique(places * width + members)
    starts = np.concatenate([[0], np.cumsum(np.bincount(pairs // width, minlength=count))])
    return MemberLists(starts.astype(np.int64), pairs % width)


# ---------------------------------------------------------------- contexts of passages


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
        found = places.fill_null(-1).to_numpy(zero_copy_only=False)
        rows = batch.column("vector").flatten().to_numpy(zero_copy_only=False).reshape(len(batch), -1)
        vectors[found[found >= 0]] = rows[found >= 0]
    return vectors


def find_agreeing(known: Contexts, first: int, second: int, where: EvidenceScope = "agreeing") -> Integers:
    """Return the passages with one of two names in which both mean the same, given where the evidence counts; sorted.

    Passages agree if they name both, share a telling entity with a passage of the other name, or are near one.
    Linear in the passages of the two names; at most `most` passages per name are compared.
    """
    one, other = (known.mentions.passages_of.of(place) for place in (first, second))
    both = np.intersect1d(one, other, assume_unique=True)
    if where == "everywhere":
        return np.union1d(one, other)
    if where in ("together", "given"):
        return both if where == "together" else both[:0]
    if where == "apart" and len(both):
        return both[:0]
    one, other = (_sample_passages(passages, both, known.most) for passages in (one, other))
    shared = _share_entities(known, one, other, (first, second)), _share_entities(known, other, one, (first, second))
    close = known.vectors[one] @ known.vectors[other].T >= known.near
    return np.union1d(both, np.concatenate([one[shared[0] | close.any(axis=1)], other[shared[1] | close.any(axis=0)]]))


def _sample_passages(passages: Integers, both: Integers, most: int) -> Integers:
    """Return at most `most` passages: first those with both names, then an even sample of the others."""
    if len(passages) <= most:
        return passages
    rest = np.setdiff1d(passages, both, assume_unique=True)
    room = max(0, most - len(both))
    evenly = np.linspace(0, len(rest) - 1, room).astype(np.int64) if room else np.empty(0, np.int64)
    return np.concatenate([both[:most], rest[evenly]])


def _share_entities(known: Contexts, these: Integers, those: Integers, names: tuple[int, int]) -> Flags:
    """Return which of `these` passages name an entity, other than the two, that one of `those` names too."""
    here, owners = known.mentions.entities_of.of_many(these)
    there, _ = known.mentions.entities_of.of_many(those)
    telling = known.telling[here] & ~np.isin(here, names) & np.isin(here, there)
    found: npt.NDArray[Any] = np.bincount(owners[telling], minlength=len(these)) > 0
    return found
