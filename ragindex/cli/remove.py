"""The command `remove`: remove documents, or methods, from an index."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from typer import BadParameter

from ragindex._util.ids import spellings
from ragindex._util.text import MAX_NAMED, many
from ragindex.cli.approval import approve
from ragindex.cli.console import command_spending, print_note, stdout, write_result
from ragindex.cli.option_groups import group_of, with_groups
from ragindex.cli.options import (
    BudgetOption,
    ConsentFlags,
    EncoderOption,
    IndexOption,
    JsonOption,
    StoreOption,
    WaitOption,
)
from ragindex.estimate_left import BuildPlan, estimate_left
from ragindex.index import sources
from ragindex.index.index import Index
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.budget import parse_budget
from ragindex.plugins.specs import parse_many


@dataclass(frozen=True, slots=True)
class WritingOptions:
    """What the index is opened with, and what its update may cost."""

    encoder: EncoderOption = None
    budget: BudgetOption = None
    store: StoreOption = None
    wait: WaitOption = 0.0

    def open_index(self, folder: Path) -> Index:
        """Open the index for writing."""
        settings = LLMSettings(budget=parse_budget(self.budget))
        return Index.open(folder, encoder=self.encoder, store=self.store, llm_settings=settings, wait_seconds=self.wait)


@with_groups
def remove(
    folder: IndexOption,
    opening: Annotated[WritingOptions, group_of(WritingOptions, "Index and models")],
    consent: Annotated[ConsentFlags, group_of(ConsentFlags, "Index and models")],
    ids: Annotated[list[str] | None, typer.Argument(help="Document ids.", show_default=False)] = None,
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Remove all documents of this source, and forget the source.")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option("--method", metavar="a,b", help="Remove what these methods have built, but for what others use."),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Remove documents from an index and from everything that is built over them, or methods.

    Example: ragindex remove notes/old.md --index my-index
    """
    if sum(map(bool, (ids, source, methods))) != 1:
        raise BadParameter("Missing argument 'IDS...', --source NAME or --method NAME. Give exactly one of them.")
    if methods:
        approve(list, consent.answer(opening.budget, json))  # costs nothing, and a dry run ends here
        _remove_methods(folder, methods, opening, json)
        return
    plan = BuildPlan(encoder=opening.encoder, leaves=lambda index: _leaving(index, ids or [], source))
    estimating = partial(estimate_left, folder, None, None, LLMSettings(), plan, thorough=consent.dry_run)
    approve(estimating, consent.answer(opening.budget, json))
    with opening.open_index(folder) as index:
        files = _existing_files(index, ids or [])
        changed = index.remove(ids) if ids else index.remove_source(source or "")
        index.build()
    for file in files:
        print_note(f"{file} still exists. Indexing its folder again adds it back.")
    removed = many(changed.removed, "document")
    value = {"removed": changed.removed, "spent": command_spending()}
    write_result(value, json, lambda: stdout().print(f"{removed} removed"))


def _remove_methods(folder: Path, methods: str, opening: WritingOptions, json: str | None) -> None:
    with opening.open_index(folder) as index:
        removed = index.remove_methods(*parse_many(methods))
    parts, unbuilt = ", ".join(removed.parts), ", ".join(removed.methods)
    value = {"removed": 0, "parts": removed.parts, "methods": removed.methods, "spent": command_spending()}
    sentence = f"{many(len(removed.parts), 'part')} removed: {parts}. No longer built: {unbuilt}"
    write_result(value, json, lambda: stdout().print(sentence))


def _leaving(index: Index, ids: Sequence[str], source: str | None) -> set[str]:
    """Return the ids of the documents that the command would remove."""
    owners = index.documents.sources()
    spelled = {spelling for id in ids for spelling in spellings(id)}
    return {id for id, owner in owners.items() if id in spelled or owner == source}


def _existing_files(index: Index, ids: Sequence[str]) -> list[Path]:
    """Return the files, if they still exist, of the first MAX_NAMED of these documents."""
    spelled = [spelling for id in ids[:MAX_NAMED] for spelling in spellings(id)]
    owners, known = index.documents.sources(spelled), index.manifest.sources
    files = [sources.file_of(known[owner], id) for id, owner in owners.items()]
    return [file for file in files if file is not None]
