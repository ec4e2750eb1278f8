"""One at a time for each key of a file, among the threads of this process and among processes of this machine.

A claim is a lock on a single byte of a file beside the one that it guards: the system frees those of a process that
dies. Such locks belong to the process, not to whoever took them: nobody else in the process is kept out by one, and
closing any descriptor of the file drops all. So the process has one table of the files with claims on them. Everybody
who claims a key goes through it, a file is opened once, and it is closed when nobody holds or awaits a claim on it.
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

_PATIENCE = 0.02  # seconds between two looks at what another process holds
_PLACES = 2**62
_Identity: TypeAlias = tuple[int, int]
"""Device and inode: one file has one, whatever names lead to it."""


@dataclass(slots=True, eq=False)
class _File:
    """A file with claims on it: who uses it in this process, and a lock for each place that is held or awaited."""

    identity: _Identity
    descriptors: list[int] = field(default_factory=list)
    users: int = 0
    places: dict[int, tuple[Lock, int]] = field(default_factory=dict)


_table = Lock()
_files: dict[_Identity, _File] = {}


@contextmanager
def hold_key(guarded: Path, key: str) -> Iterator[None]:
    """Nobody else holds `key` (64 bits in hexadecimal digits or more) of the file `guarded` inside.

    The claims of a file are the same under each of its paths, through symbolic links too. Raises StoreError where
    the file of claims cannot be used.
    """
    path, place = Path(f"{os.path.realpath(guarded)}.claims"), int(key[:16], 16) % _PLACES
    while True:
        file = _entered(path)
        try:
            with _between_threads(file, place), _between_processes(file, place, path):
                if _identity(path) == file.identity:
                    yield
                    return
        finally:
            _left(file)
        # somebody has deleted the file meanwhile: whoever comes now looks at another one


def require_one_name(path: Path) -> None:
    """Raises StoreError for a database with several names (hard links).

    SQLite keeps a log beside each name, and whoever opens the file by another name does not see it.
    """
    if path.is_file() and path.stat().st_nlink > 1:
        raise StoreError(
            f"The file {path} has {path.stat().st_nlink} names (hard links); a database must have one. "
            f"Run: cp {shlex.quote(str(path))} {shlex.quote(f'{path}.own')} && "
            f"mv {shlex.quote(f'{path}.own')} {shlex.quote(str(path))}"
        )


# ---------------------------------------------------------------- the table


def _entered(path: Path) -> _File:
    """The file at `path`, opened where nobody in this process uses it."""
    with _table:
        try:
            file = _files.get(_identity(path) or (0, 0)) or _opened(path)
        except OSError as error:
            raise StoreError(f"Cannot use the lock file {path}: {error}.") from error
        file.users += 1
        return file


def _opened(path: Path) -> _File:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    status = os.fstat(descriptor)
    identity = (status.st_dev, status.st_ino)
    file = _files.setdefault(identity, _File(identity))
    file.descriptors.append(descriptor)  # never closed while the file is in use, though it may be the second
    return file


def _left(file: _File) -> None:
    with _table:
        if _files.get(file.identity) is not file:
            return  # in a forked child: it is the parent's
        file.users -= 1
        if file.users == 0:
            del _files[file.identity]
            for descriptor in file.descriptors:
                os.close(descriptor)


def _identity(path: Path) -> _Identity | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return (status.st_dev, status.st_ino)


# ---------------------------------------------------------------- waiting


@contextmanager
def _between_threads(file: _File, place: int) -> Iterator[None]:
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
def _between_processes(file: _File, place: int, path: Path) -> Iterator[None]:
    """On Windows, whose locks are others, only the threads of one process wait for one another."""
    if sys.platform == "win32":
        yield
        return
    mine = os.getpid()
    try:
        try:
            while not _locked(file.descriptors[0], place):
                time.sleep(_PATIENCE)
        except OSError as error:
            raise StoreError(f"Cannot use the lock file {path}: {error}.") from error
        yield
    finally:
        if os.getpid() == mine:  # no other thread of this process can hold the place
            fcntl.lockf(file.descriptors[0], fcntl.LOCK_UN, 1, place)


if sys.platform != "win32":

    def _locked(descriptor: int, place: int) -> bool:
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


def _in_child() -> None:
    """A child holds no claim of its parent's, and none of the parent's threads is there."""
    global _table
    for file in _files.values():
        for descriptor in file.descriptors:
            os.close(descriptor)
    _files.clear()
    _table = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
