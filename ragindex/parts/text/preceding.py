"""The passage before each passage of its document, as context for what is made passage by passage."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ragindex.interfaces import BuildContext, Part, ReadContext


class Preceding(Part["PrecedingTexts"]):
    """Keeps nothing of its own: it says that a passage depends on the one before it in its document.

    A passage's revision is a hash of its own title, text and metadata. What is made from this part is made again also
    when the passage before has changed: the part counts as sharing each passage with the next.
    """

    version: ClassVar[int] = 1

    @property
    def shares_records(self) -> bool:
        """A change of a passage is one of the next passage too."""
        return True

    def passages_sharing_with(self, ids: Sequence[str], context: BuildContext) -> Iterable[str]:
        """The next passages, by their numbers; whether there are any matters to nobody."""
        return [_id(*place, 1) for id in ids if (place := _place(id)) is not None]

    def open(self, context: ReadContext) -> "PrecedingTexts":
        """Looks texts up in the corpus."""
        return PrecedingTexts(context)


@dataclass(frozen=True, slots=True)
class PrecedingTexts:
    """The texts before passages of the corpus as it is when asked."""

    context: ReadContext

    def of(self, passages: Sequence[Mapping[str, Any]]) -> list[str]:
        """For each row of `BuildContext.passages` the text before it in its document; empty for a document's first."""
        before = [_before(one["id"], one["doc_id"]) for one in passages]
        found = self.context.passages(sorted(id for id in before if id)).to_pylist()
        texts = {one["id"]: one["text"] for one in found}
        return [texts.get(id, "") for id in before]


def _before(id: str, doc_id: str) -> str:
    """The id of the passage before; empty for a document that is one passage, and for a first passage."""
    place = _place(id)
    return "" if id == doc_id or place is None or place[1] == 0 else _id(*place, -1)


def _place(id: str) -> tuple[str, int] | None:
    """Document and number of a passage that was chunk from a document (see ragindex.corpus.chunk)."""
    document, mark, number = id.rpartition("#")
    return (document, int(number)) if mark and number.isascii() and number.isdecimal() else None


def _id(document: str, number: int, step: int) -> str:
    return f"{document}#{number + step}"
