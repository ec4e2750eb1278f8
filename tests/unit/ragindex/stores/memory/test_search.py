"""Requests answered together and alone give the same records."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex.filters import Ids, Overlaps, Terms
from ragindex.interfaces import FilterQuery, Schema, SearchRequest, TextQuery
from ragindex.stores.memory.search import MemoryImage

NAMES = ["a", "b", "c", "é", "a b"]
_names = st.lists(st.sampled_from(NAMES), max_size=4)  # also twice, and none
_rows = st.lists(st.tuples(_names, _names), min_size=1, max_size=12)


def image(rows: list[tuple[list[str], list[str]]]) -> MemoryImage:
    columns = {
        "id": pa.array([f"r{number:02d}" for number in range(len(rows))]),
        "keys": pa.array([keys for keys, _ in rows], pa.list_(pa.string())),
        "doc_ids": pa.array([docs for _, docs in rows], pa.list_(pa.string())),
        "tokens": pa.array([" ".join(keys) for keys, _ in rows]),
    }
    return MemoryImage(Schema(text=True), pa.table(columns), None)


_fields = st.sampled_from([(), ("keys",), ("doc_ids", "keys"), ("keys", "doc_ids"), ("meta.none",)])
_few = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(tuple)
_where = st.one_of(
    st.builds(Terms, st.just("keys"), _few),
    st.builds(Overlaps, st.just("doc_ids"), _few),
    st.builds(Ids, st.lists(st.integers(0, 14).map("r{:02d}".format), max_size=5).map(tuple)),
)
_requests = st.lists(
    st.one_of(
        st.builds(FilterQuery, _where, st.integers(0, 6), _fields),
        st.builds(TextQuery, st.sampled_from(NAMES), st.integers(0, 6), _fields, st.none() | _where),
    ),
    max_size=8,
)


@settings(max_examples=examples(60))
@given(_rows, _requests)
def test_together_as_alone(rows: list[tuple[list[str], list[str]]], requests: list[SearchRequest]) -> None:
    collection = image(rows)
    for request, answer in zip(requests, collection.search(requests), strict=True):
        (alone,) = collection.search([request])
        assert (answer.ids, answer.scores.tolist()) == (alone.ids, alone.scores.tolist())
        assert answer.records.to_pylist() == alone.records.to_pylist()
        assert answer.records.schema.names == ["id", *request.fields]
        assert answer.records.column("id").to_pylist() == answer.ids


@settings(max_examples=examples(60))
@given(_rows, _few)
def test_names_are_found_in_each_record_once(rows: list[tuple[list[str], list[str]]], wanted: tuple[str, ...]) -> None:
    (hit,) = image(rows).search([FilterQuery(Terms("keys", wanted), 99)])
    assert hit.ids == [f"r{n:02d}" for n, (keys, _) in enumerate(rows) if not set(keys).isdisjoint(wanted)]
