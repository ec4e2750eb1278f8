"""What a service charges is at most what was spent and possibly charged, and the budget holds, whatever it sends."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from batch_server import BatchPlan, BatchServer
from charging import FREE, LOST, TIMEOUT, UNUSABLE, Charging, Misbehaviour, longer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_language import ECHO, PRICES, QUICK, Echo, answering, opened, texts
from openai_server import KEY, Answer, Received, chat
from rerank_server import reranking

from ragindex.accounting import ledger
from ragindex.accounting.spending_log import read_payments
from ragindex.encoders.openai_compatible import OpenAICompatible, OpenAIEncoder
from ragindex.errors import BudgetError, DailyBudgetError, RequestError, ServiceError
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm import openai_chat
from ragindex.llm.budget import Budget, parse_budget
from ragindex.llm.cache import NoCache, SQLiteCache
from ragindex.llm.prices import Price, Prices
from ragindex.llm.rate_limits import Limits
from ragindex.llm.tasks import Failure, answers_can_wait, retrying_failed
from ragindex_baselines.rerank.endpoint import Endpoint, EndpointScoring

LIMIT = 6.0
LONG = json.dumps({"text": "word " * 80})
"""An answer of nearly as many tokens as ECHO allows, so that what is reserved is nearly what is charged."""


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Charging]:
    with answering(monkeypatch, lambda body: LONG) as server:
        yield Charging(server)


@dataclass(frozen=True)
class Run:
    """How a run ended, what it recorded, and its answers, none if it raised."""

    error: Exception | None
    paid: ledger.Tally
    answers: Sequence[Any] = ()


def run(
    service: Charging,
    count: int = 40,
    limit: float | None = LIMIT,
    path: Path | None = None,
    budget: Budget | None = None,
    **given: Any,
) -> Run:
    """Ask about so many inputs within a budget, or that of a limit."""
    cache = NoCache() if path is None else SQLiteCache(path)
    budget = budget if limit is None else Budget(limit)
    setting = LLMSettings(cache=cache, prices=PRICES, budget=budget, clock=QUICK)
    given = {"concurrency": 4, "retries": 2, **given}
    with ledger.record_calls() as paid:
        try:
            answers = opened(service.server, setting=setting, **given).map(ECHO, texts(count), again=True)
        except (BudgetError, ServiceError) as error:
            return Run(error, paid)
    return Run(None, paid, answers)


def number_of(received: Received) -> int:
    """The place of the input that a request asks about."""
    return int(received.body["messages"][1]["content"].split()[1])


def check_bounds(service: Charging, paid: ledger.Tally) -> None:
    """What was charged lies between what was spent, and that with what was possibly charged."""
    spent, possibly = paid.spent.money, paid.possibly_charged
    assert spent <= service.charged + 1e-9
    assert service.charged <= spent + possibly + 1e-9


# ---------------------------------------------------------------- answers that were charged and lost


@pytest.mark.parametrize("kind", [*LOST, "timeout"])
def test_lost_answers_count_against_budget(service: Charging, kind: str) -> None:
    """Two of three attempts are charged and lost: without their bounds, three times the budget would be charged."""
    misbehaviour = TIMEOUT if kind == "timeout" else LOST[kind]
    service.misbehave = lambda received, attempt: misbehaviour if attempt < 2 else None
    ended = run(service, timeout=1.0, concurrency=16 if kind == "timeout" else 4)  # what waits, waits together
    assert isinstance(ended.error, BudgetError)
    assert "possibly charged for requests without an answer" in str(ended.error)
    assert service.charged <= LIMIT
    check_bounds(service, ended.paid)
    lost, retries = len(ended.paid.lost), ended.paid.retries
    assert (ended.paid.spent.money or 0.0) + (ended.paid.possibly_charged or 0.0) > 0.8 * LIMIT
    assert lost == service.spoilt > 0
    assert 0 < retries <= lost
    spending = ledger.spending_to_json(ended.paid)
    assert spending["possibly_charged"] == pytest.approx(ended.paid.possibly_charged)
    assert spending["retries"] == retries
    sentence = ledger.format_spending(ended.paid)
    assert sentence is not None
    assert f"possibly charged: up to ${ended.paid.possibly_charged:.6f}, {retries} retr" in sentence


def test_log_and_limit_of_day_count_lost_answers(
    service: Charging, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGINDEX_STATE", str(tmp_path))
    monkeypatch.setenv("RAGINDEX_DAILY_BUDGET", str(LIMIT))
    service.misbehave = lambda received, attempt: LOST["closed"] if attempt < 2 else None
    ended = run(service, limit=None, budget=parse_budget(None))
    assert isinstance(ended.error, DailyBudgetError)
    assert service.charged <= LIMIT
    payments = read_payments(date.today() - timedelta(days=1)).payments  # local days, and the last one
    sums = [sum(p.money or 0.0 for p in payments if p.possibly_charged is lost) for lost in (False, True)]
    assert sums == pytest.approx([ended.paid.spent.money, ended.paid.possibly_charged])
    assert sums[1] > 0


@pytest.mark.parametrize("kind", ["none", *FREE])
def test_refused_requests_are_free(service: Charging, kind: str) -> None:
    """An honest service is used to the budget, as is one that refuses two of three attempts."""
    service.misbehave = lambda received, attempt: FREE.get(kind) if attempt < 2 else None
    ended = run(service)
    assert isinstance(ended.error, BudgetError)
    assert ended.paid.possibly_charged == ledger.spending_to_json(ended.paid)["possibly_charged"] == 0
    assert ended.paid.spent.money == pytest.approx(service.charged)
    assert 0.8 * LIMIT <= service.charged <= LIMIT
    assert (ended.paid.retries > 0) == (kind != "none")
    assert "possibly" not in str(ended.error) + str(ledger.format_spending(ended.paid))


def test_refused_connection_is_free(service: Charging) -> None:
    ended = run(service, 3, base_url="http://127.0.0.1:1/v1")
    assert isinstance(ended.error, ServiceError)
    assert "cannot be reached" in str(ended.error)
    assert (ended.paid.possibly_charged, ended.paid.lost) == (0, ())
    assert ledger.format_spending(ended.paid) is None


def test_lost_answer_without_budget_or_price(service: Charging) -> None:
    service.misbehave = lambda received, attempt: LOST["closed"] if attempt == 0 else None
    ended = run(service, 1, None)
    assert ended.error is None
    check_bounds(service, ended.paid)
    with ledger.record_calls() as unpriced:
        setting = LLMSettings(prices=Prices({}), clock=QUICK)
        opened(service.server, setting=setting).run(ECHO, {"text": "of no price"})
    assert unpriced.possibly_charged is None
    (lost,) = unpriced.lost
    most = lost.input_tokens + lost.output_tokens
    assert f"possibly charged: up to {most} tokens, 1 retry." in str(ledger.format_spending(unpriced))


def test_500_that_refuses_a_form_is_possibly_charged(service: Charging) -> None:
    """The same request is sent at once in a simpler form, which is an attempt of its own."""
    refused = Misbehaviour(lambda answer: Answer(500, {"error": {"message": "response_format is not supported"}}))
    service.misbehave = lambda received, attempt: refused if "json_schema" in json.dumps(received.body) else None
    ended = run(service, 1)
    assert ended.error is None
    assert len(ended.paid.lost) == 1
    check_bounds(service, ended.paid)


def test_embedding_without_answer(service: Charging) -> None:
    """The texts of a lost request count at their bound, and the run stops at its budget."""
    kinds = [LOST[kind] for kind in ("closed", "half a body", "500", "503")]
    service.misbehave = lambda received, attempt: kinds[attempt] if attempt < len(kinds) else None
    prices = Prices({"small": Price(input=500.0, output=0)})
    encoder = OpenAIEncoder(
        OpenAICompatible(model="small"), service.server.url, KEY, LLMSettings(prices=prices, clock=QUICK)
    )
    with ledger.record_calls() as paid:
        assert encoder.encode_documents(["one two three"]).shape[0] == 1
    check_bounds(service, paid)
    assert (len(paid.lost), paid.retries) == (4, 4)
    service.misbehave = lambda received, attempt: LOST["no JSON"]
    with ledger.record_calls() as paid, pytest.raises(RequestError, match="expected JSON"):
        encoder.encode_documents(["not sent again"])
    assert len(paid.lost) == 1
    assert paid.spent.money == 0
    service.misbehave = lambda received, attempt: kinds[0]
    limited = LLMSettings(prices=prices, budget=Budget(0.02), clock=QUICK)
    encoder = OpenAIEncoder(OpenAICompatible(model="small"), service.server.url, KEY, limited)
    before = service.charged
    with pytest.raises(BudgetError, match="possibly charged"):
        encoder.encode_documents(["one two three four five six seven"])
    assert 0 < service.charged - before <= 0.02


def test_reranking_without_answer(service: Charging) -> None:
    reranking(service.server)
    kinds = [LOST[kind] for kind in ("closed", "no JSON", "500")]
    service.misbehave = lambda received, attempt: kinds[attempt] if attempt < len(kinds) else None
    prices = Prices({"small": Price(input=200.0, output=0)})
    plugin = Endpoint(model="small", base_url=service.server.url)
    setting = LLMSettings(prices=prices, clock=QUICK)
    scoring = EndpointScoring(plugin, setting, NoCache(), Limits(8, clock=QUICK))
    with pytest.MonkeyPatch.context() as patch, ledger.record_calls() as paid:
        patch.setenv("RERANK_API_KEY", KEY)
        assert len(scoring.scores("one two three", [("", "four five six"), ("", "seven eight nine")])) == 2
    check_bounds(service, paid)
    assert (len(paid.lost), paid.retries) == (3, 3)


# ---------------------------------------------------------------- batches


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    monkeypatch.setattr(openai_chat, "_memories", {})
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with BatchServer() as server:
        yield server


def ask_in_batch(server: BatchServer, path: Path, budget: Budget | None) -> list[Any]:
    setting = LLMSettings(cache=SQLiteCache(path), prices=PRICES, clock=QUICK, budget=budget)
    with answers_can_wait():
        model = opened(server, setting=setting, batch=True, batch_poll_seconds=0.01, retries=1)
        return model.map(ECHO, texts(12), again=True)


def charged_by(server: BatchServer) -> float:
    return server.single.money(1000.0, 500.0, 3000.0) + server.batched.money(500.0, 250.0, 1500.0)


def test_batch_lines_without_answer(batches: BatchServer, tmp_path: Path) -> None:
    """Lines with 5xx or with no completion are possibly charged; expired ones and refused ones are not."""
    batches.plans.append(BatchPlan(errors={0: 500, 1: 400}, unanswered=frozenset({2})))
    answer_line, lines = batches._answer_line, list[Mapping[str, Any]]()

    def spoil(line: Mapping[str, Any]) -> str:
        lines.append(line)
        answered = json.loads(answer_line(line))
        return json.dumps({**answered, "response": {"status_code": 200, "body": {}}} if len(lines) == 1 else answered)

    batches._answer_line = spoil  # type: ignore[method-assign]
    budget = Budget(99)
    with ledger.record_calls() as paid:
        ask_in_batch(batches, tmp_path / "calls.sqlite", budget)
    assert len(paid.lost) == 2
    (most,) = {entry.money for entry in paid.lost}
    assert most is not None
    assert paid.spent.money < charged_by(batches) <= paid.spent.money + 2 * most
    assert budget.left == pytest.approx(99 - paid.spent.money - 2 * most)


def test_batch_answers_that_are_missing(batches: BatchServer, tmp_path: Path) -> None:
    """A result file that stays short is possibly charged, until it can be read: then it is what was spent."""
    batches.plans.append(BatchPlan(cuts=2))
    path = tmp_path / "calls.sqlite"
    with ledger.record_calls() as paid, pytest.raises(ServiceError, match="are missing in the result file") as caught:
        ask_in_batch(batches, path, None)
    assert f"{len(paid.lost)} answers are missing" in str(caught.value)
    with ledger.record_calls() as rest:
        assert ask_in_batch(batches, path, None) == [Echo(**each) for each in texts(12)]
    assert rest.lost == ()
    assert rest.spent.money is not None
    read_first = charged_by(batches) - rest.spent.money  # the answers that the first run could read
    assert 0 <= read_first < charged_by(batches) <= read_first + paid.possibly_charged


# ---------------------------------------------------------------- a service that ignores the limit of tokens


@pytest.mark.parametrize("times", [2, 4])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_excess_raises_later_reservations(service: Charging, times: int, concurrency: int) -> None:
    """The first request goes alone, so that a service that ignores every limit exceeds no budget."""
    service.misbehave = lambda received, attempt: Misbehaviour(longer(times))
    ended = run(service, limit=LIMIT, concurrency=concurrency)
    assert isinstance(ended.error, BudgetError)
    check_bounds(service, ended.paid)
    assert 0.5 * LIMIT < service.charged <= LIMIT


@pytest.mark.parametrize(("concurrency", "normal", "limit"), [(1, 1, 1.1), (4, 6, LIMIT)])
def test_later_excess_is_limited_to_calls_in_flight(
    service: Charging, concurrency: int, normal: int, limit: float
) -> None:
    """A service that begins to ignore the limit passes the budget by what is in flight then.

    Threads that wait for a slot meanwhile, with money reserved, are not in flight.
    """
    excess = Misbehaviour(longer(4), seconds=0.1)  # so that all threads have reserved money when the answer comes
    service.misbehave = lambda received, attempt: excess if number_of(received) >= normal else None
    ended = run(service, limit=limit, concurrency=concurrency)
    assert isinstance(ended.error, BudgetError)
    check_bounds(service, ended.paid)
    assert limit < service.charged <= limit + concurrency * (1.2 - 0.3)


def test_excess_of_reranking_is_limited_to_calls_in_flight(service: Charging) -> None:
    """Four searches share one slot: the first answer shows that the money reserved for the others is too little."""
    reranking(service.server)
    dearer = Misbehaviour(
        lambda answer: Answer(200, {**answer.body, "usage": {"total_tokens": 1000}}),  # type: ignore[dict-item]
        seconds=0.1,
    )
    service.misbehave = lambda received, attempt: dearer
    setting = LLMSettings(prices=Prices({"small": Price(input=200.0, output=0)}), budget=Budget(0.1), clock=QUICK)
    scoring = EndpointScoring(Endpoint(model="small", base_url=service.server.url), setting, NoCache(), Limits(1))

    def search(number: int) -> str:
        try:
            return str(len(scoring.scores(f"one two {number}", [("", "four five six")])))
        except BudgetError as error:
            return str(error)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(4) as pool:
        patch.setenv("RERANK_API_KEY", KEY)
        outcomes = list(pool.map(search, range(4)))
    assert [outcome for outcome in outcomes if outcome == "1"] == ["1"]
    assert service.charged == pytest.approx(0.2)


# ---------------------------------------------------------------- answers that cannot be used


@pytest.mark.parametrize("kind", UNUSABLE)
def test_unusable_answers_in_a_row_end_run(service: Charging, kind: str) -> None:
    """After 20 inputs in a row, with an example and what helps; no more are asked about."""
    misbehaviour, advice = UNUSABLE[kind]
    service.misbehave = lambda received, attempt: misbehaviour
    ended = run(service, 200, None, concurrency=1)
    assert isinstance(ended.error, ServiceError)
    message = str(ended.error)
    assert message.startswith(f"echo: 20 inputs in a row have answers that are charged and cannot be used ({kind}); ")
    assert advice in message
    assert "same command" not in message
    assert len(message) < 900
    assert len(service.server.requests) <= (20 + 1) * (1 if kind == "refusal" else 2)  # with one conversation begun


def test_quarter_of_unusable_answers_ends_run(service: Charging) -> None:
    def refuse(each: int) -> Callable[[Received, int], Misbehaviour | None]:
        return lambda received, attempt: None if number_of(received) % each else UNUSABLE["refusal"][0]

    service.misbehave = refuse(4)
    ended = run(service, 200, None, concurrency=1)
    match = re.match(
        r"echo: (\d+) of (\d+) inputs have answers that are charged and cannot be used .refusal.", str(ended.error)
    )
    refused, charged = map(int, match.groups())
    assert 40 <= charged <= len(service.server.requests) <= 45
    assert 4 * refused >= charged
    service.misbehave = refuse(5)
    assert run(service, 200, None, concurrency=1).error is None


def test_corrected_answers_end_no_run(service: Charging) -> None:
    """A model that needs a second attempt at every input is slow and not broken."""
    service.misbehave = lambda received, attempt: (
        UNUSABLE["malformed"][0] if len(received.body["messages"]) == 2 else None
    )
    ended = run(service, 100, None, concurrency=32)
    assert ended.error is None
    assert not [answer for answer in ended.answers if isinstance(answer, Failure)]


def test_example_is_escaped(service: Charging) -> None:
    service.misbehave = lambda received, attempt: Misbehaviour(chat(content="\x1b[31mred\u202e" + "x" * 5000))
    message = str(run(service, 30, None).error)
    assert "\\x1b[31mred\\u202ex" in message
    assert "\x1b" not in message
    assert len(message) < 900


def test_limit_of_your_own_is_named(service: Charging) -> None:
    service.misbehave = lambda received, attempt: UNUSABLE["truncated"][0]
    assert "Raise max_tokens=50 in --llm: this task allows 100." in str(run(service, 30, None, max_tokens=50).error)


# ---------------------------------------------------------------- inputs that are set aside


@pytest.mark.parametrize("kind", UNUSABLE)
def test_two_charged_answers_set_input_aside(service: Charging, tmp_path: Path, kind: str) -> None:
    path, bad = tmp_path / "calls.sqlite", {3, 5}

    def misbehave(received: Received, attempt: int) -> Misbehaviour | None:
        return UNUSABLE[kind][0] if number_of(received) in bad else None

    def failed() -> dict[int, bool]:
        answers = run(service, 8, None, path).answers
        return {at: answer.set_aside for at, answer in enumerate(answers) if isinstance(answer, Failure)}

    service.misbehave = misbehave
    first = failed()
    assert first == dict.fromkeys(bad, kind != "refusal")  # a refusal is not asked about twice in one run
    assert failed() == dict.fromkeys(bad, True)
    request_count = len(service.server.requests)
    assert request_count == 6 + 2 * 2
    for _ in range(3):
        assert failed() == dict.fromkeys(bad, True)
    assert len(service.server.requests) == request_count
    bad.clear()
    assert set(failed()) == {3, 5}  # only who asks for it pays again
    assert len(service.server.requests) == request_count
    with retrying_failed():
        assert failed() == {}
    assert len(service.server.requests) == request_count + 2
    assert failed() == {}


def test_free_failures_are_asked_again(service: Charging, tmp_path: Path) -> None:
    service.misbehave = lambda received, attempt: Misbehaviour(
        lambda answer: Answer(400, {"error": {"message": "input too long"}}), False
    )
    for count in (1, 2, 3):
        (failure,) = run(service, 1, None, tmp_path / "calls.sqlite").answers
        assert (failure.kind, failure.set_aside) == ("rejected", False)
        assert len(service.server.requests) == count


def test_without_cache_nothing_is_set_aside(service: Charging) -> None:
    service.misbehave = lambda received, attempt: UNUSABLE["malformed"][0]
    (failure,) = run(service, 1, None).answers
    assert not failure.set_aside


# ---------------------------------------------------------------- any sequence


KINDS: Mapping[str, Misbehaviour | None] = {
    "answer": None,
    **LOST,
    **FREE,
    **{kind: misbehaviour for kind, (misbehaviour, _) in UNUSABLE.items()},
}


@pytest.mark.property
@given(
    kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=60),
    limit=st.floats(0.4, 8.0),
    concurrency=st.integers(1, 4),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sequence_of_misbehaviours(service: Charging, kinds: Sequence[str], limit: float, concurrency: int) -> None:
    """Each request gets the next of the kinds; then all are answered."""
    openai_chat._memories.clear()
    left, service.charged = list(kinds), 0.0
    service.misbehave = lambda received, attempt: KINDS[left.pop(0)] if left else None
    ended = run(service, 12, limit, concurrency=concurrency)
    check_bounds(service, ended.paid)
    assert service.charged <= 1.05 * limit
