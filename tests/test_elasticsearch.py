"""The engine on a real server: what the store contract leaves open."""

from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from elasticsearch_node.node import store as elasticsearch_store

from ragindex import registry
from ragindex.errors import StoreError, UsageError
from ragindex.filters import Ids, Not, Range, Terms, meta
from ragindex.interfaces import Collection, Match, Nearest, Schema, Store, Where
from ragindex.parts.passages import Passages
from ragindex.parts.vectors import Vectors
from ragindex.stores import elastic_bulk, elastic_collection, elastic_search
from ragindex.stores.together import together
from ragindex.testing import ADDED, DOCUMENTS, ask, assert_same
from ragindex.types import Query
from ragindex.workspace import Workspace

TEXT = Schema(stored=("text",), text=("text",))
METHODS = ("bm25", "dense", "hybrid", "composed")


@pytest.fixture
def written() -> Iterator[str]:
    with elasticsearch_store() as usable:
        yield usable


@pytest.fixture
def store(written: str, tmp_path: Path) -> Any:
    return registry.store(written).open(tmp_path / "work space" / "store")


def texts(records: dict[str, str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(records), "text": list(records.values())})


def finished(store: Store, collection: Collection, name: str) -> Collection:
    collection.finish()
    return store.open(name, collection.version)


def held_in_memory(batch: pa.RecordBatch, schema: Schema, folder: Path) -> Collection:
    """The same records in the engine whose searches are exact, from memory."""
    store = registry.store("lancedb").open(folder)
    collection = store.create("twin", schema)
    collection.upsert(batch)
    return finished(store, collection, "twin")


def indices(store: Any) -> list[str]:
    return sorted(store.server.client.indices.get(index=f"{store.layout.base}-*", filter_path="*.settings.index.uuid"))


class Trips:
    """How often the client asks the server."""

    def __init__(self, store: Any, patch: pytest.MonkeyPatch) -> None:
        self.paths: list[str] = []
        transport = type(store.server.client.transport)
        inner = transport.perform_request

        def counted(one: Any, method: str, target: str, **rest: Any) -> Any:
            self.paths.append(target.partition("?")[0])
            return inner(one, method, target, **rest)

        patch.setattr(transport, "perform_request", counted)


# ---------------------------------------------------------------- the same answers as from memory


@pytest.mark.parametrize("shards", [1, 3])
def test_bm25_of_long_texts_is_that_of_memory(shards: int, tmp_path: Path) -> None:
    """Lucene's lengths are coarse above 40 tokens; ours are not, nor do they depend on shards."""
    rng = np.random.default_rng(3)
    words = [f"word{n}" for n in range(60)]
    share = np.arange(1, 61) ** -1.0 / (np.arange(1, 61) ** -1.0).sum()
    made = {f"{n:04d}": " ".join(rng.choice(words, size=rng.integers(1, 300), p=share)) for n in range(600)}
    asked = [Match(" ".join(rng.choice(words, 5)), k) for k in (1, 10, 50, 700) for _ in range(10)]
    with elasticsearch_store(shards=shards) as written:
        store = registry.store(written).open(tmp_path / "elastic")
        collection = store.create("long", TEXT)
        collection.upsert(texts(made))
        found = finished(store, collection, "long").search(asked)
    expected = held_in_memory(texts(made), TEXT, tmp_path / "lance").search(asked)
    assert [one.ids for one in found] == [one.ids for one in expected]
    for one, twin in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.scores, twin.scores, atol=1e-5)


