"""What every registered store must do, by value: filters, and the fields that they are about."""

import math

import numpy as np
import pyarrow as pa
import pytest
from made_records import TEXT_ONLY, filled, passing, pinned, text_records

from ragindex.errors import StoreError, UsageError
from ragindex.filters import All, Any, Filter, Ids, Not, Overlaps, Range, Terms, meta
from ragindex.interfaces import Schema, Store, TextQuery, VectorQuery
from ragindex.retrieval.hits import build_filter_fields

FILTERS: list[tuple[Filter, list[str]]] = [
    (Ids(("e", "a", "nobody")), ["a", "e"]),
    (Ids(()), []),
    (Terms("tags", ("water",)), ["a", "e"]),
    (Terms("tags", ("dry", "water")), ["a", "c", "e"]),
    (Terms("tags", ("o'clock",)), []),
    (Terms("title", ("Cities", "Deserts")), ["b", "c"]),
    (Terms("nothing", ("x",)), []),
    (Not(Terms("tags", ("europe",))), ["c", "d", "e"]),
    (All((Terms("tags", ("water",)), Terms("tags", ("africa",)))), ["e"]),
    (Any((Terms("tags", ("dry",)), Ids(("b",)))), ["b", "c"]),
    (All(()), ["a", "b", "c", "d", "e"]),
    (Any(()), []),
    (Not(All((Not(Ids(("a",))), Not(Ids(("b",)))))), ["a", "b"]),
    (Range("size", 2, 4), ["b", "c", "d"]),
    (Range("size", low=4), ["d", "e"]),
    (Range("tags", "d", "e"), ["c"]),  # of keywords, one element is enough
    (Not(Range("tags", "d", "e")), ["a", "b", "d", "e"]),
    (Range("tags"), ["a", "b", "c", "e"]),
    (meta("page", 12), ["a"]),
    (meta("page", "x", 7.0), ["b", "d"]),
    (Not(meta("page", 12)), ["b", "c", "d", "e"]),
    (Range("meta.page", 5, 12), ["a", "b"]),
    (Range("meta.day of issue", "2020-01-01", "2020-12-31"), ["a"]),
    (Range("meta.day of issue", low="2020-06-01"), ["c"]),
    (Range("meta.page", low=math.nextafter(7, math.inf)), ["a"]),  # above 7: the ends are included
    (Range("size", high=math.nextafter(2, -math.inf)), ["a"]),
    (Range("size", math.nextafter(0, math.inf), 1), ["a"]),  # 5e-324
]


def test_filters(store: Store) -> None:
    collection = filled(store)
    for where, expected in FILTERS:
        assert passing(collection, where) == expected, where
        scanned = [id for batch in collection.scan(("title",), where) for id in batch.column("id").to_pylist()]
        assert sorted(scanned) == expected, where
        near = collection.search([VectorQuery(np.array([1, 0, 0], np.float32), 5, (), where)])[0].ids
        assert near == [id for id in ("a", "b", "c", "e") if id in expected], where
        matched = collection.search([TextQuery("capital vienna sand", 5, (), where)])[0].ids
        assert set(matched) == {"a", "b", "c", "e"} & set(expected), where


def test_a_record_of_several_documents_passes_when_all_of_them_do(store: Store) -> None:
    collection = store.create("summaries", TEXT_ONLY)
    pages = pa.array([["1", "1"], ["1", "2"], ["2"]], pa.list_(pa.string()))
    batch = text_records({"one": "x", "both": "x", "two": "x"}).append_column("meta.page", pages)
    collection.upsert(batch)
    reader = pinned(store, collection, "summaries")
    assert passing(reader, meta("page", 1)) == ["one"]
    assert passing(reader, meta("page", 1, 2)) == ["both", "one", "two"]
    assert passing(reader, Not(meta("page", 1))) == ["two"]
    assert passing(reader, Not(meta("page", 3))) == ["both", "one", "two"]
    assert passing(reader, Range("meta.page", high=1)) == ["one"]
    assert passing(reader, Not(Range("meta.page", 2))) == ["one"]
    assert passing(reader, Not(Range("meta.page", 1.5, 1.6))) == ["one", "two"]  # the pages of "both" lie on both sides
    assert passing(reader, Not(Not(meta("page", 1)))) == ["one"]
    assert passing(reader, Any((meta("page", 1), meta("page", 2)))) == ["one", "two"]
    assert passing(reader, Not(All((meta("page", 1), Ids(("one", "both")))))) == ["two"]
    assert passing(reader, Overlaps("meta.page", ("1",))) == ["both", "one"]
    assert passing(reader, Not(Overlaps("meta.page", ("1",)))) == ["two"]


@pytest.mark.parametrize("field", ["doc_ids", "passage_ids"])
def test_a_record_passes_by_its_documents_when_all_of_them_are_named(field: str, store: Store) -> None:
    collection = store.create("summaries", Schema(stored=("text",), keywords=(field, "tags")))
    doc_ids = {"one": ["a"], "both": ["a", "b"], "two": ["b", "b"], "none": []}
    lists = [pa.array(list(doc_ids.values()), pa.list_(pa.string()))] * 2
    texts = pa.array(["x"] * len(doc_ids))
    collection.upsert(
        pa.RecordBatch.from_arrays([pa.array(doc_ids), texts, *lists], names=["id", "text", field, "tags"])
    )
    reader = pinned(store, collection, "summaries")
    assert passing(reader, Terms(field, ("a", "nobody"))) == ["one"]
    assert passing(reader, Terms(field, ("a", "b"))) == ["both", "one", "two"]
    assert passing(reader, All((Terms("tags", ("a",)), Terms(field, ("a",))))) == ["one"]
    assert passing(reader, Not(Terms(field, ("a",)))) == ["none", "two"]
    assert passing(reader, Not(Terms(field, ("a", "b")))) == ["none"]
    assert passing(reader, Range(field, "a", "a")) == ["one"]
    assert passing(reader, Not(Range(field, "b"))) == ["none", "one"]
    assert passing(reader, Overlaps(field, ("a",))) == ["both", "one"]
    assert passing(reader, Not(Overlaps(field, ("a",)))) == ["none", "two"]
    assert passing(reader, Terms("tags", ("a",))) == ["both", "one"]
    assert passing(reader, Not(Terms("tags", ("a",)))) == ["none", "two"]


