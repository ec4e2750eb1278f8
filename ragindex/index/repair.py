"""Detection of damaged data in an index, and removal of what the next sync can rebuild.

Files are checked by their hashes (`ragindex._util.durable_files`), those of the store too if it has hashes. Its
collections are read completely besides. Documents that a program or a server added are nowhere else, so everything that
can be read of a damaged collection is carried over into a new one, and the files of the old one are kept. Each document
is verified by its revision. A repair that is killed goes on with the file of what it had read.

An index of an older format is replaced by an empty one that keeps the paid work: cached answers and vectors.
"""

import os
import shlex
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import wraps
from itertools import count
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import pyarrow as pa

from ragindex._util import durable_files
from ragindex._util.sqlite import require_sqlite_log
from ragindex._util.text import first_names, many
from ragindex.corpus.chunking import split_passage_id
from ragindex.errors import DamagedError, EngineError, StoreError, UsageError
from ragindex.index.documents import DOCUMENT_ROWS, DOCUMENT_SCHEMA, is_whole_row
from ragindex.index.manifest import Manifest, older_format
from ragindex.index.models import CALLS, vector_cache_path
from ragindex.index.parts import require_import
from ragindex.interfaces import Collection, Store

_P = ParamSpec("_P")
_R = TypeVar("_R")
_BATCH = 2000
_DAMAGE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
NO_TABLES = "has no tables"
"""How a database is damaged whose process was killed before it made its tables, or that was emptied."""


class _HasFolder(Protocol):
    @property
    def folder(self) -> Path:
        """The folder of the index."""
        ...


_W = TypeVar("_W", bound=_HasFolder)


# ---------------------------------------------------------------- store errors


def with_repair_hint(error: EngineError, folder: Path) -> EngineError:
    """Return the error with the command that repairs damaged store files added to its message."""
    command = durable_files.repair_hint(folder)
    return error if command in str(error) else EngineError(f"{error} If its files are damaged: {command}")


