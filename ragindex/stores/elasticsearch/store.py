"""The Elasticsearch store, for corpora that exceed one machine. Several indexes can share a cluster.

Servers 8 (from 8.18) and 9 are supported. Select the store with `--store elasticsearch:http://HOST:9200`, or with
`--store elasticsearch` and ELASTICSEARCH_URL. Keys come from ELASTICSEARCH_API_KEY, or from ELASTICSEARCH_USER and
ELASTICSEARCH_PASSWORD; ELASTICSEARCH_CA_FILE names the certificate of a private certificate authority. The store needs
no scripts, no paid licence and no update or delete by query.

See `indices` for how finished states are stored, and `search` for how searches are answered.
"""

import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from filelock import FileLock
from pydantic import Field, field_validator

from ragindex._util import durable_files
from ragindex._util.http import read_variable, require_bare
from ragindex.errors import DamagedError, StoreError
from ragindex.filters import Filter
from ragindex.interfaces import Collection, InMemoryVectors, Schema, SearchRequest, SearchResult, Store, StorePlugin
from ragindex.plugins.base import Contact
from ragindex.stores.elasticsearch import client, indices
from ragindex.stores.elasticsearch import lease as elastic_lease
from ragindex.stores.elasticsearch import search as elastic_search
from ragindex.stores.elasticsearch.bulk import Action, send
from ragindex.stores.elasticsearch.client import API_KEY, PASSWORD, URL, USER, Server
from ragindex.stores.elasticsearch.indices import Generation, IndexLayout
from ragindex.stores.elasticsearch.lease import WriterLease
from ragindex.stores.elasticsearch.records import (
    build_batch,
    build_documents,
    build_vector_mapping,
    check_fields,
    server_id,
    source_fields,
)
from ragindex.stores.records import require_schema

_KEEP = 86_400.0
"""Seconds for which a replaced state is kept, because a copy of the index folder on another machine may name it."""
_FILE = "elasticsearch.json"
_NAME_PATTERN = r"[a-z0-9][a-z0-9_.]{0,60}"
_MAX_GET = 1000
_MAX_REWRITE_BYTES = 1 << 30
"""The largest index, in bytes, from which every deleted record is merged away; larger ones may keep a tenth."""
_MAX_STALE_SHARE = 0.1


