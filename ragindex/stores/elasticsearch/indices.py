"""The indices of collections: each finished state is an index that takes no more writes.

Elasticsearch keeps no versions, but a reader of ragindex stays at the state it was opened at. A collection is therefore
a series of *generations*, each an index of its own:

- The newest generation takes the writes. `finish` seals it with a write block and a note in the mapping that contains
  the version.
- The first write after that clones the index (`_clone`: hard links to the same files; no record is read or sent) and
  goes to the clone. A sealed index never changes, so a reader's records, statistics and vectors stay the same.
- A replaced generation is kept while a reader of the index folder holds a lease on it, and for at least a day,
  for copies of the folder on other machines. Then `clean` deletes it.

A version is one more than the number of write operations on the collection. Elasticsearch counts them itself (sequence
numbers), and a clone inherits the count. The version therefore increases with every write by any process, without an
extra write. Only finished versions can be opened later; opening a version in between gives the newest state.

The alternatives are worse. If records stored the generations in which they were added and deleted, BM25 statistics
would cover all generations together, and every search would need a filter. Copies (`_reindex`) cost a pass over all
records for each sync.
"""

import hashlib
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from ragindex._util.http import RequestProblemError
from ragindex.errors import StoreError
from ragindex.interfaces import Schema
from ragindex.stores.elasticsearch.client import Server
from ragindex.stores.elasticsearch.records import SIMILARITY, build_mapping
from ragindex.stores.records import read_schema

ELASTICSEARCH_FORMAT = 3
_RESPONSE_FIELDS = ("*.mappings._meta.ragindex", "*.settings.index.blocks", "*.settings.index.number_of_shards")
_MERGE_TIMEOUT = 3600.0
"""The timeout of a merge in seconds, enough for a large index."""


@dataclass(frozen=True, slots=True)
class IndexLayout:
    """The names and settings of the store's indices."""

    prefix: str
    namespace: str
    shards: int
    replicas: int | None
    refresh: str
    analyser: str | None

    @property
    def base(self) -> str:
        """The prefix of all index names."""
        return f"{self.prefix}-{self.namespace}"

    def stem(self, name: str) -> str:
        """Return the prefix of the index names of the collection `name`."""
        slug = re.sub(r"[^a-z0-9._-]", "-", name.lower())[:120]
        exact = "" if slug == name else f"-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        return f"{self.base}-{slug}{exact}"

    def settings(self) -> dict[str, Any]:
        """Return the settings of a new index. With refresh "-1", searches see writes only after an explicit refresh."""
        copies = {"auto_expand_replicas": "0-1"} if self.replicas is None else {"number_of_replicas": self.replicas}
        merging = {"merge.policy.expunge_deletes_allowed": 0, "store.stats_refresh_interval": "0s"}
        return {"number_of_shards": self.shards, "refresh_interval": self.refresh, **copies, **merging}


@dataclass(frozen=True, slots=True)
class Generation:
    """One index of a collection. `note` is the metadata stored in its mapping, including the schema."""

    index: str
    blocked: bool
    shards: int
    note: Mapping[str, Any]

    @property
    def number(self) -> int:
        """The number of the generation: 1 for the first, one more for each clone."""
        return int(self.index.rpartition("-")[2])

    @property
    def alias(self) -> str:
        """The alias for writes, which require one: a write to a missing alias fails instead of creating an index."""
        return f"{self.index}-writes"

    @property
    def sealed(self) -> Mapping[str, Any] | None:
        """The `version`, `at` (Unix time) and totals of a finished state; None for a generation that takes writes."""
        sealed: Mapping[str, Any] | None = self.note.get("sealed")
        # A clone inherits the note of the generation that it was cloned from.
        return sealed if sealed is not None and sealed["generation"] == self.number else None

    @property
    def schema(self) -> Schema:
        """The schema that the collection was created with."""
        return read_schema(self.note["schema"])


# ---------------------------------------------------------------- lookup


def list_generations(server: Server, layout: IndexLayout, name: str | None = None) -> dict[str, list[Generation]]:
    """Return the generations of the collection `name`, or of all collections, by collection, oldest first.

    Raises StoreError if an index has a format that this version cannot read.
    """
    pattern = f"{layout.base if name is None else layout.stem(name)}-*"
    answer = server.ask(
        "list its collections" if name is None else f"look for the collection {name}",
        lambda client: client.indices.get(index=pattern, filter_path=list(_RESPONSE_FIELDS), expand_wildcards="open"),
    )
    generations: dict[str, list[Generation]] = {}
    for index, parts in dict(answer).items():
        note = parts.get("mappings", {}).get("_meta", {}).get("ragindex")
        ours = note is not None and note.get("namespace", layout.namespace) == layout.namespace
        if ours and name in (None, note["name"]):
            if note["format"] != ELASTICSEARCH_FORMAT:
                raise StoreError(
                    f"The index {index} at {server.where} has format {note['format']}; "
                    f"this ragindex reads {ELASTICSEARCH_FORMAT}. "
                    "Run ragindex index DATA --index with another folder, or use the version that created it."
                )
            settings = parts["settings"]["index"]
            blocked = str(settings.get("blocks", {}).get("write", "false")) == "true"
            generation = Generation(index, blocked, int(settings["number_of_shards"]), note)
            generations.setdefault(note["name"], []).append(generation)
    return {name: sorted(series, key=lambda generation: generation.number) for name, series in generations.items()}