def adds_repair_hint(work: Callable[Concatenate[_W, _P], _R]) -> Callable[Concatenate[_W, _P], _R]:
    """Decorate a method of an index so that its EngineErrors name the repair command."""

    @wraps(work)
    def wrapped(self: _W, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return work(self, *args, **kwargs)
        except EngineError as error:
            raise with_repair_hint(error, self.folder) from error

    return wrapped


# ---------------------------------------------------------------- before a sync


def damaged_files(folder: Path, manifest: Manifest, keys: Iterable[str]) -> list[str]:
    """Return one sentence for each damaged folder of the finished parts among `keys`."""
    folders = _list_folders(folder, manifest, keys)
    return [wrong for path in folders if (wrong := durable_files.find_named_folder_damage(path)) is not None]


def find_changes(folder: Path, manifest: Manifest, store: Store) -> list[str]:
    """Return one sentence for the documents, and each collection and folder of a part, if they have changed."""
    wrong = find_documents_damage(store, manifest)
    changed = [*([] if wrong is None else [wrong]), *damaged_files(folder, manifest, manifest.parts)]
    if store.keeps_files:
        names = (name for name in store.names() if name != "documents")
        changed += [wrong for name in names if (wrong := store.find_changed_file(name)) is not None]
    return changed


def _list_folders(folder: Path, manifest: Manifest, keys: Iterable[str]) -> list[Path]:
    finished = [key for key in keys if key in manifest.parts]
    return [folder / "parts" / key / name for key in finished for name in manifest.parts[key].files]


# ---------------------------------------------------------------- everything


@dataclass(slots=True)
class Findings:
    """The result of a repair: damaged data that were removed (a sync rebuilds them), and lost data with commands."""

    removed: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


def find_damage(
    folder: Path,
    manifest: Manifest,
    store: Store,
    damaged_fit: str | None,
    drop: Callable[[str], None],
    pin_documents: Callable[[Collection], None],
) -> Findings:
    """Check everything in an index and remove what is damaged, but documents. Raises StoreError.

    `drop` removes a part; `pin_documents` pins readers to a new collection of the documents that can be read.
    """
    findings = Findings()
    for path in folder.glob("*.partial"):  # left by a process that was killed while writing
        path.unlink(missing_ok=True)
    _check_documents(folder, manifest, store, pin_documents, findings)
    if damaged_fit is not None:
        findings.removed.append(damaged_fit)
    _check_collections(folder, manifest, store, drop, findings)
    hashed = {path.parent for path in (folder / "parts").glob(f"*/*/{durable_files.HASHES_FILE}")}
    for path in sorted(hashed.union(_list_folders(folder, manifest, manifest.parts))):
        if (wrong := durable_files.find_named_folder_damage(path)) is not None:
            shutil.rmtree(path, ignore_errors=True)
            findings.removed.append(wrong)
    for name, digest in manifest.imports.items():
        try:
            require_import(folder, digest, manifest.imported_from.get(name, ""))
        except DamagedError as error:
            findings.lost.append(str(error))
    _check_databases(folder, findings)
    return findings


def _check_collections(
    folder: Path, manifest: Manifest, store: Store, drop: Callable[[str], None], findings: Findings
) -> None:
    dropped = set[str]()
    recorded = [f"{key}.{kind}" for key, record in manifest.parts.items() for kind in record.collections]
    for name in sorted({*recorded, *store.names()} - {"documents"}):
        part, _, kind = name.rpartition(".")
        if part in dropped:
            continue
        record = manifest.parts.get(part)
        wrong = _find_collection_damage(
            store,
            name,
            record.collections.get(kind) if record else None,
            record.identities.get(kind) if record else None,
        )
        if wrong is not None:
            findings.removed.append(f"The part {part}: {wrong}")
            # its texts may be all that is left of a lost document
            if findings.lost:
                for collection in record.collections if record else ():
                    store.set_aside(f"{part}.{collection}")
            drop(part)
            dropped.add(part)


def _check_documents(
    folder: Path, manifest: Manifest, store: Store, pin_documents: Callable[[Collection], None], findings: Findings
) -> None:
    """Rescue damaged documents. None is removed, because there may be no other copy of them."""
    wrong = find_documents_damage(store, manifest)
    if wrong is None:
        for path in folder.glob(RESCUED_FILES):  # of a repair that was killed at its end
            path.unlink(missing_ok=True)
        return
    rescued = rescue_documents(folder, manifest, store)
    sentence = f"The documents of {folder}: {wrong}."
    roots = [shlex.quote(source.root) for source in manifest.sources.values() if source.root] or ["DATA"]
    indexing = ", then: ".join(f"ragindex index {root} --index {shlex.quote(str(folder))}" for root in roots)
    commands = f"Run: {indexing}"
    if rescued is None:
        findings.lost.append(f"{sentence} {commands}")
        return
    pin_documents(rescued.collection)
    rescued.file.unlink(missing_ok=True)
    remaining = f" {many(rescued.collection.count(), 'document')} could be read and stay in the index."
    aside = f" What is left of the old files was moved to {rescued.aside}." if rescued.aside else ""
    if rescued.complete:
        findings.removed.append(f"{sentence}{remaining}{aside}")
        return
    ids = f" {many(len(rescued.lost), 'document')} could not: {first_names(rescued.lost)}." if rescued.lost else ""
    again = " Documents that a program or a server added must be sent again. The others:"
    findings.lost.append(f"{sentence}{remaining}{ids}{aside}{again} {commands}")


def _find_collection_damage(store: Store, name: str, pinned: int | None, identity: str | None) -> str | None:
    """Return why a collection cannot be read completely at its newest or its pinned version, or None if it can.

    Raises StoreError for other failures: a server that does not answer is not damaged data.
    """
    try:
        newest = store.version(name)
        if newest is None:
            return f"the collection {name} is gone"
        if (changed := store.find_changed_file(name)) is not None:
            return changed
        for version in sorted({newest, *([pinned] if pinned else [])}):
            collection = store.open(name, version)
            if identity not in (None, collection.identity):
                return f"the collection {name} is not that of the last finished sync"
            vectors = ("vector",) if collection.schema.dimensions else ()
            read = sum(len(batch) for batch in collection.scan((*collection.fields(), *vectors)))
            if read != collection.count():
                return f"the collection {name} holds {collection.count()} records, and {read} could be read"
    except EngineError as error:
        return str(error).removesuffix(".")
    return None


def _check_databases(folder: Path, findings: Findings) -> None:
    vectors, calls = vector_cache_path(folder), folder / CALLS
    if (wrong := find_database_damage(vectors)) is not None:
        aside = move_database_aside(vectors)
        cache = f"The cache of vectors {vectors} {wrong}"
        findings.removed.append(f"{cache}: its texts are encoded again. It lies at {aside}")
    if (wrong := find_database_damage(calls)) is not None:
        aside = move_database_aside(calls)
        findings.removed.append(
            f"The cache of calls {calls} {wrong} and was moved to {aside}: its calls are paid again, except those of "
            f"an export. To add one: ragindex cache --index {shlex.quote(str(folder))} --import FILE"
        )


def find_database_damage(path: Path) -> str | None:
    """Return how an SQLite file is damaged, or None if it is intact or does not exist.

    The connection is read-only, because a writing one would apply or remove the write-ahead log. What a killed process
    left half written, with a rollback journal and before there was a log, is undone first.
    """
    if not path.exists():
        return None
    try:
        require_sqlite_log(path)
        if Path(f"{path}-journal").exists():
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            [(verdict,), *_] = connection.execute("PRAGMA integrity_check(1)").fetchall()
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", _DAMAGE_CODES[0]) & 0xFF not in _DAMAGE_CODES:
            raise StoreError(f"The file {path} could not be checked: {error}. It was not changed.") from error
        return f"is broken ({error})"
    if verdict != "ok":
        return f"is broken ({verdict})"
    return None if tables else NO_TABLES


def move_database_aside(path: Path) -> Path:
    """Move a database and SQLite's files next to it, which may contain the newest rows, and return the new path."""
    names = (path.with_name(f"{path.name}.damaged{f'-{number}' if number else ''}") for number in count())
    aside = next(name for name in names if not name.exists())
    for end in ("", "-wal", "-shm"):
        if Path(f"{path}{end}").exists():
            Path(f"{path}{end}").replace(f"{aside}{end}")
    return aside


RESCUED_FILES = "documents.*.rescued.arrow"
"""The pattern of the files of documents that were read by a repair that was killed."""


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
    if not store.keeps_files:
        return None
    file = folder / f"documents.{manifest.documents_identity[:8]}-{manifest.documents_version}.rescued.arrow"
    known = _list_newest_ids(store, manifest)
    built = _list_built_ids(store, manifest)
    if not file.exists():
        versions = [manifest.documents_version, store.version("documents")]
        tables = _read_documents(store, versions if known is None else versions[::-1], known or built)
        with durable_files.replace_file(file) as sink, pa.ipc.new_file(sink, DOCUMENT_ROWS) as writer:
            for table in tables:
                writer.write_table(table)
    aside = store.set_aside("documents")
    collection, rescued = store.create("documents", DOCUMENT_SCHEMA), set[str]()
    with pa.memory_map(str(file)) as source:
        for batch in pa.ipc.open_file(source).read_all().to_batches(max_chunksize=_BATCH):
            collection.upsert(batch)
            rescued.update(batch.column("id").to_pylist())
    collection.finish()
    expected = built if known is None else known
    complete = expected <= rescued and len(rescued) >= (manifest.documents if known is None else len(known))
    return Rescued(collection, sorted(expected - rescued), complete, aside, file)


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
    ids, whole_documents = set[str](), manifest.settings.by is None
    for key, record in manifest.parts.items():
        version = store.version(f"{key}.coverage")
        if record.inputs or version is None:
            continue
        try:
            for batch in store.open(f"{key}.coverage", version).scan(()):
                for id in batch.column("id").to_pylist():
                    split = split_passage_id(id)
                    ids.add(id if split is None or (whole_documents and split[1] == "#") else split[0])
        except EngineError:
            continue
    return frozenset(ids)


def _read_documents(store: Store, versions: Iterable[int | None], ids: frozenset[str]) -> Iterator[pa.Table]:
    """Yield the whole records of these documents (without ids: of any), each from the first version that has it."""
    read_ids = set[str]()
    for version in dict.fromkeys(number for number in versions if number):
        try:
            for table in store.rescue("documents", version):
                rows = [
                    row
                    for row in table.to_pylist()
                    if row["id"] not in read_ids and (not ids or row["id"] in ids) and is_whole_row(row)
                ]
                read_ids.update(row["id"] for row in rows)
                yield pa.Table.from_pylist(rows, schema=DOCUMENT_ROWS)
        except EngineError:
            continue


def move_aside(folder: Path) -> None:
    """Move an index of an older format to FOLDER.formatN and leave its cached answers and vectors in `folder`.

    Nothing is deleted. After a crash, the same call resumes. Raises UsageError if the index is not of an older format
    or FOLDER.formatN exists, and StoreError if a cache cannot be copied.
    """
    new = folder.with_name(f"{folder.name}.rebuilding")
    format = older_format(folder)
    if format is not None:
        aside = folder.with_name(f"{folder.name}.format{format}")
        if aside.exists():
            raise UsageError(
                f"{aside} is in the way of the index {folder} of format {format}. Move it, then run again."
            )
        shutil.rmtree(new, ignore_errors=True)
        for cache in (Path(CALLS), vector_cache_path(folder).relative_to(folder)):
            if (folder / cache).exists():
                _copy_database(folder / cache, new / cache)
        new.mkdir(exist_ok=True)
        os.replace(folder, aside)
    elif folder.exists() or not new.exists():
        raise UsageError(f"--rebuild is for an index of an older format; {folder} holds none. Leave it out.")
    durable_files.move_durably(new, folder)


def _copy_database(source: Path, target: Path) -> None:
    """Copy an SQLite database, including its write-ahead log."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with closing(sqlite3.connect(source)) as read, closing(sqlite3.connect(target)) as copy:
            read.backup(copy)
    except sqlite3.Error as error:
        raise StoreError(
            f"The cache {source} could not be copied to {target}: {error}. Nothing was changed."
        ) from error
