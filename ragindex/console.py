"""What commands share: printing for people or for programs, errors with exit codes, common options."""

import json
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ragindex.errors import RagindexError, StoreError, UsageError

JsonOption = Annotated[str | None, typer.Option("--json", metavar="FILE|-", help="Write the result as JSON.")]
WorkspaceOption = Annotated[Path, typer.Option("--workspace", metavar="DIR", help="The workspace's folder.")]
EncoderOption = Annotated[
    str | None,
    typer.Option("--encoder", metavar="E", help="lsa, sentence-transformers:NAME_OR_PATH or openai:NAME."),
]
StoreOption = Annotated[str | None, typer.Option("--store", metavar="S", help="As lancedb(memory_gib=4).")]
FormatOption = Annotated[
    str | None, typer.Option("--format", metavar="F", help="The format of DATA, where it is not recognised.")
]
SkipBadOption = Annotated[bool, typer.Option("--skip-bad", help="Count and skip what cannot be read.")]
LanguageOption = Annotated[str | None, typer.Option("--language", metavar="L", help="The language of the documents.")]
SeedOption = Annotated[int, typer.Option("--seed", metavar="S", help="The seed of everything random.")]


def emit(value: Any, destination: str | None, show: Callable[[], None]) -> None:
    """Write `value` as JSON to a file and show it, or, for `-`, write the JSON alone to standard output."""
    if destination == "-":
        sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
        return
    if destination is not None:
        try:
            Path(destination).write_text(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
        except OSError as error:
            raise StoreError(f"The JSON file {destination} could not be written: {error.strerror}.") from error
    show()


def table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    """A plain table; text is shown as it is, never read as markup."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*map(escape, row))
    return made


def out() -> Console:
    """Standard output."""
    return Console(highlight=False)


def note(text: str) -> None:
    """A sentence for a person, on standard error."""
    Console(stderr=True, highlight=False).print(escape(text), style="yellow")


def filters_of(written: list[str]) -> Mapping[str, str]:
    """`KEY=VALUE` options. Raises UsageError where one has no equals sign."""
    pairs = [text.partition("=") for text in written]
    for text, (key, equals, _) in zip(written, pairs, strict=True):
        if not key or not equals:
            raise UsageError(f"--filter must be KEY=VALUE. Got {text!r} instead.")
    return {key: value for key, _, value in pairs}


def run(app: typer.Typer) -> None:
    """Run the command line: our errors become one sentence and an exit code, warnings one line each."""
    warnings.showwarning = _show_warning
    try:
        app()
    except RagindexError as error:
        Console(stderr=True, highlight=False).print(f"[bold red]error:[/] {escape(str(error))}")
        raise SystemExit(error.exit_code) from error
    except KeyboardInterrupt:
        note("Stopped. What was done is kept: the same command goes on from here.")
        raise SystemExit(130) from None


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if category.__module__.partition(".")[0] in {"ragindex", "eval", "baselines", "retrievers"}:
        note(f"warning: {message}")
