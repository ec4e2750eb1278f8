"""Formatting of retrieval steps as JSON and of triple paths as text."""

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from ragindex.types import Step, Triple

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
