"""What every registered store must do, by value. A new store adds a way to open it to STORES and passes unchanged."""

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from elasticsearch_node.node import store as elasticsearch_store

from ragindex import registry
from ragindex.errors import StoreError, UsageError, WriterBusyError
from ragindex.filters import All, Any, Filter, Ids, Not, Range, Terms, meta
from ragindex.interfaces import Collection, Match, Nearest, Request, Schema, Store, Where
from ragindex.stores.together import together

SCHEMA = Schema(stored=("title", "text"), keywords=("tags",), numbers=("size",), text=("title", "text"), dimensions=3)
TEXT_ONLY = Schema(stored=("text",), text=("text",))

STORES: dict[str, tuple[str, bool]] = {  # how it is written, and whether its searches are exact
    "lancedb, from memory": ("lancedb", True),
    "lancedb, float16": ("lancedb(float16=true)", True),
    "lancedb, memory-mapped": ("lancedb(mmap=true)", True),
    "lancedb, by its indexes": ("lancedb(memory_gib=0)", False),
    "elasticsearch": ("elasticsearch", True),
}


def test_every_registered_store_is_here() -> None:
    assert {written.partition("(")[0].partition(":")[0] for written, _ in STORES.values()} >= set(
        registry.names("stores")
    )


@pytest.fixture(params=STORES)
def written(request: pytest.FixtureRequest) -> Iterator[str]:
    text = STORES[request.param][0]
    with elasticsearch_store() if text == "elasticsearch" else nullcontext(text) as usable:
        yield usable


@pytest.fixture
def store(written: str, tmp_path: Path) -> Store:
    return registry.store(written).open(tmp_path / "store")


ROWS = [
    {"id": "a", "title": "Rivers", "text": "The Danube flows by Vienna.", "tags": ["water", "europe"], "size": 1.0},
    {"id": "b", "title": "Cities", "text": "Vienna is the capital of Austria.", "tags": ["europe"], "size": 2.0},
    {"id": "c", "title": "Deserts", "text": "Sand and wind.", "tags": ["africa", "dry"], "size": 3.0},
    {"id": "d", "title": "", "text": "", "tags": [], "size": 4.0},
    {"id": "e", "title": "Rivers", "text": "Cairo is a capital on the Nile", "tags": ["water", "africa"], "size": 5.0},
]  # fmt: skip
VECTORS = {"a": [1, 0, 0], "b": [0.6, 0.8, 0], "c": [0, 0, 2], "d": [0, 0, 0], "e": [-1, 0, 0]}
META = {"a": (["12"], ["2020-01-31"]), "b": (["7"], None), "c": (None, ["2021-06-01"]), "d": (["x"], None)}


def records(*ids: str) -> pa.RecordBatch:
    rows = [row for row in ROWS if row["id"] in ids or not ids]
    columns = {name: [row[name] for row in rows] for name in ("id", "title", "text", "tags", "size")}
    return pa.RecordBatch.from_pydict(
        {
            **columns,
            "vector": pa.array([VECTORS[id] for id in columns["id"]], pa.list_(pa.float32(), 3)),
            "meta.page": pa.array([META.get(id, (None, None))[0] for id in columns["id"]], pa.list_(pa.string())),
            "meta.day of issue": pa.array(
                [META.get(id, (None, None))[1] for id in columns["id"]], pa.list_(pa.string())
            ),
        }
    )


def text_records(texts: dict[str, str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(texts), "text": list(texts.values())})


def filled(store: Store) -> Collection:
    collection = store.create("things", SCHEMA)
    collection.upsert(records())
    return pinned(store, collection)


def pinned(store: Store, collection: Collection, name: str = "things") -> Collection:
    collection.finish()
    return store.open(name, collection.version)


def passing(collection: Collection, where: Filter | None) -> list[str]:
    return collection.search([Where(where, 100)])[0].ids


