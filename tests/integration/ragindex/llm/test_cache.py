"""Kept calls: found by everything they depend on, paid once, handed on, forgotten on demand."""

import json
import os
import sqlite3
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_language import ANSWER, ECHO, ORIGIN, PRICES, QUICK, Echo, key, opened, texts
from openai_server import KEY, OpenAIServer, chat, status

from ragindex.accounting import ledger
from ragindex.errors import DataError, LLMError, ServiceError, StoreError
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm import openai_chat
from ragindex.llm.cache import (
    CachedResponse,
    NoCache,
    SQLiteCache,
    TaskSummary,
    disk_size,
    export_calls,
    import_calls,
    prune_responses,
    summarize,
)
from ragindex.llm.prices import Price, Prices
from ragindex.llm.tasks import Failure, Task, retrying_failed
from ragindex.types import Usage

TEXT = {"text": "one two"}


# ---------------------------------------------------------------- calls are paid once


def test_a_second_run_costs_nothing_and_needs_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_chat, "_memories", {})
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    path, inputs = tmp_path / "calls.sqlite", texts(20)
    with OpenAIServer() as server:
        server.refuses, server.write = {"json_schema", "seed"}, lambda body: '{"text": "x"}'
        with ledger.record_calls() as paid:
            answers = opened(server, path).map(ECHO, inputs)
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setattr(openai_chat, "_memories", {})
    with ledger.record_calls() as tally:
        assert opened(server, path).map(ECHO, inputs) == answers == [Echo(text="x")] * 20
    assert (paid.calls, paid.replayed, tally.calls, tally.replayed) == (20, 0, 20, 20)
    assert paid.first == paid.spent
    assert tally.first == pytest.approx(paid.first, abs=1e-9)
    assert tally.spent == Usage()
    assert tally.stages == paid.stages == {"echo": Counter(strict=20)}


PARAMETERS: list[dict[str, Any]] = [
    *({"temperature": 0.5}, {"seed": 1}, {"seed": None}, {"structure": "json"}, {"extra": {"top_p": 0.5}}),
    {"model": "other"},
]


