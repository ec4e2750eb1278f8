"""What a workspace is made of: its fixed settings, and what the last finished sync left for readers.

One JSON file, replaced in one step, names everything that a result depends on.
"""

import json
import os
import threading
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from ragindex.errors import NewerFormatError, StoreError, WorkspaceError

FORMAT = 1
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
    source: str = ""


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
    """`corpus` is the passages' fingerprint; `encoder` the last used, `encoders` the ids by name; `parts` by key;
    `llm` the language model last used; `imports` the hashes of imported files by the name of the part they fill.

    `finished_by` are the store's parameters that the parts' collections were finished with (`StorePlugin.finishes_by`).

    `outdated` are parts that no sync will use again, with the time they were replaced: they are dropped once nobody
    reads them. `leftover`: whether the last finished sync left something because somebody read it.
    """

    format: int = FORMAT
    settings: Settings
    seed: int = 0
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
    leftover: bool = False
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
    try:
        return Manifest.model_validate(value)
    except ValidationError as error:
        raise WorkspaceError(f"{folder} is no readable workspace: {_FILE}: {error.errors()[0]['msg']}") from error


def create(folder: Path, manifest: Manifest) -> Manifest:
    """Write the first manifest, unless somebody has written one meanwhile; the manifest that is there now."""
    ready = folder / f"{_FILE}.{os.getpid()}.{threading.get_ident()}.first"
    write_json(ready, manifest.model_dump(mode="json"))
    try:
        os.link(ready, folder / _FILE)
    except FileExistsError:
        pass
    except OSError as error:
        raise StoreError(f"{_FILE} could not be written in {folder}: {error.strerror or error}.") from error
    finally:
        ready.unlink(missing_ok=True)
    held = read(folder)
    if held is None:
        raise StoreError(f"{_FILE} was removed from {folder} while it was opened.")
    return held


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
