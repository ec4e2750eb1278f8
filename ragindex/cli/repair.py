"""The command `repair`: check every file of an index, and rebuild damaged ones."""

from pathlib import Path
from typing import Annotated

import typer

from ragindex.cli.console import command_spending, escape_markup, print_note, stdout, write_result
from ragindex.cli.options import EncoderOption, IndexOption, JsonOption, LlmOption, SeedOption, WaitOption
from ragindex.errors import DamagedError
from ragindex.index.index import Index
from ragindex.index.parts import TRIPLES
from ragindex.serve.spool import open_spool


def repair(
    folder: IndexOption,
    triples: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The imported extractions, in case their copy is damaged.")
    ] = None,
    encoder: EncoderOption = None,
    llm: LlmOption = None,
    seed: SeedOption = None,
    wait: WaitOption = 0.0,
    json: JsonOption = None,
) -> None:
    """Check every file of an index, remove damaged ones and rebuild them.

    What cannot be rebuilt is listed with the command that restores it.

    Example: ragindex repair --index my-index
    """
    with Index.open(folder, encoder=encoder, llm=llm, seed=seed, wait_seconds=wait) as index:
        if triples is not None:
            index.import_part(TRIPLES, triples)
        result, accepted = index.repair(), open_spool(folder).repair()
        removed, lost = result.removed + accepted.removed, result.lost + accepted.lost
        if lost:
            for damage in removed:
                print_note(f"damaged; rebuilt at the next sync: {damage}")
            raise DamagedError(" ".join(lost))
        built = index.build()

    def show() -> None:
        for damage in removed:
            stdout().print(f"damaged and rebuilt: {escape_markup(damage)}", soft_wrap=True)
        if not removed:
            stdout().print("No damaged files.")

    write_result({"damaged": removed, "made": built.made, "spent": command_spending()}, json, show)
