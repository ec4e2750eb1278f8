"""Pydantic models for user input that do not convert between booleans and numbers.

In YAML, `k: true` does not mean 1 and `split: 1` does not mean true, but pydantic would convert them.
"""

import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

BOOLEAN_FOR_NUMBER = "boolean_for_number"
"""The type of the pydantic error, for code that selects among several errors."""
_Verdict = Literal["takes", "refuses", "other"]
"""Whether a type accepts a value; `other` leaves the decision to pydantic."""
_NUMBERS = (int, float, complex)


class Strict(BaseModel):
    """A pydantic model that rejects booleans for numbers and numbers for booleans, at any depth of its fields."""

    @field_validator("*", mode="before")
    @classmethod
    def _as_it_was_written(cls, value: Any, info: ValidationInfo) -> Any:
        annotation = cls.model_fields[info.field_name or ""].annotation
        if _judge(value, annotation) == "refuses":
            expected = "a number, not true or false" if _holds_boolean(value) else "true or false"
            raise PydanticCustomError(BOOLEAN_FOR_NUMBER, "Input should be {wanted}", {"wanted": expected})
        return value


def _judge(value: Any, annotation: Any) -> _Verdict:
    if annotation is Any:
        return "takes"
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _judge(value, args[0])
    if origin in (Union, types.UnionType):
        return _combine_any(_judge(value, member) for member in args)
    if isinstance(value, Mapping):
        return _combine_all(_judge(member, args[1]) for member in value.values()) if len(args) == 2 else "other"
    if isinstance(value, list | tuple | set | frozenset):
        return _judge_items(list(value), origin, args)
    return _judge_scalar(value, annotation, args if origin is Literal else (annotation,))


def _judge_items(values: list[Any], origin: Any, args: tuple[Any, ...]) -> _Verdict:
    if origin is None or origin is Literal or not args:
        return "other"
    each = args if origin is tuple and args[-1] is not Ellipsis else args[:1] * len(values)
    return _combine_all(_judge(value, member) for value, member in zip(values, each, strict=False))


def _judge_scalar(value: Any, annotation: Any, allowed: tuple[Any, ...]) -> _Verdict:
    """Return the verdict on a value that is no container; `allowed` holds a Literal's values, or the annotation."""
    if not isinstance(value, _NUMBERS):
        return "other"
    if annotation in (bool, *_NUMBERS):
        return "takes" if (annotation is bool) == isinstance(value, bool) else "refuses"
    equal = [member for member in allowed if isinstance(member, _NUMBERS) and member == value]
    if not equal:
        return "other"
    return "takes" if any(isinstance(member, bool) == isinstance(value, bool) for member in equal) else "refuses"


def _combine_any(verdicts: Iterable[_Verdict]) -> _Verdict:
    distinct = set(verdicts)
    return "takes" if "takes" in distinct else "refuses" if "refuses" in distinct else "other"


def _combine_all(verdicts: Iterable[_Verdict]) -> _Verdict:
    return "refuses" if "refuses" in set(verdicts) else "takes"


def _holds_boolean(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_boolean, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(_holds_boolean, value))
    return isinstance(value, bool)
