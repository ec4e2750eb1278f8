"""The manifest of an index: its settings, and the state that the last finished sync left for readers.

The manifest is one JSON file that is replaced atomically and names everything that a result depends on. If it is
damaged, a copy is read. Some settings are fixed when an index is created; the encoder, the LLM and the seed are those
of the last sync, and commands use them where they name no others.
"""

import json
import os
import shlex
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock
from pydantic import BaseModel, ValidationError, field_validator

from ragindex._util import distribution, durable_files
from ragindex.corpus import Chunking, Corpus
from ragindex.errors import NewerFormatError, StoreError, UsageError, WorkspaceError
from ragindex.plugins import registry
from ragindex.text_analysis import analyse
from ragindex.types import ChunkBy

INDEX_FORMAT = 5
MANIFEST_FILE, _COPY = "workspace.json", "workspace.copy.json"
_LIBRARIES = (
    *("lancedb", "elasticsearch", "numpy", "pyarrow", "scikit-learn", "pystemmer"),
    *("sentence-transformers", "torch", "openai", "graspologic-native", "scipy", "umap-learn"),
)


class IndexSettings(BaseModel, frozen=True, extra="forbid"):
    """Settings made when the index is created; only the chunking can change.

    `by`, `size` and `overlap` are None for whole documents.
    """

    language: str
    by: ChunkBy | None
    size: int | None
    overlap: int | None
    store: dict[str, Any]


READING_VERSION = 1


class SourceReading(BaseModel, frozen=True):
    """How the documents of a source were read, so that an update reads them again in the same way.

    `data` is what was named, where that is not the root of the source, and `format` the format that was named. `parts`
    maps the paths in the folder that were read ("": all of it) to the options of `FileSelection` that differ from
    their defaults. Of a git repository, `ref` is what was named in it ("": HEAD); the source has all documents of
    `commit`. `readers` is the version of those that have read all its files in this way. "" for one of both: that is
    not certain, and all files are read again. Raises NewerFormatError for what a later version has written.
    """

    version: int = READING_VERSION
    data: str = ""
    format: str | None = None
    skip_bad: bool | None = None
    parts: dict[str, dict[str, Any]] = {}
    ref: str = ""
    commit: str = ""
    readers: str = ""

    @field_validator("version")
    @classmethod
    def _require_known_version(cls, version: int) -> int:
        if version > READING_VERSION:
            raise NewerFormatError(
                f"The reading options of a source have version {version}; this ragindex reads up to {READING_VERSION}. "
                f"Run: {distribution.upgrade_line()}"
            )
        return version


class DocumentSource(BaseModel, frozen=True, extra="forbid"):
    """A source of documents; every document of an index belongs to one source.

    `root` is the folder that ids are relative to or the file of a data set (absolute paths), the name of a generated
    corpus, or "" for documents that a program adds. `format` is the format that documents are read from. Every id
    begins with `prefix`. `left_out` maps what was left out of the folder when it was last read to the reasons, by the
    ids that its documents would have. `reading` is None for what an earlier version of ragindex has indexed, and for
    documents of a program.
    """

    root: str
    format: str
    prefix: str = ""
    left_out: dict[str, str] = {}
    reading: SourceReading | None = None


class PartRecord(BaseModel, frozen=True, extra="forbid"):
    """The record of a finished part: its plugin, the corpus fingerprint, and the pinned versions of its collections.

    `finish_seconds` is the share of `seconds` spent in `finish`: in the last call, or in all calls if each processes
    only what has changed. `failed` maps failed passages to reasons; those in `set_aside` are not retried by themselves.
    `notes` are shown with the part's figures, `details` where they fit; `files` are its current version folders
    (`ragindex.index.versioned_files`).
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
    set_aside: tuple[str, ...] = ()
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
    contents = [_read_bytes(folder / name) for name in (MANIFEST_FILE, _COPY)]
    if contents == [None, None]:
        return None
    values = [None if content is None else durable_files.load_hashed_json(content) for content in contents]
    value = values[0] if values[0] is not None else values[1]
    if value is None:
        _require_format(folder, _parse_unhashed(contents[0]))
        raise WorkspaceError(
            f"{folder} is not a valid index: {MANIFEST_FILE} is damaged, and so is {_COPY}. "
            "Run: ragindex index DATA --index OTHER"
        )
    if values[0] is None:
        damage = f"{folder / MANIFEST_FILE} is damaged or missing; its copy was read"
        warnings.warn(f"{damage}. {durable_files.repair_hint(folder)}", durable_files.RepairWarning, stacklevel=2)
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
    number = value.get("format")
    if isinstance(number, int) and number > INDEX_FORMAT:
        raise NewerFormatError(
            f"The index {folder} has format {number}; this ragindex reads up to {INDEX_FORMAT}. "
            f"Run: {distribution.upgrade_line()}"
        )
    if isinstance(number, int) and number < INDEX_FORMAT:
        raise WorkspaceError(
            f"The index {folder} has format {number}, of an earlier ragindex; this one reads {INDEX_FORMAT}. "
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
    roots = [source.get("root") for source in sources.values()] if isinstance(sources, dict) else []
    if isinstance(settings, dict) and "source" in settings:  # format 1 had a single source
        roots = [settings["source"]]
    quoted_roots = [shlex.quote(root) for root in roots if isinstance(root, str) and root] or ["DATA"]
    index = f"--index {shlex.quote(str(folder))}"
    return ", then: ".join(
        f"ragindex index {root} {index}{' --rebuild' if place == 0 else ''}" for place, root in enumerate(quoted_roots)
    )


@contextmanager
def wrap_write_errors(message: str) -> Iterator[None]:
    """Raise StoreError with `message` and the reason if the body raises OSError."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{message}: {error.strerror or error}.") from error


