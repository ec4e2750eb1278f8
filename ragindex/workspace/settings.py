"""Workspace settings: which an index is opened with, and checks of fixed values, seeds and folders."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragindex.corpus import Chunking, Corpus
from ragindex.errors import UsageError
from ragindex.plugins import registry
from ragindex.text_analysis import analyse
from ragindex.workspace.manifest import IndexSettings, Manifest


def current_values(held: Manifest | None) -> dict[str, Any]:
    """Return the encoder, LLM, store, language and seed of an index, or of a new one.

    A command uses them where it names no others. A sync makes those that it was opened with the index's own, but for
    the store and the language, which are fixed.
    """
    fixed = None if held is None else held.settings
    return {
        "encoder": (held and held.encoder) or registry.describe(registry.encoder("lsa")),
        "llm": (held and held.llm) or registry.describe(registry.llm("offline")),
        "store": fixed.store if fixed else registry.describe(registry.store("lancedb")),
        "language": fixed.language if fixed else "english",
        "seed": held.seed if held else 0,
    }


def write_command(folder: Path, held: Manifest | None, used: Mapping[str, Any], name: str, *arguments: object) -> str:
    """Return the command `name` on the index in `folder`, for a shell.

    Of the values `used`, named as in `current_values`, with plugins or as they are written, it names those that are not
    the index's own.
    """
    own, kinds = current_values(held), {"encoder": registry.encoder, "llm": registry.llm, "store": registry.store}
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
    folder: Path, held: Manifest | None, language: str | None, chunking: Chunking | str | None, store: Any
) -> IndexSettings:
    """Return the settings of the existing workspace, or those of a new one.

    Raises UsageError if a value differs from that of the existing workspace `held`.
    """
    if language is not None:
        analyse("", language)  # raises an error that suggests similar names if the language is unknown
    cut = Chunking() if chunking == "default" else chunking
    described = registry.describe(store)
    if isinstance(cut, Chunking):
        require_own_chunking(cut)
    asked_cut = (cut.by, cut.size, cut.overlap) if isinstance(cut, Chunking) else (None, None, None)
    if held is None:
        by, size, overlap = asked_cut
        language = language or current_values(None)["language"]
        return IndexSettings(language=language, by=by, size=size, overlap=overlap, store=described)
    held_cut = (held.settings.by, held.settings.size, held.settings.overlap)
    if chunking != "default" and held_cut != asked_cut:
        raise UsageError(
            f"The index {folder} splits its documents otherwise: {describe_chunking(held.settings)}. "
            f"{_change_hint(folder, held)}"
        )
    asked = (
        ("language", held.settings.language, language in (None, held.settings.language)),
        ("store", held.settings.store["name"], described["name"] == held.settings.store["name"]),
    )
    for name, value, same in asked:
        if not same:
            raise UsageError(
                f"The index {folder} was created with {value} as its {name}, which cannot change. "
                "Choose another folder with --index."
            )
    return held.settings


def _change_hint(folder: Path, held: Manifest) -> str:
    if held.settings.by is None:
        return "That cannot change. Choose another folder with --index, or give a chunking to methods (over=…)."
    return f"To change it, run: ragindex index --index {shlex.quote(str(folder))} --chunking 'passages(by=…, size=…)'"
