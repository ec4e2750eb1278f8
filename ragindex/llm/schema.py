"""The JSON schema of a task's output, in the part of the language that endpoints enforce."""

import json
from functools import cache
from typing import Any

from pydantic import BaseModel

_KEPT = ("type", "enum", "const", "description", "$ref")


@cache
def schema_text(output: type[BaseModel]) -> str:
    """The schema as compact JSON: every field required, none other allowed, and no keyword beyond the common ones.

    Limits that a keyword would say (lengths, ranges) are checked by the output type when the answer is read.
    """
    whole = output.model_json_schema()
    schema = _narrowed(whole)
    if "$defs" in whole:
        schema["$defs"] = {name: _narrowed(definition) for name, definition in whole["$defs"].items()}
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def is_closed(schema: str) -> bool:
    """Whether no object of a `schema_text` may have keys that it does not name, as strict endpoints demand."""
    return '"additionalProperties":{' not in schema and '"additionalProperties":true' not in schema


def _narrowed(node: dict[str, Any]) -> dict[str, Any]:
    kept = {key: node[key] for key in _KEPT if key in node}
    choices = node.get("anyOf") or node.get("oneOf") or node.get("allOf")
    if choices and "$ref" not in kept:
        kept["anyOf"] = [_narrowed(choice) for choice in choices]
    if "prefixItems" in node:
        kept["items"] = _any_of([_narrowed(item) for item in node["prefixItems"]])
    elif node.get("type") == "array":
        kept["items"] = _narrowed(node["items"]) if node.get("items") else {"type": "string"}
    if "properties" in node:
        kept.pop("description", None)  # the class's own docstring, which speaks to programmers
        kept["properties"] = {name: _narrowed(value) for name, value in node["properties"].items()}
        kept["required"] = list(node["properties"])
        kept["additionalProperties"] = False
    elif node.get("type") == "object":
        values = node.get("additionalProperties", True)
        kept["additionalProperties"] = _narrowed(values) if isinstance(values, dict) else values
    return kept if "$ref" not in kept else {"$ref": kept["$ref"]}


def _any_of(items: list[dict[str, Any]]) -> dict[str, Any]:
    different = [item for i, item in enumerate(items) if item not in items[:i]]
    return different[0] if len(different) == 1 else {"anyOf": different}
