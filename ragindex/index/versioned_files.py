"""Versioned files of a part: folders that are named by the hash of their content and never changed.

Files are hashed when they are written and checked when they are opened; the next sync rebuilds damaged ones.

Unlike collections, files have no versions. A small collection therefore records which folders are current. A reader
pinned to an earlier sync opens that sync's folder, which is kept while that version is read.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ragindex._util import durable_files
from ragindex.errors import DamagedError
from ragindex.index.manifest import wrap_write_errors
from ragindex.interfaces import BuildContext, Collection, Floats, Schema
from ragindex.stores.records import map_arrow_file

NumberArray: TypeAlias = npt.NDArray[Any]
STATES = Schema(numbers=("replaced",))
"""The schema of the collection that records the folders, by folder name. `replaced` is 0 for a current folder, else the
time at which it was replaced."""


# ---------------------------------------------------------------- current folders


def record_versions(names: Sequence[str], context: BuildContext, collection: str) -> None:
    """Make `names` the current folders of the part.

    A reader of any version of the collection sees exactly the folders that were current at that version. Replaced
    folders are kept until `keep_versions` removes those that nobody reads.
    """
    states, now = context.collection(collection, STATES), time.time()
    known = _read_states(states)
    replaced_at = {**{name: now for name, replaced in known.items() if not replaced}, **dict.fromkeys(names, 0.0)}
    changed = {name: moment for name, moment in replaced_at.items() if known.get(name) != moment}
    if changed:
        columns = [pa.array(list(changed), pa.string()), pa.array(list(changed.values()), pa.float64())]
        states.upsert(pa.RecordBatch.from_arrays(columns, names=["id", "replaced"]))
    states.delete(sorted({**known, **replaced_at}.keys() - set(names)))


def recorded_versions(states: Collection) -> list[str]:
    """Return the names of the current folders; an empty list for a collection with another schema."""
    if states.schema != STATES:
        return []
    return [name for name, replaced in _read_states(states).items() if not replaced]


def versions_size(folder: Path, names: Iterable[str]) -> int:
    """Return the size in bytes of the folders `names` in a part's folder."""
    files = (file for name in names for file in (folder / name).rglob("*"))
    return sum(file.stat().st_size for file in files if file.is_file())


def keep_versions(folder: Path, names: Set[str]) -> None:
    """Remove all folders of a part except `names`, including those left by an interrupted sync."""
    for path in folder.iterdir():
        if path.name not in names:
            shutil.rmtree(path, ignore_errors=True)


def current_version(states: Collection) -> str:
    """Return the name of the only current folder. Raises ValueError if there is not exactly one."""
    (name,) = recorded_versions(states)
    return name


def _read_states(states: Collection) -> dict[str, float]:
    return {row["id"]: row["replaced"] for batch in states.scan(("replaced",)) for row in batch.to_pylist()}


# ---------------------------------------------------------------- writing and reading


def save_version(what: str, folder: Path, write: Callable[[Path], None]) -> str:
    """Let `write` fill a new folder in `folder`, name it by its content hash, and return that name. Raises StoreError.

    An intact folder with the same name is kept, so its readers are not disturbed.
    """
    partial = folder / f"partial-{os.getpid()}"
    with wrap_write_errors(f"The {what} could not be written to {folder}"):
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        write(partial)
        name = durable_files.write_hashes(partial)
        if durable_files.find_folder_damage(folder / name) is not None:
            durable_files.move_durably(partial, folder / name)
        shutil.rmtree(partial, ignore_errors=True)
    return name


