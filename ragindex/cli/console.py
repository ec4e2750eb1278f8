"""What commands share: printing for people or for programs, errors with exit codes, common options."""

import io
import json
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, NoReturn, TextIO

import regex
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ragindex.errors import RagindexError, StoreError, UsageError, WorkspaceError
from ragindex.plugins.code_fingerprint import OURS
from ragindex.redaction import hidden
from ragindex.workspace import manifest

_WIDE = 1000  # columns, where the output is no terminal: whoever reads it wants whole lines
_NOT_SHOWN = regex.compile(r"(?![\n\t])[\p{Cc}\p{Cs}]")


def writable(folder: Path) -> None:
    """Raises StoreError where `folder` can neither be made nor written in: before the work, not after it."""
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if os.path.exists(place))
    if not os.path.isdir(there):
        raise StoreError(f"Nothing can be written to {folder}: {there} is not a folder. Name another place.")
    if not os.access(there, os.W_OK):
        raise StoreError(f"Nothing can be written to {folder}: you may not write in {there}. Name another place.")


def json_destination(written: str | None) -> str | None:
    """`written`, where JSON can be written to it: a file in a folder that is there, or `-`. Raises StoreError."""
    if written is None or written == "-":
        return written
    folder = Path(written).absolute().parent
    if os.path.isdir(written) or not os.path.isdir(folder):
        reason = "it is a folder" if os.path.isdir(written) else f"there is no folder {folder}"
        raise StoreError(f"The JSON file {written} could not be written: {reason}.")
    writable(folder)
    return written


JsonOption = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE|-", callback=json_destination, help="Write the result as JSON; - is stdout."),
]
WorkspaceOption = Annotated[Path, typer.Option("--index", metavar="DIR", help="The workspace's folder.")]
EncoderOption = Annotated[
    str | None,
    typer.Option("--encoder", metavar="E", help="lsa, sentence-transformers:NAME_OR_PATH or openai:NAME."),
]
StoreOption = Annotated[str | None, typer.Option("--store", metavar="S", help="As lancedb(memory_gib=4).")]
LlmOption = Annotated[
    str | None, typer.Option("--llm", metavar="L", help="openai:MODEL, or offline: rules. Default: the workspace's.")
]
BudgetOption = Annotated[
    float | None, typer.Option("--budget", metavar="DOLLARS", help="Stop before calls cost more; all is kept.")
]
NoCacheOption = Annotated[bool, typer.Option("--no-cache", help="Neither use nor keep answers of language models.")]
FormatOption = Annotated[
    str | None, typer.Option("--format", metavar="F", help="The format of DATA, where it is not recognised.")
]
SkipBadOption = Annotated[bool, typer.Option("--skip-bad", help="Count and skip what cannot be read.")]
AsOption = Annotated[
    str,
    typer.Option(
        "--as", metavar="NAME", help="A name for DATA, which its ids begin with: any but the first folder needs one."
    ),
]
LanguageOption = Annotated[str | None, typer.Option("--language", metavar="L", help="The language of the documents.")]
SeedOption = Annotated[
    int | None, typer.Option("--seed", metavar="S", help="The seed of everything random. Default: the workspace's.")
]


def emit(value: Any, destination: str | None, show: Callable[[], None]) -> None:
    """Write `value` as JSON to a file and show it, or, for `-`, write the JSON alone to standard output."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    written = text.encode("utf-8", "backslashreplace")  # half a surrogate pair becomes its escape in JSON
    if destination == "-":
        typer.echo(written, nl=False)
        return
    if destination is not None:
        try:
            Path(destination).write_bytes(written)
        except OSError as error:
            raise StoreError(f"The JSON file {destination} could not be written: {error.strerror}.") from error
    show()


def clean(text: str) -> str:
    """Text that is not ours, without control characters: it must not move the cursor or change colours."""
    return _NOT_SHOWN.sub("\N{REPLACEMENT CHARACTER}", text)


def plain(text: str) -> str:
    """Text that is not ours as markup that shows it as it is."""
    return escape(clean(text))


def table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    """A plain table; text is shown as it is, never read as markup."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(Text(clean(cell)) for cell in row))
    return made


def dollars(money: float | None, digits: int = 4) -> str:
    """An amount of money; a dash where it is not known."""
    return "–" if money is None else f"{money:.{digits}f}"


def out() -> Console:
    """Standard output."""
    return _console(stderr=False)


def note(text: str) -> None:
    """A sentence for a person, on standard error."""
    _console(stderr=True).print(Text(clean(hidden(text)), style="yellow"))


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDE
    return console


def filters_of(written: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """The values of each key of `KEY=VALUE` options. Raises UsageError where one has no equals sign."""
    values: dict[str, tuple[str, ...]] = {}
    for text in written:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UsageError(f"--filter must be KEY=VALUE. Got {text!r} instead.")
        values[key] = (*values.get(key, ()), value)
    return values


def existing(folder: Path) -> Path:
    """`folder`, where a workspace is in it: looking into one must not make one. Raises WorkspaceError."""
    if manifest.read(folder) is None:
        raise WorkspaceError(f"There is no workspace in {folder}. Run: ragindex index DATA --index {folder}")
    return folder


def seed_of(folder: Path, asked: int | None) -> int:
    """The seed asked for, else the one that the workspace was last built with, else 0."""
    held = manifest.read(folder) if asked is None else None
    return asked if asked is not None else held.seed if held is not None else 0


class _Stopped(BaseException):
    """Ctrl-C. Not KeyboardInterrupt, which typer keeps to itself."""


def run(start: Callable[[], None]) -> None:
    """Run the command line: our errors become one sentence and an exit code, warnings one line each."""
    warnings.showwarning = _show_warning
    if (sys.excepthook, threading.excepthook) == (sys.__excepthook__, threading.__excepthook__):
        sys.excepthook = _show_crash
        threading.excepthook = lambda crash: _show_crash(crash.exc_type, crash.exc_value, crash.exc_traceback)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 ends no run
    before = signal.signal(signal.SIGINT, _stop)
    try:
        start()
    except RagindexError as error:
        _console(stderr=True).print(Text.assemble(("error:", "bold red"), f" {clean(str(error))}"))
        raise SystemExit(error.exit_code) from error
    except _Stopped:
        note("Stopped. What was done is kept: the same command goes on from here.")
        raise SystemExit(130) from None
    finally:
        signal.signal(signal.SIGINT, before)


def _stop(*signal: object) -> NoReturn:
    raise _Stopped


def _show_crash(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """What nobody has foreseen, as Python shows it, but without secrets."""
    sys.stderr.write(hidden("".join(traceback.format_exception(kind, error, trace))))


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if category.__module__.partition(".")[0] in OURS:
        note(f"warning: {message}")
