"""JSON schema of a task's output, in the subset of JSON Schema that endpoints enforce."""

import json
from functools import cache
from typing import Any

from pydantic import BaseModel

_KEPT_KEYWORDS = ("type", "enum", "const", "description", "$ref")


@cache
def schema_text(output: type[BaseModel]) -> str:
    """Return the schema as compact JSON. All fields are required, and no other fields are allowed.

    Lists of a fixed length keep it (a triple has three items). Other limits (lengths, ranges) are left out; the output
    type checks them when the answer is read.
    """
    whole = output.model_json_schema()
    schema = _narrow(whole)
    if "$defs" in whole:
        schema["$defs"] = {name: _narrow(definition) for name, definition in whole["$defs"].items()}
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
    kept = {key: node[key] for key in _KEPT_KEYWORDS if key in node}
    choices = node.get("anyOf") or node.get("oneOf") or node.get("allOf")
    if choices and "$ref" not in kept:
        kept["anyOf"] = [_narrow(choice) for choice in choices]
    if "prefixItems" in node:
        kept["items"] = _any_of([_narrow(item) for item in node["prefixItems"]])
    elif node.get("type") == "array":
        kept["items"] = _narrow(node["items"]) if node.get("items") else {"type": "string"}
    if "items" in kept and node.get("minItems") is not None and node["minItems"] == node.get("maxItems"):
        kept |= {"minItems": node["minItems"], "maxItems": node["maxItems"]}
    if "properties" in node:
        kept.pop("description", None)  # the docstring of the class, which is written for programmers
        kept["properties"] = {name: _narrow(value) for name, value in node["properties"].items()}
        kept["required"] = list(node["properties"])
        kept["additionalProperties"] = False
    elif node.get("type") == "object":
        values = node.get("additionalProperties", True)
        kept["additionalProperties"] = _narrow(values) if isinstance(values, dict) else values
    return kept if "$ref" not in kept else {"$ref": kept["$ref"]}


def _any_of(items: list[dict[str, Any]]) -> dict[str, Any]:
    different = [item for i, item in enumerate(items) if item not in items[:i]]
    return different[0] if len(different) == 1 else {"anyOf": different}
