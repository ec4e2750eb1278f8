"""What a workspace keeps, looked at: what is damaged and can be made again is removed, so that the next sync makes it.

Files of ours are hashed (`ragindex.durable_files`). An engine's are not ours to hash: its collections are read whole
instead.
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
from typing import Concatenate, ParamSpec, Protocol, TypeVar, runtime_checkable

from ragindex import durable_files
from ragindex.errors import DamagedError, EngineError, StoreError
from ragindex.interfaces import Store
from ragindex.workspace import imported_files
from ragindex.workspace.manifest import Manifest

_P = ParamSpec("_P")
_R = TypeVar("_R")
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
CALLS, VECTORS = "calls.sqlite", Path("caches", "vectors.sqlite")


@runtime_checkable
class _SettingAside(Protocol):
    def set_aside(self, name: str) -> Path | None:
        """Move a collection's files out of the way; where they lie now."""
        ...


class _InFolder(Protocol):
    @property
    def folder(self) -> Path:
        """The workspace's."""
        ...


_W = TypeVar("_W", bound=_InFolder)


# ---------------------------------------------------------------- an engine's failures


def with_repair_hint(error: EngineError, workspace: Path) -> EngineError:
    """The error with the command that helps where the engine's files are damaged."""
    command = durable_files.repair_hint(workspace)
    return error if command in str(error) else EngineError(f"{error} If its files are damaged: {command}")


