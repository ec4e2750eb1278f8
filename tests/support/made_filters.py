"""Random records and filters, for the property that what evaluates filters agrees with the reference."""

from collections.abc import Sequence
from typing import Any as Anything

import pyarrow as pa
from hypothesis import strategies as st

from ragindex.filters import All, Any, Filter, Ids, Not, Overlaps, Range, Terms, passes
from ragindex.interfaces import Collection, FilterQuery, Schema

Row = dict[str, Anything]
SCHEMA = Schema(stored=("title",), keywords=("tags", "doc_ids"), numbers=("size",))
VALUES = (
    "",
    "a",
    "b",
    "ab",
    "12",
    "7",
    "-1e3",
    ".5",
    "1_0",
    "nan",
    "1e999",
    "é",
    "日",
    "a\0b",
    "\U0001f600",
    "o'clock",
)
NUMBERS = (-1e300, -1e3, -0.0, 0.0, 0.5, 7.0, 12.0, 5e-324, 1e300)
FIELDS = ("title", "tags", "doc_ids", "meta.one", "meta.many", "meta.never")
_TEXTS = pa.list_(pa.string())
_TYPES = {
    **{"id": pa.string(), "title": pa.string(), "tags": _TEXTS, "doc_ids": _TEXTS, "size": pa.float64()},
    **{"meta.one": _TEXTS, "meta.many": _TEXTS},
}

strings = st.sampled_from(VALUES)
numbers = st.none() | st.sampled_from(NUMBERS)
lists = st.lists(st.none() | strings, max_size=3)
rows = st.fixed_dictionaries(
    {
        "title": st.none() | strings,
        "tags": st.none() | lists,
        "doc_ids": st.lists(strings, max_size=3),
        "size": st.none() | st.sampled_from([*NUMBERS, float("nan"), float("inf")]),
        "meta.one": st.none() | strings.map(lambda text: [text]),
        "meta.many": st.none() | lists,
    }
)
records: st.SearchStrategy[list[Row]] = st.lists(rows, min_size=30, max_size=40).map(
    lambda those: [{"id": f"{number:02d}", **row} for number, row in enumerate(those)]
)
_several = st.lists(strings, max_size=4).map(tuple)
_ends = st.tuples(numbers, numbers) | st.tuples(st.none() | strings, st.none() | strings)
_conditions = st.one_of(
    st.builds(Terms, st.sampled_from(FIELDS), _several),
    st.builds(Overlaps, st.sampled_from(FIELDS), _several),
    st.builds(lambda name, pair: Range(name, *pair), st.sampled_from(FIELDS), _ends),
    st.builds(lambda pair: Range("size", *pair), st.tuples(numbers, numbers)),
    st.builds(Ids, st.lists(st.sampled_from([f"{n:02d}" for n in range(45)]), max_size=6).map(tuple)),
)
filters: st.SearchStrategy[Filter] = st.recursive(
    _conditions,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(All, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Any, st.lists(inner, max_size=3).map(tuple)),
    ),
    max_leaves=5,
)


def build_batch(those: Sequence[Row]) -> pa.RecordBatch:
    columns = [pa.array([row[name] for row in those], kind) for name, kind in _TYPES.items()]
    return pa.RecordBatch.from_arrays(columns, names=list(_TYPES))


def list_passing(where: Filter, those: Sequence[Row]) -> list[str]:
    """Return the ids of the records that pass, by the reference."""
    return [row["id"] for row in those if passes(where, row)]


def require_agreement(collection: Collection, those: Sequence[Row], wanted: Sequence[Filter]) -> None:
    """Check a collection of these records by each filter."""
    hits = collection.search([FilterQuery(where, 100) for where in wanted])
    expected = [(where, list_passing(where, those)) for where in wanted]
    assert [(where, answer.ids) for where, answer in zip(wanted, hits, strict=True)] == expected
