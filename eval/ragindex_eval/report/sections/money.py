"""Report section on money: the index spread over so many questions, and from where on a costlier index pays off."""

import math
from dataclasses import dataclass

from ragindex_eval.results.model import Comparison

SPREAD_OVER = (1_000, 100_000)
"""The numbers of questions that the cost of an index is spread over."""


@dataclass(frozen=True, slots=True)
class MoneyRow:
    """What a method costs: its index, a question, and a question with its share of the index (SPREAD_OVER)."""

    label: str
    index: str
    question: str
    spread: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PayOff:
    """From how many `questions` on the method with the costlier index costs less in all than the cheaper one."""

    costlier: str
    cheaper: str
    questions: int


@dataclass(frozen=True, slots=True)
class MoneyFigures:
    """Both tables; `over` are the numbers of questions of the first. Methods of unknown cost are left out."""

    over: tuple[str, ...]
    rows: tuple[MoneyRow, ...]
    pay_offs: tuple[PayOff, ...]


def render_money(comparison: Comparison) -> MoneyFigures | None:
    """Make the tables; None if no method has a known cost other than 0."""
    costs = _list_costs(comparison)
    if not any(index or question for index, question in costs.values()):
        return None
    rows = (
        MoneyRow(
            label,
            f"{index:.4f}",
            f"{question:.5f}",
            tuple(f"{question + index / count:.5f}" for count in SPREAD_OVER),
        )
        for label, (index, question) in costs.items()
    )
    return MoneyFigures(
        tuple(f"over {count:,} questions" for count in SPREAD_OVER), tuple(rows), find_pay_offs(comparison)
    )


def find_pay_offs(comparison: Comparison) -> tuple[PayOff, ...]:
    """Return the pairs of which one method has the costlier index and the cheaper questions, the earliest first."""
    costs = _list_costs(comparison)
    pairs = [
        PayOff(costlier, cheaper, math.ceil((index - other_index) / (other_question - question)))
        for costlier, (index, question) in costs.items()
        for cheaper, (other_index, other_question) in costs.items()
        if index > other_index and question < other_question
    ]
    return tuple(sorted(pairs, key=lambda pair: pair.questions))


def _list_costs(comparison: Comparison) -> dict[str, tuple[float, float]]:
    """Return the dollars of the index and of a question, with its answer if answers were read, by label."""
    costs = dict[str, tuple[float, float]]()
    for method in comparison.methods:
        read = method.reading_costs
        reading = 0.0 if read is None else read.money
        index, question = method.index_usage.money, method.query_usage.money
        if index is not None and question is not None and reading is not None:
            costs[method.label] = index, question + reading
    return costs
