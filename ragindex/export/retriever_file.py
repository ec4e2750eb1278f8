"""The file `retriever.toml`: a method, the state of the index that it answers from, and the evidence for it.

Whoever loads the file need not have written it: it is read with limits, every key is checked, and its hash is that of
its content.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ConfigDict, Field, ValidationError

from ragindex._util.distribution import upgrade_line
from ragindex._util.files import open_regular
from ragindex.errors import DataError, NewerFormatError
from ragindex.plugins.strict_models import Strict

RETRIEVER_FILE = "retriever.toml"
RETRIEVER_FORMAT = 1
LARGEST_RETRIEVER_FILE = 4 << 20
"""The most bytes of the file. It has a line or two for each part and each file."""
_HEAD = "# A retriever of ragindex, opened by ragindex.load. A changed file is refused: export again to change it.\n\n"


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
        return _hash_values(self.model_dump(mode="json", exclude_none=True))


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
        found = f"none in {folder}" if folder.is_dir() else "no such folder"
        raise DataError(f"a file {RETRIEVER_FILE}, which ragindex export writes", found, path=path) from error
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
    written = values.get("format")
    if isinstance(written, int) and written > RETRIEVER_FORMAT:
        raise NewerFormatError(
            f"{path} has the format {written}, and this version reads {RETRIEVER_FORMAT}. {upgrade_line()}"
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


def _hash_values(values: Any) -> str:
    text = json.dumps(values, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
