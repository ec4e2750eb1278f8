"""Who reads which finished state: what nobody reads any more can be removed at once, and nothing that somebody reads.

A reader keeps a file under `readers/` that names what it reads, under a lock that the system frees when its holder
dies, however it dies. Whoever may not write there locks the folder itself, shared: nothing is removed meanwhile.

A reader takes its lease, then looks whether the manifest is still the one it has read; a writer replaces the manifest,
then looks for leases. So either the writer sees the lease, or the reader sees the new manifest and takes another.
"""

import contextlib
import json
import os
import sys
import time
import uuid
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ragindex.workspace.manifest import Manifest

if sys.platform != "win32":
    import fcntl

_FOLDER = "readers"
_BEING_MADE = 3600.0
"""Seconds after which a lease that was never put in its place is taken for one of a process that died."""


@dataclass(frozen=True, slots=True)
class ReaderState:
    """What a reader may open: versions by the collections' full names, parts by their keys, encoders by their ids."""

    collections: Mapping[str, int]
    parts: frozenset[str] = frozenset()
    encoders: frozenset[str] = frozenset()


class ReaderLease:
    """Holds until it is forgotten, or its process ends."""

    def __init__(self, descriptor: int | None, path: Path | None) -> None:
        if descriptor is not None:
            weakref.finalize(self, _release, descriptor, path)


def state_of(manifest: Manifest) -> ReaderState:
    """What the manifest names."""
    collections = {
        f"{key}.{kind}": version for key, part in manifest.parts.items() for kind, version in part.collections.items()
    }
    parts = frozenset(manifest.parts)
    return ReaderState(
        {**collections, "documents": manifest.documents_version}, parts, frozenset(manifest.encoders.values())
    )


def take_lease(folder: Path, read: ReaderState, *, write: bool = True) -> ReaderLease:
    """A lease on what is read of the workspace `folder`. It never fails: see the head of this module.

    With `write` False it writes no file: the folder of leases is locked, shared.
    """
    leases = folder / _FOLDER
    if not write:
        return _of_all(leases)
    path = leases / f"{os.getpid()}-{uuid.uuid4().hex}.json"
    told = {
        "collections": dict(read.collections),
        "parts": sorted(read.parts),
        "encoders": sorted(read.encoders),
    }
    descriptor = None
    try:
        leases.mkdir(exist_ok=True)
        partial = path.with_suffix(".partial")
        descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        _lock(descriptor)
        os.write(descriptor, json.dumps(told).encode())
        partial.rename(path)  # the lock goes with the file
    except OSError:
        if descriptor is not None:
            _release(descriptor, path.with_suffix(".partial"))
        return _of_all(leases)
    return ReaderLease(descriptor, path)


def read_states(folder: Path) -> list[ReaderState] | None:
    """What living readers read; None where one of them could not say, and everything has to stay.

    The leases of readers that have died are removed.
    """
    leases = folder / _FOLDER
    if not leases.is_dir():
        return []
    if _somebody_reads_all(leases):
        return None
    states = []
    for path in sorted(leases.iterdir()):
        if path.suffix == ".json" and _held(path):
            try:
                states.append(_state(json.loads(path.read_text(encoding="utf-8"))))
            except FileNotFoundError:  # released meanwhile
                continue
            except (OSError, ValueError, KeyError, TypeError):
                return None
        elif path.suffix == ".partial":
            _remove_if_old(path)
    return states


def versions_read(states: Iterable[ReaderState], name: str) -> frozenset[int]:
    """Those of the collection `name` that are read."""
    return frozenset(one.collections[name] for one in states if name in one.collections)


def _state(told: Mapping[str, dict[str, int]]) -> ReaderState:
    return ReaderState(dict(told["collections"]), frozenset(told["parts"]), frozenset(told["encoders"]))


# ---------------------------------------------------------------- locks


def _of_all(leases: Path) -> ReaderLease:
    """A shared lock on the folder; where even that cannot be had, none: a state that is gone raises StoreError."""
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


def _somebody_reads_all(leases: Path) -> bool:
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


def _held(path: Path) -> bool:
    """Whether its holder lives; else it is removed."""
    try:
        if sys.platform != "win32":
            descriptor = os.open(path, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            finally:
                os.close(descriptor)
        path.unlink()  # Windows lets nobody remove what is open
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _remove_if_old(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # put in its place meanwhile
        if path.stat().st_mtime < time.time() - _BEING_MADE:
            path.unlink()


def _lock(descriptor: int) -> None:
    if sys.platform != "win32":
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _release(descriptor: int, path: Path | None) -> None:
    """A forked child has a copy of the lease: it holds until parent and child have both let go."""
    os.close(descriptor)
    if path is not None:
        with contextlib.suppress(OSError):
            _held(path)
