"""Links between passages, found in the index when a question is asked."""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow.compute as pc
from pydantic import Field

from ragindex.filters import All, Ids, Terms
from ragindex.interfaces import Collection, FilterQuery, Scheme, SearchResult
from ragindex.parts.text.passages import OVER_PASSAGES, PassagesField
from ragindex_retrievers.links import names
from ragindex_retrievers.links.passage_links import CONFIRMED, KEYS, TITLE, UNCONFIRMED, UNTITLED_KEYS

Around: TypeAlias = Mapping[str, Mapping[str, list[list[str]]]]
"""For each name and passage the places where it stands, each with the longer runs of words around it."""
_PASSAGES_PER_DOCUMENT = 4
"""The mean number of passages per document that are read before a name counts as too common."""
_MOST_HOLDERS = 2_000
"""The most passages that are read because they have a name that one seed mentions."""
_FEWEST_TITLES, _MOST_TITLES = 30, 1_000
"""The numbers of titles, first by id, that are compared with their texts; with fewer, titles are names."""


class LinksParameters(Scheme):
    """The parameters of `links`, with the values of its page; none of them was fitted to questions."""

    over: PassagesField = OVER_PASSAGES
    depth: int = Field(default=100, ge=1, description="Best results of BM25 and of dense that are candidates.")
    weight: float = Field(default=2 / 3, ge=0, le=1, description="Weight of the cosine; BM25 has the rest.")
    seeds: int = Field(default=5, ge=0, description="Best passages whose links are followed, in each hop.")
    hops: int = Field(default=1, ge=1, le=4, description="How often links are followed.")
    link_weight: float = Field(default=0.3, ge=0, description="Worth of a link that adds nothing to the question.")
    novelty_weight: float = Field(
        default=1.0, ge=0, description="Worth of the question's BM25 score that a linked passage adds to its seed's."
    )
    backward: float = Field(default=0.7, ge=0, description="Weight of links from passages that mention a seed.")
    title_bonus: float = Field(default=0.1, ge=0, description="Added to the candidates that the question names.")
    max_mentions: int = Field(
        default=40, ge=1, description="Names that more documents mention, or that more documents have, link nothing."
    )
    confirmed_titles: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Share of documents that must begin with a word of their title, for titles to be names.",
    )


@dataclass(frozen=True, slots=True)
class Link:
    """A link between a seed and a passage of `documents`: the seed mentions `name`, a name of the passage, or
    (`backward`) the other way round. `weight` is in (0, 1]."""

    seed: str
    passage: str
    documents: tuple[str, ...]
    weight: float
    name: str
    backward: bool = False


@dataclass(frozen=True, slots=True)
class _Seed:
    """A seed: its documents, its names, and the names that its text may mention, each with its places."""

    id: str
    documents: frozenset[str]
    keys: Sequence[str]
    mentions: Mapping[str, Sequence[names.Occurrence]]


@dataclass(frozen=True, slots=True)
class _NameUse:
    """Passages that have or mention a name: their number, the number of their documents, whether links through the name
    are followed, and, where these are asked for and followed, the records by id."""

    passages: int
    documents: int
    linking: bool
    rows: Mapping[str, Mapping[str, Any]]


_NameUses: TypeAlias = dict[str, _NameUse]


