"""Formatting of positions, as JSON and as text."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter

from ragindex.document_ids import is_row
from ragindex.types import Hit, Position

_ADAPTER = TypeAdapter(Position)


def position_to_json(position: Position) -> dict[str, Any]:
    """Return the position's fields as JSON values."""
    value: dict[str, Any] = _ADAPTER.dump_python(position, mode="json")
    if not position.later_pages:
        del value["later_pages"]
    return value


def place_snippet(hit: Hit, start: int) -> tuple[Position, ...]:
    """Return the positions of a hit of which the text from the character `start` on is shown, with the page there.

    They stay as they are unless the hit is a passage as it stands in one document, perhaps below a table's header.
    """
    header = len(hit.text) - sum(one.end - one.start for one in hit.positions)
    if len(hit.positions) != 1 or header < 0 or (header and hit.kind != "passage"):
        return hit.positions
    (position,) = hit.positions
    place = position.start + max(0, start - header)
    begun = [page for character, page in position.later_pages if character <= place]
    return (replace(position, page=begun[-1]),) if begun else hit.positions


def format_positions(positions: Iterable[Position], title: str = "") -> str:
    """Write positions as text for people: "guide.pdf, page 3", "faq.csv/17, row 17", "guide.md, Setup › Install" or
    "a.txt, characters 2-9".

    Offsets are written where nothing else says where in the document a passage is. A first heading that is the `title`
    is left out.
    """
    return "; ".join(_format_position(position, title) for position in positions)


def _format_position(position: Position, title: str) -> str:
    part = "row" if is_row(position.doc_id) else "page"
    page = [f"{part} {position.page}"] if position.page is not None else []
    below = position.headings[1:] if position.headings[:1] == (title,) else position.headings
    headings = [" › ".join(below)] if below else []
    offsets = [f"characters {position.start}-{position.end}"]
    return ", ".join([position.doc_id, *(page + headings or offsets)])
