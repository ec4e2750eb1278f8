"""Answers of a model over HTTP, and what they may cost: the model is a real HTTP server that counts what it is sent."""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from made_language import answering
from openai_server import KEY, OpenAIServer, slow, status
from served import DOCUMENTS, RunningServer, serving, wait_until

import ragindex
from ragindex.errors import UsageError
from ragindex.serve.keys import load_keyring

CAPPED, FREE = "capped-0123456789abcdef", "free-0123456789abcdef"
CAP = 3.0
QUESTION = "When was the lighthouse of Lindau built?"
READ, WRITTEN = 1e-3, 3e-3  # dollars a token
KEYS = """
[[keys]]
name = "capped"
rights = ["read"]
variable = "CAPPED_SECRET"
budget = 3.0

[[keys]]
name = "free"
rights = ["read"]
variable = "FREE_SECRET"
"""


def cite_first(body: Mapping[str, Any]) -> str:
    return json.dumps({"answer": "1856", "passages": [1], "found": True})


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenAIServer]:
    prices = tmp_path / "prices.yaml"
    prices.write_text("models:\n  small: {input: 1000.0, output: 3000.0}\n")
    monkeypatch.setenv("RAGINDEX_PRICES", str(prices))
    monkeypatch.setenv("CAPPED_SECRET", CAPPED)
    monkeypatch.setenv("FREE_SECRET", FREE)
    with answering(monkeypatch, cite_first) as running:
        yield running


def build(folder: Path, model: OpenAIServer, methods: tuple[str, ...] = ("bm25",), name: str = "small") -> Path:
    llm = {"name": "openai", "params": {"model": name, "base_url": model.url}}
    with ragindex.open(folder, encoder="lsa", llm=llm, create=True) as index:
        index.add(DOCUMENTS, source="served")
        index.build(*methods)
    return folder


@pytest.fixture
def server(model: OpenAIServer, tmp_path: Path) -> Iterator[RunningServer]:
    (tmp_path / "keys.toml").write_text(KEYS)
    folder = build(tmp_path / "docs", model)
    with serving(f"docs={folder}", keys=load_keyring(tmp_path / "keys.toml", ["docs"])) as running:
        yield running


def ask(server: RunningServer, key: str, query: str, **more: Any) -> tuple[int, dict[str, Any]]:
    with server.client(key) as client:
        response = client.post("/ask", json={"query": query, **more})
    return response.status_code, response.json()


def question(number: int) -> str:
    return f"{QUESTION} Variant {number}."


def billed(model: OpenAIServer) -> float:
    """What the model's side would bill: every answer that it has sent."""
    read = sum(model.count(message["content"]) for request in model.requests for message in request.body["messages"])
    written = sum(model.count(cite_first(request.body)) for request in model.requests)
    return READ * read + WRITTEN * written


def counted(server: RunningServer, key: str) -> float:
    """The dollars of a key in the metrics."""
    value = server.service.metrics.registry.get_sample_value("ragindex_paid_dollars_total", {"key": key})
    return value or 0.0


def events(server: RunningServer, query: str, key: str) -> list[tuple[str, Any]]:
    """The server-sent events of an answer."""
    body = {"query": query, "stream": True}
    with server.client(key) as client, client.stream("POST", "/ask", json=body) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in response.iter_lines() if line]
    named = [line.removeprefix("event: ") for line in lines if line.startswith("event:")]
    values = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data:")]
    return list(zip(named, values, strict=True))


def test_an_answer_cites_the_passages_that_the_model_names(server: RunningServer, model: OpenAIServer) -> None:
    code, answer = ask(server, FREE, QUESTION)
    assert (code, answer["answer"], answer["found"], answer["rules"]) == (200, "1856", True, False)
    (citation,) = answer["citations"]
    assert (citation["number"], citation["doc_ids"]) == (1, ["lindau"])
    assert citation["text"].startswith("The lighthouse of Lindau was built in 1856.")
    assert citation["positions"] == [{"doc_id": "lindau", "start": 0, "end": 79, "page": None, "headings": []}]
    (request,) = model.requests
    shown = request.body["messages"][-1]["content"]
    assert "The lighthouse of Lindau was built in 1856." in shown
    assert QUESTION in shown
    assert (answer["llm"], answer["money"]) == (
        f"openai(model=small, base_url={model.url})",
        pytest.approx(billed(model)),
    )
    assert counted(server, "free") == pytest.approx(billed(model))


def test_numbers_of_no_passage_are_not_cited(server: RunningServer, model: OpenAIServer) -> None:
    model.write = lambda body: json.dumps({"answer": "1856", "passages": [1, 99, -1], "found": True})
    _, answer = ask(server, FREE, QUESTION)
    assert [citation["number"] for citation in answer["citations"]] == [1]


def test_the_context_of_the_model_fits_the_tokens_that_were_asked_for(
    server: RunningServer, model: OpenAIServer
) -> None:
    _, answer = ask(server, FREE, "lighthouse Lindau", max_tokens=30)
    assert answer["context_tokens"] <= 30
    assert "Lindau was built" in model.requests[0].body["messages"][-1]["content"]
    assert "secret map" not in model.requests[0].body["messages"][-1]["content"]


def test_a_streamed_answer_is_that_of_a_whole_one(server: RunningServer, model: OpenAIServer) -> None:
    stream = events(server, QUESTION, FREE)
    assert [name for name, _ in stream] == ["hits", "answer", "done"]
    assert stream[0][1]["hits"][0]["doc_ids"] == ["lindau"]
    paid = stream[1][1]["money"]
    assert paid == pytest.approx(billed(model))
    _, complete = ask(server, FREE, QUESTION)  # the same call, from the cache of the index
    assert model.sent == 1
    free = {"input_tokens": 0, "output_tokens": 0, "money": 0.0}
    assert complete == stream[1][1] | free
    assert counted(server, "free") == pytest.approx(paid)


