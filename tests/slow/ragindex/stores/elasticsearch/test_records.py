"""Records on a real server: odd ones, refused ones, large ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from made_elasticsearch import TEXT, finished, held_in_memory, plain_client, texts

from ragindex.errors import StoreError, UsageError
from ragindex.filters import Ids, Range, Terms
from ragindex.interfaces import FilterQuery, Schema
from ragindex.stores.elasticsearch import bulk


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
    assert [hit.ids for hit in reader.search([FilterQuery(where, 9) for where in filters])] == [
        ["i" * 600],
        ["日本"],
        ["i" * 600],
        ["nul\0"],
    ]
    with pytest.raises(UsageError, match="at most 256 characters"):
        reader.search([FilterQuery(Range("text", low="x" * 300), 9)])


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
    nodes = plain_client(store).nodes.info(metric="settings", flat_settings=True)["nodes"]
    if {node["settings"].get("http.max_content_length") for node in nodes.values()} != {"8mb"}:
        pytest.skip("the server takes more than 8 MB at once")
    monkeypatch.setattr(bulk, "_LARGEST", 50 << 20)
    schema = Schema(stored=("text",))
    collection = store.create("large", schema)
    collection.upsert(texts({f"{n}": f"{n}" * 3_000_000 for n in range(5)}))
    assert finished(store, collection, "large").count() == 5
    with pytest.raises(StoreError, match="could not write the record 'whale' .* it exceeds the server's limit"):
        collection.upsert(texts({"whale": "x" * 9_000_000}))
