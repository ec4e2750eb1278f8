"""A planted key is looked for in everything that is written, told or shown."""

import json
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path

import openai_server
import pytest
from made_language import ECHO, Echo, opened
from openai_server import OpenAIServer, chat, says, status

from ragindex.accounting import ledger
from ragindex.errors import RagindexError
from ragindex.llm import openai_chat
from ragindex.llm.cache import SQLiteCache, export_calls
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.llm.tasks import Failure
from ragindex.plugins import registry

PLANTED = "sk-planted/0123456789+abcdef"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.setattr(openai_chat, "_memories", {})
    monkeypatch.setenv("OPENAI_API_KEY", PLANTED)
    with OpenAIServer(key=PLANTED) as running:
        yield running


ECHOED = f"the key {PLANTED}"
LEAKS = [
    status(400, ECHOED),
    status(400, ECHOED, code=PLANTED),
    status(401, ECHOED),
    status(404, ECHOED),
    status(429, f"{ECHOED}: you exceeded your current quota"),
    status(500, ECHOED),
    says(ECHOED),
    says(json.dumps({"error": {"message": ECHOED, "code": PLANTED}})),
    chat(content=ECHOED),
    chat(content=f"{'x' * 490}{ECHOED}"),
    chat(content=None, refusal=ECHOED),
    says(json.dumps({"error": {"message": ECHOED}}).replace("/", "\\/")),
    chat(content=json.dumps({"text": ECHOED}), finish_reason=PLANTED),
]


@pytest.mark.parametrize("leak", LEAKS)
def test_a_server_that_repeats_the_key(
    server: OpenAIServer, leak: openai_server.Fault, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.choose = lambda received, earlier: leak
    path = tmp_path / "calls.sqlite"
    language = opened(server, path, retries=1)
    shown = [repr(language), language.id, repr(vars(language)), repr(openai_chat._memories)]
    with caplog.at_level(logging.DEBUG), ledger.record_calls() as tally:
        try:
            shown.append(repr(language.run(ECHO, {"text": "one"})))
        except RagindexError as error:
            shown += [str(error), repr(error), "".join(traceback.format_exception(error)), _chain(error)]
        try:
            shown.append(repr(language.map(ECHO, [{"text": "two"}])))
        except RagindexError as error:
            shown.append("".join(traceback.format_exception(error)))
    export_calls(SQLiteCache(path), tmp_path / "calls.jsonl")
    del language
    files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert any(request.headers["authorization"] == f"Bearer {PLANTED}" for request in server.requests)
    assert not [text for text in [*shown, repr(tally.entries), repr(tally.stages), caplog.text] if PLANTED in text]
    assert not [file for file in files if PLANTED.encode() in file]
    assert not [text for text in shown if PLANTED[:12] in text]  # nor a piece of it, where a message is cut


def _chain(error: BaseException) -> str:
    """All that hangs on an error, requests with their headers among them."""
    shown, at = [], error
    while at is not None:
        shown.append(f"{at!r} {vars(at)!r} {getattr(getattr(at, 'request', None), 'headers', None)!r}")
        at = at.__cause__ or at.__context__  # type: ignore[assignment]
    return "\n".join(shown)


def test_nothing_of_a_plugin_shows_the_key(server: OpenAIServer, tmp_path: Path) -> None:
    plugin = OpenAICompatibleChat(model="small", base_url=server.url)
    language = opened(server, tmp_path / "calls.sqlite")
    assert language.run(ECHO, {"text": "one"}) == Echo(text="one")
    shown = [
        repr(plugin),
        plugin.model_dump_json(),
        json.dumps(registry.describe(plugin)),
        registry.plugin_fingerprint(plugin),
    ]
    shown += [repr(language), language.id, repr(language._calls), repr(language._chat)]
    assert not [text for text in shown if PLANTED in text]


def test_answers_are_not_changed_by_placeholders_for_keys(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.key = "none"
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert opened(server).map(ECHO, [{"text": "none"}]) == [Echo(text="none")]


def test_a_key_in_a_text_is_not_kept(server: OpenAIServer, tmp_path: Path) -> None:
    answers = opened(server, tmp_path / "calls.sqlite").map(ECHO, [{"text": PLANTED}])
    assert answers == [Echo(text="…")]
    assert not isinstance(answers[0], Failure)
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and PLANTED.encode() in file.read_bytes()]
