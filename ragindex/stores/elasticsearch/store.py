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
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from ragindex._util import files as durable_files
from ragindex.errors import DamagedError, StoreError
from ragindex.interfaces import Schema
from ragindex.stores.elasticsearch import client, indices
from ragindex.stores.elasticsearch import lease as elastic_lease
from ragindex.stores.elasticsearch.client import NAME_PATTERN, ElasticsearchParameters, Server
from ragindex.stores.elasticsearch.collection import ElasticsearchCollection
from ragindex.stores.elasticsearch.indices import Generation, IndexLayout
from ragindex.stores.elasticsearch.lease import WriterLease
from ragindex.stores.records import require_schema

_KEEP = 86_400.0
"""Seconds for which a replaced state is kept, because a copy of the index folder on another machine may name it."""
_FILE = "elasticsearch.json"


class Elasticsearch(ElasticsearchParameters):
    """The Elasticsearch store, with collections as indices PREFIX-NAMESPACE-PART-FINGERPRINT.

    Keys come from the environment. `namespace` is the second part of the index names (default: a name stored in
    `folder`). `shards`, `replicas` (default: one if there is a second node) and `refresh` (default: off, so that
    searches see finished states only) apply to indices created from now on. Up to `exact_up_to` records, vectors are
    compared one by one; beyond that, an HNSW graph is searched with `candidates` candidates per shard. `analyser` names
    an analyser of the server to use instead of ragindex's. `writers` bulk requests are sent at once; `timeout` (in
    seconds) and `retries` apply to each request. A lease that is not renewed for `lease_seconds` can be taken over.
    """

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
class ElasticsearchStore:
    """The Elasticsearch implementation of ragindex.interfaces.Store.

    `held` is the writer's lease, if this process holds it.
    """

    settings: Elasticsearch
    server: Server
    layout: IndexLayout
    held: WriterLease | None = None

    def create(self, name: str, schema: Schema) -> ElasticsearchCollection:
        """Open a collection for writing, creating it if needed.

        Raises StoreError if it was created with another schema or analyser.
        """
        held = self._generations(name)
        newest = held[-1] if held else self._make(name, schema)
        require_schema(name, newest.schema, schema)
        if newest.note["analyser"] != self.settings.analyser:
            was = newest.note["analyser"] or "ragindex's own"
            raise StoreError(f"The collection {name} was created with the analyser {was}, which cannot change.")
        return ElasticsearchCollection(self, name, schema)

    def open(self, name: str, version: int) -> ElasticsearchCollection:
        """Open a collection at one version. Raises StoreError if the collection or the version no longer exists."""
        held = self._generations(name)
        if not held:
            raise self._missing(name)
        for generation in held:
            if generation.sealed and generation.sealed["version"] == version:
                return ElasticsearchCollection(self, name, generation.schema, generation)
        newest = held[-1]
        if not newest.sealed and indices.read_live_version(self.server, newest) >= version > _find_latest(held):
            return ElasticsearchCollection(self, name, newest.schema)
        raise StoreError(
            f"The store at {self.server.where} has the collection {name} at version {_find_latest(held)}, no longer at "
            f"{version}. Open the index again; if that does not help, run: ragindex index"
        )

    def names(self) -> list[str]:
        """Return the names of all collections, sorted."""
        return sorted(indices.list_generations(self.server, self.layout))

    def version(self, name: str) -> int | None:
        """Return the newest version of a collection, or None if it does not exist."""
        held = self._generations(name)
        return indices.read_generation_version(self.server, held[-1]) if held else None

    def clean(self, name: str, kept: Set[int]) -> None:
        """Delete finished states not in `kept` a day after their replacement, and unfinished states of dead writers."""
        held = self._generations(name)
        indices.delete_indices(self.server, [one for one in held[:-1] if not _is_kept(one, held, kept)])

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
        self.held = lease
        try:
            yield
        finally:
            self.held = None
            lease.release()

    def newest(self, name: str) -> Generation:
        """Return the newest generation of a collection. Raises StoreError if there is none."""
        held = self._generations(name)
        if not held:
            raise self._missing(name)
        return held[-1]

    @property
    def _state(self) -> str:
        """The name of the index of the store's own documents."""
        return f"{self.layout.base}-state"

    def _make(self, name: str, schema: Schema) -> Generation:
        """Create a collection and record it.

        Raises StoreError if the collection was recorded before and not dropped, while other collections of the part
        exist. Without the error, the remaining coverage would hide that the data are missing.
        """
        if self.held is not None:
            self.held.check()
        doing, known = f"make the collection {name}", _name_document(name)
        elastic_lease.create_state_index(self.server, self._state, doing)
        part = name.rpartition(".")[0]
        left = not part or any(other.rpartition(".")[0] == part for other in self.names())
        if left and elastic_lease.read_state(self.server, self._state, known, doing) is not None:
            raise self._missing(name)
        made = indices.create_generation(self.server, self.layout, name, schema)
        elastic_lease.write_state(self.server, self._state, known, {"name": name}, None, doing)
        return made

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


def _find_latest(held: list[Generation]) -> int:
    """Return the newest finished version, or 0 if there is none."""
    return max((int(one.sealed["version"]) for one in held if one.sealed), default=0)


def _is_kept(generation: Generation, held: list[Generation], kept: Set[int]) -> bool:
    if generation.sealed and int(generation.sealed["version"]) in kept:
        return True
    return _find_replacement_time(generation, held) > time.time() - _KEEP


def _find_replacement_time(generation: Generation, held: list[Generation]) -> float:
    """Return the Unix time at which the next state was finished (inf if none was); 0 for an unfinished generation."""
    if not generation.sealed:
        return 0.0
    later = [float(one.sealed["at"]) for one in held if one.sealed and one.number > generation.number]
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
    if not isinstance(name, str) or not re.fullmatch(NAME_PATTERN, name):
        raise StoreError(f"{path} must contain {{'namespace': NAME}}. Got {name!r}.")
    return name
