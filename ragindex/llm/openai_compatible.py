"""Language models at any endpoint that speaks OpenAI's chat protocol, as a plugin."""

from ragindex.http import read_address
from ragindex.llm.chat_parameters import ChatParameters
from ragindex.llm.client import LLMClient
from ragindex.llm.openai_chat import OpenAIChat
from ragindex.llm.prices import Prices
from ragindex.llm.rate_limits import Limits
from ragindex.llm.settings import LLMSettings

_URL_VARIABLES = ("OPENAI_BASE_URL",)


class OpenAICompatibleChat(ChatParameters):
    """`openai:MODEL` at OPENAI_BASE_URL with OPENAI_API_KEY, or with the key in the file OPENAI_API_KEY_FILE.

    `structure` is how answers are asked for: by JSON schema, else JSON mode, else plain text (auto), or one of these.
    `max_tokens` caps what a task allows for an answer; `reasoning_tokens` are added for models that think first.
    Requests that time out, lose their connection or get 408, 409, 429 or 5xx are sent again up to `retries` times.
    `extra` goes into every request as it is.
    """

    def price_missing(self, prices: Prices) -> str | None:
        """What to say where the list of prices does not name the model."""
        return prices.missing(self.model)

    def open(self, setting: LLMSettings | None = None) -> LLMClient:
        """Sends nothing yet, and needs no key before the first request.

        Raises UsageError for a wrong address, and with a budget for a model that has no price.
        """
        setting = setting or LLMSettings()
        chat = OpenAIChat(self, read_address(_URL_VARIABLES, self.base_url), setting.workspace)
        limits = Limits(self.concurrency, self.requests_per_minute, self.tokens_per_minute, setting.clock)
        return LLMClient(chat, limits, self, setting)
