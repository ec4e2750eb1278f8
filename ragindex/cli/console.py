"""Helpers for all commands: text and JSON output, exit codes of errors, checks of arguments."""

import io
import json
import os
import shlex
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, TextIO

import regex
import typer
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ragindex._util.library_logs import show_own_logs
from ragindex._util.progress import show_costs
from ragindex._util.redaction import hide_secrets
from ragindex._util.workers import end_work
from ragindex.accounting import ledger
from ragindex.accounting.ledger import format_running, format_savings, format_spending, spending_to_json
from ragindex.errors import BrokenPluginError, RagindexError, StoreError, UsageError
from ragindex.plugins.code_fingerprint import OURS

SHOW_TRACEBACK = "RAGINDEX_TRACEBACK"
_FILE_WIDTH = 1000  # columns if the output is not a terminal, so that programs and files get unbroken lines
_CONTROL = regex.compile(r"(?![\n\t])[\p{Cc}\p{Cs}]")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SIGNALLED = 128
"""What a shell adds to the number of the signal that ended a command."""
_STOPPED = "Stopped. Progress saved. Run the same command to resume."
_STOPPED_AT_ONCE = "Stopped at once. Run the same command to resume."
_KEEP_PROGRESS = frozenset(
    ["index", "add", "update", "remove", "repair", "compare", "study", "demo", "recommend", "tune", "gate", "judge"]
)
"""The commands that go on where they were stopped."""


@dataclass(slots=True)
class _Run:
    """A run of a command: what it has paid for and has printed of that, and where its result goes."""

    paid: ledger.Tally
    printed: str | None = None
    printed_savings: str | None = None
    destination: str | None = None
    written: bool = False
    stopped: str = _STOPPED

    def print_spending(self, console: Console) -> None:
        """Print what the command has paid for, if anything, once."""
        spending = format_spending(self.paid)
        if spending != self.printed:
            console.print(Text(strip_controls(spending or ""), style="dim"), soft_wrap=True)
            self.printed = spending
        savings = format_savings(self.paid)
        if savings != self.printed_savings:
            console.print(Text(savings or "", style="dim"), soft_wrap=True)
            self.printed_savings = savings

    def fail(self, message: str, exit_code: int) -> None:
        """Print what the command has paid for, if anything, and write it with the error in place of the JSON result."""
        self.print_spending(_make_console(stderr=True))
        if self.written or self.printed is None:
            return
        try:
            _write_json(
                {"error": message, "exit_code": exit_code, "spent": spending_to_json(self.paid)}, self.destination
            )
        except StoreError as error:
            print_note(str(error))


_current: ContextVar[_Run | None] = ContextVar("ragindex_command", default=None)


def require_writable(folder: Path) -> None:
    """Check in advance that `folder` can be created or written to. Raises StoreError."""
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if os.path.exists(place))
    if not os.path.isdir(there):
        raise StoreError(f"Cannot write to {folder}: {there} is not a folder. Choose another path.")
    if not os.access(there, os.W_OK):
        raise StoreError(f"Cannot write to {folder}: no permission to write in {there}. Choose another path.")


def json_destination(option: str | None) -> str | None:
    """Check that JSON can be written to `option`, a file in an existing folder or `-`. Raises StoreError.

    A command that fails after it has paid writes the error and what was paid there.
    """
    if option not in (None, "-"):
        folder = Path(option).absolute().parent
        if os.path.isdir(option) or not os.path.isdir(folder):
            reason = "it is a folder" if os.path.isdir(option) else f"the folder {folder} does not exist"
            raise StoreError(f"Cannot write JSON to {option}: {reason}.")
        require_writable(folder)
    if run := _current.get():
        run.destination = option
    return option


def write_result(value: Any, destination: str | None, show: Callable[[], None]) -> None:
    """Write `value` as JSON to the file `destination`, if given, and call `show`; for `-` only print the JSON.

    Then print what the command has paid for. Raises StoreError if the file cannot be written.
    """
    run = _current.get() or _Run(ledger.Tally())
    run.written = True
    _write_json(value, destination)
    if destination == "-":
        run.printed, run.printed_savings = format_spending(run.paid), format_savings(run.paid)
        return
    show()
    run.print_spending(stdout())


