"""Records, copies in memory, and counted round trips, for tests on a real server."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ragindex.interfaces import Collection, Schema, Store
from ragindex.plugins import registry
from ragindex.stores.elasticsearch.client import accept_version_8

TEXT = Schema(stored=("text",), text=("text",))


def texts(records: dict[str, str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(records), "text": list(records.values())})


def finished(store: Store, collection: Collection, name: str) -> Collection:
    collection.finish()
    return store.open(name, collection.version)


def held_in_memory(batch: pa.RecordBatch, schema: Schema, folder: Path) -> Collection:
    """The same records in the engine whose searches are exact, from memory."""
    store = registry.store("lancedb").open(folder)
    collection = store.create("copy", schema)
    collection.upsert(batch)
    return finished(store, collection, "copy")


def plain_client(store: Any) -> Any:
    """A client of the store's server for requests that the framework never makes."""
    return unchecked_client([node.base_url for node in store.server.client.transport.node_pool.all()])


def unchecked_client(hosts: Sequence[str]) -> Any:
    """A client that sends every request, as the package's own does, to servers 8 and 9."""
    from elastic_transport import Transport
    from elasticsearch import Elasticsearch

    class UncheckedTransport(Transport):
        def perform_request(self, *request: Any, headers: Any = None, **options: Any) -> Any:
            return super().perform_request(*request, headers=accept_version_8(headers), **options)

    return Elasticsearch(list(hosts), transport_class=UncheckedTransport)


def indices(store: Any) -> list[str]:
    return sorted(store.server.client.indices.get(index=f"{store.layout.base}-*", filter_path="*.settings.index.uuid"))


class Trips:
    """How often the client asks the server."""

    def __init__(self, store: Any, patch: pytest.MonkeyPatch) -> None:
        self.paths: list[str] = []
        transport = type(store.server.client.transport)
        inner = transport.perform_request

        def counted(server: Any, method: str, target: str, **rest: Any) -> Any:
            self.paths.append(target.partition("?")[0])
            return inner(server, method, target, **rest)

        patch.setattr(transport, "perform_request", counted)
