"""Where the passages of hits stand in their documents."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragindex.types import Hit, Position, Retrieval
from ragindex.workspace.documents import Documents

_MOST_PASSAGES = 32
"""Hits of more passages, such as summaries of a whole corpus, get no positions."""


@dataclass(frozen=True, slots=True)
class PassagePositions:
    """A lookup of positions in the documents that a method was built from; None if it was built from earlier ones."""

    documents: Documents | None
    lease: object = None
    """Held while positions are looked up, so that the documents stay on disk."""

    def locate(self, found: Sequence[Retrieval], first: int | None = None) -> list[Retrieval]:
        """Return the retrievals with the positions of their `first` hits (None: all), from one request to the store."""
        hits = [hit for one in found for hit in one.hits[:first] if len(hit.passage_ids) <= _MOST_PASSAGES]
        ids = dict.fromkeys(id for hit in hits for id in hit.passage_ids)
        if self.documents is None or not ids:
            return list(found)
        positions = self.documents.positions(ids)
        return [replace(one, hits=tuple(_place(hit, positions) for hit in one.hits)) for one in found]


def _place(hit: Hit, positions: dict[str, Position]) -> Hit:
    known = [positions[id] for id in hit.passage_ids if id in positions]
    complete = len(known) == len(hit.passage_ids)
    return replace(hit, positions=tuple(known)) if complete else hit
