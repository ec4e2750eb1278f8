"""Leases of readers on finished states, and removal of the data that no reader needs.

A reader keeps a file under `readers/` that names what it reads and who reads. The file is locked, and the operating
system frees the lock when the process ends for any reason. A reader that cannot write the file, as on a disk that is
only read, holds a shared lock on the folder instead; nothing is removed meanwhile.

A reader takes its lease, then checks that the manifest is still the one it has read. A writer replaces the manifest,
then looks for leases. So either the writer sees the lease, or the reader sees the new manifest and takes a new lease.

The following data are kept: what the manifest names, what a live reader's lease names, and the newest state of
everything, from which an interrupted sync resumes. A part that a sync has started and never finished is kept for a
day.
"""

import contextlib
import json
import os
import platform
import shutil
import sys
import time
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragindex.accounting.spending_log import current_command
from ragindex.encoders import cache_pruning
from ragindex.index import versioned_files
from ragindex.index.coverage import Journal, begun_within, unfinished_parts
from ragindex.index.manifest import Manifest, PartRecord
from ragindex.index.models import keep_fits, vector_cache_path
from ragindex.interfaces import Store

if sys.platform != "win32":
    import fcntl

_FOLDER = "readers"
_MAX_PARTIAL_AGE = 3600.0
"""Seconds after which a lease file that was never renamed to its final name counts as left by a dead process."""


@dataclass(frozen=True, slots=True)
class ReaderState:
    """What a reader may open: collection versions by full collection name, part keys, and encoder ids."""

    collections: Mapping[str, int]
    parts: frozenset[str] = frozenset()
    encoders: frozenset[str] = frozenset()


class ReaderLease:
    """A reader's lease, held until the object is garbage-collected or the process ends."""

    def __init__(self, descriptor: int | None, path: Path | None) -> None:
        if descriptor is not None:
            weakref.finalize(self, _release, descriptor, path)


def state_of(manifest: Manifest) -> ReaderState:
    """Return the reader state that the manifest names."""
    collections = {
        f"{key}.{kind}": version for key, part in manifest.parts.items() for kind, version in part.collections.items()
    }
    parts = frozenset(manifest.parts)
    return ReaderState(
        {**collections, "documents": manifest.documents_version}, parts, frozenset(manifest.encoders.values())
    )


def take_lease(folder: Path, read: ReaderState, *, read_only: bool = False) -> ReaderLease:
    """Take a lease on the state `read` of the index in `folder`. Never fails.

    If the lease file cannot be written, the folder of leases is locked instead, with a shared lock. A `read_only`
    reader does not make that folder: it may be another user than the writer's, who could not write into it then.
    """
    leases = folder / _FOLDER
    path = leases / f"{os.getpid()}-{uuid.uuid4().hex}.json"
    state = {
        "collections": dict(read.collections),
        "parts": sorted(read.parts),
        "encoders": sorted(read.encoders),
        "process": os.getpid(),
        "host": platform.node(),
        "command": current_command(),
        "since": time.time(),
    }
    descriptor = None
    try:
        if not read_only:
            leases.mkdir(exist_ok=True)
        partial = path.with_suffix(".partial")
        descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        if sys.platform != "win32":
            os.fchmod(descriptor, 0o644)  # a writer that is another user looks whether it is locked
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(descriptor, json.dumps(state).encode())
        partial.rename(path)  # the file stays locked when it is renamed
    except OSError:
        if descriptor is not None:
            _release(descriptor, path.with_suffix(".partial"))
        return _lock_folder(leases)
    return ReaderLease(descriptor, path)


