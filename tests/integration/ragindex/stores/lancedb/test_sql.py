"""Filters in LanceDB's SQL, with indexes and without, beside the same filters evaluated in memory."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from examples import examples
from ragindex.filters import All, Any, Filter, Ids, Not, Overlaps, Range, Terms
from ragindex.interfaces import Collection, FilterQuery, Schema
from ragindex.stores.lancedb import store
from ragindex.stores.lancedb.store import LanceDB

RECORDS = 24
IDS = [f"r{number:02d}" for number in range(RECORDS)]
YEARS = [None if number % 5 == 0 else [str(1990 + number)] for number in range(RECORDS)]
KINDS = [None if number % 3 == 0 else [f"k{number % 4}", None][: 1 + number % 2] for number in range(RECORDS)]
PAGES = [[str(number % 5), str(number % 7)][number % 3 :] for number in range(RECORDS)]
"""Of up to two documents, as summaries have them."""
COLUMNS = {
    "id": IDS,
    "text": [f"word{number % 3}" for number in range(RECORDS)],
    "tags": [[f"t{number % 4}", f"u{number % 3}"][: number % 3] for number in range(RECORDS)],
    "size": [float(number % 7) for number in range(RECORDS)],
    "meta.year": pa.array(YEARS, pa.list_(pa.string())),
    "meta.kind": pa.array(KINDS, pa.list_(pa.string())),
    "meta.page": pa.array(PAGES, pa.list_(pa.string())),
    "doc_ids": [[f"d{page}" for page in pages] for pages in PAGES],
}


def several(values: list[str]) -> some.SearchStrategy[tuple[str, ...]]:
    return some.lists(some.sampled_from(values), max_size=4).map(tuple)


OF_KINDS = [(None, None), ("k1", None), (None, "k2"), ("k2", "k2")]
ends = some.none() | some.integers(0, 6)
years = some.none() | some.integers(1988, 2016)
leaves = some.one_of(
    several([*IDS, "missing"]).map(Ids),
    several(["t0", "t1", "u2", "nobody"]).map(lambda values: Terms("tags", values)),
    several(["word0", "word2"]).map(lambda values: Terms("text", values)),
    several(["k1", "k2", "k3"]).map(lambda values: Terms("meta.kind", values)),
    several(["x"]).map(lambda values: Terms("meta.nothing", values)),
    several(["1", "2", "4", "6"]).map(lambda values: Terms("meta.page", values)),
    several(["d1", "d2", "d4", "d6"]).map(lambda values: Terms("doc_ids", values)),
    several(["d1", "d2", "d4", "d6"]).map(lambda values: Overlaps("doc_ids", values)),
    some.tuples(ends, ends).map(lambda pair: Range("meta.page", *pair)),
    some.sampled_from(OF_KINDS).map(lambda pair: Range("meta.kind", *pair)),
    some.tuples(ends, ends).map(lambda pair: Range("size", *pair)),
    some.tuples(years, years).map(lambda pair: Range("meta.year", *pair)),
)
filters = some.recursive(
    leaves,
    lambda inner: some.one_of(
        inner.map(Not),
        some.lists(inner, max_size=3).map(lambda each: All(tuple(each))),
        some.lists(inner, max_size=3).map(lambda each: Any(tuple(each))),
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def collections(tmp_path_factory: pytest.TempPathFactory) -> tuple[Collection, Collection, Collection]:
    """In memory; beyond it without indexes of lookups; beyond it with them."""
    made = [filled(tmp_path_factory.mktemp("memory"), 1), filled(tmp_path_factory.mktemp("bare"), 0)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_LOOKUPS_FROM", 1)
        made.append(filled(tmp_path_factory.mktemp("indexed"), 0))
    return made[0], made[1], made[2]


def filled(folder: Path, memory: float) -> Collection:
    schema = Schema(stored=("text",), keywords=("tags", "doc_ids"), numbers=("size",))
    collection = LanceDB(memory_gib=memory).open(folder).create("some", schema)
    collection.upsert(pa.RecordBatch.from_pydict(COLUMNS))
    collection.finish()
    return collection


@settings(max_examples=examples(40))
@given(where=filters)
def test_the_same_records_pass(collections: tuple[Collection, Collection, Collection], where: Filter) -> None:
    memory, *beyond = collections
    [expected] = memory.search([FilterQuery(where, RECORDS)])
    for one in beyond:
        assert one.search([FilterQuery(where, RECORDS)])[0].ids == expected.ids
        scanned = [id for batch in one.scan((), where) for id in batch.column("id").to_pylist()]
        assert sorted(scanned) == expected.ids


@pytest.mark.parametrize(
    ("where", "passing"),
    [
        (Not(Terms("meta.year", ("1991",))), [id for id in IDS if id != "r01"]),
        (Not(Any((Terms("tags", ("t1",)), Range("meta.year", 1990, 2020)))), ["r00", "r10", "r15", "r20"]),
        (Not(All((Ids(("r01", "r02")), Range("size", 2, 6)))), [id for id in IDS if id != "r02"]),
        (Not(Not(Ids(("r03", "missing")))), ["r03"]),
        (Not(Ids(())), IDS),
    ],
)
def test_a_negation_passes_what_lacks_the_field(
    collections: tuple[Collection, Collection, Collection], where: Filter, passing: list[str]
) -> None:
    for one in collections:
        assert one.search([FilterQuery(where, RECORDS)])[0].ids == passing
