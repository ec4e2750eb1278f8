"""Plugin for LLMs at any endpoint with OpenAI's chat protocol."""

from dataclasses import replace
from pathlib import Path

from ragindex._util.http import digest_account, read_address
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.batches.calls import BatchCalls
from ragindex.llm.cache import SQLiteCache
from ragindex.llm.cached_calls import CachedCalls
from ragindex.llm.client import LLMClient
from ragindex.llm.openai_chat import OpenAIChat
from ragindex.llm.openai_parameters import ChatParameters
from ragindex.llm.prices import Prices
from ragindex.llm.rate_limits import Limits
from ragindex.plugins.base import Contact

_URL_VARIABLES = ("OPENAI_BASE_URL",)


class OpenAICompatibleChat(ChatParameters):
    """LLM `openai:MODEL` at OPENAI_BASE_URL, with the key in OPENAI_API_KEY or in the file OPENAI_API_KEY_FILE.

    `structure` sets how JSON is requested: schema, json or text; auto takes the first of these that the endpoint
    accepts. `max_tokens` caps the answer length that a task allows; `reasoning_tokens` are added to it for models that
    reason first. With `batch`, answers that can wait come in batches (`ragindex.llm.batches`). Requests that time out,
    lose their connection or get status 408, 409, 429 or 5xx are retried up to `retries` times. `extra` is added to
    every request unchanged.
    """

    def price_list(self, prices: Prices) -> Prices:
        """Return the prices of the endpoint."""
        return prices.at(read_address(_URL_VARIABLES, self.base_url))

    def price_missing(self, prices: Prices) -> str | None:
        """Return the error message if the model has no price, else None."""
        return self.price_list(prices).missing(self.model)

    def require_key(self, index: Path | None = None) -> None:
        """Raise UsageError if the key or the address is missing or invalid."""
        self.read_key(index)
        read_address(_URL_VARIABLES, self.base_url)

    def requests_at_once(self) -> int:
        """Return `concurrency`."""
        return self.concurrency

    def batches(self) -> bool:
        """Return `batch`."""
        return self.batch

    def contacts(self) -> tuple[Contact, ...]:
        """Return the endpoint, by the parameters or the environment, or OpenAI's."""
        return (Contact.of_address(read_address(_URL_VARIABLES, self.base_url), (self.key_variable,)),)

    def open(self, setting: LLMSettings | None = None) -> LLMClient:
        """Open the client. Sends no request yet; the key is read at the first request.

        Raises UsageError if the address is invalid, or if there is a budget and the model has no price.
        """
        setting = setting or LLMSettings()
        setting = replace(setting, prices=self.price_list(setting.prices))
        address = read_address(_URL_VARIABLES, self.base_url)
        chat = OpenAIChat(self, address, setting.workspace)
        limits = Limits(
            self.concurrency,
            self.requests_per_minute,
            self.tokens_per_minute,
            setting.clock,
            endpoint=("chat", self.model, digest_account(address, [self.key_variable])),
        )
        calls = CachedCalls(chat, limits, self, setting)
        batches = None
        if isinstance(setting.cache, SQLiteCache):
            batches = BatchCalls(setting.cache, chat, calls, self, setting)
        return LLMClient(chat, calls, batches, self)
