"""The command `repair`: looks at everything that a workspace keeps, and makes again what is damaged."""

from pathlib import Path
from typing import Annotated

import typer

from ragindex.cli.console import (
    EncoderOption,
    JsonOption,
    LlmOption,
    SeedOption,
    WorkspaceOption,
    emit,
    existing,
    note,
    out,
    plain,
    seed_of,
)
from ragindex.errors import DamagedError
from ragindex.workspace import imported_files
from ragindex.workspace.workspace import Workspace


def repair(
    workspace: WorkspaceOption,
    triples: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file of extractions again, where its copy is damaged.")
    ] = None,
    encoder: EncoderOption = None,
    llm: LlmOption = None,
    seed: SeedOption = None,
    json: JsonOption = None,
) -> None:
    """Look at every file of a workspace; remove what is damaged and make it again.

    What cannot be made again is named, with the command that brings it back.

    Example: ragindex repair --index my-index
    """
    folder = existing(workspace)
    with Workspace.open(folder, encoder=encoder, llm=llm, seed=seed_of(folder, seed)) as opened:
        if triples is not None:
            opened.import_part(imported_files.TRIPLES, triples)
        found = opened.repair()
        if found.lost:
            for sentence in found.removed:
                note(f"damaged, and made again by the next sync: {sentence}")
            raise DamagedError(" ".join(found.lost))
        made = opened.sync()

    def show() -> None:
        for sentence in found.removed:
            out().print(f"damaged, and made again: {plain(sentence)}", soft_wrap=True)
        if not found.removed:
            out().print("Everything is as it was written.")

    emit({"damaged": found.removed, "made": made.made}, json, show)
