"""The files of a LanceDB table: which versions need which files, sizes and hashes, removal of unneeded files, copies.

LanceDB removes versions only by age, and only while it rewrites all records. This module reads the files of a version
from its manifest, a protobuf message of the Lance table format (`lance.table.Manifest`). Nothing is removed unless the
manifest agrees with LanceDB and with the files on disk.

LanceDB reads most changed bytes without an error. It never changes a file of data, deletions or indexes, so each is
hashed once, when it is new.

Two kinds of files are made from a table, with hashes: mapped vectors, and copies of small collections, which are read
without LanceDB, because importing it takes a second. `finish` writes one Arrow file per finished version into the
table's folder, named by the version and its own hash. A reader of that version loads it. Writers, scans, checks, and
readers of any other version use LanceDB. A copy is removed with its version.
"""

import json
import os
import re
import shutil
import struct
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ragindex._util import durable_files
from ragindex.interfaces import Schema

_MAGIC = b"LANC"
_MANIFEST = ".manifest"
_TABLE = ".lance"
_MAX_VERSION = 2**64 - 1
"""Manifests are named by this number minus the version, so that the newest sorts first; in old tables, by version."""
ID_INDEX = "id_idx"
"""LanceDB's name for the index of the column `id`."""
POSTINGS = "postings.arrow"
"""The file in the folder of the index of ids that searches by text use (`ragindex.stores.lancedb.text_index`)."""
_DELETION_PATTERN = re.compile(r"\d+-\d+-(\d+)\.\w+")


@dataclass(frozen=True, slots=True)
class Fragment:
    """A group of records that were written together: their number, and how many have been deleted since."""

    id: int
    rows: int
    deleted: int
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """An index of a table: `uuid` is its folder, `made_from` the table version that it was built from."""

    name: str
    uuid: str
    made_from: int


@dataclass(frozen=True)
class Version:
    """One version of a table, read from its manifest. `raw` are the protobuf messages that name its files."""

    number: int
    path: Path
    raw: bytes
    fragments: tuple[Fragment, ...]
    indexes: Mapping[str, IndexInfo]

    @cached_property
    def rows(self) -> int:
        """The number of records, without deleted ones."""
        return sum(fragment.rows - fragment.deleted for fragment in self.fragments)

    @cached_property
    def written(self) -> int:
        """The number of records in its files, including deleted ones."""
        return sum(fragment.rows for fragment in self.fragments)

    def needs(self, path: Path) -> bool:
        """Return whether the version needs `path`, a file of the table or the folder of an index."""
        kind = path.parent.name
        if kind == COPIES:
            return path.suffix == _COPY and path.name.partition(".")[0] == str(self.number)
        if kind == "_versions":
            return path.name == self.path.name
        if kind == "_indices":
            return _parse_uuid(path.name) in self.raw
        if kind == "_deletions":
            number = _DELETION_PATTERN.fullmatch(path.name)
            return number is None or _encode_varint(int(number[1])) in self.raw
        return path.name.encode() in self.raw


# ---------------------------------------------------------------- reading


