"""The passages that say what a passage is about: the preceding one, and the first one of its document.

Parts that are made passage by passage read them as context.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ragindex.corpus.chunking import split_passage_id
from ragindex.interfaces import BuildContext, Part, ReadContext, SearchKind

if TYPE_CHECKING:
    from ragindex.index.parts import PartBuildContext


class Preceding(Part["PrecedingTexts"]):
    """The dependency of a passage on the preceding one in its document; the part stores nothing.

    A passage's revision is a hash of its own title, text and metadata, so it does not show a change of the
    preceding passage. This part counts as sharing each passage with the next one, so parts that are made from
    it are updated when either changes.
    """

    version: ClassVar[int] = 1
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset()

    @property
    def shares_records(self) -> bool:
        """Return True: a change of a passage also affects the next one."""
        return True

    def passages_sharing_with(self, ids: Sequence[str], context: BuildContext) -> Iterable[str]:
        """Return the ids of the next passages, by their numbers; ids that do not exist do no harm."""
        return [f"{place[0]}{place[1] + 1}" for id in ids if (place := _parse_id(id)) is not None]

    def open(self, context: ReadContext) -> "PrecedingTexts":
        """Return a look-up of preceding texts in the corpus."""
        return PrecedingTexts(context)


@dataclass(frozen=True, slots=True)
class PrecedingTexts:
    """Look-up of the texts of preceding passages, in the corpus as it is at the time of the call."""

    context: ReadContext

    def of(self, passages: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return the text before each row of `BuildContext.passages`, empty for the first passage of a document."""
        before = [_find_preceding_id(passage["id"], passage["doc_id"]) for passage in passages]
        rows = self.context.passages(sorted(id for id in before if id)).to_pylist()
        texts = {row["id"]: row["text"] for row in rows}
        return [texts.get(id, "") for id in before]


class Surroundings(Part["SurroundingTexts"]):
    """The dependency of a passage on the first and the preceding one in its document; the part stores nothing.

    See `Preceding`. A change of a document's first passage affects all its passages, and those of no other document.
    """

    version: ClassVar[int] = 1
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset()

    @property
    def shares_records(self) -> bool:
        """Return True: a change of a passage also affects others."""
        return True

    def passages_sharing_with(self, ids: Sequence[str], context: BuildContext) -> Iterable[str]:
        """Return the ids of the next passages, and those of all passages of documents whose first one is among `ids`.

        Ids that do not exist do no harm.
        """
        places = [place for id in ids if (place := _parse_id(id)) is not None]
        build: PartBuildContext = context  # type: ignore[assignment]  # the index makes the context
        firsts = [build.documents.owner(f"{before}0") for before, number in places if number == 0]
        below = [id for passages in build.documents.positions(firsts).values() for id in passages]
        return [*(f"{before}{number + 1}" for before, number in places), *below]

    def open(self, context: ReadContext) -> "SurroundingTexts":
        """Return a look-up of the first and preceding texts in the corpus."""
        return SurroundingTexts(context)


@dataclass(frozen=True, slots=True)
class SurroundingTexts:
    """Look-up of the texts of first and preceding passages, in the corpus as it is at the time of the call."""

    context: ReadContext

    def of(self, passages: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
        """Return for each row of `BuildContext.passages` the text of its document's first passage, and the one before.

        The first passage has neither, and the second only the first.
        """
        places = [None if passage["id"] == passage["doc_id"] else _parse_id(passage["id"]) for passage in passages]
        first = [f"{place[0]}0" if place and place[1] > 0 else "" for place in places]
        before = [f"{place[0]}{place[1] - 1}" if place and place[1] > 1 else "" for place in places]
        rows = self.context.passages(sorted({id for id in (*first, *before) if id})).to_pylist()
        texts = {row["id"]: row["text"] for row in rows}
        return [(texts.get(start, ""), texts.get(previous, "")) for start, previous in zip(first, before, strict=True)]


def _find_preceding_id(id: str, doc_id: str) -> str:
    """Return the id of the preceding passage, empty for the first or only passage of a document."""
    place = _parse_id(id)
    return "" if id == doc_id or place is None or place[1] == 0 else f"{place[0]}{place[1] - 1}"


def _parse_id(id: str) -> tuple[str, int] | None:
    """Return what stands before the number of a passage's id, and the number."""
    passage_id = split_passage_id(id)
    return (f"{passage_id[0]}{passage_id[1]}", passage_id[2]) if passage_id else None