class Elasticsearch(StorePlugin):
    """The Elasticsearch store, with collections as indices PREFIX-NAMESPACE-PART-FINGERPRINT.

    Keys come from the environment. `namespace` is the second part of the index names (default: a name stored in
    `folder`). `shards`, `replicas` (default: one if there is a second node) and `refresh` (default: off, so that
    searches see finished states only) apply to indices created from now on. Up to `exact_up_to` records, vectors are
    compared one by one; beyond that, an HNSW graph is searched with `candidates` candidates per shard. `analyser` names
    an analyser of the server to use instead of ragindex's. `writers` bulk requests are sent at once; `timeout` (in
    seconds) and `retries` apply to each request. A lease that is not renewed for `lease_seconds` can be taken over.
    """

    argument: ClassVar[str] = "url"
    keys_from: ClassVar[str] = f"Set {API_KEY}, or {USER} and {PASSWORD}."

    url: str | None = Field(
        default=None, description="Address of the cluster, or several separated by commas. Default: ELASTICSEARCH_URL."
    )
    prefix: str = Field(
        default="ragindex", pattern=f"^{_NAME_PATTERN}$", description="First part of the names of all indices."
    )
    namespace: str | None = Field(
        default=None,
        pattern=f"^{_NAME_PATTERN}$",
        description="Second part of the names of the indices. Default: a name stored in the index's folder.",
    )
    shards: int = Field(default=1, ge=1, le=1024, description="Shards of an index created from now on.")
    replicas: int | None = Field(
        default=None,
        ge=0,
        description="Replicas of an index created from now on. Default: one where the cluster has a second node.",
    )
    refresh: str = Field(
        default="-1",
        pattern=r"^(-1|\d+(ms|s|m))$",
        description="Refresh interval of an index, as 1s. -1: searches see finished syncs only.",
    )
    exact_up_to: int = Field(
        default=100_000,
        ge=0,
        description="Records up to which vectors are compared one by one; larger collections use an HNSW graph.",
    )
    candidates: int = Field(
        default=500, ge=1, le=10_000, description="Candidates per shard of a search through the HNSW graph."
    )
    analyser: str | None = Field(
        default=None, description="Analyser of the server to use in place of ragindex's own text analysis."
    )
    writers: int = Field(default=4, ge=1, le=64, description="Bulk requests sent at once.")
    timeout: float = Field(default=60.0, gt=0, description="Seconds until a request times out.")
    retries: int = Field(default=5, ge=0, description="Times a request is sent again after a passing failure.")
    lease_seconds: float = Field(
        default=60.0, ge=1, description="Seconds after which a writer's lease that is not renewed can be taken over."
    )

    def contacts(self) -> tuple[Contact, ...]:
        """Return the nodes of the cluster, by the parameters or ELASTICSEARCH_URL."""
        hosts = self.url or read_variable([URL]) or ""
        keys = (API_KEY, USER, PASSWORD)
        return tuple(Contact.of_address(host.strip(), keys) for host in hosts.split(",") if host.strip())

    @field_validator("url")
    @classmethod
    def _without_keys(cls, url: str | None) -> str | None:
        """Raise UsageError if the address contains keys, because parameters are written into files and reports.

        The error does not repeat the address.
        """
        for host in (url or "").split(",") if url else ():
            require_bare(host.strip(), "the store elasticsearch", cls.keys_from)
        return url

    @property
    def finishes_by(self) -> Mapping[str, float]:
        """No parameters, because an index keeps the settings that it was created with."""
        return {}

    def open(self, folder: Path) -> "ElasticsearchStore":
        """Open the store whose namespace is stored in `folder`. Raises StoreError, UsageError."""
        server = client.connect(self.url, self.timeout, self.retries)
        name = self.namespace or _read_namespace(folder)
        layout = IndexLayout(self.prefix, name, self.shards, self.replicas, self.refresh, self.analyser)
        return ElasticsearchStore(self, server, layout)


