"""Extracted triples: validation, their JSON in records, and the OpenIE files that HippoRAG's programs write."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import WithJsonSchema

from ragindex._util.canonical import encodable, load_stored_json
from ragindex.errors import DataError
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


def well_formed(rows: Sequence[Any]) -> tuple[tuple[Triple, ...], int]:
    """Return the valid triples, stripped of white space, and the number of invalid ones.

    A valid triple is a list of exactly three texts that are not blank.
    """
    triples = tuple(Triple(*(encodable(text.strip()) for text in item)) for item in rows if _is_triple(item))
    return triples, len(rows) - len(triples)


def read_triples(written: Sequence[Any]) -> tuple[tuple[Triple, ...], int]:
    """Like `well_formed`, for an answer of an LLM: a triple may be an object, and a number one of its texts.

    Three texts alone are one triple whose brackets are missing.
    """
    rows = [written] if len(written) == 3 and all(isinstance(item, str) for item in written) else written
    rows = [list(row.values()) if isinstance(row, Mapping) else row for row in rows]
    return well_formed([[_number_as_text(part) for part in row] if isinstance(row, list) else row for row in rows])


def _number_as_text(part: Any) -> Any:
    return str(part) if isinstance(part, int | float) and not isinstance(part, bool) else part


def _is_triple(item: Any) -> bool:
    return (
        isinstance(item, list | tuple)
        and len(item) == 3
        and all(isinstance(text, str) and text.strip() for text in item)
    )


def clean_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the distinct names that are not blank, stripped of white space, in order."""
    return tuple(dict.fromkeys(encodable(name.strip()) for name in names if name.strip()))


def to_json(triples: Sequence[Triple]) -> str:
    """Return triples as a JSON list of [subject, predicate, object]."""
    return json.dumps([[triple.subject, triple.predicate, triple.object] for triple in triples], ensure_ascii=False)


def from_json(text: str) -> list[Triple]:
    """Parse the output of `to_json`."""
    return [Triple(*sides) for sides in load_stored_json(text)]


@dataclass(frozen=True, slots=True)
class OpenIE:
    """Extractions by passage key. `repeated` counts later duplicates of a passage; the first one is used."""

    passages: Mapping[str, Extracted]
    repeated: int


def passage_key(title: str, text: str) -> str:
    """Return a hash of title and text without regard to white space, which matches corpus and file passages."""
    content = " ".join(f"{title}\n{text}".split())
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@lru_cache(maxsize=1)
def read_openie(path: Path) -> OpenIE:
    """Read the extractions of a file.

    The file is `{"docs": [{"title", "text", "extracted_entities", "extracted_triples"}, …]}`. Instead of
    `text`, a `passage` may hold title, newline, text. Triples that are not lists of three texts are dropped
    and counted. Raises DataError if the file cannot be read. The last file is cached, because an index's copy
    of it never changes.
    """
    extractions: dict[str, Extracted] = {}
    docs = _read_docs(path)
    for number, doc in enumerate(docs, 1):
        key, extracted = _parse_doc(doc, f"passage {number}", path)
        extractions.setdefault(key, extracted)
    return OpenIE(extractions, len(docs) - len(extractions))


def _read_docs(path: Path) -> list[Any]:
    try:
        read = json.loads(path.read_bytes())
    except OSError as error:
        raise DataError("a file of extractions", error.strerror or str(error), path=path) from error
    except (ValueError, RecursionError) as error:
        raise DataError("JSON", str(error), path=path) from error
    docs = read.get("docs") if isinstance(read, dict) else None
    if not isinstance(docs, list):
        raise DataError('an object with a list "docs"', _shorten(read), path=path)
    return docs


def _parse_doc(doc: Any, where: str, path: Path) -> tuple[str, Extracted]:
    if not isinstance(doc, dict):
        raise DataError(f"an object as {where}", _shorten(doc), path=path)
    title, text, passage = (doc.get(name) for name in ("title", "text", "passage"))
    entities, triples = doc.get("extracted_entities"), doc.get("extracted_triples")
    if not isinstance(text, str) and not isinstance(passage, str):
        raise DataError(f'"text" or "passage" in {where}', f"the keys {', '.join(map(str, doc))}", path=path)
    if not isinstance(entities, list) or not all(isinstance(name, str) for name in entities):
        raise DataError(f'a list of texts as "extracted_entities" of {where}', _shorten(entities), path=path)
    if not isinstance(triples, list):
        raise DataError(f'a list as "extracted_triples" of {where}', _shorten(triples), path=path)
    triples_read, dropped = well_formed(triples)
    key = _build_key(str(title or ""), text, passage)
    return key, Extracted(clean_names(entities), triples_read, dropped, source="file")


def _build_key(title: str, text: Any, passage: Any) -> str:
    if isinstance(text, str):
        return passage_key(title, text)
    return passage_key("" if passage.startswith(title) else title, passage)


def _shorten(value: Any) -> str:
    return repr(value)[:80]
