"""The Elasticsearch implementation of collections; see `indices` for how states are stored."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Protocol

import pyarrow as pa

from ragindex.errors import StoreError
from ragindex.filters import Filter
from ragindex.interfaces import Collection, InMemoryVectors, Schema, SearchRequest, SearchResult
from ragindex.stores.elasticsearch import indices
from ragindex.stores.elasticsearch import search as elastic_search
from ragindex.stores.elasticsearch.bulk import Action, send
from ragindex.stores.elasticsearch.client import ElasticsearchParameters, Server
from ragindex.stores.elasticsearch.indices import Generation
from ragindex.stores.elasticsearch.lease import WriterLease
from ragindex.stores.elasticsearch.records import (
    build_batch,
    build_documents,
    build_vector_mapping,
    check_fields,
    server_id,
    source_fields,
)

_MAX_GET = 1000
_MAX_REWRITE_BYTES = 1 << 30
"""The largest index, in bytes, from which every deleted record is merged away; larger ones may keep a tenth."""
_MAX_STALE_SHARE = 0.1


class Owner(Protocol):
    """The interface of the store that a collection belongs to."""

    @property
    def settings(self) -> ElasticsearchParameters:
        """The store's parameters."""
        ...

    @property
    def server(self) -> Server:
        """The connection to the cluster."""
        ...

    @property
    def held(self) -> WriterLease | None:
        """The writer's lease, if this process holds it."""
        ...

    def newest(self, name: str) -> Generation:
        """Return the newest generation of a collection. Raises StoreError if there is none."""
        ...