@dataclass(slots=True)
class ElasticsearchStore(Store):
    """The Elasticsearch implementation of ragindex.interfaces.Store.

    `writer_lease` is the writer's lease, if this process holds it.
    """

    settings: Elasticsearch
    server: Server
    layout: IndexLayout
    writer_lease: WriterLease | None = None

    def create(self, name: str, schema: Schema) -> "ElasticsearchCollection":
        """Open a collection for writing, creating it if needed.

        Raises StoreError if it was created with another schema or analyser.
        """
        generations = self._generations(name)
        newest = generations[-1] if generations else self._make(name, schema)
        require_schema(name, newest.schema, schema)
        if newest.note["analyser"] != self.settings.analyser:
            was = newest.note["analyser"] or "ragindex's own"
            raise StoreError(f"The collection {name} was created with the analyser {was}, which cannot change.")
        return ElasticsearchCollection(self, name, schema)

    def open(self, name: str, version: int) -> "ElasticsearchCollection":
        """Open a collection at one version. Raises StoreError if the collection or the version no longer exists."""
        generations = self._generations(name)
        if not generations:
            raise self._missing(name)
        for generation in generations:
            if generation.sealed and generation.sealed["version"] == version:
                return ElasticsearchCollection(self, name, generation.schema, generation)
        newest = generations[-1]
        latest = max((int(generation.sealed["version"]) for generation in generations if generation.sealed), default=0)
        if not newest.sealed and indices.read_live_version(self.server, newest) >= version > latest:
            return ElasticsearchCollection(self, name, newest.schema)
        raise StoreError(
            f"The store at {self.server.where} has the collection {name} at version {latest}, no longer at "
            f"{version}. Open the index again; if that does not help, run: ragindex index"
        )

    def names(self) -> list[str]:
        """Return the names of all collections, sorted."""
        return sorted(indices.list_generations(self.server, self.layout))

    def version(self, name: str) -> int | None:
        """Return the newest version of a collection, or None if it does not exist."""
        generations = self._generations(name)
        return indices.read_generation_version(self.server, generations[-1]) if generations else None

    def clean(self, name: str, pinned: Set[int]) -> None:
        """Delete finished states not in `pinned` a day after their replacement, and unfinished ones of dead writers."""
        generations = self._generations(name)
        limit = time.time() - _KEEP
        indices.delete_indices(
            self.server,
            [
                generation
                for generation in generations[:-1]
                if not (generation.sealed and int(generation.sealed["version"]) in pinned)
                and _find_replacement_time(generation, generations) <= limit
            ],
        )

    def drop(self, name: str) -> None:
        """Delete a collection with all its indices."""
        elastic_lease.delete_state(self.server, self._state, _name_document(name), None, f"drop the collection {name}")
        indices.delete_indices(self.server, self._generations(name))

    @contextmanager
    def lease(self, owner: str) -> Iterator[None]:
        """Hold the writer's lease, a document that is renewed regularly. The lease of a dead holder can be taken over.

        Raises WriterBusyError, naming the holder, if another process has it.
        """
        lease = elastic_lease.acquire_lease(self.server, self._state, owner, self.settings.lease_seconds)
        self.writer_lease = lease
        try:
            yield
        finally:
            self.writer_lease = None
            lease.release()

    def newest(self, name: str) -> Generation:
        """Return the newest generation of a collection. Raises StoreError if there is none."""
        generations = self._generations(name)
        if not generations:
            raise self._missing(name)
        return generations[-1]

    def check_lease(self) -> None:
        """Check the writer's lease, if this process holds it. Raises StoreError if another one has taken it over."""
        if self.writer_lease is not None:
            self.writer_lease.check()

    @property
    def _state(self) -> str:
        """The name of the index of the store's own documents."""
        return f"{self.layout.base}-state"

    def _make(self, name: str, schema: Schema) -> Generation:
        """Create a collection and record it.

        Raises StoreError if the collection was recorded before and not dropped, while other collections of the part
        exist. Without the error, the remaining coverage would hide that the data are missing.
        """
        self.check_lease()
        doing, known = f"make the collection {name}", _name_document(name)
        elastic_lease.create_state_index(self.server, self._state, doing)
        part = name.rpartition(".")[0]
        remains = not part or any(other.rpartition(".")[0] == part for other in self.names())
        if remains and elastic_lease.read_state(self.server, self._state, known, doing) is not None:
            raise self._missing(name)
        generation = indices.create_generation(self.server, self.layout, name, schema)
        elastic_lease.write_state(self.server, self._state, known, {"name": name}, None, doing)
        return generation

    def _generations(self, name: str) -> list[Generation]:
        return indices.list_generations(self.server, self.layout, name).get(name, [])

    def _missing(self, name: str) -> StoreError:
        return StoreError(
            f"The store at {self.server.where} has no collection {name} in {self.layout.base}-*: it is not the server "
            "that the index was created on, or its indices were deleted. Check the address. If they are lost, "
            "run ragindex index to rebuild the parts; if the documents are lost too, "
            "run ragindex index DATA --index with another folder."
        )


def _name_document(name: str) -> str:
    """Return the name of the document that records a created collection until it is dropped."""
    return f"collection {name}"


def _find_replacement_time(generation: Generation, generations: list[Generation]) -> float:
    """Return the Unix time at which the next state was finished (inf if none was); 0 for an unfinished generation."""
    if not generation.sealed:
        return 0.0
    later = [float(other.sealed["at"]) for other in generations if other.sealed and other.number > generation.number]
    return min(later, default=float("inf"))


