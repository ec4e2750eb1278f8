"""Rescue of the documents of an index whose collection is damaged, gone, or older than the last finished sync.

Documents that a program or a server added are nowhere else, so everything that can be read is carried over into a new
collection, and the files of the old one are kept. Each document is verified by its revision. A repair that is killed
goes on with the file of what it had read.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import pyarrow as pa

from ragindex import durable_files
from ragindex.corpus.chunking import split_passage_id
from ragindex.errors import EngineError
from ragindex.interfaces import Collection, Store
from ragindex.workspace.documents import DOCUMENT_ROWS, DOCUMENT_SCHEMA, is_whole_row
from ragindex.workspace.manifest import Manifest

_BATCH = 2000
RESCUED_FILES = "documents.*.rescued.arrow"
"""The pattern of the files of documents that were read by a repair that was killed."""


@runtime_checkable
class RescuingStore(Protocol):
    """A store whose damaged collections can be found by hashes, read in part, and moved away."""

    def find_changed_file(self, name: str) -> str | None:
        """Describe a file of a collection that has changed since it was written, or return None. Raises EngineError."""
        ...

    def rescue(self, name: str, version: int) -> Iterator[pa.Table]:
        """Yield the records of a version that can be read, with all their fields. Raises EngineError if none can."""
        ...

    def set_aside(self, name: str) -> Path | None:
        """Move a collection's files out of the way and return their new path."""
        ...


@dataclass(frozen=True, slots=True)
class Rescued:
    """The new collection, the ids of the documents that could not be read, and where the old files lie.

    `complete` says whether all documents are known to be there.
    """

    collection: Collection
    lost: list[str]
    complete: bool
    aside: Path | None
    file: Path
    """The documents that were carried over; to be removed once the manifest names the new collection."""


def find_documents_loss(store: Store, manifest: Manifest) -> str | None:
    """Return how the documents are not those of the last finished sync or a later state, without reading them."""
    newest = store.version("documents")
    if newest is None:
        return "the collection documents is gone"
    if newest < manifest.documents_version:
        return "the collection documents is older than the last finished sync, as after a partial restore"
    try:
        if manifest.documents_identity not in ("", store.open("documents", newest).identity):
            return "the collection documents is not that of the last finished sync"
    except EngineError:
        return "the collection documents cannot be opened"
    return None


def find_documents_damage(store: Store, manifest: Manifest) -> str | None:
    """Return how the documents differ from those of the last finished sync or a later change, or None."""
    newest, loss = store.version("documents"), find_documents_loss(store, manifest)
    if newest is None or loss is not None:
        return loss
    try:
        collection, read = store.open("documents", newest), 0
        for batch in collection.scan(DOCUMENT_ROWS.names[1:]):
            read += len(batch)
            changed = [row["id"] for row in batch.to_pylist() if not is_whole_row(row)]
            if changed:
                return f"the document {changed[0]!r} has changed since it was written"
        if read != collection.count():
            return f"the collection documents holds {collection.count()} records, and {read} could be read"
    except EngineError as error:
        return str(error).removesuffix(".")
    return None


def rescue_documents(folder: Path, manifest: Manifest, store: Store) -> Rescued | None:
    """Carry the readable documents over into a new collection; None if the store cannot do that. Raises StoreError."""
    if not isinstance(store, RescuingStore):
        return None
    file = folder / f"documents.{manifest.documents_identity[:8]}-{manifest.documents_version}.rescued.arrow"
    known = _list_newest_ids(store, manifest)
    built = _list_built_ids(store, manifest)
    if not file.exists():
        versions = [manifest.documents_version, store.version("documents")]
        tables = _read_documents(store, versions if known is None else versions[::-1], known or built)
        with durable_files.replace_file(file) as sink, pa.ipc.new_file(sink, DOCUMENT_ROWS) as written:
            for table in tables:
                written.write_table(table)
    aside = store.set_aside("documents")
    collection, kept = store.create("documents", DOCUMENT_SCHEMA), set[str]()
    with pa.memory_map(str(file)) as source:
        for batch in pa.ipc.open_file(source).read_all().to_batches(max_chunksize=_BATCH):
            collection.upsert(batch)
            kept.update(batch.column("id").to_pylist())
    collection.finish()
    expected = built if known is None else known
    complete = expected <= kept and len(kept) >= (manifest.documents if known is None else len(known))
    return Rescued(collection, sorted(expected - kept), complete, aside, file)


def _list_newest_ids(store: Store, manifest: Manifest) -> frozenset[str] | None:
    """Return the ids of the newest documents; None if they cannot be read, or are older than those of the parts."""
    newest = store.version("documents")
    if newest is None or newest < manifest.documents_version:
        return None
    try:
        collection = store.open("documents", newest)
        if collection.identity != manifest.documents_identity:
            return None
        return frozenset(id for batch in collection.scan(()) for id in batch.column("id").to_pylist())
    except EngineError:
        return None


def _list_built_ids(store: Store, manifest: Manifest) -> frozenset[str]:
    """Return the ids of the documents that parts were built from."""
    found, whole = set[str](), manifest.settings.by is None
    for key, record in manifest.parts.items():
        version = store.version(f"{key}.coverage")
        if record.inputs or version is None:
            continue
        try:
            for batch in store.open(f"{key}.coverage", version).scan(()):
                for id in batch.column("id").to_pylist():
                    split = split_passage_id(id)
                    found.add(id if split is None or (whole and split[1] == "#") else split[0])
        except EngineError:
            continue
    return frozenset(found)


def _read_documents(store: RescuingStore, versions: Iterable[int | None], wanted: frozenset[str]) -> Iterator[pa.Table]:
    """Yield the whole records of the documents `wanted` (empty: of any), each from the first version that has it."""
    taken = set[str]()
    for version in dict.fromkeys(one for one in versions if one):
        try:
            for table in store.rescue("documents", version):
                rows = [
                    row
                    for row in table.to_pylist()
                    if row["id"] not in taken and (not wanted or row["id"] in wanted) and is_whole_row(row)
                ]
                taken.update(row["id"] for row in rows)
                yield pa.Table.from_pylist(rows, schema=DOCUMENT_ROWS)
        except EngineError:
            continue
