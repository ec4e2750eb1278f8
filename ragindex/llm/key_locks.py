"""Exclusive locks on the keys of a file, among the threads of this process and the processes of this machine.

A key is locked through a POSIX lock on one byte of a lock file beside the guarded file; the system releases the locks
of a process that dies. These locks belong to the process: they do not exclude its other threads, and closing any
descriptor of the lock file releases all of them. Therefore the process keeps one table of lock files in use, which all
callers share. Each lock file is opened once, and closed when no thread holds or awaits one of its locks. Threads
exclude one another with ordinary locks.
"""

import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TypeAlias

from ragindex.errors import StoreError

if sys.platform != "win32":
    import fcntl

_POLL_INTERVAL = 0.02  # seconds between attempts to lock a byte that another process holds
_PLACES = 2**62
_Identity: TypeAlias = tuple[int, int]
"""Device and inode: one file has one, whatever names lead to it."""


@dataclass(slots=True, eq=False)
class _File:
    """A lock file: its users in this process, and a thread lock for each byte (`place`) that is held or awaited."""

    identity: _Identity
    descriptors: list[int] = field(default_factory=list)
    users: int = 0
    places: dict[int, tuple[Lock, int]] = field(default_factory=dict)


_table = Lock()
_files: dict[_Identity, _File] = {}


@contextmanager
def hold_key(guarded: Path, key: str) -> Iterator[None]:
    """Hold `key` (at least 16 hexadecimal digits) of the file `guarded` exclusively inside the block.

    The locks are the same under all paths of the file, including symbolic links. Raises StoreError if the lock file
    cannot be used.
    """
    path, place = Path(f"{os.path.realpath(guarded)}.claims"), int(key[:16], 16) % _PLACES
    while True:
        file = _enter_file(path)
        try:
            with _lock_among_threads(file, place), _lock_among_processes(file, place, path):
                if _read_identity(path) == file.identity:
                    yield
                    return
        finally:
            _leave_file(file)
        # the lock file was deleted meanwhile, so later callers would lock another file: try again


def require_one_name(path: Path) -> None:
    """Raise StoreError if a database file has several names (hard links).

    SQLite keeps its log beside the name that was opened, so a process that opens another name does not see it.
    """
    if path.is_file() and path.stat().st_nlink > 1:
        raise StoreError(
            f"The file {path} has {path.stat().st_nlink} names (hard links); a database must have one. "
            f"Run: cp {shlex.quote(str(path))} {shlex.quote(f'{path}.own')} && "
            f"mv {shlex.quote(f'{path}.own')} {shlex.quote(str(path))}"
        )


# ---------------------------------------------------------------- table of lock files


def _enter_file(path: Path) -> _File:
    """Register a user of the lock file at `path`, opening the file if it is not in use in this process."""
    with _table:
        try:
            file = _files.get(_read_identity(path) or (0, 0)) or _open_file(path)
        except OSError as error:
            raise StoreError(f"Cannot use the lock file {path}: {error}.") from error
        file.users += 1
        return file


def _open_file(path: Path) -> _File:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    status = os.fstat(descriptor)
    identity = (status.st_dev, status.st_ino)
    file = _files.setdefault(identity, _File(identity))
    file.descriptors.append(descriptor)  # even a second one stays open: closing it would release all locks
    return file


def _leave_file(file: _File) -> None:
    with _table:
        if _files.get(file.identity) is not file:
            return  # in a forked child: the file belongs to the parent
        file.users -= 1
        if file.users == 0:
            del _files[file.identity]
            for descriptor in file.descriptors:
                os.close(descriptor)


def _read_identity(path: Path) -> _Identity | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return (status.st_dev, status.st_ino)


# ---------------------------------------------------------------- waiting


@contextmanager
def _lock_among_threads(file: _File, place: int) -> Iterator[None]:
    with _table:
        lock, waiting = file.places.get(place, (Lock(), 0))
        file.places[place] = (lock, waiting + 1)
    try:
        with lock:
            yield
    finally:
        with _table:
            _, waiting = file.places.pop(place)
            if waiting > 1:
                file.places[place] = (lock, waiting - 1)


@contextmanager
def _lock_among_processes(file: _File, place: int, path: Path) -> Iterator[None]:
    """Hold a byte lock. Windows has no such locks, so only the threads of one process exclude one another there."""
    if sys.platform == "win32":
        yield
        return
    mine = os.getpid()
    try:
        try:
            while not _try_lock(file.descriptors[0], place):
                time.sleep(_POLL_INTERVAL)
        except OSError as error:
            raise StoreError(f"Cannot use the lock file {path}: {error}.") from error
        yield
    finally:
        if os.getpid() == mine:  # not in a forked child; no other thread of this process can hold the byte
            fcntl.lockf(file.descriptors[0], fcntl.LOCK_UN, 1, place)


if sys.platform != "win32":

    def _try_lock(descriptor: int, place: int) -> bool:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except (BlockingIOError, PermissionError):
            return False
        return True


# ---------------------------------------------------------------- forks


def _before_fork() -> None:
    _table.acquire()


def _after_fork() -> None:
    _table.release()


def _reset_in_child() -> None:
    """Reset the table: a child has neither the locks nor the threads of its parent."""
    global _table
    for file in _files.values():
        for descriptor in file.descriptors:
            os.close(descriptor)
    _files.clear()
    _table = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_reset_in_child)
