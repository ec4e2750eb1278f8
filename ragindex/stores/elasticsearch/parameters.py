"""The parameters of the store elasticsearch."""

from typing import ClassVar

from pydantic import Field, field_validator

from ragindex.http import read_variable, require_bare
from ragindex.interfaces import StorePlugin
from ragindex.plugins.base import Contact
from ragindex.stores.elasticsearch import client

NAME_PATTERN = r"[a-z0-9][a-z0-9_.]{0,60}"


class ElasticsearchParameters(StorePlugin):
    """The parameters of the class `Elasticsearch`, which documents them."""

    argument: ClassVar[str] = "url"
    keys_from: ClassVar[str] = f"Set {client.API_KEY}, or {client.USER} and {client.PASSWORD}."

    url: str | None = Field(
        default=None, description="Address of the cluster, or several separated by commas. Default: ELASTICSEARCH_URL."
    )
    prefix: str = Field(
        default="ragindex", pattern=f"^{NAME_PATTERN}$", description="First part of the names of all indices."
    )
    namespace: str | None = Field(
        default=None,
        pattern=f"^{NAME_PATTERN}$",
        description="Second part of the names of the indices. Default: a name stored in the index's folder.",
    )
    shards: int = Field(default=1, ge=1, le=1024, description="Shards of an index created from now on.")
    replicas: int | None = Field(
        default=None,
        ge=0,
        description="Replicas of an index created from now on. Default: one where the cluster has a second node.",
    )
    refresh: str = Field(
        default="-1",
        pattern=r"^(-1|\d+(ms|s|m))$",
        description="Refresh interval of an index, as 1s. -1: searches see finished syncs only.",
    )
    exact_up_to: int = Field(
        default=100_000,
        ge=0,
        description="Records up to which vectors are compared one by one; larger collections use an HNSW graph.",
    )
    candidates: int = Field(
        default=500, ge=1, le=10_000, description="Candidates per shard of a search through the HNSW graph."
    )
    analyser: str | None = Field(
        default=None, description="Analyser of the server to use in place of ragindex's own text analysis."
    )
    writers: int = Field(default=4, ge=1, le=64, description="Bulk requests sent at once.")
    timeout: float = Field(default=60.0, gt=0, description="Seconds until a request times out.")
    retries: int = Field(default=5, ge=0, description="Times a request is sent again after a passing failure.")
    lease_seconds: float = Field(
        default=60.0, ge=1, description="Seconds after which a writer's lease that is not renewed can be taken over."
    )

    def contacts(self) -> tuple[Contact, ...]:
        """Return the nodes of the cluster, by the parameters or ELASTICSEARCH_URL."""
        hosts = self.url or read_variable([client.URL]) or ""
        keys = (client.API_KEY, client.USER, client.PASSWORD)
        return tuple(Contact.of_address(host.strip(), keys) for host in hosts.split(",") if host.strip())

    @field_validator("url")
    @classmethod
    def _without_keys(cls, url: str | None) -> str | None:
        """Raise UsageError if the address contains keys, because parameters are written into files and reports.

        The error does not repeat the address.
        """
        for host in (url or "").split(",") if url else ():
            require_bare(host.strip(), "the store elasticsearch", cls.keys_from)
        return url
