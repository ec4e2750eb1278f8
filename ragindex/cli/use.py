"""The command `use`: print the lines that use a built method in an application."""

from typing import Annotated

import typer

from ragindex.cli.console import print_note, stdout, write_result
from ragindex.cli.options import IndexOption, JsonOption
from ragindex.index.index import open_index
from ragindex.integrations import FRAMEWORKS, usage_lines
from ragindex.plugins import registry


def use(
    folder: IndexOption,
    method: Annotated[str, typer.Option(metavar="NAME", help="Method that searches.")] = "hybrid",
    framework: Annotated[
        str, typer.Option(metavar="NAME", help=f"Framework of the application: {', '.join(FRAMEWORKS)}.")
    ] = "python",
    json: JsonOption = None,
) -> None:
    """Print the lines of Python that use a built method in an application.

    Example: ragindex use --index my-index --method hybrid --framework langchain
    """
    lines = usage_lines(framework, folder, method)
    with open_index(folder, read_only=True) as index:
        label = index.retriever(method).method
        encoder = index.encoder_of(registry.scheme(method))
    value = {"framework": framework, "index": str(folder), "method": label, "encoder": encoder, "lines": lines}

    def show() -> None:
        stdout().print(lines, end="", markup=False, highlight=False, soft_wrap=True)
        if encoder is not None:
            print_note(f"{label} searches with the encoder of the index, {encoder}.")

    write_result(value, json, show)
