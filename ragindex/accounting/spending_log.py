"""The log of what all runs of a user have paid: a line of JSON for each paid call, in a file for each month.

All processes append to it, each line by one write. It holds times, names of commands, indexes, models and tasks, tokens
and dollars; neither texts nor keys. Files are readable by the user alone, and those older than a year are removed.
"""

import json
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any

from ragindex._util.durable_files import state_root
from ragindex._util.redaction import hide_secrets
from ragindex.errors import StoreError

MOST_LINE = 4096
"""Bytes of a line, less than which a write appends in one piece."""
_KEPT_MONTHS = 13
_NAME = re.compile(r"(\d{4})-(\d{2})\.jsonl")
_LONGEST_NAME, _LONGEST_PATH = 120, 400  # characters
_BEGINNING = '{"at":'


@dataclass(frozen=True, slots=True)
class Payment:
    """What one call has cost, or several `calls` together. `at` is in seconds since 1970.

    `money` (US dollars) is None if the model has no price. `index` is the folder of the index that asked. A request
    without an answer that was `possibly_charged` has the most that it can have cost.
    """

    at: float
    command: str
    index: str
    model: str
    task: str
    calls: int
    input_tokens: int
    output_tokens: int
    money: float | None
    estimated: bool = False
    possibly_charged: bool = False

    @property
    def day(self) -> date:
        """The day, in local time."""
        return datetime.fromtimestamp(self.at).astimezone().date()


_TYPES: dict[str, type | tuple[type, ...]] = {
    "at": (int, float),
    "calls": int,
    "input_tokens": int,
    "output_tokens": int,
    "estimated": bool,
    "possibly_charged": bool,
    "command": str,
    "index": str,
    "model": str,
    "task": str,
}
_command = "python"
_subscribers: list[Callable[[Payment], None]] = []
_warned = False


def name_command(name: str) -> None:
    """Say which command this process runs; without it, payments are those of a program in Python."""
    global _command
    _command = name


def current_command() -> str:
    """Return the name of the command that this process runs; "python" for a program."""
    return _command


def subscribe(callback: Callable[[Payment], None]) -> None:
    """Call `callback` with every payment of this process from now on, in the thread that pays."""
    _subscribers.append(callback)


def log_payment(
    *,
    index: str,
    model: str,
    task: str,
    input_tokens: int,
    output_tokens: int,
    money: float | None,
    estimated: bool = False,
    possibly_charged: bool = False,
    calls: int = 1,
) -> None:
    """Append a payment to the log and pass it on to the subscribers. What cost nothing is left out.

    If the log cannot be written, a warning says so once: the answer is paid for, and must not be lost.
    """
    if money == 0:
        return
    payment = Payment(
        at=time.time(),
        command=_command,
        index=hide_secrets(os.path.abspath(index) if index else "")[-_LONGEST_PATH:],
        model=hide_secrets(model)[:_LONGEST_NAME],
        task=hide_secrets(task)[:_LONGEST_NAME],
        calls=calls,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        money=money,
        estimated=estimated,
        possibly_charged=possibly_charged,
    )
    for callback in _subscribers:
        callback(payment)
    try:
        _append(payment)
    except OSError as error:
        _warn_once(error)