def test_a_candidate_that_the_engine_undervalues_is_found(store: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """Texts of 152 to 167 tokens have one length for Lucene; the shortest have late ids, beyond the first page."""
    monkeypatch.setattr(elastic_search, "_SPARE", 0)
    made = {f"{n:03d}": "rare " + "common " * (165 - n // 10) for n in range(70)}
    made |= {f"z{n:03d}": "common " * 160 for n in range(200)}
    collection = store.create("near", TEXT)
    collection.upsert(texts(made))
    asked = [Match("rare", 3)]
    trips = Trips(store, monkeypatch)
    found = finished(store, collection, "near").search(asked)[0]
    assert found.ids == ["060", "061", "062"] == held_in_memory(texts(made), TEXT, tmp_path).search(asked)[0].ids
    assert trips.paths.count("/_msearch") > 1


def test_a_question_of_more_tokens_than_a_query_may_have(store: Any, tmp_path: Path) -> None:
    made = {f"{n:03d}": f"word{n} word{n + 1} shared" for n in range(300)}
    collection = store.create("texts", TEXT)
    collection.upsert(texts(made))
    asked = [Match(" ".join(f"word{n}" for n in range(100, 2000)), 5)]
    found = finished(store, collection, "texts").search(asked)[0]
    assert found.ids == held_in_memory(texts(made), TEXT, tmp_path).search(asked)[0].ids


def test_answers_longer_than_the_servers_window(store: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(elastic_search, "WINDOW", 7)
    rng = np.random.default_rng(1)
    schema = Schema(stored=("text",), text=("text",), dimensions=4)
    vectors = rng.standard_normal((40, 4)).astype(np.float32)
    vectors[5] = 0
    batch = texts({f"{n:02d}": f"word word{n % 3}" for n in range(40)}).append_column(
        "vector", pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 4)
    )
    collection = store.create("many", schema)
    collection.upsert(batch)
    reader, twin = finished(store, collection, "many"), held_in_memory(batch, schema, tmp_path)
    asked = [
        Where(None, 33),
        Where(Not(Ids(("03",))), 100),
        Match("word word1", 30, ("text",)),
        Nearest(vectors[0], 30, ("text",)),
        Nearest(vectors[0], 39, (), Ids(tuple(f"{n:02d}" for n in range(0, 40, 2)))),
    ]
    for one, expected in zip(reader.search(asked), twin.search(asked), strict=True):
        assert one.ids == expected.ids
        np.testing.assert_allclose(one.scores, expected.scores, atol=1e-6)
        assert one.records.to_pydict() == expected.records.to_pydict()


def test_many_vectors_go_through_a_graph_and_are_scored_whole(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    vectors = rng.standard_normal((1500, 16)).astype(np.float32)
    ids = [f"{n:04d}" for n in range(1500)]
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 16)
    batch = pa.RecordBatch.from_arrays([pa.array(ids), column], names=["id", "vector"])
    schema = Schema(dimensions=16)
    asked = [Nearest(vector, 10) for vector in rng.standard_normal((20, 16)).astype(np.float32)]
    few = [Nearest(one.vector, 10, (), Ids(tuple(ids[::7]))) for one in asked]
    with elasticsearch_store(exact_up_to=1000) as written:
        store = registry.store(written).open(tmp_path / "elastic")
        collection = store.create("many", schema)
        collection.upsert(batch.slice(0, 900))
        assert finished(store, collection, "many").describe()["search"].startswith("exact")
        collection.upsert(batch.slice(900))
        reader = finished(store, collection, "many")
        assert reader.describe()["search"].startswith("approximate")
        found, found_few = reader.search(asked), reader.search(few)
    twin = held_in_memory(batch, schema, tmp_path / "lance")
    assert [one.ids for one in found_few] == [one.ids for one in twin.search(few)]
    expected = twin.search(asked)
    overlap = [len(set(one.ids) & set(other.ids)) / 10 for one, other in zip(found, expected, strict=True)]
    assert np.mean(overlap) >= 0.98
    for one, other in zip(found, expected, strict=True):
        whole = dict(zip(other.ids, other.scores, strict=True))
        assert [score for id, score in zip(one.ids, one.scores, strict=True) if id in whole] == pytest.approx(
            [whole[id] for id in one.ids if id in whole], abs=1e-6
        )


def test_an_engines_own_analyser(tmp_path: Path) -> None:
    with elasticsearch_store(analyser="standard") as written:
        store = registry.store(written).open(tmp_path)
        collection = store.create("texts", TEXT)
        collection.upsert(texts({"a": "The rivers", "b": "A river"}))
        reader = finished(store, collection, "texts")
        assert [one.ids for one in reader.search([Match("river", 5), Match("THE", 5)])] == [["b"], ["a"]]
        other = registry.store(written.replace("standard", "simple")).open(tmp_path)
        with pytest.raises(StoreError, match="was made with the analyser standard"):
            other.create("texts", TEXT)


def test_the_methods_answer_as_over_lancedb(written: str, tmp_path: Path) -> None:
    """Also after changes, while a reader that was opened before stays where it was."""
    schemes = [registry.scheme(name) for name in METHODS]
    spaces = [
        Workspace.open(tmp_path / name.partition("(")[0], store=name, cutting=None) for name in ("lancedb", written)
    ]
    before = []
    for space in spaces:
        space.add(DOCUMENTS)
        space.sync(schemes)
        before.append([scheme.open(space) for scheme in schemes])
        space.add(ADDED)
        space.remove([DOCUMENTS[3].id])
        space.sync(schemes)
    for number, (scheme, name) in enumerate(zip(schemes, METHODS, strict=True)):
        for k in (3, 30):
            for where in (None, meta("half", "second")):
                answers = [ask(scheme.open(space), k, where) for space in spaces]
                assert_same(answers[1], answers[0], f"{name} after changes")
            first = [ask(opened[number], k) for opened in before]
            assert_same(first[1], first[0], f"{name} as opened before")


def test_round_trips_of_a_question(written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = Workspace.open(tmp_path / "w", store=written, cutting=None)
    space.add(DOCUMENTS)
    trips = Trips(space.store, monkeypatch)
    queries = [Query("q", "Who climbed Mont Blanc?"), Query("r", "glass")]
    for name, asked, expected in (
        ("bm25", queries, 1),
        ("dense", queries, 1),
        ("hybrid", queries, 2),
        ("composed", queries, 2),
        ("griever", queries[:1], 10),  # of two iterations
    ):
        retriever = space.retriever(registry.scheme(name))
        trips.paths.clear()
        assert retriever.retrieve(asked, 5)[0].hits
        assert trips.paths == ["/_msearch"] * expected
    parts = [space.open_part(part) for part in (Passages(), Vectors())]
    trips.paths.clear()
    together([(part, [Where(None, 1)]) for part in parts])
    assert trips.paths == ["/_msearch"]


def test_collections_searched_together_are_one_round_trip(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    readers = []
    for name in ("one", "two"):
        collection = store.create(name, TEXT)
        collection.upsert(texts({name: "shared words"}))
        readers.append(finished(store, collection, name))
    trips = Trips(store, monkeypatch)
    found = together([(reader, [Match("words", 3), Where(None, 3)]) for reader in readers])
    assert [[one.ids for one in each] for each in found] == [[["one"], ["one"]], [["two"], ["two"]]]
    assert trips.paths == ["/_msearch"]


# ---------------------------------------------------------------- states


def test_versions_rise_with_every_write_and_a_finished_state_never_changes(store: Any) -> None:
    collection = store.create("texts", TEXT)
    seen = [collection.version]
    for change in (lambda: collection.upsert(texts({"a": "x"})), lambda: collection.delete(["a"])):
        change()
        seen.append(collection.version)
    assert seen == sorted(set(seen))
    collection.upsert(texts({"a": "first"}))
    reader = finished(store, collection, "texts")
    assert store.version("texts") == collection.version == reader.version
    with pytest.raises(StoreError, match="opened for reading"):
        reader.upsert(texts({"a": "second"}))
    from elasticsearch import AuthorizationException

    with pytest.raises(AuthorizationException, match="index write"):
        store.server.client.index(index=reader._now().index, document={})
    collection.upsert(texts({"a": "second"}))
    assert reader.get(["a"], ("text",)).column("text").to_pylist() == ["first"]
    assert collection.get(["a"], ("text",)).column("text").to_pylist() == ["second"]
    assert collection.version > reader.version


def test_a_finish_that_was_cut_short(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes were blocked, the state was not noted: what was written is there, and can be written on."""
    collection = store.create("texts", TEXT)
    collection.upsert(texts({"a": "one", "b": "two"}))
    with monkeypatch.context() as patch:
        patch.setattr(elastic_collection.elastic_indices, "noted", _killed)
        with pytest.raises(RuntimeError, match="killed"):
            collection.finish()
    again = store.create("texts", TEXT)
    again.upsert(texts({"c": "three"}))
    assert finished(store, again, "texts").count() == 3


def test_a_finish_that_was_cut_short_while_deleted_records_go(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = store.create("texts", TEXT)
    collection.upsert(texts({"a": "one", "b": "two"}))
    collection.delete(["a"])
    with monkeypatch.context() as patch:
        patch.setattr(elastic_collection.elastic_indices, "merge", _killed)
        with pytest.raises(RuntimeError, match="killed"):
            collection.finish()
    reader = finished(store, store.create("texts", TEXT), "texts")
    assert [one.ids for one in reader.search([Where(None, 5)])] == [["b"]]
    store.clean("texts")
    assert len([name for name in indices(store) if "-texts-" in name]) == 1


def _killed(*_: Any, **__: Any) -> None:
    raise RuntimeError("killed")


def test_replaced_states_are_deleted_a_day_later(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from ragindex.stores import elasticsearch as module

    collection = store.create("texts", TEXT)
    collection.upsert(texts({"a": "one"}))
    first = finished(store, collection, "texts")
    collection.upsert(texts({"b": "two"}))
    second = finished(store, collection, "texts")
    store.clean("texts")
    assert (first.count(), second.count()) == (1, 2)
    monkeypatch.setattr(module, "_KEEP", 0.0)
    store.clean("texts")
    assert second.count() == 2
    with pytest.raises(StoreError, match="at version .*, no more at"):
        store.open("texts", first.version)


def test_names_that_indices_cannot_have(store: Any) -> None:
    names = ["Über-Part.records", "über-part.records", "a" * 200, "documents"]
    for number, name in enumerate(names):
        store.create(name, TEXT).upsert(texts({str(number): "x"}))
    assert store.names() == sorted(names)
    assert [store.create(name, TEXT).get([str(n)], ()).num_rows for n, name in enumerate(names)] == [1] * 4
    assert all(index.startswith(f"{store.layout.base}-") for index in indices(store))


# ---------------------------------------------------------------- records


def test_odd_records_come_back_as_they_went_in(store: Any) -> None:
    schema = Schema(stored=("text",), keywords=("tags",), numbers=("size",), dimensions=2)
    ids = ["", "i" * 600, "nul\0", "/_all?x=*", "日本"]
    rows = {
        "id": ids,
        "text": [None, "x" * 40_000, "\0\x1b", "", "é"],
        "tags": pa.array([["b", "a", "b"], [], None, [None, "x"], ["y" * 300]], pa.list_(pa.string())),
        "size": [float("nan"), float("inf"), -0.0, None, 1e300],
        "vector": pa.array([[1, 0], [0, 0], [0.6, 0.8], [-1, 0], [0, 1]], pa.list_(pa.float32(), 2)),
        'meta.a.b*"[x],': pa.array([["1"], None, ["2", None], ["3", "3"], []], pa.list_(pa.string())),
    }
    batch = pa.RecordBatch.from_pydict(rows)
    collection = store.create("odd", schema)
    collection.upsert(batch)
    reader = finished(store, collection, "odd")
    fields = ("text", "tags", "size", "vector", 'meta.a.b*"[x],')
    got = reader.get(ids, fields)
    assert str(got.to_pydict()) == str(batch.to_pydict())  # NaN is NaN
    scanned = pa.Table.from_batches(reader.scan(fields)).sort_by("id").column("id").to_pylist()
    assert scanned == sorted(ids)
    filters = [Ids((ids[1],)), Terms("tags", ("y" * 300,)), Terms("text", ("x" * 40_000,)), Range("size", high=0)]
    assert [one.ids for one in reader.search([Where(where, 9) for where in filters])] == [
        ["i" * 600],
        ["日本"],
        ["i" * 600],
        ["nul\0"],
    ]
    with pytest.raises(UsageError, match="at most 256 characters"):
        reader.search([Where(Range("text", low="x" * 300), 9)])


def test_vectors_come_back_to_the_last_bit(store: Any, tmp_path: Path) -> None:
    schema, vectors = Schema(dimensions=16), np.random.default_rng(4).standard_normal((50, 16)).astype(np.float32)
    vectors[0, :4] = [1e-30, 1.2345678e-7, -0.0, 1 / 3]
    ids = [f"{n:02d}" for n in range(50)]
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 16)
    batch = pa.RecordBatch.from_arrays([pa.array(ids), column], names=["id", "vector"])
    collection = store.create("vectors", schema)
    collection.upsert(batch)
    expected = held_in_memory(batch, schema, tmp_path).get(ids, ("vector",))
    assert finished(store, collection, "vectors").get(ids, ("vector",)).to_pydict() == expected.to_pydict()


def test_a_record_that_is_refused_is_named(store: Any) -> None:
    collection = store.create("texts", TEXT)
    with pytest.raises(StoreError, match=r"could not write 1 of 3 records .*'kkkkk.*parse field \[id\]") as error:
        collection.upsert(texts({"a": "x", "k" * 40_000: "y", "c": "z"}))
    assert len(str(error.value)) < 1000
    assert collection.get(["a", "c"], ()).num_rows == 2


def test_a_request_that_is_too_large_is_sent_in_halves(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' node takes 8 MB at once."""
    nodes = store.server.client.nodes.info(metric="settings", flat_settings=True)["nodes"]
    if {node["settings"].get("http.max_content_length") for node in nodes.values()} != {"8mb"}:
        pytest.skip("the server takes more than 8 MB at once")
    monkeypatch.setattr(elastic_bulk, "_LARGEST", 50 << 20)
    schema = Schema(stored=("text",))
    collection = store.create("large", schema)
    collection.upsert(texts({f"{n}": f"{n}" * 3_000_000 for n in range(5)}))
    assert finished(store, collection, "large").count() == 5
    with pytest.raises(StoreError, match="could not write the record 'whale' .* larger than the server takes"):
        collection.upsert(texts({"whale": "x" * 9_000_000}))


# ---------------------------------------------------------------- what somebody else did


def test_an_index_deleted_behind_our_back(store: Any) -> None:
    collection = store.create("part-1.records", TEXT)
    store.create("part-1.coverage", TEXT)
    collection.upsert(texts({"a": "x"}))
    reader = finished(store, collection, "part-1.records")
    store.server.client.indices.delete(index=reader._now().index)
    for call in (
        lambda: reader.search([Where(None, 3)]),
        lambda: reader.get(["a"], ()),
        lambda: list(reader.scan(())),
        lambda: collection.upsert(texts({"b": "y"})),
        lambda: store.open("part-1.records", reader.version),
        lambda: store.create("part-1.records", TEXT),
    ):
        with pytest.raises(StoreError, match=r"(?s)deleted.*ragindex index DATA --workspace"):
            call()
    assert store.names() == ["part-1.coverage"]
    store.drop("part-1.coverage")
    assert store.create("part-1.records", TEXT).count() == 0  # nothing claims any more that there is something


@pytest.mark.parametrize("lost", ["passages-*.records*", "vectors-*.records*", "passages-*.*", "*-vectors-*.coverage*"])
def test_a_part_deleted_behind_our_back_is_made_anew(lost: str, written: str, tmp_path: Path) -> None:
    scheme = registry.scheme("hybrid")
    space = Workspace.open(tmp_path / "w", store=written, cutting=None)
    space.add(DOCUMENTS)
    space.sync([scheme])
    expected = ask(scheme.open(space), 5)
    doomed = [index for index in indices(space.store) if fnmatch(index, f"*{lost}")]
    assert doomed
    for index in doomed:
        space.store.server.client.indices.delete(index=index)
    again = Workspace.open(tmp_path / "w")
    again.sync([scheme])
    assert_same(ask(scheme.open(again), 5), expected, "after its index was deleted")
    assert again.add(DOCUMENTS[:1]).unchanged == 1


def test_writes_make_no_index_by_accident(store: Any) -> None:
    collection = store.create("texts", TEXT)
    now = collection._now()
    store.server.client.indices.delete(index=now.index)
    with pytest.raises(StoreError, match="could not write 1 of 1 records .*is not an alias"):
        elastic_bulk.send(store.server, now.alias, [elastic_bulk.Action("a", b"{}")], "texts")
    assert [name for name in indices(store) if "texts" in name] == []


def test_an_index_of_another_format(store: Any) -> None:
    generation = store.create("texts", TEXT)._now()
    note = {"ragindex": {**generation.note, "format": 99}}
    store.server.client.indices.put_mapping(index=generation.index, meta=note)
    with pytest.raises(StoreError, match=r"has format 99; this ragindex reads 1\..*ragindex index DATA"):
        store.names()