def test_ranges_hold_numbers_or_strings_and_compare_alike_everywhere(store: Store) -> None:
    collection = store.create("values", Schema(stored=("text",), numbers=("size",)))
    terms = ["1_000", " 12 ", "١٢", "nan", "inf", "12", "-1e3", ".5", ""]
    sizes = [float("nan"), float("inf"), 1.0, 2.0, None, 3.0, 4.0, 5.0, 6.0]
    ids = [f"{n}" for n in range(len(terms))]
    batch = pa.RecordBatch.from_pydict({"id": ids, "text": terms, "size": pa.array(sizes, pa.float64())})
    collection.upsert(batch.append_column("meta.x", pa.array([[term] for term in terms], pa.list_(pa.string()))))
    reader = pinned(store, collection, "values")
    assert passing(reader, Range("meta.x", low=-1e9)) == ["5", "6", "7"]
    assert passing(reader, Range("meta.x", high=0)) == ["6"]
    assert passing(reader, Range("text", 0, 100)) == ["5", "7"]
    assert passing(reader, Range("size", low=0)) == ["2", "3", "5", "6", "7", "8"]
    assert passing(reader, Range("size", high=2)) == ["2", "3"]
    assert passing(reader, Range("text", "1", "2")) == ["0", "5"]
    with pytest.raises((UsageError, StoreError), match="the ends of its Range must be numbers"):
        passing(reader, Range("size", low="a"))
    for low, high in ((1, "2"), (True, None), (float("nan"), None), (None, float("inf")), (10**400, None)):
        with pytest.raises(UsageError, match="must both be finite numbers or both be strings"):
            Range("size", low, high)


def test_an_empty_value_is_a_value_and_an_absent_one_is_none(store: Store) -> None:
    collection = store.create("texts", TEXT_ONLY)
    values = pa.array([[""], None, ["", None], ["a"]], pa.list_(pa.string()))
    collection.upsert(text_records(dict.fromkeys("abcd", "x")).append_column("meta.k", values))
    reader = pinned(store, collection, "texts")
    assert passing(reader, meta("k", "")) == ["a"]
    assert passing(reader, meta("k", "", "a")) == ["a", "d"]
    assert passing(reader, Not(meta("k", ""))) == ["b", "d"]
    assert passing(reader, Not(meta("k", "a"))) == ["a", "b", "c"]
    assert passing(reader, Not(Range("meta.k", "a"))) == ["a", "b", "c"]


def test_fields_that_are_not_there(store: Store) -> None:
    collection = filled(store)
    vector = np.array([1, 0, 0], np.float32)
    assert collection.search([VectorQuery(vector, 1, ("meta.no",))])[0].records.column("meta.no").to_pylist() == [None]
    assert collection.get(["a"], ("meta.no",)).column("meta.no").to_pylist() == [None]
    with pytest.raises((UsageError, StoreError), match="no"):
        collection.search([VectorQuery(vector, 1, ("no",))])
    with pytest.raises((UsageError, StoreError), match="no"):
        list(collection.scan(("no",)))


def test_a_filter_on_a_key_that_is_a_mapping_somewhere_is_refused(store: Store) -> None:
    collection = store.create("texts", TEXT_ONLY)
    fields = build_filter_fields([[{"owner": {"team": "a"}, "year": [1, [2]]}], [{"owner": "b", "year": 3}], [{}]])
    batch = text_records(dict.fromkeys("abc", "x"))
    for name, column in fields.items():
        batch = batch.append_column(name, column)
    collection.upsert(batch)
    reader = pinned(store, collection, "texts")
    for where in (meta("owner", "b"), Not(meta("owner", "b")), Range("meta.owner", "a"), Not(Range("meta.owner", "a"))):
        with pytest.raises(UsageError, match="metadata key 'owner' of some documents holds a mapping"):
            passing(reader, where)
        with pytest.raises(UsageError, match="metadata key 'owner'"):
            list(reader.scan(("text",), where))
    assert passing(reader, Not(meta("year", 3))) == ["a", "c"]


def test_a_writer_that_has_filtered_sees_the_first_mapping(store: Store) -> None:
    collection = store.create("texts", TEXT_ONLY)
    for id, value in (("a", "x"), ("b", {"team": "x"})):
        (column,) = build_filter_fields([[{"owner": value}]]).values()
        collection.upsert(text_records({id: "x"}).append_column("meta.owner", column))
        if id == "a":
            assert [batch.column("id").to_pylist() for batch in collection.scan(("text",), meta("owner", "x"))] == [
                ["a"]
            ]
    collection.finish()
    with pytest.raises(UsageError, match="metadata key 'owner'"):
        list(collection.scan(("text",), meta("owner", "x")))
