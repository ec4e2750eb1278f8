"""Which changes of settings find an answer that was paid for, and which ask again, or keep the old answer on demand."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_language import ECHO, PRICES, QUICK, Echo, opened
from openai_server import KEY, OpenAIServer, chat

from ragindex.accounting import ledger
from ragindex.errors import LLMError
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.cache import SQLiteCache, import_calls
from ragindex.llm.client import LLMClient
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.llm.reading_cache import open_reading_cache

TEXT = {"text": "one two"}
EARLIER = Path(__file__).parents[3] / "support" / "answers_of_earlier_keys.jsonl"
"""Answers that an earlier version paid for: keys held the token limit, the version, and the address as it is spelt."""
EARLIER_ADDRESS = "http://127.0.0.1:18431/v1"


def earlier(path: Path, **given: Any) -> LLMClient:
    """The model that was asked then; nothing is at its address now."""
    cache = SQLiteCache(path)
    import_calls(cache, EARLIER)
    plugin = OpenAICompatibleChat.model_validate({"model": "small", "base_url": EARLIER_ADDRESS, "retries": 0, **given})
    return plugin.open(LLMSettings(cache=cache, prices=PRICES, clock=QUICK))


def reusing(server: OpenAIServer, path: Path, **given: Any) -> LLMClient:
    setting = LLMSettings(cache=SQLiteCache(path), prices=PRICES, clock=QUICK, reuse_answers=True)
    return opened(server, None, setting, **given)


# ---------------------------------------------------------------- what is found


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_spellings_of_this_machine_are_equal(host: str, server: OpenAIServer, tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    server.faults.append(chat(content='{"text": "cu', finish_reason="length"))
    opened(server, path).map(ECHO, [TEXT])
    other = opened(server, path, base_url=server.url.replace("127.0.0.1", host) + "/")
    with ledger.record_calls() as tally:
        assert other.map(ECHO, [TEXT]) == [Echo(text="one two")]
    assert (len(server.requests), tally.calls, tally.replayed) == (2, 2, 2)


@pytest.mark.parametrize("limits", [{"reasoning_tokens": 1000}, {"max_tokens": 2}, {"max_tokens": 99}])
def test_complete_answers_are_found_with_other_token_limits(
    limits: dict[str, int], server: OpenAIServer, tmp_path: Path
) -> None:
    """With a smaller limit too: the answer is whole, and paid for."""
    opened(server, tmp_path / "calls.sqlite").run(ECHO, TEXT)
    assert opened(server, tmp_path / "calls.sqlite", **limits).run(ECHO, TEXT) == Echo(text="one two")
    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", [chat(content='{"text": "cu', finish_reason="length"), None])
def test_cut_answers_are_asked_again_with_more_room(fault: Any, server: OpenAIServer, tmp_path: Path) -> None:
    """Whether the server says that it has cut them, or says `stop` after as many tokens as were allowed."""
    server.faults.extend([fault] * 2 if fault else [])
    server.count = lambda text: len(text.split()) if fault else 300
    if fault is None:
        server.write = lambda body: '{"text": "cu'
    model = opened(server, tmp_path / "calls.sqlite")
    with pytest.raises(LLMError, match="it was cut off"):
        model.run(ECHO, TEXT)
    with pytest.raises(LLMError, match="it was cut off"):
        model.run(ECHO, TEXT)
    assert len(server.requests) == 2
    server.write = lambda body: '{"text": "whole"}'
    more = opened(server, tmp_path / "calls.sqlite", reasoning_tokens=1000)
    assert [more.run(ECHO, TEXT) for _ in range(2)] == [Echo(text="whole")] * 2
    assert len(server.requests) == 3


def test_replay_of_a_conversation_has_its_cut_answer(server: OpenAIServer, tmp_path: Path) -> None:
    server.faults.append(chat(content='{"text": "cu', finish_reason="length"))
    with ledger.record_calls() as paid:
        opened(server, tmp_path / "calls.sqlite").run(ECHO, TEXT)
    with ledger.record_calls() as tally:
        opened(server, tmp_path / "calls.sqlite").run(ECHO, TEXT)
    assert (tally.calls, tally.replayed) == (2, 2)
    assert tally.first == pytest.approx(paid.spent, abs=1e-9)


def test_versions_of_a_task_share_raw_answers(server: OpenAIServer, tmp_path: Path) -> None:
    """The version says how an answer is read, and the prompt is in the messages."""
    prompt = tmp_path / "moved.jinja"
    prompt.write_text(ECHO.prompt.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    for task in (ECHO, replace(ECHO, version=2), replace(ECHO, prompt=prompt), replace(ECHO, max_tokens=99)):
        opened(server, tmp_path / "calls.sqlite").run(task, TEXT)
    assert len(server.requests) == 1


# ---------------------------------------------------------------- answers of earlier versions


GIVEN: list[dict[str, Any]] = [
    *({}, {"temperature": 0.5}, {"seed": 3}, {"structure": "json"}, {"reasoning_tokens": 40}),
    *({"reasoning_effort": "low"}, {"extra": {"top_p": 0.5}}),
]


@pytest.mark.parametrize("given", GIVEN)
def test_answers_of_earlier_keys_are_found(
    given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert earlier(tmp_path / "calls.sqlite", **given).run(ECHO, TEXT).text.startswith("one two")


def test_conversations_of_earlier_keys_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ledger.record_calls() as tally:
        model = earlier(tmp_path / "calls.sqlite")
        assert model.run(ECHO, {"text": "cut once"}) == Echo(text="cut once")
        assert model.run(ECHO, {"text": "corrected"}).text.startswith("Your answer cannot be used")
        assert model.run(ECHO, TEXT, repeat=1) == Echo(text="one two")
    assert (tally.calls, tally.replayed, tally.spent.money) == (5, 5, 0.0)
    assert model.find_answer(ECHO, TEXT) == Echo(text="one two")


@pytest.mark.parametrize("host", ["localhost", "[::1]"])
def test_answers_of_earlier_keys_are_found_in_other_spellings(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    model = earlier(tmp_path / "calls.sqlite", base_url=EARLIER_ADDRESS.replace("127.0.0.1", host))
    assert model.run(ECHO, TEXT) == Echo(text="one two")


# ---------------------------------------------------------------- other settings


def moved(server: OpenAIServer) -> dict[str, Any]:
    return {"base_url": server.url.replace("127.0.0.1", "127.0.0.2")}


CHANGES: list[tuple[dict[str, Any] | Callable[[OpenAIServer], dict[str, Any]], str]] = [
    ({"temperature": 0.2}, "temperature 0 → 0.2"),
    ({"temperature": None}, "temperature 0 → none"),
    ({"seed": 7}, "seed 0 → 7"),
    ({"structure": "json"}, "structure auto → json"),
    ({"reasoning_effort": "low"}, "reasoning_effort none → low"),
    ({"extra": {"top_p": 0.5}}, "other extra parameters"),
    ({"temperature": 1, "seed": None}, "temperature 0 → 1, seed 0 → none"),
    (moved, "address http://localhost:PORT/v1 → http://127.0.0.2:PORT/v1"),
]


@pytest.mark.parametrize(("given", "change"), CHANGES)
def test_answers_under_other_settings_are_known_and_kept_on_demand(
    given: Any, change: str, server: OpenAIServer, tmp_path: Path
) -> None:
    path = tmp_path / "calls.sqlite"
    opened(server, path).run(ECHO, TEXT)
    given = given(server) if callable(given) else given
    paid_before = opened(server, path, **given).find_paid_before(ECHO, TEXT)
    assert paid_before is not None
    answer, before = paid_before
    assert answer == Echo(text="one two")
    port = server.url.rpartition(":")[2].partition("/")[0]
    assert (before.change, before.reusable) == (change.replace("PORT", port), True)
    assert before.money == pytest.approx(9 * 1e-3 + 3 * 3e-3)
    assert opened(server, path, **given).find_answer(ECHO, TEXT) is None
    reuser = reusing(server, path, **given)
    with ledger.record_calls() as tally:
        assert reuser.find_answer(ECHO, TEXT) == reuser.run(ECHO, TEXT) == Echo(text="one two")
    assert (len(server.requests), tally.calls, tally.replayed) == (1, 1, 1)
    assert opened(server, path).find_paid_before(ECHO, {"text": "another"}) is None


def test_another_prompt_is_known_and_kept_on_demand(server: OpenAIServer, tmp_path: Path) -> None:
    path, prompt = tmp_path / "calls.sqlite", tmp_path / "other.jinja"
    prompt.write_text("Say it again: {{ text }}", encoding="utf-8")
    opened(server, path).run(ECHO, TEXT)
    task = replace(ECHO, prompt=prompt, version=2)
    before = opened(server, path).find_paid_before(task, TEXT)
    assert before is not None
    assert before[1].change == "another prompt"
    assert reusing(server, path).run(task, TEXT) == Echo(text="one two")
    assert len(server.requests) == 1


@pytest.mark.parametrize(("name", "reusable"), [("other", False), ("maker/SMALL", True)])
def test_answers_of_another_model_are_never_kept(
    name: str, reusable: bool, server: OpenAIServer, tmp_path: Path
) -> None:
    path = tmp_path / "calls.sqlite"
    opened(server, path).run(ECHO, TEXT)
    before = opened(server, path, model=name).find_paid_before(ECHO, TEXT)
    assert before is not None
    assert (before[1].change, before[1].reusable) == (f"model small → {name}", reusable)
    reusing(server, path, model=name).run(ECHO, TEXT)
    assert len(server.requests) == (1 if reusable else 2)


def test_conversations_are_kept_on_demand_whole(server: OpenAIServer, tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    server.faults.append(chat(content="no JSON"))
    answer = opened(server, path).run(ECHO, TEXT)
    assert reusing(server, path, temperature=0.2).run(ECHO, TEXT) == answer
    assert len(server.requests) == 2


def test_cut_and_refused_answers_are_not_kept(server: OpenAIServer, tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    server.faults.extend([chat(content='{"text": "cu', finish_reason="length")] * 2)
    server.faults.append(chat(content=None, refusal="no"))
    model = opened(server, path)
    for text in ("one", "two"):
        with pytest.raises(LLMError):
            model.run(ECHO, {"text": text})
    reuser = reusing(server, path, temperature=0.2)
    assert [reuser.run(ECHO, {"text": text}).text for text in ("one", "two")] == ["one", "two"]
    assert len(server.requests) == 5


def test_kept_answers_of_an_index_that_is_only_read(server: OpenAIServer, tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    opened(server, path).run(ECHO, TEXT)
    for file in (None, tmp_path / "named.sqlite"):
        cache = open_reading_cache(path, file)
        setting = LLMSettings(cache=cache, prices=PRICES, clock=QUICK, reuse_answers=True)
        assert opened(server, None, setting, seed=5).run(ECHO, TEXT) == Echo(text="one two")
    assert len(server.requests) == 1


def test_stored_settings_hold_no_secrets(server: OpenAIServer, tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    opened(server, path, extra={"token": "sk-hidden"}).run(ECHO, TEXT)
    cache = SQLiteCache(path)
    with cache.connection() as connection:
        ((settings,),) = connection.execute("SELECT settings FROM calls").fetchall()
    assert "sk-hidden" not in settings
    assert set(json.loads(settings)) == {"temperature", "seed", "structure", "prompt", "schema", "extra"}
