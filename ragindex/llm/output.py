"""Output of an LLM: the JSON schema that asks for it, and the reading of what came.

Endpoints with strict schemas enforce the form. Elsewhere a text is read as JSON, then by json_repair; what neither
reads, or what does not fit the output type, is requested once more with its error (`ragindex.llm.client`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, reduce
from operator import getitem
from typing import Any, Generic, NamedTuple, TypeVar, get_origin

import regex
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ragindex._util.canonical import encodable
from ragindex.llm import json_text

ParsedOutput = TypeVar("ParsedOutput", bound=BaseModel)


class UnusableError(Exception):
    """An answer cannot be used. `kind` is that of `LLMError`."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind, self.reason = kind, reason


class Reading(NamedTuple, Generic[ParsedOutput]):
    """The output in a text, how it was read (see `read_json`), and the number of earlier answers in the same text."""

    output: ParsedOutput
    stage: str
    drafts: int = 0


# ---------------------------------------------------------------- schemas

_KEPT_KEYWORDS = ("type", "enum", "const", "description")


@cache
def schema_text(output: type[BaseModel]) -> str:
    """Return the schema as compact JSON. All fields are required, and no other fields are allowed.

    Lists of a fixed length keep it (a triple has three items). Other limits (lengths, ranges) are left out; the output
    type checks them when the answer is read.
    """
    full = output.model_json_schema()
    schema = _narrow(full)
    if "$defs" in full:
        schema["$defs"] = {name: _narrow(definition) for name, definition in full["$defs"].items()}
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def is_closed(schema: str) -> bool:
    """Return whether all objects of a `schema_text` forbid additional keys, as strict endpoints require."""
    return '"additionalProperties":{' not in schema and '"additionalProperties":true' not in schema


