"""Whatever a service does, through every interface: the charge is at most what was spent and possibly charged.

With a budget, it is within the budget. Drafting questions, exporting and removing pay no model, so they are not here.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from charging import FREE, LOST, TIMEOUT, UNUSABLE, Charging, Misbehaviour, longer
from made_language import QUICK
from openai_server import OpenAIServer, Received, usage
from paid_interfaces import INTERFACES, build_desk
from till import SAID, Till, open_desk

from ragindex.accounting.spending_log import read_payments
from ragindex.llm import rate_limits, tokens

ANSWER = {
    **SAID,
    "entities": ["Grey Anna", "Sarn"],
    "triples": [["Grey Anna", "is", "a hill"], ["Sarn", "carries", "slate"]],
    "thought": "The Sarn carries slate.",
    "relevant": "yes",
}
KINDS: dict[str, Misbehaviour] = {
    **{kind: LOST[kind] for kind in ("closed", "half a body", "no JSON", "500")},
    "timeout": TIMEOUT,
    "429": FREE["429"],
    "refusal": UNUSABLE["refusal"][0],
    "cut off": UNUSABLE["truncated"][0],
    "too long": Misbehaviour(longer(2)),
    "no usage": Misbehaviour(usage(None)),
}
ALWAYS = ("too long", "no usage")
"""Answers that can be used: all are so. Of the others, the first attempt at each request gets a right answer last."""
BUDGET = 2.0
MOST_EXCEEDED = 1.05


@dataclass(frozen=True)
class Sums:
    """What the log of all runs and the service have, in dollars."""

    spent: float
    possibly: float
    charged: float

    def __sub__(self, earlier: "Sums") -> "Sums":
        return Sums(self.spent - earlier.spent, self.possibly - earlier.possibly, self.charged - earlier.charged)


def read_sums(charging: Charging) -> Sums:
    payments = read_payments(date.today() - timedelta(days=1)).payments
    spent, possibly = (
        sum(payment.money or 0.0 for payment in payments if payment.possibly_charged is lost) for lost in (False, True)
    )
    return Sums(spent, possibly, charging.charged)


def count(text: str) -> int:
    """As the client does: where nothing is counted, both sides have the same number."""
    return tokens.count_text_tokens(text, "small").tokens


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        running.write = lambda body: json.dumps(ANSWER)
        running.count = count
        yield running


@pytest.fixture(scope="module")
def built(server: OpenAIServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    with pytest.MonkeyPatch.context() as patch:
        open_desk(Till(server), folder, patch)
        build_desk(folder)
    return folder


@pytest.fixture
def charging(server: OpenAIServer, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Charging:
    open_desk(Till(server), tmp_path, monkeypatch)
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("RAGINDEX_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(rate_limits, "Clock", lambda: QUICK)
    return Charging(server)


def check(kind: str, paid: Sums, budget: float | None) -> None:
    tolerance = 0.05 * paid.charged if kind == "no usage" else 1e-6  # estimated: the chat format is charged by many
    assert paid.spent <= paid.charged + tolerance
    assert paid.charged <= paid.spent + paid.possibly + tolerance
    if budget is not None:
        assert paid.charged <= MOST_EXCEEDED * budget


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("interface", INTERFACES)
def test_charge_is_known_and_within_budget(interface: str, kind: str, charging: Charging, tmp_path: Path) -> None:
    """First within a budget, then without one, which goes on where that ended."""

    def misbehave(received: Received, attempt: int) -> Misbehaviour | None:
        return KINDS[kind] if attempt == 0 or kind in ALWAYS else None

    charging.misbehave = misbehave
    for budget in (BUDGET, None):
        before = read_sums(charging)
        report: Any = INTERFACES[interface](tmp_path, budget)
        paid = read_sums(charging) - before
        check(kind, paid, budget)
        if report is not None:
            assert report["money"] == pytest.approx(paid.spent)
            assert report["possibly_charged"] == pytest.approx(paid.possibly)
    assert charging.spoilt > 0
