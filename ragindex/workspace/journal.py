"""The journal of a part during a sync, which names the passages that a crash would leave in doubt.

Entries are written before the part's data. There is one file per part, with one JSON line per entry. `begin` names the
passages whose records are about to be written. Until a `cover` or `forget` entry names them too, their records may be
old, new, or a mix of both. The file exists from the start of a sync until readers are pinned to its result, so it also
shows which parts an interrupted sync has changed.
"""

import json
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ragindex import durable_files
from ragindex.errors import StoreError

_FOLDER = "syncing"

Kind = Literal["begin", "cover", "forget", "touch"]


class DamagedJournalError(Exception):
    """Raised if a journal cannot be read. The part's content is then unknown, and the part is rebuilt."""


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of one part. `path` exists only while a sync of the part is unfinished."""

    path: Path

    @classmethod
    def of(cls, folder: Path, key: str) -> "Journal":
        """Return the journal of the part `key` in the workspace `folder`."""
        return cls(folder / _FOLDER / f"{key}.jsonl")

    def start(self, in_doubt: Collection[str]) -> None:
        """Replace the journal atomically by one in which exactly the passages `in_doubt` are in doubt."""
        entries = [("begin", {"ids": sorted(in_doubt)})] if in_doubt else []
        with _wrap_write_errors(self.path):
            self.path.parent.mkdir(exist_ok=True)
            durable_files.write_file(self.path, b"".join(map(_encode_entry, entries)))

    def append(self, kind: Kind, values: Mapping[str, Any], *, durable: bool) -> None:
        """Append an entry. With `durable`, it is on disk when the call returns, before any later write."""
        with _wrap_write_errors(self.path), self.path.open("ab") as file:
            file.write(_encode_entry((kind, values)))
            file.flush()
            if durable:
                os.fsync(file.fileno())

    def entries(self) -> Iterator[tuple[Kind, dict[str, Any]]]:
        """Yield all entries in order, except an incomplete one at the end. Raises DamagedJournalError."""
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        for line in lines[:-1]:  # an entry without a newline is incomplete
            try:
                kind, values = json.loads(durable_files.verify_line(line) or "")
            except ValueError as error:
                raise DamagedJournalError(f"{self.path}: {error}") from error
            yield kind, values

    def remove(self) -> None:
        """Remove the journal file, after a sync has finished and readers are pinned to its result."""
        with _wrap_write_errors(self.path):
            self.path.unlink(missing_ok=True)


def unfinished(folder: Path) -> set[str]:
    """Return the keys of the parts that a sync has started to change and not finished."""
    return {path.stem for path in (folder / _FOLDER).glob("*.jsonl")}


def begun_within(folder: Path, seconds: float) -> bool:
    """Return whether an unfinished sync has written to a journal in the last `seconds` seconds."""
    since = time.time() - seconds
    return any(path.stat().st_mtime > since for path in (folder / _FOLDER).glob("*.jsonl"))


def finish(folder: Path, keys: Iterable[str]) -> None:
    """Remove the journals of parts whose new state readers are pinned to."""
    for key in keys:
        Journal.of(folder, key).remove()


def _encode_entry(entry: tuple[str, Mapping[str, Any]]) -> bytes:
    # ASCII, because an id may contain surrogates, which UTF-8 cannot encode.
    return durable_files.hash_line(json.dumps(entry, ensure_ascii=True))


@contextmanager
def _wrap_write_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path.name} could not be written in {path.parent}: {error.strerror or error}.") from error