def read_live_version(server: Server, generation: Generation) -> int:
    """Read the current version of an index from the server. Raises StoreError if one of its shards is unavailable."""
    doing, field = f"read the state of the index {generation.index}", "seq_no.max_seq_no"
    shards = read_primary_shards(server, doing, generation.index, generation.shards, "docs", [field])
    return 1 + sum(int(shard["seq_no"]["max_seq_no"]) + 1 for shard in shards)


def read_generation_version(server: Server, generation: Generation) -> int:
    """Return the version of a generation, sealed or not."""
    return int(generation.sealed["version"]) if generation.sealed else read_live_version(server, generation)


# ---------------------------------------------------------------- changes


def create_generation(server: Server, layout: IndexLayout, name: str, schema: Schema) -> Generation:
    """Create the first generation of a new collection."""
    note = {
        **{"format": ELASTICSEARCH_FORMAT, "namespace": layout.namespace, "name": name, "analyser": layout.analyser},
        **{"schema": asdict(schema), "vectors": "flat"},
    }
    generation = Generation(f"{layout.stem(name)}-{uuid.uuid4().hex[:8]}-1", False, layout.shards, note)
    described = {**build_mapping(schema, layout.analyser), "_meta": {"ragindex": note}}
    settings = {**layout.settings(), "similarity": SIMILARITY}
    _create_index(
        server,
        f"make the collection {name}",
        generation.index,
        lambda client: client.indices.create(
            index=generation.index, mappings=described, settings=settings, aliases={generation.alias: {}}
        ),
    )
    return generation


def clone_generation(server: Server, name: str, old: Generation) -> Generation:
    """Block writes to a generation and clone it into a new one."""
    new = replace(old, index=f"{old.index.rpartition('-')[0]}-{old.number + 1}", blocked=False)
    block_writes(server, name, old)
    _create_index(
        server,
        f"clone the collection {name}",
        new.index,
        lambda client: client.indices.clone(
            index=old.index, target=new.index, settings={"index.blocks.write": False}, aliases={new.alias: {}}
        ),
    )
    return new


def _create_index(server: Server, doing: str, index: str, call: Any) -> None:
    """Create an index with `call`, and wait until its shards have started.

    If the index already exists, it was created by an earlier try whose response was lost.
    """
    try:
        answer = server.try_to(call)
    except RequestProblemError as error:
        if error.problem.code != "resource_already_exists_exception":
            raise server.failure(doing, error.problem) from None
        answer = {"shards_acknowledged": False}
    if not answer["shards_acknowledged"]:
        server.ask(doing, lambda client: client.cluster.health(index=index, wait_for_status="yellow", timeout="60s"))


def block_writes(server: Server, name: str, generation: Generation) -> None:
    """Block writes to an index, after writes in progress have ended."""
    if not generation.blocked:
        server.ask(
            f"finish the collection {name}",
            lambda client: client.indices.add_block(index=generation.index, block="write"),
        )


def unblock_writes(server: Server, name: str, generation: Generation) -> Generation:
    """Allow writes again after an interrupted `finish`."""
    if not generation.blocked:
        return generation
    server.ask(
        f"write to the collection {name}",
        lambda client: client.indices.put_settings(index=generation.index, settings={"index.blocks.write": False}),
    )
    return replace(generation, blocked=False)


def write_note(server: Server, name: str, generation: Generation, **changes: Any) -> Generation:
    """Update the note in the mapping of an index."""
    note = {**generation.note, **changes}
    server.ask(
        f"finish the collection {name}",
        lambda client: client.indices.put_mapping(index=generation.index, meta={"ragindex": note}),
    )
    return replace(generation, note=note)


def seal_generation(server: Server, name: str, generation: Generation, totals: Mapping[str, Any]) -> Generation:
    """Seal a generation: block writes, flush, and write the note that makes it a finished state."""
    block_writes(server, name, generation)
    server.ask(f"finish the collection {name}", lambda client: client.indices.flush(index=generation.index))
    version = read_live_version(server, generation)
    sealed = {**totals, "generation": generation.number, "version": version, "at": time.time()}
    return write_note(server, name, replace(generation, blocked=True), sealed=sealed)


