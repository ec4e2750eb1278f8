"""What a workspace is made of: its fixed settings, and what the last finished sync left for readers.

One JSON file, replaced in one step, names everything that a result depends on.
"""

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock
from pydantic import BaseModel, ValidationError

from ragindex.errors import NewerFormatError, StoreError, WorkspaceError

FORMAT = 2
_FILE = "workspace.json"
_LIBRARIES = (
    *("ragindex", "lancedb", "elasticsearch", "numpy", "pyarrow", "scikit-learn", "pystemmer"),
    *("sentence-transformers", "openai", "graspologic-native", "scipy", "umap-learn"),
)


class Settings(BaseModel, frozen=True, extra="forbid"):
    """Fixed when the workspace is made. `size` and `overlap` are of the cutting, None for whole documents."""

    language: str
    size: int | None
    overlap: int | None
    store: dict[str, Any]


class Source(BaseModel, frozen=True, extra="forbid"):
    """Where documents of a workspace come from: each of its documents belongs to one source.

    `root` is the folder that ids are relative to, the file of a data set, or the name of a made corpus, all in full;
    "" for the documents that a program adds. `format` is how it is read. Every id begins with `prefix`.
    """

    root: str
    format: str
    prefix: str = ""


class PartRecord(BaseModel, frozen=True, extra="forbid"):
    """A finished part: what it is, at which corpus, and the collection versions that readers are pinned to.

    `finish_seconds` is the share of `seconds` that `finish` took: the last time, or ever where each makes only what has
    changed. `failed` are passages that could not be made, with the reason; `notes` what a reader of the figures should
    know.
    """

    name: str
    part: dict[str, Any]
    version: int
    encoder: str | None
    encoder_name: str | None
    inputs: tuple[str, ...]
    corpus: str
    collections: dict[str, int]
    seconds: float
    bytes: int
    finish_seconds: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    money: float = 0.0
    failed: dict[str, str] = {}
    notes: tuple[str, ...] = ()


class Manifest(BaseModel, frozen=True, extra="forbid"):
    """`sources` are by name; `corpus` is the passages' fingerprint; `encoder` the last used, `encoders` the ids by
    name; `parts` by key; `llm` the language model last used; `imports` the hashes of imported files by the name of the
    part they fill.

    `finished_by` are the store's parameters that the parts' collections were finished with (`StorePlugin.finishes_by`).

    `outdated` are parts that no sync will use again, with the time they were replaced: they are dropped a day later.
    """

    format: int = FORMAT
    settings: Settings
    seed: int = 0
    sources: dict[str, Source] = {}
    corpus: str = ""
    documents_version: int = 0
    documents: int = 0
    passages: int = 0
    encoder: dict[str, Any] = {}
    encoders: dict[str, str] = {}
    llm: dict[str, Any] = {}
    imports: dict[str, str] = {}
    parts: dict[str, PartRecord] = {}
    finished_by: dict[str, Any] = {}
    outdated: dict[str, float] = {}
    libraries: Mapping[str, str] = {}


def read(folder: Path) -> Manifest | None:
    """The manifest of `folder`, None where there is none. Raises NewerFormatError, WorkspaceError."""
    path = folder / _FILE
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise WorkspaceError(f"{folder} is no readable workspace: {_FILE}: {error}") from error
    found = value.get("format") if isinstance(value, dict) else None
    if isinstance(found, int) and found > FORMAT:
        raise NewerFormatError(
            f"The workspace {folder} has format {found}; this ragindex reads up to {FORMAT}. "
            "Run: pip install --upgrade ragindex"
        )
    if isinstance(found, int) and found < FORMAT:
        raise WorkspaceError(
            f"The workspace {folder} has format {found}, of an earlier ragindex; this one reads {FORMAT}. "
            f"Build it in another folder, into which you may copy {folder / 'caches'} first, to pay for nothing again. "
            f"Run: ragindex index {_earlier_data(value)} --workspace {shlex.quote(f'{folder}-{FORMAT}')}"
        )
    try:
        return Manifest.model_validate(value)
    except ValidationError as error:
        raise WorkspaceError(f"{folder} is no readable workspace: {_FILE}: {error.errors()[0]['msg']}") from error


def _earlier_data(value: Mapping[str, Any]) -> str:
    """What a workspace of format 1 was built from, as a command names it."""
    settings = value.get("settings")
    source = settings.get("source") if isinstance(settings, dict) else None
    return shlex.quote(source) if isinstance(source, str) and os.path.exists(source) else "DATA"


@contextmanager
def making(folder: Path) -> Iterator[None]:
    """One process at a time makes the workspace in `folder`. Raises StoreError where the disk does not let it."""
    lock = FileLock(folder / f"{_FILE}.lock")
    try:
        lock.acquire()
    except OSError as error:
        raise StoreError(f"{_FILE} could not be written in {folder}: {error.strerror or error}.") from error
    try:
        yield
    finally:
        lock.release()


def write(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest in one step, durably. Raises StoreError where the disk does not let it."""
    write_json(folder / _FILE, manifest.model_dump(mode="json"))


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file in one step, durably."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            json.dump(value, file, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise StoreError(f"{path.name} could not be written in {path.parent}: {error.strerror or error}.") from error


@cache
def libraries() -> Mapping[str, str]:
    """The installed versions of the libraries that rankings can depend on."""
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
