"""Copies of small collections: what is in them, when they are read, and that they go with their version."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex._util.durable_files import RepairWarning, hash_file
from ragindex.filters import Ids, Terms
from ragindex.interfaces import FilterQuery, Schema, TextQuery
from ragindex.stores.lancedb import files
from ragindex.stores.lancedb.collection import LanceCollection
from ragindex.stores.lancedb.store import LanceDB, LanceStore

SCHEMA = Schema(stored=("text",), keywords=("tags",), text=("text",), language="none")
TEXTS = {"a": "rye oak", "b": "oak fen fen", "c": "tor"}
REQUESTS = [
    TextQuery("fen oak", 3, ("text", "tags", "meta.year")),
    TextQuery("rye", 3, where=Terms("meta.year", ("1931",))),
    FilterQuery(Ids(("c", "a")), 5, ("tags",)),
]


def write(store: LanceStore, texts: dict[str, str], name: str = "some") -> LanceCollection:
    collection = store.create(name, SCHEMA)
    columns = {"id": list(texts), "text": list(texts.values()), "tags": [["all"]] * len(texts)}
    years = pa.array([["1931"] if "rye" in text else None for text in texts.values()], pa.list_(pa.string()))
    collection.upsert(pa.RecordBatch.from_pydict({**columns, "meta.year": years}))
    collection.finish()
    return collection


def list_copies(store: LanceStore, name: str = "some") -> list[str]:
    return sorted(path.name for path in (store.database.place(name) / files.COPIES).glob("*"))


def open_both(folder: Path, version: int) -> tuple[LanceCollection, LanceCollection]:
    """Open a version with its copy, and with LanceDB alone."""
    copied, bare = (LanceDB().open(folder).open("some", version) for _ in range(2))
    assert copied.copy is not None
    bare.copy = None
    return copied, bare


def answers(collection: LanceCollection) -> list[object]:
    hits = collection.search(REQUESTS)
    got = collection.get(["c", "x", "a"], ("text", "meta.year", "meta.never"))
    return [
        *((answer.ids, answer.scores.tolist(), answer.records.to_pydict()) for answer in hits),
        got.to_pydict(),
        got.schema,
    ]


def test_a_copy_answers_like_lancedb_without_opening_it(tmp_path: Path) -> None:
    version = write(LanceDB().open(tmp_path), TEXTS).version
    copied, bare = open_both(tmp_path, version)
    assert answers(copied) == answers(bare)
    assert (copied.schema, copied.identity, copied.version) == (bare.schema, bare.identity, bare.version)
    assert copied.fields() == bare.fields() == ("text", "tags", "meta.year")
    assert copied.describe() == bare.describe()
    assert copied._opened is None
    assert copied.count() == bare.count() == 3


@settings(max_examples=examples(15))
@given(st.dictionaries(st.text(min_size=1, max_size=5), st.text(max_size=30), min_size=1, max_size=8))
def test_a_copy_holds_what_was_written(tmp_path_factory: pytest.TempPathFactory, texts: dict[str, str]) -> None:
    folder = tmp_path_factory.mktemp("store")
    copied, _ = open_both(folder, write(LanceDB().open(folder), texts).version)
    rows = copied.get(list(texts), ("text",))
    assert dict(zip(rows["id"].to_pylist(), rows["text"].to_pylist(), strict=True)) == texts
    assert copied._opened is None


def test_copies_of_earlier_versions(tmp_path: Path) -> None:
    store = LanceDB().open(tmp_path)
    first = write(store, TEXTS).version
    second = write(store, {"d": "rye rye"}).version
    assert [name.split(".")[0] for name in list_copies(store)] == [str(first), str(second)]
    copied, bare = open_both(tmp_path, first)
    assert answers(copied) == answers(bare)
    (store.database.place("some") / files.COPIES / f"{second}.99.partial").write_bytes(b"of a process that was killed")
    store.clean("some", {first})
    assert [name.split(".")[0] for name in list_copies(store)] == [str(first), str(second)]
    store.clean("some", set())
    assert [name.split(".")[0] for name in list_copies(store)] == [str(second)]


def test_copy_counts_and_is_dropped(tmp_path: Path) -> None:
    store = LanceDB().open(tmp_path)
    collection = write(store, TEXTS)
    (name,) = list_copies(store)
    path = store.database.place("some") / files.COPIES / name
    total, copied = int(collection.describe()["bytes"]), path.stat().st_size
    assert name == f"{collection.version}.{hash_file(path)}.arrow"
    path.unlink()
    assert int(collection.describe()["bytes"]) == total - copied
    store.drop("some")
    assert not store.database.place("some").exists()


def test_a_damaged_copy_is_renamed_and_lancedb_is_read(tmp_path: Path) -> None:
    store = LanceDB().open(tmp_path)
    collection = write(store, TEXTS)
    expected = answers(store.open("some", collection.version))
    (name,) = list_copies(store)
    (store.database.place("some") / files.COPIES / name).write_bytes(b"damaged")
    with pytest.warns(RepairWarning, match="LanceDB is read instead"):
        opened = LanceDB().open(tmp_path).open("some", collection.version)
    assert opened.copy is None
    assert answers(opened) == expected
    assert list_copies(store) == [f"{name}.damaged"]
    collection.finish()
    assert list_copies(store) == [name, f"{name}.damaged"]


def test_which_collections_have_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert files.wants_copy(SCHEMA, 32 << 20)
    assert not files.wants_copy(SCHEMA, (32 << 20) + 1)
    assert files.wants_copy(Schema(keywords=("passages",)), 1)
    assert not files.wants_copy(Schema(stored=("revision",), numbers=("seconds",)), 1)
    assert not files.wants_copy(Schema(text=("text",), stored=("text",), dimensions=2), 1)
    write(LanceDB(memory_gib=0).open(tmp_path / "beyond"), TEXTS)
    assert list_copies(LanceDB().open(tmp_path / "beyond")) == []
    monkeypatch.setattr(files, "MAX_COPY_BYTES", 10)
    write(LanceDB().open(tmp_path / "large"), TEXTS)
    assert list_copies(LanceDB().open(tmp_path / "large")) == []


def test_a_reader_with_less_memory_than_the_writer_reads_lancedb(tmp_path: Path) -> None:
    version = write(LanceDB().open(tmp_path), TEXTS).version
    expected = answers(LanceDB().open(tmp_path).open("some", version))
    opened = LanceDB(memory_gib=0).open(tmp_path).open("some", version)
    assert opened.copy is not None
    assert opened.get(["b"], ("text",)).to_pydict() == {"id": ["b"], "text": ["oak fen fen"]}
    assert [hit.ids for hit in opened.search(REQUESTS)] == [answer[0] for answer in expected[:3]]  # type: ignore[index]
    assert opened._opened is not None