def merge_segments(server: Server, name: str, generation: Generation, **how: Any) -> None:
    """Merge the segments of an index, with the options `how` of the server's force merge."""
    server.ask(
        f"finish the collection {name}",
        lambda client: client.options(request_timeout=_MERGE_TIMEOUT).indices.forcemerge(index=generation.index, **how),
    )


def rewrite_index(server: Server, name: str, generation: Generation) -> None:
    """Rewrite all records with the current mapping, in one segment per shard.

    The server does not rewrite a shard that already is one segment, so one record of each shard is written again first.
    """
    for shard in range(generation.shards):
        server.ask(f"finish the collection {name}", partial(_write_again, generation=generation, shard=shard))
    merge_segments(server, name, generation, max_num_segments=1)


def _write_again(client: Any, generation: Generation, shard: int) -> None:
    # Servers from 9.2 leave vectors out of `_source` unless all fields are requested explicitly.
    response = client.search(
        index=generation.index,
        size=1,
        source=["*"],
        preference=f"_shards:{shard}",
        allow_partial_search_results=False,
    )
    for hit in response["hits"]["hits"]:
        client.index(index=generation.alias, id=hit["_id"], document=hit["_source"], require_alias=True, refresh=True)


def delete_indices(server: Server, generations: Sequence[Generation]) -> None:
    """Delete indices; those that no longer exist are ignored."""
    for generation in generations:
        server.ask(f"delete the index {generation.index}", partial(_delete_index, index=generation.index))


def _delete_index(client: Any, index: str) -> Any:
    return client.indices.delete(index=index, ignore_unavailable=True)


# ---------------------------------------------------------------- totals


_MAX_KEYS = 30_000
"""The most metadata keys to list. The server allows 65,536 buckets; a truncated list is rejected (see `responses`)."""


def count_totals(server: Server, index: str, shards: int) -> dict[str, Any]:
    """Count the totals of an index.

    Returns the number of `records`; of `stale` ones, which are deleted but still in the server's statistics; of records
    with text (`filled`), their `tokens` and the `longest`; the metadata `fields`, and those with several values
    (`groups`).
    """
    doing = f"count the index {index}"
    aggregations = {
        "filled": {"value_count": {"field": "length"}},
        "tokens": {"sum": {"field": "length"}},
        "longest": {"max": {"field": "length"}},
        "fields": {"terms": {"field": "fields", "size": _MAX_KEYS}},
        "groups": {"terms": {"field": "groups", "size": _MAX_KEYS}},
    }
    server.ask(doing, lambda client: client.indices.refresh(index=index))
    response = server.ask(
        doing,
        lambda client: client.search(
            index=index, size=0, aggs=aggregations, track_total_hits=True, allow_partial_search_results=False
        ),
    )
    counts = response["aggregations"]
    return {
        "records": int(response["hits"]["total"]["value"]),
        "stale": read_disk_figures(server, index, shards)["deleted"],
        **{name: int(counts[name]["value"] or 0) for name in ("filled", "tokens", "longest")},
        **{name: sorted(bucket["key"] for bucket in counts[name]["buckets"]) for name in ("fields", "groups")},
    }


def read_disk_figures(server: Server, index: str, shards: int) -> dict[str, int]:
    """Return the number of `deleted` documents not yet merged away, and the `bytes`, of the primary shards."""
    fields = ("docs.deleted", "store.size_in_bytes")
    statistics = read_primary_shards(server, f"measure the index {index}", index, shards, "docs,store", fields)
    return {
        "deleted": sum(int(shard["docs"]["deleted"]) for shard in statistics),
        "bytes": sum(int(shard["store"]["size_in_bytes"]) for shard in statistics),
    }


def read_primary_shards(
    server: Server, doing: str, index: str, shards: int, metric: str, fields: Sequence[str]
) -> list[Mapping[str, Any]]:
    """Return the statistics of each primary shard. Raises StoreError if one of the `shards` is unavailable.

    The server's own sums silently leave out shards that it cannot reach.
    """
    columns = ("routing.primary", *fields)
    answer = server.ask(
        doing,
        lambda client: client.indices.stats(
            index=index,
            level="shards",
            metric=metric,
            filter_path=["_shards", *(f"indices.*.shards.*.{field}" for field in columns)],
        ),
    )
    copies = [
        copy
        for index_shards in answer.get("indices", {}).values()
        for primaries in index_shards["shards"].values()
        for copy in primaries
    ]
    parts = [field.partition(".")[0] for field in fields]
    primaries = [copy for copy in copies if copy["routing"]["primary"] and all(part in copy for part in parts)]
    if len(primaries) < shards:
        raise StoreError(
            f"{len(primaries)} of {shards} shards of the index {index} at {server.where} answer. "
            "Check GET _cluster/health, and run the command again once no index is red."
        )
    return primaries