def command_tally() -> ledger.Tally:
    """Return the calls of the running command."""
    run = _current.get()
    return ledger.Tally() if run is None else run.paid


def command_spending() -> dict[str, Any]:
    """Return what the running command has paid for, for its JSON result."""
    return spending_to_json(command_tally())


def _write_json(value: Any, destination: str | None) -> None:
    if destination is None:
        return
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    content = text.encode("utf-8", "backslashreplace")  # a lone surrogate becomes its JSON escape
    if destination == "-":
        typer.echo(content, nl=False)
        return
    try:
        Path(destination).write_bytes(content)
    except OSError as error:
        raise StoreError(f"Cannot write JSON to {destination}: {error.strerror}.") from error


def strip_controls(text: str) -> str:
    """Replace control characters, which could move the terminal's cursor or change its colors."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def escape_markup(text: str) -> str:
    """Return rich markup that prints as this text, without control characters."""
    return escape(strip_controls(text))


def text_table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    """Return a table without borders; cells are plain text, not markup."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(strip_controls(cell)) for cell in row))
    return table


def format_dollars(money: float | None, digits: int = 4) -> str:
    """Format an amount in dollars; a dash if it is unknown."""
    return "–" if money is None else f"{money:.{digits}f}"


def stdout() -> Console:
    """Return the console on standard output."""
    return _make_console(stderr=False)


def print_note(text: str) -> None:
    """Print a message on standard error."""
    _make_console(stderr=True).print(Text(strip_controls(hide_secrets(text)), style="yellow"))


def print_estimate(estimate: RenderableType, *, stderr: bool) -> None:
    """Print an estimate: on standard error where it comes before the result of the command."""
    _make_console(stderr=stderr).print(estimate, soft_wrap=True)


def _make_console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    return console