@dataclass(slots=True)
class ElasticsearchCollection:
    """The Elasticsearch implementation of ragindex.interfaces.Collection.

    `pinned` is the state that a reader stays at. If it is None, every call looks up the newest state.
    """

    store: Owner
    name: str
    schema: Schema
    pinned: Generation | None = None

    @property
    def version(self) -> int:
        """The version, which increases with every write operation."""
        return indices.read_generation_version(self.store.server, self._now())

    @property
    def identity(self) -> str:
        """The common part of the names of the collection's indices."""
        return self._now().index.rpartition("-")[0]

    def fields(self) -> tuple[str, ...]:
        """Return the names of all fields, including `meta.` fields, without id and vector."""
        schema = self.schema
        return (*schema.stored, *schema.keywords, *schema.numbers, *self._view().totals["fields"])

    # ------------------------------------------------------------ writing

    def upsert(self, records: pa.RecordBatch) -> None:
        """Add or replace records.

        Raises UsageError if fields are missing, and StoreError, naming the records, if the server refuses some.
        """
        made = build_documents(records, self.schema, self.name, self.store.settings.analyser)
        self._send(Action(id, document) for id, document in made)

    def delete(self, ids: Iterable[str]) -> None:
        """Delete records by id, in blocks."""
        self._send(Action(id) for id in dict.fromkeys(ids))

    def _send(self, actions: Iterator[Action]) -> None:
        """Send actions. The first is taken before an index is created, so that errors in it come before any change."""
        first = next(actions, None)
        if first is not None:
            store = self.store
            send(store.server, self._writable().alias, chain([first], actions), self.name, store.settings.writers)

    def finish(self) -> None:
        """Seal the state, after merging deleted records away and, for many vectors, building the HNSW graph."""
        now = self._now()
        if now.sealed:
            return
        self._may_write()
        totals: Mapping[str, Any] = indices.count_totals(self.store.server, now.index, now.shards)
        if self.schema.text and totals["stale"]:
            now, totals = self._without_stale(now, totals)
        many = totals["records"] > self.store.settings.exact_up_to
        if self.schema.dimensions and many and now.note["vectors"] == "flat":
            now = self._with_graph(now)
        indices.seal_generation(self.store.server, self.name, now, totals)

    def _without_stale(self, now: Generation, totals: Mapping[str, Any]) -> tuple[Generation, Mapping[str, Any]]:
        """Merge deleted records away in a clone, unless they are few and the index is large.

        Only a clone has no history of deletions for which the server would keep them.
        """
        server = self.store.server
        few = totals["stale"] <= _MAX_STALE_SHARE * totals["records"]
        if few and indices.read_disk_figures(server, now.index, now.shards)["bytes"] > _MAX_REWRITE_BYTES:
            return now, totals
        clean = indices.clone_generation(server, self.name, now)
        indices.merge_segments(server, self.name, clean, only_expunge_deletes=True)
        indices.delete_indices(server, [now])
        return clean, indices.count_totals(server, clean.index, clean.shards)

    def _with_graph(self, now: Generation) -> Generation:
        server, dimensions = self.store.server, self.schema.dimensions or 0
        now = indices.unblock_writes(server, self.name, now)  # `rewrite_index` writes one record per shard again
        properties = {"vector": build_vector_mapping(dimensions, "int8_hnsw")}
        server.ask(
            f"finish the collection {self.name}",
            lambda client: client.indices.put_mapping(index=now.index, properties=properties),
        )
        indices.rewrite_index(server, self.name, now)
        # The note is written last, so that an interrupted merge is repeated.
        return indices.write_note(server, self.name, now, vectors="int8_hnsw")

    def _writable(self) -> Generation:
        """Return a generation that takes writes: the newest one, or a clone of it if it is sealed."""
        if self.pinned is not None:
            raise StoreError(f"The collection {self.name} was opened for reading and cannot be written.")
        self._may_write()
        now = self._now()
        if now.sealed:
            return indices.clone_generation(self.store.server, self.name, now)
        return indices.unblock_writes(self.store.server, self.name, now)

    def _may_write(self) -> None:
        if self.store.held is not None:
            self.store.held.check()

    # ------------------------------------------------------------ reading

    def get(self, ids: Sequence[str], fields: Sequence[str]) -> pa.RecordBatch:
        """Return records by id, including the latest writes."""
        check_fields(fields, self.schema)
        index, wanted = self._now().index, list(dict.fromkeys(ids))
        found: dict[str, Mapping[str, Any]] = {}
        for start in range(0, len(wanted), _MAX_GET):
            keys = [server_id(id) for id in wanted[start : start + _MAX_GET]]
            ask = partial(_get_documents, index=index, keys=keys, fields=fields)
            answer = self.store.server.ask(f"read the collection {self.name}", ask)
            found.update((one["_source"]["id"], one["_source"]) for one in answer["docs"] if one["found"])
        return build_batch([found[id] for id in ids if id in found], fields, self.schema)

    def scan(self, fields: Sequence[str], where: Filter | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the records that pass `where`, from one point in time."""
        yield from elastic_search.scan_view(self._view(), fields, where)

    def search(self, requests: Sequence[SearchRequest]) -> list[SearchResult]:
        """Answer requests in one `_msearch`."""
        return elastic_search.search_views([(self._view(), requests)])[0] if requests else []

    def search_with(
        self, asked: Sequence[tuple[Collection, Sequence[SearchRequest]]]
    ) -> list[list[SearchResult]] | None:
        """Search several collections in one `_msearch`. Return None if one of them is not on this cluster."""
        beside = [(one, requests) for one, requests in asked if isinstance(one, ElasticsearchCollection)]
        if len(beside) < len(asked) or any(one.store.server is not self.store.server for one, _ in beside):
            return None
        return elastic_search.search_views([(one._view(), requests) for one, requests in beside])

    def resident(self) -> InMemoryVectors | None:
        """Return None, because the vectors are on the server."""
        return None

    def count(self) -> int:
        """Return the number of records."""
        return int(self._view().totals["records"])

    def describe(self) -> Mapping[str, str | int | float]:
        """Return how searches are answered (`search`) and the `bytes` on disk, without replicas."""
        now = self._now()
        vectors = "exact" if now.note["vectors"] == "flat" else "approximate, graph of int8 vectors, scored again whole"
        own = self.store.settings.analyser
        text = f"text analysed by {own}" if own and self.schema.text else ""
        how = ", ".join(filter(None, (vectors, text, f"Elasticsearch at {self.store.server.where}")))
        return {
            "search": how,
            "bytes": indices.read_disk_figures(self.store.server, now.index, now.shards)["bytes"],
        }

    def _now(self) -> Generation:
        """Return the pinned or newest generation. Raises StoreError if the collection no longer exists."""
        return self.pinned or self.store.newest(self.name)

    def _view(self) -> elastic_search.IndexView:
        now = self._now()
        totals = now.sealed or indices.count_totals(self.store.server, now.index, now.shards)
        settings = self.store.settings
        return elastic_search.IndexView(
            server=self.store.server,
            index=now.index,
            name=self.name,
            schema=self.schema,
            shards=now.shards,
            analyser=now.note["analyser"],
            vectors=now.note["vectors"],
            totals=totals,
            candidates=settings.candidates,
        )


def _get_documents(client: Any, index: str, keys: Sequence[str], fields: Sequence[str]) -> Any:
    return client.mget(index=index, ids=keys, source_includes=source_fields(fields))