def test_key_holds_every_parameter_but_speed_patience_and_room(server: OpenAIServer, tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    for _ in range(2):
        for number, given in enumerate([{}, *PARAMETERS], start=1):
            opened(server, path, **given).run(ECHO, TEXT)
            assert len(server.requests) >= number
    opened(server, path, concurrency=1, timeout=3, retries=0, requests_per_minute=60).run(ECHO, TEXT)
    for limits in ({"max_tokens": 50}, {"reasoning_tokens": 10}):
        opened(server, path, **limits).run(ECHO, TEXT)
    assert len(server.requests) == len(PARAMETERS) + 1


def test_task_schema_messages_address_and_repeat_are_part_of_the_key(server: OpenAIServer, tmp_path: Path) -> None:
    class Other(Echo):
        kind: str = ""

    prompt = tmp_path / "other.jinja"
    prompt.write_text(ECHO.prompt.read_text() + " Again.\n", encoding="utf-8")
    tasks = [ECHO, replace(ECHO, name="other"), replace(ECHO, prompt=prompt),
             Task("echo", 1, ECHO.prompt, Other, max_tokens=100)]  # fmt: skip
    path = tmp_path / "calls.sqlite"
    with OpenAIServer() as another:
        for _ in range(2):
            for task in tasks:
                opened(server, path).run(task, TEXT)
            opened(server, path).run(ECHO, {"text": "three"})
            opened(server, path).run(ECHO, TEXT, repeat=1)
            opened(another, path).run(ECHO, TEXT)
        assert (len(server.requests), len(another.requests)) == (len(tasks) + 2, 1)
    assert [(row.task, row.responses) for row in summarize(SQLiteCache(path))] == [("echo", 6), ("other", 1)]


def test_prices_of_the_time_are_kept_and_missing_ones_filled_in(server: OpenAIServer, tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"

    def money(prices: Prices) -> float | None:
        with ledger.record_calls() as tally:
            opened(server, setting=LLMSettings(cache=SQLiteCache(path), prices=prices)).run(ECHO, TEXT)
        return tally.entries[0].money

    assert money(Prices({})) is None
    assert money(PRICES) == pytest.approx(9 * 1e-3 + 3 * 3e-3)
    prune_responses(SQLiteCache(path))
    assert money(PRICES) == pytest.approx(9 * 1e-3 + 3 * 3e-3)
    assert money(Prices({"small": Price(input=0, output=0)})) == pytest.approx(9 * 1e-3 + 3 * 3e-3)


def test_failures_are_replayed_until_they_are_to_be_tried_again(server: OpenAIServer, tmp_path: Path) -> None:
    language = opened(server, tmp_path / "calls.sqlite")
    server.faults.extend([chat(content="nothing")] * 2)
    reason = "echo: small gave no usable answer: Expecting value: line 1 column 1 (char 0)."
    failure = Failure("echo", reason, "malformed")
    assert language.map(ECHO, [TEXT]) == [failure]
    assert language.map(ECHO, [TEXT]) == [failure]
    assert len(server.requests) == 2
    assert language.map(ECHO, [TEXT], again=True) == [replace(failure, set_aside=True)]
    assert len(server.requests) == 2
    with ledger.record_calls() as tally, retrying_failed():
        assert language.map(ECHO, [TEXT, {"text": "good"}], again=True) == [Echo(text="one two"), Echo(text="good")]
    assert len(server.requests) == 4
    assert (tally.calls, tally.replayed) == (4, 2)
    assert language.run(ECHO, TEXT, again=True) == Echo(text="one two")
    assert len(server.requests) == 4


# ---------------------------------------------------------------- the file


def test_rows_come_back_as_they_went_in(tmp_path: Path) -> None:
    cache = SQLiteCache(tmp_path / "new" / "calls.sqlite")
    assert cache.get(key(1)) is None
    odd = replace(ANSWER, text="\u0000é\U0001f600", money=None, estimated=True)
    cache.put(key(1), ORIGIN, ANSWER)
    cache.put(key(2), ORIGIN, odd)
    assert (cache.get(key(1)), SQLiteCache(cache.path).get(key(2)), cache.get(key(3))) == (ANSWER, odd, None)
    cache.put(key(1), ORIGIN, odd)
    assert cache.get(key(1)) == odd
    with sqlite3.connect(cache.path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


FORMAT_2 = """
CREATE TABLE calls (key TEXT PRIMARY KEY, task TEXT NOT NULL, version INTEGER NOT NULL, provider TEXT NOT NULL,
    model TEXT NOT NULL, base_url TEXT NOT NULL, text TEXT NOT NULL, finish TEXT NOT NULL, refusal TEXT NOT NULL,
    structure TEXT NOT NULL, input_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL, estimated INTEGER NOT NULL, money REAL, seconds REAL NOT NULL, at REAL NOT NULL,
    checksum INTEGER NOT NULL);
INSERT INTO calls VALUES ('0000000000000001000000000000000100000000000000010000000000000001', 'echo', 1, 'openai',
    'small', 'http://127.0.0.1/v1', '{}', 'stop', '', 'schema', 10, 4, 5, 0, 0.25, 1.5, 1000.0, 2338786883);
PRAGMA user_version = 2;
"""


def test_paid_answers_of_format_2_stay_readable(tmp_path: Path) -> None:
    """Nobody pays again for the answers in a file of an earlier version."""
    connection = sqlite3.connect(tmp_path / "calls.sqlite")
    connection.executescript(FORMAT_2)
    connection.close()
    assert SQLiteCache(tmp_path / "calls.sqlite").get(key(1)) == ANSWER


def test_many_threads(tmp_path: Path) -> None:
    cache = SQLiteCache(tmp_path / "calls.sqlite")

    def keep(number: int) -> CachedResponse | None:
        cache.put(key(number), ORIGIN, replace(ANSWER, input_tokens=number))
        return cache.get(key(number))

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(keep, range(300)))
    assert [answer and answer.input_tokens for answer in answers] == list(range(300))
    assert summarize(cache) == [TaskSummary("echo", 300, 75.0, sum(range(300)), 1500, 1000.0)]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_a_connection_of_its_own(tmp_path: Path) -> None:
    cache = SQLiteCache(tmp_path / "calls.sqlite")
    cache.put(key(1), ORIGIN, ANSWER)
    child = os.fork()
    if child == 0:
        cache.put(key(2), ORIGIN, ANSWER)
        os._exit(0 if cache.get(key(1)) == ANSWER else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert cache.get(key(2)) == ANSWER


def test_what_cannot_be_written_or_read(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match="Cannot use the LLM cache .*: .* Check free space"):
        SQLiteCache(tmp_path / "folder").get(key(1))
    (tmp_path / "broken").write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match="is damaged: .* A repair loses .* Run: ragindex repair"):
        SQLiteCache(tmp_path / "broken").get(key(1))
    connection = sqlite3.connect(tmp_path / "newer")
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(StoreError, match="has format 9; this version of ragindex reads format 2"):
        SQLiteCache(tmp_path / "newer").get(key(1))


def test_a_row_that_cannot_be_written_is_told_to_whoever_waits(tmp_path: Path) -> None:
    cache = SQLiteCache(tmp_path / "calls.sqlite")
    cache.get(key(1))
    connection = sqlite3.connect(cache.path)
    connection.execute("DROP TABLE calls")
    connection.close()
    for number in range(2):
        with pytest.raises(StoreError, match="no such table: calls"):
            cache.put(key(number), ORIGIN, ANSWER)


def test_forgetting(tmp_path: Path) -> None:
    cache, now = SQLiteCache(tmp_path / "calls.sqlite"), time.time()
    rows = [(1, "echo", now - 100), (2, "echo", now), (3, "other", now - 100), (4, "other", now)]
    for number, task, at in rows:
        answer = replace(ANSWER, at=at, text="x" * 100_000)
        cache.put(key(number), replace(ORIGIN, task=task), answer)
    before = disk_size(cache)
    assert prune_responses(cache, older_than=50, task="echo") == 1
    assert [cache.get(key(number)) is None for number in range(1, 5)] == [True, False, False, False]
    assert prune_responses(cache, older_than=50) == 1
    assert [(row.task, row.responses, row.oldest) for row in summarize(cache)] == [("echo", 1, now), ("other", 1, now)]
    assert prune_responses(cache, task="other") == 1
    assert prune_responses(cache) == 1
    assert summarize(cache) == []
    assert disk_size(cache) < before / 4


def test_handing_on(tmp_path: Path) -> None:
    cache, other = SQLiteCache(tmp_path / "calls.sqlite"), SQLiteCache(tmp_path / "other.sqlite")
    answers = {key(n): replace(ANSWER, text=f"\u2028{n}é\n", money=None if n % 2 else 0.5) for n in range(2500)}
    cache.add([(k, *vars_of(ORIGIN), *vars_of(answer)) for k, answer in answers.items()])
    assert export_calls(cache, tmp_path / "calls.jsonl") == 2500
    other.put(key(7), ORIGIN, ANSWER)
    assert import_calls(other, tmp_path / "calls.jsonl") == 2499
    assert import_calls(other, tmp_path / "calls.jsonl") == 0
    assert other.get(key(7)) == ANSWER
    assert {k: other.get(k) for k in answers if k != key(7)} == {k: a for k, a in answers.items() if k != key(7)}


@pytest.mark.parametrize("end", ["", "-wal"])
def test_an_export_over_the_cache_itself_is_refused(end: str, tmp_path: Path) -> None:
    """It would empty the file that it reads, and drop the locks that SQLite holds on it."""
    cache, link = SQLiteCache(tmp_path / "calls.sqlite"), tmp_path / "link"
    cache.put(key(1), ORIGIN, ANSWER)
    link.symlink_to(f"{cache.path}{end}")
    for path in (link, Path(f"{cache.path}{end}")):
        with pytest.raises(DataError, match="expected a file beside the call cache; found a file of the call cache"):
            export_calls(cache, path)
    assert SQLiteCache(cache.path).get(key(1)) == ANSWER


def vars_of(value: Any) -> list[Any]:
    return [getattr(value, name) for name in value.__slots__]


def test_lines_that_are_no_calls(tmp_path: Path) -> None:
    cache, path = SQLiteCache(tmp_path / "calls.sqlite"), tmp_path / "calls.jsonl"
    cache.put(key(1), ORIGIN, ANSWER)
    export_calls(cache, path)
    good = json.loads(path.read_text())
    for bad, place in [
        ({"key": "x"}, "at key"),
        ({"seconds": "1"}, "at seconds"),
        ({"more": 1}, "at more"),
        (None, "the line"),
    ]:
        line = "{" if bad is None else json.dumps({**good, **bad})
        path.write_text(f"{json.dumps({**good, 'key': key(2)})}\n{line}\n")
        other = SQLiteCache(tmp_path / f"{place}.sqlite")
        with pytest.raises(DataError, match=f"line 2: expected a call in the format of an export; found .*{place}"):
            import_calls(other, path)
        assert other.get(key(2)) == ANSWER
    with pytest.raises(DataError, match="No such file"):
        import_calls(cache, tmp_path / "none")
    with pytest.raises(DataError, match="expected a file that can be written"):
        export_calls(cache, tmp_path / "no" / "folder")


def test_half_a_surrogate_pair_spoils_no_answer(server: OpenAIServer, tmp_path: Path) -> None:
    """UTF-8 cannot hold it; an answer cut within an emoji has one. What was paid is kept, and so are those after it."""
    path, halves = tmp_path / "calls.sqlite", ["a \ud83d", "a \ude00"]
    server.faults.extend([chat(content=f'{{"text": "{halves[0]}"}}'), chat(content=json.dumps({"text": halves[1]}))])
    language = opened(server, path)
    answers = [language.map(ECHO, [{"text": f"input {number}"}])[0] for number in range(3)]
    assert answers == [Echo(text="a ?"), Echo(text="a ?"), Echo(text="input 2")]
    assert [language.map(ECHO, [{"text": f"input {number}"}])[0] for number in range(3)] == answers
    assert len(server.requests) == 3
    assert export_calls(SQLiteCache(path), tmp_path / "answers.jsonl") == 3


def test_nothing_is_kept_without_a_cache(server: OpenAIServer) -> None:
    language = opened(server, setting=LLMSettings(cache=NoCache(), prices=PRICES, clock=QUICK))
    with ledger.record_calls() as tally:
        assert language.map(ECHO, [TEXT] * 3) == [Echo(text="one two")] * 3
    assert (len(server.requests), tally.calls, tally.replayed) == (3, 3, 0)


def test_unreachable_is_not_kept(server: OpenAIServer, tmp_path: Path) -> None:
    language = opened(server, tmp_path / "calls.sqlite", retries=0)
    server.faults.append(lambda answer: None)
    with pytest.raises(LLMError):
        language.run(ECHO, TEXT)
    assert language.run(ECHO, TEXT) == Echo(text="one two")


def test_a_service_that_says_half_a_surrogate_pair_in_its_error(server: OpenAIServer) -> None:
    server.faults.append(status(404, "no \ud83d model"))
    with pytest.raises(ServiceError, match=r"status 404: no \? model"):
        opened(server).map(ECHO, [{"text": "a"}])


def test_any_text_of_an_origin_is_kept(tmp_path: Path) -> None:
    cache = SQLiteCache(tmp_path / "calls.sqlite")
    cache.put(key(1), replace(ORIGIN, model="model\udcff"), ANSWER)
    cache.put(key(2), ORIGIN, ANSWER)
    assert [cache.get(key(1)), cache.get(key(2))] == [ANSWER, ANSWER]
