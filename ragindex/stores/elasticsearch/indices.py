"""Collections as indices, and finished states as indices that take no more writes.

Elasticsearch keeps no versions, and a reader of ragindex stays at the state it was opened at. A collection is
therefore a row of *generations*, each an index of its own:

- The newest takes the writes. `finish` seals it: a write block, and a note in the mapping that says at which version.
- The first write after that clones it (`_clone`: hard links to the same files, no record is read or sent) and goes to
  the clone. A sealed index never changes, so a reader's records, statistics and vectors are what they were.
- A generation that was replaced stays as long as a reader of the workspace's folder holds a lease on it, and a day in
  any case, for copies of the folder on other machines; then `clean` deletes it.

A version is one more than the number of write operations that the collection has seen, which the engine counts
itself (sequence numbers) and a clone inherits: it rises with every write, whoever writes, and nothing has to be written
to raise it. Only finished versions can be opened later; what is asked for in between is the newest state.

The alternatives: records with the generations they were born and died in make every reader's BM25 statistics those of
all generations together, and every search filter; copies (`_reindex`) cost a pass over all records for each sync.
"""

import hashlib
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from ragindex.errors import StoreError
from ragindex.http import TroubleError
from ragindex.interfaces import Schema
from ragindex.stores.elasticsearch import totals as elastic_totals
from ragindex.stores.elasticsearch.client import Server
from ragindex.stores.elasticsearch.records import SIMILARITY, build_mapping

ELASTICSEARCH_FORMAT = 1
_PARTS = ("*.mappings._meta.ragindex", "*.settings.index.blocks", "*.settings.index.number_of_shards")
_PATIENCE = 3600.0
"""Seconds that merging a large index may take."""


@dataclass(frozen=True, slots=True)
class IndexLayout:
    """How the store's indices are named and made."""

    prefix: str
    workspace: str
    shards: int
    replicas: int | None
    refresh: str
    analyser: str | None

    @property
    def base(self) -> str:
        """What all names begin with."""
        return f"{self.prefix}-{self.workspace}"

    def stem(self, name: str) -> str:
        """What the names of the generations of the collection `name` begin with."""
        slug = re.sub(r"[^a-z0-9._-]", "-", name.lower())[:120]
        exact = "" if slug == name else f"-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        return f"{self.base}-{slug}{exact}"

    def settings(self) -> dict[str, Any]:
        """Those of a new index. Searches see what is written when somebody asks, or not before it is finished."""
        copies = {"auto_expand_replicas": "0-1"} if self.replicas is None else {"number_of_replicas": self.replicas}
        merging = {"merge.policy.expunge_deletes_allowed": 0, "store.stats_refresh_interval": "0s"}
        return {"number_of_shards": self.shards, "refresh_interval": self.refresh, **copies, **merging}


@dataclass(frozen=True, slots=True)
class Generation:
    """One index of a collection. `note` is what was kept in its mapping, its schema among it."""

    index: str
    blocked: bool
    shards: int
    note: Mapping[str, Any]

    @property
    def number(self) -> int:
        """1 for the first; a clone has one more."""
        return int(self.index.rpartition("-")[2])

    @property
    def alias(self) -> str:
        """What writes go to: writing to a name that is no alias fails, where writing to no index would make one."""
        return f"{self.index}-writes"

    @property
    def sealed(self) -> Mapping[str, Any] | None:
        """`version`, `at` (seconds since 1970) and the totals of a finished state; None for one that takes writes."""
        sealed: Mapping[str, Any] | None = self.note.get("sealed")
        return sealed if sealed is not None and sealed["generation"] == self.number else None  # else of what was cloned

    @property
    def schema(self) -> Schema:
        """What the collection was made with."""
        stored = self.note["schema"]
        lists = {name: tuple(stored[name]) for name in ("stored", "keywords", "numbers", "text")}
        return Schema(**lists, language=stored["language"], dimensions=stored["dimensions"])


# ---------------------------------------------------------------- finding


def list_generations(server: Server, layout: IndexLayout, name: str | None = None) -> dict[str, list[Generation]]:
    """The generations of the collection `name`, or of all, oldest first, by collection.

    Raises StoreError for indices of another format than this version reads.
    """
    pattern = f"{layout.base if name is None else layout.stem(name)}-*"
    answer = server.ask(
        "list its collections" if name is None else f"look for the collection {name}",
        lambda client: client.indices.get(index=pattern, filter_path=list(_PARTS), expand_wildcards="open"),
    )
    found: dict[str, list[Generation]] = {}
    for index, parts in dict(answer).items():
        note = parts.get("mappings", {}).get("_meta", {}).get("ragindex")
        if note is not None and note["workspace"] == layout.workspace and name in (None, note["name"]):
            _check_format(server, index, note)
            settings = parts["settings"]["index"]
            blocked = str(settings.get("blocks", {}).get("write", "false")) == "true"
            found.setdefault(note["name"], []).append(
                Generation(index, blocked, int(settings["number_of_shards"]), note)
            )
    return {one: sorted(held, key=lambda generation: generation.number) for one, held in found.items()}


def _check_format(server: Server, index: str, note: Mapping[str, Any]) -> None:
    if note["format"] != ELASTICSEARCH_FORMAT:
        raise StoreError(
            f"The index {index} at {server.where} has format {note['format']}; "
            f"this ragindex reads {ELASTICSEARCH_FORMAT}. "
            "Run ragindex index DATA --index with another folder, or use the version that created it."
        )


