"""Files beside a table that are made from it, with hashes: copies of small collections, and mapped vectors.

Copies are read without LanceDB: importing LanceDB takes a second. `finish` writes one Arrow file per finished version
into the table's folder, named by the version and its own hash. A reader of that version loads it. Writers, scans,
checks, and readers of any other version use LanceDB. A copy is removed with its version. A collection beyond MAX_BYTES
has no copy, because each sync writes the copy anew.
"""

import json
import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ragindex._util import files as durable_files
from ragindex.interfaces import Schema

# ---------------------------------------------------------------- copies of collections


MAX_BYTES = 32 << 20
"""The most bytes of the table in memory. Loading a larger one takes about as long as importing LanceDB."""
FOLDER = "_copies"
"""The name of the folder of a table's copies."""
_END = ".arrow"


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
    return not schema.dimensions and bool(schema.text or schema.keywords) and size <= MAX_BYTES


def is_copy_of(path: Path, version: int) -> bool:
    """Return whether a file in the folder of copies is one of this version."""
    return path.suffix == _END and path.name.partition(".")[0] == str(version)


def find_copy(table: Path, version: int) -> Copy | None:
    """Return the copy of a version of the table in the folder `table`, or None. A damaged copy is renamed."""
    for path in (table / FOLDER).glob(f"{version}.*{_END}"):
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
    folder = table / FOLDER
    folder.mkdir(exist_ok=True)
    partial = folder / f"{version}.{os.getpid()}.partial"
    held = {**metadata, b"copy": json.dumps({"bytes": records.nbytes}).encode()}
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with partial.open("wb") as sink, pa.ipc.new_file(sink, records.schema.with_metadata(held), options=options) as file:
        file.write_table(records.replace_schema_metadata(held))
    durable_files.move_durably(partial, folder / f"{version}.{durable_files.hash_file(partial)}{_END}")


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
