"""What a command may cost: the estimate that it prints before it starts, and the consent that it asks for.

Above RAGINDEX_CONFIRM_ABOVE dollars the command asks; --yes and --budget answer in advance. Models without a price are
shown with their tokens, and nothing is asked about them.
"""

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Group, RenderableType

from ragindex._util.text import first_names, many
from ragindex.accounting import ledger
from ragindex.accounting.running_estimate import ExpectedCalls
from ragindex.cli.console import (
    ask_consent,
    command_tally,
    escape_markup,
    explain_stop,
    print_estimate,
    print_note,
    text_table,
    write_result,
)
from ragindex.cli.options import Approval
from ragindex.counting import NoEstimateError, Repaid
from ragindex.errors import BrokenPluginError, BudgetError, ContractError, MissingExtraError, UsageError
from ragindex.estimate import Estimate, Total, add_up
from ragindex.estimate_left import find_payees
from ragindex.index.documents import Removals
from ragindex.index.parts import paid_by
from ragindex.interfaces import Scheme
from ragindex.interfaces.llm import PaidPlugin
from ragindex.llm.budget import Budget, parse_budget
from ragindex.llm.prices import load_prices

CONFIRM_VARIABLE = "RAGINDEX_CONFIRM_ABOVE"
_DEFAULT_LIMIT = 1.0
_LEAST_LIMIT = 1e-9  # a budget of 0 would not be one
_FLAGS = "--yes, or --budget DOLLARS"


def read_limit() -> float:
    """Return above how many dollars a command asks. Raises UsageError."""
    variable = os.environ.get(CONFIRM_VARIABLE, "").strip()
    try:
        limit = float(variable) if variable else _DEFAULT_LIMIT
    except ValueError:
        limit = math.nan
    if not limit >= 0:
        raise UsageError(f"{CONFIRM_VARIABLE} must be an amount in dollars, 0 or more. Got {variable!r}.")
    return limit


def approve(estimating: Callable[[], Sequence[Estimate]], approval: Approval) -> None:
    """Print what `estimating` returns, and ask if it may cost more than the limit; with `dry_run`, end the command.

    Without estimates the command pays for nothing. What cannot be estimated is printed with the reason, and nothing is
    asked. Raises UsageError if the user does not agree, and the errors of `estimating`.
    """
    limit = read_limit()
    with explain_stop("Stopped while costs were estimated. Nothing was done."):
        estimates = estimate_costs(estimating)
    if approval.dry_run:
        write_result(
            {"estimate": estimates_to_json(estimates)},
            approval.json,
            lambda: print_estimate(render_estimates(estimates), stderr=False),
        )
        raise typer.Exit
    if not estimates:
        return
    print_estimate(render_estimates(estimates), stderr=True)
    total = add_up(estimates)
    if total.high > limit and not approval.yes and approval.budget is None:
        cost = f"This may cost {format_range(total.low, total.high)}, more than ${limit:g} ({CONFIRM_VARIABLE})."
        ask_consent(cost, "Go on?", _FLAGS, approval.json)
    command_tally().expect(_expected_calls(each) for each in estimates if each.money is not None)


def _expected_calls(estimate: Estimate) -> ExpectedCalls:
    """Return what the ledger will call the calls of an estimate."""
    task = estimate.task.partition(", ")[0]
    if task == "encoding":
        return ExpectedCalls(ledger.EMBEDDING, "", 0, estimate.money or 0.0)
    method = "" if estimate.step == "index" else estimate.methods[0]
    return ExpectedCalls(task, method, estimate.calls, estimate.money or 0.0)


class QuestionBudget(Budget):
    """What one question may cost without consent: no estimate is made for it, which would take longer than it does."""

    def _exhausted(self, most: float) -> BudgetError:
        return BudgetError(
            f"This question may cost more than ${self.limit:g} ({CONFIRM_VARIABLE}): ${self.charged:.4f} is spent, and "
            f"the next call could cost ${most:.4f}. What was paid for is kept. To go on, add {_FLAGS}."
        )


def limit_question(
    scheme: Scheme,
    folder: Path,
    models: Sequence[str | None],
    encoder: str | None,
    budget: float | None,
    yes: bool,
) -> Budget | None:
    """Return the budget of a command that asks one question: the one given, else what it may cost without consent.

    `models` are the language models that it asks, None for that of the index.

    There is no limit if the user has agreed (`yes`), or if a service that the command may pay has no price. Raises
    UsageError.
    """
    if yes or budget is not None:
        return parse_budget(budget)
    services = (*(payee for llm in models for payee in find_payees(folder, llm, encoder)), *paid_by(scheme))
    payees = [service for service in services if isinstance(service, PaidPlugin)]
    prices = load_prices() if payees else None
    if prices is None or any(each.price_missing(prices) for each in payees):
        return parse_budget(None)
    return parse_budget(QuestionBudget(max(read_limit(), _LEAST_LIMIT)))


def estimate_costs(estimating: Callable[[], Sequence[Estimate]]) -> list[Estimate]:
    """Return what `estimating` does; if nothing can be estimated, nothing, after a note with the reason."""
    try:
        return list(estimating())
    except (NoEstimateError, MissingExtraError, BrokenPluginError, ContractError) as error:
        # a method is left out for these, unless it was named
        print_note(f"What this may cost is not known: {error}")
        return []