def test_nearest_gives_the_cosines_best_first(store: Store) -> None:
    found = filled(store).search([Nearest(np.array([2, 0, 0], np.float32), 5, ("title",))])[0]
    assert found.ids == ["a", "b", "c", "e"]  # d has a zero vector: it is near nothing
    precision = 1e-3 if "float16=True" in str(store) else 1e-6
    assert found.scores.tolist() == pytest.approx([1, 0.6, 0, -1], abs=precision)
    assert found.records.column("title").to_pylist() == ["Rivers", "Cities", "Deserts", "Rivers"]


def test_a_zero_vector_finds_nothing_and_a_wrong_one_is_refused(store: Store) -> None:
    collection = filled(store)
    assert collection.search([Nearest(np.zeros(3, np.float32), 5)])[0].ids == []
    with pytest.raises((UsageError, StoreError)):
        collection.search([Nearest(np.ones(4, np.float32), 5)])


def test_match_scores_are_lucenes_bm25(store: Store) -> None:
    """Two of the four records with words hold "vienna"; with their titles each has 4 tokens, of 15 in all."""
    collection = filled(store)
    found = collection.search([Match("VIENNA", 5, ("text",))])[0]
    assert sorted(found.ids) == ["a", "b"]
    expected = np.log(1 + (4 - 2 + 0.5) / (2 + 0.5)) / (1 + 1.2 * (1 - 0.75 + 0.75 * 4 / (15 / 4)))
    assert found.scores.tolist() == pytest.approx([expected] * 2, rel=1e-4)


def test_many_requests_are_answered_in_order(store: Store) -> None:
    vector = np.array([1, 0, 0], np.float32)
    found = filled(store).search(
        [Match("sand", 3), Nearest(vector, 1), Where(None, 2), Match("capital", 3), Nearest(-vector, 1)]
    )
    assert [sorted(one.ids) for one in found] == [["c"], ["a"], ["a", "b"], ["b", "e"], ["e"]]


def test_several_collections_searched_together_answer_as_alone(store: Store) -> None:
    """The same word is counted in each collection by itself."""
    texts = store.create("texts", TEXT_ONLY)
    texts.upsert(text_records({"a": "vienna", "z": "sand sand vienna", "y": "sand"}))
    first, second = filled(store), pinned(store, texts, "texts")
    vector = np.array([1, 0, 0], np.float32)
    asked: list[tuple[Collection, list[Request]]] = [
        (first, [Match("vienna sand", 3, ("title",)), Nearest(vector, 2)]),
        (second, [Match("vienna sand", 3, ("text",)), Where(None, 2)]),
        (second, []),
        (first, [Match("vienna", 1, (), Ids(("b",)))]),
    ]
    found = together(asked)
    alone = [collection.search(requests) for collection, requests in asked]
    assert [len(each) for each in found] == [2, 2, 0, 1]
    for one, expected in zip(chain(*found), chain(*alone), strict=True):
        assert one.ids == expected.ids
        assert one.scores.tolist() == pytest.approx(expected.scores.tolist(), abs=1e-6)
        assert one.records.to_pydict() == expected.records.to_pydict()
    assert sorted(found[1][0].ids) == ["a", "y", "z"]
    assert together([]) == []


def test_words_unknown_and_words_left_out_find_nothing(store: Store) -> None:
    assert [one.ids for one in filled(store).search([Match("xylophone", 3), Match("", 3), Match("\0 \t", 3)])] == [
        [],
        [],
        [],
    ]


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
    (meta("page", 12), ["a"]),
    (meta("page", "x", 7.0), ["b", "d"]),
    (Not(meta("page", 12)), ["b", "c", "d", "e"]),
    (Range("meta.page", 5, 12), ["a", "b"]),
    (Range("meta.day of issue", "2020-01-01", "2020-12-31"), ["a"]),
    (Range("meta.day of issue", low="2020-06-01"), ["c"]),
]


@pytest.mark.parametrize(("where", "expected"), FILTERS, ids=[str(number) for number in range(len(FILTERS))])
def test_filters(where: Filter, expected: list[str], store: Store) -> None:
    collection = filled(store)
    assert passing(collection, where) == expected
    scanned = [id for batch in collection.scan(("title",), where) for id in batch.column("id").to_pylist()]
    assert sorted(scanned) == expected
    near = collection.search([Nearest(np.array([1, 0, 0], np.float32), 5, (), where)])[0].ids
    assert near == [id for id in ("a", "b", "c", "e") if id in expected]
    matched = collection.search([Match("capital vienna sand", 5, (), where)])[0].ids
    assert set(matched) == {"a", "b", "c", "e"} & set(expected)


