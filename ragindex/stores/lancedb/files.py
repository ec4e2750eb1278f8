"""The files of a LanceDB table: which version needs which, how large they are, and removal of those that none needs.

LanceDB removes versions by their age alone, and only while it rewrites all records. A version's needs are in its
manifest, a protobuf message of the Lance table format (`lance.table.Manifest`), which is read here. Nothing is removed
unless what was read agrees with the engine and with the disk.
"""

import re
import shutil
import struct
import uuid
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_MAGIC = b"LANC"
_REVERSED = 2**64 - 1
"""A manifest's name is this less the version's number, so that the newest comes first; older tables have the number."""
_DELETIONS = re.compile(r"\d+-\d+-(\d+)\.\w+")


@dataclass(frozen=True, slots=True)
class Fragment:
    """Records that were written together: how many, and how many of them have been deleted since."""

    id: int
    rows: int
    deleted: int
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """An index by name: `uuid` is its folder, `made_from` the table's version when it was made."""

    name: str
    uuid: str
    made_from: int


@dataclass(frozen=True)
class Version:
    """One version of a table, as its manifest tells it; `raw` are the messages that name its files."""

    number: int
    path: Path
    raw: bytes
    fragments: tuple[Fragment, ...]
    indexes: Mapping[str, IndexInfo]

    @cached_property
    def rows(self) -> int:
        """Records that are in it."""
        return sum(one.rows - one.deleted for one in self.fragments)

    @cached_property
    def written(self) -> int:
        """Records that its files hold, deleted ones included."""
        return sum(one.rows for one in self.fragments)

    def needs(self, path: Path) -> bool:
        """Whether the manifest names a file of the table, `path`, or an index's folder."""
        kind = path.parent.name
        if kind == "_versions":
            return path.name == self.path.name
        if kind == "_indices":
            return _raw_uuid(path.name) in self.raw
        if kind == "_deletions":
            number = _DELETIONS.fullmatch(path.name)
            return number is None or _varint(int(number[1])) in self.raw
        return path.name.encode() in self.raw


# ---------------------------------------------------------------- reading


def read_versions(folder: Path) -> dict[int, Version]:
    """All versions that the table in `folder` has, by number. Raises ValueError where one cannot be read."""
    found = (_read(path) for path in (folder / "_versions").glob("*.manifest"))
    return {one.number: one for one in found}


