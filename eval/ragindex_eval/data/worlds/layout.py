"""Who and what is in a world: kinds, numbers and names of entities, and the facts that they have."""

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

from ragindex_eval.data.worlds.draws import Draws, Permutation, permutation

EntityKind: TypeAlias = Literal["country", "region", "town", "river", "company", "work", "award", "family", "person"]
_TARGET = 64  # entities in a region
_SHARES: tuple[tuple[EntityKind, int, int], ...] = (  # kind, number per 64 entities, minimum
    ("town", 8, 5),
    ("river", 3, 2),
    ("company", 9, 5),
    ("work", 13, 7),
    ("award", 2, 2),
    ("family", 4, 3),
)
_REGIONS_IN_A_COUNTRY = 12


class Ref(NamedTuple):
    """Reference to an entity: the `slot`-th of its kind in a region."""

    kind: EntityKind
    region: int
    slot: int


class Layout:
    """Numbers of entities of each kind per region, and the assignment of documents to entities."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.seed = size, seed
        self.regions = max(1, (size + _TARGET // 2) // _TARGET)
        self.regions_in_a_country = max(_REGIONS_IN_A_COUNTRY, math.isqrt(self.regions))
        self._base, self._larger = divmod(size, self.regions)
        self._counts = {(n, capital): _counts(n, capital) for n in self._sizes for capital in (False, True)}
        self.most = {kind: max(counts[kind] for counts in self._counts.values()) for kind in _counts(_TARGET, True)}
        self.members = max(-(-counts["person"] // counts["family"]) for counts in self._counts.values())

    @property
    def _sizes(self) -> tuple[int, ...]:
        return (self._base, self._base + 1) if self._larger else (self._base,)

    @cached_property
    def _numbers(self) -> Permutation:
        return permutation(self.size, self.seed, "documents")

    def draws(self, *key: object) -> Draws:
        """Return the pseudo-random numbers that belong to `key` in this world."""
        return Draws(self.seed, *key)

    def counts(self, region: int) -> Mapping[EntityKind, int]:
        """Return the number of entities of each kind in `region`."""
        n = self._base + (region < self._larger)
        return self._counts[n, region == self.capital_region(region)]

    def capital_region(self, region: int) -> int:
        """Return the region of the country's capital, which is the first region of the country."""
        return region - region % self.regions_in_a_country

    def neighbours(self, region: int) -> list[int]:
        """Return the regions of the same country next to `region`, including itself."""
        near = range(max(0, region - 1), min(self.regions, region + 2))
        return [other for other in near if self.capital_region(other) == self.capital_region(region)]

    def exists(self, ref: Ref) -> bool:
        """Return whether the entity exists."""
        return 0 <= ref.region < self.regions and ref.slot < self.counts(ref.region)[ref.kind]

    def number(self, ref: Ref) -> int:
        """Return the entity's number among all of its kind, as if every region had as many as the largest."""
        return ref.region * self.most[ref.kind] + ref.slot

    def numbered(self, kind: EntityKind, number: int) -> Ref:
        """Return the reference with this number; the entity need not exist."""
        region, slot = divmod(number, self.most[kind])
        return Ref(kind, region, slot)

    def refs(self, region: int) -> Iterator[Ref]:
        """Yield the entities of a region."""
        for kind, count in self.counts(region).items():
            for slot in range(count):
                yield Ref(kind, region, slot)

    def doc_id(self, ref: Ref) -> str:
        """Return the id of the entity's document: p and six digits that reveal nothing about the entity."""
        counts = self.counts(ref.region)
        before = ref.region * self._base + min(ref.region, self._larger)
        for kind, count in counts.items():
            if kind == ref.kind:
                break
            before += count
        return f"p{self._numbers(before + ref.slot):06d}"


def _counts(n: int, capital: bool) -> dict[EntityKind, int]:
    """Return the number of entities per kind in a region of `n`; the rest are persons."""
    counts: dict[EntityKind, int] = {"country": int(capital), "region": 1}
    counts |= {kind: max(fewest, (n * share + _TARGET // 2) // _TARGET) for kind, share, fewest in _SHARES}
    counts["person"] = n - sum(counts.values())
    return counts


Object: TypeAlias = Ref | str


class WorldFact(NamedTuple):
    """A fact of an entity: a predicate, which an entity has at most once, and its object."""

    predicate: str
    object: Object


class WorldEntity(NamedTuple):
    """An entity with all its facts."""

    ref: Ref
    facts: tuple[WorldFact, ...]

    def get(self, predicate: str) -> Object | None:
        """Return the object of a predicate, or None."""
        return next((fact.object for fact in self.facts if fact.predicate == predicate), None)

    def text(self, predicate: str) -> str:
        """Return the object of a predicate if it is a text; "" if it is an entity or there is none."""
        value = self.get(predicate)
        return value if isinstance(value, str) else ""
