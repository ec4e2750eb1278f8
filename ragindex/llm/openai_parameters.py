"""Parameters of LLMs at an endpoint with OpenAI's chat protocol."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

import regex
from pydantic import Field, JsonValue, field_validator

from ragindex._util.http import drop_version, read_secret, require_bare
from ragindex.errors import UsageError
from ragindex.interfaces.llm import LLMPlugin, PaidPlugin
from ragindex.llm.own_prompts import read_prompts, resolve_prompts

_VARIABLE = regex.compile(r"[A-Z_][A-Z0-9_]*")
_LIMITS = ("max_tokens", "max_completion_tokens")
_RESERVED = frozenset({"model", "messages", "temperature", "seed", "response_format", *_LIMITS, "stream", "n"})


class ChatParameters(LLMPlugin, PaidPlugin):
    """Parameters of OpenAICompatibleChat."""

    argument: ClassVar[str] = "model"
    keys_from: ClassVar[str] = (
        "Set OPENAI_API_KEY to the key, or OPENAI_API_KEY_FILE to a file that holds it; "
        "an address with a user and a password goes into OPENAI_BASE_URL."
    )
    version: ClassVar[int] = 1

    model: str = Field(description="Name of the model, as the endpoint knows it.")
    base_url: str | None = Field(
        default=None, description="Address of the endpoint. Default: OPENAI_BASE_URL, or OpenAI's own."
    )
    key_variable: str = Field(default="OPENAI_API_KEY", description="Environment variable that holds the key.")
    temperature: float | None = Field(
        default=0.0, ge=0, description="Sampling temperature. null: the endpoint's default."
    )
    seed: int | None = Field(default=0, description="Sampling seed. null: none is sent.")
    structure: Literal["auto", "schema", "json", "text"] = Field(
        default="auto",
        description="How JSON is asked for: by JSON schema, in JSON mode or as plain text. auto: the first "
        "that the endpoint accepts.",
    )
    extra: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="Further parameters, sent with every request: "
        "extra={top_p: 0.9, chat_template_kwargs: {enable_thinking: false}}.",
    )
    max_tokens: int | None = Field(
        default=None, ge=1, description="Upper limit of the tokens of an answer, where a task allows more."
    )
    reasoning_tokens: int = Field(
        default=0, ge=0, description="Tokens added to the limit of each answer, for models that reason first."
    )
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = Field(
        default=None, description="How much the model reasons first. null: the endpoint's default."
    )
    prompts: str | None = Field(
        default=None,
        description="YAML file with prompts of your own, as those that a paper prints, by the name of their task.",
    )
    timeout: float = Field(default=120.0, gt=0, description="Seconds until a request times out.")
    retries: int = Field(
        default=6,
        ge=0,
        description="Times a request is sent again after a timeout, a lost connection or status 408, 409, 429 or 5xx.",
    )
    concurrency: int = Field(default=16, ge=1, le=1024, description="Requests in flight at once.")
    requests_per_minute: int | None = Field(default=None, ge=1, description="Rate limit in requests. null: none.")
    tokens_per_minute: int | None = Field(default=None, ge=1, description="Rate limit in tokens. null: none.")

    batch: bool = Field(
        default=False,
        description="Whether answers that can wait (building an index, judging) are asked for in batches, at half the "
        "price. A batch may take a day; the same command goes on with it.",
    )
    batch_poll_seconds: float = Field(
        default=30.0, gt=0, description="Seconds between two looks at how far a batch is."
    )

    def read_key(self, index: Path | None = None) -> str:
        """Return the key, which must not be in the folder `index`. Raises UsageError if there is none."""
        key = read_secret([self.key_variable], index)
        if key is None:
            raise UsageError(
                f"openai:{self.model} needs a key: set {self.key_variable}, or {self.key_variable}_FILE to a file "
                "outside the index. For an endpoint without keys, any word will do."
            )
        return key

    @field_validator("base_url")
    @classmethod
    def _check_address(cls, base_url: str | None) -> str | None:
        if base_url is not None:
            require_bare(drop_version(base_url), "openai", cls.keys_from)
        return base_url

    @field_validator("prompts")
    @classmethod
    def _resolve_prompts(cls, prompts: str | None) -> str | None:
        return None if prompts is None else resolve_prompts(prompts)

    def own_files(self) -> tuple[str, ...]:
        """Return the file of prompts, if there is one."""
        return () if self.prompts is None else (self.prompts,)

    @property
    def own_prompts(self) -> Mapping[str, str]:
        """The prompts of the file `prompts`, by the name of their task."""
        return {} if self.prompts is None else read_prompts(self.prompts)

    @field_validator("key_variable")
    @classmethod
    def _check_variable(cls, name: str) -> str:
        """Check the name. The UsageError does not repeat the value, which may be the key itself."""
        if not _VARIABLE.fullmatch(name):
            raise UsageError(
                "The 'key_variable' parameter of openai must be the name of an environment variable in capitals, as "
                f"OPENAI_API_KEY, and not the key. {cls.keys_from}"
            )
        return name

    @field_validator("extra")
    @classmethod
    def _check_extra(cls, extra: dict[str, JsonValue]) -> dict[str, JsonValue]:
        reserved = sorted(_RESERVED & extra.keys())
        if reserved:
            raise ValueError(f"without {reserved[0]}, which the framework sets")
        return extra
