"""The stores that the contract is asked of, and the few records that it is asked over."""

import pyarrow as pa

from ragindex.filters import Filter
from ragindex.interfaces import Collection, FilterQuery, Schema, Store

STORES = {  # how each way of keeping and searching records is written
    "lancedb, from memory": "lancedb",
    "lancedb, float16": "lancedb(float16=true)",
    "lancedb, memory-mapped": "lancedb(mmap=true)",
    "lancedb, by its indexes": "lancedb(memory_gib=0)",
    "elasticsearch": "elasticsearch",
}
FILTERED = ("lancedb, from memory", "lancedb, by its indexes", "elasticsearch")
"""The ways of filtering among them: how vectors lie in memory changes no filter."""

SCHEMA = Schema(stored=("title", "text"), keywords=("tags",), numbers=("size",), text=("title", "text"), dimensions=3)
TEXT_ONLY = Schema(stored=("text",), text=("text",))

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
    return collection.search([FilterQuery(where, 100)])[0].ids