def read_states(folder: Path) -> list[ReaderState] | None:
    """Return the states that live readers read, or None if one of them is unknown and nothing may be removed.

    Removes the leases of dead readers.
    """
    leases = folder / _FOLDER
    if not leases.is_dir():
        return []
    if _is_folder_locked(leases):
        return None
    states = [reader.state for reader in _read_leases(leases)]
    for path in leases.glob("*.partial"):
        with contextlib.suppress(FileNotFoundError):  # renamed in the meantime
            if path.stat().st_mtime < time.time() - _MAX_PARTIAL_AGE:
                path.unlink()
    known = [state for state in states if state is not None]
    return known if len(known) == len(states) else None


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads an index: the process and its command on a host, since when, and what it reads.

    `state` is None if that is not known, so that nothing is removed; so are the other fields.
    """

    process: int | None = None
    host: str = ""
    command: str = ""
    since: float | None = None
    state: ReaderState | None = None


def list_readers(folder: Path) -> list[Reader]:
    """Return the live readers of an index but for this process, those that hold a lock and no file last."""
    leases = folder / _FOLDER
    if not leases.is_dir():
        return []
    readers = list(_read_leases(leases))
    if _is_folder_locked(leases):
        readers += _find_lock_holders(leases) or [Reader()]
    here = os.getpid(), platform.node()
    return [reader for reader in readers if (reader.process, reader.host) != here]


def _read_leases(leases: Path) -> Iterator[Reader]:
    """Yield the readers of the lease files that are held. Removes the files of dead ones."""
    for path in sorted(leases.glob("*.json")):
        if not _is_held(path):
            continue
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
            sets = frozenset(value["parts"]), frozenset(value["encoders"])
            state = ReaderState(dict(value["collections"]), *sets)
            yield Reader(
                value.get("process"), value.get("host", ""), value.get("command", ""), value.get("since"), state
            )
        except FileNotFoundError:  # released in the meantime
            continue
        except (OSError, ValueError, KeyError, TypeError):
            yield Reader()


def _find_lock_holders(leases: Path) -> list[Reader]:
    """Return the processes that hold a shared lock on the folder of leases, where the system lists locks (Linux)."""
    inode = str(leases.stat().st_ino)
    readers = []
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    for line in lines:
        # such as "1: FLOCK  ADVISORY  READ 4711 08:02:131585 0 EOF"
        _, kind, _, _, process, place, *_ = line.split()
        if kind == "FLOCK" and place.rpartition(":")[2] == inode and int(process) > 0:
            try:
                since = Path("/proc", process).stat().st_ctime
                command = Path("/proc", process, "comm").read_text(encoding="utf-8", errors="replace").strip()
            except OSError:  # it has ended
                continue
            readers.append(Reader(int(process), platform.node(), command, since))
    return readers


def versions_read(states: Iterable[ReaderState], name: str) -> frozenset[int]:
    """Return the versions of the collection `name` in `states`."""
    return frozenset(state.collections[name] for state in states if name in state.collections)


# ---------------------------------------------------------------- locks


def _lock_folder(leases: Path) -> ReaderLease:
    """Take a shared lock on the folder of leases, or none if that fails: a removed state then raises StoreError."""
    if sys.platform == "win32":
        return ReaderLease(None, None)
    descriptor = None
    try:
        descriptor = os.open(leases, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        if descriptor is not None:
            os.close(descriptor)
        return ReaderLease(None, None)
    return ReaderLease(descriptor, None)


def _is_folder_locked(leases: Path) -> bool:
    if sys.platform == "win32":
        return False
    descriptor = os.open(leases, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _is_held(path: Path) -> bool:
    """Return whether the holder of a lease file is alive; remove the file if not."""
    try:
        if sys.platform != "win32":
            try:
                descriptor = os.open(path, os.O_RDWR)
            except PermissionError:  # of another user
                descriptor = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            finally:
                os.close(descriptor)
        path.unlink()  # on Windows this fails if the file is open
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _release(descriptor: int, path: Path | None) -> None:
    """Release a lease. A forked child shares it, so the file is removed only after both processes have released it."""
    os.close(descriptor)
    if path is not None:
        with contextlib.suppress(OSError):
            _is_held(path)


_KEEP_BEGUN = 86_400.0
"""Seconds for which the data of an interrupted sync are kept after a later sync has not used them."""


def remove_unread(folder: Path, store: Store, manifest: Manifest) -> tuple[Manifest, bool]:
    """Remove all data that no reader needs.

    Returns the manifest without the dropped outdated parts, and whether data are kept only for readers.
    """
    read = read_states(folder)
    if read is None:
        return manifest, True
    now = state_of(manifest)
    needed = [now, *read]
    names = store.names()
    outdated = dict(manifest.outdated)
    unfinished = unfinished_parts(folder)
    for key, since in sorted(manifest.outdated.items()):
        keep = key in unfinished and time.time() - since < _KEEP_BEGUN
        if not keep and not any(key in state.parts for state in read):
            drop_collections(folder, store, key, names)
            del outdated[key]
    remaining = store.names() if outdated != manifest.outdated else names
    for name in remaining:
        store.clean(name, versions_read(needed, name))
    for key, record in manifest.parts.items():
        _clean_files(folder, store, key, record, needed, remaining)
    keep_fits(folder, frozenset().union(*(state.encoders for state in needed)))
    if not begun_within(folder, _KEEP_BEGUN):  # an interrupted sync resumes with its cached vectors
        cache_pruning.prune_vectors(vector_cache_path(folder), sum(part.bytes for part in manifest.parts.values()))
    stays = any(state.parts - now.parts or state.collections.items() - now.collections.items() for state in read)
    return manifest.model_copy(update={"outdated": outdated}), stays


def drop_collections(folder: Path, store: Store, key: str, names: Sequence[str], kinds: Iterable[str] = ()) -> None:
    """Remove a part, the coverage first, so that the rest of an interrupted drop does not count as a part."""
    recorded = [f"{key}.{kind}" for kind in kinds]
    existing = [name for name in names if name.rpartition(".")[0] == key]
    for name in dict.fromkeys((f"{key}.coverage", *recorded, *existing)):
        store.drop(name)
    Journal.of(folder, key).remove()
    shutil.rmtree(folder / "parts" / key, ignore_errors=True)


def _clean_files(
    folder: Path, store: Store, key: str, record: PartRecord, needed: Sequence[ReaderState], names: Sequence[str]
) -> None:
    """Remove the version folders of a part that nobody reads, unless a sync has started to change the part."""
    files = folder / "parts" / key
    if not files.is_dir():
        return
    kinds = [name for name in names if name.rpartition(".")[0] == key and not name.endswith(".coverage")]
    if any(store.version(name) != needed[0].collections.get(name) for name in kinds):
        return
    now = needed[0].collections  # whose folders the record names
    earlier = [(name, version) for name in kinds for version in versions_read(needed, name) - {now[name]}]
    read = {holding for collection in earlier for holding in versioned_files.recorded_versions(store.open(*collection))}
    versioned_files.keep_versions(files, read.union(record.files))