def test_a_record_of_several_documents_passes_when_all_of_them_do(store: Store) -> None:
    collection = store.create("summaries", TEXT_ONLY)
    pages = pa.array([["1", "1"], ["1", "2"], ["2"]], pa.list_(pa.string()))
    batch = text_records({"one": "x", "both": "x", "two": "x"}).append_column("meta.page", pages)
    collection.upsert(batch)
    reader = pinned(store, collection, "summaries")
    assert passing(reader, meta("page", 1)) == ["one"]
    assert passing(reader, meta("page", 1, 2)) == ["both", "one", "two"]
    assert passing(reader, Not(meta("page", 1))) == ["both", "two"]


def test_fields_come_back_as_they_went_in(store: Store) -> None:
    collection = filled(store)
    got = collection.get(["e", "nobody", "a"], ("text", "tags", "size", "meta.page", "vector")).to_pylist()
    assert [row["id"] for row in got] == ["e", "a"]
    assert got[1]["tags"] == ["water", "europe"]
    assert got[1]["size"] == 1.0
    assert got[1]["meta.page"] == ["12"]
    assert got[0]["meta.page"] is None
    assert got[0]["vector"] == [-1, 0, 0]
    assert set(collection.fields()) == {"title", "text", "tags", "size", "meta.page", "meta.day of issue"}


def test_an_upsert_replaces_and_a_delete_forgets(store: Store) -> None:
    collection = store.create("texts", TEXT_ONLY)
    collection.upsert(text_records({"a": "old words", "b": "other words"}))
    collection.upsert(text_records({"a": "new sentence", "c": "third"}))
    collection.delete(["b", "nobody"])
    reader = pinned(store, collection, "texts")
    assert reader.count() == 2
    assert [one.ids for one in reader.search([Match("words", 5), Match("sentence", 5), Match("third", 5)])] == [
        [],
        ["a"],
        ["c"],
    ]


def test_statistics_forget_what_was_deleted(written: str, tmp_path: Path) -> None:
    texts = {f"d{n:03d}": f"common word{n % 7} number{n}" for n in range(60)}
    disturbed = registry.store(written).open(tmp_path / "disturbed")
    collection = disturbed.create("texts", TEXT_ONLY)
    collection.upsert(text_records(texts))
    collection.upsert(text_records({f"x{n}": "common common word3 extra" for n in range(40)}))
    collection.finish()
    collection.delete([f"x{n}" for n in range(40)])
    fresh = registry.store(written).open(tmp_path / "fresh")
    undisturbed = fresh.create("texts", TEXT_ONLY)
    undisturbed.upsert(text_records(texts))
    asked = [Match("common word3 number10", 60)]
    first = pinned(disturbed, collection, "texts").search(asked)[0]
    second = pinned(fresh, undisturbed, "texts").search(asked)[0]
    assert first.ids == second.ids
    assert first.scores.tolist() == pytest.approx(second.scores.tolist(), abs=1e-5)


def test_equal_scores_come_by_id_among_ten_thousand_identical_records(store: Store) -> None:
    ids = [f"{(n * 7919) % 10_000:05d}" for n in range(10_000)]
    collection = store.create("same", Schema(stored=("text",), text=("text",), dimensions=3))
    vectors = pa.array([[0.1, 0.2, 0.3]] * 10_000, pa.list_(pa.float32(), 3))
    collection.upsert(pa.RecordBatch.from_pydict({"id": ids, "text": ["same words"] * 10_000, "vector": vectors}))
    reader = pinned(store, collection, "same")
    best = reader.search([Match("same", 5), Where(None, 5), Nearest(np.array([3, 2, 1], np.float32), 5)])
    expected = ["00000", "00001", "00002", "00003", "00004"]
    if "memory_gib=0.0" in str(store):  # an engine's own index cuts ties where it likes
        assert all(len(one.ids) == 5 for one in best)
    else:
        assert [one.ids for one in best] == [expected] * 3
    assert reader.count() == 10_000


