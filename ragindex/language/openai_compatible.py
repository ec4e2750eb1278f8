"""Language models at any endpoint that speaks OpenAI's chat protocol, as a plugin."""

from typing import TYPE_CHECKING, ClassVar, Literal

import regex
from pydantic import Field, JsonValue, field_validator

from ragindex.errors import UsageError
from ragindex.language.chat import OpenAIChat
from ragindex.language.limits import Limits
from ragindex.language.prices import Prices
from ragindex.language.setting import Setting
from ragindex.plugin import Plugin
from ragindex.services import address, require_bare

if TYPE_CHECKING:
    from ragindex.language.asking import ModelLanguage

_URL_VARIABLES = ("OPENAI_BASE_URL",)
_VARIABLE = regex.compile(r"[A-Z_][A-Z0-9_]*")
_OURS = frozenset({"model", "messages", "temperature", "seed", "response_format", "max_tokens", "stream", "n"})


class OpenAICompatibleChat(Plugin):
    """`openai:MODEL` at OPENAI_BASE_URL with OPENAI_API_KEY, or with the key in the file OPENAI_API_KEY_FILE.

    `structure` is how answers are asked for: by JSON schema, else JSON mode, else plain text (auto), or one of these.
    `max_tokens` caps what a task allows for an answer; `reasoning_tokens` are added for models that think first.
    Requests that time out, lose their connection or get 408, 409, 429 or 5xx are sent again up to `retries` times.
    `extra` goes into every request as it is.
    """

    argument: ClassVar[str] = "model"
    keys_from: ClassVar[str] = (
        "Set OPENAI_API_KEY to the key, or OPENAI_API_KEY_FILE to a file that holds it; "
        "an address with a user and a password goes into OPENAI_BASE_URL."
    )
    version: ClassVar[int] = 1

    model: str
    base_url: str | None = None
    key_variable: str = "OPENAI_API_KEY"
    temperature: float | None = Field(default=0.0, ge=0)
    seed: int | None = 0
    structure: Literal["auto", "schema", "json", "text"] = "auto"
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    max_tokens: int | None = Field(default=None, ge=1)
    reasoning_tokens: int = Field(default=0, ge=0)
    timeout: float = Field(default=120.0, gt=0)
    retries: int = Field(default=6, ge=0)
    concurrency: int = Field(default=16, ge=1, le=1024)
    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)

    @field_validator("base_url")
    @classmethod
    def _without_keys(cls, base_url: str | None) -> str | None:
        if base_url is not None:
            require_bare(base_url, "openai", cls.keys_from)
        return base_url

    @field_validator("key_variable")
    @classmethod
    def _a_name(cls, name: str) -> str:
        """Raises UsageError, which does not repeat it: it may be the key itself."""
        if not _VARIABLE.fullmatch(name):
            raise UsageError(
                "The 'key_variable' parameter of openai must be the name of an environment variable in capitals, as "
                f"OPENAI_API_KEY, and not the key. {cls.keys_from}"
            )
        return name

    @field_validator("extra")
    @classmethod
    def _nothing_of_ours(cls, extra: dict[str, JsonValue]) -> dict[str, JsonValue]:
        taken = sorted(_OURS & extra.keys())
        if taken:
            raise ValueError(f"without {taken[0]}, which the framework sets")
        return extra

    def price_missing(self, prices: Prices) -> str | None:
        """What to say where the list of prices does not name the model."""
        return prices.missing(self.model)

    def open(self, setting: Setting | None = None) -> "ModelLanguage":
        """Sends nothing yet, and needs no key before the first request.

        Raises UsageError for a wrong address, and with a budget for a model that has no price.
        """
        from ragindex.language.asking import ModelLanguage  # builds on this module

        setting = setting or Setting()
        chat = OpenAIChat(self, address(_URL_VARIABLES, self.base_url), setting.workspace)
        limits = Limits(self.concurrency, self.requests_per_minute, self.tokens_per_minute, setting.clock)
        return ModelLanguage(chat, limits, self, setting)
