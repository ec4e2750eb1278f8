"""Files that parts are imported from. A workspace keeps its own copies, named by their content hashes."""

import shlex
import shutil
from collections.abc import Iterable
from pathlib import Path

from ragindex import durable_files
from ragindex.errors import DamagedError, DataError, StoreError, UsageError
from ragindex.interfaces import Scheme
from ragindex.plugins import registry
from ragindex.workspace.part_keys import topological_order

TRIPLES = "extractions"
"""The name of the part that --triples fills."""


def require_reader(schemes: Iterable[Scheme]) -> None:
    """Raise UsageError if no part of `schemes` uses the file given with --triples. Called before any work is done."""
    parts = topological_order([part for scheme in schemes for part in scheme.parts()])
    if TRIPLES not in [registry.name_of(part) for part in parts]:
        raise UsageError("No selected method uses triples. Try 'bm25(over=triples)'.")


def store_import(file: Path, folder: Path) -> str:
    """Copy `file` into the workspace `folder` and return its hash (16 hexadecimal digits).

    Raises DataError if the file cannot be read or changes meanwhile, and StoreError if the copy cannot be written.
    """
    try:
        digest = durable_files.hash_file(file)
    except OSError as error:
        raise DataError("a file to import", error.strerror or str(error), path=file) from error
    kept = imported_path(folder, digest)
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        if durable_files.find_file_damage(kept, digest) is not None:
            with file.open("rb") as source, durable_files.replace_file(kept) as copy:
                shutil.copyfileobj(source, copy)
    except OSError as error:
        raise StoreError(f"{file} could not be copied into {folder}: {error.strerror or error}.") from error
    if durable_files.find_file_damage(kept, digest) is not None:
        raise DataError("a file that nobody changes while it is imported", "another", path=file)
    return digest


def require_import(folder: Path, digest: str, source: str) -> Path:
    """Return the path of the workspace's copy of an imported file. Raises DamagedError if it is damaged or missing.

    `source` is the path that the file was imported from, for the error's command.
    """
    kept = imported_path(folder, digest)
    wrong = durable_files.find_file_damage(kept, digest)
    if wrong is not None:
        given = f"--triples {shlex.quote(source or 'FILE')}"
        raise DamagedError(f"An imported file: {wrong}. Give it again. {durable_files.repair_hint(folder)} {given}")
    return kept


def imported_path(folder: Path, digest: str) -> Path:
    """Return the path at which the workspace keeps the imported file with this hash."""
    return folder / "imports" / digest