def drop_lengths(schema: Any) -> Any:
    """Return a parsed `schema_text` without the lengths of lists, for endpoints that refuse such keywords."""
    if isinstance(schema, list):
        return [drop_lengths(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    fixed = schema.get("type") == "array"
    return {key: drop_lengths(item) for key, item in schema.items() if not (fixed and key in ("minItems", "maxItems"))}


def _narrow(node: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in node:
        return {"$ref": node["$ref"]}
    narrowed = {key: node[key] for key in _KEPT_KEYWORDS if key in node}
    choices = node.get("anyOf") or node.get("oneOf") or node.get("allOf")
    if choices:
        narrowed["anyOf"] = [_narrow(choice) for choice in choices]
    if "prefixItems" in node:
        items = [_narrow(item) for item in node["prefixItems"]]
        different = [item for i, item in enumerate(items) if item not in items[:i]]
        narrowed["items"] = different[0] if len(different) == 1 else {"anyOf": different}
    elif node.get("type") == "array":
        narrowed["items"] = _narrow(node["items"]) if node.get("items") else {"type": "string"}
    if "items" in narrowed and node.get("minItems") is not None and node["minItems"] == node.get("maxItems"):
        narrowed |= {"minItems": node["minItems"], "maxItems": node["maxItems"]}
    if "properties" in node:
        narrowed.pop("description", None)  # the docstring of the class, which is written for programmers
        narrowed["properties"] = {name: _narrow(value) for name, value in node["properties"].items()}
        narrowed["required"] = list(node["properties"])
        narrowed["additionalProperties"] = False
    elif node.get("type") == "object":
        values = node.get("additionalProperties", True)
        narrowed["additionalProperties"] = _narrow(values) if isinstance(values, dict) else values
    return narrowed


# ---------------------------------------------------------------- from strict to tolerant

_OPEN_KEY = regex.compile(r"""\{\s*["']""")


def read_json(text: str, output: type[ParsedOutput], tolerant: bool = True) -> Reading[ParsedOutput]:
    """Parse the output in a text. Only `strict` is tried unless `tolerant`.

    `strict`: the text is valid JSON of the output type. `found`: JSON inside code fences, prose or thoughts, or split
    into consecutive objects. `repaired`: broken JSON, as json_repair reads it. `reshaped`: a list that stands for the
    output's only list field, JSON under a single key of another name, or other scalars (see `_replace_scalars`). Of
    several answers, the last complete one counts alone. Raises UnusableError if no reading fits the output type, or if
    the rest is missing whatever the server says: the text ends within a list, before a field of an object that is not
    closed, or within a further answer.
    """
    try:
        decoded = json_text.decoder.decode(text)
        return Reading(_validate(decoded, output), "strict")
    except _NotFittingError as error:
        reason, text = str(error), decoded if isinstance(decoded, str) else text
    except (ValueError, RecursionError) as error:
        reason = str(error)
    if not tolerant:
        raise UnusableError("malformed", reason)
    readings = list[tuple[Reading[ParsedOutput], bool]]()
    for block, ends_text in json_text.list_blocks(text):
        try:
            readings.append(_read_block(block, output, is_first=not readings))
        except UnusableError as error:
            if ends_text and error.kind == "truncated":
                raise
            reason = error.reason or reason
    objects = [reading for reading, is_object in readings if is_object]
    answers = objects or [reading for reading, _ in readings]
    if not answers:
        raise UnusableError("malformed", reason)
    return answers[-1]._replace(drafts=len(answers) - 1)


def _read_block(block: str, output: type[ParsedOutput], *, is_first: bool) -> tuple[Reading[ParsedOutput], bool]:
    """Read the JSON of one answer; also return whether it is an object of the output type. Raises UnusableError."""
    unclosed = json_text.find_unclosed(block)
    if "[" in unclosed:
        raise UnusableError("truncated", "it ends within a list")
    reason = ""
    for values, stage in _yield_readings(block):
        for value in _list_candidates(values):
            try:
                reading, is_object = _fit(value, output, stage)
            except _NotFittingError as error:
                reason = reason or str(error)
                continue
            missing = [name for name in output.model_fields if name not in reading.output.model_fields_set]
            if unclosed and missing:
                raise UnusableError("truncated", f"it ends before {', '.join(missing)}")
            return reading, is_object
    if unclosed and not is_first and _OPEN_KEY.match(block):
        raise UnusableError("truncated", "it ends within another answer")
    raise UnusableError("malformed", reason)


def _yield_readings(block: str) -> Iterator[tuple[list[Any], str]]:
    """Yield the values in a block by each reading, best first; those in broken JSON may be fragments and come last.

    Before json_repair, which may change texts, what is exact: closing brackets are added, parentheses become brackets,
    and trailing commas go.
    """
    values, is_valid = json_text.find_values(block)
    if is_valid:
        yield values, "found"
    exact, complete = json_text.find_values(json_text.normalize_brackets(json_text.close_brackets(block)))
    if exact and complete:
        yield exact, "repaired"
    value = json_text.repair_text(block)
    if isinstance(value, dict) or (isinstance(value, list) and (block[0] == "[" or block.rstrip().endswith("}"))):
        yield [value], "repaired"  # of the key of an object that ends before its first value, json_repair makes a list
    if not is_valid:
        yield values, "found"


def _list_candidates(values: list[Any]) -> Iterator[Any]:
    """Yield what consecutive values may be: one object in parts, else the items of a list, else each, last first."""
    is_list = len(values) == 1 and isinstance(values[0], list)
    items = values[0] if is_list else values
    merged = _merge_objects(items)
    if merged is not None:
        yield merged
    if is_list or (len(items) > 1 and merged is None):
        yield items
    if not is_list and merged is None:
        yield from values[: -json_text.MOST_BLOCKS - 1 : -1]


def _merge_objects(values: list[Any]) -> dict[str, Any] | None:
    """Merge objects into one, joining lists with equal keys. Return None if other values have equal keys."""
    merged: dict[str, Any] = {}
    for value in values:
        for key, item in value.items() if isinstance(value, dict) else [("", value)]:
            both_lists = isinstance(item, list) and isinstance(merged.get(key), list)
            if not isinstance(value, dict) or (key in merged and not both_lists):
                return None
            merged[key] = [*merged[key], *item] if key in merged else item
    return merged or None


# ---------------------------------------------------------------- fitting the output

_MOST_PROBLEMS = 3
_SURROGATE_PAIR = regex.compile("[\ud800-\udbff][\udc00-\udfff]")
_THOUGHT_KEYS = frozenset({"reasoning_content", "reasoning", "thinking", "thoughts"})  # nothing under them is an answer


class _NotFittingError(Exception):
    """JSON that does not fit the output type."""


def _fit(value: Any, output: type[ParsedOutput], stage: str) -> tuple[Reading[ParsedOutput], bool]:
    """Read a value as the output, and return whether it is an object of its type. Raises _NotFittingError."""
    try:
        return Reading(_validate(value, output), stage), True
    except _NotFittingError as error:
        reason = error  # about the model's own text
    inside = _unwrap(value, output)
    for shape, is_object in ((value, True), (inside, False)):
        try:
            return Reading(_validate(shape, output, replace=True), "reshaped"), is_object
        except _NotFittingError:
            continue
    raise reason


def _unwrap(value: Any, output: type[BaseModel]) -> Any:
    """Return what stands under a single key of another name, and a list as the output's only list field."""
    if isinstance(value, Mapping) and len(value) == 1:
        ((key, content),) = value.items()
        value = content or None if key not in _THOUGHT_KEYS and key not in output.model_fields else None
    lists = [info.alias or name for name, info in output.model_fields.items() if get_origin(info.annotation) is list]
    return {lists[0]: value} if isinstance(value, list) and len(lists) == 1 else value


def _validate(value: Any, output: type[ParsedOutput], *, replace: bool = False) -> ParsedOutput:
    """Validate a value. Raises _NotFittingError, also if no field is present: defaults alone are not an answer."""
    fields = {name for field, info in output.model_fields.items() for name in (field, info.alias or field)}
    if not isinstance(value, Mapping):
        raise _NotFittingError(f"expected a JSON object, got {type(value).__name__}")
    if fields and not fields & value.keys():
        keys = ", ".join(str(key)[:40] for key in list(value)[:10]) or "none"
        raise _NotFittingError(f"expected the keys {', '.join(output.model_fields)}; got {keys}")
    try:
        value = _make_encodable(value)
        return output.model_validate(value)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
    except RecursionError:
        raise _NotFittingError("nested too deeply") from None
    if replace and _replace_scalars(value, problems):
        return _validate(value, output, replace=True)
    problem_texts = (
        f"{'.'.join(map(str, each['loc']))[:100]}: {each['msg'][:200]}" for each in problems[:_MOST_PROBLEMS]
    )
    raise _NotFittingError("; ".join(problem_texts))


def _replace_scalars(value: Any, problems: Sequence[ErrorDetails]) -> bool:
    """Write a number as the text or the list of one that is expected in its place, and null as an empty list.

    Return whether there was any.
    """
    replaced = False
    for kind, given, place in ((each["type"], each["input"], each["loc"]) for each in problems):
        is_number = isinstance(given, int | float) and not isinstance(given, bool)
        if kind == "string_type" and is_number:
            fitting: Any = str(given)
        elif kind == "list_type" and (is_number or given is None):
            fitting = [given] if is_number else []
        else:
            continue
        try:
            reduce(getitem, place[:-1], value)[place[-1]] = fitting
        except (LookupError, TypeError):  # the place is in one of several types
            continue
        replaced = True
    return replaced


def _make_encodable(value: Any) -> Any:
    """Join surrogate pairs, which a repair leaves apart, and remove lone ones, which no file or store accepts."""
    if isinstance(value, str):
        joined = _SURROGATE_PAIR.sub(
            lambda pair: pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"), value
        )
        return encodable(joined)
    if isinstance(value, Mapping):
        return {_make_encodable(key): _make_encodable(item) for key, item in value.items()}
    return [_make_encodable(item) for item in value] if isinstance(value, list) else value


# ---------------------------------------------------------------- plain texts

_NUMBER = regex.compile(r"\d{1,9}")


def read_chosen_numbers(text: str, noun: str) -> list[int]:
    """Return the numbers in a text, in order. Raises ValueError if it has none and does not say `none`.

    `noun` is what they number.
    """
    numbers = [int(number) for number in _NUMBER.findall(text)]
    if not numbers and "none" not in text.casefold():
        raise ValueError(f"it names no {noun} by its number")
    return numbers


def read_first_line(text: str, noun: str) -> str:
    """Return the first line that is not blank, stripped. Raises ValueError, with the `noun`, if there is none."""
    for line in text.splitlines():
        if line := line.strip():
            return line
    raise ValueError(noun)
