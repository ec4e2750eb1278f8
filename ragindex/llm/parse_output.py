"""Reading what a language model wrote: as it was asked for, else as it was probably meant, else not at all.

Nothing here runs what it reads, and work is bounded whatever the text.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import regex
from pydantic import BaseModel, ValidationError

from ragindex.canonical import encodable
from ragindex.llm.coerce import reshape
from ragindex.llm.repair_json import normalize_brackets, repair_text

ParsedOutput = TypeVar("ParsedOutput", bound=BaseModel)
_MOST_OPENINGS = 50
_MOST_PROBLEMS = 3
_THOUGHTS = regex.compile(r"\s*<think>.*?</think>", regex.DOTALL)
_FENCE = regex.compile(r"^[ \t]*```[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", regex.MULTILINE | regex.DOTALL)
_OPENING = regex.compile(r"""\{|(?:^|:|```\w*)[ \t]*\[|^[ \t]*\((?=\s*["'(\[])""", regex.MULTILINE)

_FURTHER = regex.compile(r"\s*,\s*[\[{]")


class UnusableError(Exception):
    """Why an answer cannot be used; `kind` as `LLMError` has it."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind, self.reason = kind, reason


def read_json(text: str, output: type[ParsedOutput], tolerant: bool = True) -> tuple[ParsedOutput, str]:
    """The output that a text holds, and how it was read; only `strict` unless `tolerant`.

    `strict`: the text is JSON that fits. `found`: it stood in fences, prose or thoughts, or in two objects in a row.
    `repaired`: the JSON was broken. `reshaped`: it was of a known other form (see `reshaping`). Raises UnusableError.
    """
    try:
        decoded = _decoder.decode(text)
        return _validated(decoded, output), "strict"
    except (_NotFittingError, ValueError, RecursionError) as error:
        reason = str(error)
        written = decoded if isinstance(error, _NotFittingError) and isinstance(decoded, str) else None
    readings = _readings(_body(text if written is None else written), written, output) if tolerant else ()
    for value, stage in readings:
        try:
            return _validated(value, output), stage
        except _NotFittingError as error:
            reason = reason if stage == "reshaped" else str(error)  # about what the model wrote, not what we made of it
    raise UnusableError("malformed", reason)


# ---------------------------------------------------------------- from strict to tolerant


def _readings(body: str, written: str | None, output: type[BaseModel]) -> Iterator[tuple[Any, str]]:
    """What the text may hold, best first. `written` is the text where all of it was one JSON string."""
    found, whole = _found(body)
    if whole:  # else what was found may be a piece of something broken
        yield from _forms(found, "found", output)
    for again in _mends(body):
        yield from _forms(again, "repaired", output)
    if not whole:
        yield from _forms(found, "found", output)
    if written is not None:
        yield reshape(written, output), "reshaped"


def _forms(values: list[Any], stage: str, output: type[BaseModel]) -> Iterator[tuple[Any, str]]:
    for value in _candidates(values):
        yield value, stage
        yield reshape(value, output), "reshaped"


def _mends(body: str) -> Iterator[list[Any]]:
    """What the text holds once its slips are mended, where that makes it whole; else what can be repaired of it."""
    found, whole = _found(normalize_brackets(body))
    if found and whole:
        yield found
    yield _repaired(body)


def _candidates(values: list[Any]) -> list[Any]:
    """Objects in a row as one, where that can be; else each, the last first: what comes later mends.

    Lists and other values in a row are tried together, as a list, before that.
    """
    if len(values) == 1 and isinstance(values[0], list):
        return _merged(values[0]) or values
    merged = _merged(values)
    return merged or ([values, *reversed(values)] if len(values) > 1 else values)


def _merged(values: list[Any]) -> list[Any]:
    """The objects as one, lists under the same key joined; none where another value stands under two of them."""
    if len(values) < 2 or not all(isinstance(value, dict) for value in values):
        return []
    merged: dict[str, Any] = {}
    for key, item in (pair for value in values for pair in value.items()):
        if key in merged and not (isinstance(item, list) and isinstance(merged[key], list)):
            return []
        merged[key] = merged[key] + item if key in merged else item
    return [merged]


# ---------------------------------------------------------------- JSON in a text


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_refused)


def _body(text: str) -> str:
    """The text without a byte-order mark and thoughts; what stands in fences, where something does."""
    text = _THOUGHTS.sub("", text.lstrip("\ufeff"), count=1)
    fenced = "\n".join(match.group(1) for match in _FENCE.finditer(text))
    return fenced if _OPENING.search(fenced) else text


def _found(text: str) -> tuple[list[Any], bool]:
    """The JSON objects and lists in a text, and whether every bracket that could open one did."""
    values: list[Any] = []
    at, whole = 0, True
    for _ in range(_MOST_OPENINGS):
        beside = _FURTHER.match(text, at) if values else None  # lists side by side on one line
        opening = beside or _OPENING.search(text, at)
        if opening is None:
            return values, whole
        try:
            value, at = _decoder.raw_decode(text, opening.end() - 1)
            values.append(value)
        except (ValueError, RecursionError):
            at, whole = opening.end(), False
    return values, False


def _repaired(text: str) -> list[Any]:
    """What can be mended of the text from its first bracket on."""
    opening = _OPENING.search(text)
    value = None if opening is None else repair_text(_from(text, opening.end() - 1))
    return [value] if isinstance(value, dict | list) else []


def _from(text: str, start: int) -> str:
    """The text from there on; bare tuples, one a line, as a list of them."""
    if text[start] != "(":
        return text[start:]
    lines = (line.strip().rstrip(",") for line in text[start:].split("\n"))
    return f"[{','.join(line for line in lines if line.startswith('('))}]"


# ---------------------------------------------------------------- fitting the output


class _NotFittingError(Exception):
    """JSON that is not of the type asked for."""


def _validated(value: Any, output: type[ParsedOutput]) -> ParsedOutput:
    """Raises _NotFittingError, also for an object with none of the fields: defaults alone are no answer."""
    fields = {name for field, info in output.model_fields.items() for name in (field, info.alias or field)}
    if not isinstance(value, Mapping):
        raise _NotFittingError(f"expected a JSON object, got {type(value).__name__}")
    if fields and not fields & value.keys():
        raise _NotFittingError(f"expected the keys {', '.join(output.model_fields)}; got {_keys(value)}")
    try:
        return output.model_validate(_encodable(value))
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False, include_context=False)[:_MOST_PROBLEMS]
    except RecursionError:
        raise _NotFittingError("nested too deeply") from None
    raise _NotFittingError("; ".join(f"{'.'.join(map(str, p['loc']))[:100]}: {p['msg'][:200]}" for p in problems))


def _encodable(value: Any) -> Any:
    """JSON without halves of surrogate pairs, which it may hold as escapes: neither a file nor a store takes them."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, Mapping):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    return [_encodable(item) for item in value] if isinstance(value, list) else value


def _keys(value: Mapping[str, Any]) -> str:
    return ", ".join(str(key)[:40] for key in list(value)[:10]) or "none"
