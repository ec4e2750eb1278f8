"""The file `retriever.toml`, with a method, the state of its index and the evidence for it; and the files beside it.

Whoever loads the file need not have written it: it is read with limits, every key is checked, and its hash is that of
its content. The files beside it have names that cannot leave its folder, limits, and hashes.
"""

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

import tomli_w
from pydantic import ConfigDict, Field, ValidationError

from ragindex._util.distribution import upgrade_line
from ragindex._util.durable_files import open_regular
from ragindex.errors import DamagedError, DataError, NewerFormatError
from ragindex.plugins.strict_models import Strict

RETRIEVER_FILE = "retriever.toml"
RETRIEVER_FORMAT = 1
LARGEST_RETRIEVER_FILE = 4 << 20
"""The most bytes of the file. It has a line or two for each part and each file."""
_HEAD = "# A retriever of ragindex, opened by ragindex.load. A changed file is refused: export again to change it.\n\n"
INDEX_FOLDER, OWN_FOLDER = "index", "files"
"""The folders of a packed index, and of the files that a method's parameters name."""
MOST_FILES, MOST_BYTES = 10_000, 16 << 30
_NAME = re.compile(r"[A-Za-z0-9_.+-]{1,100}")
_LONGEST_PATH, _MOST_LEVELS = 200, 8
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")
_BLOCK = 1 << 20


class _Values(Strict):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ExportedPlugin(_Values):
    """A plugin: its label, its name, and all its parameters as JSON (which has null; TOML has not).

    `id` is the identity that its results depend on (encoder, LLM); `plugins` are the names and versions of the plugin
    and of those in its parameters, and the hash of their code if it is not part of ragindex.
    """

    label: str
    name: str
    parameters: str
    id: str | None = None
    plugins: tuple[str, ...] = ()

    def describe(self) -> dict[str, Any]:
        """Return the specification that the registry makes the plugin from. Raises DataError."""
        try:
            params = json.loads(self.parameters)
        except (ValueError, RecursionError) as error:
            raise DataError("parameters in JSON", str(error), path=RETRIEVER_FILE) from error
        if not isinstance(params, dict):
            raise DataError("parameters by name", type(params).__name__, path=RETRIEVER_FILE)
        return {"name": self.name, "params": params}


class ExportedIndex(_Values):
    """The index: where it is, its identity, its settings, and what it held.

    `path` is relative to the folder of the file. `identity` is the random identity of its documents. `by`, `size` and
    `overlap` are left out if every document is one passage.
    """

    path: str
    identity: str
    format: int
    language: str
    by: str | None = None
    size: int | None = None
    overlap: int | None = None
    seed: int = 0
    documents: int
    passages: int


class ExportedPart(_Values):
    """A part of the method: its key, the fingerprint of its corpus, and hashes of what its content depends on beyond.

    `key` depends on the part's class, version, parameters and inputs, the encoder, the LLM and its prompts. `failed` is
    a hash of the passages that could not be processed, and `made` one of the collections of a part that an LLM made;
    both are left out if there is nothing to hash.
    """

    label: str
    version: int
    key: str
    corpus: str
    failed: str | None = None
    made: str | None = None


class MethodEvidence(_Values):
    """The figures of the method in a comparison, with 95 % intervals, what it was compared with, and the questions.

    `fingerprint` is that of the answers: it covers the questions and everything that a ranking depends on.
    """

    dataset: str
    questions: int
    judged: int
    questions_digest: str
    corpus_digest: str
    questions_file: str = ""
    k: tuple[int, ...]
    compared_with: tuple[str, ...]
    fingerprint: str
    metrics: Mapping[str, float]
    ci95: Mapping[str, tuple[float, float]] = {}
    index_seconds: float
    index_bytes: int
    latency_ms_p50: float | None = None
    latency_ms_p95: float | None = None


class StoredFile(_Values):
    """A file of the retriever: its path below the folder, its length, and its SHA-256."""

    path: str
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class ExportedRetriever(_Values):
    """The content of the file. `libraries` are the versions of the libraries that scores can depend on.

    `packed` says that the index is among the `files`; otherwise it is where `index.path` says. `asks` says that the
    method asks the LLM about questions.
    """

    format: int = RETRIEVER_FORMAT
    ragindex: str
    packed: bool
    asks: bool
    method: ExportedPlugin
    encoder: ExportedPlugin | None = None
    llm: ExportedPlugin
    store: ExportedPlugin
    index: ExportedIndex
    parts: tuple[ExportedPart, ...]
    libraries: Mapping[str, str]
    evidence: MethodEvidence | None = None
    files: tuple[StoredFile, ...] = ()

    @property
    def sha256(self) -> str:
        """The hash of the content."""
        text = json.dumps(
            self.model_dump(mode="json", exclude_none=True),
            sort_keys=True,
            ensure_ascii=True,
            separators=(",", ":"),
            allow_nan=False,
        )
        return hashlib.sha256(text.encode()).hexdigest()


def write_retriever_file(exported: ExportedRetriever) -> bytes:
    """Return the content of the file; equal values give equal bytes."""
    values = exported.model_dump(mode="json", exclude_none=True)
    return (_HEAD + tomli_w.dumps({"sha256": exported.sha256, **values})).encode()


def read_retriever_file(folder: Path) -> ExportedRetriever:
    """Read the file of a folder. Raises DataError, NewerFormatError."""
    path = folder / RETRIEVER_FILE
    try:
        with open_regular(path) as file:
            content = file.read(LARGEST_RETRIEVER_FILE + 1)
    except FileNotFoundError as error:
        state = f"none in {folder}" if folder.is_dir() else "no such folder"
        raise DataError(f"a file {RETRIEVER_FILE}, which ragindex export writes", state, path=path) from error
    except OSError as error:
        raise DataError(f"a readable file {RETRIEVER_FILE}", error.strerror or str(error), path=path) from error
    return parse_retriever_file(content, path)