def test_a_broken_model_is_told_as_busy_and_in_a_stream_as_an_event(server: RunningServer, model: OpenAIServer) -> None:
    model.choose = lambda received, earlier: status(401, "your key sk-other is wrong")
    code, refused = ask(server, FREE, QUESTION)
    assert (code, refused["error"]["code"]) == (503, "service")
    (_, hits), (name, stream) = events(server, QUESTION, FREE)
    assert hits["hits"][0]["doc_ids"] == ["lindau"]
    assert (name, stream["error"]["code"]) == ("error", "service")
    assert KEY not in json.dumps([refused, stream])
    assert "sk-other" not in json.dumps([refused, stream])


def use_up(server: RunningServer) -> int:
    """Ask until the cap refuses; return how many questions were answered."""
    for number in range(100):
        code, answer = ask(server, CAPPED, question(number))
        if code != 200:
            assert (code, answer["error"]["code"]) == (402, "spend_cap")
            return number
    raise AssertionError("the cap was not reached")


def test_the_cap_of_a_key_refuses_what_could_cost_more(server: RunningServer, model: OpenAIServer) -> None:
    answered = use_up(server)
    assert answered > 3
    assert model.sent == len(model.requests) == answered
    assert billed(model) <= CAP
    assert counted(server, "capped") == pytest.approx(billed(model))
    spent = billed(model)
    for number in range(answered, answered + 5):
        assert ask(server, CAPPED, question(number))[0] == 402
    stream = events(server, question(answered), CAPPED)
    assert [(name, value.get("error", {}).get("code")) for name, value in stream] == [
        ("hits", None),
        ("error", "spend_cap"),
    ]
    assert billed(model) == spent  # nothing was sent
    assert ask(server, CAPPED, question(0))[1]["money"] == 0.0  # what was paid for before costs nothing
    with server.client(CAPPED) as client:
        assert client.post("/search", json={"query": QUESTION}).status_code == 200  # bm25 costs nothing
    assert ask(server, FREE, question(answered))[0] == 200  # another key's requests are not the capped one's
    assert counted(server, "capped") == pytest.approx(spent)


def test_requests_at_once_cannot_overrun_the_cap(server: RunningServer, model: OpenAIServer) -> None:
    model.choose = lambda received, earlier: slow(0.05)
    with ThreadPoolExecutor(24) as pool:
        codes = list(pool.map(lambda number: ask(server, CAPPED, question(number))[0], range(24)))
    assert set(codes) == {200, 402}
    assert model.most_in_flight > 1
    assert codes.count(200) == model.sent == len(model.requests)
    assert billed(model) <= CAP
    assert billed(model) > CAP / 2  # requests that wait for the money of others get it
    assert counted(server, "capped") == pytest.approx(billed(model))


def test_the_cap_holds_after_the_server_has_moved_on(server: RunningServer, model: OpenAIServer) -> None:
    answered = use_up(server)
    before = server.service.collections["docs"].state
    with ragindex.open(server.service.collections["docs"].spec.folder) as index:
        index.add([ragindex.Document("new", "New", "A kangaroo.")], source="other")
        index.build()
    wait_until(lambda: server.service.collections["docs"].state is not before)
    assert ask(server, CAPPED, question(answered))[0] == 402
    assert model.sent == answered


def test_a_failed_request_is_charged_for_what_it_has_paid(server: RunningServer, model: OpenAIServer) -> None:
    model.write = lambda body: "no JSON, twice"
    code, _ = ask(server, CAPPED, QUESTION)
    assert code == 503
    assert model.sent == 2
    assert counted(server, "capped") > 0
    budget = server.service.settings.keys.keys[0].budget
    assert counted(server, "capped") == pytest.approx(budget.spent)


@pytest.mark.parametrize("path", ["/search", "/v1/vector_stores/docs/search", "/ask"])
def test_a_method_that_asks_a_model_is_charged_on_each_face(path: str, model: OpenAIServer, tmp_path: Path) -> None:
    folder = build(tmp_path / "docs", model, ("ircot",))
    model.write = lambda body: json.dumps({"thought": "The lighthouse was built in 1856.", "answer": "1856"})
    (tmp_path / "keys.toml").write_text(KEYS.replace("3.0", "0.0001"))
    keys = load_keyring(tmp_path / "keys.toml", ["docs"])
    with serving(f"docs={folder}", methods=("ircot",), keys=keys) as running:
        with running.client(CAPPED) as client:
            refused = client.post(path, json={"query": QUESTION})
        assert (refused.status_code, refused.json()["error"]["code"]) == (402, "spend_cap")
        assert model.requests == []
        with running.client(FREE) as client:
            client.post(path, json={"query": QUESTION})
        assert counted(running, "free") > 0


def test_a_cap_needs_the_price_of_the_model(model: OpenAIServer, tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text(KEYS)
    folder = build(tmp_path / "docs", model, name="unlisted")
    with (
        pytest.raises(UsageError, match="A budget needs the price of unlisted"),
        serving(f"docs={folder}", keys=load_keyring(tmp_path / "keys.toml", ["docs"])),
    ):
        raise AssertionError("the server has started")


def test_the_caps_of_two_keys_are_apart(model: OpenAIServer, tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text(f"{KEYS}budget = 6.0\n")
    folder = build(tmp_path / "docs", model)
    with serving(f"docs={folder}", keys=load_keyring(tmp_path / "keys.toml", ["docs"])) as running:
        answered = use_up(running)
        first = billed(model)
        assert ask(running, FREE, question(answered))[0] == 200
        assert counted(running, "free") == pytest.approx(billed(model) - first)