def list_versions(folder: Path | str) -> set[int]:
    """Return the numbers of all versions, from the names of the manifests, as reading many takes long."""
    names = _list_names(f"{folder}/_versions")
    numbers = (int(name.removesuffix(_MANIFEST)) for name in names if name.endswith(_MANIFEST))
    return {_MAX_VERSION - number if number > _MAX_VERSION // 2 else number for number in numbers}


def find_newest_version(folder: Path | str) -> int | None:
    """Return the number of the newest version, or None if there is none."""
    return max(list_versions(folder), default=None)


def read_version(folder: Path, number: int) -> Version:
    """Read one version. Raises ValueError if it does not exist or cannot be read."""
    for name in (f"{_MAX_VERSION - number:020d}", str(number)):
        path = folder / "_versions" / f"{name}{_MANIFEST}"
        if path.exists():
            return _read_manifest(path)
    raise ValueError(f"{folder.stem} no longer has version {number}")


def list_collections(folder: Path) -> list[str]:
    """Return the names of the tables in `folder`, sorted, without those whose creation was interrupted."""
    names = (name.removesuffix(_TABLE) for name in _list_names(folder) if name.endswith(_TABLE))
    return sorted(name for name in names if find_newest_version(f"{folder}/{name}{_TABLE}") is not None)


def _list_names(folder: Path | str) -> list[str]:
    """Return the names of what is in a folder, or an empty list if it is none that can be read."""
    try:
        return os.listdir(folder)  # a pattern of `Path.glob` takes ten times as long, and this is called often
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def _read_manifest(path: Path) -> Version:
    return _parse_manifest(path, path.read_bytes())


@lru_cache(maxsize=128)
def _parse_manifest(path: Path, file: bytes) -> Version:
    """Return the version with the manifest `file`. Parsing takes far longer than reading, and a sync asks often."""
    if file[-4:] != _MAGIC or len(file) < 16:
        raise ValueError(f"{path} is not a manifest of a Lance table")
    (start,) = struct.unpack_from("<Q", file, len(file) - 16)
    content = _read_section(file, start)
    manifest = _parse_message(content)
    place = _get_number(manifest, 6, -1)
    # Only these two messages are kept: the last write is stored between them and also names the files it replaced.
    section = _read_section(file, place) if place >= 0 else b""
    fragments = tuple(map(_parse_fragment, _get_messages(manifest, 2)))
    indexes = {}
    for raw in _get_messages(_parse_message(section), 1):
        message = _parse_message(raw)
        name = _get_bytes(message, 3).decode()
        identity = str(uuid.UUID(bytes=_get_bytes(_parse_message(_get_bytes(message, 1)), 1)))
        indexes[name] = IndexInfo(name, identity, _get_number(message, 4, 0))
    return Version(_get_number(manifest, 3, 0), path, content + section, fragments, indexes)


def _parse_fragment(raw: bytes) -> Fragment:
    message = _parse_message(raw)
    files = tuple(_get_bytes(_parse_message(part), 1).decode() for part in _get_messages(message, 2))
    deleted = sum(_get_number(_parse_message(part), 4, 0) for part in _get_messages(message, 3))
    return Fragment(_get_number(message, 1, 0), _get_number(message, 4, 0), deleted, files)


def find_text_index(version: Version) -> IndexInfo | None:
    """Return the index of ids if it has postings. The version that it was built from must be kept with it."""
    index = version.indexes.get(ID_INDEX)
    folder = version.path.parent.parent
    return index if index is not None and (folder / "_indices" / index.uuid / POSTINGS).exists() else None


# ---------------------------------------------------------------- sizes and removal


def list_needed_files(folder: Path, pinned: Iterable[Version]) -> dict[Path, int]:
    """Return the files that the versions `pinned` need, with their sizes in bytes."""
    versions = list(pinned)
    return {
        path: _measure_entry(path)
        for path in _list_entries(folder)
        if path.suffix != ".txn" and any(version.needs(path) for version in versions)
    }


def remove_other_versions(folder: Path, pinned: Set[int], rows: int) -> None:
    """Remove all versions except `pinned`, and the files that no pinned version needs.

    The caller holds the writer's lease, so no write is in progress. `rows` is the number of records that LanceDB counts
    in the newest kept version. Raises ValueError before anything is removed if the manifests disagree with it.
    """
    missing = sorted(pinned - list_versions(folder))
    if missing or not pinned:
        raise ValueError(f"{folder.stem} has no version {missing or 'to keep'}")
    keeping = [read_version(folder, number) for number in sorted(pinned)]
    _check_newest(folder, keeping[-1], rows)
    for path in _list_entries(folder):
        if not any(version.needs(path) for version in keeping):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _check_newest(folder: Path, newest: Version, rows: int) -> None:
    """Raise ValueError unless the newest version has `rows` records and its data files and indexes exist."""
    if newest.rows != rows:
        raise ValueError(f"{newest.path} lists {newest.rows} records; LanceDB counts {rows}")
    data = [folder / "data" / name for fragment in newest.fragments for name in fragment.files]
    indexes = [folder / "_indices" / index.uuid for index in newest.indexes.values()]
    absent = [path for path in data + indexes if not path.exists()]
    if absent:
        raise ValueError(f"{newest.path} names {absent[0]}, which is missing")


def _list_entries(folder: Path) -> Iterator[Path]:
    """Yield everything that may be removed: copies, data and deletion files, transactions, index folders, manifests."""
    for kind, ending in (
        (COPIES, ""),
        ("data", ".lance"),
        ("_deletions", ""),
        ("_transactions", ".txn"),
        ("_indices", ""),
        ("_versions", _MANIFEST),
    ):
        place = folder / kind
        yield from (place / name for name in _list_names(place) if name.endswith(ending))


def _measure_entry(path: Path) -> int:
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size


# ---------------------------------------------------------------- hashes


def hash_new_files(folder: Path) -> None:
    """Add the hashes of new files to those of the table in `folder`, and leave out removed files. Raises OSError."""
    before = _read_hashes(folder)
    places = (place for kind in ("data", "_deletions", "_indices") for place in os.walk(folder / kind))
    paths = sorted(Path(place, name) for place, _, names in places for name in names)
    files = {path.relative_to(folder).as_posix(): path for path in paths}
    hashes = {name: before.get(name) or durable_files.hash_file(path) for name, path in files.items()}
    if hashes != before:
        durable_files.write_file(folder / durable_files.HASHES_FILE, durable_files.dump_hashed_json(hashes))


def find_changed_file(folder: Path) -> str | None:
    """Describe the first file of the table that has changed since it was hashed, or return None. Reads all of them."""
    for name, hashed in _read_hashes(folder).items():
        wrong = durable_files.find_file_damage(folder / name, hashed)
        if wrong is not None and (folder / name).exists():  # else it was removed with its version
            return wrong
    return None


def _read_hashes(folder: Path) -> dict[str, str]:
    """Return the hashes by file; none if they are damaged themselves."""
    path = folder / durable_files.HASHES_FILE
    return (durable_files.load_hashed_json(path.read_bytes()) or {}) if path.exists() else {}


# ---------------------------------------------------------------- copies of collections


MAX_COPY_BYTES = 32 << 20
"""The most bytes in memory of a table with a copy. Loading a larger one takes about as long as importing LanceDB, and
each sync writes the copy anew."""
COPIES = "_copies"
"""The name of the folder of a table's copies."""
_COPY = ".arrow"


@dataclass(frozen=True, slots=True)
class Copy:
    """An intact copy of one version of a table. `bytes` is its size in memory."""

    path: Path
    schema: pa.Schema
    bytes: int

    def read(self) -> pa.Table:
        """Read all records, in the order of the table. Raises OSError or ArrowInvalid."""
        return pa.ipc.open_file(self.path.read_bytes()).read_all()


def wants_copy(schema: Schema, size: int) -> bool:
    """Return whether a collection of `size` bytes gets a copy.

    A search with vectors loads an encoder, beside which the import of LanceDB is small. Collections without text and
    keywords are not read to answer a query.
    """
    return not schema.dimensions and bool(schema.text or schema.keywords) and size <= MAX_COPY_BYTES


def find_copy(table: Path, version: int) -> Copy | None:
    """Return the copy of a version of the table in the folder `table`, or None. A damaged copy is renamed."""
    for path in (table / COPIES).glob(f"{version}.*{_COPY}"):
        wrong = durable_files.find_file_damage(path, path.stem.rpartition(".")[2])
        if wrong is None:
            schema = pa.ipc.open_file(pa.memory_map(str(path))).schema
            return Copy(path, schema, json.loads(schema.metadata[b"copy"])["bytes"])
        warnings.warn(f"{wrong}: LanceDB is read instead.", durable_files.RepairWarning, stacklevel=2)
        with suppress(OSError):  # the table may be damaged too: what is left of the copy stays until the table goes
            path.replace(path.with_name(f"{path.name}.damaged"))
    return None


def write_copy(table: Path, version: int, records: pa.Table, metadata: dict[bytes, bytes]) -> None:
    """Write the copy of a version atomically, with the metadata of its schema. Raises OSError."""
    folder = table / COPIES
    folder.mkdir(exist_ok=True)
    partial = folder / f"{version}.{os.getpid()}.partial"
    header = {**metadata, b"copy": json.dumps({"bytes": records.nbytes}).encode()}
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with (
        partial.open("wb") as sink,
        pa.ipc.new_file(sink, records.schema.with_metadata(header), options=options) as file,
    ):
        file.write_table(records.replace_schema_metadata(header))
    durable_files.move_durably(partial, folder / f"{version}.{durable_files.hash_file(partial)}{_COPY}")


# ---------------------------------------------------------------- mapped vectors


def map_array(folder: Path, collection: str, state: str, write: Callable[[Path], None]) -> Any:
    """Return the memory-mapped array for one `state` of a collection, calling `write` if there is no intact file.

    The file's name ends in its hash. Files of other states are removed; a process that has one open can still read it.
    Raises OSError.
    """
    folder.mkdir(exist_ok=True)
    for path in folder.glob(f"{collection}-{state}.*.npy"):
        wrong = durable_files.find_file_damage(path, path.stem.rpartition(".")[2])
        if wrong is None:
            return np.load(path, mmap_mode="r")
        warnings.warn(f"{wrong}: rebuilt.", durable_files.RepairWarning, stacklevel=2)
        path.unlink(missing_ok=True)
    partial = folder / f"{collection}-{state}.{os.getpid()}.partial"
    write(partial)
    path = folder / f"{collection}-{state}.{durable_files.hash_file(partial)}.npy"
    durable_files.move_durably(partial, path)
    for other in folder.glob(f"{collection}-*.npy"):
        if other != path:
            other.unlink(missing_ok=True)
    return np.load(path, mmap_mode="r")


# ---------------------------------------------------------------- protobuf


_Message = Mapping[int, list[int | bytes]]


def _read_section(file: bytes, start: int) -> bytes:
    """Return the message at `start`, which begins with its length."""
    (length,) = struct.unpack_from("<I", file, start)
    return file[start + 4 : start + 4 + length]


def _parse_message(raw: bytes) -> _Message:
    """Parse a message into its values by field number. Raises ValueError if `raw` is not a message."""
    values: dict[int, list[int | bytes]] = {}
    at = 0
    while at < len(raw):
        tag, at = _read_varint(raw, at)
        value, at = _read_value(raw, at, tag & 7)
        values.setdefault(tag >> 3, []).append(value)
    return values


def _read_value(raw: bytes, at: int, kind: int) -> tuple[int | bytes, int]:
    if kind == 0:
        return _read_varint(raw, at)
    if kind == 2:
        length, at = _read_varint(raw, at)
    else:
        length = {1: 8, 5: 4}.get(kind, len(raw) + 1)
    if at + length > len(raw):
        raise ValueError("a protobuf message that ends too early")
    return raw[at : at + length], at + length


def _read_varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(raw):
        value |= (raw[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if raw[at - 1] < 0x80:
            return value, at
    raise ValueError("a protobuf message that ends too early")


def _encode_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _get_messages(message: _Message, field: int) -> list[bytes]:
    return [value for value in message.get(field, []) if isinstance(value, bytes)]


def _get_bytes(message: _Message, field: int) -> bytes:
    return next(iter(_get_messages(message, field)), b"")


def _get_number(message: _Message, field: int, default: int) -> int:
    numbers = [value for value in message.get(field, []) if isinstance(value, int)]
    return numbers[-1] if numbers else default


def _parse_uuid(name: str) -> bytes:
    """Return the bytes of a UUID in a manifest. If `name` is no UUID, return b"", so that the folder is kept."""
    try:
        return uuid.UUID(name).bytes
    except ValueError:
        return b""