@contextmanager
def creation_lock(folder: Path) -> Iterator[None]:
    """Let one process at a time create the index in `folder`. Raises StoreError if the lock cannot be taken."""
    lock = FileLock(folder / f"{MANIFEST_FILE}.lock")
    with wrap_write_errors(f"{MANIFEST_FILE} could not be written in {folder}"):
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest atomically and durably, then its copy. Raises StoreError if a file cannot be written."""
    content = durable_files.dump_hashed_json(manifest.model_dump(mode="json"))
    with wrap_write_errors(f"{MANIFEST_FILE} could not be written in {folder}"):
        for name in (MANIFEST_FILE, _COPY):
            durable_files.write_file(folder / name, content)


def update_copy(folder: Path) -> None:
    """Update the copy of the manifest, in case a crash between the two writes left it one state behind.

    Raises StoreError if the copy cannot be written, and WorkspaceError if the manifest cannot be read.
    """
    content = _read_bytes(folder / MANIFEST_FILE)
    if content is None or durable_files.load_hashed_json(content) is None or content == _read_bytes(folder / _COPY):
        return
    with wrap_write_errors(f"{_COPY} could not be written in {folder}"):
        durable_files.write_file(folder / _COPY, content)


@cache
def libraries() -> Mapping[str, str]:
    """Return the installed versions of the libraries that rankings can depend on."""
    versions = {"ragindex": distribution.find_distribution().version}
    for name in _LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def current_values(manifest: Manifest | None) -> dict[str, Any]:
    """Return the encoder, LLM, store, language and seed of an index, or of a new one.

    A command uses them where it names no others. A sync makes those that it was opened with the index's own, but for
    the store and the language, which are fixed.
    """
    fixed = None if manifest is None else manifest.settings
    return {
        "encoder": (manifest and manifest.encoder) or registry.describe(registry.encoder("lsa")),
        "llm": (manifest and manifest.llm) or registry.describe(registry.llm("offline")),
        "store": fixed.store if fixed else registry.describe(registry.store("lancedb")),
        "language": fixed.language if fixed else "english",
        "seed": manifest.seed if manifest else 0,
    }


def write_command(
    folder: Path, manifest: Manifest | None, used: Mapping[str, Any], name: str, *arguments: object
) -> str:
    """Return the command `name` on the index in `folder`, for a shell.

    Of the values `used`, named as in `current_values`, with plugins or as they are written, it names those that are not
    the index's own.
    """
    own, kinds = current_values(manifest), {"encoder": registry.encoder, "llm": registry.llm, "store": registry.store}
    written = [str(argument) for argument in arguments]
    first = next((place for place, word in enumerate(written) if word.startswith("--")), len(written))
    words = ["ragindex", name, *written[:first], "--index", str(folder), *written[first:]]
    for flag, value in used.items():
        plugin = kinds[flag](value) if flag in kinds else None
        if (value if plugin is None else registry.describe(plugin)) != own[flag]:
            words += [f"--{flag}", str(value) if plugin is None else registry.label(plugin)]
    return shlex.join(words)


def require_seed(seed: int) -> int:
    """Return `seed` if it is an int in [0, 2**32). Raises UsageError otherwise."""
    if type(seed) is not int or not 0 <= seed < 2**32:
        raise UsageError(f"The seed must be an int in the range [0, 2**32). Got {seed!r} instead.")
    return seed


def require_apart(folder: Path, source: Path | str, corpus: Corpus) -> None:
    """Raise UsageError if the index is inside the folder of its documents, or the other way round.

    `source` is the path that `corpus` was read from. The files of an index inside it would be read as documents.
    """
    if corpus.format != "folder" or not os.path.isdir(source):
        return
    index, documents = folder.resolve(), Path(source).resolve()
    if index.is_relative_to(documents) or documents.is_relative_to(index):
        inside = f"The index {folder} is inside the folder of its documents, {source}"
        around = f"The documents {source} are inside the folder of their index, {folder}"
        raise UsageError(
            f"{inside if index.is_relative_to(documents) else around}: keep them apart. "
            "Choose another folder with --index."
        )


def require_own_chunking(chunking: Chunking) -> None:
    """Raise UsageError unless an index can split its documents so. Methods can name any chunking."""
    if chunking.by in ("tokens", "index") or chunking.context != "title":
        raise UsageError(
            f"An index's own chunking is by characters, words, sentences, headings or sections, with the title as "
            f"context. Got {chunking} instead. Give it to methods: --methods 'bm25(over=passages(by=…, context=…))'"
        )


def describe_chunking(settings: IndexSettings) -> str:
    """Return the chunking of an index as a person would write it."""
    if settings.by is None:
        return "whole documents"
    sizes = ((name, value) for name, value in (("size", settings.size), ("overlap", settings.overlap)) if value)
    return f"passages({', '.join([f'by={settings.by}', *(f'{name}={value}' for name, value in sizes)])})"


def require_chunking(folder: Path, settings: IndexSettings, chunking: Chunking | str | None) -> None:
    """Raise UsageError if the index splits its documents by another chunking than this; any fits "default"."""
    if chunking == "default" or (settings.by, settings.size, settings.overlap) == _chunk_settings(chunking):
        return
    hint = f"To change it, run: ragindex index --index {shlex.quote(str(folder))} --chunking 'passages(by=…, size=…)'"
    if settings.by is None:
        hint = "That cannot change. Choose another folder with --index, or give a chunking to methods (over=…)."
    raise UsageError(f"The index {folder} splits its documents otherwise: {describe_chunking(settings)}. {hint}")


def _chunk_settings(chunking: Chunking | str | None) -> tuple[ChunkBy | None, int | None, int | None]:
    """Return the unit, the size and the overlap of a chunking; None for those of whole documents."""
    if chunking is None:
        return None, None, None
    cut = chunking if isinstance(chunking, Chunking) else Chunking()
    return cut.by, cut.size, cut.overlap


def with_chunking(folder: Path, settings: IndexSettings, chunking: Chunking) -> IndexSettings:
    """Return the settings of an index that splits its documents by `chunking` from now on. Raises UsageError.

    The passages of whole documents have the documents' ids, which readers of the index rely on, so they stay.
    """
    require_own_chunking(chunking)
    if settings.by is None:
        raise UsageError(
            f"The documents of the index {folder} are passages as they are, which cannot change. Give another chunking "
            "to methods: --methods 'bm25(over=passages(by=…))'"
        )
    return settings.model_copy(update={"by": chunking.by, "size": chunking.size, "overlap": chunking.overlap})


def resolve_settings(
    folder: Path, manifest: Manifest | None, language: str | None, chunking: Chunking | str | None, store: Any
) -> IndexSettings:
    """Return the settings of the existing index, or those of a new one.

    Raises UsageError if a value differs from that of the existing index.
    """
    if language is not None:
        analyse("", language)  # raises an error that suggests similar names if the language is unknown
    described = registry.describe(store)
    if isinstance(chunking, Chunking):
        require_own_chunking(chunking)
    if manifest is None:
        by, size, overlap = _chunk_settings(chunking)
        language = language or current_values(None)["language"]
        return IndexSettings(language=language, by=by, size=size, overlap=overlap, store=described)
    require_chunking(folder, manifest.settings, chunking)
    fixed = (
        ("language", manifest.settings.language, language in (None, manifest.settings.language)),
        ("store", manifest.settings.store["name"], described["name"] == manifest.settings.store["name"]),
    )
    for name, value, same in fixed:
        if not same:
            raise UsageError(
                f"The index {folder} was created with {value} as its {name}, which cannot change. "
                "Choose another folder with --index."
            )
    return manifest.settings
