"""What a workspace is made of: its fixed settings, and what the last finished sync left for readers.

One JSON file, replaced in one step, names everything that a result depends on. A copy of it is read where it is
damaged.
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

INDEX_FORMAT = 3
_FILE, _COPY = "workspace.json", "workspace.copy.json"
_LIBRARIES = (
    *("lancedb", "elasticsearch", "numpy", "pyarrow", "scikit-learn", "pystemmer"),
    *("sentence-transformers", "torch", "openai", "graspologic-native", "scipy", "umap-learn"),
)


class IndexSettings(BaseModel, frozen=True, extra="forbid"):
    """Fixed when the workspace is made. `size` and `overlap` are of the chunking, None for whole documents."""

    language: str
    size: int | None
    overlap: int | None
    store: dict[str, Any]


class DocumentSource(BaseModel, frozen=True, extra="forbid"):
    """Where documents of a workspace come from: each of its documents belongs to one source.

    `root` is the folder that ids are relative to, the file of a data set, or the name of a made corpus, all in full;
    "" for the documents that a program adds. `format` is how it is read. Every id begins with `prefix`.
    """

    root: str
    format: str
    prefix: str = ""


class PartRecord(BaseModel, frozen=True, extra="forbid"):
    """A finished part: what it is, at which corpus, and the collection versions that readers are pinned to, with the
    collections' identities.

    `finish_seconds` is the share of `seconds` that `finish` took: the last time, or ever where each makes only what has
    changed. `failed` are passages that could not be made, with the reason; `notes` what a reader of the figures should
    know; `files` are the folders that it keeps (`parts.kept_files`).
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
    failed: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


class Manifest(BaseModel, frozen=True, extra="forbid"):
    """`sources` are by name; `corpus` is the passages' fingerprint; `encoder` the last used, `encoders` the ids by
    name; `parts` by key; `llm` the language model last used; `imports` the hashes of imported files by the name of the
    part they fill, and `imported_from` where they lay.

    `finished_by` are the store's parameters that the parts' collections were finished with (`StorePlugin.finishes_by`).

    `outdated` are parts that no sync will use again, with the time they were replaced: they are dropped once nobody
    reads them. `leftover`: whether the last finished sync left something because somebody read it.
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
    libraries: Mapping[str, str] = {}


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of `folder`, None where there is none. Raises NewerFormatError, WorkspaceError."""
    held = [_content(folder / name) for name in (_FILE, _COPY)]
    if held == [None, None]:
        return None
    whole = [None if content is None else durable_files.load_hashed_json(content) for content in held]
    value = next((one for one in whole if one is not None), None)
    if value is None:
        _require_format(folder, _without_hash(held[0]))
        raise WorkspaceError(
            f"{folder} is not a valid index: {_FILE} is damaged, and so is {_COPY}. "
            "Run: ragindex index DATA --index OTHER"
        )
    if whole[0] is None:
        found = f"{folder / _FILE} is damaged or missing; its copy was read"
        warnings.warn(f"{found}. {durable_files.repair_hint(folder)}", durable_files.RepairWarning, stacklevel=2)
    _require_format(folder, value)
    try:
        return Manifest.model_validate(value)
    except ValidationError as error:
        raise WorkspaceError(f"{folder} is not a valid index: {_FILE}: {error.errors()[0]['msg']}") from error


def require_manifest(folder: Path) -> Manifest:
    """The manifest of `folder`. Raises WorkspaceError, with the command that makes an index, where there is none."""
    manifest = read_manifest(folder)
    if manifest is None:
        raise WorkspaceError(f"No index in {folder}. Run: ragindex index DATA --index {shlex.quote(str(folder))}")
    return manifest


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WorkspaceError(f"{path.parent} is not a valid index: {path.name}: {error}") from error


def _without_hash(content: bytes | None) -> dict[str, Any]:
    """What a file without a hash of ours says: an earlier version of ragindex wrote none."""
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
    """The format of the index in `folder`, where it is an older one than this version reads; None otherwise."""
    for name in (_FILE, _COPY):
        content = _content(folder / name)
        value = {} if content is None else durable_files.load_hashed_json(content) or _without_hash(content)
        if isinstance(value.get("format"), int) and value["format"] < INDEX_FORMAT:
            return int(value["format"])
    return None


def _rebuild_command(folder: Path, value: Mapping[str, Any]) -> str:
    """The commands that index every source of an older index again."""
    settings, sources = value.get("settings"), value.get("sources")
    roots = [one.get("root") for one in sources.values()] if isinstance(sources, dict) else []
    if isinstance(settings, dict) and "source" in settings:  # format 1 had one
        roots = [settings["source"]]
    named = [shlex.quote(root) for root in roots if isinstance(root, str) and root] or ["DATA"]
    index = f"--index {shlex.quote(str(folder))}"
    return ", then: ".join(
        f"ragindex index {root} {index}{' --rebuild' if place == 0 else ''}" for place, root in enumerate(named)
    )


@contextmanager
def creation_lock(folder: Path) -> Iterator[None]:
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


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest in one step, durably, then its copy. Raises StoreError where the disk does not let it."""
    content = durable_files.dump_hashed_json(manifest.model_dump(mode="json"))
    try:
        for name in (_FILE, _COPY):
            durable_files.write_file(folder / name, content)
    except OSError as error:
        raise StoreError(f"{_FILE} could not be written in {folder}: {error.strerror or error}.") from error


def update_copy(folder: Path) -> None:
    """Bring the copy up to the manifest: a crash between the two writes has left it a state behind.

    Raises StoreError where the disk does not let it, WorkspaceError where the manifest cannot be read.
    """
    content = _content(folder / _FILE)
    if content is None or durable_files.load_hashed_json(content) is None or content == _content(folder / _COPY):
        return
    try:
        durable_files.write_file(folder / _COPY, content)
    except OSError as error:
        raise StoreError(f"{_COPY} could not be written in {folder}: {error.strerror or error}.") from error


@cache
def libraries() -> Mapping[str, str]:
    """The installed versions of the libraries that rankings can depend on."""
    found = {"ragindex": distribution.find_distribution().version}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
