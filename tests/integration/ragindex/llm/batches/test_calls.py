"""Answers in batches, from a server that fails in parts: every answer is paid once, and counted at half the price."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from batch_server import BatchPlan, BatchServer
from made_language import ECHO, PRICES, QUICK, Echo, opened, texts
from openai_server import KEY, Fault, Received, drop, says, slow, status

from ragindex.accounting import ledger
from ragindex.errors import BudgetError, ServiceError, UsageError
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm import openai_chat
from ragindex.llm.batches import calls, endpoint
from ragindex.llm.batches.calls import BatchCalls, WantedCall
from ragindex.llm.budget import Budget
from ragindex.llm.cache import SQLiteCache
from ragindex.llm.client import LLMClient
from ragindex.llm.tasks import Failure, Task, answers_can_wait

BATCHED = {"batch": True, "batch_poll_seconds": 0.5}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    monkeypatch.setattr(openai_chat, "_memories", {})
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with BatchServer() as running:
        yield running


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.sqlite"


def ask(server: BatchServer, path: Path, count: int, **given: Any) -> tuple[list[Any], ledger.Tally]:
    """The answers to so many inputs by a client of its own, and what was recorded."""
    with answers_can_wait(), ledger.record_calls() as tally:
        return opened(server, path, **{**BATCHED, **given}).map(ECHO, texts(count), again=True), tally


def echoed(count: int) -> list[Echo]:
    return [Echo.model_validate(each) for each in texts(count)]


def bill(server: BatchServer) -> float:
    return server.single.money(1000.0, 500.0, 3000.0) + server.batched.money(500.0, 250.0, 1500.0)


def cached_money(path: Path) -> float:
    with SQLiteCache(path).connection() as connection:
        return float(connection.execute("SELECT total(money) FROM calls").fetchone()[0])


def on_path(path: str, *faults: Fault | None) -> Any:
    """A `choose` that spoils the first requests to a path, in order."""
    left = list(faults)

    def choose(received: Received, _: int) -> Fault | None:
        named = urlsplit(received.path).path
        return left.pop(0) if left and (named == path or (path.endswith("*") and named.startswith(path[:-1]))) else None

    return choose


# ---------------------------------------------------------------- what a batch is for


def test_one_request_proves_the_form_and_the_others_come_at_half_the_price(server: BatchServer, path: Path) -> None:
    server.cached_tokens = 3
    answers, tally = ask(server, path, 10)
    assert answers == echoed(10)
    assert server.paths() == [
        "/v1/batches",
        "/v1/chat/completions",
        "/v1/files",
        "/v1/batches",
        *["/v1/batches/ID"] * 3,
        "/v1/files/ID/content",
    ]
    assert (server.single.requests, server.batched.requests) == (1, 9)
    assert tally.spent.money == pytest.approx(bill(server)) == pytest.approx(cached_money(path))
    assert tally.spent.input_tokens == 100
    assert tally.cached_tokens == 30
    assert (tally.calls, tally.replayed) == (10, 0)


def test_interactive_answers_and_those_of_batches_are_the_same_to_the_cache(server: BatchServer, path: Path) -> None:
    ask(server, path, 10)
    request_count = len(server.requests)
    again = opened(server, path).map(ECHO, texts(10))
    assert again == echoed(10)
    with answers_can_wait():
        assert opened(server, path, **BATCHED).map(ECHO, texts(10)) == echoed(10)
    assert len(server.requests) == request_count


@pytest.mark.parametrize("waits", [True, False])
def test_what_cannot_wait_is_asked_one_by_one(server: BatchServer, path: Path, waits: bool) -> None:
    llm = opened(server, path, **BATCHED)
    if waits:
        with answers_can_wait():
            llm.run(ECHO, {"text": "run"})
    else:
        llm.map(ECHO, texts(3))
    assert server.batched.requests == 0
    assert server.paths() == ["/v1/chat/completions"] * (1 if waits else 3)


def test_time_of_a_batch_is_that_of_the_endpoint_whoever_waited(server: BatchServer, path: Path) -> None:
    """1,000 seconds for 20 requests at 16 in flight: as if each had taken 800."""
    server.plans = [BatchPlan(seconds=1000)]
    _, first = ask(server, path, 21)
    _, replayed = ask(server, path, 21)
    assert first.first.seconds == pytest.approx(20 * 800.0, abs=5)
    assert replayed.first.seconds == pytest.approx(20 * 800.0, abs=5)
    assert replayed.spent.seconds == 0
    assert min(first.correction, replayed.correction) > 700  # a thread at least counts 800 seconds, less its wait here


def test_more_inputs_than_fit_are_several_batches(
    server: BatchServer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MOST_REQUESTS", 4)
    monkeypatch.setattr(endpoint, "MOST_REQUESTS", 4)
    server.plans = [BatchPlan(looks=5), BatchPlan(looks=1), BatchPlan(looks=3)]
    answers, tally = ask(server, path, 12)
    assert answers == echoed(12)
    assert sorted(batch["request_counts"]["total"] for batch in server.batches.values()) == [3, 4, 4]
    assert tally.spent.money == pytest.approx(bill(server))


def test_a_file_is_at_most_so_many_bytes(server: BatchServer, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_MOST_BYTES", 2_000)
    answers, _ = ask(server, path, 12)
    assert answers == echoed(12)
    assert len(server.batches) > 1
    texts_sent = [server.files[batch["input_file_id"]] for batch in server.batches.values()]
    assert all(len(text.encode()) <= 2_000 for text in texts_sent)
    assert sum(len(text.splitlines()) for text in texts_sent) == 11


def test_who_batches_gets_all_inputs_at_once(server: BatchServer) -> None:
    assert opened(server, **BATCHED).batch_size == 50_000
    assert opened(server).batch_size == 1


# ---------------------------------------------------------------- what a batch does not answer


FULL = BatchPlan("failed", problem=("token_limit_exceeded", "Enqueued token limit reached"))
LINES = ('{"custom_id": "f00", "response": {"status_code": 200, "body": {}}}', "{broken", "[]", '{"custom_id": 5}')
PLANS: dict[str, tuple[list[BatchPlan], int, int, list[int]]] = {
    # the batches, how many inputs there are, requests one by one, and the sizes of the batches that are sent
    "status 400": ([BatchPlan(errors={0: 400, 4: 400})], 10, 3, [9]),
    "status 500": ([BatchPlan(errors={0: 500, 4: 500})], 10, 3, [9]),
    "many unanswered": ([BatchPlan("expired", unanswered=frozenset(range(120)))], 200, 1, [199, 120]),
    "too many tokens enqueued": ([FULL, FULL], 21, 1, [20, 10, 5, 5, 5, 5]),
    "repeats, strangers, damage": ([BatchPlan(repeated=frozenset({1, 2}), lines=LINES)], 10, 1, [9]),
    "cut results": ([BatchPlan(cuts=2)], 10, 1, [9]),
}


@pytest.mark.parametrize("how", PLANS)
def test_batches_that_fail_in_part(server: BatchServer, path: Path, how: str) -> None:
    server.plans, count, single, sizes = PLANS[how]
    answers, tally = ask(server, path, count)
    assert answers == echoed(count)
    assert (server.single.requests, server.batched.requests) == (single, count - single)
    assert [batch["request_counts"]["total"] for batch in server.batches.values()] == sizes
    assert tally.spent.money == pytest.approx(bill(server)) == pytest.approx(cached_money(path))
    assert how != "cut results" or server.paths().count("/v1/files/ID/content") == 3
    with SQLiteCache(path).connection() as connection:
        assert connection.execute("SELECT count(*) FROM calls").fetchone() == (count,)


def test_many_corrections_follow_in_another_batch(server: BatchServer, path: Path) -> None:
    """An unusable answer is shown to the model once, whether it came in a batch or not."""
    server.write = lambda body: (
        json.dumps({"text": "corrected"}) if "cannot be used" in body["messages"][-1]["content"] else "no JSON"
    )
    answers, tally = ask(server, path, 121)
    assert answers == [Echo(text="corrected")] * 121
    assert [batch["request_counts"]["total"] for batch in server.batches.values()] == [120, 121]
    assert server.single.requests == 1
    assert tally.spent.money == pytest.approx(bill(server)) == pytest.approx(cached_money(path))
    assert tally.stages["echo"] == {"malformed": 121, "asked again": 121, "strict": 121}


def test_an_answer_that_stays_unusable_is_a_failure_and_paid_once_a_run(server: BatchServer, path: Path) -> None:
    server.write = lambda body: "no JSON"
    answers, tally = ask(server, path, 3)
    assert [isinstance(answer, Failure) and answer.kind for answer in answers] == ["malformed"] * 3
    assert tally.spent.money == pytest.approx(bill(server))
    assert (server.single.requests, server.batched.requests) == (1 + 3, 2)


STOPS: dict[str, tuple[BatchPlan, int, str, int]] = {  # the batch, inputs, the message, and how many are answered
    "expired": (
        BatchPlan("expired", unanswered=frozenset(range(150))),
        151,
        "batch_0 expired, 0 of 150 answered.*send them again",
        1,
    ),
    "cancelled": (
        BatchPlan("cancelled", unanswered=frozenset({0, 1})),
        10,
        "batch_0 cancelled, 7 of 9 answered.*The answers are kept",
        8,
    ),
    "failed": (
        BatchPlan("failed", problem=("invalid_json_line", f"Line 3 is no JSON. {KEY}")),
        10,
        "batch_0 failed.*nothing was paid.*Line 3 is no JSON",
        1,
    ),
    "cut": (BatchPlan(cuts=3), 10, "answers are missing in the result file of batch batch_0", 10),
}


@pytest.mark.parametrize("how", STOPS)
def test_batches_that_stop_are_finished_by_the_next_run(server: BatchServer, path: Path, how: str) -> None:
    plan, count, message, answered = STOPS[how]
    server.plans = [plan]
    with pytest.raises(ServiceError, match=message) as caught:
        ask(server, path, count, retries=2)
    assert KEY not in str(caught.value)
    assert server.single.requests + server.batched.requests == answered
    money = cached_money(path)
    assert 0 < money < bill(server) if how == "cut" else money == pytest.approx(bill(server))
    assert ask(server, path, count)[0] == echoed(count)
    assert cached_money(path) == pytest.approx(bill(server))
    assert server.single.requests + server.batched.requests == count


# ---------------------------------------------------------------- HTTP that fails


def test_polls_wait_out_rate_limits_errors_and_dropped_connections(server: BatchServer, path: Path) -> None:
    faults = [status(429, retry_after="1"), status(503), drop, says("<html>"), slow(0.05)]
    server.choose = on_path("/v1/batches/*", *faults)
    answers, _ = ask(server, path, 10, retries=5)
    assert answers == echoed(10)
    assert server.single.requests + server.batched.requests == 10


@pytest.mark.parametrize("fault", [drop, says("<html>")])
def test_a_creation_whose_answer_is_lost_is_found_by_its_metadata(
    server: BatchServer, path: Path, fault: Fault
) -> None:
    """The first request to the path is the look whether the endpoint has batches at all."""
    server.choose = on_path("/v1/batches", None, fault)
    for _ in range(3):  # others' batches fill the first pages of the list
        server._keep("")
        server.batches[f"other{len(server.batches)}"] = {"id": f"other{len(server.batches)}", "created_at": 10**10}
    answers, tally = ask(server, path, 10)
    assert answers == echoed(10)
    assert [batch for batch in server.batches if batch.startswith("batch_")] == ["batch_3"]
    assert tally.spent.money == pytest.approx(bill(server))


MISSING = r"openai:small at http.* has no Batch API: /\w+ answers .*Set batch=false."


@pytest.mark.parametrize(
    ("refusing", "fault", "message", "batches"),
    [
        ("/v1/files", status(400, "file too odd"), "file too odd", []),
        ("/v1/files", status(404, "404 page not found"), MISSING, [""]),  # the next run forgets it
        ("/v1/batches", status(404, "404 page not found"), MISSING, []),
        ("/v1/batches/*", status(404, "No batch found"), "knows no batch batch_0.*--forget-batches", ["batch_0"]),
        ("*", status(401), "rejects the API key", []),
    ],
)
def test_endpoints_that_refuse(
    server: BatchServer, path: Path, refusing: str, fault: Fault, message: str, batches: list[str]
) -> None:
    server.choose = on_path(refusing, *[fault] * 5)
    with pytest.raises(ServiceError, match=message):
        ask(server, path, 10)
    assert [batch.id for batch in endpoint.read_batches(SQLiteCache(path))] == batches
    assert server.batched.requests == 0


# ---------------------------------------------------------------- crashes, budgets, other runs


@pytest.mark.parametrize("rows", [0, 4])
def test_a_crash_between_the_answers_of_a_batch(
    server: BatchServer, path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(calls, "_ROWS", 2)
    put_many, written = SQLiteCache.put_many, 0

    def crash(self: SQLiteCache, answers: Any) -> None:
        nonlocal written
        if written >= rows:
            raise KeyboardInterrupt
        written += len(answers)
        put_many(self, answers)

    with monkeypatch.context() as patched:
        patched.setattr(SQLiteCache, "put_many", crash)
        with pytest.raises(KeyboardInterrupt):
            ask(server, path, 10)
    answers, tally = ask(server, path, 10)
    assert answers == echoed(10)
    assert (server.single.requests, server.batched.requests) == (1, 9)
    assert cached_money(path) == pytest.approx(bill(server)) == pytest.approx(tally.first.money)
    assert tally.replayed == 1 + rows


def test_a_batch_with_names_of_an_earlier_version_is_not_sent_again(
    server: BatchServer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name(client: LLMClient, task: Task[Any], inputs: Any, repeat: int, again: bool) -> dict[str, WantedCall]:
        requests = [client._request(task, each, repeat) for each in inputs]
        return {client._calls.keys(task, each).earlier[0]: WantedCall(each, first=True) for each in requests}

    with monkeypatch.context() as patched:
        patched.setattr(LLMClient, "_find_wanted", name)
        patched.setattr(BatchCalls, "_wait", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            ask(server, path, 10)
    answers, tally = ask(server, path, 10)
    assert answers == echoed(10)
    assert (server.single.requests, server.batched.requests) == (1, 9)
    assert tally.replayed == 1


def test_ctrl_c_says_that_the_batch_goes_on(
    server: BatchServer, path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def interrupt(received: Received) -> bool:
        nonlocal looks
        looks += "/v1/batches/" in received.path
        return False

    server.before = interrupt
    waits = QUICK.sleep

    def stop(seconds: float) -> None:
        waits(seconds)
        if looks == 2:
            raise KeyboardInterrupt

    setting = LLMSettings(cache=SQLiteCache(path), prices=PRICES, clock=type(QUICK)(sleep=stop))
    with answers_can_wait(), pytest.raises(KeyboardInterrupt):
        opened(server, setting=setting, **BATCHED).map(ECHO, texts(10))
    printed = capsys.readouterr().err
    assert "echo: batch batch_0 in_progress, 0 of 9 answered, sent 0 s ago" in printed
    assert "Not ended: batch_0. The endpoint goes on, and so does the same command" in printed
    assert ask(server, path, 10)[0] == echoed(10)
    assert len(server.batches) == 1


def test_the_budget_holds_a_batch_back(server: BatchServer, path: Path) -> None:
    """A call may cost 10 tokens in and 100 out: 0.155 dollars in a batch, and is billed 0.011."""
    budget = Budget(0.5)
    setting = LLMSettings(cache=SQLiteCache(path), prices=PRICES, clock=QUICK, budget=budget)
    with answers_can_wait(), pytest.raises(BudgetError):
        opened(server, setting=setting, **BATCHED).map(ECHO, texts(100))
    assert budget.spent == pytest.approx(bill(server)) == pytest.approx(cached_money(path))
    assert 0.3 < bill(server) <= 0.5
    assert len(server.batches) > 3


def test_what_was_sent_counts_in_the_budget_of_the_next_run(server: BatchServer, path: Path) -> None:
    server.choose = on_path("/v1/batches/*", status(404))
    with pytest.raises(ServiceError):
        ask(server, path, 10)
    budget = Budget(0.05)
    setting = LLMSettings(cache=SQLiteCache(path), prices=PRICES, clock=QUICK, budget=budget)
    with answers_can_wait():
        assert opened(server, setting=setting, **BATCHED).map(ECHO, texts(10)) == echoed(10)
    assert budget.spent == pytest.approx(server.batched.money(500.0, 250.0, 1500.0))


def test_without_batch_nothing_on_its_way_is_paid_again(server: BatchServer, path: Path) -> None:
    server.choose = on_path("/v1/batches/*", status(404))
    with pytest.raises(ServiceError):
        ask(server, path, 10)
    with pytest.raises(UsageError, match=r"batch batch_0 in_progress.*Set batch=true.*--forget-batches"):
        ask(server, path, 10, batch=False)
    with answers_can_wait():
        assert opened(server, path).map(ECHO, [{"text": "another"}]) == [Echo(text="another")]
    server.batches["batch_0"]["status"] = "validating"
    server._looks["batch_0"] = 2
    assert ask(server, path, 10, batch=False)[0] == echoed(10)
    assert (server.single.requests, server.batched.requests) == (2, 9)
    assert cached_money(path) == pytest.approx(bill(server))


def test_batches_need_the_cache(server: BatchServer) -> None:
    with answers_can_wait(), pytest.raises(UsageError, match="Leave out --no-cache"):
        opened(server, **BATCHED).map(ECHO, texts(2))
    assert server.requests == []


def test_other_runs_wait_for_the_same_batch(server: BatchServer, path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(ask, server, path, 10) for _ in range(2)]
        (first, first_tally), (second, other) = (future.result() for future in both)
    assert first == second == echoed(10)
    assert (server.single.requests, server.batched.requests) == (1, 9)
    assert (first_tally.spent + other.spent).money == pytest.approx(bill(server))
