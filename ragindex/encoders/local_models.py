"""Models of sentence-transformers on this machine: device, identity, loading; rerankers, several vectors a text."""

import hashlib
import importlib.util
import logging
import platform
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Protocol

import numpy as np
from pydantic import Field, model_validator

from ragindex._util.canonical import digest, encodable
from ragindex._util.distribution import install_line, require_installed, require_module
from ragindex.accounting import timing
from ragindex.encoders.model_hub import hub_contacts, list_model_folders, locate_model
from ragindex.errors import UsageError
from ragindex.interfaces import Floats
from ragindex.plugins.base import Contact, Plugin

_SHOWN = 8  # hexadecimal digits of a revision
_READ = frozenset({".json", ".txt", ".model", ".safetensors", ".bin"})
_OTHER_ENGINES = frozenset({"onnx", "openvino"})


def choose_device(device: str) -> str:
    """Return the device to run a model on: the one asked for, or for "auto" a GPU where torch has one, else "cpu".

    torch is not imported on machines that have no sign of a GPU: that takes seconds.
    """
    if device != "auto":
        return device
    if importlib.util.find_spec("torch") is None or not _may_have_gpu():
        return "cpu"
    torch: Any = import_module("torch")
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _may_have_gpu() -> bool:
    """Whether the system looks as if torch could have a GPU: a driver's device or library, or Apple silicon."""
    if sys.platform == "darwin":
        return platform.machine() == "arm64"
    if sys.platform == "win32":
        return shutil.which("nvidia-smi") is not None
    return any(Path("/dev", name).exists() for name in ("nvidiactl", "kfd", "dxg"))


def hash_model(folder: Path) -> str:
    """A hash of the files that vectors depend on: configuration, tokenizer, weights."""
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in _READ and path.is_file()]
    hashes = {}
    for path in files:
        name = path.relative_to(folder)
        is_copy = path.suffix == ".bin" and any(path.parent.glob("*.safetensors"))  # the same weights again
        if is_copy or _OTHER_ENGINES & set(name.parts) or any(part.startswith(".") for part in name.parts):
            continue
        with path.open("rb") as file:
            hashes[name.as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return digest(hashes)


class LocalModelPlugin(Plugin):
    """Base class of plugins that load a model of sentence-transformers and name it by its files.

    Results of other weights under the same path thus get another label.
    """

    argument: ClassVar[str] = "model"
    model: str = Field(description="Folder of a model, or its name on the Hugging Face hub.")
    revision: str = Field(default="", description="Hash of the model's files. Default: computed from the folder.")
    device: str = Field(default="auto", description="auto (a GPU where there is one), cpu, cuda or mps.")

    @model_validator(mode="before")
    @classmethod
    def _named_by_its_files(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or not isinstance(values.get("model"), str) or values.get("revision"):
            return values
        folder = Path(values["model"]).expanduser()
        return {**values, "revision": _compute_revision(folder)} if folder.is_dir() else values

    def contacts(self) -> tuple[Contact, ...]:
        """Return the hub, if the model is not on this machine."""
        return hub_contacts(self.model, self.revision)

    def model_folders(self) -> tuple[str, ...]:
        """Return the model's folder, if it is given by its path."""
        return list_model_folders(self.model)


def load_local_model(kind: str, model: str, revision: str, wanted_by: str, device: str) -> Any:
    """Load a model of the sentence-transformers class `kind` from a folder or by its name on the Hugging Face hub.

    Prints no progress bars. Raises MissingExtraError without sentence-transformers, and UsageError if it is too old,
    if there is no such model, or if the folder's files have another revision.
    """
    require_installed("sentence_transformers", "sentence-transformers", wanted_by)
    where = locate_model(model, revision)
    module = require_module("sentence_transformers", "sentence-transformers", wanted_by)
    if not hasattr(module, kind):
        raise UsageError(
            f"{wanted_by} needs a newer sentence-transformers. Run: {install_line('sentence-transformers')}"
        )
    folder = Path(model).expanduser()
    if folder.is_dir() and revision and revision != (actual := _compute_revision(folder)):
        raise UsageError(
            f"{wanted_by}: the files in {model} have changed (revision {revision}, now {actual}). "
            "Omit the revision to use the current files."
        )
    options = {"revision": revision} if revision and where == model else {}
    try:
        with hide_progress_bars(), quiet_log("sentence_transformers"):
            return getattr(module, kind)(where, device=choose_device(device), **options)
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(
            f"{wanted_by}: sentence-transformers cannot load {model!r} ({str(error).partition(chr(10))[0]}). Give the "
            "path of a model's folder or a name on the Hugging Face hub."
        ) from error


def _compute_revision(folder: Path) -> str:
    """Return the revision of a folder: the first digits of the hash of its files."""
    stated = [(path, path.stat()) for path in sorted(folder.rglob("*")) if path.is_file()]
    return _hash_files(folder, tuple((str(path), stat.st_mtime_ns, stat.st_size) for path, stat in stated))


@lru_cache(maxsize=16)
def _hash_files(folder: Path, stated: tuple[tuple[str, int, int], ...]) -> str:
    """Hash the files; `stated`, their paths, times of change and sizes, makes the cache miss after a change."""
    return hash_model(folder)[:_SHOWN]


@contextmanager
def quiet_log(name: str) -> Iterator[None]:
    """Our error repeats what a library logs before it fails."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def hide_progress_bars() -> Iterator[None]:
    """Hide the progress bars of transformers within the block."""
    logging = import_module("transformers.utils.logging")
    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()


# ---------------------------------------------------------------- late interaction


class TokenCoding(Protocol):
    """How texts become token vectors. Thread-safe."""

    def documents(self, texts: Sequence[str]) -> list[Floats]:
        """(tokens, dimensions) for each text of the index."""
        ...

    def question(self, text: str) -> Floats:
        """(tokens, dimensions) of a question."""
        ...


@dataclass(frozen=True, slots=True)
class MultiVectorModel:
    """A MultiVectorEncoder at work, one text at a time; which tokens have vectors is the model's to say."""

    model: Any
    lock: Lock = field(default_factory=Lock)

    def documents(self, texts: Sequence[str]) -> list[Floats]:
        """See TokenCoding. A blank text has none."""
        return [self._encoded(self.model.encode_document, text) for text in texts]

    def question(self, text: str) -> Floats:
        """See TokenCoding."""
        start = time.perf_counter()
        vectors = self._encoded(self.model.encode_query, text)
        timing.add_seconds("encoder", time.perf_counter() - start)
        return vectors

    def _encoded(self, encode: Any, text: str) -> Floats:
        if not text.strip():
            return np.empty((0, 0), np.float32)
        with self.lock:  # tokenizers cannot be shared
            (vectors,) = encode([encodable(text)], convert_to_numpy=True, show_progress_bar=False)
        return np.asarray(vectors, np.float32)


@lru_cache(maxsize=2)
def load_multi_vector_model(model: str, revision: str, device: str) -> MultiVectorModel:
    """The model, loaded. Raises as `load_local_model` does."""
    return MultiVectorModel(
        load_local_model("MultiVectorEncoder", model, revision, f"multi_vectors(model={model})", device=device)
    )
