"""Terms of metadata values, and filters of other interfaces."""

from collections.abc import Sequence
from typing import Any

import pytest

from ragindex.filters import (
    MAPPING,
    ComparisonOperator,
    Filter,
    Not,
    build_comparison,
    document_fields,
    list_terms,
    list_typed_terms,
    meta,
    passes,
)
from ragindex.serve.vector_store import AttributeComparison, translate_attributes


def select(where: Filter, values: Sequence[Any]) -> list[bool]:
    """Say which documents pass; `values` are those of the key `k`."""
    return [passes(where, document_fields(f"d{row}", {"k": value})) for row, value in enumerate(values)]


@pytest.mark.parametrize(
    ("value", "terms"),
    [
        ("staff", ["staff"]),
        (3.0, ["3"]),
        (True, ["true"]),
        (["staff", ["hr", 2]], ["staff", "hr", "2"]),
        (("a", None, ()), ["a"]),
        ([], []),
        (None, []),
        ({"team": "staff"}, [MAPPING]),
        (["staff", {"team": "hr"}], ["staff", MAPPING]),
    ],
)
def test_terms(value: object, terms: list[str]) -> None:
    assert list_terms(value) == terms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("3", ["3"]),
        ("3.0", ["3.0", "3"]),
        ("+1e3", ["+1e3", "1000"]),
        ("007", ["007", "7"]),
        ("12345678901234567890", ["12345678901234567890"]),
        ("True", ["True", "true"]),
        ("no", ["no"]),
        ("1_000", ["1_000"]),
        ("2026-11-27", ["2026-11-27"]),
    ],
)
def test_typed_terms(text: str, terms: list[str]) -> None:
    assert list_typed_terms(text) == terms


LISTS = [["staff", "hr"], ["open"], "staff", [], None, [1, 5]]


@pytest.mark.parametrize(
    ("operator", "value", "passing"),
    [
        ("==", "staff", [0, 2]),
        ("!=", "staff", [1, 3, 4, 5]),
        ("in", ["hr", "open"], [0, 1]),
        ("not in", ["hr", "open"], [2, 3, 4, 5]),
        (">", "hr", [0, 1, 2]),
        (">", 1, [5]),
        (">=", 5, [5]),
        ("<", 5, [5]),
    ],
)
def test_comparisons_of_lists(operator: ComparisonOperator, value: object, passing: list[int]) -> None:
    assert [
        row for row, passes in enumerate(select(build_comparison("k", operator, value), LISTS)) if passes
    ] == passing


@pytest.mark.parametrize(("kind", "value"), [("ne", "staff"), ("nin", ["staff", "nobody"])])
def test_attribute_filters_of_openai_keep_out_by_any_element(kind: Any, value: Any) -> None:
    where = translate_attributes(AttributeComparison(type=kind, key="k", value=value))
    assert select(where, LISTS) == [False, True, False, True, True, True] == select(Not(meta("k", "staff")), LISTS)
