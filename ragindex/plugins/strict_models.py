"""Models of what people write: true and false are no numbers, and numbers are neither true nor false.

YAML's `k: true` is not meant as 1, nor `split: 1` as true; pydantic takes one for the other.
"""

import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

BOOLEAN_FOR_NUMBER = "boolean_for_number"
"""The type of the error, for whoever picks one of several."""
_Verdict = Literal["takes", "refuses", "other"]
"""Whether a type takes a value; `other`: pydantic is to say."""
_NUMBERS = (int, float, complex)


class Strict(BaseModel):
    """A pydantic model that takes no boolean for a number and no number for a boolean, at any depth of its fields."""

    @field_validator("*", mode="before")
    @classmethod
    def _as_it_was_written(cls, value: Any, info: ValidationInfo) -> Any:
        annotation = cls.model_fields[info.field_name or ""].annotation
        if _verdict(value, annotation) == "refuses":
            wanted = "a number, not true or false" if _holds_boolean(value) else "true or false"
            raise PydanticCustomError(BOOLEAN_FOR_NUMBER, "Input should be {wanted}", {"wanted": wanted})
        return value


def _verdict(value: Any, annotation: Any) -> _Verdict:
    if annotation is Any:
        return "takes"
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _verdict(value, args[0])
    if origin in (Union, types.UnionType):
        return _any_of(_verdict(value, one) for one in args)
    if isinstance(value, Mapping):
        return _all_of(_verdict(one, args[1]) for one in value.values()) if len(args) == 2 else "other"
    if isinstance(value, list | tuple | set | frozenset):
        return _of_items(list(value), origin, args)
    return _of_scalar(value, annotation, args if origin is Literal else (annotation,))


def _of_items(values: list[Any], origin: Any, args: tuple[Any, ...]) -> _Verdict:
    if origin is None or origin is Literal or not args:
        return "other"
    each = args if origin is tuple and args[-1] is not Ellipsis else args[:1] * len(values)
    return _all_of(_verdict(value, one) for value, one in zip(values, each, strict=False))


def _of_scalar(value: Any, annotation: Any, allowed: tuple[Any, ...]) -> _Verdict:
    """`allowed` are the values of a Literal, or the annotation itself."""
    if not isinstance(value, _NUMBERS):
        return "other"
    if annotation in (bool, *_NUMBERS):
        return "takes" if (annotation is bool) == isinstance(value, bool) else "refuses"
    equal = [one for one in allowed if isinstance(one, _NUMBERS) and one == value]
    if not equal:
        return "other"
    return "takes" if any(isinstance(one, bool) == isinstance(value, bool) for one in equal) else "refuses"


def _any_of(verdicts: Iterable[_Verdict]) -> _Verdict:
    found = set(verdicts)
    return "takes" if "takes" in found else "refuses" if "refuses" in found else "other"


def _all_of(verdicts: Iterable[_Verdict]) -> _Verdict:
    return "refuses" if "refuses" in set(verdicts) else "takes"


def _holds_boolean(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_boolean, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(_holds_boolean, value))
    return isinstance(value, bool)
