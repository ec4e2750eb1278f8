"""The manifest of a workspace: its fixed settings, and the state that the last finished sync left for readers.

The manifest is one JSON file that is replaced atomically and names everything that a result depends on. If it is
damaged, a copy is read.
"""

import json
import shlex
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock
from pydantic import BaseModel, ValidationError

from ragindex import distribution, durable_files
from ragindex.errors import NewerFormatError, StoreError, WorkspaceError
from ragindex.types import ChunkBy

INDEX_FORMAT = 5
MANIFEST_FILE, _COPY = "workspace.json", "workspace.copy.json"
_LIBRARIES = (
    *("lancedb", "elasticsearch", "numpy", "pyarrow", "scikit-learn", "pystemmer"),
    *("sentence-transformers", "torch", "openai", "graspologic-native", "scipy", "umap-learn"),
)


class IndexSettings(BaseModel, frozen=True, extra="forbid"):
    """Settings made when the workspace is created; only the chunking can change.

    `by`, `size` and `overlap` are None for whole documents.
    """

    language: str
    by: ChunkBy | None
    size: int | None
    overlap: int | None
    store: dict[str, Any]


class DocumentSource(BaseModel, frozen=True, extra="forbid"):
    """A source of documents; every document of a workspace belongs to one source.

    `root` is the folder that ids are relative to or the file of a data set (absolute paths), the name of a generated
    corpus, or "" for documents that a program adds. `format` is the format that documents are read from. Every id
    begins with `prefix`. `left_out` maps what was left out of the folder when it was last read to the reasons, by the
    ids that its documents would have.
    """

    root: str
    format: str
    prefix: str = ""
    left_out: dict[str, str] = {}


class PartRecord(BaseModel, frozen=True, extra="forbid"):
    """The record of a finished part: its plugin, the corpus fingerprint, and the pinned versions of its collections.

    `finish_seconds` is the share of `seconds` spent in `finish`: in the last call, or in all calls if each processes
    only what has changed. `failed` maps failed passages to reasons; `notes` are shown with the part's figures,
    `details` where there is room; `files` are its current version folders (`ragindex.workspace.versioned_files`).
    """

    name: str
    part: dict[str, Any]
    version: int
    encoder: str | None
    encoder_name: str | None
    inputs: tuple[str, ...]
    corpus: str
    collections: dict[str, int]
    identities: dict[str, str]
    seconds: float
    bytes: int
    finish_seconds: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    money: float | None = 0.0
    estimated: bool = False
    failed: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


class Manifest(BaseModel, frozen=True, extra="forbid"):
    """The content of the manifest file.

    `sources` and the ids in `encoders` are stored by name, `parts` by key. `corpus` is the fingerprint of the passages.
    `encoder`, `llm` and `seed` are the index's own, which commands use that name no others. `imports` maps part names
    to the hashes of imported files, and `imported_from` to their original paths. `finished_by` are the store parameters
    that the collections were finished with (`StorePlugin.finishes_by`).

    `outdated` maps parts that no sync will use again to the time they were replaced; they are dropped once nobody reads
    them. `leftover` says whether the last finished sync left data that can be removed later. `rechunking` is true from
    a change of the chunking until all documents are split anew.
    """

    format: int = INDEX_FORMAT
    settings: IndexSettings
    seed: int = 0
    sources: dict[str, DocumentSource] = {}
    corpus: str = ""
    documents_version: int = 0
    documents_identity: str = ""
    documents: int = 0
    passages: int = 0
    encoder: dict[str, Any] = {}
    encoders: dict[str, str] = {}
    llm: dict[str, Any] = {}
    imports: dict[str, str] = {}
    imported_from: dict[str, str] = {}
    parts: dict[str, PartRecord] = {}
    finished_by: dict[str, Any] = {}
    outdated: dict[str, float] = {}
    leftover: bool = False
    rechunking: bool = False
    libraries: Mapping[str, str] = {}


def read_manifest(folder: Path) -> Manifest | None:
    """Read the manifest of `folder`. Return None if there is none. Raises NewerFormatError, WorkspaceError."""
    held = [_read_bytes(folder / name) for name in (MANIFEST_FILE, _COPY)]
    if held == [None, None]:
        return None
    whole = [None if content is None else durable_files.load_hashed_json(content) for content in held]
    value = next((one for one in whole if one is not None), None)
    if value is None:
        _require_format(folder, _parse_unhashed(held[0]))
        raise WorkspaceError(
            f"{folder} is not a valid index: {MANIFEST_FILE} is damaged, and so is {_COPY}. "
            "Run: ragindex index DATA --index OTHER"
        )
    if whole[0] is None:
        found = f"{folder / MANIFEST_FILE} is damaged or missing; its copy was read"
        warnings.warn(f"{found}. {durable_files.repair_hint(folder)}", durable_files.RepairWarning, stacklevel=2)
    _require_format(folder, value)
    try:
        return Manifest.model_validate(value)
    except ValidationError as error:
        raise WorkspaceError(f"{folder} is not a valid index: {MANIFEST_FILE}: {error.errors()[0]['msg']}") from error


