"""Memory-mapped vector files: copies of a store's vectors, with hashes, and rebuilt if they are damaged."""

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ragindex import durable_files


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
