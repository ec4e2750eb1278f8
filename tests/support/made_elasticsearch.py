"""Records, twins in memory, and counted round trips, for tests on a real server."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ragindex.interfaces import Collection, Schema, Store
from ragindex.plugins import registry

TEXT = Schema(stored=("text",), text=("text",))


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


def plain_client(store: Any) -> Any:
    """A client of the store's server for requests that the framework never makes."""
    from elasticsearch import Elasticsearch

    return Elasticsearch([one.base_url for one in store.server.client.transport.node_pool.all()])


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
