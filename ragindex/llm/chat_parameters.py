"""The parameters of language models behind OpenAI's chat protocol."""

from typing import ClassVar, Literal

import regex
from pydantic import Field, JsonValue, field_validator

from ragindex.errors import UsageError
from ragindex.http import require_bare
from ragindex.plugins.base import Plugin

_VARIABLE = regex.compile(r"[A-Z_][A-Z0-9_]*")
_OURS = frozenset({"model", "messages", "temperature", "seed", "response_format", "max_tokens", "stream", "n"})


class ChatParameters(Plugin):
    """See OpenAICompatibleChat."""

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
