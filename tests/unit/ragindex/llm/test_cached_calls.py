"""What calls of a model cost, and which answers a batch has brought, without a request."""

from typing import Any

import pytest
from made_language import PRICES

from ragindex.interfaces.llm import LLMSettings
from ragindex.llm import tokens
from ragindex.llm.budget import Budget
from ragindex.llm.cached_calls import CachedCalls
from ragindex.llm.openai_chat import SCHEMA_HINT, ChatRequest, OpenAIChat, Reply
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.llm.rate_limits import Limits
from ragindex.llm.tasks import Message

MESSAGES = (Message("system", "Repeat the text."), Message("user", "A text of six words, alone."))
REQUEST = ChatRequest("echo", MESSAGES, '{"type": "object"}', 100)
HINT = Message("user", SCHEMA_HINT + REQUEST.schema)


def make_calls(given: dict[str, Any] | None = None, budget: Budget | None = None) -> CachedCalls:
    plugin = OpenAICompatibleChat.model_validate(
        {"model": "small", "base_url": "http://127.0.0.1:9/v1", **(given or {})}
    )
    chat = OpenAIChat(plugin, "http://127.0.0.1:9/v1")
    return CachedCalls(chat, Limits(1), plugin, LLMSettings(prices=PRICES, budget=budget))


def test_arrived_answers_are_those_that_a_batch_has_brought() -> None:
    calls = make_calls()
    assert calls.find("a") == (None, False)
    calls.add_arrived(["a"])
    assert [calls.find(key) for key in "ab"] == [(None, True), (None, False)]


@pytest.mark.parametrize(
    ("counts", "messages", "expected"),
    [
        ((20, 4, 5), MESSAGES, (20, 4, 5, False)),
        ((20, 4, 5), None, (20, 4, 5, False)),  # the request is lost
        ((None, 0, 5), MESSAGES, (tokens.count_message_tokens(MESSAGES, "small").tokens, 0, 5, True)),
        ((20, 4, None), MESSAGES, (20, 4, tokens.count_text_tokens("An answer.", "small").tokens, True)),
    ],
)
def test_replies_of_batches_have_counts_and_half_the_price(
    counts: tuple[int | None, int, int | None],
    messages: tuple[Message, ...] | None,
    expected: tuple[int, int, int, bool],
) -> None:
    request = None if messages is None else REQUEST
    reply = Reply("An answer.", "stop", "", "schema", *counts, 1.5)
    answer = make_calls().count_batched(reply, request)
    read, cached, written, _ = expected
    assert (answer.input_tokens, answer.cached_tokens, answer.output_tokens, answer.estimated) == expected
    assert answer.money == pytest.approx(PRICES.models["small"].money(read, cached, written) / 2)
    assert (answer.text, answer.finish, answer.refusal, answer.structure) == ("An answer.", "stop", "", "schema")
    assert answer.seconds == 1.5


@pytest.mark.parametrize(
    ("given", "budget", "hinted", "counted"),
    [
        ({}, None, False, ()),  # nothing needs to know the length of the input
        ({}, Budget(1.0), False, (*MESSAGES, HINT)),
        ({}, Budget(1.0), True, MESSAGES),
        ({"tokens_per_minute": 1000}, None, False, (*MESSAGES, HINT)),
    ],
)
def test_bound_of_a_cost_in_a_batch(
    given: dict[str, Any], budget: Budget | None, hinted: bool, counted: tuple[Message, ...]
) -> None:
    request = ChatRequest("echo", MESSAGES, REQUEST.schema, 100, hinted=hinted)
    read = tokens.count_message_tokens(counted, "small").bound if counted else 0
    cost = make_calls(given, budget).bound_cost(request)
    assert cost == pytest.approx(PRICES.models["small"].money(read, 0, 100) / 2)