def parse_filters(options: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Parse `KEY=VALUE` options into the values of each key, as they are typed. Raises UsageError."""
    values: dict[str, tuple[str, ...]] = {}
    for text in options:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UsageError(f"--filter must be KEY=VALUE. Got {text!r} instead.")
        values[key] = (*values.get(key, ()), value)
    return values


def ask_consent(reason: str, question: str, flag: str, json: str | None) -> None:
    """Ask the user whether to go on, after the `reason` for it; the one way in which commands ask for consent.

    It is asked on a terminal, unless JSON is written (`json`). Elsewhere nobody answers: the command ends, and names
    the `flag` that answers in advance. Raises UsageError then, and where the user declines.
    """
    if json is not None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(f"{reason} Nothing was done: nobody can be asked here. To go on, add {flag}.")
    print_note(reason)
    if not typer.confirm(question, err=True):
        raise UsageError(f"Nothing was done. To go on without this question, add {flag}.")


def require_question(question: str) -> None:
    """Raise UsageError if the question is empty."""
    if not question.strip():
        raise UsageError("The question is empty.")


def quote_argument(value: object) -> str:
    """Quote a value for a shell command that a message suggests."""
    return shlex.quote(str(value))


class _Interrupt(BaseException):
    """The exception for Ctrl-C and SIGTERM. It is not KeyboardInterrupt, because typer handles that itself.

    `sentence` is what the command ends with, if the block that it ends has one of its own (`explain_stop`).
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = _SIGNALLED + number
        self.sentence = ""


def expect_command(name: str) -> None:
    """Choose what Ctrl-C prints by the name of the command that begins: of most commands, no progress is kept."""
    if (run := _current.get()) and name not in _KEEP_PROGRESS:
        run.stopped = "Stopped."


@contextmanager
def explain_stop(sentence: str) -> Iterator[None]:
    """If Ctrl-C ends the block, let the command end with `sentence`."""
    try:
        yield
    except _Interrupt as interrupt:
        interrupt.sentence = interrupt.sentence or sentence
        raise


@contextmanager
def explain_interrupt(describe: Callable[[], str]) -> Iterator[None]:
    """If Ctrl-C ends the block, print what `describe` returns, unless it is ""; then the command ends as always."""
    try:
        yield
    except _Interrupt:
        if progress := describe():
            print_note(progress)
        raise


def run_with_exit_codes(start: Callable[[], None]) -> None:
    """Run the command line; print warnings and RagindexErrors as one line each, and exit with the error's code.

    So are other errors that come from the code of a third-party plugin; RAGINDEX_TRACEBACK=1 shows their traceback.
    However the command ends, what it has paid for is printed, and written to the file of `--json`.
    """
    warnings.showwarning = _show_warning
    if (sys.excepthook, threading.excepthook) == (sys.__excepthook__, threading.__excepthook__):
        sys.excepthook = _show_crash
        threading.excepthook = lambda crash: _show_crash(crash.exc_type, crash.exc_value, crash.exc_traceback)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # do not crash on terminals that are not UTF-8
    previous = {number: signal.getsignal(number) for number in _SIGNALS}
    with ledger.record_calls(paid_only=True) as paid:
        run = _Run(paid)
        token = _current.set(run)
        try:
            with show_costs(partial(format_running, paid)):
                _run_explained(start, run)
        finally:
            _current.reset(token)
            for number, handler in previous.items():
                signal.signal(number, handler)


def _run_explained(start: Callable[[], None], run: _Run) -> None:
    try:
        with show_own_logs(lambda text: print_note(f"warning: {text}")):
            start()
    except RagindexError as error:
        run.fail(str(error), error.exit_code)
        _print_error(str(error), error.label)
        raise SystemExit(error.exit_code) from error
    except Exception as error:
        message = None if os.environ.get(SHOW_TRACEBACK) else _describe_plugin_failure(error)
        if message is None:
            run.fail(hide_secrets(f"{type(error).__name__}: {error}"), RagindexError.exit_code)
            raise
        run.fail(message, BrokenPluginError.exit_code)
        _print_error(message)
        raise SystemExit(BrokenPluginError.exit_code) from error
    except _Interrupt as interrupt:
        sentence = interrupt.sentence or run.stopped
        run.fail(sentence, interrupt.exit_code)
        print_note(sentence)
        raise SystemExit(interrupt.exit_code) from None
    finally:
        end_work()
        run.print_spending(stdout())  # a command without a result


def _print_error(message: str, label: str = RagindexError.label) -> None:
    _make_console(stderr=True).print(Text.assemble((f"{label}:", "bold red"), f" {strip_controls(message)}"))


def _describe_plugin_failure(error: BaseException) -> str | None:
    """Return what a third-party plugin raised, and where; None if the error came from our own code."""
    from ragindex.plugins.plugin_errors import describe_failure, find_place  # takes long to import

    if find_place(error) is None:
        return None
    return f"A plugin failed: {describe_failure(error)}. Fix it, or see the traceback with {SHOW_TRACEBACK}=1."


def handle_interrupts() -> None:
    """Let Ctrl-C and SIGTERM end the command in order, once all is imported: a library could catch them before."""
    for number in _SIGNALS:
        signal.signal(number, _stop)


def _stop(number: int, _: object) -> NoReturn:
    for each in _SIGNALS:
        signal.signal(each, _leave)
    raise _Interrupt(number)


def _leave(number: int, _: object) -> NoReturn:
    """Exit at once, at the second Ctrl-C. What was on its way is lost; what is in the files is whole.

    What the command has paid for is printed unless standard error is being written to.
    """
    try:
        if run := _current.get():
            run.fail(_STOPPED_AT_ONCE, _SIGNALLED + number)
    finally:
        os.write(2, f"{_STOPPED_AT_ONCE}\n".encode())
        os._exit(_SIGNALLED + number)


def _show_crash(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """Print the traceback of an unexpected error, without secrets."""
    sys.stderr.write(hide_secrets("".join(traceback.format_exception(kind, error, trace))))


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if category.__module__.partition(".")[0] in OURS:
        print_note(f"warning: {message}")
