"""The parameters of the store elasticsearch."""

from typing import ClassVar

from pydantic import Field, field_validator

from ragindex.http import require_bare
from ragindex.plugins.base import Plugin
from ragindex.stores.elasticsearch import client

NAME = r"[a-z0-9][a-z0-9_.]{0,60}"


class Parameters(Plugin):
    """See Elasticsearch."""

    argument: ClassVar[str] = "url"
    keys_from: ClassVar[str] = f"Set {client.API_KEY}, or {client.USER} and {client.PASSWORD}."

    url: str | None = None
    prefix: str = Field(default="ragindex", pattern=f"^{NAME}$")
    workspace: str | None = Field(default=None, pattern=f"^{NAME}$")
    shards: int = Field(default=1, ge=1, le=1024)
    replicas: int | None = Field(default=None, ge=0)
    refresh: str = Field(default="-1", pattern=r"^(-1|\d+(ms|s|m))$")
    exact_up_to: int = Field(default=100_000, ge=0)
    candidates: int = Field(default=500, ge=1, le=10_000)
    analyser: str | None = None
    writers: int = Field(default=4, ge=1, le=64)
    timeout: float = Field(default=60.0, gt=0)
    retries: int = Field(default=5, ge=0)
    lease_seconds: float = Field(default=60.0, ge=1)

    @field_validator("url")
    @classmethod
    def _without_keys(cls, url: str | None) -> str | None:
        """A plugin's parameters are written into files and reports: raises UsageError, which does not repeat it."""
        for host in (url or "").split(",") if url else ():
            require_bare(host.strip(), "the store elasticsearch", cls.keys_from)
        return url
