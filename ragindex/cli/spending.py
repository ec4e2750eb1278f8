"""The command `spending`: what all runs have paid today and this month."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ragindex._util.text import many
from ragindex.accounting.spending_log import Payment, log_folder, read_payments
from ragindex.cli.console import format_dollars, print_note, stdout, text_table, write_result
from ragindex.cli.options import JsonOption
from ragindex.llm.budget import DAILY_VARIABLE, find_daily_budget

_OUTSIDE = "(no index)"
_GROUPS: Mapping[str, Callable[[Payment], str]] = {
    "index": lambda payment: payment.index or _OUTSIDE,
    "command": lambda payment: payment.command,
    "model": lambda payment: payment.model,
}


@dataclass(frozen=True, slots=True)
class _Sum:
    """What some payments come to. Calls of models without a price are counted in `unpriced`, and cost nothing here.

    `possibly_charged` are the most dollars that requests without an answer can have cost, on top of `dollars`.
    """

    dollars: float
    possibly_charged: float
    calls: int
    input_tokens: int
    output_tokens: int
    unpriced: int
    estimated: bool

    @classmethod
    def of(cls, payments: Sequence[Payment]) -> "_Sum":
        return cls(
            sum(payment.money or 0.0 for payment in payments if not payment.possibly_charged),
            sum(payment.money or 0.0 for payment in payments if payment.possibly_charged),
            sum(payment.calls for payment in payments),
            sum(payment.input_tokens for payment in payments),
            sum(payment.output_tokens for payment in payments),
            sum(payment.calls for payment in payments if payment.money is None),
            any(payment.estimated for payment in payments),
        )

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def spending(json: JsonOption = None) -> None:
    """Print what all runs have paid today and this month, by index, command and model.

    Every command, program and server of this user counts. The environment variable RAGINDEX_DAILY_BUDGET limits what
    they pay together in a day, in US dollars. The log is in RAGINDEX_STATE, by default ~/.local/state/ragindex.

    Example: ragindex spending --json -
    """
    today = datetime.now().astimezone().date()
    log, limit = read_payments(today.replace(day=1)), find_daily_budget()
    month = log.payments
    times = {"today": [payment for payment in month if payment.day == today], "month": month}
    value: dict[str, Any] = {
        "log": str(log_folder()),
        "daily_budget": None if limit is None else limit.limit,
        "broken_lines": log.broken,
        "days": {"today": str(today), "month": f"{today:%Y-%m}"},
    }
    value |= {name: _to_json(payments) for name, payments in times.items()}

    def show() -> None:
        rows: list[tuple[str, ...]] = [("total", "", *_describe(times["today"]), *_describe(month))]
        for group, find in _GROUPS.items():
            for name in _rank(month, find):
                parts = ([payment for payment in each if find(payment) == name] for each in times.values())
                rows.append((group, name, *(cell for part in parts for cell in _describe(part))))
        columns = ("by", "", "today $", "calls", "this month $", "calls")
        stdout().print(text_table(columns, rows))
        if limit is not None:
            left = max(0.0, limit.left)
            stdout().print(f"{DAILY_VARIABLE}: ${limit.limit:.4f} a day, ${left:.4f} left today.")
        if (lost := _Sum.of(month)).possibly_charged:
            today_lost = format_dollars(_Sum.of(times["today"]).possibly_charged)
            print_note(
                f"Possibly charged besides, for requests without an answer: up to {today_lost} today, "
                f"{format_dollars(lost.possibly_charged)} this month. The limit of a day counts them."
            )
        if unpriced := _Sum.of(month).unpriced:
            print_note(f"{many(unpriced, 'call')} of models without a price are counted and not added up.")
        if log.broken:
            print_note(f"{many(log.broken, 'line')} of the log in {log_folder()} cannot be read.")

    write_result(value, json, show)


def _to_json(payments: Sequence[Payment]) -> dict[str, Any]:
    """Return the sum of payments, and the sums of each group, the most expensive first."""
    groups = {
        f"by_{group}": [
            {group: name} | _Sum.of([payment for payment in payments if find(payment) == name]).to_json()
            for name in _rank(payments, find)
        ]
        for group, find in _GROUPS.items()
    }
    return _Sum.of(payments).to_json() | groups


def _rank(payments: Sequence[Payment], find: Callable[[Payment], str]) -> list[str]:
    dollars: dict[str, float] = {}
    for payment in payments:
        dollars[find(payment)] = dollars.get(find(payment), 0.0) + (payment.money or 0.0)
    return sorted(dollars, key=lambda name: (-dollars[name], name))


def _describe(payments: Sequence[Payment]) -> tuple[str, str]:
    total = _Sum.of(payments)
    return f"{'~' if total.estimated else ''}{format_dollars(total.dollars)}", f"{total.calls:,}"