def require_manifest(folder: Path) -> Manifest:
    """Read the manifest of `folder`. Raises WorkspaceError, with the command that builds an index, if there is none."""
    manifest = read_manifest(folder)
    if manifest is None:
        raise WorkspaceError(f"No index in {folder}. Run: ragindex index DATA --index {shlex.quote(str(folder))}")
    return manifest


def _read_bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WorkspaceError(f"{path.parent} is not a valid index: {path.name}: {error}") from error


def _parse_unhashed(content: bytes | None) -> dict[str, Any]:
    """Parse a manifest without a hash, as earlier versions of ragindex wrote it."""
    try:
        value = json.loads(content or b"")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _require_format(folder: Path, value: Mapping[str, Any]) -> None:
    found = value.get("format")
    if isinstance(found, int) and found > INDEX_FORMAT:
        raise NewerFormatError(
            f"The index {folder} has format {found}; this ragindex reads up to {INDEX_FORMAT}. "
            f"Run: {distribution.upgrade_line()}"
        )
    if isinstance(found, int) and found < INDEX_FORMAT:
        raise WorkspaceError(
            f"The index {folder} has format {found}, of an earlier ragindex; this one reads {INDEX_FORMAT}. "
            f"Build it again; cached answers and vectors are carried over. Run: {_rebuild_command(folder, value)}"
        )


def older_format(folder: Path) -> int | None:
    """Return the format of the index in `folder` if it is too old for this version to read, else None."""
    for name in (MANIFEST_FILE, _COPY):
        content = _read_bytes(folder / name)
        value = {} if content is None else durable_files.load_hashed_json(content) or _parse_unhashed(content)
        if isinstance(value.get("format"), int) and value["format"] < INDEX_FORMAT:
            return int(value["format"])
    return None


def _rebuild_command(folder: Path, value: Mapping[str, Any]) -> str:
    """Return the commands that index every source of an older index again."""
    settings, sources = value.get("settings"), value.get("sources")
    roots = [one.get("root") for one in sources.values()] if isinstance(sources, dict) else []
    if isinstance(settings, dict) and "source" in settings:  # format 1 had a single source
        roots = [settings["source"]]
    named = [shlex.quote(root) for root in roots if isinstance(root, str) and root] or ["DATA"]
    index = f"--index {shlex.quote(str(folder))}"
    return ", then: ".join(
        f"ragindex index {root} {index}{' --rebuild' if place == 0 else ''}" for place, root in enumerate(named)
    )


@contextmanager
def creation_lock(folder: Path) -> Iterator[None]:
    """Let one process at a time create the workspace in `folder`. Raises StoreError if the lock cannot be taken."""
    lock = FileLock(folder / f"{MANIFEST_FILE}.lock")
    try:
        lock.acquire()
    except OSError as error:
        raise StoreError(f"{MANIFEST_FILE} could not be written in {folder}: {error.strerror or error}.") from error
    try:
        yield
    finally:
        lock.release()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest atomically and durably, then its copy. Raises StoreError if a file cannot be written."""
    content = durable_files.dump_hashed_json(manifest.model_dump(mode="json"))
    try:
        for name in (MANIFEST_FILE, _COPY):
            durable_files.write_file(folder / name, content)
    except OSError as error:
        raise StoreError(f"{MANIFEST_FILE} could not be written in {folder}: {error.strerror or error}.") from error


def update_copy(folder: Path) -> None:
    """Update the copy of the manifest, in case a crash between the two writes left it one state behind.

    Raises StoreError if the copy cannot be written, and WorkspaceError if the manifest cannot be read.
    """
    content = _read_bytes(folder / MANIFEST_FILE)
    if content is None or durable_files.load_hashed_json(content) is None or content == _read_bytes(folder / _COPY):
        return
    try:
        durable_files.write_file(folder / _COPY, content)
    except OSError as error:
        raise StoreError(f"{_COPY} could not be written in {folder}: {error.strerror or error}.") from error


@cache
def libraries() -> Mapping[str, str]:
    """Return the installed versions of the libraries that rankings can depend on."""
    found = {"ragindex": distribution.find_distribution().version}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