def _read_namespace(folder: Path) -> str:
    """Return the name stored in `folder`, or store a new one: the name of the parent folder and a random suffix."""
    path = folder / _FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            around = re.sub(r"[^a-z0-9]+", "", folder.resolve().parent.name.lower())[:24] or "index"
            content = durable_files.dump_hashed_json({"namespace": f"{around}.{uuid.uuid4().hex[:8]}"})
            with FileLock(f"{path}.lock"):
                if not path.exists():  # another process may have stored one meanwhile, and writes under it
                    durable_files.write_file(path, content)
        name = (durable_files.load_hashed_json(path.read_bytes()) or {}).get("namespace")
    except OSError as error:
        raise StoreError(f"Cannot read or write {path}, the name of the index in the store: {error}.") from error
    if name is None:
        raise DamagedError(
            f"{path}, the name of this index in the store, is damaged. Run: ragindex index DATA --index OTHER"
        )
    if not isinstance(name, str) or not re.fullmatch(_NAME_PATTERN, name):
        raise StoreError(f"{path} must contain {{'namespace': NAME}}. Got {name!r}.")
    return name


# ---------------------------------------------------------------- collections


@dataclass(slots=True)
class ElasticsearchCollection(Collection):
    """The Elasticsearch implementation of ragindex.interfaces.Collection.

    `pinned` is the state that a reader stays at. If it is None, every call looks up the newest state.
    """

    store: ElasticsearchStore
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
        documents = build_documents(records, self.schema, self.name, self.store.settings.analyser)
        self._send(Action(id, document) for id, document in documents)

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
        self.store.check_lease()
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
        self.store.check_lease()
        now = self._now()
        if now.sealed:
            return indices.clone_generation(self.store.server, self.name, now)
        return indices.unblock_writes(self.store.server, self.name, now)

    # ------------------------------------------------------------ reading

    def get(self, ids: Sequence[str], fields: Sequence[str]) -> pa.RecordBatch:
        """Return records by id, including the latest writes."""
        check_fields(fields, self.schema)
        index, distinct_ids = self._now().index, list(dict.fromkeys(ids))
        sources: dict[str, Mapping[str, Any]] = {}
        for start in range(0, len(distinct_ids), _MAX_GET):
            keys = [server_id(id) for id in distinct_ids[start : start + _MAX_GET]]
            ask = partial(_get_documents, index=index, keys=keys, fields=fields)
            answer = self.store.server.ask(f"read the collection {self.name}", ask)
            sources.update((hit["_source"]["id"], hit["_source"]) for hit in answer["docs"] if hit["found"])
        return build_batch([sources[id] for id in ids if id in sources], fields, self.schema)

    def scan(self, fields: Sequence[str], where: Filter | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the records that pass `where`, from one point in time."""
        yield from elastic_search.scan_view(self._view(), fields, where)

    def search(self, requests: Sequence[SearchRequest]) -> list[SearchResult]:
        """Answer requests in one `_msearch`."""
        return elastic_search.search_views([(self._view(), requests)])[0] if requests else []

    def search_with(
        self, searches: Sequence[tuple[Collection, Sequence[SearchRequest]]]
    ) -> list[list[SearchResult]] | None:
        """Search several collections in one `_msearch`. Return None if one of them is not on this cluster."""
        beside = [(other, requests) for other, requests in searches if isinstance(other, ElasticsearchCollection)]
        if len(beside) < len(searches) or any(other.store.server is not self.store.server for other, _ in beside):
            return None
        return elastic_search.search_views([(other._view(), requests) for other, requests in beside])

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
        return elastic_search.IndexView(
            server=self.store.server,
            index=now.index,
            name=self.name,
            schema=self.schema,
            shards=now.shards,
            analyser=now.note["analyser"],
            vectors=now.note["vectors"],
            totals=totals,
            candidates=self.store.settings.candidates,
        )


def _get_documents(client: Any, index: str, keys: Sequence[str], fields: Sequence[str]) -> Any:
    return client.mget(index=index, ids=keys, source_includes=source_fields(fields))
