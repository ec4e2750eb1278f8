"""One input after another, of a server that misbehaves: requests, results, messages."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import openai_server
import pytest
from made_language import ECHO, PROMPT, Echo, opened, texts
from openai_server import KEY, OpenAIServer, chat, cut, drop, says, slow, status, usage
from pydantic import BaseModel, Field

from ragindex.accounting import ledger
from ragindex.accounting.ledger import Tally
from ragindex.errors import LLMError, ServiceError, UsageError
from ragindex.index.notes import describe_drafts
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.offline import Offline
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.llm.output import schema_text
from ragindex.llm.tasks import Failure, Task, retrying_failed
from ragindex.parts.triples.extractions import EXTRACT
from ragindex.plugins import registry
from ragindex.types import Usage
from ragindex_retrievers.gear.tasks import READ

TEXT = {"text": "one two"}


def run(server: OpenAIServer, task: Task[Echo] = ECHO, **given: Any) -> tuple[Echo, Tally]:
    with ledger.record_calls() as tally:
        return opened(server, **given).run(task, TEXT), tally


def bodies(server: OpenAIServer) -> list[Mapping[str, Any]]:
    return [request.body for request in server.requests]


# ---------------------------------------------------------------- what is asked


def test_what_is_sent(server: OpenAIServer) -> None:
    answer, tally = run(server, seed=7, extra={"top_p": 0.5}, reasoning_tokens=50)
    assert answer == Echo(text="one two")
    (body,) = bodies(server)
    schema = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    }
    assert body == {
        "model": "small",
        "messages": [
            {"role": "system", "content": "You are asked to repeat a text."},
            {"role": "user", "content": "one two"},
        ],
        "max_tokens": 150,
        "temperature": 0.0,
        "seed": 7,
        "top_p": 0.5,
        "response_format": {"type": "json_schema", "json_schema": {"name": "echo", "schema": schema, "strict": True}},
    }
    assert tally.stages == {"echo": Counter(strict=1)}


def test_repeats_have_seeds_of_their_own(server: OpenAIServer) -> None:
    language = opened(server, max_tokens=60)
    assert [language.run(ECHO, TEXT, repeat=repeat) for repeat in (0, 1)] == [Echo(text="one two")] * 2
    assert [(body["seed"], body["max_tokens"]) for body in bodies(server)] == [(0, 60), (1, 60)]


def test_id_names_what_answers_depend_on(server: OpenAIServer) -> None:
    first = opened(server).id
    assert first.startswith("openai-small-")
    assert opened(server, timeout=5, concurrency=3, retries=0).id == first
    others = [
        {"temperature": 1},
        {"seed": None},
        {"extra": {"a": 1}},
        {"max_tokens": 5},
        {"base_url": "http://127.0.0.1:1"},
        {"reasoning_effort": "low"},
        {"reasoning_effort": "high"},
    ]
    assert len({first, *(opened(server, **other).id for other in others)}) == 8
    assert opened(server, reasoning_effort=None).id == first


def test_settings_of_the_environment(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.delenv("OPENAI_API_KEY")
    plugin = OpenAICompatibleChat(model="small")
    with pytest.raises(UsageError, match="openai:small needs a key: set OPENAI_API_KEY, or OPENAI_API_KEY_FILE"):
        plugin.open().run(ECHO, TEXT)
    (tmp_path / "key").write_text(f"{KEY}\n")
    monkeypatch.setenv("OPENAI_API_KEY_FILE", str(tmp_path / "key"))
    assert plugin.open(LLMSettings(workspace=tmp_path / "workspace")).run(ECHO, TEXT) == Echo(text="one two")
    with pytest.raises(UsageError, match="must name a file outside the index"):
        plugin.open(LLMSettings(workspace=tmp_path)).run(ECHO, TEXT)
    monkeypatch.setenv("OPENAI_API_KEY_FILE", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        plugin.open().run(ECHO, TEXT)
    monkeypatch.setenv("OTHER_KEY", "two words")
    with pytest.raises(UsageError, match="OTHER_KEY must be one word") as caught:
        OpenAICompatibleChat(model="small", key_variable="OTHER_KEY").open().run(ECHO, TEXT)
    assert "two words" not in str(caught.value)
    monkeypatch.setenv("OPENAI_BASE_URL", "localhost:8000")
    with pytest.raises(UsageError, match="OPENAI_BASE_URL must begin with http"):
        plugin.open()


def test_a_password_in_the_address(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url.replace("127", "me:pass%20word@127"))
    language = opened(server, base_url=None, retries=0)
    with pytest.raises(ServiceError, match="rejects the API key") as caught:
        language.run(ECHO, TEXT)
    assert server.requests[0].headers["authorization"] == "Basic bWU6cGFzcyB3b3Jk"
    assert "pass" not in str(caught.value)


@pytest.mark.parametrize(
    "written",
    [
        "openai(model=small, extra={chat_template_kwargs: {enable_thinking: false}, stop: [END]})",
        'openai(model=small, extra={"chat_template_kwargs": {"enable_thinking": false}, "stop": ["END"]})',
    ],
)
def test_extra_parameters_are_written_as_a_mapping(
    server: OpenAIServer, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    plugin = registry.llm(written)
    assert registry.llm(registry.label(plugin)) == plugin
    plugin.open(LLMSettings()).run(ECHO, TEXT)
    (body,) = bodies(server)
    assert (body["chat_template_kwargs"], body["stop"]) == ({"enable_thinking": False}, ["END"])


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("extra=[enable_thinking, false]", r"must be a mapping, as \{key: value\}\. Got \['enable_thinking', False\]"),
        ("extra={seed: 1}", "without seed, which the framework sets"),
        ("extra={headers: {api_key: sk-0123456789abcdef0123}}", "must not contain a user, password, key or token"),
    ],
)
def test_other_extra_parameters_are_refused(written: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        registry.llm(f"openai(model=small, {written})")


# ---------------------------------------------------------------- what the server accepts


@pytest.mark.parametrize(
    ("refuses", "formats"),
    [
        ({"json_schema"}, ["json_schema", "json_object"]),
        ({"json_schema", "json_object"}, ["json_schema", "json_object", None]),
        ({"response_format"}, ["json_schema", "json_object", None]),
        ({"seed"}, ["json_schema", "json_schema"]),
        ({"temperature", "max_tokens", "seed"}, ["json_schema"] * 4),
    ],
)
def test_stepping_down_is_remembered(
    server: OpenAIServer, refuses: set[str], formats: list[str | None], caplog: pytest.LogCaptureFixture
) -> None:
    server.refuses, server.write = refuses, lambda body: '{"text": "x"}'
    answer, tally = run(server)
    assert answer == Echo(text="x")
    assert [body.get("response_format", {}).get("type") for body in bodies(server)] == formats
    opened(server).run(ECHO, {"text": "three"})
    assert len(server.requests) == len(formats) + 1
    last = bodies(server)[-1]
    assert not refuses & {*last, last.get("response_format", {}).get("type")}
    assert ("max_completion_tokens" in last) == ("max_tokens" in refuses)
    assert tally.calls == 1
    assert tally.stages == {"echo": Counter(strict=1)}
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith(f"openai:small at {server.url} is asked by ")
    assert all(name in warning for name in refuses & {"seed", "temperature", "max_tokens"})


def test_the_schema_is_told_where_it_cannot_be_enforced(server: OpenAIServer) -> None:
    server.refuses, server.write = {"json_schema"}, lambda body: '{"text": "x"}'
    assert run(server)[0] == Echo(text="x")
    content = bodies(server)[1]["messages"][-1]["content"]
    assert content.startswith("one two\n\nAnswer with one JSON object, and nothing else, that fits this JSON schema:\n")
    assert json.loads(content.rpartition("\n")[2])["required"] == ["text"]


def test_plain_text_is_read_by_the_task(server: OpenAIServer) -> None:
    server.refuses, server.write = {"response_format"}, lambda body: "Plainly: x"

    def read(text: str) -> Echo:
        head, _, tail = text.partition(": ")
        if head != "Plainly":
            raise ValueError("it does not begin with Plainly")
        return Echo(text=tail)

    task = Task("plain", 1, PROMPT, Echo, read=read)
    assert run(server, task)[0] == Echo(text="x")
    assert bodies(server)[-1]["messages"][-1]["content"] == "one two"
    server.write = lambda body: '{"text": "y"}' if len(body["messages"]) > 2 else "Well: x"
    answer, tally = run(server, task)
    assert answer == Echo(text="y")
    assert "it does not begin with Plainly" in bodies(server)[-1]["messages"][-1]["content"]
    assert tally.stages == {"plain": Counter({"malformed": 1, "asked again": 1, "strict": 1})}


def test_a_fixed_structure_is_not_given_up(server: OpenAIServer) -> None:
    server.refuses = {"json_object"}
    with pytest.raises(LLMError, match="rejects the input, status 400: Unsupported parameter: 'json_object'"):
        opened(server, structure="json").run(ECHO, TEXT)
    assert run(server, structure="text")[0] == Echo(text=bodies(server)[-1]["messages"][-1]["content"])
    assert [body.get("response_format") for body in bodies(server)] == [{"type": "json_object"}, None]


def test_a_system_role_that_is_refused(server: OpenAIServer) -> None:
    server.faults.append(status(400, "System role not supported"))
    assert run(server)[0] == Echo(text="You are asked to repeat a text.\n\none two")
    assert [message["role"] for message in bodies(server)[-1]["messages"]] == ["user"]


def test_one_schema_refused_is_not_all_schemas_refused(server: OpenAIServer) -> None:
    class Other(BaseModel):
        text: str
        kind: str = ""

    other = Task("other", 1, PROMPT, Other)
    language = opened(server)
    language.run(ECHO, TEXT)
    server.faults.append(status(400, "Invalid schema for response_format 'other'"))
    language.run(other, TEXT)
    language.run(other, {"text": "three"})
    language.run(ECHO, {"text": "three"})
    formats = [body["response_format"]["type"] for body in bodies(server)]
    assert formats == ["json_schema", "json_schema", "json_object", "json_object", "json_schema"]


def test_error_param_names_the_feature(server: OpenAIServer) -> None:
    """The message may contain the words of others: here a field of the schema."""
    error = {"message": "Invalid schema: 'temperature' is not permitted.", "param": "response_format", "code": None}
    server.faults.append(lambda _: openai_server.Answer(400, {"error": error}))
    run(server)
    assert [body["response_format"]["type"] for body in bodies(server)] == ["json_schema", "json_object"]
    assert ["temperature" in body for body in bodies(server)] == [True, True]


def test_an_input_too_long_says_nothing_about_the_structure(server: OpenAIServer) -> None:
    server.faults.append(status(400, "This model's maximum context length is 8 tokens."))
    language = opened(server)
    with pytest.raises(LLMError, match="rejects the input, status 400: .* maximum context") as caught:
        language.run(ECHO, TEXT)
    assert caught.value.kind == "rejected"
    language.run(ECHO, {"text": "x"})
    assert [body["response_format"]["type"] for body in bodies(server)] == ["json_schema"] * 2


# ---------------------------------------------------------------- problem that passes


@pytest.mark.parametrize(
    "fault",
    [status(429), status(500), drop, cut(30), says("<html>busy</html>"), says('{"choices": []}'),
     says('{"error": {"message": "overloaded", "code": 529}}')],
)  # fmt: skip
def test_sent_again(server: OpenAIServer, fault: openai_server.Fault) -> None:
    server.faults.extend([fault, fault])
    answer, tally = run(server)
    assert answer == Echo(text="one two")
    assert len(server.requests) == 3
    assert tally.calls == 1
    assert tally.stages == {"echo": Counter({"retried": 2, "strict": 1})}


def test_a_slow_answer_is_asked_for_again(server: OpenAIServer) -> None:
    server.faults.append(slow(2.0))
    assert run(server, timeout=1.0)[0] == Echo(text="one two")
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            status(500, "out of order"),
            "echo: openai:small at .* did not answer .attempts: 3.; status 500: out of order",
        ),
        (drop, "did not answer .attempts: 3.; .*disconnected"),
        (says("<html>"), "did not answer .attempts: 3.; expected JSON, got '<html>'"),
    ],
)
def test_tries_are_bounded(server: OpenAIServer, fault: openai_server.Fault, message: str) -> None:
    server.faults.extend([fault] * 3)
    with pytest.raises(LLMError, match=message) as caught:
        opened(server, retries=2).run(ECHO, TEXT)
    assert caught.value.kind == "unreachable"
    assert len(server.requests) == 3


# ---------------------------------------------------------------- problem that stays


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (status(401, f"wrong {KEY}"), "rejects the API key, status 401: wrong …. Check OPENAI_API_KEY"),
        (status(403), "rejects the API key, status 403"),
        (status(404, "no such model"), "has no such model or address, status 404: no such model. Check --llm"),
        (status(429, "You exceeded your current quota"), "needs a payment: the account has no credit"),
        (status(429, "later", retry_after="3600"), "asks to retry in 3600 seconds, status 429: later"),
    ],
)
def test_what_stops_everything(server: OpenAIServer, fault: openai_server.Fault, message: str) -> None:
    server.choose = lambda received, earlier: fault
    with pytest.raises(ServiceError, match=message) as caught:
        opened(server, concurrency=1).map(ECHO, texts(50))
    assert not isinstance(caught.value, LLMError)
    assert len(server.requests) <= 2


def test_an_unknown_path_stops_at_once_and_the_address_is_suggested(server: OpenAIServer) -> None:
    """LM Studio answers any path that it does not know with status 200."""
    server.choose = lambda received, earlier: says(
        '{"error": "Unexpected endpoint or method. (POST /chat/completions)"}'
    )
    bare = server.url.removesuffix("/v1")
    words = rf"Unexpected endpoint or method.* Check --llm and OPENAI_BASE_URL\. Is it {server.url}\?$"
    with pytest.raises(ServiceError, match=words):
        OpenAICompatibleChat(model="small", base_url=bare).open().run(ECHO, TEXT)
    assert len(server.requests) == 1
    with pytest.raises(ServiceError, match=r"Check --llm and OPENAI_BASE_URL\.$"):
        opened(server).run(ECHO, TEXT)


def test_a_dead_proxy_is_named(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    words = r"cannot be reached .* Check HTTP_PROXY, the proxy of this address, or exempt its host with NO_PROXY\.$"
    with pytest.raises(ServiceError, match=words):
        opened(server, retries=0).run(ECHO, TEXT)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert run(server)[0] == Echo(text="one two")


@pytest.mark.parametrize("variable", [True, False])
def test_azures_version_is_sent_with_each_request(
    server: OpenAIServer, variable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"{server.url}?api-version=2024-10-21"
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    client = OpenAICompatibleChat(model="small", base_url=None if variable else address).open()
    assert client.run(ECHO, TEXT) == Echo(text="one two")
    (request,) = server.requests
    assert request.path == "/v1/chat/completions?api-version=2024-10-21"
    assert request.headers["api-key"] == KEY
    assert client.id == opened(server).id  # the version of the protocol changes no answer


@pytest.mark.parametrize("query", ["?key=sk-1", "?api-version=1&deployment=a", "#part"])
def test_other_queries_are_refused(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"https://a.example/v1{query}")
    with pytest.raises(UsageError, match=r"without a query other than Azure's \?api-version=VERSION\. Set the key in"):
        OpenAICompatibleChat(model="small").open()
    with pytest.raises(UsageError, match="must not contain a user, password"):
        OpenAICompatibleChat(model="small", base_url=f"https://a.example/v1{query}")


def test_twenty_in_a_row_without_an_answer_stop_everything(server: OpenAIServer) -> None:
    server.choose = lambda received, earlier: status(500)
    with pytest.raises(ServiceError, match="20 inputs in a row failed; the last: echo: .*status 500"):
        opened(server, retries=0, concurrency=1).map(ECHO, texts(200))
    assert 20 <= len(server.requests) < 100  # how soon depends on the machine


def test_bad_inputs_end_no_run(server: OpenAIServer, tmp_path: Path) -> None:
    bad = {3: status(400, "too many tokens"), 8: chat(content="nothing"), 9: chat(refusal="no"), 15: status(500)}
    server.choose = lambda received, earlier: bad.get(int(received.body["messages"][1]["content"].split()[1]))
    path, expected = tmp_path / "calls.sqlite", [Echo(**each) for each in texts(20)]
    answers = opened(server, path, retries=1).map(ECHO, texts(20))
    kinds = {at: answer.kind for at, answer in enumerate(answers) if isinstance(answer, Failure)}
    assert kinds == {3: "rejected", 8: "malformed", 9: "refusal", 15: "unreachable"}
    assert [answer for at, answer in enumerate(answers) if at not in bad] == [
        answer for at, answer in enumerate(expected) if at not in bad
    ]
    bad.clear()
    request_count = len(server.requests)
    (aside,) = (
        at for at, answer in enumerate(opened(server, path).map(ECHO, texts(20), again=True)) if answer != expected[at]
    )
    assert aside == 8  # it has two charged answers, the refusal has one
    assert len(server.requests) == request_count + 3
    with retrying_failed():
        assert opened(server, path).map(ECHO, texts(20), again=True) == expected
    assert len(server.requests) == request_count + 4


def test_no_server(server: OpenAIServer) -> None:
    with pytest.raises(
        ServiceError, match=r"small at http://127\.0\.0\.1:1/v1 cannot be reached \(attempts: 1\); "
    ) as caught:
        opened(server, base_url="http://127.0.0.1:1/v1", retries=0).run(ECHO, TEXT)
    assert not isinstance(caught.value, LLMError)


# ---------------------------------------------------------------- answers that cannot be used


@pytest.mark.parametrize(
    ("fault", "stage", "note"),
    [
        (chat(content='{"txt": 1}'), "malformed", "expected the keys text; got txt"),
        (chat(content='{"text": '), "malformed", "Expecting value"),
        (chat(content=None), "empty", "it is empty"),
        (chat(content=" \n"), "empty", "it is empty"),
    ],
)
def test_the_model_is_shown_its_error_once(
    server: OpenAIServer, fault: openai_server.Fault, stage: str, note: str
) -> None:
    server.faults.append(fault)
    server.write = lambda body: '{"text": "x"}'
    answer, tally = run(server)
    assert answer == Echo(text="x")
    messages = bodies(server)[1]["messages"]
    assert note in messages[-1]["content"]
    assert '"required":["text"]' in messages[-1]["content"]
    assert [message["role"] for message in messages][-3:] == (
        ["user", "assistant", "user"] if stage == "malformed" else ["system", "user"][-3:]
    )
    assert tally.stages == {"echo": Counter({stage: 1, "asked again": 1, "strict": 1})}
    assert tally.calls == 2
    server.faults.extend([fault, fault])
    with pytest.raises(LLMError, match=f"echo: small gave no usable answer: {note}") as caught:
        run(server)
    assert caught.value.kind == stage


def test_tolerant_reading_needs_no_second_question(server: OpenAIServer) -> None:
    parts = chat(content=[{"type": "text", "text": '{"text":'}, {"type": "text", "text": ' "x"}'}])
    server.faults.extend(
        [chat(content='Sure! {"text": "x"}'), chat(content='{"text": "x",}'), chat(content='{"text": 3}'), parts]
    )
    stages = [run(server)[1].stages["echo"] for _ in range(4)]
    assert stages == [Counter(found=1), Counter(repaired=1), Counter(reshaped=1), Counter(strict=1)]


def test_a_refusal_is_not_asked_twice(server: OpenAIServer) -> None:
    server.faults.extend([chat(content=None, refusal="I will not."), chat(content="", finish_reason="content_filter")])
    for reason in ("it refuses: I will not.", "it refuses: its content filter stopped it"):
        with pytest.raises(LLMError, match=reason) as caught:
            run(server)
        assert caught.value.kind == "refusal"
    assert len(server.requests) == 2
    server.faults.append(status(400, "The response was filtered", code="content_filter"))
    with pytest.raises(LLMError, match="rejects the input, status 400: The response was filtered"):
        run(server, structure="json")


def test_a_cut_answer_gets_twice_the_room(server: OpenAIServer) -> None:
    cut_off = chat(content='{"text": "one tw', finish_reason="length")
    server.faults.append(cut_off)
    answer, tally = run(server)
    assert answer == Echo(text="one two")
    assert [body["max_tokens"] for body in bodies(server)] == [100, 200]
    assert tally.stages == {"echo": Counter({"truncated": 1, "asked again": 1, "strict": 1})}
    server.faults.extend([cut_off, chat(content="", finish_reason="length")])
    with pytest.raises(LLMError, match="it was cut off after 3 tokens; more max_tokens") as caught:
        run(server)
    assert caught.value.kind == "truncated"
    server.faults.append(chat(finish_reason="length"))  # just whole
    assert run(server)[1].stages == {"echo": Counter(strict=1)}


@pytest.mark.parametrize("finish", ["length", "MAX_TOKENS", "max_output_tokens"])
def test_half_a_list_is_never_a_whole_one(server: OpenAIServer, finish: str) -> None:
    half = '{"entities": ["Sarn"], "triples": [["Sarn", "ends in", "Grey Sea"], ["Sarn", "spans'
    complete = json.dumps(
        {"entities": ["Sarn"], "triples": [["Sarn", "ends in", "Grey Sea"], ["Sarn", "is", "a river"]]}
    )
    server.write = lambda body: complete
    inputs = {"title": "Sarn", "text": "The Sarn ends in the Grey Sea.", "numbers_as_entities": False}
    server.faults.append(chat(content=half, finish_reason=finish))
    server.faults.append(chat(content=half))  # asked with a higher limit, and cut again by a server that says `stop`
    with pytest.raises(LLMError, match="extract: small gave no usable answer: it ends within a list") as caught:
        opened(server).run(EXTRACT, inputs)
    assert caught.value.kind == "truncated"
    assert opened(server).run(EXTRACT, inputs).triples == json.loads(complete)["triples"]


def test_an_answer_that_fills_its_room_is_cut_whatever_the_server_says(server: OpenAIServer) -> None:
    filled = {"prompt_tokens": 9, "completion_tokens": 100}
    spoilt = chat(content='Sure: {"text": "one"}')
    server.faults.append(lambda answer: usage(filled)(spoilt(answer)))
    answer, tally = run(server)
    assert answer == Echo(text="one two")
    assert tally.stages == {"echo": Counter({"truncated": 1, "asked again": 1, "strict": 1})}
    assert [body["max_tokens"] for body in bodies(server)] == [100, 200]


# ---------------------------------------------------------------- models that reason


def test_a_reasoning_model(server: OpenAIServer, caplog: pytest.LogCaptureFixture) -> None:
    server.refuses = {"max_tokens", "temperature"}
    given = {"reasoning_effort": "low", "reasoning_tokens": 500}
    assert run(server, **given)[0] == Echo(text="one two")
    assert len(server.requests) == 3
    last = bodies(server)[-1]
    assert (last["max_completion_tokens"], last["reasoning_effort"]) == (600, "low")
    assert not {"max_tokens", "temperature"} & last.keys()
    run(server, **given)
    assert len(server.requests) == 4
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("thoughts", "limit"),
    [
        (chat(content="", finish_reason="length"), 200 + 4096),
        (chat(content="<think>Let me see", finish_reason="length"), 200 + 4096),
        (chat(content='<think>Well.</think>{"text": "o', finish_reason="length"), 200),
    ],
)
def test_more_room_where_thoughts_took_all_of_it(
    server: OpenAIServer, thoughts: openai_server.Fault, limit: int
) -> None:
    server.faults.append(thoughts)
    assert run(server)[0] == Echo(text="one two")
    assert [body["max_tokens"] for body in bodies(server)] == [100, limit]


def test_thoughts_beside_the_answer_and_before_it(server: OpenAIServer) -> None:
    server.faults.extend(
        [
            chat(reasoning_content="I think {so}.", content='{"text": "x"}'),
            chat(content='I think {so}.</think>\n{"text": "x"}'),
        ]
    )
    server.faults.append(
        chat(content=[{"type": "reasoning", "text": "I think {so}."}, {"type": "text", "text": '{"text": "x"}'}])
    )
    answered = [run(server) for _ in range(3)]
    assert [answer for answer, _ in answered] == [Echo(text="x")] * 3
    assert [tally.stages["echo"] for _, tally in answered] == [
        {"strict": 1},
        {"found": 1, "thoughts left out": 1},
        {"strict": 1},
    ]
    server.refuses = {"response_format"}
    plain = Task("plain", 1, PROMPT, Echo, read=lambda text: Echo(text=text.strip()))
    server.write = lambda body: "<think>Which one?</think>\nthe second"
    assert run(server, plain)[0] == Echo(text="the second")


def test_thoughts_alone_are_no_answer(server: OpenAIServer) -> None:
    """Servers with a wrong reasoning parser put everything there; the model is asked again."""
    beside = chat(reasoning_content='{"text": "x"}', content=None)
    within = chat(content='{"reasoning_content": {"text": "x"}}')
    for thought in (beside, within):
        server.faults.extend([thought, chat(content='{"text": "y"}')])
        assert run(server)[0] == Echo(text="y")
    assert len(server.requests) == 4


def test_drafts_are_counted_and_only_the_last_answer_counts(server: OpenAIServer) -> None:
    server.faults.append(chat(content='{"text": "x"} or {"text": "y"}, better:\n```json\n{"text": "z"}\n```'))
    answer, tally = run(server)
    assert (answer, tally.stages["echo"]) == (Echo(text="z"), {"found": 1, "draft left out": 2})
    assert describe_drafts(tally) == ["echo: left out of the LLM's answers: 2 drafts"]


# ---------------------------------------------------------------- schemas that are refused or ignored


def test_lengths_of_lists_are_sent_and_left_out_where_they_are_refused(server: OpenAIServer) -> None:
    server.write = lambda body: '{"triples": [["a", "b", "c"]]}'
    server.faults.append(status(400, "Invalid schema for response_format 'x': 'minItems' is not permitted"))
    inputs = {"question": "?", "passages": [], "memory": [], "language": "english"}
    opened(server).run(READ, inputs)
    first, second = (body["response_format"]["json_schema"] for body in bodies(server))
    assert first["schema"]["properties"]["triples"]["items"] == {
        **{"type": "array", "items": {"type": "string"}},
        **{"minItems": 3, "maxItems": 3},
    }
    assert second["schema"]["properties"]["triples"]["items"] == {"type": "array", "items": {"type": "string"}}
    assert first["strict"] is second["strict"] is True


def test_a_tuple_has_its_length_and_a_list_has_none() -> None:
    class Pairs(BaseModel):
        pairs: list[tuple[str, int]]
        few: Annotated[list[str], Field(max_length=5)]

    properties = json.loads(schema_text(Pairs))["properties"]
    assert properties["pairs"]["items"] == {
        **{"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
        **{"minItems": 2, "maxItems": 2},
    }
    assert properties["few"] == {"type": "array", "items": {"type": "string"}}


def test_a_server_that_ignores_schemas_is_told_them(server: OpenAIServer, caplog: pytest.LogCaptureFixture) -> None:
    def has_schema(body: Mapping[str, Any]) -> bool:
        return "fits this JSON schema" in body["messages"][-1]["content"]

    server.write = lambda body: '{"text": "x"}' if has_schema(body) else '{"reply": "x"}'
    answers = [run(server)[0] for _ in range(5)]
    assert answers == [Echo(text="x")] * 5
    assert [has_schema(body) for body in bodies(server)] == [False, True] * 3 + [
        True,
        True,
    ]  # three repeats, and no more
    assert [record.getMessage() for record in caplog.records] == [
        f"openai:small at {server.url} accepts JSON schemas and ignores them: the prompt has them from now on"
    ]


# ---------------------------------------------------------------- servers of one's own, as their documentation has it


def in_the_words_of(choice: Mapping[str, Any], message: Mapping[str, Any], **body: Any) -> openai_server.Fault:
    """The right answer with the fields that a server adds or changes."""

    def spoil(answer: openai_server.Answer) -> openai_server.Answer:
        assert isinstance(answer.body, Mapping)
        (right,) = answer.body["choices"]
        reply = {**right, **choice, "message": {**right["message"], **message}}
        return openai_server.Answer(200, {**answer.body, "choices": [reply], **body})

    return spoil


@pytest.mark.parametrize(
    ("reply", "counted"),
    [
        pytest.param(
            in_the_words_of(
                *({}, {}),
                **{"id": "chatcmpl-1", "created": 1, "system_fingerprint": "fp_ollama"},
                usage={"prompt_tokens": 0, "completion_tokens": 3, "total_tokens": 3},
            ),
            (21, 3),  # the prompt's tokens are estimated
            id="ollama",
        ),
        pytest.param(
            in_the_words_of(
                {"logprobs": None, "stop_reason": None},
                {"reasoning_content": "Repeat it.", "tool_calls": []},
                prompt_logprobs=None,
            ),
            (9, 3),
            id="vllm",
        ),
    ],
)
def test_replies_of_servers_of_ones_own(
    server: OpenAIServer, reply: openai_server.Fault, counted: tuple[int, int]
) -> None:
    server.faults.append(reply)
    answer, tally = run(server)
    assert answer == Echo(text="one two")
    (entry,) = tally.entries
    assert (entry.input_tokens, entry.output_tokens) == counted
    assert entry.estimated == (counted[0] == 21)


def test_lm_studio_refuses_json_mode_and_takes_schemas(server: OpenAIServer) -> None:
    words = "'response_format.type' must be 'json_schema' or 'text'"
    refusal = openai_server.Answer(400, {"error": words})

    def choose(received: openai_server.Received, earlier: int) -> openai_server.Fault | None:
        kind = received.body.get("response_format", {}).get("type")
        return (lambda _: refusal) if kind == "json_object" else None

    server.choose = choose
    assert run(server)[0] == Echo(text="one two")
    with pytest.raises(LLMError, match="rejects the input, status 400: .*must be 'json_schema' or 'text'"):
        run(server, structure="json")


# ---------------------------------------------------------------- what it cost


def test_tokens_as_the_server_counts_them(server: OpenAIServer) -> None:
    details = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 40}}
    server.faults.append(usage(details))
    _, tally = run(server)
    (entry,) = tally.entries
    assert (entry.input_tokens, entry.cached_tokens, entry.output_tokens, entry.estimated) == (100, 40, 7, False)
    assert entry.money == pytest.approx(0.06 * 1 + 0.04 * 0.5 + 0.007 * 3, abs=1e-12) != 0
    assert tally.first == tally.spent == Usage(entry.seconds, 100, 7, entry.money)


@pytest.mark.parametrize(
    "counts",
    [None, {}, [], {"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": -3, "completion_tokens": "7"},
     {"prompt_tokens": None, "completion_tokens": 2.5}, {"prompt_tokens": True, "completion_tokens": None}],
)  # fmt: skip
def test_missing_and_impossible_counts_are_estimated(server: OpenAIServer, counts: Any) -> None:
    server.faults.append(usage(counts))
    (entry,) = run(server)[1].entries
    assert entry.input_tokens == 8 + 2 + 2 * 4 + 3  # a quarter of 31 and 7 characters, and the frame of two messages
    assert (entry.output_tokens, entry.estimated) == (5, True)


def test_a_model_without_a_price_has_no_money(server: OpenAIServer) -> None:
    with ledger.record_calls() as tally:
        opened(server, model="unheard-of").run(ECHO, TEXT)
    assert tally.entries[0].money is None
    assert tally.unpriced == {"unheard-of"}
    assert tally.spent.money is None


# ---------------------------------------------------------------- rules


def test_rules_do_the_task_without_a_model() -> None:
    language = Offline().open()
    with ledger.attribute_calls("index", "gear"), ledger.record_calls() as tally:
        answers = language.map(ECHO, [{"text": "a"}, {"text": "b"}])
    assert answers == [Echo(text="a"), Echo(text="b")]
    assert (language.id, tally.calls, tally.rules, tally.spent.money) == ("offline rules", 0, 2, 0.0)
    assert [(entry.phase, entry.method, entry.task, entry.item) for entry in tally.entries] == [
        ("index", "gear", "echo", 0),
        ("index", "gear", "echo", 1),
    ]
    assert tally.stages == {"echo": Counter(rule=2)}
    with pytest.raises(UsageError, match="ruleless needs an LLM; .* --llm openai:MODEL .* OPENAI_API_KEY"):
        language.run(Task("ruleless", 1, PROMPT, Echo), {"text": "a"})


def test_a_rule_that_finds_nothing_is_a_failure() -> None:
    def never(inputs: Mapping[str, Any]) -> Echo:
        raise LLMError(f"nothing in {inputs['text']}", "empty")

    failing = Task("failing", 1, PROMPT, Echo, rule=never)
    assert Offline().open().map(failing, [TEXT]) == [Failure("failing", "nothing in one two", "empty")]
