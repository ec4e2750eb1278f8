"""What is read off one passage, and which of the triples that somebody wrote down are triples."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import WithJsonSchema

from ragindex.canonical import encodable
from ragindex.types import Triple

_TRIPLES = {
    "type": "array",
    "items": {"type": "array", "items": {"type": "string"}},
    "description": "each a list of exactly three texts: subject, predicate, object",
}
TripleLists: TypeAlias = Annotated[list[Any], WithJsonSchema(_TRIPLES)]
"""The type of a model's answer that lists triples: they are looked at one by one (`well_formed`)."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """Entities and triples of a passage in the order they were written; `dropped` triples were malformed.

    `source` says where they come from: model, rules, file, missing (in the file) or blank (there is no text).
    """

    entities: tuple[str, ...] = ()
    triples: tuple[Triple, ...] = ()
    dropped: int = 0
    source: str = "model"
    note: str = ""


def well_formed(written: Sequence[Any]) -> tuple[tuple[Triple, ...], int]:
    """The lists of exactly three texts that are not blank, without the white space around; and how many are not."""
    triples = tuple(Triple(*(encodable(text.strip()) for text in one)) for one in written if _is_triple(one))
    return triples, len(written) - len(triples)


def _is_triple(one: Any) -> bool:
    return (
        isinstance(one, list | tuple) and len(one) == 3 and all(isinstance(text, str) and text.strip() for text in one)
    )


def clean_names(written: Sequence[str]) -> tuple[str, ...]:
    """The names that are not blank, each once, without the white space around."""
    return tuple(dict.fromkeys(encodable(name.strip()) for name in written if name.strip()))


def to_json(triples: Sequence[Triple]) -> str:
    """Triples as a JSON list of [subject, predicate, object]."""
    return json.dumps([[one.subject, one.predicate, one.object] for one in triples], ensure_ascii=False)


def from_json(text: str) -> list[Triple]:
    """What `to_json` wrote."""
    return [Triple(*one) for one in json.loads(text)]
