"""Canonical forms of texts and JSON values: text that UTF-8 can encode, and hashes of values."""

import hashlib
import json
from datetime import date
from typing import Any

from ragindex.errors import DataError
from ragindex.types import Metadata


def encodable(text: str) -> str:
    """Replace each lone surrogate, which UTF-8 cannot encode, with a question mark; the length stays the same."""
    return text.encode("utf-8", "replace").decode()


def digest(value: Any) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a JSON value's canonical form."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def metadata_json(metadata: Metadata) -> str:
    """Return metadata as canonical JSON, with dates as ISO strings. Raises DataError if JSON cannot represent it."""
    if not metadata:
        return "{}"
    try:
        text = json.dumps(dict(metadata), sort_keys=True, ensure_ascii=False, allow_nan=False, default=_encode_value)
        text.encode()
        return text
    except (TypeError, ValueError) as error:
        raise DataError("metadata that JSON can hold", f"{error}") from error


def _encode_value(value: Any) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, tuple | set | frozenset):
        return sorted(value) if isinstance(value, set | frozenset) else list(value)
    raise TypeError(f"{type(value).__name__} {value!r}")
