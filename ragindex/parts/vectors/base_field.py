"""Flat schemes as parameters of others: those that search one part `over`, and can search another instead."""

from typing import Annotated, Any, TypeAlias, cast

from pydantic import AfterValidator

from ragindex.interfaces import Part, Scheme
from ragindex.parts.triples.triples import Triples
from ragindex.parts.vectors.token_vectors import TokenVectors
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins.registry import SchemeField


def over(scheme: Any, part: Part[Any]) -> Scheme:
    """The same scheme over another part."""
    given = {name: getattr(scheme, name) for name in type(scheme).model_fields}
    return cast(Scheme, type(scheme).model_validate({**given, "over": part}))


def _is_flat(scheme: Any) -> Any:
    """Tried with triples: no scheme searches those of itself."""
    elsewhere = over(scheme, Triples()) if "over" in type(scheme).model_fields else None
    if elsewhere is None or not all(part == Triples() or _of_triples(part) for part in elsewhere.parts()):
        raise ValueError("a method that searches one part `over`: bm25, dense, hybrid, composed, colbert")
    return scheme


def _of_triples(part: Part[Any]) -> bool:
    return isinstance(part, Vectors | TokenVectors) and part.of == Triples()


FlatField: TypeAlias = Annotated[SchemeField, AfterValidator(_is_flat)]
"""The type of a scheme's parameter that is a flat scheme, to be opened `over` whatever the method searches with it."""
