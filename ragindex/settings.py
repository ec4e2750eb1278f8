"""What is fixed when a workspace is made, and what may be asked of it afterwards."""

from pathlib import Path
from typing import Any

from ragindex import registry
from ragindex.corpus import Cutting
from ragindex.errors import UsageError
from ragindex.manifest import Manifest, Settings
from ragindex.text import analyse


def checked_seed(seed: int) -> int:
    """`seed`, where everything random can be drawn by it. Raises UsageError."""
    if type(seed) is not int or not 0 <= seed < 2**32:
        raise UsageError(f"The seed must be an int in the range [0, 2**32). Got {seed!r} instead.")
    return seed


def settled(
    folder: Path, held: Manifest | None, language: str | None, cutting: Cutting | str | None, store: Any
) -> Settings:
    """The settings asked for; those that the workspace has, where it is there and nothing else is asked for."""
    if language is not None:
        analyse("", language)  # an unknown language is answered with near ones
    cut = Cutting() if cutting == "default" else cutting
    described = registry.describe(store)
    if held is None:
        size, overlap = (cut.size, cut.overlap) if isinstance(cut, Cutting) else (None, None)
        return Settings(language=language or "english", size=size, overlap=overlap, store=described)
    same_cut = cutting == "default" or (held.settings.size, held.settings.overlap) == (
        (cut.size, cut.overlap) if isinstance(cut, Cutting) else (None, None)
    )
    was = "whole documents" if held.settings.size is None else f"{held.settings.size} and {held.settings.overlap}"
    asked = (
        ("language", held.settings.language, language in (None, held.settings.language)),
        ("cutting", was, same_cut),
        ("store", held.settings.store["name"], described["name"] == held.settings.store["name"]),
    )
    for name, value, same in asked:
        if not same:
            raise UsageError(
                f"The workspace {folder} was made with {value} as its {name}, which cannot change. "
                "Name another folder with --workspace."
            )
    return held.settings
