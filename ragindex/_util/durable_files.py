"""Files: writes that survive a crash, paths that begin with `~`, and opening of regular files alone."""

import hashlib
import json
import os
import shlex
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeAlias

HASHES_FILE = "hashes.json"
HASH_DIGITS = 16
"""Number of hexadecimal digits kept of a SHA-256: enough to detect damage and to tell contents apart."""
_HASH_KEY = "sha256"
_Stamp: TypeAlias = tuple[int, int, int, int]
_hash_cache: dict[Path, tuple[_Stamp, str]] = {}
"""Cache of the hashes computed in this process: an unchanged file is read only once."""


class RepairWarning(UserWarning):
    """A file of the index was damaged and was rebuilt, or is read from a copy."""


def repair_hint(index: Path | str) -> str:
    """Return the command that checks all files of the index and repairs them."""
    return f"Run: ragindex repair --index {shlex.quote(str(index))}"


# ---------------------------------------------------------------- durable writes


def cache_root() -> Path:
    """Return the folder of what can be made again: RAGINDEX_CACHE, else `ragindex` in XDG_CACHE_HOME or ~/.cache."""
    folder, xdg = os.environ.get("RAGINDEX_CACHE"), os.environ.get("XDG_CACHE_HOME")
    root = Path(folder) if folder else (Path(xdg) if xdg else Path.home() / ".cache") / "ragindex"
    return root.expanduser()


def state_root() -> Path:
    """Return the folder of what runs remember: RAGINDEX_STATE, else `ragindex` in XDG_STATE_HOME or ~/.local/state."""
    folder, xdg = os.environ.get("RAGINDEX_STATE"), os.environ.get("XDG_STATE_HOME")
    root = Path(folder) if folder else (Path(xdg) if xdg else Path.home() / ".local" / "state") / "ragindex"
    return root.expanduser()


def fsync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk. Raises OSError."""
    if path.is_dir() and os.name != "posix":
        return  # only POSIX systems can open a folder
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def move_durably(partial: Path, path: Path) -> None:
    """Rename the file or folder `partial` to `path` durably, replacing what is there. Raises OSError."""
    fsync(partial)
    if path.is_dir():
        shutil.rmtree(path)
    partial.replace(path)
    fsync(path.parent)


@contextmanager
def replace_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that atomically replaces `path` when the block ends without an error. Raises OSError."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            yield file
        move_durably(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_file(path: Path, content: bytes) -> None:
    """Replace the content of a file atomically and durably. Raises OSError."""
    with replace_file(path) as file:
        file.write(content)


# ---------------------------------------------------------------- hashes


def hash_file(path: Path) -> str:
    """Return the first HASH_DIGITS digits of a file's SHA-256, cached while the file is unchanged. Raises OSError."""
    status = path.stat()
    stamp = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    known = _hash_cache.get(path)
    if known is None or known[0] != stamp:
        with path.open("rb") as file:
            known = stamp, hashlib.file_digest(file, "sha256").hexdigest()[:HASH_DIGITS]
        _hash_cache[path] = known
    return known[1]


def write_hashes(folder: Path) -> str:
    """Flush the files of a folder to disk, write their hashes to HASHES_FILE, and return its hash. Raises OSError."""
    files = sorted(path for path in folder.iterdir() if path.name != HASHES_FILE)
    for path in files:
        fsync(path)
    write_file(folder / HASHES_FILE, dump_hashed_json({path.name: hash_file(path) for path in files}))
    return hash_file(folder / HASHES_FILE)


def find_folder_damage(folder: Path) -> str | None:
    """Describe the first damaged file of a folder with HASHES_FILE; return None if all are as they were written."""
    try:
        hashes = load_hashed_json((folder / HASHES_FILE).read_bytes())
    except OSError as error:
        return f"{folder / HASHES_FILE} cannot be read ({error.strerror or error})"
    if hashes is None:
        return f"{folder / HASHES_FILE} has changed since it was written"
    return next(
        (file_damage for name, hashed in hashes.items() if (file_damage := find_file_damage(folder / name, hashed))),
        None,
    )


def find_named_folder_damage(folder: Path) -> str | None:
    """Like `find_folder_damage`, for a folder whose name is the hash of its HASHES_FILE."""
    return find_folder_damage(folder) or find_file_damage(folder / HASHES_FILE, folder.name)


def find_file_damage(path: Path, hashed: str) -> str | None:
    """Describe what is wrong with a file whose hash should be `hashed`; return None if it is as it was written."""
    try:
        return None if hash_file(path) == hashed else f"{path} has changed since it was written"
    except OSError as error:
        return f"{path} cannot be read ({error.strerror or error})"


# ---------------------------------------------------------------- JSON


def dump_hashed_json(value: Mapping[str, Any]) -> bytes:
    """Serialize a JSON object together with its hash under the key `sha256`."""
    hashed = {**value, _HASH_KEY: _hash_json(value)}
    return json.dumps(hashed, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n"


def load_hashed_json(content: bytes) -> dict[str, Any] | None:
    """Parse the output of `dump_hashed_json`; return None if the content does not match its hash."""
    try:
        value = json.loads(content)
        hashed = value.pop(_HASH_KEY)
        return value if isinstance(value, dict) and hashed == _hash_json(value) else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def hash_line(text: str) -> bytes:
    """Return a line of text with its hash in front of it."""
    content = text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()[:HASH_DIGITS].encode() + b" " + content + b"\n"


def verify_line(content: bytes) -> str | None:
    """Return the text of a `hash_line` line, given without its newline. Return None if it does not match its hash."""
    hashed, _, text = content.partition(b" ")
    intact = hashlib.sha256(text).hexdigest()[:HASH_DIGITS].encode() == hashed
    return text.decode("utf-8", "surrogatepass") if intact else None


def _hash_json(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]


def expand_home(path: Path | str) -> Path:
    """Return a path in which `~` at the start, by itself or before a slash, is the user's home folder.

    A folder that is called `~` is written as `./~`, and returned from the root, so that a second call changes nothing.
    """
    text, expanded = str(path), Path(path)
    if text == "~" or text.startswith("~/"):
        return expanded.expanduser()
    return expanded.absolute() if str(expanded) == "~" or str(expanded).startswith("~/") else expanded


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file, and no link, for reading. Raises OSError."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode) or path.is_symlink():
        os.close(descriptor)
        raise OSError(None, "it is no regular file", str(path))
    return os.fdopen(descriptor, "rb")
