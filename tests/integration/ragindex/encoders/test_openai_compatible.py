"""The client of OpenAI-compatible endpoints against a server that misbehaves."""

import logging
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import openai_server
import pytest
from openai_server import KEY, NATIVE, OpenAIServer, data, drop, embed, embedding, says, slow, status, usage

from ragindex.accounting import ledger
from ragindex.encoders import openai_compatible
from ragindex.encoders.openai_compatible import OpenAICompatible, OpenAIEncoder
from ragindex.encoders.vector_cache import CachedEncoder
from ragindex.errors import BudgetError, RequestError, ServiceError, UsageError
from ragindex.interfaces import EncodingFailure, TokenEncoder
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.budget import Budget
from ragindex.llm.rate_limits import Clock
from ragindex.plugins import registry

TEXTS = ["one red fish", "two", "the blue fish swims"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        for name in ("EMBEDDING_BASE_URL", "EMBEDDING_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("EMBEDDING_BASE_URL", running.url)
        monkeypatch.setenv("EMBEDDING_API_KEY", KEY)
        yield running


def _opened_with_waits(**params: object) -> tuple[OpenAIEncoder, list[float]]:
    """The encoder, and the seconds that it would have waited between requests."""
    waits = list[float]()
    plugin = OpenAICompatible.model_validate({"model": "small", **params})
    return plugin.open(LLMSettings(clock=Clock(sleep=waits.append))), waits


def _opened(**params: object) -> OpenAIEncoder:
    return _opened_with_waits(**params)[0]


def _expected(texts: list[str], dimensions: int = NATIVE) -> np.ndarray:
    vectors = np.array([embed(text, dimensions) for text in texts])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


# ---------------------------------------------------------------- what is asked and answered


def test_vectors_in_order_over_batches(server: OpenAIServer) -> None:
    encoder = _opened(batch_size=2)
    np.testing.assert_allclose(encoder.encode_documents(TEXTS), _expected(TEXTS), atol=1e-7)
    assert [request.body["input"] for request in server.requests] == [TEXTS[:2], TEXTS[2:]]
    assert {request.body["model"] for request in server.requests} == {"small"}
    assert all("dimensions" not in request.body for request in server.requests)
    server.faults.append(data(lambda items: items[::-1]))  # each has its index
    np.testing.assert_allclose(_opened().encode_documents(TEXTS), _expected(TEXTS), atol=1e-7)


def test_dimensions_are_learnt_or_asked_for(server: OpenAIServer) -> None:
    assert _opened().dimensions == NATIVE
    assert len(server.requests) == 1
    shortened = _opened(dimensions=16)
    assert shortened.dimensions == 16
    assert len(server.requests) == 1
    np.testing.assert_allclose(shortened.encode_queries(TEXTS), _expected(TEXTS, 16), atol=1e-7)
    assert server.requests[-1].body["dimensions"] == 16


def test_blank_texts_are_not_sent(server: OpenAIServer) -> None:
    vectors = _opened().encode_documents(["", "one", " \n"])
    np.testing.assert_allclose(vectors, [np.zeros(NATIVE), _expected(["one"])[0], np.zeros(NATIVE)], atol=1e-7)
    assert [request.body["input"] for request in server.requests] == [["one"]]


# ---------------------------------------------------------------- prefixes


def test_prefixes_stand_before_questions_and_documents(server: OpenAIServer) -> None:
    encoder = _opened(query_prefix="search_query: ", document_prefix="search_document: ")
    encoder.encode_documents(["one", " ", "two"])
    assert next(encoder.encode_by_request(["three"])).shape == (1, NATIVE)
    encoder.encode_queries(["four", ""])
    assert [request.body["input"] for request in server.requests] == [
        ["search_document: one", "search_document: two"],
        ["search_document: three"],
        ["search_query: four"],
    ]


def test_prefixes_are_part_of_the_id(server: OpenAIServer) -> None:
    given = [{}, {"query_prefix": "a"}, {"document_prefix": "a"}, {"query_prefix": "a", "document_prefix": "a"}]
    assert len({_opened(**params).id for params in given}) == len(given)
    assert _opened(query_prefix="", document_prefix="").id == _opened().id  # and of indexes from before


def test_a_long_text_keeps_its_prefix_when_it_is_cut(server: OpenAIServer) -> None:
    server.longest = 200
    _opened(document_prefix="passage: ").encode_documents(["x" * 1000])
    assert all(text.startswith("passage: ") for request in server.requests for text in request.body["input"])


def test_the_prefix_takes_room_from_the_longest_text(server: OpenAIServer) -> None:
    assert _opened(model="text-embedding-3-small").max_tokens == 8192
    prefixed = _opened(model="text-embedding-3-small", document_prefix="passage: ").max_tokens
    assert prefixed is not None
    assert 8180 < prefixed < 8192


@pytest.mark.parametrize(
    ("model", "advised"),
    [
        (
            "nomic-embed-text:v1.5",
            'model="nomic-embed-text:v1.5", query_prefix="search_query: ", document_prefix="search_document: "',
        ),
        ("text-embedding-nomic-embed-text-v1.5", 'query_prefix="search_query: ", document_prefix="search_document: "'),
        ("intfloat/multilingual-e5-large", 'query_prefix="query: ", document_prefix="passage: "'),
        ("E5-base-v2", 'query_prefix="query: ", document_prefix="passage: "'),
        ("BAAI/bge-large-en-v1.5", 'query_prefix="Represent this sentence for searching relevant passages: ")'),
        ("mxbai-embed-large", 'query_prefix="Represent this sentence for searching relevant passages: ")'),
        *(
            (model, "")
            for model in ("bge-m3", "bge-large-zh-v1.5", "multilingual-e5-large-instruct", "ace5-base", "small")
        ),
    ],
)
def test_known_prefixes_are_named_once_and_never_applied(
    server: OpenAIServer, model: str, advised: str, caplog: pytest.LogCaptureFixture
) -> None:
    openai_compatible._advised.clear()
    for _ in range(2):
        _opened(model=model).encode_documents(["one"])
    _opened(model=model).encode_queries(["two"])
    assert [request.body["input"] for request in server.requests] == [["one"], ["one"], ["two"]]
    assert [advised in record.getMessage() for record in caplog.records] == [True] * bool(advised)


@pytest.mark.parametrize("given", [{"query_prefix": ""}, {"document_prefix": "passage: "}])
def test_a_prefix_that_is_given_needs_no_advice(
    server: OpenAIServer, given: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    openai_compatible._advised.clear()
    _opened(model="nomic-embed-text", **given).encode_documents(["one"])
    assert caplog.records == []


# ---------------------------------------------------------------- what is booked


def test_what_the_service_counted_is_booked_once_a_request(server: OpenAIServer) -> None:
    encoder = _opened(batch_size=2, price=2.0)
    assert not isinstance(encoder, TokenEncoder)
    with ledger.record_calls() as tally:
        encoder.encode_documents(TEXTS)
    assert [(entry.task, entry.input_tokens, entry.estimated) for entry in tally.entries] == [
        ("embedding", 4, False),
        ("embedding", 4, False),
    ]
    assert tally.spent.money == pytest.approx(8 * 2.0 / 1e6)


def test_the_list_of_prices_counts_where_no_price_is_given(server: OpenAIServer) -> None:
    with ledger.record_calls() as tally:
        _opened(model="text-embedding-3-small").encode_documents(TEXTS)
        _opened(model="unheard-of").encode_documents(TEXTS)
    assert [entry.money for entry in tally.entries] == [pytest.approx(8 * 0.02 / 1e6), None]


def test_an_answer_that_cannot_be_used_is_paid_all_the_same(server: OpenAIServer) -> None:
    server.faults.append(embedding([float("nan")] * NATIVE))
    with ledger.record_calls() as tally, pytest.raises(ServiceError):
        _opened(price=2.0).encode_documents(TEXTS)
    assert (tally.spent.input_tokens, tally.spent.money) == (8, pytest.approx(8 * 2.0 / 1e6))


def test_what_the_service_does_not_count_is_estimated(server: OpenAIServer) -> None:
    server.faults.append(usage(None))
    with ledger.record_calls() as tally:
        _opened(price=2.0).encode_documents(["four letters and more"])
    assert [(entry.input_tokens, entry.estimated) for entry in tally.entries] == [(6, True)]


def test_what_is_encoded_in_threads_is_booked_where_it_was_asked(server: OpenAIServer) -> None:
    encoder = _opened()
    batches = [[f"{'word ' * n}{n}"] for n in range(1, 9)]

    def counted(batch: list[str]) -> int:
        with ledger.record_calls() as tally:
            encoder.encode_documents(batch)
        return tally.spent.input_tokens

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(counted, batches)) == [n + 1 for n in range(1, 9)]


def test_a_budget_stops_before_the_request_that_would_pass_it(server: OpenAIServer) -> None:
    budget = Budget(100.0)
    encoder = OpenAICompatible(model="small", dimensions=NATIVE, batch_size=1, price=1e6).open(
        LLMSettings(budget=budget)
    )
    with ledger.record_calls() as tally, pytest.raises(BudgetError, match=r"The budget of \$100\.0000 is exhausted"):
        encoder.encode_documents([f"a b c d e f {n}" for n in range(50)])  # seven tokens each
    assert tally.spent.money == budget.spent == 7.0 * len(server.requests)
    assert 80 < budget.spent <= 100


def test_a_budget_needs_a_price_before_anything_is_paid(server: OpenAIServer) -> None:
    with pytest.raises(
        UsageError, match=r"A budget needs the price of small.* Or give it here: openai\(model=\"small\""
    ):
        OpenAICompatible(model="small").open(LLMSettings(budget=Budget(1.0)))
    assert server.requests == []


def test_id_names_model_dimensions_and_address(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _opened()
    assert first.id.startswith("openai-small-native-")
    assert _opened(batch_size=1, retries=0).id == first.id
    assert _opened(dimensions=16).id.startswith("openai-small-16-")
    monkeypatch.setenv("EMBEDDING_BASE_URL", server.url.replace("127.0.0.1", "somebody:secret@127.0.0.1") + "/")
    assert _opened().id == first.id
    monkeypatch.setenv("EMBEDDING_BASE_URL", "http://127.0.0.1:1/v1")
    assert _opened().id != first.id


# ---------------------------------------------------------------- settings


def test_falls_back_to_openai_variables(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EMBEDDING_BASE_URL")
    monkeypatch.setenv("EMBEDDING_API_KEY", "")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    np.testing.assert_allclose(_opened().encode_queries(["one"]), _expected(["one"]), atol=1e-7)


def test_settings_that_cannot_be(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EMBEDDING_API_KEY")
    with pytest.raises(UsageError, match="openai:small needs a key: set EMBEDDING_API_KEY or OPENAI_API_KEY"):
        registry.encoder("openai:small").open()  # type: ignore[union-attr]
    monkeypatch.setenv("EMBEDDING_BASE_URL", "localhost:8000")
    with pytest.raises(UsageError, match="EMBEDDING_BASE_URL or OPENAI_BASE_URL must begin with http"):
        _opened()


# ---------------------------------------------------------------- problem that passes


@pytest.mark.parametrize("fault", [status(408), status(500), drop])
def test_sent_again(server: OpenAIServer, fault: openai_server.Fault) -> None:
    server.faults.append(fault)
    np.testing.assert_allclose(_opened(retries=1).encode_queries(["one"]), _expected(["one"]), atol=1e-7)
    assert len(server.requests) == 2


def test_waits_as_long_as_told(server: OpenAIServer) -> None:
    server.faults.append(status(429, retry_after="6"))
    encoder, waits = _opened_with_waits(retries=1)
    encoder.encode_queries(["one"])
    assert waits == [pytest.approx(6, abs=0.5)]  # with jitter


def test_slow_answers_are_asked_for_again(server: OpenAIServer) -> None:
    server.faults.extend([slow(0.6)] * 2)
    encoder = _opened(timeout=0.2, retries=1, dimensions=NATIVE)
    with pytest.raises(ServiceError, match="no answer after 2 tries: .*timed out"):
        encoder.encode_queries(["one"])
    assert len(server.requests) == 2


# ---------------------------------------------------------------- problem that stays


@pytest.mark.parametrize("code", [400, 401, 403])
def test_not_sent_again(server: OpenAIServer, code: int) -> None:
    server.faults.append(status(code, f"the key {KEY} is no good"))
    with pytest.raises(ServiceError, match=f"failed with status {code}: .*the key … is no good") as caught:
        _opened().encode_queries(["one"])
    assert len(server.requests) == 1
    assert ("EMBEDDING_API_KEY" in str(caught.value)) == (code in (401, 403))


def test_the_key_is_nowhere(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBEDDING_API_KEY", "sk-another-secret")
    plugin = OpenAICompatible(model="small")
    encoder = plugin.open()
    with pytest.raises(ServiceError, match="wrong key Bearer …") as caught:
        encoder.encode_queries(["one"])
    shown = (
        f"{plugin!r} {encoder!r} {encoder.id} {registry.describe(plugin)} {caught.value!r} {caught.value.__cause__!r}"
    )
    assert "secret" not in shown


def test_errors(server: OpenAIServer) -> None:
    encoder = _opened(retries=0)
    assert encoder.dimensions == NATIVE
    for fault, message in (
        (status(429), "failed with status 429"),
        (status(500, "out of order"), "failed with status 500: .*out of order"),
        (drop, "no answer after 1 tries"),
        (says("<html>"), "expected JSON, got '<html>'"),
        (says("[1]"), r"expected a list of embeddings as 'data', got '\[1\]'"),
        (data(lambda items: None), "expected a list of embeddings as 'data'"),
        (data(lambda items: []), "expected 3 embeddings, got 0"),
        (data(lambda items: items[:2]), "expected 3 embeddings, got 2"),
        (data(lambda items: [items[0], *items[:2]]), r"expected each index from 0 to 2 once, got \[0, 0, 1\]"),
        (data(lambda items: [{"embedding": [1.0]}] * 3), r"expected each index .* got \[None, None, None\]"),
        (embedding([1.0, 2.0]), "expected a vector of 48 numbers, got 2"),
        (embedding([]), "expected a vector of 48 numbers, got 0"),
        (embedding(None), "expected a vector of 48 numbers, got 'None'"),
        (embedding("AAAA"), "expected a vector of 48 numbers, got 'AAAA'"),
        (embedding(["a"] * NATIVE), "expected a vector of 48 numbers, got something else"),
        (embedding([float("nan")] * NATIVE), "expected a finite vector longer than zero"),
        (embedding([0.0] * NATIVE), "expected a finite vector longer than zero"),
    ):
        server.faults.extend([fault, status(500)])  # the second where another text is tried
        with pytest.raises(ServiceError, match=message) as caught:
            encoder.encode_documents(TEXTS)
        assert f"openai:small at {server.url}" in str(caught.value)
        server.faults.clear()


def _spoil(vector: object) -> openai_server.Fault:
    return data(lambda items: [{**item, "embedding": vector} if item["index"] == 3 else item for item in items])


REFUSALS: dict[str, tuple[openai_server.Fault, openai_server.Fault, str, int]] = {
    "status 400": (status(400, "bad words"), status(400, "bad words"), "status 400: bad words", 10),
    "status 422": (status(422, "bad words"), status(422, "bad words"), "status 422: bad words", 10),
    "NaN of Ollama": (status(500, "unsupported value: NaN"),) * 2 + ("status 500: unsupported value: NaN", 11),
    "no answer": (drop, drop, "no answer after 1 tries", 11),
    "no JSON": (says("<html>"), says("<html>"), "expected JSON, got '<html>'", 11),
    "null": (_spoil(None), embedding(None), "expected a vector of 48 numbers, got 'None'", 2),
    "zeros": (_spoil([0.0] * NATIVE), embedding([0.0] * NATIVE), "NaN, infinity or nothing but zeros", 2),
}


@pytest.mark.parametrize("how", REFUSALS)
def test_a_text_that_is_refused_alone_fails_alone(server: OpenAIServer, how: str) -> None:
    """Others have their vectors, whatever it is beside, and no more requests are sent than halving takes."""
    beside, alone, reason, requests = REFUSALS[how]
    texts = ["one", "", "two", "three", "POISON", "four", " ", *(f"text {number}" for number in range(9))]

    def choose(received: openai_server.Received, earlier: int) -> openai_server.Fault | None:
        sent = received.body["input"]
        return None if "POISON" not in sent else alone if sent == ["POISON"] else beside

    server.choose = choose
    encoder = _opened(retries=0, batch_size=16, dimensions=NATIVE)
    answers = list(encoder.encode_by_request(texts))
    (failure,) = (answer for answer in answers if isinstance(answer, EncodingFailure))
    assert reason in failure.reason
    arrays = [answer for answer in answers if not isinstance(answer, EncodingFailure)]
    before = next(place for place, answer in enumerate(answers) if answer is failure)
    assert sum(map(len, arrays[:before])) == 4
    vectors = np.concatenate(arrays)
    accepted = [text for text in texts if text != "POISON"]
    blank = [not text.strip() for text in accepted]
    np.testing.assert_allclose(vectors[~np.array(blank)], _expected([t for t in accepted if t.strip()]), atol=1e-7)
    assert not vectors[np.array(blank)].any()
    assert len(server.requests) == requests
    assert encoder.texts_a_request == 16
    with pytest.raises(ServiceError, match=re.escape(reason)):
        encoder.encode_queries(["POISON"])


@pytest.mark.parametrize(("fault", "requests"), [(status(400), 6), (status(500), 2), (drop, 2), (status(429), 1)])
def test_a_service_that_is_down_gets_few_requests(
    server: OpenAIServer, fault: openai_server.Fault, requests: int
) -> None:
    server.choose = lambda received, earlier: fault
    with pytest.raises(ServiceError):
        list(_opened(retries=0, dimensions=NATIVE).encode_by_request([f"text {number}" for number in range(16)]))
    assert len(server.requests) == requests


def test_no_server(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBEDDING_BASE_URL", "http://127.0.0.1:1/v1")
    with pytest.raises(ServiceError, match=r"openai:small at http://127\.0\.0\.1:1/v1 failed: no answer after 1 tries"):
        _opened(retries=0).encode_queries(["one"])


def test_an_unknown_path_stops_at_once_and_the_address_is_suggested(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.choose = lambda received, earlier: says('{"error": "Unexpected endpoint or method. (POST /embeddings)"}')
    monkeypatch.setenv("EMBEDDING_BASE_URL", server.url.removesuffix("/v1"))
    words = rf"Unexpected endpoint.* Check --encoder, EMBEDDING_BASE_URL or OPENAI_BASE_URL\. Is it {server.url}\?$"
    with pytest.raises(ServiceError, match=words) as caught:
        _opened().encode_queries(["one"])
    assert (len(server.requests), isinstance(caught.value, RequestError)) == (1, False)


def test_a_dead_proxy_is_named(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with pytest.raises(ServiceError, match=r"Check HTTP_PROXY, the proxy of this address, or exempt its host"):
        _opened(retries=0).encode_queries(["one"])


def test_azures_version_is_sent_with_each_request(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    id = _opened().id
    monkeypatch.setenv("EMBEDDING_BASE_URL", f"{server.url}?api-version=2024-10-21")
    encoder = _opened()
    encoder.encode_queries(["one"])
    assert [request.path for request in server.requests] == ["/v1/embeddings?api-version=2024-10-21"]
    assert encoder.id == id


# ---------------------------------------------------------------- texts that are too long


def test_too_long_a_text_is_cut(server: OpenAIServer, caplog: pytest.LogCaptureFixture) -> None:
    server.longest = 300
    texts = ["one", "word " * 200, "two", "three"]
    encoder = _opened()
    with caplog.at_level(logging.WARNING):
        vectors = encoder.encode_documents(texts)
    np.testing.assert_allclose(vectors, _expected(["one", texts[1][:250], "two", "three"]), atol=1e-7)
    assert encoder.truncated == 1
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "a text of 1000 characters was too long and was cut to 250"
    ]


TOO_LONG = [
    (400, "This model's maximum context length is 8192 tokens, however you requested 9000 tokens"),
    (400, "Invalid 'input[3]': maximum input length is 8192 tokens."),
    (500, "input (253 tokens) is too large to process. increase the physical batch size (current batch size: 100)"),
    (400, "the input length exceeds the context length"),
    (400, "Input length 253 exceeds maximum allowed token size 100"),
    (400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 100]"),
    (413, "413 Request Entity Too Large"),
    (413, "Input validation error: `inputs` must have less than 512 tokens. Given: 700"),
    (422, "inputs must have less than 512 tokens"),
    (400, "Requested token count exceeds the model's maximum context length of 32768 tokens"),
    (400, "Too many tokens overall, split into batches"),
    (400, "max 300000 tokens per request"),
    (429, "Request too large for text-embedding-3-small on tokens per min (TPM): Limit 40000, Requested 60000"),
    (400, "text at index 3 is too long: 600 tokens, the token limit is 512"),
    (400, "Token indices sequence length is longer than the specified maximum sequence length"),
]


@pytest.mark.parametrize(("code", "words"), TOO_LONG)
def test_any_words_for_too_long(server: OpenAIServer, code: int, words: str) -> None:
    refused = status(code, words)
    server.choose = lambda request, earlier: refused if max(map(len, request.body["input"])) > 300 else None
    texts = ["one", "word " * 100, "two"]
    encoder = _opened()
    np.testing.assert_allclose(encoder.encode_documents(texts), _expected(["one", texts[1][:250], "two"]), atol=1e-7)
    assert (encoder.truncated, encoder.texts_a_request) == (1, 128)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (503, "the queue is too long"),
        (504, "the request took too long"),
        (408, "too long without an answer"),
        (429, "you are over the token limit of a minute"),
        (500, "the response was too large"),
    ],
)
def test_a_service_that_is_busy_too_long_gets_the_whole_text_again(server: OpenAIServer, code: int, words: str) -> None:
    server.faults.append(status(code, words, retry_after="0"))
    encoder = _opened()
    np.testing.assert_allclose(encoder.encode_documents(["word " * 100]), _expected(["word " * 100]), atol=1e-7)
    assert (encoder.truncated, len(server.requests)) == (0, 2)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (400, "Value error, batch size is invalid, it should not be larger than 10.: input.contents"),
        (422, "Validation: batch size 50 > maximum allowed batch size 10"),
        (413, "413 Request Entity Too Large"),
        (400, "array too long. Expected an array with maximum length 10, got 50"),
        (400, "at most 10 inputs"),
    ],
)
def test_too_large_a_batch_goes_in_parts_and_the_size_is_remembered(
    server: OpenAIServer, caplog: pytest.LogCaptureFixture, code: int, words: str
) -> None:
    refused = status(code, words)
    server.choose = lambda request, earlier: refused if len(request.body["input"]) > 10 else None
    texts = [f"text {number}" for number in range(75)]
    encoder = _opened(batch_size=50)
    with caplog.at_level(logging.WARNING):
        np.testing.assert_allclose(encoder.encode_documents(texts), _expected(texts), atol=1e-7)
    sizes = [len(request.body["input"]) for request in server.requests]
    assert (encoder.truncated, encoder.texts_a_request) == (0, 6)
    assert sizes == [50, 25, 12, 6, 6, 13, 6, 7, 25, 12, 6, 6, 13, 6, 7, 6, 6, 6, 6, 1]
    assert "6 texts are sent at once from here on (batch_size)" in caplog.text


def test_a_limit_per_minute_is_waited_out_as_its_message_asks(server: OpenAIServer) -> None:
    words = "You exceeded your current quota, please check your plan. Please retry in 6s."
    server.faults.append(status(429, words))
    encoder, waits = _opened_with_waits(retries=1)
    np.testing.assert_allclose(encoder.encode_documents(TEXTS), _expected(TEXTS), atol=1e-7)
    assert waits == [pytest.approx(6, abs=0.5)]


def test_a_request_that_no_part_of_passes_ends_with_the_words_of_a_text_alone(server: OpenAIServer) -> None:
    server.choose = lambda request, earlier: status(400, f"{len(request.body['input'])} inputs are not supported")
    with pytest.raises(ServiceError, match="status 400: 1 inputs are not supported"):
        _opened().encode_documents(TEXTS)
    assert [len(request.body["input"]) for request in server.requests] == [3, 1]


def test_half_of_a_request_that_was_answered_is_kept_though_the_other_fails(
    server: OpenAIServer, tmp_path: Path
) -> None:
    """A batch that is too long goes in two halves; each answer is paid, and none is paid twice."""
    texts = [f"text {number}" for number in range(8)]
    too_long = status(400, "maximum context length exceeded")
    server.choose = lambda request, earlier: too_long if len(request.body["input"]) > 2 else None
    refused = server.choose

    def failing(request: openai_server.Received, earlier: int) -> openai_server.Fault | None:
        return (
            status(401)
            if "text 4" in request.body["input"] and len(request.body["input"]) == 2
            else refused(request, earlier)
        )

    server.choose = failing
    with ledger.record_calls() as first, pytest.raises(ServiceError):
        CachedEncoder(_opened(), tmp_path / "vectors.sqlite").encode_documents(texts)
    server.choose = refused
    server.requests.clear()
    with ledger.record_calls() as rest:
        vectors = CachedEncoder(_opened(), tmp_path / "vectors.sqlite").encode_documents(texts)
    np.testing.assert_allclose(vectors, _expected(texts), atol=1e-7)
    assert [request.body["input"] for request in server.requests if request.body["input"] != ["dimensions"]] == [
        texts[4:],
        texts[4:6],
        texts[6:],
    ]
    paid = [entry.input_tokens for tally in (first, rest) for entry in tally.entries if not entry.replayed]
    assert sorted(paid) == [1, 4, 4, 4, 4]  # two tokens a text; where something is kept, its length is asked for first


def test_cutting_ends(server: OpenAIServer) -> None:
    server.longest = 0
    with pytest.raises(ServiceError, match="maximum context length"):
        _opened().encode_documents(["word " * 200])
    assert [len(request.body["input"][0]) for request in server.requests] == [1000, 500, 250, 125, 62]