def test_ten_thousand_records_agree_with_arithmetic(store: Store) -> None:
    rng = np.random.default_rng(5)
    vectors = rng.standard_normal((10_000, 8)).astype(np.float32)
    collection = store.create("many", Schema(dimensions=8))
    ids = [f"{n:05d}" for n in range(10_000)]
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8)
    collection.upsert(pa.RecordBatch.from_arrays([pa.array(ids), column], names=["id", "vector"]))
    query = rng.standard_normal(8).astype(np.float32)
    cosines = (vectors @ query) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
    expected = [ids[row] for row in np.argsort(-cosines)[:10]]
    found = pinned(store, collection, "many").search([Nearest(query, 10)])[0]
    overlap = len(set(found.ids) & set(expected))
    assert overlap >= 8 if "memory_gib=0.0" in str(store) or "float16=True" in str(store) else found.ids == expected


def test_what_was_written_is_there_after_reopening(written: str, tmp_path: Path) -> None:
    collection = registry.store(written).open(tmp_path).create("things", SCHEMA)
    collection.upsert(records())
    collection.finish()
    again = registry.store(written).open(tmp_path)
    assert again.names() == ["things"]
    assert again.version("things") == collection.version
    assert passing(again.open("things", collection.version), Terms("tags", ("dry",))) == ["c"]


def test_a_reader_stays_at_its_version(store: Store) -> None:
    collection = store.create("texts", TEXT_ONLY)
    collection.upsert(text_records({"a": "first"}))
    reader = pinned(store, collection, "texts")
    collection.upsert(text_records({"b": "second"}))
    collection.delete(["a"])
    assert passing(reader, None) == ["a"]
    assert passing(pinned(store, collection, "texts"), None) == ["b"]
    assert [row["text"] for row in reader.get(["a", "b"], ("text",)).to_pylist()] == ["first"]


def test_only_one_writer(written: str, tmp_path: Path) -> None:
    first, second = (registry.store(written).open(tmp_path) for _ in range(2))
    held = pytest.raises(WriterBusyError, match="the first command")
    with first.lease("the first command"), held, second.lease("the second"):
        pass
    with second.lease("the second"):
        pass


def test_what_does_not_fit_the_schema_is_refused(store: Store) -> None:
    collection = store.create("texts", TEXT_ONLY)
    with pytest.raises(UsageError, match="missing \\['text'\\]"):
        collection.upsert(pa.RecordBatch.from_pydict({"id": ["a"]}))
    with pytest.raises(UsageError, match="unknown \\['more'\\]"):
        collection.upsert(pa.RecordBatch.from_pydict({"id": ["a"], "text": ["b"], "more": ["c"]}))
    with pytest.raises(StoreError, match="was made with"):
        store.create("texts", SCHEMA)
    with pytest.raises(StoreError):
        store.open("nothing", 1)


def test_nan_vectors_are_refused(store: Store) -> None:
    collection = store.create("vectors", Schema(dimensions=2))
    vectors = pa.array([[float("nan"), 1.0]], pa.list_(pa.float32(), 2))
    with pytest.raises(UsageError, match="finite"):
        collection.upsert(pa.RecordBatch.from_arrays([pa.array(["a"]), vectors], names=["id", "vector"]))


def test_dropping(store: Store) -> None:
    store.create("texts", TEXT_ONLY)
    store.drop("texts")
    store.drop("texts")
    assert store.names() == []
    assert store.version("texts") is None


def test_an_empty_collection_answers(store: Store) -> None:
    reader = pinned(store, store.create("things", SCHEMA))
    vector = np.array([1, 0, 0], np.float32)
    assert [one.ids for one in reader.search([Match("x", 3), Nearest(vector, 3), Where(None, 3)])] == [[], [], []]
    assert reader.get(["a"], ("text",)).num_rows == 0
    assert reader.count() == 0


