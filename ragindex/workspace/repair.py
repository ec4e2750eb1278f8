"""Detection of damaged data in a workspace, and removal of what the next sync can rebuild.

Files are checked by their hashes (`ragindex.durable_files`), those of the store too if it has hashes. Its collections
are read completely besides.
"""

import shlex
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import wraps
from itertools import count
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from ragindex import durable_files
from ragindex.counts import first_names, many
from ragindex.errors import DamagedError, EngineError, StoreError
from ragindex.interfaces import Collection, Store
from ragindex.workspace import imported_files
from ragindex.workspace.manifest import Manifest
from ragindex.workspace.rescue import RESCUED_FILES, RescuingStore, find_documents_damage, rescue_documents

_P = ParamSpec("_P")
_R = TypeVar("_R")
_DAMAGE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
CALLS, VECTORS = "calls.sqlite", Path("caches", "vectors.sqlite")
NO_TABLES = "has no tables"
"""How a database is damaged whose process was killed before it made its tables, or that was emptied."""


class _HasFolder(Protocol):
    @property
    def folder(self) -> Path:
        """The folder of the workspace."""
        ...


_W = TypeVar("_W", bound=_HasFolder)


# ---------------------------------------------------------------- store errors


def with_repair_hint(error: EngineError, workspace: Path) -> EngineError:
    """Return the error with the command that repairs damaged store files added to its message."""
    command = durable_files.repair_hint(workspace)
    return error if command in str(error) else EngineError(f"{error} If its files are damaged: {command}")


def adds_repair_hint(work: Callable[Concatenate[_W, _P], _R]) -> Callable[Concatenate[_W, _P], _R]:
    """Decorate a method of a workspace so that its EngineErrors name the repair command."""

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
    held = _list_folders(folder, manifest, keys)
    return [wrong for path in held if (wrong := durable_files.find_named_folder_damage(path)) is not None]


def find_changes(folder: Path, manifest: Manifest, store: Store) -> list[str]:
    """Return one sentence for the documents, and each collection and folder of a part, if they have changed."""
    wrong = find_documents_damage(store, manifest)
    changed = [*([] if wrong is None else [wrong]), *damaged_files(folder, manifest, manifest.parts)]
    if isinstance(store, RescuingStore):
        names = (name for name in store.names() if name != "documents")
        changed += [wrong for name in names if (wrong := store.find_changed_file(name)) is not None]
    return changed


def _list_folders(folder: Path, manifest: Manifest, keys: Iterable[str]) -> list[Path]:
    finished = [key for key in keys if key in manifest.parts]
    return [folder / "parts" / key / name for key in finished for name in manifest.parts[key].files]


def _find_hashed_folders(parts: Path) -> list[Path]:
    """Return all hashed folders of parts, including those left by an interrupted sync."""
    return [path.parent for path in parts.glob(f"*/*/{durable_files.HASHES_FILE}")]


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
    """Check everything in a workspace and remove what is damaged, but documents. Raises StoreError.

    `drop` removes a part; `pin_documents` pins readers to a new collection of the documents that can be read.
    """
    found = Findings()
    for path in folder.glob("*.partial"):  # left by a process that was killed while writing
        path.unlink(missing_ok=True)
    _check_documents(folder, manifest, store, pin_documents, found)
    if damaged_fit is not None:
        found.removed.append(damaged_fit)
    _check_collections(folder, manifest, store, drop, found)
    for path in sorted({*_list_folders(folder, manifest, manifest.parts), *_find_hashed_folders(folder / "parts")}):
        if (wrong := durable_files.find_named_folder_damage(path)) is not None:
            shutil.rmtree(path, ignore_errors=True)
            found.removed.append(wrong)
    for name, digest in manifest.imports.items():
        try:
            imported_files.require_import(folder, digest, manifest.imported_from.get(name, ""))
        except DamagedError as error:
            found.lost.append(str(error))
    _check_databases(folder, found)
    return found