def _append(payment: Payment) -> None:
    line = _write_line(payment)
    path = log_folder() / f"{datetime.fromtimestamp(payment.at, UTC):%Y-%m}.jsonl"
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_old(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def _write_line(payment: Payment) -> bytes:
    """Return the line of a payment, of less than MOST_LINE bytes: names of many escapes are left out."""
    values = asdict(payment)
    for name in ("", "index", "model", "task", "command"):
        values |= {name: ""} if name else {}
        line = json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace") + b"\n"
        if len(line) < MOST_LINE:
            break
    return line


def _warn_once(error: OSError) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(f"What is paid cannot be logged in {log_folder()}: {error}.", stacklevel=4)


def _remove_old(newest: Path) -> None:
    """Remove the files of months that lie more than a year back."""
    with suppress(OSError):
        for path in sorted(newest.parent.glob("*.jsonl"))[: -(_KEPT_MONTHS - 1)]:
            if _NAME.fullmatch(path.name) and path.name < newest.name:
                path.unlink()


def require_log() -> None:
    """Raise StoreError if the log cannot be written, and a limit that counts by it cannot hold."""
    folder = log_folder()
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise StoreError(
            f"What is paid cannot be logged in {folder}, so that a limit of the day cannot be kept. Set RAGINDEX_STATE "
            "to a folder that can be written."
        )


def log_folder() -> Path:
    """Return the folder of the log's files."""
    return state_root() / "spending"


# ---------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class LoggedPayments:
    """The payments of a time, and how many lines could not be read."""

    payments: list[Payment]
    broken: int


def read_payments(since: date) -> LoggedPayments:
    """Return the payments of the days from `since` on, in local time. A broken line is counted and left out."""
    payments, broken = list[Payment](), 0
    for path in _list_files(since):
        for line in _read_lines(path):
            payment = parse_line(line)
            if payment is None:
                broken += 1
            elif payment.day >= since:
                payments.append(payment)
    return LoggedPayments(payments, broken)


def _list_files(since: date) -> list[Path]:
    """Return the files that can hold payments of the days from `since` on. Files are named by the month of UTC."""
    first = f"{since - timedelta(days=1):%Y-%m}.jsonl"
    return [path for path in sorted(log_folder().glob("*.jsonl")) if _NAME.fullmatch(path.name) and path.name >= first]


def _read_lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as error:
        raise StoreError(f"The log of what was paid, {path}, cannot be read: {error}.") from error


def parse_line(line: bytes) -> Payment | None:
    """Return the payment of a line; None if it is broken. What follows the half line of a full disk is read."""
    text = line.decode("utf-8", "replace")
    try:
        values = json.loads(text[max(0, text.rfind(_BEGINNING)) :])
    except (ValueError, RecursionError):
        return None
    return _check_values(values) if isinstance(values, dict) else None


def _check_values(values: dict[str, Any]) -> Payment | None:
    names = {field.name for field in fields(Payment)}
    if values.keys() != names or not all(isinstance(values[name], kind) for name, kind in _TYPES.items()):
        return None
    money = values["money"]
    if not (money is None or (isinstance(money, int | float) and 0 <= money < float("inf"))):
        return None
    try:
        payment = Payment(**values)
        _ = payment.day
    except (ValueError, OverflowError, OSError):
        return None
    return payment


class DaySum:
    """The dollars that all processes have paid today, possibly charged ones included. Reads only what is new.

    Days are those of local time. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._day: date | None = None
        self._offsets: dict[Path, int] = {}
        self._dollars = 0.0

    def read(self) -> float:
        """Return the sum of now. Raises StoreError if the log cannot be read."""
        with self._lock:
            today = datetime.now().astimezone().date()
            files = _list_files(today)
            if today != self._day or any(_size(path) < offset for path, offset in self._offsets.items()):
                self._day, self._dollars, self._offsets = today, 0.0, {}
            for path in files:
                self._dollars += sum(payment.money or 0.0 for payment in self._read_new(path) if payment.day == today)
            return self._dollars

    def _read_new(self, path: Path) -> Iterator[Payment]:
        """Yield the payments of whole lines beyond those that were read before."""
        try:
            with path.open("rb") as file:
                file.seek(self._offsets.get(path, 0))
                for line in file:
                    if not line.endswith(b"\n"):
                        return
                    self._offsets[path] = self._offsets.get(path, 0) + len(line)
                    payment = parse_line(line)
                    if payment is not None:
                        yield payment
        except OSError as error:
            raise StoreError(f"The log of what was paid, {path}, cannot be read: {error}.") from error


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
