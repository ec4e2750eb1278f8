"""Every filter finds on the server what it finds in memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from elasticsearch_node.node import store as elasticsearch_store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex import filters
from ragindex.filters import All, Filter, Ids, Not, Overlaps, Range, Terms
from ragindex.interfaces import Collection, FilterQuery, Schema
from ragindex.plugins import registry

SCHEMA = Schema(stored=("title",), keywords=("tags", "doc_ids"), numbers=("size",))
VALUES = ("", "a", "b", "ab", "12", "7", "-1e3", ".5", "1_0", "nan", "1e999", "é", "日", "a\0b", "\U0001f600")
NUMBERS = (-1e300, -1e3, -0.0, 0.0, 0.5, 7.0, 12.0, 5e-324, 1e300)
FIELDS = ("title", "tags", "doc_ids", "meta.one", "meta.many", "meta.never")

strings = st.sampled_from(VALUES)
lists = st.lists(st.one_of(st.none(), strings), max_size=3)
record = st.fixed_dictionaries(
    {
        "title": st.one_of(st.none(), strings),
        "tags": st.one_of(st.none(), lists),
        "doc_ids": st.lists(strings, max_size=3),
        "size": st.one_of(st.none(), st.sampled_from([*NUMBERS, float("nan"), float("inf")])),
        "meta.one": st.one_of(st.none(), strings.map(lambda one: [one])),
        "meta.many": st.one_of(st.none(), lists),
    }
)
ends = st.one_of(
    st.tuples(st.one_of(st.none(), st.sampled_from(NUMBERS)), st.one_of(st.none(), st.sampled_from(NUMBERS))),
    st.tuples(st.one_of(st.none(), strings), st.one_of(st.none(), strings)),
)
numeric = st.tuples(*[st.one_of(st.none(), st.sampled_from(NUMBERS))] * 2)
leaf = st.one_of(
    st.builds(Terms, st.sampled_from(FIELDS), st.lists(strings, max_size=4).map(tuple)),
    st.builds(Overlaps, st.sampled_from(FIELDS), st.lists(strings, max_size=4).map(tuple)),
    st.builds(lambda name, pair: Range(name, *pair), st.sampled_from(FIELDS), ends),
    st.builds(lambda pair: Range("size", *pair), numeric),
    st.builds(Ids, st.lists(st.sampled_from([f"{n:02d}" for n in range(45)]), max_size=6).map(tuple)),
)
anything: st.SearchStrategy[Filter] = st.recursive(
    leaf,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(All, st.lists(inner, max_size=3).map(tuple)),
        st.builds(filters.Any, st.lists(inner, max_size=3).map(tuple)),
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def written() -> Iterator[str]:
    with elasticsearch_store() as usable:
        yield usable


def collection(written: str, folder: Path, batch: pa.RecordBatch) -> Collection:
    store = registry.store(written).open(folder / "store")
    store.drop("records")
    made = store.create("records", SCHEMA)
    made.upsert(batch)
    made.finish()
    return store.open("records", made.version)


@given(st.lists(record, min_size=30, max_size=40), st.lists(anything, min_size=60, max_size=80))
@settings(max_examples=examples(6), suppress_health_check=list(HealthCheck))
def test_filters_find_what_they_find_in_memory(
    written: str, tmp_path_factory: Any, records: list[dict[str, Any]], asked: list[Filter]
) -> None:
    folder, words = tmp_path_factory.mktemp("filters"), pa.list_(pa.string())
    kinds = {
        "title": pa.string(),
        "tags": words,
        "doc_ids": words,
        "size": pa.float64(),
        "meta.one": words,
        "meta.many": words,
    }
    columns = {name: pa.array([one[name] for one in records], kind) for name, kind in kinds.items()}
    ids = pa.array([f"{number:02d}" for number in range(len(records))])
    batch = pa.RecordBatch.from_arrays([ids, *columns.values()], names=["id", *columns])
    here, there = (collection(one, folder / name, batch) for one, name in (("lancedb", "here"), (written, "there")))
    requests = [FilterQuery(where, 100) for where in asked]
    found = zip(asked, here.search(requests), there.search(requests), strict=True)
    assert [(where, other.ids) for where, _, other in found] == [
        (where, one.ids) for where, one in zip(asked, here.search(requests), strict=True)
    ]