def test_ranges_hold_numbers_or_strings_and_compare_alike_everywhere(store: Store) -> None:
    collection = store.create("values", Schema(stored=("text",), numbers=("size",)))
    terms = ["1_000", " 12 ", "١٢", "nan", "inf", "12", "-1e3", ".5", ""]
    sizes = [float("nan"), float("inf"), 1.0, 2.0, None, 3.0, 4.0, 5.0, 6.0]
    ids = [f"{n}" for n in range(len(terms))]
    batch = pa.RecordBatch.from_pydict({"id": ids, "text": terms, "size": pa.array(sizes, pa.float64())})
    collection.upsert(batch.append_column("meta.x", pa.array([[one] for one in terms], pa.list_(pa.string()))))
    reader = pinned(store, collection, "values")
    assert passing(reader, Range("meta.x", low=-1e9)) == ["5", "6", "7"]
    assert passing(reader, Range("meta.x", high=0)) == ["6"]
    assert passing(reader, Range("text", 0, 100)) == ["5", "7"]
    assert passing(reader, Range("size", low=0)) == ["2", "3", "5", "6", "7", "8"]
    assert passing(reader, Range("size", high=2)) == ["2", "3"]
    assert passing(reader, Range("text", "1", "2")) == ["0", "5"]
    with pytest.raises((UsageError, StoreError), match="must have numbers"):
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


def test_fields_that_are_not_there(store: Store) -> None:
    collection = filled(store)
    vector = np.array([1, 0, 0], np.float32)
    assert collection.search([Nearest(vector, 1, ("meta.no",))])[0].records.column("meta.no").to_pylist() == [None]
    assert collection.get(["a"], ("meta.no",)).column("meta.no").to_pylist() == [None]
    with pytest.raises((UsageError, StoreError), match="no"):
        collection.search([Nearest(vector, 1, ("no",))])
    with pytest.raises((UsageError, StoreError), match="no"):
        list(collection.scan(("no",)))


def test_one_id_once_a_batch(store: Store) -> None:
    collection = store.create("texts", TEXT_ONLY)
    with pytest.raises(UsageError, match="some come twice"):
        collection.upsert(pa.RecordBatch.from_pydict({"id": ["a", "a"], "text": ["b", "c"]}))
    assert collection.count() == 0


def test_a_collection_made_again_under_its_name_is_another(store: Store) -> None:
    schema, query = Schema(dimensions=2), [Nearest(np.array([1, 0], np.float32), 2)]

    def vectors(**of: list[float]) -> pa.RecordBatch:
        column = pa.array(list(of.values()), pa.list_(pa.float32(), 2))
        return pa.RecordBatch.from_arrays([pa.array(list(of)), column], names=["id", "vector"])

    first = store.create("x", schema)
    first.upsert(vectors(a=[1, 0], b=[0, 1]))
    before = pinned(store, first, "x")
    assert before.search(query)[0].ids == ["a", "b"]
    store.drop("x")
    second = store.create("x", schema)
    second.upsert(vectors(b=[1, 0], a=[0, 1]))
    assert pinned(store, second, "x").search(query)[0].ids == ["b", "a"]


def test_cleaning_leaves_the_newest(store: Store) -> None:
    collection = store.create("texts", TEXT_ONLY)
    for n in range(70):  # enough small writes for an engine to tidy up
        collection.upsert(text_records({f"{n:02d}": "word"}))
    reader = pinned(store, collection, "texts")
    store.clean("texts")
    assert store.version("texts") == reader.version
    for one in (reader, store.open("texts", reader.version)):
        assert passing(one, None) == [f"{n:02d}" for n in range(70)]


def test_a_huge_k(store: Store) -> None:
    found = filled(store).search([Match("vienna", 10**12), Nearest(np.array([1, 0, 0], np.float32), 10**12)])
    assert [len(one.ids) for one in found] == [2, 4]


def test_vectors_that_are_not_finite_are_no_query(store: Store) -> None:
    with pytest.raises(UsageError, match="finite"):
        filled(store).search([Nearest(np.array([np.nan, 0, 0], np.float32), 3)])
