"""The journal of a part while it is synced: what a crash would leave in doubt, written before the data are.

One file a part, one JSON line an entry. `begin` names the passages whose records are about to be written: until a
`cover` or `forget` names them too, their records may be those of before, those of after, or half of each. The file
exists from the first moment of a sync until readers are pinned to its result, so it also tells which parts an
interrupted sync has touched.
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
    """The journal cannot be read: what the part holds is unknown, and the part is made anew."""


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of one part; `path` does not exist while no sync of the part is unfinished."""

    path: Path

    @classmethod
    def of(cls, folder: Path, key: str) -> "Journal":
        """The journal of the part `key` in the workspace `folder`."""
        return cls(folder / _FOLDER / f"{key}.jsonl")

    def start(self, in_doubt: Collection[str]) -> None:
        """Begin anew, in one step: nothing but these passages is in doubt."""
        entries = [("begin", {"ids": sorted(in_doubt)})] if in_doubt else []
        with _writing(self.path):
            self.path.parent.mkdir(exist_ok=True)
            durable_files.write_file(self.path, b"".join(map(_line, entries)))

    def append(self, kind: Kind, values: Mapping[str, Any], *, durable: bool) -> None:
        """Add an entry. `durable`: what is written next must not reach the disk before the entry does."""
        with _writing(self.path), self.path.open("ab") as file:
            file.write(_line((kind, values)))
            file.flush()
            if durable:
                os.fsync(file.fileno())

    def entries(self) -> Iterator[tuple[Kind, dict[str, Any]]]:
        """All entries in order, without one that was cut short at the end. Raises DamagedJournalError."""
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        for line in lines[:-1]:  # what follows the last newline was cut short
            try:
                kind, values = json.loads(durable_files.verify_line(line) or "")
            except ValueError as error:
                raise DamagedJournalError(f"{self.path}: {error}") from error
            yield kind, values

    def remove(self) -> None:
        """The sync has finished, and readers are pinned to its result."""
        with _writing(self.path):
            self.path.unlink(missing_ok=True)


def unfinished(folder: Path) -> set[str]:
    """The keys of the parts that a sync has begun to change and not finished."""
    return {path.stem for path in (folder / _FOLDER).glob("*.jsonl")}


def begun_within(folder: Path, seconds: float) -> bool:
    """Whether an unfinished sync has written to a journal in the last so many seconds."""
    since = time.time() - seconds
    return any(path.stat().st_mtime > since for path in (folder / _FOLDER).glob("*.jsonl"))


def finish(folder: Path, keys: Iterable[str]) -> None:
    """Remove the journals of parts whose new state readers are pinned to."""
    for key in keys:
        Journal.of(folder, key).remove()


def _line(entry: tuple[str, Mapping[str, Any]]) -> bytes:
    return durable_files.hash_line(json.dumps(entry, ensure_ascii=True))  # ASCII: an id may hold what UTF-8 cannot


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path.name} could not be written in {path.parent}: {error.strerror or error}.") from error
