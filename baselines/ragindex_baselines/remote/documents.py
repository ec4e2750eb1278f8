"""Hits of a service as hits of the corpus: its documents are matched by their ids, and what is unknown is set aside."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import PurePosixPath
from threading import Lock

from ragindex._util.ids import find_spelling, spellings
from ragindex.filters import All, Filter, Ids
from ragindex.interfaces import Collection, FilterQuery, PositionLookup
from ragindex.retrieval.hits import HIT_FIELDS, read_hits
from ragindex.types import Hit
from ragindex_baselines.remote.client import ServiceHit


@dataclass(frozen=True, slots=True)
class Matched:
    """The hits whose documents are known, best first, and the ids of those that name none."""

    hits: tuple[Hit, ...]
    unknown: tuple[str, ...]


@dataclass
class CorpusDocuments:
    """The documents of the index, found by id, or by the last part of a path where only one document ends in it.

    Thread-safe.
    """

    passages: Collection
    positions: PositionLookup
    source: str
    _by_file_name: dict[str, str] | None = None
    _lock: Lock = field(default_factory=Lock)

    def match(self, found: Sequence[ServiceHit], where: Filter | None, *, by_file_name: bool) -> Matched:
        """Return the hits of one question. Of a document that the filter does not wholly pass, nothing is told."""
        owners = self._find_owners(found, by_file_name=by_file_name)
        passages = self._list_passages({id for one in owners for id in one})
        allowed = set(passages) if where is None else self._filter(passages, where)
        first = self._read({id: passages[id][0] for id in allowed})
        own = {id: position.doc_id for id, position in self.positions.find([one.id for one in found]).items()}
        hits = [
            self._make_hit(one, ids, (one.id,) if own.get(one.id) in ids else (), first)
            for one, ids in zip(found, owners, strict=True)
            if ids and first.keys() >= set(ids)
        ]
        unknown = tuple(one.id for one, ids in zip(found, owners, strict=True) if not ids)
        return Matched(_with_own_ids(_with_scores(hits, found)), unknown)

    def _find_owners(self, found: Sequence[ServiceHit], *, by_file_name: bool) -> list[tuple[str, ...]]:
        """Return the known documents of each hit; () if it names none."""
        named = {spelled for one in found for ids in one.documents for id in ids for spelled in spellings(id)}
        known = self._list_passages(named)
        owners = [next(filter(None, (_keep(ids, known) for ids in one.documents)), ()) for one in found]
        if not by_file_name or all(owners):
            return owners
        names = self._file_names()
        return [ids or _find_by_file_name(one, names) for one, ids in zip(found, owners, strict=True)]

    def _file_names(self) -> Mapping[str, str]:
        """Return the documents by the last part of their ids, without those that share it; read once."""
        with self._lock:
            if self._by_file_name is None:
                rows = (row for batch in self.passages.scan(("doc_ids",)) for row in batch.to_pylist())
                named: dict[str, list[str]] = {}
                for id in {id for row in rows for id in row["doc_ids"]}:
                    named.setdefault(PurePosixPath(id).name, []).append(id)
                self._by_file_name = {name: held[0] for name, held in named.items() if len(held) == 1}
            return self._by_file_name

    def _list_passages(self, doc_ids: set[str]) -> dict[str, list[str]]:
        return {id: list(held) for id, held in self.positions.of_documents(doc_ids).items() if held}

    def _filter(self, passages: Mapping[str, Sequence[str]], where: Filter) -> set[str]:
        """Return the documents of which all passages pass the filter."""
        ids = tuple(id for held in passages.values() for id in held)
        if not ids:
            return set()
        (passed,) = self.passages.search([FilterQuery(All((Ids(ids), where)), len(ids))])
        passing = set(passed.ids)
        return {id for id, held in passages.items() if passing.issuperset(held)}

    def _read(self, first: Mapping[str, str]) -> dict[str, Hit]:
        """Return the first passage of each document, by document."""
        if not first:
            return {}
        (found,) = self.passages.search([FilterQuery(Ids(tuple(first.values())), len(first), HIT_FIELDS)])
        by_passage = {hit.id: hit for hit in read_hits(found, self.source)}
        return {id: by_passage[passage] for id, passage in first.items() if passage in by_passage}

    def _make_hit(
        self, one: ServiceHit, ids: tuple[str, ...], passages: tuple[str, ...], first: Mapping[str, Hit]
    ) -> Hit:
        shown = first[ids[0]]
        return Hit(
            id=one.id,
            kind="passage",
            passage_ids=passages,
            doc_ids=ids,
            title=one.title or shown.title,
            text=one.text or shown.text,
            score=0.0 if one.score is None else one.score,
            source=self.source,
            metadata={id: first[id].metadata[id] for id in ids if id in first[id].metadata},
        )


def _keep(ids: Sequence[str], known: Container[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(meant for id in ids if (meant := find_spelling(id, known)) is not None))


def _find_by_file_name(one: ServiceHit, names: Mapping[str, str]) -> tuple[str, ...]:
    spelled = (find_spelling(id, names) for ids in one.documents for id in ids)
    return next(((names[name],) for name in spelled if name is not None), ())


def _with_scores(hits: Sequence[Hit], found: Sequence[ServiceHit]) -> list[Hit]:
    """Return the hits in the order of the service, with 1 / rank as scores unless its own descend with the ranks."""
    scores = [one.score for one in found]
    known = [score for score in scores if score is not None]
    if len(known) == len(scores) and known == sorted(known, reverse=True):
        return list(hits)
    return [replace(hit, score=1 / rank) for rank, hit in enumerate(hits, start=1)]


def _with_own_ids(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Return the hits with ids that differ: a service may return several passages of a document under its id."""
    given, taken = {hit.id for hit in hits}, set[str]()
    numbered = list[Hit]()
    for hit in hits:
        new = (f"{hit.id} ({number})" for number in count(2))
        id = hit.id if hit.id not in taken else next(one for one in new if one not in given | taken)
        taken.add(id)
        numbered.append(replace(hit, id=id))
    return tuple(numbered)
