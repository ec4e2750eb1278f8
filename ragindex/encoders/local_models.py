"""Loading and identification of sentence-transformers models that are not encoders of an index, such as rerankers."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ragindex._util.distribution import install_line, require_installed, require_module
from ragindex.encoders.model_hub import locate_model
from ragindex.encoders.sentence_transformer import _content, _quiet, choose_device, hide_progress_bars
from ragindex.errors import UsageError

_SHOWN = 8  # hexadecimal digits of a revision


def resolve_revision(values: Any) -> Any:
    """Return the parameters of a plugin; if `model` is a folder, a missing `revision` becomes the hash of its files.

    Results of other weights under the same path thus get another label.
    """
    if not isinstance(values, Mapping) or not isinstance(values.get("model"), str) or values.get("revision"):
        return values
    folder = Path(values["model"]).expanduser()
    return {**values, "revision": _compute_revision(folder)} if folder.is_dir() else values


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
    if folder.is_dir() and revision and revision != (found := _compute_revision(folder)):
        raise UsageError(
            f"{wanted_by}: the files in {model} have changed (revision {revision}, now {found}). "
            "Omit the revision to use the current files."
        )
    options = {"revision": revision} if revision and where == model else {}
    try:
        with hide_progress_bars(), _quiet("sentence_transformers"):
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
    return _content(folder)[:_SHOWN]
