"""What calls of a model cost, without a request."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from made_language import ECHO, PRICES

from ragindex._util.http import Billed, RequestProblem, RequestProblemError
from ragindex.accounting import ledger
from ragindex.errors import LLMError
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm import tokens
from ragindex.llm.budget import Budget
from ragindex.llm.cached_calls import CachedCalls
from ragindex.llm.openai_chat import SCHEMA_HINT, ChatRequest, EndpointFeatures, OpenAIChat, Reply
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.llm.rate_limits import Limits
from ragindex.llm.tasks import Message

MESSAGES = (Message("system", "Repeat the text."), Message("user", "A text of six words, alone."))
REQUEST = ChatRequest("echo", MESSAGES, '{"type": "object"}', 100)
ADDRESS = "http://127.0.0.1:9/v1"
HINT = Message("user", SCHEMA_HINT + REQUEST.schema)


class ScriptedChat(OpenAIChat):
    """Returns or raises what it was given, in place of sending a request."""

    outcomes: Sequence[Reply | RequestProblemError] = ()

    def send(self, request: ChatRequest, form: EndpointFeatures) -> Reply:
        """Return or raise the next outcome."""
        outcome, *self.outcomes = self.outcomes
        if isinstance(outcome, RequestProblemError):
            raise outcome
        return outcome

    def simplify(self, form: EndpointFeatures, problem: RequestProblem) -> EndpointFeatures | None:
        """There is no simpler form."""
        return None


class CountingLimits(Limits):
    """Notes for how many tokens each request waited, and how many it then used."""

    def __init__(self) -> None:
        super().__init__(1)
        self.waited: list[int] = []
        self.used: list[int] = []

    @contextmanager
    def slot(self, tokens: int) -> Iterator[Callable[[int], None]]:
        """Note the tokens."""
        self.waited.append(tokens)
        yield self.used.append


def make_calls(
    given: dict[str, Any] | None = None,
    budget: Budget | None = None,
    outcomes: Sequence[Reply | RequestProblemError] = (),
    limits: Limits | None = None,
) -> CachedCalls:
    plugin = OpenAICompatibleChat.model_validate({"model": "small", "base_url": ADDRESS, "retries": 0, **(given or {})})
    chat = ScriptedChat(plugin, ADDRESS)
    chat.outcomes = outcomes
    return CachedCalls(chat, limits or Limits(1), plugin, LLMSettings(prices=PRICES, budget=budget))


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


def test_keys_of_a_request_stay() -> None:
    """Answers that were paid for are found by them: with other keys all of them would be paid for again."""
    request = ChatRequest("echo", (Message("user", 'Öl, \u2028 and "quotes"'),), REQUEST.schema, 100)
    keys = make_calls().keys(ECHO, request)
    assert keys.earlier[0] == "a5e63d1f21e66d6922745e46905f2fe43f7d5575040bd3735fc47d7473d79c48"
    assert keys.request == "9acebce0f75239548a7ae6c5e983ea1a3191344fe16281a2ad57366865126e55"
    assert keys.complete == "9acebce0f75239548a7ae6c5e983ea1a3191344fe16281a20000000000000000"


@pytest.mark.parametrize(("counts", "used"), [((20, 4, 5), [25]), ((None, 0, 5), []), ((20, 4, None), [])])
def test_a_rate_counts_the_tokens_that_were_used(counts: tuple[int | None, int, int | None], used: list[int]) -> None:
    limits = CountingLimits()
    reply = Reply("An answer.", "stop", "", "schema", *counts, 1.5)
    calls = make_calls({"tokens_per_minute": 1000}, outcomes=[reply], limits=limits)
    with ledger.record_calls() as tally:
        calls.answer(ECHO, REQUEST)
    assert limits.waited == [tokens.count_message_tokens((*MESSAGES, HINT), "small").bound + REQUEST.max_tokens]
    assert limits.used == used
    (entry,) = tally.entries
    assert (entry.replayed, entry.batched, entry.estimated) == (False, False, not used)


@pytest.mark.parametrize(
    ("problem", "outcome"),
    [
        (RequestProblem("no", 400), "rejected"),
        (RequestProblem("no", 400, "content_filter"), "refusal"),
        (RequestProblem("busy", 500), "unreachable"),
    ],
)
def test_failed_requests_are_counted_and_paid_for_as_billed(problem: RequestProblem, outcome: str) -> None:
    budget = Budget(1.0)
    calls = make_calls(budget=budget, outcomes=[RequestProblemError(problem, Billed(20, 4, 5))])
    with ledger.record_calls() as tally, pytest.raises(LLMError) as raised:
        calls.answer(ECHO, REQUEST)
    assert raised.value.kind == outcome
    assert tally.stages == {"echo": {outcome: 1}}
    (entry,) = tally.entries
    money = PRICES.models["small"].money(20, 4, 5)
    assert (entry.input_tokens, entry.cached_tokens, entry.output_tokens, entry.estimated) == (20, 4, 5, False)
    assert entry.money == pytest.approx(money) == pytest.approx(budget.spent)
    assert tally.correction == 0.0  # its time is part of what is measured
