"""Elasticsearch, the engine for corpora that outgrow one machine: servers 8 (from 8.18) and 9, one cluster for many.

`--store elasticsearch:http://HOST:9200`, or `--store elasticsearch` and ELASTICSEARCH_URL. Keys come from
ELASTICSEARCH_API_KEY, or ELASTICSEARCH_USER and ELASTICSEARCH_PASSWORD; ELASTICSEARCH_CA_FILE names the certificate of
an authority of one's own. Nothing needs scripts, a paid licence or a query that writes.

See `indices` for how finished states are stored, and `search` for how searches are answered.
"""

import re
import time
import uuid
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ragindex import durable_files
from ragindex.errors import DamagedError, StoreError
from ragindex.interfaces import Schema
from ragindex.stores.elasticsearch import client, indices, state
from ragindex.stores.elasticsearch import lease as elastic_lease
from ragindex.stores.elasticsearch.client import Server
from ragindex.stores.elasticsearch.collection import ElasticsearchCollection
from ragindex.stores.elasticsearch.indices import Generation, IndexLayout
from ragindex.stores.elasticsearch.lease import WriterLease
from ragindex.stores.elasticsearch.parameters import NAME_PATTERN, ElasticsearchParameters

_KEEP = 86_400.0
"""Seconds that a replaced state stays: a copy of the index's folder on another machine may still name it."""
_FILE = "elasticsearch.json"


class Elasticsearch(ElasticsearchParameters):
    """Collections on a cluster, as indices PREFIX-WORKSPACE-PART-FINGERPRINT. Keys come from the environment.

    `workspace` is the second part of the names of the indices (default: a name that is stored in `folder`). `shards`,
    `replicas` (default: one where there is a second node) and `refresh` (default: off, searches see finished states)
    are of indices made from now on. Up to `exact_up_to` records vectors are compared one by one; beyond, through a
    graph that looks at `candidates` of them. `analyser` is one of the server's own in place of ragindex's. `writers`
    requests are on their way at once; `timeout` in seconds and `retries` are of each. A lease that nobody renews for
    `lease_seconds` can be taken over.
    """

    @property
    def finishes_by(self) -> Mapping[str, float]:
        """Nothing: an index keeps the settings that it was made with."""
        return {}

    def open(self, folder: Path) -> "ElasticsearchStore":
        """Open the store of the index around `folder`, which contains its name. Raises StoreError, UsageError."""
        server = client.connect(self.url, self.timeout, self.retries)
        name = self.workspace or _workspace_name(folder)
        layout = IndexLayout(self.prefix, name, self.shards, self.replicas, self.refresh, self.analyser)
        return ElasticsearchStore(self, server, layout)


