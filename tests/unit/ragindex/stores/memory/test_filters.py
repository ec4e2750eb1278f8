"""Filters in memory agree with the reference; look-up of strings by hash, also where hashes collide."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from made_filters import Row, build_batch, filters, list_passing, records

from examples import examples
from ragindex.filters import Filter
from ragindex.stores.memory.filters import FilterEvaluator, StringLookup, build_string_lookup


@settings(max_examples=examples(40))
@given(records, st.lists(filters, min_size=20, max_size=40))
def test_filters_agree_with_reference(those: list[Row], drawn_filters: list[Filter]) -> None:
    batch = build_batch(those)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    evaluator = FilterEvaluator(columns, {record["id"]: row for row, record in enumerate(those)})
    for where in drawn_filters:
        assert [those[row]["id"] for row in evaluator.passing(where)] == list_passing(where, those), where


@given(st.lists(st.text(max_size=4), unique=True, max_size=30), st.lists(st.text(max_size=4), max_size=20))
def test_places_are_those_of_a_dict(texts: list[str], wanted: list[str]) -> None:
    lookup = build_string_lookup(pa.array(texts, pa.large_string()))
    places = {text: place for place, text in enumerate(texts)}
    for searched in (wanted, texts, [*texts, *wanted, *texts]):
        assert lookup.find(searched) == sorted({places[text] for text in searched if text in places})


def test_equal_hashes_are_told_apart_by_the_strings() -> None:
    same = np.full(3, hash("b"), np.int64)
    lookup = StringLookup(pa.array(["a", "b", "c"]), same, np.arange(3))
    assert lookup.find(["b"]) == [1]
    assert StringLookup(pa.array(["a", "c"]), same[:2], np.arange(2)).find(["b"]) == []
