"""The files of an exported retriever: names that cannot leave its folder, limits, and hashes."""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from ragindex._util.files import open_regular
from ragindex.errors import DamagedError, DataError
from ragindex.export.retriever_file import StoredFile

INDEX_FOLDER, OWN_FOLDER = "index", "files"
"""The folders of a packed index, and of the files that a method's parameters name."""
MOST_FILES, MOST_BYTES = 10_000, 16 << 30
_NAME = re.compile(r"[A-Za-z0-9_.+-]{1,100}")
_LONGEST_PATH, _MOST_LEVELS = 200, 8
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class RetrieverLimits:
    """The most files, and bytes of all files together, that a retriever may have to be loaded."""

    files: int = MOST_FILES
    bytes: int = MOST_BYTES


def require_safe(files: Sequence[StoredFile], limits: RetrieverLimits, path: Path) -> None:
    """Raise DataError unless the files are few, small, in the retriever's own folders, and named once."""
    if len(files) > limits.files:
        raise DataError(f"at most {limits.files:,} files (max_files)", f"{len(files):,}", path=path)
    total = sum(file.bytes for file in files)
    if total > limits.bytes:
        raise DataError(f"files of at most {limits.bytes:,} bytes together (max_bytes)", f"{total:,}", path=path)
    for file in files:
        if not _is_safe(file.path):
            raise DataError(f"files in {INDEX_FOLDER}/ and {OWN_FOLDER}/ with plain names", repr(file.path), path=path)
    folded = {file.path.casefold() for file in files}  # two names may be one file on a disk that ignores case
    if len(folded) < len(files):
        raise DataError("each file once", "one twice", path=path)


def _is_safe(written: str) -> bool:
    parts = written.split("/")
    if (
        len(written) > _LONGEST_PATH
        or not 2 <= len(parts) <= _MOST_LEVELS
        or parts[0] not in (INDEX_FOLDER, OWN_FOLDER)
    ):
        return False
    plain = all(_NAME.fullmatch(part) and part.strip(".") == part and not _RESERVED.fullmatch(part) for part in parts)
    return plain and str(PurePosixPath(written)) == written


def describe_file(root: Path, path: Path) -> StoredFile:
    """Describe a file below `root`. Raises OSError."""
    with path.open("rb") as file:
        hashed = hashlib.file_digest(file, "sha256").hexdigest()
    return StoredFile(path=path.relative_to(root).as_posix(), bytes=path.stat().st_size, sha256=hashed)


def copy_hashed(source: IO[bytes], stored: StoredFile, write: Callable[[bytes], object], where: Path) -> None:
    """Copy exactly `stored.bytes` bytes. Raises DamagedError if there are fewer or the hash is another one."""
    hashed, left = hashlib.sha256(), stored.bytes
    while left and (block := source.read(min(_BLOCK, left))):
        hashed.update(block)
        write(block)
        left -= len(block)
    if left or hashed.hexdigest() != stored.sha256:
        raise DamagedError(
            f"{where}: {stored.path} is not as it was exported. Copy the retriever again, or export it again."
        )


def verify_files(folder: Path, files: Sequence[StoredFile]) -> None:
    """Check that the folder holds the files with their hashes, no links, and no other file in its index.

    Files of another export, which a killed process may have left beside its own, are never read. Raises DamagedError.
    """
    wanted = {file.path for file in files}
    found = {path for path in _list_files(folder) if path in wanted or not _is_left(folder, path)}
    if found != wanted:
        name = min(found ^ wanted)
        wrong = "is missing" if name in wanted else "does not belong to the retriever"
        raise DamagedError(f"{folder}: {name} {wrong}. Copy the retriever again, or export it again.")
    for stored in files:
        path = folder / stored.path
        try:
            with open_regular(path) as source:
                if os.fstat(source.fileno()).st_size != stored.bytes:
                    raise DamagedError(f"{folder}: {stored.path} is not as it was exported: it has another length.")
                copy_hashed(source, stored, lambda block: None, folder)
        except OSError as error:
            raise DamagedError(f"{folder}: {stored.path} cannot be read: {error.strerror or error}.") from error


def _is_left(folder: Path, path: str) -> bool:
    return path.startswith(f"{OWN_FOLDER}/") and not (folder / path).is_symlink()


def _list_files(folder: Path) -> Iterable[str]:
    """Yield the paths of all that is in the retriever's folders and is no folder. Links are not followed."""
    for top in (INDEX_FOLDER, OWN_FOLDER):
        if (folder / top).is_symlink():
            yield top
            continue
        for where, folders, names in os.walk(folder / top):
            links = [name for name in folders if os.path.islink(os.path.join(where, name))]
            yield from (Path(where, name).relative_to(folder).as_posix() for name in (*names, *links))
