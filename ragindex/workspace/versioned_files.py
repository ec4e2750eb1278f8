"""Files of a part that is made whole: in folders that are named by what they hold and never changed.

They are hashed when they are written and looked at when they are opened; what is damaged, the next sync makes again.

Collections have versions, files have none. A small collection says which folder holds, so a reader pinned to an earlier
sync opens that sync's folder, which stays as long as somebody reads that version.
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

from ragindex import durable_files
from ragindex.errors import DamagedError, StoreError
from ragindex.interfaces import BuildContext, Collection, Floats, Schema

NumberArray: TypeAlias = npt.NDArray[Any]
STATES = Schema(numbers=("replaced",))
"""One record a folder, named like it; 0 for one that holds, else when another took its place, until it is removed."""


# ---------------------------------------------------------------- which folder holds


def record_versions(names: Sequence[str], context: BuildContext, collection: str) -> None:
    """From now on the folders `names` of the part hold, and no others.

    Readers of any version of the collection see exactly the folders that held then: it changes in one write. The
    others stay until `remove_all_but` finds that nobody reads them.
    """
    states, now = context.collection(collection, STATES), time.time()
    known = _states(states)
    wanted = {**{name: now for name, replaced in known.items() if not replaced}, **dict.fromkeys(names, 0.0)}
    changed = {name: moment for name, moment in wanted.items() if known.get(name) != moment}
    if changed:
        columns = [pa.array(list(changed), pa.string()), pa.array(list(changed.values()), pa.float64())]
        states.upsert(pa.RecordBatch.from_arrays(columns, names=["id", "replaced"]))
    states.delete(sorted({**known, **wanted}.keys() - set(names)))


def recorded_versions(states: Collection) -> list[str]:
    """The names of the folders that hold; none for a collection of something else."""
    if states.schema != STATES:
        return []
    return [name for name, replaced in _states(states).items() if not replaced]


def versions_size(folder: Path, names: Iterable[str]) -> int:
    """Bytes of the part's folders of these names."""
    files = (file for name in names for file in (folder / name).rglob("*"))
    return sum(file.stat().st_size for file in files if file.is_file())


def keep_versions(folder: Path, names: Set[str]) -> None:
    """Remove the part's other folders, also what a sync that was cut short left there."""
    for path in folder.iterdir():
        if path.name not in names:
            shutil.rmtree(path, ignore_errors=True)


def current_version(states: Collection) -> str:
    """The name of the one folder that holds."""
    (name,) = recorded_versions(states)
    return name


def _states(states: Collection) -> dict[str, float]:
    return {row["id"]: row["replaced"] for batch in states.scan(("replaced",)) for row in batch.to_pylist()}


# ---------------------------------------------------------------- writing and reading one


def save_version(what: str, folder: Path, write: Callable[[Path], None]) -> str:
    """Let `write` fill a folder of `folder`, which is then named by what it holds; that name. Raises StoreError.

    Files that are there and whole are never changed, so readers of an earlier folder keep it.
    """
    partial = folder / f"partial-{os.getpid()}"
    with _writing(what, folder):
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
    """Zeros to write to, mapped from a file of `folder` that is gone afterwards. Raises StoreError.

    What a killed process leaves goes with the next `scratch`, or with `remove_all_but`.
    """
    room = folder / "scratch"
    try:
        with _writing(what, folder):
            shutil.rmtree(room, ignore_errors=True)
            room.mkdir(parents=True)
            numbers = _mapped(room / "numbers.npy", shape)
        yield numbers
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _mapped(path: Path, shape: tuple[int, int]) -> Floats:
    numbers = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    if hasattr(os, "posix_fallocate"):  # a disk that is found full only when a page is written kills the process
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return np.asarray(numbers)


@contextmanager
def _writing(what: str, folder: Path) -> Iterator[None]:
    """Raises StoreError where the disk fails inside."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"The {what} could not be written to {folder}: {error.strerror or error}.") from error


@contextmanager
def open_files(what: str, folder: Path) -> Iterator[None]:
    """Raises DamagedError where the files of `folder` are not as they were written, or cannot be read inside."""
    wrong = durable_files.find_named_folder_damage(folder)
    if wrong is not None:
        raise _damaged(what, folder, wrong)
    try:
        yield
    except (OSError, ValueError, EOFError) as error:
        raise _damaged(what, folder, f"{folder} cannot be read ({error})") from error


def _damaged(what: str, folder: Path, wrong: str) -> DamagedError:
    return DamagedError(f"The {what} of a part: {wrong}. {durable_files.repair_hint(folder.parents[2])}")


def write_numbers(path: Path, numbers: NumberArray) -> None:
    """One npy file."""
    np.save(path, numbers, allow_pickle=False)


def write_rows(path: Path, shape: tuple[int, int], blocks: Iterable[Floats]) -> None:
    """One npy file of float32 as `write_numbers` writes it, from blocks of its rows."""
    header = {"descr": np.dtype(np.float32).str, "fortran_order": False, "shape": shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks:
            file.write(np.ascontiguousarray(block, np.float32).data)


def read_numbers(path: Path) -> NumberArray:
    """Mapped into memory; never to be written to. A plain array: numpy's memmap is slow to slice."""
    numbers: NumberArray = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    return numbers


def write_texts(path: Path, column: pa.Array) -> None:
    """One Arrow file."""
    batch = pa.RecordBatch.from_arrays([column], names=["text"])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def read_texts(path: Path) -> pa.Array:
    """Mapped into memory."""
    return pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0).column(0)
