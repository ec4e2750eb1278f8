"""Links between passages, found in the index when a question is asked."""

import math
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from ragindex.filters import All, Ids, Terms
from ragindex.interfaces import Collection, FilterQuery, SearchResult
from ragindex_retrievers.links import names
from ragindex_retrievers.links.parameters import LinksParameters

Around: TypeAlias = Mapping[str, Mapping[str, list[list[str]]]]
"""For each name and passage the places where it stands, each with the longer runs of words around it."""
_MOST_HOLDERS = 2_000
"""The most passages that are read because they have a name that one seed mentions."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link between a seed and a passage: the seed mentions `name`, a name of the passage, or (`backward`) the other
    way round. `weight` is in (0, 1]."""

    seed: str
    passage: str
    weight: float
    name: str
    backward: bool = False


@dataclass(frozen=True, slots=True)
class _Seed:
    """A seed: its names, and the names that its text may mention, each with its places."""

    id: str
    keys: Sequence[str]
    mentions: Mapping[str, Sequence[names.Occurrence]]


@dataclass(frozen=True)
class LinkLookups:
    """The opened part `links`, at one version."""

    records: Collection
    settings: LinksParameters

    def make_naming_query(self, question: str, ids: Sequence[str]) -> FilterQuery:
        """Return the request for those of `ids` that have a name which the question holds."""
        named = Terms("keys", tuple(names.list_question_keys(question)))
        return FilterQuery(All((Ids(tuple(ids)), named)), max(1, len(ids)))

    def find(self, seeds: Sequence[str]) -> list[Link]:
        """Return the links of the seeds, the heaviest of each pair of passages, in three calls of the store.

        A name that more than `max_mentions` passages mention or have links nothing. Its weight is
        log(N / mentions) / log N, divided by the square root of the number of passages that have it; N is the
        number of passages.
        """
        if not seeds or self._count < 2:
            return []
        read = self._read(seeds)
        holders, own, mentioning = self._find_holders(read)
        mentioned = {one.id: _keep_longest(one.mentions, holders) for one in read}
        wanted = sorted({key for keys in mentioned.values() for key in keys if self._may_link(holders[key])})
        around = {
            key: {id: names.find_longer(key, names.read_windows(windows)) for id, windows in found.items()}
            for key, found in mentioning.items()
            if len(found) <= self.settings.max_mentions
        }
        counts, longer = self._count_mentions(wanted, around)
        found = [
            Link(one.id, id, self._weigh(counts[key], len(holders[key])), key)
            for one in read
            for key in mentioned[one.id]
            if key in counts
            for id in holders[key]
        ]
        found += [
            Link(one.id, id, self._weigh(len(around[key]), own[key]), key, backward=True)
            for one in read
            for key in one.keys
            for id, places in around.get(key, {}).items()
            if any(longer.isdisjoint(place) for place in places)
        ]
        return _keep_heaviest(link for link in found if link.weight > 0 and link.passage != link.seed)

    @cached_property
    def _count(self) -> int:
        return self.records.count()

    def _may_link(self, holders: Set[str]) -> bool:
        return len(holders) <= self.settings.max_mentions

    def _weigh(self, mentions: int, holders: int) -> float:
        most = self.settings.max_mentions
        if mentions > most or holders > most:
            return 0.0
        return math.log(self._count / mentions) / math.log(self._count) / math.sqrt(holders)

    # ------------------------------------------------------------ calls of the store

    def _read(self, seeds: Sequence[str]) -> list[_Seed]:
        """Return the seeds in the order given."""
        (found,) = self.records.search([FilterQuery(Ids(tuple(seeds)), len(seeds), ("keys", "windows"))])
        rows = {row["id"]: row for row in found.records.to_pylist()}
        return [_read_seed(rows[id]) for id in seeds if id in rows]

    def _find_holders(
        self, seeds: Sequence[_Seed]
    ) -> tuple[dict[str, set[str]], dict[str, int], dict[str, Mapping[str, str]]]:
        """Return who has each name that a seed may mention; how many have each name of a seed; and who mentions it."""
        most, keys = self.settings.max_mentions + 1, sorted({key for one in seeds for key in one.keys})
        asked = [FilterQuery(Terms("keys", tuple(one.mentions)), _MOST_HOLDERS, ("keys",)) for one in seeds]
        asked += [FilterQuery(Terms("keys", (key,)), most) for key in keys]
        asked += [FilterQuery(Terms("mentions", (names.find_prefix(key),)), most, ("windows",)) for key in keys]
        found = self.records.search(asked)
        having, mentioning = found[len(seeds) : len(seeds) + len(keys)], found[len(seeds) + len(keys) :]
        return (
            _read_holders(found[: len(seeds)]),
            {key: len(one.ids) for key, one in zip(keys, having, strict=True)},
            {key: _read_windows(one) for key, one in zip(keys, mentioning, strict=True)},
        )

    def _count_mentions(self, keys: Sequence[str], around: Around) -> tuple[dict[str, int], set[str]]:
        """Return how many passages mention each of `keys`, and which runs of words in `around` are names."""
        runs = {run for found in around.values() for places in found.values() for place in places for run in place}
        most = self.settings.max_mentions + 1
        asked = [FilterQuery(Terms("mentions", (names.find_prefix(key),)), most) for key in keys]
        asked.append(FilterQuery(Terms("keys", tuple(sorted(runs))), _MOST_HOLDERS, ("keys",)))
        found = self.records.search(asked)
        counts = {key: len(one.ids) for key, one in zip(keys, found, strict=False)}
        return counts, runs & _read_holders(found[-1:]).keys()


def _read_seed(row: Mapping[str, Any]) -> _Seed:
    return _Seed(row["id"], row["keys"], names.find_occurrences(names.read_windows(row["windows"])))


def _read_holders(found: Iterable[SearchResult]) -> dict[str, set[str]]:
    """Return the ids that have each name."""
    holders: dict[str, set[str]] = {}
    for one in found:
        for id, keys in zip(one.ids, one.records.column("keys").to_pylist(), strict=True):
            for key in keys:
                holders.setdefault(key, set()).add(id)
    return holders


def _read_windows(found: SearchResult) -> dict[str, str]:
    return dict(zip(found.ids, found.records.column("windows").to_pylist(), strict=True))


def _keep_longest(mentions: Mapping[str, Sequence[names.Occurrence]], known: Container[str]) -> list[str]:
    """Return the names among `known` that stand somewhere outside of every longer one."""
    held = {key: places for key, places in mentions.items() if key in known}
    everywhere = [place for places in held.values() for place in places]
    return [
        key
        for key, places in held.items()
        if not all(any(outer.contains(place) for outer in everywhere) for place in places)
    ]


def _keep_heaviest(links: Iterable[Link]) -> list[Link]:
    """Return the heaviest link in each direction between each two passages; of equal ones that of the first name."""
    best: dict[tuple[str, str, bool], Link] = {}
    for link in sorted(links, key=lambda link: (-link.weight, link.name)):
        best.setdefault((link.seed, link.passage, link.backward), link)
    return list(best.values())