@dataclass(slots=True)
class ElasticsearchStore:
    """See ragindex.interfaces.Store. `held` is the writer's lease while this process has it."""

    settings: Elasticsearch
    server: Server
    layout: IndexLayout
    held: WriterLease | None = None

    def create(self, name: str, schema: Schema) -> ElasticsearchCollection:
        """Raises StoreError if `name` was made with another schema or analyser."""
        held = self._generations(name)
        newest = held[-1] if held else self._make(name, schema)
        if newest.schema != schema:
            raise StoreError(f"The collection {name} was created with {newest.schema}, not with {schema}.")
        if newest.note["analyser"] != self.settings.analyser:
            was = newest.note["analyser"] or "ragindex's own"
            raise StoreError(f"The collection {name} was created with the analyser {was}, which cannot change.")
        return ElasticsearchCollection(self, name, schema)

    def open(self, name: str, version: int) -> ElasticsearchCollection:
        """Raises StoreError where there is no such collection, or the state was deleted since."""
        held = self._generations(name)
        if not held:
            raise self._missing(name)
        for generation in held:
            if generation.sealed and generation.sealed["version"] == version:
                return ElasticsearchCollection(self, name, generation.schema, generation)
        newest = held[-1]
        if not newest.sealed and indices.read_live_version(self.server, newest) >= version > _finished(held):
            return ElasticsearchCollection(self, name, newest.schema)
        raise StoreError(
            f"The store at {self.server.where} has the collection {name} at version {_finished(held)}, no longer at "
            f"{version}. Open the index again; if that does not help, run: ragindex index"
        )

    def names(self) -> list[str]:
        """The names of all collections, sorted."""
        return sorted(indices.list_generations(self.server, self.layout))

    def version(self, name: str) -> int | None:
        """The newest version, None where there is no such collection."""
        held = self._generations(name)
        return indices.read_generation_version(self.server, held[-1]) if held else None

    def clean(self, name: str, kept: Set[int]) -> None:
        """Delete finished states not in `kept` a day after they were replaced, and what a dead writer left."""
        held = self._generations(name)
        indices.delete_indices(self.server, [one for one in held[:-1] if not _stays(one, held, kept)])

    def drop(self, name: str) -> None:
        """Delete all its indices."""
        state.delete_state(self.server, self._state, _collection(name), None, f"drop the collection {name}")
        indices.delete_indices(self.server, self._generations(name))

    @contextmanager
    def lease(self, owner: str) -> Iterator[None]:
        """A document that its holder renews; one whose holder has died can be taken over."""
        lease = elastic_lease.acquire_lease(self.server, self._state, owner, self.settings.lease_seconds)
        self.held = lease
        try:
            yield
        finally:
            self.held = None
            lease.release()

    def newest(self, name: str) -> Generation:
        """The newest generation. Raises StoreError where there is none."""
        held = self._generations(name)
        if not held:
            raise self._missing(name)
        return held[-1]

    @property
    def _state(self) -> str:
        """The index of the store's own documents."""
        return f"{self.layout.base}-state"

    def _make(self, name: str, schema: Schema) -> Generation:
        """Raises StoreError for one that is gone, though nobody has dropped it, while what goes with it is there.

        What is covered would be told from what is left, and nobody would know that something is missing.
        """
        if self.held is not None:
            self.held.check()
        doing, known = f"make the collection {name}", _collection(name)
        state.create_state_index(self.server, self._state, doing)
        part = name.rpartition(".")[0]
        left = not part or any(other.rpartition(".")[0] == part for other in self.names())
        if left and state.read_state(self.server, self._state, known, doing) is not None:
            raise self._missing(name)
        made = indices.create_generation(self.server, self.layout, name, schema)
        state.write_state(self.server, self._state, known, {"name": name}, None, doing)
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


def _collection(name: str) -> str:
    """The document that says that a collection was made, and not dropped."""
    return f"collection {name}"


def _finished(held: list[Generation]) -> int:
    """The newest finished version, 0 where there is none."""
    return max((int(one.sealed["version"]) for one in held if one.sealed), default=0)


def _stays(generation: Generation, held: list[Generation], kept: Set[int]) -> bool:
    if generation.sealed and int(generation.sealed["version"]) in kept:
        return True
    return _replaced(generation, held) > time.time() - _KEEP


def _replaced(generation: Generation, held: list[Generation]) -> float:
    """When the next finished state came, in seconds since 1970; long ago for what was never finished itself."""
    if not generation.sealed:
        return 0.0
    later = [float(one.sealed["at"]) for one in held if one.sealed and one.number > generation.number]
    return min(later, default=float("inf"))


def _workspace_name(folder: Path) -> str:
    """Return the name stored in `folder`; a new one is the name of the folder above and a random suffix."""
    path = folder / _FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            around = re.sub(r"[^a-z0-9]+", "", folder.resolve().parent.name.lower())[:24] or "index"
            durable_files.write_file(
                path, durable_files.dump_hashed_json({"workspace": f"{around}.{uuid.uuid4().hex[:8]}"})
            )
        name = (durable_files.load_hashed_json(path.read_bytes()) or {}).get("workspace")
    except OSError as error:
        raise StoreError(f"Cannot read or write {path}, the name of the index in the store: {error}.") from error
    if name is None:
        raise DamagedError(
            f"{path}, the name of this index in the store, is damaged. Run: ragindex index DATA --index OTHER"
        )
    if not isinstance(name, str) or not re.fullmatch(NAME_PATTERN, name):
        raise StoreError(f"{path} must contain {{'workspace': NAME}}. Got {name!r}.")
    return name