@dataclass(frozen=True)
class LinkLookups:
    """The opened part `links`, at one version."""

    records: Collection
    settings: LinksParameters

    def make_naming_query(self, question: str, ids: Sequence[str]) -> FilterQuery:
        """Return the request for those of `ids` that have a name which the question holds."""
        terms = Terms(self._keys, tuple(names.list_question_keys(question)))
        return FilterQuery(All((Ids(tuple(ids)), terms)), max(1, len(ids)))

    def find(self, seeds: Sequence[str]) -> list[Link]:
        """Return the links of the seeds, the heaviest of each pair of passages, in three calls of the store.

        A passage that has a name itself does not mention it, and passages of one document are not linked. A name that
        more than `max_mentions` documents mention or have links nothing. Its weight is log(N / documents that mention
        it) / log N, divided by the square root of the number of passages that have it: of one it is sure, of the many
        passages of a long document it is not. N is the number of passages.
        """
        if not seeds or self._count < 2:
            return []
        read = self._read(seeds)
        holders, own, mentioning = self._find_holders(read)
        mentioned = {
            passage.id: [key for key in _keep_longest(passage.mentions, holders) if key not in passage.keys]
            for passage in read
        }
        linking_keys = sorted({key for keys in mentioned.values() for key in keys if holders[key].linking})
        around = {
            key: {
                id: names.find_longer(key, names.read_windows(row["windows"]))
                for id, row in links.rows.items()
                if key not in row[self._keys]
            }
            for key, links in mentioning.items()
            if links.linking and own[key].linking
        }
        counts, longer = self._count_mentions(linking_keys, around)
        links = [
            Link(passage.id, id, tuple(row["doc_ids"]), self._weigh(counts[key].documents, holders[key].passages), key)
            for passage in read
            for key in mentioned[passage.id]
            if key in counts and counts[key].linking
            for id, row in holders[key].rows.items()
            if passage.documents.isdisjoint(row["doc_ids"])
        ]
        links += [
            Link(
                passage.id, id, documents, self._weigh(mentioning[key].documents, own[key].passages), key, backward=True
            )
            for passage in read
            for key in passage.keys
            for id, places in around.get(key, {}).items()
            if passage.documents.isdisjoint(documents := tuple(mentioning[key].rows[id]["doc_ids"]))
            and any(longer.isdisjoint(place) for place in places)
        ]
        return _keep_heaviest(link for link in links if link.weight > 0)

    @cached_property
    def _count(self) -> int:
        return self.records.count()

    @cached_property
    def _keys(self) -> str:
        """The field of the passages' names: with titles, unless most documents have no word of theirs."""
        judged = Terms(TITLE, (CONFIRMED, UNCONFIRMED))
        (result,) = self.records.search([FilterQuery(judged, _MOST_TITLES, (TITLE,))])
        titles = [title for row in result.records.column(TITLE).to_pylist() for title in row]
        share = titles.count(CONFIRMED) / max(1, len(titles))
        return UNTITLED_KEYS if len(titles) >= _FEWEST_TITLES and share < self.settings.confirmed_titles else KEYS

    def _weigh(self, mentioning: int, holding: int) -> float:
        return math.log(self._count / mentioning) / math.log(self._count) / math.sqrt(holding)

    # ------------------------------------------------------------ calls of the store

    def _read(self, seeds: Sequence[str]) -> list[_Seed]:
        """Return the seeds in the order given."""
        fields = (self._keys, "windows", "doc_ids")
        (result,) = self.records.search([FilterQuery(Ids(tuple(seeds)), len(seeds), fields)])
        rows = {row["id"]: row for row in result.records.to_pylist()}
        return [
            _Seed(
                id,
                frozenset(rows[id]["doc_ids"]),
                rows[id][self._keys],
                names.find_occurrences(names.read_windows(rows[id]["windows"])),
            )
            for id in seeds
            if id in rows
        ]

    def _find_holders(self, seeds: Sequence[_Seed]) -> tuple[_NameUses, _NameUses, _NameUses]:
        """Return what has each name that a seed may mention; what has each name of a seed; and what mentions it."""
        keys = sorted({key for seed in seeds for key in seed.keys})
        field = self._keys
        requests = [
            FilterQuery(Terms(field, tuple(seed.mentions)), _MOST_HOLDERS, (field, "doc_ids")) for seed in seeds
        ]
        requests += [FilterQuery(Terms(field, (key,)), self._most, ("doc_ids",)) for key in keys]
        requests += [self._ask_mentions(key, (field, "windows", "doc_ids")) for key in keys]
        results = self.records.search(requests)
        having, mentioning = results[len(seeds) : len(seeds) + len(keys)], results[len(seeds) + len(keys) :]
        return (
            {key: self._judge_rows(rows) for key, rows in _read_holders(results[: len(seeds)], field).items()},
            {key: self._judge(result) for key, result in zip(keys, having, strict=True)},
            {key: self._judge(result, read=True) for key, result in zip(keys, mentioning, strict=True)},
        )

    def _count_mentions(self, keys: Sequence[str], around: Around) -> tuple[_NameUses, set[str]]:
        """Return what mentions each of `keys`, and which runs of words in `around` are names."""
        runs = {
            run
            for occurrences in around.values()
            for places in occurrences.values()
            for place in places
            for run in place
        }
        requests = [self._ask_mentions(key, ("doc_ids",)) for key in keys]
        requests.append(FilterQuery(Terms(self._keys, tuple(sorted(runs))), _MOST_HOLDERS, (self._keys,)))
        results = self.records.search(requests)
        counts = {key: self._judge(result) for key, result in zip(keys, results, strict=False)}
        return counts, runs & _read_holders(results[-1:], self._keys).keys()

    def _ask_mentions(self, key: str, fields: tuple[str, ...]) -> FilterQuery:
        return FilterQuery(Terms("mentions", (names.find_prefix(key),)), self._most, fields)

    @property
    def _most(self) -> int:
        return self.settings.max_mentions * _PASSAGES_PER_DOCUMENT + 1

    def _judge_rows(self, rows: Mapping[str, Mapping[str, Any]]) -> _NameUse:
        documents = len({id for row in rows.values() for id in row["doc_ids"]})
        return _NameUse(len(rows), documents, self._links(len(rows), documents), rows)

    def _judge(self, result: SearchResult, *, read: bool = False) -> _NameUse:
        """Judge a name by its passages, whose records are made Python objects only where they are read."""
        passages = len(result.ids)
        documents = pc.count_distinct(result.records.column("doc_ids").flatten()).as_py()
        linking = self._links(passages, documents)
        return _NameUse(passages, documents, linking, _read_rows(result) if read and linking else {})

    def _links(self, passages: int, documents: int) -> bool:
        return passages < self._most and documents <= self.settings.max_mentions


def _read_holders(results: Iterable[SearchResult], field: str) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return the records that have each name, by id; `field` is that of the names."""
    holders: dict[str, dict[str, Mapping[str, Any]]] = {}
    for result in results:
        for id, row in _read_rows(result).items():
            for key in row[field]:
                holders.setdefault(key, {})[id] = row
    return holders


def _read_rows(result: SearchResult) -> dict[str, Mapping[str, Any]]:
    return dict(zip(result.ids, result.records.to_pylist(), strict=True))


def _keep_longest(mentions: Mapping[str, Sequence[names.Occurrence]], known: Container[str]) -> list[str]:
    """Return the names among `known` that stand somewhere outside of every longer one."""
    places_of = {key: places for key, places in mentions.items() if key in known}
    everywhere = [place for places in places_of.values() for place in places]
    return [
        key
        for key, places in places_of.items()
        if not all(any(outer.contains(place) for outer in everywhere) for place in places)
    ]


def _keep_heaviest(links: Iterable[Link]) -> list[Link]:
    """Return the heaviest link in each direction between each two passages; of equal ones that of the first name."""
    best: dict[tuple[str, str, bool], Link] = {}
    for link in sorted(links, key=lambda link: (-link.weight, link.name)):
        best.setdefault((link.seed, link.passage, link.backward), link)
    return list(best.values())
