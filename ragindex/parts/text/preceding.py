"""The preceding passage of each passage in its document, as context for parts that are made passage by passage."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ragindex.interfaces import BuildContext, Part, ReadContext


class Preceding(Part["PrecedingTexts"]):
    """The dependency of a passage on the preceding one in its document; the part stores nothing.

    A passage's revision is a hash of its own title, text and metadata, so it does not show a change of the
    preceding passage. This part counts as sharing each passage with the next one, so parts that are made from
    it are updated when either changes.
    """

    version: ClassVar[int] = 1

    @property
    def shares_records(self) -> bool:
        """Return True: a change of a passage also affects the next one."""
        return True

    def passages_sharing_with(self, ids: Sequence[str], context: BuildContext) -> Iterable[str]:
        """Return the ids of the next passages, by their numbers; ids that do not exist do no harm."""
        return [_shift_id(*place, 1) for id in ids if (place := _parse_id(id)) is not None]

    def open(self, context: ReadContext) -> "PrecedingTexts":
        """Return a look-up of preceding texts in the corpus."""
        return PrecedingTexts(context)


@dataclass(frozen=True, slots=True)
class PrecedingTexts:
    """Look-up of the texts of preceding passages, in the corpus as it is at the time of the call."""

    context: ReadContext

    def of(self, passages: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return the text before each row of `BuildContext.passages`, empty for the first passage of a document."""
        before = [_find_preceding_id(one["id"], one["doc_id"]) for one in passages]
        found = self.context.passages(sorted(id for id in before if id)).to_pylist()
        texts = {one["id"]: one["text"] for one in found}
        return [texts.get(id, "") for id in before]


def _find_preceding_id(id: str, doc_id: str) -> str:
    """Return the id of the preceding passage, empty for the first or only passage of a document."""
    place = _parse_id(id)
    return "" if id == doc_id or place is None or place[1] == 0 else _shift_id(*place, -1)


def _parse_id(id: str) -> tuple[str, int] | None:
    """Return the document and number of a passage that was chunked from a document (see ragindex.corpus.chunk)."""
    document, mark, number = id.rpartition("#")
    return (document, int(number)) if mark and number.isascii() and number.isdecimal() else None


def _shift_id(document: str, number: int, step: int) -> str:
    return f"{document}#{number + step}"