def adds_repair_hint(work: Callable[Concatenate[_W, _P], _R]) -> Callable[Concatenate[_W, _P], _R]:
    """A method of a workspace whose engine's failures name the command."""

    @wraps(work)
    def wrapped(self: _W, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return work(self, *args, **kwargs)
        except EngineError as error:
            raise with_repair_hint(error, self.folder) from error

    return wrapped


# ---------------------------------------------------------------- before a sync


def damaged_files(folder: Path, manifest: Manifest, keys: Iterable[str]) -> list[str]:
    """What is wrong with the files of finished parts, a sentence for each folder."""
    held = _files(folder, manifest, keys)
    return [wrong for path in held if (wrong := durable_files.find_named_folder_damage(path)) is not None]


def _files(folder: Path, manifest: Manifest, keys: Iterable[str]) -> list[Path]:
    finished = [key for key in keys if key in manifest.parts]
    return [folder / "parts" / key / name for key in finished for name in manifest.parts[key].files]


def _sealed(parts: Path) -> list[Path]:
    """What an interrupted sync has left too."""
    return [path.parent for path in parts.glob(f"*/*/{durable_files.HASHES_FILE}")]


# ---------------------------------------------------------------- everything


@dataclass(slots=True)
class Findings:
    """What was wrong and is removed, to be made again by a sync; and what is lost, with the command that helps."""

    removed: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


def find_damage(
    folder: Path, manifest: Manifest, store: Store, damaged_fit: str | None, drop: Callable[[str], None]
) -> Findings:
    """Look at everything in a workspace, and remove what is damaged; `drop` removes a part. Raises StoreError."""
    found = Findings()
    for path in folder.glob("*.partial"):  # a process that was killed while it wrote left it
        path.unlink(missing_ok=True)
    if damaged_fit is not None:
        found.removed.append(damaged_fit)
    _collections(folder, manifest, store, drop, found)
    for path in sorted({*_files(folder, manifest, manifest.parts), *_sealed(folder / "parts")}):
        if (wrong := durable_files.find_named_folder_damage(path)) is not None:
            shutil.rmtree(path, ignore_errors=True)
            found.removed.append(wrong)
    for name, digest in manifest.imports.items():
        try:
            imported_files.require_import(folder, digest, manifest.imported_from.get(name, ""))
        except DamagedError as error:
            found.lost.append(str(error))
    _databases(folder, found)
    return found


def _collections(folder: Path, manifest: Manifest, store: Store, drop: Callable[[str], None], found: Findings) -> None:
    for name in _names(manifest, store):
        wrong = _unreadable(store, name, _pinned(manifest, name))
        if wrong is None:
            continue
        part, _, kind = name.rpartition(".")
        if part:
            found.removed.append(f"The part {part}: {wrong}")
            drop(part)
        else:
            aside = store.set_aside(kind) if isinstance(store, _SettingAside) else None  # never removed: nothing else
            kept = f" What is left of them was moved to {aside}." if aside else ""  # may hold them
            found.lost.append(f"The documents of {folder}: {wrong}.{kept} Run: {_indexing(folder, manifest)}")


def _indexing(folder: Path, manifest: Manifest) -> str:
    """The commands that bring the documents of all sources back."""
    roots = [shlex.quote(source.root) for source in manifest.sources.values() if source.root] or ["DATA"]
    return ", then: ".join(f"ragindex index {root} --index {shlex.quote(str(folder))}" for root in roots)


def _names(manifest: Manifest, store: Store) -> Sequence[str]:
    recorded = [f"{key}.{kind}" for key, record in manifest.parts.items() for kind in record.collections]
    return sorted({"documents", *recorded, *store.names()})


def _pinned(manifest: Manifest, name: str) -> int | None:
    """None for the documents: a sync pins readers to the newest, where the one they are pinned to is gone."""
    part, _, kind = name.rpartition(".")
    record = manifest.parts.get(part)
    return record.collections.get(kind) if record else None


def _unreadable(store: Store, name: str, pinned: int | None) -> str | None:
    """Why a collection cannot be read whole, at its newest version and at the one that readers are pinned to.

    Raises StoreError where that is not told by the engine's own files: a server that does not answer is not damage.
    """
    try:
        newest = store.version(name)
        if newest is None:
            return f"the collection {name} is gone"
        for version in sorted({newest, *([pinned] if pinned else [])}):
            collection = store.open(name, version)
            vectors = ("vector",) if collection.schema.dimensions else ()
            read = sum(len(batch) for batch in collection.scan((*collection.fields(), *vectors)))
            if read != collection.count():
                return f"the collection {name} holds {collection.count()} records, and {read} could be read"
    except EngineError as error:
        return str(error).removesuffix(".")
    return None


def _databases(folder: Path, found: Findings) -> None:
    vectors, calls = folder / VECTORS, folder / CALLS
    if (wrong := _broken(vectors)) is not None:
        aside = _moved(vectors)
        found.removed.append(f"The cache of vectors {vectors} {wrong}: its texts are encoded again. It lies at {aside}")
    if (wrong := _broken(calls)) is not None:
        aside = _moved(calls)
        found.removed.append(
            f"The cache of calls {calls} {wrong} and was moved to {aside}: its calls are paid again, except those of "
            f"an export. To add one: ragindex cache --index {shlex.quote(str(folder))} --import FILE"
        )


def _broken(path: Path) -> str | None:
    """Looked at by a connection that writes nothing: another would write the log back, or remove it."""
    if not path.exists():
        return None
    try:
        durable_files.require_sqlite_log(path)
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            [(said,), *_] = connection.execute("PRAGMA integrity_check(1)").fetchall()
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", _BROKEN[0]) & 0xFF not in _BROKEN:
            raise StoreError(f"The file {path} could not be checked: {error}. It was not changed.") from error
        return f"is broken ({error})"
    return None if said == "ok" and tables else f"is broken ({said})"


def _moved(path: Path) -> Path:
    """Move a database out of the way with the files that SQLite keeps beside it: they may hold its newest rows."""
    names = (path.with_name(f"{path.name}.damaged{f'-{number}' if number else ''}") for number in count())
    aside = next(name for name in names if not name.exists())
    for end in ("", "-wal", "-shm"):
        if Path(f"{path}{end}").exists():
            Path(f"{path}{end}").replace(f"{aside}{end}")
    return aside
