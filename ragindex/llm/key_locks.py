"""Exclusive locks on the keys of a file, among the threads and processes of this machine.

A key that is held is a locked file in a folder beside the guarded file, `calls.sqlite.keys`; its holder deletes it. The
system releases the locks of a process that dies.
"""

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ragindex.errors import StoreError

if sys.platform == "win32":
    from filelock import FileLock
else:
    import fcntl

_descriptors: set[int] = set()
"""Open descriptors of this process. A forked child closes its copies, which would keep the locks of a dead parent."""


@contextmanager
def hold_key(guarded: Path, key: str) -> Iterator[None]:
    """Hold `key`, a file name, of the file `guarded` exclusively inside the block.

    The locks are the same under all paths of the file, including symbolic links. Raises StoreError if the lock file
    cannot be used.
    """
    path, process = Path(f"{os.path.realpath(guarded)}.keys", key), os.getpid()
    if sys.platform == "win32":
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path):
            yield
        return
    try:
        descriptor = _lock(path)
    except OSError as error:
        raise StoreError(f"Cannot use the lock file {path}: {error}. Check free space and write permission.") from error
    try:
        yield
    finally:
        if os.getpid() == process:  # a child that was forked inside of the block holds nothing
            try:
                if _is_at(path, descriptor):
                    path.unlink(missing_ok=True)
            finally:
                _unlock(descriptor)


def _lock(path: Path) -> int:
    """Lock a file, made if there is none, and return its descriptor. Raises OSError."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        _descriptors.add(descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_at(path, descriptor):
                return descriptor
        except BaseException:
            _unlock(descriptor)
            raise
        _unlock(descriptor)  # its last holder has deleted it, so later callers lock another file: try again


def _unlock(descriptor: int) -> None:
    _descriptors.discard(descriptor)
    fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing alone would leave it to children that are being forked
    os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _close_inherited() -> None:
    for descriptor in _descriptors:
        os.close(descriptor)
    _descriptors.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)


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
