"""Checks of workspace settings: values that are fixed at creation, seeds, and folders."""

import os
from pathlib import Path
from typing import Any

from ragindex.corpus import Chunking, Corpus
from ragindex.errors import UsageError
from ragindex.plugins import registry
from ragindex.text_analysis import analyse
from ragindex.workspace.manifest import IndexSettings, Manifest


def require_seed(seed: int) -> int:
    """Return `seed` if it is an int in [0, 2**32). Raises UsageError otherwise."""
    if type(seed) is not int or not 0 <= seed < 2**32:
        raise UsageError(f"The seed must be an int in the range [0, 2**32). Got {seed!r} instead.")
    return seed


def require_apart(folder: Path, source: Path | str, corpus: Corpus) -> None:
    """Raise UsageError if the workspace is inside the folder of its documents, or the other way round.

    `source` is the path that `corpus` was read from. The files of a workspace inside it would be read as documents.
    """
    if corpus.format != "folder" or not os.path.isdir(source):
        return
    workspace, documents = folder.resolve(), Path(source).resolve()
    if workspace.is_relative_to(documents) or documents.is_relative_to(workspace):
        inside = f"The index {folder} is inside the folder of its documents, {source}"
        around = f"The documents {source} are inside the folder of their index, {folder}"
        raise UsageError(
            f"{inside if workspace.is_relative_to(documents) else around}: keep them apart. "
            "Choose another folder with --index."
        )


def resolve_settings(
    folder: Path, held: Manifest | None, language: str | None, chunking: Chunking | str | None, store: Any
) -> IndexSettings:
    """Return the settings of the existing workspace, or those of a new one.

    Raises UsageError if a value differs from that of the existing workspace `held`.
    """
    if language is not None:
        analyse("", language)  # raises an error that suggests similar names if the language is unknown
    cut = Chunking() if chunking == "default" else chunking
    described = registry.describe(store)
    if isinstance(cut, Chunking) and (cut.by in ("tokens", "index") or cut.context != "title"):
        raise UsageError(
            f"An index's own chunking is by characters, words, sentences, headings or sections, with the title as "
            f"context. Got {cut} instead. Give it to methods: --methods 'bm25(over=passages(by=…, context=…))'"
        )
    asked_cut = (cut.by, cut.size, cut.overlap) if isinstance(cut, Chunking) else (None, None, None)
    if held is None:
        by, size, overlap = asked_cut
        return IndexSettings(language=language or "english", by=by, size=size, overlap=overlap, store=described)
    held_cut = (held.settings.by, held.settings.size, held.settings.overlap)
    same_cut = chunking == "default" or held_cut == asked_cut
    was = "whole documents" if held.settings.by is None else f"{held.settings.size} and {held.settings.overlap}"
    asked = (
        ("language", held.settings.language, language in (None, held.settings.language)),
        ("chunking", was, same_cut),
        ("store", held.settings.store["name"], described["name"] == held.settings.store["name"]),
    )
    for name, value, same in asked:
        if not same:
            raise UsageError(
                f"The index {folder} was created with {value} as its {name}, which cannot change. "
                "Choose another folder with --index."
            )
    return held.settings
