"""Where the passages of hits stand in their documents."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ragindex.types import Hit, Position, Retrieval
from ragindex.workspace.documents import Documents

_MOST_PASSAGES = 32
"""Hits of more passages, such as summaries of a whole corpus, get no positions."""
_MOST_KEPT = 20_000
"""Documents whose positions are kept in memory; a lookup in the store takes milliseconds."""


@dataclass(frozen=True, slots=True)
class PassagePositions:
    """A lookup of positions in the documents that a method was built from; none if it was built from earlier ones.

    `documents` has one view for each chunking of the method's parts. Holds `lease`, so that these documents stay on
    disk. Thread-safe.
    """

    documents: tuple[Documents, ...]
    lease: object = None
    _kept: dict[tuple[int, str], Mapping[str, Position]] = field(default_factory=dict)

    def locate(self, found: Sequence[Retrieval], first: int | None = None) -> list[Retrieval]:
        """Return the retrievals with the positions of their `first` hits (None: all), from one request to the store."""
        if not self.documents:
            return list(found)
        hits = [hit for one in found for hit in one.hits[:first] if len(hit.passage_ids) <= _MOST_PASSAGES]
        positions = self.find(id for hit in hits for id in hit.passage_ids)
        return [replace(one, hits=tuple(_place(hit, positions) for hit in one.hits)) for one in found]

    def find(self, passage_ids: Iterable[str]) -> dict[str, Position]:
        """Return the positions of the passages that are known."""
        owners = {id: self._find_owner(id) for id in passage_ids}
        by_document = self._look_up(set(owners.values()))
        return {id: by_document[owner][id] for id, owner in owners.items() if id in by_document.get(owner, {})}

    def of_documents(self, doc_ids: Iterable[str]) -> dict[str, dict[str, Position]]:
        """Return the positions of all passages of the documents that are known, in order, by document."""
        found = self._look_up({(0, doc_id) for doc_id in doc_ids})
        return {doc_id: dict(positions) for (_, doc_id), positions in found.items()}

    def _find_owner(self, id: str) -> tuple[int, str]:
        """Return the number of the view that has a passage, and its document."""
        marked = [number for number, view in enumerate(self.documents) if view.mark and view.owns(id)]
        number = max(marked, key=lambda number: len(self.documents[number].mark), default=0)
        return number, self.documents[number].owner(id)

    def _look_up(self, ids: set[tuple[int, str]]) -> Mapping[tuple[int, str], Mapping[str, Position]]:
        known = {id: kept for id in ids if (kept := self._kept.get(id)) is not None}
        if len(known) == len(ids):
            return known
        missing = ids - known.keys()
        read = {
            (number, document): positions
            for number in {number for number, _ in missing}
            for document, positions in self.documents[number]
            .positions(sorted(document for one, document in missing if one == number))
            .items()
        }
        if len(self._kept) + len(read) > _MOST_KEPT:
            self._kept.clear()
        self._kept.update(read)
        return {**known, **read}


def _place(hit: Hit, positions: Mapping[str, Position]) -> Hit:
    known = [position for id in hit.passage_ids if (position := positions.get(id)) is not None]
    return replace(hit, positions=tuple(known)) if known and len(known) == len(hit.passage_ids) else hit
