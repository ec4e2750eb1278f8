"""Replacement of an index of an older format by an empty one that keeps the paid work: cached answers and vectors."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from ragindex import durable_files
from ragindex.errors import StoreError, UsageError
from ragindex.workspace import manifest
from ragindex.workspace.encoder import vector_cache_path
from ragindex.workspace.llm import CALLS


def move_aside(folder: Path) -> None:
    """Move an index of an older format to FOLDER.formatN and leave its cached answers and vectors in `folder`.

    Nothing is deleted. After a crash, the same call resumes. Raises UsageError if the index is not of an older format
    or FOLDER.formatN exists, and StoreError if a cache cannot be copied.
    """
    new = folder.with_name(f"{folder.name}.rebuilding")
    format = manifest.older_format(folder)
    if format is not None:
        aside = folder.with_name(f"{folder.name}.format{format}")
        if aside.exists():
            raise UsageError(
                f"{aside} is in the way of the index {folder} of format {format}. Move it, then run again."
            )
        shutil.rmtree(new, ignore_errors=True)
        for cache in (Path(CALLS), vector_cache_path(folder).relative_to(folder)):
            if (folder / cache).exists():
                _copy_database(folder / cache, new / cache)
        new.mkdir(exist_ok=True)
        os.replace(folder, aside)
    elif folder.exists() or not new.exists():
        raise UsageError(f"--rebuild is for an index of an older format; {folder} holds none. Leave it out.")
    durable_files.move_durably(new, folder)


def _copy_database(source: Path, target: Path) -> None:
    """Copy an SQLite database, including its write-ahead log."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with closing(sqlite3.connect(source)) as read, closing(sqlite3.connect(target)) as written:
            read.backup(written)
    except sqlite3.Error as error:
        raise StoreError(
            f"The cache {source} could not be copied to {target}: {error}. Nothing was changed."
        ) from error