def parse_retriever_file(content: bytes, path: Path) -> ExportedRetriever:
    """Parse the content of the file. Raises DataError, NewerFormatError. `path` is for messages."""
    if len(content) > LARGEST_RETRIEVER_FILE:
        raise DataError(f"at most {LARGEST_RETRIEVER_FILE:,} bytes", "more", path=path)
    try:
        values = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise DataError("TOML", f"{type(error).__name__}: {str(error)[:200]}", path=path) from error
    format = values.get("format")
    if isinstance(format, int) and format > RETRIEVER_FORMAT:
        raise NewerFormatError(
            f"{path} has the format {format}, and this version reads {RETRIEVER_FORMAT}. {upgrade_line()}"
        )
    hashed = values.pop("sha256", None)
    try:
        exported = ExportedRetriever.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise DataError(
            "the keys and values that ragindex export writes", f"{where}: {first['msg']}", path=path
        ) from error
    if exported.format != RETRIEVER_FORMAT:
        raise DataError(f"the format {RETRIEVER_FORMAT}", f"{exported.format}", path=path)
    if hashed != exported.sha256:
        raise DataError("the content as ragindex export wrote it", "a changed one; export again", path=path)
    return exported


# ---------------------------------------------------------------- the files beside it


@dataclass(frozen=True, slots=True)
class RetrieverLimits:
    """The most files, and bytes of all files together, that a retriever may have to be loaded."""

    files: int = MOST_FILES
    bytes: int = MOST_BYTES


def require_safe(files: Sequence[StoredFile], limits: RetrieverLimits, path: Path) -> None:
    """Raise DataError unless the files are few, small, in the retriever's own folders, and named once."""
    if len(files) > limits.files:
        raise DataError(f"at most {limits.files:,} files (max_files)", f"{len(files):,}", path=path)
    total = sum(file.bytes for file in files)
    if total > limits.bytes:
        raise DataError(f"files of at most {limits.bytes:,} bytes together (max_bytes)", f"{total:,}", path=path)
    for file in files:
        if not _is_safe(file.path):
            raise DataError(f"files in {INDEX_FOLDER}/ and {OWN_FOLDER}/ with plain names", repr(file.path), path=path)
    folded = {file.path.casefold() for file in files}  # two names may be one file on a disk that ignores case
    if len(folded) < len(files):
        raise DataError("each file once", "one twice", path=path)


def _is_safe(path: str) -> bool:
    parts = path.split("/")
    if len(path) > _LONGEST_PATH or not 2 <= len(parts) <= _MOST_LEVELS or parts[0] not in (INDEX_FOLDER, OWN_FOLDER):
        return False
    plain = all(_NAME.fullmatch(part) and part.strip(".") == part and not _RESERVED.fullmatch(part) for part in parts)
    return plain and str(PurePosixPath(path)) == path


def describe_file(root: Path, path: Path) -> StoredFile:
    """Describe a file below `root`. Raises OSError."""
    with path.open("rb") as file:
        hashed = hashlib.file_digest(file, "sha256").hexdigest()
    return StoredFile(path=path.relative_to(root).as_posix(), bytes=path.stat().st_size, sha256=hashed)


def copy_hashed(source: IO[bytes], stored: StoredFile, write: Callable[[bytes], object], where: Path) -> None:
    """Copy exactly `stored.bytes` bytes. Raises DamagedError if there are fewer or the hash is another one."""
    hashed, left = hashlib.sha256(), stored.bytes
    while left and (block := source.read(min(_BLOCK, left))):
        hashed.update(block)
        write(block)
        left -= len(block)
    if left or hashed.hexdigest() != stored.sha256:
        raise DamagedError(
            f"{where}: {stored.path} is not as it was exported. Copy the retriever again, or export it again."
        )


def verify_files(folder: Path, files: Sequence[StoredFile]) -> None:
    """Check that the folder holds the files with their hashes, no links, and no other file in its index.

    Files of another export, which a killed process may have left beside its own, are never read. Raises DamagedError.
    """
    names = {file.path for file in files}
    paths = {path for path in _list_files(folder) if path in names or not _is_left(folder, path)}
    if paths != names:
        name = min(paths ^ names)
        wrong = "is missing" if name in names else "does not belong to the retriever"
        raise DamagedError(f"{folder}: {name} {wrong}. Copy the retriever again, or export it again.")
    for stored in files:
        path = folder / stored.path
        try:
            with open_regular(path) as source:
                if os.fstat(source.fileno()).st_size != stored.bytes:
                    raise DamagedError(f"{folder}: {stored.path} is not as it was exported: it has another length.")
                copy_hashed(source, stored, lambda block: None, folder)
        except OSError as error:
            raise DamagedError(f"{folder}: {stored.path} cannot be read: {error.strerror or error}.") from error


def _is_left(folder: Path, path: str) -> bool:
    return path.startswith(f"{OWN_FOLDER}/") and not (folder / path).is_symlink()


def _list_files(folder: Path) -> Iterable[str]:
    """Yield the paths of all that is in the retriever's folders and is no folder. Links are not followed."""
    for top in (INDEX_FOLDER, OWN_FOLDER):
        if (folder / top).is_symlink():
            yield top
            continue
        for where, folders, names in os.walk(folder / top):
            links = [name for name in folders if os.path.islink(os.path.join(where, name))]
            yield from (Path(where, name).relative_to(folder).as_posix() for name in (*names, *links))
