"""Extracted entities and triples of a passage: validation, and triples as JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import WithJsonSchema

from ragindex.canonical import encodable, load_stored_json
from ragindex.types import Triple

_TRIPLES = {
    "type": "array",
    "items": {"type": "array", "items": {"type": "string"}, "minItems": 3, "maxItems": 3},
    "description": "each a list of exactly three texts: subject, predicate, object",
}
TripleLists: TypeAlias = Annotated[list[Any], WithJsonSchema(_TRIPLES)]
"""The type of a list of triples in an LLM's answer; `well_formed` validates them one by one."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """Entities and triples of a passage in the order they were written, and the number of `dropped` malformed triples.

    `source` is where they come from: model, rules, file, missing (not in the file) or blank (the passage has
    no text).
    """

    entities: tuple[str, ...] = ()
    triples: tuple[Triple, ...] = ()
    dropped: int = 0
    source: str = "model"
    note: str = ""


def well_formed(written: Sequence[Any]) -> tuple[tuple[Triple, ...], int]:
    """Return the valid triples, stripped of white space, and the number of invalid ones.

    A valid triple is a list of exactly three texts that are not blank.
    """
    triples = tuple(Triple(*(encodable(text.strip()) for text in one)) for one in written if _is_triple(one))
    return triples, len(written) - len(triples)


def read_triples(written: Sequence[Any]) -> tuple[tuple[Triple, ...], int]:
    """Like `well_formed`, for an answer of an LLM: a triple may be an object, and a number one of its texts.

    Three texts alone are one triple whose brackets are missing.
    """
    rows = [written] if len(written) == 3 and all(isinstance(one, str) for one in written) else written
    rows = [list(one.values()) if isinstance(one, Mapping) else one for one in rows]
    return well_formed([[_number_as_text(part) for part in one] if isinstance(one, list) else one for one in rows])


def _number_as_text(part: Any) -> Any:
    return str(part) if isinstance(part, int | float) and not isinstance(part, bool) else part


def _is_triple(one: Any) -> bool:
    return (
        isinstance(one, list | tuple) and len(one) == 3 and all(isinstance(text, str) and text.strip() for text in one)
    )


def clean_names(written: Sequence[str]) -> tuple[str, ...]:
    """Return the distinct names that are not blank, stripped of white space, in order."""
    return tuple(dict.fromkeys(encodable(name.strip()) for name in written if name.strip()))


def to_json(triples: Sequence[Triple]) -> str:
    """Return triples as a JSON list of [subject, predicate, object]."""
    return json.dumps([[one.subject, one.predicate, one.object] for one in triples], ensure_ascii=False)


def from_json(text: str) -> list[Triple]:
    """Parse the output of `to_json`."""
    return [Triple(*one) for one in load_stored_json(text)]