def read_live_version(server: Server, generation: Generation) -> int:
    """The version of what an index holds now. Raises StoreError where one of its shards is not to be had."""
    doing, field = f"read the state of the index {generation.index}", "seq_no.max_seq_no"
    held = elastic_totals.read_primary_shards(server, doing, generation.index, generation.shards, "docs", [field])
    return 1 + sum(int(one["seq_no"]["max_seq_no"]) + 1 for one in held)


def read_generation_version(server: Server, generation: Generation) -> int:
    """The version of a generation, sealed or not."""
    return int(generation.sealed["version"]) if generation.sealed else read_live_version(server, generation)


# ---------------------------------------------------------------- making


def create_generation(server: Server, layout: IndexLayout, name: str, schema: Schema) -> Generation:
    """Create the first generation of a new collection."""
    note = {
        **{"format": ELASTICSEARCH_FORMAT, "workspace": layout.workspace, "name": name, "analyser": layout.analyser},
        **{"schema": asdict(schema), "vectors": "flat"},
    }
    generation = Generation(f"{layout.stem(name)}-{uuid.uuid4().hex[:8]}-1", False, layout.shards, note)
    described = {**build_mapping(schema, layout.analyser), "_meta": {"ragindex": note}}
    settings = {**layout.settings(), "similarity": SIMILARITY}
    _made(
        server,
        f"make the collection {name}",
        generation.index,
        lambda client: client.indices.create(
            index=generation.index, mappings=described, settings=settings, aliases={generation.alias: {}}
        ),
    )
    return generation


def clone_generation(server: Server, name: str, old: Generation) -> Generation:
    """Clone a generation that is closed to writes into a new one."""
    new = replace(old, index=f"{old.index.rpartition('-')[0]}-{old.number + 1}", blocked=False)
    block_writes(server, name, old)
    _made(
        server,
        f"clone the collection {name}",
        new.index,
        lambda client: client.indices.clone(
            index=old.index, target=new.index, settings={"index.blocks.write": False}, aliases={new.alias: {}}
        ),
    )
    return new


def _made(server: Server, doing: str, index: str, call: Any) -> None:
    """Do it, and wait until every shard is there; a try whose answer was lost has made it already."""
    try:
        answer = server.try_to(call)
    except TroubleError as error:
        if error.trouble.code != "resource_already_exists_exception":
            raise server.failure(doing, error.trouble) from None
        answer = {"shards_acknowledged": False}
    if not answer["shards_acknowledged"]:
        server.ask(doing, lambda client: client.cluster.health(index=index, wait_for_status="yellow", timeout="60s"))


def block_writes(server: Server, name: str, generation: Generation) -> None:
    """Block writes, after those in flight are done."""
    if not generation.blocked:
        server.ask(
            f"finish the collection {name}",
            lambda client: client.indices.add_block(index=generation.index, block="write"),
        )


def unblock_writes(server: Server, name: str, generation: Generation) -> Generation:
    """Allow writes again, after a `finish` that was interrupted."""
    if not generation.blocked:
        return generation
    server.ask(
        f"write to the collection {name}",
        lambda client: client.indices.put_settings(index=generation.index, settings={"index.blocks.write": False}),
    )
    return replace(generation, blocked=False)


def write_note(server: Server, name: str, generation: Generation, **changes: Any) -> Generation:
    """Write a note into the mapping."""
    note = {**generation.note, **changes}
    server.ask(
        f"finish the collection {name}",
        lambda client: client.indices.put_mapping(index=generation.index, meta={"ragindex": note}),
    )
    return replace(generation, note=note)


def seal_generation(server: Server, name: str, generation: Generation, totals: Mapping[str, Any]) -> Generation:
    """The finished state; the note in the mapping is what makes it one."""
    block_writes(server, name, generation)
    server.ask(f"finish the collection {name}", lambda client: client.indices.flush(index=generation.index))
    version = read_live_version(server, generation)
    sealed = {**totals, "generation": generation.number, "version": version, "at": time.time()}
    return write_note(server, name, replace(generation, blocked=True), sealed=sealed)


def merge_segments(server: Server, name: str, generation: Generation, **how: Any) -> None:
    """Rewrite what was deleted, or all as one segment a shard."""
    server.ask(
        f"finish the collection {name}",
        lambda client: client.options(request_timeout=_PATIENCE).indices.forcemerge(index=generation.index, **how),
    )


def rewrite_index(server: Server, name: str, generation: Generation) -> None:
    """Rewrite all records with the current mapping, in one segment a shard.

    The engine leaves a shard alone that is one segment already: so one record of each is written again, as it is.
    """
    for shard in range(generation.shards):
        server.ask(f"finish the collection {name}", partial(_write_again, generation=generation, shard=shard))
    merge_segments(server, name, generation, max_num_segments=1)


def _write_again(client: Any, generation: Generation, shard: int) -> None:
    # everything by name: servers from 9.2 leave vectors out of what is not asked for so
    found = client.search(
        index=generation.index,
        size=1,
        source=["*"],
        preference=f"_shards:{shard}",
        allow_partial_search_results=False,
    )
    for one in found["hits"]["hits"]:
        client.index(index=generation.alias, id=one["_id"], document=one["_source"], require_alias=True, refresh=True)


def delete_indices(server: Server, doomed: Sequence[Generation]) -> None:
    """Indices that are there no more are no error."""
    for generation in doomed:
        server.ask(
            f"delete the index {generation.index}",
            partial(_deleted, index=generation.index),
        )


def _deleted(client: Any, index: str) -> Any:
    return client.indices.delete(index=index, ignore_unavailable=True)