@contextmanager
def scratch_array(what: str, folder: Path, shape: tuple[int, int]) -> Iterator[Floats]:
    """Yield a writable float32 array of zeros, memory-mapped from a temporary file in `folder`. Raises StoreError.

    A file left by a killed process is removed by the next `scratch_array` or `keep_versions`.
    """
    scratch = folder / "scratch"
    try:
        with wrap_write_errors(f"The {what} could not be written to {folder}"):
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(parents=True)
            path = scratch / "numbers.npy"
            numbers = np.asarray(np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape))
            if hasattr(os, "posix_fallocate"):  # else a full disk kills the process when a page is written
                with path.open("r+b") as file:
                    os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        yield numbers
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def open_files(what: str, folder: Path) -> Iterator[None]:
    """Check the files of `folder`, then run the body. Raises DamagedError if they are damaged or cannot be read."""
    wrong = durable_files.find_named_folder_damage(folder)
    if wrong is not None:
        raise _build_damaged_error(what, folder, wrong)
    try:
        yield
    except (OSError, ValueError, LookupError, OverflowError, EOFError) as error:
        raise _build_damaged_error(what, folder, f"{folder} cannot be read ({error})") from error


def _build_damaged_error(what: str, folder: Path, wrong: str) -> DamagedError:
    return DamagedError(f"The {what} of a part: {wrong}. {durable_files.repair_hint(folder.parents[2])}")


def write_numbers(path: Path, numbers: NumberArray) -> None:
    """Write an array to an npy file."""
    np.save(path, numbers, allow_pickle=False)


def write_rows(path: Path, shape: tuple[int, int], blocks: Iterable[Floats]) -> None:
    """Write a float32 array of the given shape to an npy file, as `write_numbers` does, from blocks of its rows."""
    header = {"descr": np.dtype(np.float32).str, "fortran_order": False, "shape": shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks:
            file.write(np.ascontiguousarray(block, np.float32).data)


def read_numbers(path: Path) -> NumberArray:
    """Read an npy file as a memory-mapped, read-only array. It is a plain array because slicing a memmap is slow."""
    numbers: NumberArray = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    return numbers


def read_places(path: Path, shape: tuple[int, ...], count: int, least: int = 0) -> NumberArray:
    """Read an array of places among `count` things: integers in the range [least, count). Raises ValueError for others.

    The files of an export can be crafted, with hashes that are right. A -1 in a shape is any length.
    """
    numbers = _read_shaped(path, shape)
    if numbers.dtype.kind != "i" or (numbers.size and not (least <= numbers.min() and numbers.max() < count)):
        raise ValueError(f"{path.name} must hold integers in the range [{least}, {count})")
    return numbers


def read_starts(path: Path, rows: int, count: int) -> NumberArray:
    """Read where each of `rows` sparse rows starts among `count` values, and where the last one ends.

    Raises ValueError unless the rows follow one another and take all values.
    """
    starts = read_places(path, (rows + 1,), count + 1)
    if starts[0] != 0 or starts[-1] != count or (starts[1:] < starts[:-1]).any():
        raise ValueError(f"{path.name} must hold the starts of rows from 0 to {count}, ascending")
    return starts


def read_values(path: Path, shape: tuple[int, ...]) -> NumberArray:
    """Read an array of floats of a shape, in which -1 is any length. Raises ValueError for others."""
    values = _read_shaped(path, shape)
    if values.dtype.kind != "f":
        raise ValueError(f"{path.name} must hold floats")
    return values


def _read_shaped(path: Path, shape: tuple[int, ...]) -> NumberArray:
    numbers = read_numbers(path)
    if numbers.ndim != len(shape) or any(a not in (-1, b) for a, b in zip(shape, numbers.shape, strict=True)):
        raise ValueError(f"{path.name} must hold an array of the shape {shape}, not {numbers.shape}")
    return numbers


def write_texts(path: Path, column: pa.Array) -> None:
    """Write a column of texts to an Arrow file."""
    batch = pa.RecordBatch.from_arrays([column], names=["text"])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def read_texts(path: Path) -> pa.Array:
    """Read a column of texts from an Arrow file, memory-mapped. Raises ValueError for other values."""
    column: pa.Array = map_arrow_file(path).column("text").chunk(0)
    if column.type not in (pa.string(), pa.large_string()) or column.null_count:
        raise ValueError(f"{path.name} must hold texts")
    return column
