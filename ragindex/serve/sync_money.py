"""What a sync process pays: reserved with the server before each call, and booked on the key that sent the documents.

The process and its server exchange lines of JSON. Each is written in one piece as soon as it is known, so that the
server has what was paid before the process was killed: at most what each slot had in flight is missing.
"""

import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from threading import Lock
from typing import Any

from ragindex.accounting.spending_log import Payment
from ragindex.errors import BudgetError
from ragindex.llm.budget import Booking, Budget, find_daily_budget
from ragindex.serve.keys import Keyring
from ragindex.serve.telemetry import ServerMetrics

GRANTED, LATER, REFUSED = "granted", "later", "refused"
_POLL_SECONDS = 0.05

# ---------------------------------------------------------------- in the sync process


_reservation: ContextVar[int | None] = ContextVar("ragindex_reservation", default=None)


class ServerLink:
    """The lines that a sync process exchanges with its server. `owner` is the key that is paid for. Thread-safe."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self.owner = ""
        self.paid = 0.0
        """US dollars that this process has paid, or may have paid."""
        self.limited = False
        """Whether each call is reserved with the server first."""
        self.capped: set[str] = set()
        """Keys whose documents wait, until the server says otherwise."""
        self.lifts = 0
        """How often the server has let documents go on that waited."""
        self.updates = deque[dict[str, Any]]()
        """Updates of the sources that are not begun: the key that pays, and whether removals are allowed."""
        self._lifts_before = 0
        self._write, self._lock = write, Lock()
        self._numbers = count(1)
        self._questions: dict[int, Future[dict[str, Any]]] = {}

    def send(self, event: str, **values: Any) -> None:
        """Send an event."""
        line = json.dumps({"event": event, **values}).encode() + b"\n"
        with self._lock:
            self._write(line)

    def ask(self, event: str, **values: Any) -> dict[str, Any]:
        """Send a question, and return the reply."""
        number, reply = next(self._numbers), Future[dict[str, Any]]()
        self._questions[number] = reply
        self.send(event, id=number, owner=self.owner, **values)
        return reply.result()

    def receive(self, line: str) -> bool:
        """Take a line of the server: a reply, keys whose documents wait, an update. Return whether work may wait."""
        if not line.strip():
            return True
        message = json.loads(line)
        if "capped" in message:
            self.capped, self.lifts = set(message["capped"]), message["lifts"]
            return True
        if "update" in message:
            self.updates.append(message["update"])
            return True
        self._questions.pop(message["id"]).set_result(message)
        return False

    def report(self, payment: Payment) -> None:
        """Report a payment of this process, or what a request without an answer may have cost."""
        with self._lock:
            self.paid += payment.money or 0.0
        self.send(
            "paid",
            owner=self.owner,
            id=_reservation.get(),
            tokens=payment.input_tokens + payment.output_tokens,
            dollars=payment.money or 0.0,
            lost=payment.possibly_charged,
        )

    def find_left(self) -> float:
        """Return what may be paid for the key, in dollars: by the server's budgets, and by the limit of the day."""
        daily = find_daily_budget()
        left = float(self.ask("left")["left"]) if self.limited else float("inf")
        return left if daily is None else min(left, daily.left)

    def cap(self, error: BudgetError, *, daily: bool) -> None:
        """Let the documents of the key wait, and say why."""
        self.capped.add(self.owner)
        self.send("spend_cap", owner=self.owner, reason=str(error), daily=daily, lifts=self._lifts_before)

    @contextmanager
    def paying(self, owner: str) -> Iterator[None]:
        """Book what is paid inside on a key."""
        self.owner, self._lifts_before = owner, self.lifts
        try:
            yield
        finally:
            self.owner = ""


class LinkedBudget(Budget):
    """The budgets of a server and of the key that is paid for, asked over a link."""

    def __init__(self, link: ServerLink) -> None:
        super().__init__(float("inf"))
        self._link = link

    @property
    def left(self) -> float:
        """US dollars that are neither paid nor reserved."""
        return float(self._link.ask("left")["left"])

    @contextmanager
    def recorded(self) -> Iterator[Booking]:
        """Add nothing: what is paid is reported."""
        yield Booking()

    @contextmanager
    def reserved(self, most: float) -> Iterator[Booking]:
        """Reserve money for one call with the server. Raises BudgetError."""
        while (reply := self._link.ask("reserve", most=most))["answer"] == LATER:
            time.sleep(_POLL_SECONDS)
        if reply["answer"] == REFUSED:
            raise BudgetError(reply["reason"])
        booking, token = Booking(), _reservation.set(reply["id"])
        try:
            yield booking
        finally:
            _reservation.reset(token)
            self._link.send("release", id=reply["id"], paid=booking.paid)
            booking.finish()


