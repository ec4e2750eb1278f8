"""Published extractions: OpenIE files as HippoRAG's programs write them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ragindex.errors import DataError
from ragindex.parts.triples.triple_json import Extracted, clean_names, well_formed


@dataclass(frozen=True, slots=True)
class OpenIE:
    """Extractions by the key of their passage. `repeated` passages stood in the file before: the first counts."""

    passages: Mapping[str, Extracted]
    repeated: int


def passage_key(title: str, text: str) -> str:
    """What a passage of the corpus and one of the file have in common: title and text, white space aside."""
    whole = " ".join(f"{title}\n{text}".split())
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@lru_cache(maxsize=1)
def read_openie(path: Path) -> OpenIE:
    """The extractions of a file `{"docs": [{"title", "text", "extracted_entities", "extracted_triples"}, …]}`.

    In place of `text` a `passage` may hold title, newline, text. Triples that are no lists of three texts
    are dropped and counted. Raises DataError. The last file read is remembered: a workspace's copy never changes.
    """
    found: dict[str, Extracted] = {}
    docs = _docs(path)
    for number, doc in enumerate(docs, 1):
        key, extracted = _entry(doc, f"passage {number}", path)
        found.setdefault(key, extracted)
    return OpenIE(found, len(docs) - len(found))


def _docs(path: Path) -> list[Any]:
    try:
        read = json.loads(path.read_bytes())
    except OSError as error:
        raise DataError("a file of extractions", error.strerror or str(error), path=path) from error
    except (ValueError, RecursionError) as error:
        raise DataError("JSON", str(error), path=path) from error
    docs = read.get("docs") if isinstance(read, dict) else None
    if not isinstance(docs, list):
        raise DataError('an object with a list "docs"', _shown(read), path=path)
    return docs


def _entry(doc: Any, where: str, path: Path) -> tuple[str, Extracted]:
    if not isinstance(doc, dict):
        raise DataError(f"an object as {where}", _shown(doc), path=path)
    title, text, passage = (doc.get(name) for name in ("title", "text", "passage"))
    entities, triples = doc.get("extracted_entities"), doc.get("extracted_triples")
    if not isinstance(text, str) and not isinstance(passage, str):
        raise DataError(f'"text" or "passage" in {where}', f"the keys {', '.join(map(str, doc))}", path=path)
    if not isinstance(entities, list) or not all(isinstance(name, str) for name in entities):
        raise DataError(f'a list of texts as "extracted_entities" of {where}', _shown(entities), path=path)
    if not isinstance(triples, list):
        raise DataError(f'a list as "extracted_triples" of {where}', _shown(triples), path=path)
    kept, dropped = well_formed(triples)
    key = _key_of(str(title or ""), text, passage)
    return key, Extracted(clean_names(entities), kept, dropped, source="file")


def _key_of(title: str, text: Any, passage: Any) -> str:
    if isinstance(text, str):
        return passage_key(title, text)
    return passage_key("" if passage.startswith(title) else title, passage)


def _shown(value: Any) -> str:
    return repr(value)[:80]