def find_newest_version(folder: Path) -> int | None:
    """The number of the newest version, by the names of the manifests; None where the table has none."""
    numbers = (int(path.stem) for path in (folder / "_versions").glob("*.manifest"))
    return max((_REVERSED - number if number > _REVERSED // 2 else number for number in numbers), default=None)


def read_version(folder: Path, number: int) -> Version:
    """One version. Raises ValueError where it is not there or cannot be read."""
    for name in (f"{_REVERSED - number:020d}", str(number)):
        path = folder / "_versions" / f"{name}.manifest"
        if path.exists():
            return _read(path)
    raise ValueError(f"{folder.stem} no longer has version {number}")


def _read(path: Path) -> Version:
    file = path.read_bytes()
    if file[-4:] != _MAGIC or len(file) < 16:
        raise ValueError(f"{path} is not a manifest of a Lance table")
    (start,) = struct.unpack_from("<Q", file, len(file) - 16)
    whole = _section(file, start)
    manifest = _fields(whole)
    place = _number(manifest, 6, -1)
    section = (
        _section(file, place) if place >= 0 else b""
    )  # between them is the last write, which names what it replaced
    fragments = tuple(map(_fragment, _all(manifest, 2)))
    return Version(_number(manifest, 3, 0), path, whole + section, fragments, _indexes(_fields(section)))


def _fragment(raw: bytes) -> Fragment:
    message = _fields(raw)
    files = tuple(_bytes(_fields(one), 1).decode() for one in _all(message, 2))
    deleted = sum(_number(_fields(one), 4, 0) for one in _all(message, 3))
    return Fragment(_number(message, 1, 0), _number(message, 4, 0), deleted, files)


def _indexes(section: "_Message") -> dict[str, IndexInfo]:
    found = {}
    for raw in _all(section, 1):
        message = _fields(raw)
        name = _bytes(message, 3).decode()
        identity = str(uuid.UUID(bytes=_bytes(_fields(_bytes(message, 1)), 1)))
        found[name] = IndexInfo(name, identity, _number(message, 4, 0))
    return found


# ---------------------------------------------------------------- sizes and removal


def list_needed_files(folder: Path, kept: Iterable[Version]) -> dict[Path, int]:
    """The files that the versions `kept` need, with their bytes."""
    held = list(kept)
    return {
        path: _size(path) for path in _entries(folder) if path.suffix != ".txn" and any(one.needs(path) for one in held)
    }


def remove_other_versions(folder: Path, kept: Set[int], rows: int) -> None:
    """Remove the versions that are not `kept`, and the files that no kept version needs.

    The caller holds the writer's lease, so no write is under way; `rows` is how many records the engine counts in the
    newest of `kept`. Raises ValueError, before anything is removed, where what is read here does not agree with it.
    """
    held = read_versions(folder)
    missing = sorted(kept - held.keys())
    if missing or not kept:
        raise ValueError(f"{folder.stem} has no version {missing or 'to keep'}")
    keeping = [held[number] for number in sorted(kept)]
    _check(folder, keeping[-1], rows)
    for path in _entries(folder):
        if not any(one.needs(path) for one in keeping):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _check(folder: Path, newest: Version, rows: int) -> None:
    """That the newest version says as many records as the engine, and that the files it names are there."""
    if newest.rows != rows:
        raise ValueError(f"{newest.path} lists {newest.rows} records; LanceDB counts {rows}")
    data = [folder / "data" / name for one in newest.fragments for name in one.files]
    absent = [
        path for path in data + [folder / "_indices" / one.uuid for one in newest.indexes.values()] if not path.exists()
    ]
    if absent:
        raise ValueError(f"{newest.path} names {absent[0]}, which is missing")


def _entries(folder: Path) -> Iterator[Path]:
    """What LanceDB has written and may be removed: data files, deletions, manifests, and the folders of indexes."""
    for kind, pattern in (
        ("data", "*.lance"),
        ("_deletions", "*"),
        ("_transactions", "*.txn"),
        ("_indices", "*"),
        ("_versions", "*.manifest"),
    ):
        yield from (folder / kind).glob(pattern)


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(one.stat().st_size for one in path.rglob("*") if one.is_file())
    return path.stat().st_size


# ---------------------------------------------------------------- protobuf


_Message = Mapping[int, list[int | bytes]]


def _section(file: bytes, start: int) -> bytes:
    """The message at `start`, which begins with its length."""
    (length,) = struct.unpack_from("<I", file, start)
    return file[start + 4 : start + 4 + length]


def _fields(raw: bytes) -> _Message:
    """A message's values by field number. Raises ValueError where `raw` is no message."""
    found: dict[int, list[int | bytes]] = {}
    at = 0
    while at < len(raw):
        tag, at = _read_varint(raw, at)
        value, at = _value(raw, at, tag & 7)
        found.setdefault(tag >> 3, []).append(value)
    return found


def _value(raw: bytes, at: int, kind: int) -> tuple[int | bytes, int]:
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


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _all(message: _Message, field: int) -> list[bytes]:
    return [value for value in message.get(field, []) if isinstance(value, bytes)]


def _bytes(message: _Message, field: int) -> bytes:
    return next(iter(_all(message, field)), b"")


def _number(message: _Message, field: int, default: int) -> int:
    found = [value for value in message.get(field, []) if isinstance(value, int)]
    return found[-1] if found else default


def _raw_uuid(name: str) -> bytes:
    """Those bytes that stand for it in a manifest; for a folder whose name is none, of nothing: it is kept."""
    try:
        return uuid.UUID(name).bytes
    except ValueError:
        return b""
