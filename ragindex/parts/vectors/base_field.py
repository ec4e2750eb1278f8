"""Flat schemes as parameters of other schemes: each searches one part, `over`, and can search another instead."""

from typing import Annotated, Any, TypeAlias, cast

from pydantic import AfterValidator, ValidationError

from ragindex.interfaces import Part, Scheme
from ragindex.parts.triples.triples import Triples
from ragindex.parts.vectors.token_vectors import TokenVectors
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins.registry import SchemeField


def over(scheme: Any, part: Part[Any]) -> Scheme:
    """Return a copy of `scheme` that searches `part`."""
    fields = {name: getattr(scheme, name) for name in type(scheme).model_fields}
    return cast(Scheme, type(scheme).model_validate({**fields, "over": part}))


def is_flat(scheme: Any) -> bool:
    """Return whether all parts that a scheme needs follow from `over`.

    The check sets `over` to the triples, because no scheme searches triples by default.
    """
    if "over" not in type(scheme).model_fields:
        return False
    try:
        elsewhere = over(scheme, Triples())
    except ValidationError:  # it is built over passages only
        return False
    return all(part == Triples() or _is_made_of_triples(part) for part in elsewhere.parts())


def _check_flat(scheme: Any) -> Any:
    """Return `scheme` if it is flat. Raises ValueError otherwise."""
    if not is_flat(scheme):
        raise ValueError("a method that searches one part `over`: bm25, dense, hybrid, composed, colbert")
    return scheme


def _is_made_of_triples(part: Part[Any]) -> bool:
    return isinstance(part, Vectors | TokenVectors) and part.of == Triples()


FlatField: TypeAlias = Annotated[SchemeField, AfterValidator(_check_flat)]
"""The type of a parameter that is a flat scheme; the method applies it to a part of its own with `over`."""
