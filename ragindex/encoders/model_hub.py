"""Models by their names on the Hugging Face hub: where they are cached, and whether the hub answers."""

import importlib.util
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from http.client import HTTPException
from pathlib import Path
from queue import Empty, SimpleQueue
from ssl import SSLError
from threading import Thread
from urllib.error import HTTPError
from urllib.request import build_opener

from ragindex.errors import UsageError
from ragindex.plugins.base import Contact

_HUB_NAME = re.compile(r"[\w.-]+(?:/[\w.-]+)?")
PATIENCE = 6.0
"""Seconds that the hub has for its first answer. Its client tries again for minutes."""


_hub_allowed: ContextVar[bool] = ContextVar("ragindex_hub_allowed", default=True)


@contextmanager
def without_hub() -> Iterator[None]:
    """Take models from the hub's cache inside the block, and never ask the hub."""
    token = _hub_allowed.set(False)
    try:
        yield
    finally:
        _hub_allowed.reset(token)


def hub_contacts(model: str, revision: str = "") -> tuple[Contact, ...]:
    """Return the hub as a contact if a model is neither a folder nor in the hub's cache; else nothing."""
    if Path(model).expanduser().is_dir() or find_snapshot(model, revision) is not None:
        return ()
    return (model_hub(),)


def model_hub() -> Contact:
    """Return the hub that models are downloaded from."""
    return Contact.of_address(os.environ.get("HF_ENDPOINT") or "https://huggingface.co", ("HF_TOKEN",))


def list_model_folders(model: str) -> tuple[str, ...]:
    """Return the model if it is a folder."""
    return (model,) if Path(model).expanduser().is_dir() else ()


def locate_model(model: str, revision: str = "") -> str:
    """Return what to load a model from: its folder, its name if the hub answers, else its files in the hub's cache.

    Raises UsageError if the hub does not answer within `PATIENCE` seconds and the model is not cached, or if it is not
    cached inside `without_hub`.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        return str(folder)
    if not _hub_allowed.get():
        snapshot = find_snapshot(model, revision)
        if snapshot is None:
            raise UsageError(f"The model {model!r} is not in the Hugging Face cache, and the hub must not be asked.")
        return str(snapshot)
    problem = find_problem() if _HUB_NAME.fullmatch(model) else None  # a path that does not exist is not asked for
    if problem is None:
        return model
    cached = find_snapshot(model, revision)
    if cached is None:
        raise UsageError(
            f"The model {model!r} is neither a folder nor in the Hugging Face cache, and the hub cannot be reached "
            f"({problem}). Give the path of a model's folder, or set HF_ENDPOINT to a mirror."
        )
    return str(cached)


@cache
def find_problem() -> str | None:
    """Return why the hub does not answer; None if it does, or if it is not to be asked (HF_HUB_OFFLINE)."""
    if importlib.util.find_spec("huggingface_hub") is None:
        return None  # what needs it says so
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return None
    answers = SimpleQueue[str | None]()
    Thread(target=lambda: answers.put(_ask_hub(constants.ENDPOINT)), daemon=True).start()
    try:
        return answers.get(timeout=PATIENCE)  # looking up the hub's address has no time limit of its own
    except Empty:
        return f"{constants.ENDPOINT} gave no answer in {PATIENCE:.0f} seconds"


def _ask_hub(address: str) -> str | None:
    """Return why the address cannot be reached. An error of the server, or of its certificate, is an answer."""
    try:
        build_opener().open(address, timeout=PATIENCE).close()
    except HTTPError:
        return None
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        return None if isinstance(reason, SSLError) else f"{address}: {reason}"
    return None


def find_snapshot(model: str, revision: str = "") -> Path | None:
    """Return the folder of a model in the hub's cache, or None."""
    if importlib.util.find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import try_to_load_from_cache

    cache = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
    for name in (model, f"sentence-transformers/{model}"):
        for file in ("modules.json", "config.json"):
            if name.count("/") <= 1:
                cached = try_to_load_from_cache(name, file, cache_dir=cache, revision=revision or None)
                if isinstance(cached, str):
                    return Path(cached).parent
    return None


def require_snapshot(model: str) -> Path:
    """Return the folder that the hub's cache keeps a loaded model in. Raises UsageError."""
    folder = find_snapshot(model)
    if folder is None:
        raise UsageError(
            f"The files of the model {model!r} are not in the Hugging Face cache, so its revision is unknown. "
            "Download the model and give the path of its folder."
        )
    return folder
