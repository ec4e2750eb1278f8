"""Columns of a whole collection may hold more than 2 GiB; an engine that fails gives an error, never an empty answer.

That a column of 2 GiB is searched was tried by hand: it takes 10 GB of memory.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ragindex.errors import StoreError, UsageError
from ragindex.filters import Ids, Range, Terms
from ragindex.interfaces import Collection, FilterQuery, Schema, TextQuery, VectorQuery
from ragindex.stores.lancedb.collection import LanceCollection
from ragindex.stores.lancedb.store import LanceDB
from ragindex.stores.memory.search import MemoryImage
from ragindex.stores.metered import search_together
from ragindex.stores.records import LARGE_STRING, LARGE_STRING_LIST, widen

SCHEMA = Schema(stored=("text",), keywords=("tags",), numbers=("size",), text=("text",), dimensions=2, language="none")
FIELDS = ("text", "tags", "size", "meta.year", "meta.none")
ONE = np.array([1, 0], np.float32)


def filled(folder: Path, memory: float) -> LanceCollection:
    collection = LanceDB(memory_gib=memory).open(folder).create("some", SCHEMA)
    for start in (0, 4):  # more than one fragment
        numbers = range(start, start + 4)
        columns = {
            "id": [f"r{n}" for n in numbers],
            "text": [f"oak {n}" for n in numbers],
            "tags": [[f"t{n}", "all"] for n in numbers],
            "size": [float(n) for n in numbers],
            "meta.year": [[str(1900 + n)] for n in numbers],
            "vector": pa.array([[1.0, n] for n in numbers], pa.list_(pa.float32(), 2)),
        }
        collection.upsert(pa.RecordBatch.from_pydict(columns))
    collection.finish()
    return collection


def narrow(rows: Any) -> list[str]:
    """Columns in which one array holds at most 2 GiB."""
    plain = (pa.string(), pa.list_(pa.string()))
    return [item.name for item in rows.schema if item.type in plain]


def test_strings_are_made_wide_and_nothing_else_is_changed() -> None:
    rows = pa.table({"a": ["x"], "b": [["y", None]], "c": [1.0], "d": pa.array([[1.0]], pa.list_(pa.float32(), 1))})
    widened = widen(rows)
    assert [item.type for item in widened.schema] == [
        LARGE_STRING,
        LARGE_STRING_LIST,
        pa.float64(),
        pa.list_(pa.float32(), 1),
    ]
    assert widened.to_pylist() == rows.to_pylist()
    assert widen(widened) is widened
    assert narrow(widen(rows.to_batches()[0])) == []


@pytest.mark.parametrize("memory", [0, 1])
def test_every_answer_has_wide_strings(tmp_path: Path, memory: float) -> None:
    collection = filled(tmp_path, memory)
    requests = [
        TextQuery("oak", 8, FIELDS),
        FilterQuery(None, 8, FIELDS),
        FilterQuery(Range("meta.year", 1902, 1905), 8, FIELDS),
        VectorQuery(ONE, 8, FIELDS),
        VectorQuery(ONE, 8, (*FIELDS, "vector"), Ids(("r1", "r2"))),
        FilterQuery(Terms("text", ("oak 1", "oak 2")), 8, FIELDS),
    ]
    hits = collection.search(requests)
    assert [len(answer.ids) for answer in hits] == [8, 8, 4, 8, 2, 2]
    assert [narrow(answer.records) for answer in hits] == [[]] * len(requests)
    assert narrow(collection.get(["r1", "r7"], FIELDS)) == []


def test_no_column_of_a_collection_in_memory_is_narrow(tmp_path: Path) -> None:
    collection = filled(tmp_path, 1)
    image = collection.database.image(collection)
    assert image is not None
    assert narrow(image.table) == []
    assert set(image.columns) == {"id", "text", "tokens", "tags", "size", "meta.year"}
    assert not {column.type for column in image.columns.values()} & {pa.string(), pa.list_(pa.string())}
    assert all(column.num_chunks == 1 for column in image.table.columns)  # nothing is held twice


FAILURES = [
    pa.ArrowNotImplementedError("no kernel"),
    pa.ArrowKeyError("no field"),
    MemoryError(),
    OSError(5, "Input/output error"),
    ValueError("lance error: file not found"),
]


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize("memory", [0, 1])
def test_what_an_engine_fails_at_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: float) -> None:
    collection: Collection = filled(tmp_path, memory)
    requests = [TextQuery("oak", 3)]
    if memory:
        collection.search([FilterQuery(None, 1)])  # what follows is read from memory
    for error in FAILURES:
        if memory:
            for name in ("search", "get"):
                monkeypatch.setattr(MemoryImage, name, failing(error))
        else:
            monkeypatch.setattr("ragindex.stores.lancedb.index.search_tables", failing(error))
            monkeypatch.setattr(LanceCollection, "_read", failing(error))
        for work in (
            lambda: collection.search(requests),
            lambda: search_together([(collection, requests), (collection, requests)]),
            lambda: collection.get(["r1"], ()),
        ):
            with pytest.raises(StoreError, match="The store could not (search|read) the collection some") as caught:
                work()
            assert caught.value.__cause__ is error


def test_a_wrong_question_is_no_failure_of_the_engine(tmp_path: Path) -> None:
    for memory in (0, 1):
        with pytest.raises(UsageError, match="Unknown field 'nothing'"):
            filled(tmp_path / str(memory), memory).search([FilterQuery(None, 1, ("nothing",))])