def approve_removals(removals: Removals, allowed: bool, json: str | None) -> None:
    """Ask before so many documents of a source are removed that it may be read in part. Raises UsageError."""
    if removals.suspicious and not allowed:
        count = many(len(removals.ids) - removals.renamed, "document")
        reason = (
            f"{count} of {removals.documents:,} of the source {removals.source} would be removed, because it no longer "
            f"has them: {first_names(removals.ids)}."
        )
        ask_consent(reason, "Remove them?", "--allow-removals", json)


# ---------------------------------------------------------------- estimates as text and JSON


def format_range(low: float | None, high: float | None, sign: str = "$") -> str:
    """Format an interval of dollars, as "$0.0120 to $0.0180"; a dash if it is unknown."""
    if low is None or high is None:
        return "–"
    first, last = (f"{sign}{money:.{2 if money >= 10 else 4}f}" for money in (low, high))
    return first if first == last else f"{first} to {last}"


def estimates_to_json(estimates: Sequence[Estimate]) -> dict[str, Any]:
    """Return the estimates, and their sum: None where a model has no price."""
    total = add_up(estimates)
    names = ("task", "calls", "input_tokens", "output_tokens", "money", "sampled", "counted", "price_source")
    tasks = [
        {
            **{name: getattr(estimate, name) for name in names},
            "money_low": estimate.money_low,
            "money_high": estimate.money_high,
            "basis": estimate.basis,
            "share": estimate.share,
            "methods": list(estimate.methods),
            "price_date": None if estimate.price_date is None else estimate.price_date.isoformat(),
            "repaid": [
                {"change": each.change, "answers": round(each.answers), "money": each.money} for each in estimate.repaid
            ],
        }
        for estimate in estimates
    ]
    sums = {"money": total.money, "money_low": total.low, "money_high": total.high}
    return {"tasks": tasks, **(dict.fromkeys(sums) if total.unpriced else sums)}


def render_estimates(estimates: Sequence[Estimate]) -> RenderableType:
    """Return the estimates as a table, their sum, and how the figures were made."""
    if not estimates:
        return "Nothing here is paid for."
    columns = ("task", "methods", "calls", "tokens in", "tokens out", "$", "from", "to", "how")
    rows = [
        (
            estimate.task,
            first_names(estimate.methods) if estimate.step == "index" or len(estimate.methods) > 1 else "",
            f"{estimate.calls:,}",
            f"{estimate.input_tokens:,}",
            f"{estimate.output_tokens:,}",
            *(
                "–" if money is None else f"{money:.4f}"
                for money in (estimate.money, estimate.money_low, estimate.money_high)
            ),
            estimate.basis,
        )
        for estimate in estimates
    ]
    return Group(text_table(columns, rows), *map(escape_markup, _describe(estimates, add_up(estimates))))


def _describe(estimates: Sequence[Estimate], total: Total) -> list[str]:
    lines = list[str]()
    if len(total.unpriced) < len(estimates):
        lines.append(f"Estimate: about ${total.money:.4f}, {format_range(total.low, total.high)}.")
    if total.unpriced:
        tokens = many(total.tokens, "token")
        advice = "Set it in a price file named by RAGINDEX_PRICES."
        lines.append(f"No price is known for {first_names(total.unpriced)}; {tokens} in all. {advice}")
    lines += _describe_repaid(estimates)
    for source, day in dict.fromkeys(
        (estimate.price_source, estimate.price_date) for estimate in estimates if estimate.price_source
    ):
        lines.append(f"Price: {source}{'' if day is None else f', of {day.isoformat()}'}")
    least = min(estimate.share for estimate in estimates)
    if least < 1:
        lines.append(f"Counted from {least:.0%} of the documents or questions, and scaled; --dry-run counts all.")
    if not all(estimate.counted for estimate in estimates):
        lines.append("The model's tokenizer is not available: tokens are estimated from the number of characters.")
    if any(estimate.basis == "assumed" for estimate in estimates):
        lines.append("assumed: answers, and the rounds of agents, are taken to be about those of rules.")
    return lines


def _describe_repaid(estimates: Sequence[Estimate]) -> list[str]:
    """Say how many answers were paid for under other settings, and what asking for them again costs."""
    by_change: dict[tuple[str, bool], list[Repaid]] = {}
    for repaid in (each for estimate in estimates for each in estimate.repaid):
        by_change.setdefault((repaid.change, repaid.reusable), []).append(repaid)
    lines = list[str]()
    for (change, reusable), group in by_change.items():
        costs = [each.money for each in group]
        cost = "" if None in costs else f": about ${sum(money or 0.0 for money in costs):.4f}"
        answers = many(round(sum(each.answers for each in group)), "answer")
        keep = " --reuse-answers keeps them." if reusable else ""
        verb, pronoun = ("was", "It is") if answers.startswith("1 ") else ("were", "They are")
        lines.append(
            f"{answers} of this index {verb} paid for under other settings: {change}. "
            f"{pronoun} asked for again{cost}.{keep}"
        )
    return lines
