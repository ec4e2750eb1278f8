"""A packed retriever: one uncompressed tar file, written and read member by member in the order of `retriever.toml`.

Equal retrievers give equal bytes. Nothing is compressed, so a file cannot grow when it is unpacked; compress it to send
it. Each header is compared with the file that must come next: another name, a link or a device ends the reading.
"""

import io
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from filelock import FileLock

from ragindex._util import durable_files
from ragindex.errors import DamagedError, DataError, StoreError, UsageError
from ragindex.export.retriever_file import (
    LARGEST_RETRIEVER_FILE,
    RETRIEVER_FILE,
    ExportedRetriever,
    RetrieverLimits,
    copy_hashed,
    parse_retriever_file,
    read_retriever_file,
    require_safe,
    verify_files,
    write_retriever_file,
)

ARCHIVE_SUFFIX = ".ragindex"
_BLOCK = tarfile.BLOCKSIZE
_LONGEST_END = tarfile.RECORDSIZE
"""The most bytes after the last file: zeros up to a whole record."""


# ---------------------------------------------------------------- writing


def write_archive(exported: ExportedRetriever, root: Path, target: IO[bytes]) -> None:
    """Write the retriever whose files are below `root`. Raises OSError."""
    with tarfile.open(fileobj=target, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        content = write_retriever_file(exported)
        archive.addfile(_header(RETRIEVER_FILE, len(content)), io.BytesIO(content))
        for stored in exported.files:
            with (root / stored.path).open("rb") as source:
                archive.addfile(_header(stored.path, stored.bytes), source)


def _header(name: str, size: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.size, header.mode = size, 0o644
    return header


# ---------------------------------------------------------------- reading


def read_archive(source: IO[bytes], path: Path, limits: RetrieverLimits) -> ExportedRetriever:
    """Read the description at the start of an archive, and check the list of its files. Raises DataError."""
    size = _read_header(source, path, RETRIEVER_FILE)
    if size > LARGEST_RETRIEVER_FILE:
        raise DataError(f"a {RETRIEVER_FILE} of at most {LARGEST_RETRIEVER_FILE:,} bytes", f"{size:,}", path=path)
    content = source.read(size)
    _skip_padding(source, size, path)
    exported = parse_retriever_file(content, path)
    if not exported.packed:
        raise DataError("a packed retriever", "one that refers to its index", path=path)
    require_safe(exported.files, limits, path)
    return exported


def extract_files(source: IO[bytes], exported: ExportedRetriever, folder: Path, path: Path) -> None:
    """Write the files that follow the description below the empty folder `folder`. Raises DataError, DamagedError."""
    for stored in exported.files:
        size = _read_header(source, path, stored.path)
        if size != stored.bytes:
            raise DataError(f"{stored.path} with {stored.bytes:,} bytes", f"{size:,}", path=path)
        target = folder / stored.path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            copy_hashed(source, stored, file.write, path)
        durable_files.fsync(target)
        _skip_padding(source, size, path)
    rest = source.read(_LONGEST_END + 2 * _BLOCK + 1)
    if len(rest) > _LONGEST_END + 2 * _BLOCK or rest.strip(b"\0"):
        raise DataError("the end of the archive after its last file", "more", path=path)


def _read_header(source: IO[bytes], path: Path, name: str) -> int:
    """Read the header of the regular file `name`, which must come next, and return its size. Raises DataError."""
    block = source.read(_BLOCK)
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise DataError(f"{name} in a file that ragindex export --pack wrote", str(error), path=path) from error
    regular = header.type in (tarfile.REGTYPE, tarfile.AREGTYPE)
    if not regular or header.name != name or header.size < 0:
        kind = "a file" if regular else "a link or a special file"
        raise DataError(f"the file {name}", f"{kind} named {header.name[:200]!r}", path=path)
    return header.size


def _skip_padding(source: IO[bytes], size: int, path: Path) -> None:
    padding = -size % _BLOCK
    if source.read(padding) != bytes(padding):
        raise DataError("zeros up to the next header", "other bytes, or the end", path=path)


# ---------------------------------------------------------------- unpacking


def unpack_archive(path: Path, into: Path | None, limits: RetrieverLimits) -> tuple[Path, ExportedRetriever]:
    """Return the folder that a packed retriever is unpacked in: `into`, or one in the cache, named by its hash.

    Files that are there already are checked and used. Otherwise the archive is unpacked beside the folder, checked and
    renamed in one step; one process does this at a time. Raises DataError, DamagedError, UsageError, StoreError.
    """
    try:
        with path.open("rb") as source:
            exported = read_archive(source, path, limits)
            folder = into or retrievers_cache() / exported.sha256
            if not _is_unpacked(folder, exported, given=into is not None):
                _unpack_once(folder, exported, lambda scratch: extract_files(source, exported, scratch, path))
    except OSError as error:
        hint = " Choose a folder that can be written: into=FOLDER." if into is None else ""
        raise StoreError(f"{path} could not be unpacked: {error.strerror or error}.{hint}") from error
    return folder, exported


def retrievers_cache() -> Path:
    """Return the folder of unpacked retrievers: RAGINDEX_CACHE, else `ragindex` in XDG_CACHE_HOME or ~/.cache."""
    return durable_files.cache_root() / "retrievers"


def _is_unpacked(folder: Path, exported: ExportedRetriever, *, given: bool) -> bool:
    """Return whether the folder holds the retriever, intact. Raises UsageError if a given folder holds another."""
    if not folder.is_dir() or not any(folder.iterdir()):
        return False
    try:
        same = read_retriever_file(folder) == exported
        if same:
            verify_files(folder, exported.files)
    except (DataError, DamagedError):
        if given:
            raise
        return False
    if not same and given:
        raise UsageError(f"{folder} holds another retriever. Choose an empty folder, or one that does not exist.")
    return same


def _unpack_once(folder: Path, exported: ExportedRetriever, extract: Callable[[Path], None]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / f"{folder.name}.lock"):
        if _is_unpacked(folder, exported, given=False):  # another process was faster
            return
        scratch = folder.parent / f"{folder.name}.partial"
        shutil.rmtree(scratch, ignore_errors=True)  # of a process that was killed
        scratch.mkdir()
        try:
            extract(scratch)
            (scratch / RETRIEVER_FILE).write_bytes(write_retriever_file(exported))
            durable_files.fsync(scratch / RETRIEVER_FILE)
            durable_files.move_durably(scratch, folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
