"""Canonical forms of texts and JSON values: text that UTF-8 can encode, and hashes of values."""

import hashlib
import json
from collections.abc import Mapping
from datetime import date
from typing import Any

from ragindex.errors import DamagedError, DataError
from ragindex.types import Document, Metadata


def encodable(text: str) -> str:
    """Replace each lone surrogate, which UTF-8 cannot encode, with a question mark; the length stays the same."""
    return text.encode("utf-8", "replace").decode()


def digest(value: Any) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a JSON value's canonical form."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


MOST_METADATA_KEYS, MOST_METADATA_LEVELS, MOST_METADATA_BYTES = 128, 8, 64 << 10
"""Limits of a document's metadata: each key is a column of the store, and each passage has a copy."""


def metadata_json(metadata: Metadata) -> str:
    """Return metadata as canonical JSON, with dates as ISO strings.

    Raises DataError if JSON cannot represent it, or if it exceeds the limits of keys, levels and bytes.
    """
    if not metadata:
        return "{}"
    if len(metadata) > MOST_METADATA_KEYS:
        raise DataError(f"metadata with at most {MOST_METADATA_KEYS} keys", f"{len(metadata)}")
    _require_shallow(metadata)
    try:
        text = json.dumps(dict(metadata), sort_keys=True, ensure_ascii=False, allow_nan=False, default=_encode_value)
        size = len(text.encode())
    except (TypeError, ValueError) as error:
        raise DataError("metadata that JSON can hold", f"{error}") from error
    if size > MOST_METADATA_BYTES:
        raise DataError(f"metadata of at most {MOST_METADATA_BYTES:,} bytes as JSON", f"{size:,}")
    return text


def load_stored_json(text: str) -> Any:
    """Parse JSON that a record of an index holds. Raises DamagedError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedError(
            f"A record of the index holds JSON that cannot be read ({error}). Run ragindex repair, or export again."
        ) from error


def document_metadata_json(document: Document) -> str:
    """Return the metadata of a document as `metadata_json` does. The DataError names the document."""
    try:
        return metadata_json(document.metadata)
    except DataError as error:
        raise DataError(error.expected, error.found, path=f"document {document.id!r}") from None


def _require_shallow(metadata: Metadata) -> None:
    """Raise DataError for lists and mappings inside each other beyond the limit."""
    level: list[Any] = [metadata]
    for _ in range(MOST_METADATA_LEVELS):
        inner = (value.values() if isinstance(value, Mapping) else value for value in level)
        level = [item for values in inner for item in values if isinstance(item, Mapping | list | tuple)]
    if level:
        raise DataError(f"metadata of at most {MOST_METADATA_LEVELS} levels", "more")


def _encode_value(value: Any) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, tuple | set | frozenset):
        return sorted(value) if isinstance(value, set | frozenset) else list(value)
    raise TypeError(f"{type(value).__name__} {value!r}")
