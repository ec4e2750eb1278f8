"""Export and import of cached LLM calls as JSON Lines, so that others can replay a study at no cost."""

import json
import os
import sqlite3
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragindex._util import files as durable_files
from ragindex.errors import DataError
from ragindex.llm.cache import CACHE_COLUMNS, CacheRow, SQLiteCache, verify_row

_BATCH = 1000


class _Row(BaseModel):
    """A call in an export file, with the columns of `CACHE_COLUMNS`."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    key: str = Field(pattern=r"^[0-9a-f]{64}$")
    task: str
    version: int
    provider: str
    model: str
    base_url: str
    text: str
    finish: str
    refusal: str
    structure: str
    input_tokens: int = Field(ge=0)
    cached_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    estimated: bool
    money: float | None
    seconds: float = Field(ge=0)
    at: float


def export_calls(cache: SQLiteCache, path: Path) -> int:
    """Write all undamaged cached calls to `path`, one per line, ordered by key; return their number.

    An existing file is replaced atomically, once the new one is complete. Raises StoreError if the cache cannot be
    read, DataError if `path` cannot be written or is a file of the cache.
    """
    query = f"SELECT {', '.join((*CACHE_COLUMNS, 'checksum'))} FROM calls WHERE key > ? ORDER BY key LIMIT {_BATCH}"  # noqa: S608
    written, last = 0, ""
    own = [Path(f"{os.path.realpath(cache.path)}{end}") for end in ("", "-wal", "-shm")]
    if path.exists() and any(file.exists() and file.samefile(path) for file in own):
        raise DataError("a file beside the call cache", "a file of the call cache itself", path=path)
    try:
        with _open_replacement(path) as file:
            while True:
                with cache.connection() as connection:  # released between batches for other threads
                    rows = connection.execute(query, (last,)).fetchall()
                    if rows and not (isinstance(rows[-1][0], str) and rows[-1][0] > last):
                        raise sqlite3.DatabaseError("its keys are out of order")  # the loop would never end
                if not rows:
                    return written
                held = [row for kept in rows if (row := verify_row(kept)) is not None]
                for row in held:
                    named = dict(zip(CACHE_COLUMNS, row, strict=True)) | {
                        "estimated": bool(row[CACHE_COLUMNS.index("estimated")])
                    }
                    file.write(json.dumps(named, ensure_ascii=False).encode("utf-8") + b"\n")
                written, last = written + len(held), rows[-1][0]
    except OSError as error:
        raise DataError("a file that can be written", str(error), path=path) from error


def _open_replacement(path: Path) -> AbstractContextManager[IO[bytes]]:
    """Open a file that replaces `path` on success; a pipe or terminal cannot be replaced and is opened directly."""
    if path.exists() and not path.is_file():
        return path.open("wb")
    return durable_files.replace_file(Path(os.path.realpath(path)))


def import_calls(cache: SQLiteCache, path: Path) -> int:
    """Add the calls of an export to the cache; return the number of new ones.

    Raises DataError with the line number if a line is malformed; the lines before it are imported. Raises StoreError.
    """
    added, number = 0, 0
    batch: list[CacheRow] = []
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    batch.append(_parse_row(line, path, number))
                if len(batch) == _BATCH:
                    added, batch = added + cache.add(batch), []
    except (OSError, UnicodeDecodeError) as error:
        raise DataError("JSON Lines in UTF-8", str(error), path=path) from error
    finally:
        added += cache.add(batch) if batch else 0
    return added


def _parse_row(line: str, path: Path, number: int) -> CacheRow:
    try:
        row = _Row.model_validate_json(line)
    except ValidationError as error:
        problem = error.errors()[0]
        found = f"{problem['msg']} at {'.'.join(map(str, problem['loc'])) or 'the line'}"
        raise DataError("a call in the format of an export", found, path=path, line=number) from None
    return tuple(getattr(row, name) for name in CACHE_COLUMNS)
