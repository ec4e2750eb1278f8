"""Files that parts are imported from: a workspace keeps its own copy, named by what it holds."""

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path

from ragindex import registry
from ragindex.errors import DataError, StoreError, UsageError
from ragindex.identity import in_order, model
from ragindex.interfaces import IndexingScheme

TRIPLES = "extractions"
"""The name of the part that --triples fills."""


def require_reader(schemes: Iterable[IndexingScheme]) -> None:
    """Raises UsageError where no part of `schemes` is made from what --triples gives: before any work."""
    parts = in_order([part for scheme in schemes for part in scheme.parts()])
    if TRIPLES not in [registry.name_of(model(part)) for part in parts]:
        raise UsageError("--triples is given, and no method reads triples: 'bm25(over=triples)' would.")


def taken(file: Path, folder: Path) -> str:
    """Copy `file` into the workspace `folder`; 16 hexadecimal digits of the hash of its bytes. Raises DataError."""
    try:
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()[:16]
    except OSError as error:
        raise DataError("a file to import", error.strerror or str(error), path=file) from error
    kept = place(folder, digest)
    partial = kept.with_name(f"{kept.name}.partial")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        if not kept.exists():
            shutil.copyfile(file, partial)
            partial.replace(kept)
    except OSError as error:
        raise StoreError(f"{file} could not be copied into {folder}: {error.strerror or error}.") from error
    return digest


def place(folder: Path, digest: str) -> Path:
    """Where the workspace keeps the file with this hash."""
    return folder / "imports" / digest
