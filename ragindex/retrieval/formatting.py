"""Hits, positions, steps and paths as JSON and as text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter

from ragindex._util.ids import is_row
from ragindex.types import HYPERLINKS, Hit, Position, Retrieval, Step, Triple

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
    header = len(hit.text) - sum(position.end - position.start for position in hit.positions)
    if len(hit.positions) != 1 or header < 0 or (header and hit.kind != "passage"):
        return hit.positions
    (position,) = hit.positions
    place = position.start + max(0, start - header)
    pages = [page for character, page in position.later_pages if character <= place]
    return (replace(position, page=pages[-1]),) if pages else hit.positions


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


_STEP_ADAPTER = TypeAdapter(Step)


def step_to_json(step: Step) -> dict[str, Any]:
    """Return the step's fields as JSON values; a triple is an object."""
    value: dict[str, Any] = _STEP_ADAPTER.dump_python(step, mode="json")
    return value


def format_path(path: Sequence[Triple]) -> str:
    """Write a path of triples as text; a subject that equals the object before it is not repeated."""
    text, end = "", None
    for triple in path:
        subject = f"; {triple.subject}" if end is not None else triple.subject
        text += f"{'' if triple.subject == end else subject} –{triple.predicate}→ {triple.object}"
        end = triple.object
    return text


def hit_to_json(hit: Hit) -> dict[str, Any]:
    """Return the fields of a hit as JSON values, without the hyperlinks of its documents, which may be many."""
    metadata: Mapping[str, Mapping[str, Any]] = hit.metadata
    return {
        "id": hit.id,
        "kind": hit.kind,
        "score": hit.score,
        "title": hit.title,
        "text": hit.text,
        "doc_ids": list(hit.doc_ids),
        "passage_ids": list(hit.passage_ids),
        "positions": [position_to_json(position) for position in hit.positions],
        "metadata": {
            id: {key: field for key, field in value.items() if key != HYPERLINKS} for id, value in metadata.items()
        },
        "source": hit.source,
    }


def retrieval_to_json(question: str, retrieval: Retrieval) -> dict[str, Any]:
    """Return a retrieval as JSON: `{"question", "hits", "trace", "notes"}`."""
    trace = [step_to_json(step) for step in retrieval.trace]
    hits = [hit_to_json(hit) for hit in retrieval.hits]
    return {"question": question, "hits": hits, "trace": trace, "notes": list(retrieval.notes)}
