"""What the body of an error response says, in the forms that services have for it.

The table of forms is in tests/unit/ragindex/test_error_bodies.py. Bodies are untrusted: depth and length are bounded.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import regex

_MESSAGES = ("message", "Message", "detail", "error", "errors", "error_message", "error_msg", "msg", "title")
_CODES = ("code", "type", "status", "error_code", "error_type")
_DEEPEST = 8
_LONGEST_TEXT = 100_000
_LONGEST_PAGE = 10_000
_WAIT = regex.compile(
    r"(?:retry|try again) (?:in|after) ((?:\d+(?:\.\d+)?\s?(?:ms|s|m|h)(?![a-z])\s?)+|\d+ (?:second|minute)s?)"
)
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "second": 1.0, "minute": 60.0}


@dataclass(frozen=True, slots=True)
class ErrorDetails:
    """The message of an error response, its name for the error and for the parameter at fault, or empty strings.

    `retry_after` is the wait in seconds that the message asks for, None if it asks for none.
    """

    message: str = ""
    code: str = ""
    param: str = ""
    retry_after: float | None = None


def read_error_body(text: str) -> ErrorDetails:
    """Read the body of an error response: JSON in any known form, a page of HTML, or plain text.

    >>> read_error_body('{"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}').message
    'body.seed: Extra inputs are not permitted'
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text[:_LONGEST_TEXT]
        if text.lstrip().startswith("<"):  # a page of HTML, as proxies send it
            value = regex.sub(r"<[^>]*>", " ", text[:_LONGEST_PAGE])
    return read_error(value)


def read_error(value: Any) -> ErrorDetails:
    """Read the JSON of an error response in any known form."""
    message = _find_message(value)
    code, param = (next(_find_names(value, names), "") for names in (_CODES, ("param",)))
    return ErrorDetails(message, code, param, find_wait(message))


def find_wait(message: str) -> float | None:
    """Return the seconds after which a message asks to try again, as `1m30s`, `20 ms` or `5 seconds`; None if none."""
    match = _WAIT.search(message.lower())
    if match is None:
        return None
    parts = regex.findall(r"(?<!\d)(\d++(?:\.\d++)?)\s?(ms|second|minute|s|m|h)", match[1])
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _find_message(value: Any, depth: int = 0) -> str:
    """Return the first message in a body, with the place that it is about; those of a list are joined."""
    if isinstance(value, str):
        return " ".join(value.split())
    if depth == _DEEPEST:
        return ""
    if isinstance(value, list):
        return "; ".join(filter(None, (_find_message(item, depth + 1) for item in value)))
    if not isinstance(value, Mapping):
        return ""
    message = next(filter(None, (_find_message(value.get(name), depth + 1) for name in _MESSAGES)), "")
    metadata, place = value.get("metadata"), value.get("loc")
    if isinstance(metadata, Mapping) and isinstance(metadata.get("raw"), str):  # OpenRouter: the provider's own words
        message = f"{message}: {metadata['raw']}"
    return f"{'.'.join(map(str, place))}: {message}" if message and isinstance(place, list) else message


def _find_names(value: Any, names: tuple[str, ...], depth: int = 0) -> Iterator[str]:
    """Yield the texts under `names`, those of the inner error first; numbers repeat the status."""
    if depth == _DEEPEST:
        return
    if isinstance(value, list):
        for item in value:
            yield from _find_names(item, names, depth + 1)
    if isinstance(value, Mapping):
        for name in _MESSAGES:
            yield from _find_names(value.get(name), names, depth + 1)
        texts = (value.get(name) for name in names)
        yield from (
            text for text in texts if isinstance(text, str) and text not in ("", "error") and not text.isdigit()
        )
