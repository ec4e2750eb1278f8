"""Results as JSON and back: what pydantic makes of the frozen values."""

from typing import Any

from pydantic import TypeAdapter

from ragindex_eval.results.model import MethodAnswer

_ANSWER = TypeAdapter(MethodAnswer)


def answer_to_json(answer: MethodAnswer) -> dict[str, Any]:
    """An answer as a JSON object; fields that have their defaults are left out."""
    value: dict[str, Any] = _ANSWER.dump_python(answer, mode="json", exclude_defaults=True)
    return value


def answer_from_json(value: Any) -> MethodAnswer:
    """The other way. Raises ValueError for what is no answer."""
    return _ANSWER.validate_python(value)