def _check_collections(
    folder: Path, manifest: Manifest, store: Store, drop: Callable[[str], None], found: Findings
) -> None:
    dropped = set[str]()
    for name in _list_collections(manifest, store):
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
            found.removed.append(f"The part {part}: {wrong}")
            if found.lost and isinstance(store, RescuingStore):  # its texts may be all that is left of a lost document
                for kept in record.collections if record else ():
                    store.set_aside(f"{part}.{kept}")
            drop(part)
            dropped.add(part)


def _check_documents(
    folder: Path, manifest: Manifest, store: Store, pin_documents: Callable[[Collection], None], found: Findings
) -> None:
    """Rescue damaged documents. None is removed, because there may be no other copy of them."""
    wrong = find_documents_damage(store, manifest)
    if wrong is None:
        for path in folder.glob(RESCUED_FILES):  # of a repair that was killed at its end
            path.unlink(missing_ok=True)
        return
    rescued = rescue_documents(folder, manifest, store)
    sentence = f"The documents of {folder}: {wrong}."
    commands = f"Run: {_build_index_commands(folder, manifest)}"
    if rescued is None:
        found.lost.append(f"{sentence} {commands}")
        return
    pin_documents(rescued.collection)
    rescued.file.unlink(missing_ok=True)
    kept = f" {many(rescued.collection.count(), 'document')} could be read and stay in the index."
    aside = f" What is left of the old files was moved to {rescued.aside}." if rescued.aside else ""
    if rescued.complete:
        found.removed.append(f"{sentence}{kept}{aside}")
        return
    ids = f" {many(len(rescued.lost), 'document')} could not: {first_names(rescued.lost)}." if rescued.lost else ""
    again = " Documents that a program or a server added must be sent again. The others:"
    found.lost.append(f"{sentence}{kept}{ids}{aside}{again} {commands}")


def _build_index_commands(folder: Path, manifest: Manifest) -> str:
    """Return the commands that index all sources again."""
    roots = [shlex.quote(source.root) for source in manifest.sources.values() if source.root] or ["DATA"]
    return ", then: ".join(f"ragindex index {root} --index {shlex.quote(str(folder))}" for root in roots)


def _list_collections(manifest: Manifest, store: Store) -> Sequence[str]:
    recorded = [f"{key}.{kind}" for key, record in manifest.parts.items() for kind in record.collections]
    return sorted({*recorded, *store.names()} - {"documents"})


def _find_collection_damage(store: Store, name: str, pinned: int | None, identity: str | None) -> str | None:
    """Return why a collection cannot be read completely at its newest or its pinned version, or None if it can.

    Raises StoreError for other failures: a server that does not answer is not damaged data.
    """
    try:
        newest = store.version(name)
        if newest is None:
            return f"the collection {name} is gone"
        if isinstance(store, RescuingStore) and (changed := store.find_changed_file(name)) is not None:
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


def _check_databases(folder: Path, found: Findings) -> None:
    vectors, calls = folder / VECTORS, folder / CALLS
    if (wrong := find_database_damage(vectors)) is not None:
        aside = move_database_aside(vectors)
        found.removed.append(f"The cache of vectors {vectors} {wrong}: its texts are encoded again. It lies at {aside}")
    if (wrong := find_database_damage(calls)) is not None:
        aside = move_database_aside(calls)
        found.removed.append(
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
        durable_files.require_sqlite_log(path)
        if Path(f"{path}-journal").exists():
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            [(said,), *_] = connection.execute("PRAGMA integrity_check(1)").fetchall()
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", _DAMAGE_CODES[0]) & 0xFF not in _DAMAGE_CODES:
            raise StoreError(f"The file {path} could not be checked: {error}. It was not changed.") from error
        return f"is broken ({error})"
    if said != "ok":
        return f"is broken ({said})"
    return None if tables else NO_TABLES


def move_database_aside(path: Path) -> Path:
    """Move a database and SQLite's files next to it, which may contain the newest rows, and return the new path."""
    names = (path.with_name(f"{path.name}.damaged{f'-{number}' if number else ''}") for number in count())
    aside = next(name for name in names if not name.exists())
    for end in ("", "-wal", "-shm"):
        if Path(f"{path}{end}").exists():
            Path(f"{path}{end}").replace(f"{aside}{end}")
    return aside
