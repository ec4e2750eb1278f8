"""Files that are whole or not there, and that tell when they are damaged: the one place where that is done.

A file is written beside its place, brought to the disk, renamed, and its folder brought to the disk: so after a crash
there is the old one or the new one. What was written carries its hash: a folder in the file `hashes.json`, JSON in its
key `sha256`, a line of JSON Lines in front of it, any other file in its name.
"""

import hashlib
import json
import os
import shlex
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

HASHES_FILE = "hashes.json"
HASH_DIGITS = 16
"""Hexadecimal digits of a SHA-256 that are kept: enough to tell damage, and content apart."""
_HASH = "sha256"
_Stamp: TypeAlias = tuple[int, int, int, int]
_seen: dict[Path, tuple[_Stamp, str]] = {}
"""What was hashed in this process: an open costs a pass over the file once, as long as nobody touches it."""


class RepairWarning(UserWarning):
    """A file of the index was damaged; it was rebuilt, or is read from a copy."""


def repair_hint(workspace: Path | str) -> str:
    """Return the command that checks all files of the index and repairs them."""
    return f"Run: ragindex repair --index {shlex.quote(str(workspace))}"


# ---------------------------------------------------------------- bringing files to the disk


def fsync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk. Raises OSError."""
    if path.is_dir() and os.name != "posix":
        return  # no other system opens a folder
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def move_durably(partial: Path, path: Path) -> None:
    """Give what was written to `partial`, a file or a folder, its name, durably. Raises OSError."""
    fsync(partial)
    if path.is_dir():
        shutil.rmtree(path)
    partial.replace(path)
    fsync(path.parent)


@contextmanager
def replace_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of `path` in one step when it was written whole. Raises OSError."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            yield file
        move_durably(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_file(path: Path, content: bytes) -> None:
    """Replace a file in one step, durably. Raises OSError."""
    with replace_file(path) as file:
        file.write(content)


# ---------------------------------------------------------------- hashes


def hash_file(path: Path) -> str:
    """The first digits of the hash of a file's bytes. Raises OSError."""
    status = path.stat()
    stamp = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    known = _seen.get(path)
    if known is None or known[0] != stamp:
        with path.open("rb") as file:
            known = stamp, hashlib.file_digest(file, "sha256").hexdigest()[:HASH_DIGITS]
        _seen[path] = known
    return known[1]


def write_hashes(folder: Path) -> str:
    """Bring the files of a folder to the disk, with a file of their hashes; the hash of that file. Raises OSError."""
    files = sorted(path for path in folder.iterdir() if path.name != HASHES_FILE)
    for path in files:
        fsync(path)
    write_file(folder / HASHES_FILE, dump_hashed_json({path.name: hash_file(path) for path in files}))
    return hash_file(folder / HASHES_FILE)


def find_folder_damage(folder: Path) -> str | None:
    """What is wrong with a folder that was sealed, with the name of the file; None where it is as it was written."""
    try:
        wanted = load_hashed_json((folder / HASHES_FILE).read_bytes())
    except OSError as error:
        return f"{folder / HASHES_FILE} cannot be read ({error.strerror or error})"
    if wanted is None:
        return f"{folder / HASHES_FILE} is not as it was written"
    return next((found for name, hashed in wanted.items() if (found := find_file_damage(folder / name, hashed))), None)


def find_named_folder_damage(folder: Path) -> str | None:
    """As `find_folder_damage`, for a sealed folder that is named by the hash of what it holds."""
    return find_folder_damage(folder) or find_file_damage(folder / HASHES_FILE, folder.name)


def find_file_damage(path: Path, hashed: str) -> str | None:
    """What is wrong with a file whose hash begins so; None where it is as it was written."""
    try:
        return None if hash_file(path) == hashed else f"{path} is not as it was written"
    except OSError as error:
        return f"{path} cannot be read ({error.strerror or error})"


def require_sqlite_log(database: Path) -> None:
    """Raises DatabaseError for an SQLite file that is empty though its log is not: SQLite would remove the log."""
    log = Path(f"{database}-wal")
    if database.exists() and not database.stat().st_size and log.exists() and log.stat().st_size:
        raise sqlite3.DatabaseError("it is empty, and its log is not")


# ---------------------------------------------------------------- JSON


def dump_hashed_json(value: Mapping[str, Any]) -> bytes:
    """A JSON object with its own hash under the key `sha256`."""
    held = {**value, _HASH: _of_json(value)}
    return json.dumps(held, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n"


def load_hashed_json(content: bytes) -> dict[str, Any] | None:
    """The object again, None where it is not as it was written."""
    try:
        value = json.loads(content)
        hashed = value.pop(_HASH)
        return value if isinstance(value, dict) and hashed == _of_json(value) else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def hash_line(text: str) -> bytes:
    """A line of text with its hash in front of it."""
    content = text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()[:HASH_DIGITS].encode() + b" " + content + b"\n"


def verify_line(content: bytes) -> str | None:
    """The text of a line without its newline, None where it is not as it was written."""
    hashed, _, text = content.partition(b" ")
    whole = hashlib.sha256(text).hexdigest()[:HASH_DIGITS].encode() == hashed
    return text.decode("utf-8", "surrogatepass") if whole else None


def _of_json(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]
