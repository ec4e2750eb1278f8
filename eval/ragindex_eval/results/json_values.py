"""Conversion of answers to JSON and back with pydantic."""

from typing import Any

from pydantic import TypeAdapter

from ragindex_eval.results.model import MethodAnswer

_ANSWER = TypeAdapter(MethodAnswer)


def answer_to_json(answer: MethodAnswer) -> dict[str, Any]:
    """Convert an answer to a JSON object, without the fields that have their default values."""
    value: dict[str, Any] = _ANSWER.dump_python(answer, mode="json", exclude_defaults=True)
    return value


def answer_from_json(value: Any) -> MethodAnswer:
    """Convert a JSON object to an answer. Raises ValueError if it does not describe one."""
    return _ANSWER.validate_python(value)