# ---------------------------------------------------------------- in the server


@dataclass(slots=True)
class _Reservation:
    """Money that a call of a sync process may cost, and what of it has been reported as paid."""

    owner: str
    holding: ExitStack
    paid: float = 0.0


@dataclass
class Purse:
    """What the sync processes of a collection pay for keys. Used by the event loop alone, but for `find_left`."""

    read_keys: Callable[[], Keyring]
    metrics: ServerMetrics
    server: Budget | None = None
    paid_since_sync: dict[str, float] = field(default_factory=dict)
    """US dollars by key that were paid for changes that are not made yet."""
    _reservations: dict[int, _Reservation] = field(default_factory=dict)

    def answer(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Return the reply to a message of a sync process, if it is a question."""
        match message["event"]:
            case "paid":
                self._pay(message)
            case "release":
                self._release(message["id"], message["paid"])
            case "left":
                left = min((budget.left for budget in self._find(message["owner"])), default=float("inf"))
                return {"id": message["id"], "left": left}
            case "reserve":
                return {"id": message["id"], **self._reserve(message["id"], message["owner"], message["most"])}
        return None

    def close(self) -> None:
        """Return the reservations of a process that has ended."""
        for number in list(self._reservations):
            self._release(number, 0.0)

    def find_left(self, owner: str) -> float:
        """Return what is left of the server's budget and of a key's, as if changes that are not made were unpaid."""
        key = self._find_key(owner)
        server_paid = sum(self.paid_since_sync.values())
        own = [] if key is None else [key.limit - key.charged + self.paid_since_sync.get(owner, 0.0)]
        shared = [] if self.server is None else [self.server.limit - self.server.charged + server_paid]
        return min([*own, *shared], default=float("inf"))

    def _find_key(self, owner: str) -> Budget | None:
        return next((key.budget for key in self.read_keys().keys if key.name == owner), None)

    def _find(self, owner: str) -> list[Budget]:
        return [budget for budget in (self.server, self._find_key(owner)) if budget is not None]

    def _reserve(self, number: int, owner: str, most: float) -> dict[str, str]:
        keys = self.read_keys()
        if owner and keys.capped and all(key.name != owner for key in keys.keys):
            return {
                "answer": REFUSED,
                "reason": f"The key {owner!r}, which sent this, is no key of the server any more.",
            }
        holding = ExitStack()
        for budget in self._find(owner):
            try:
                reserved = budget.reserve_now(most)
            except BudgetError:
                holding.close()
                return {"answer": REFUSED, "reason": _describe(budget, most, of_server=budget is self.server)}
            if reserved is None:
                holding.close()
                return {"answer": LATER}
            holding.push(reserved)
        self._reservations[number] = _Reservation(owner, holding)
        return {"answer": GRANTED}

    def _pay(self, message: dict[str, Any]) -> None:
        owner, dollars = message["owner"], message["dollars"]
        if message["lost"]:  # the metrics have what was paid; the budgets hold for what may have been, too
            self._charge(owner, dollars, lost=True)
            return
        self.metrics.tokens.labels(owner).inc(message["tokens"])
        self.metrics.dollars.labels(owner).inc(dollars)
        self._charge(owner, dollars)
        if (reservation := self._reservations.get(message["id"])) is not None:
            reservation.paid += dollars

    def _charge(self, owner: str, dollars: float, *, lost: bool = False) -> None:
        if not lost:
            self.paid_since_sync[owner] = self.paid_since_sync.get(owner, 0.0) + dollars
        for budget in self._find(owner):
            with budget.recorded() as booking:
                (booking.lose if lost else booking.pay)(dollars)

    def _release(self, number: int, paid: float) -> None:
        """Return a reservation; what it has cost beyond the reported payments is charged now."""
        reservation = self._reservations.pop(number)
        reservation.holding.close()
        if paid > reservation.paid:
            self._charge(reservation.owner, paid - reservation.paid)


def _describe(budget: Budget, most: float, *, of_server: bool) -> str:
    whose, how = ("of the server", "--budget") if of_server else ("of this key", "`budget` in the server's keys")
    return (
        f"The spend cap {whose} is used up: ${budget.charged:.4f} of ${budget.limit:.4f} paid; the next call could "
        f"cost ${most:.4f}. The document waits until {how} is raised."
    )
