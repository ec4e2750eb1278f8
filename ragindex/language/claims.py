"""One at a time for each key, among the threads of this process and among processes of this machine."""

import os
import sys
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from ragindex.errors import StoreError

if sys.platform != "win32":
    import fcntl

_PATIENCE = 0.02  # seconds between two looks at what another process holds
_PLACES = 2**62


class Claims:
    """Claims on keys, as locks on single bytes of the file `path`: the system frees those of a process that dies."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, Lock()
        self._keys: dict[str, tuple[Lock, int]] = {}
        self._opened: tuple[int, int] | None = None

    @contextmanager
    def held(self, key: str) -> Iterator[None]:
        """Nobody else holds `key` inside. Raises StoreError where the file cannot be used."""
        with self._between_threads(key), self._between_processes(int(key[:16], 16) % _PLACES):
            yield

    @contextmanager
    def _between_threads(self, key: str) -> Iterator[None]:
        with self._lock:
            lock, waiting = self._keys.get(key, (Lock(), 0))
            self._keys[key] = (lock, waiting + 1)
        try:
            with lock:
                yield
        finally:
            with self._lock:
                _, waiting = self._keys.pop(key)
                if waiting > 1:
                    self._keys[key] = (lock, waiting - 1)

    @contextmanager
    def _between_processes(self, place: int) -> Iterator[None]:
        """On Windows, whose locks are others, only the threads of one process wait for one another."""
        if sys.platform == "win32":
            yield
            return
        try:
            while not _locked(self._file(), place):
                time.sleep(_PATIENCE)
        except OSError as error:
            raise StoreError(f"The file of claims {self._path} cannot be used: {error}.") from error
        try:
            yield
        finally:
            fcntl.lockf(self._file(), fcntl.LOCK_UN, 1, place)

    def _file(self) -> int:
        """The file, opened once in each process: a process that closes it gives up all it holds."""
        with self._lock:
            if self._opened is None or self._opened[0] != os.getpid():
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._opened = (os.getpid(), os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
                weakref.finalize(self, _close, *self._opened)
            return self._opened[1]


if sys.platform != "win32":

    def _locked(file: int, place: int) -> bool:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except (BlockingIOError, PermissionError):
            return False
        return True


def _close(process: int, file: int) -> None:
    if os.getpid() == process:
        os.close(file)
