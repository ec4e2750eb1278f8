"""Settings of a server: its collections, address, keys and limits, checked before anything is opened."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import regex

from ragindex.errors import UsageError
from ragindex.export.archive import ARCHIVE_SUFFIX
from ragindex.export.retriever_file import RETRIEVER_FILE
from ragindex.serve.keys import Keyring

_NAME = regex.compile(r"[\w.-]{1,64}")
_NAMED = regex.compile(r"([\w.-]{1,64})=(.+)", regex.DOTALL)
DEFAULT_METHOD = "hybrid"
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class CollectionSpec:
    """An index to serve under a name, and the methods that search it, the default one first.

    If `exported`, it is what `ragindex export` wrote, a folder or a packed file, which names its one method itself.
    """

    name: str
    folder: Path
    methods: tuple[str, ...]
    exported: bool = False


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Bounds of requests. Times are in seconds, sizes in bytes."""

    concurrent: int = 64
    timeout: float = 30.0
    header_timeout: float = 10.0
    body: int = 128 << 10
    documents_body: int = 32 << 20
    bodies: int = 64 << 20
    """Bodies of documents that are held at once; as much again for all others."""
    connections: int = 512
    documents: int = 1000
    k: int = 100
    query: int = 8_000
    text: int = 1_000_000
    """Characters of the titles and texts of all hits of an answer."""
    pending: int = 100_000
    """Changes that may wait, in equal shares of the keys that may write."""
    metadata_keys: int = 900
    """Metadata keys of all documents of a collection that came over HTTP, shared by the keys that may write there."""


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """Everything that a server is started with. Raises UsageError if clients elsewhere could use it without a key."""

    collections: tuple[CollectionSpec, ...]
    host: str = "127.0.0.1"
    port: int = 8080
    keys: Keyring = field(default_factory=Keyring)
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    limits: RequestLimits = field(default_factory=RequestLimits)
    log_texts: bool = False
    trace_ratio: float = 0.0
    read_only: bool = False
    retriever_hosts: tuple[str, ...] = ()
    """Hosts that exported retrievers may contact, with the keys that are set for them."""
    budget: float | None = None
    """US dollars that the server may pay from its start on, for all keys together."""
    cache: Path | None = None
    """The file that new answers of paid services are kept in, in place of the index."""

    def __post_init__(self) -> None:
        if self.exposed and not self.keys.guards("read"):
            raise UsageError(
                f"Clients on other machines could use {self.host}:{self.port} without a key. Set RAGINDEX_READ_KEY, "
                "or give --keys FILE with a key that may read, or serve on --host 127.0.0.1 without --allow-host."
            )
        for spec in self.collections:
            stated = self.keys.stated_metadata_keys(spec.name)
            if stated > self.limits.metadata_keys:
                raise UsageError(
                    f"The `metadata_keys` of the keys that may write into {spec.name!r} are {stated} together, of "
                    f"{self.limits.metadata_keys} at most: one key could use up those of another."
                )
        if not 0 <= self.trace_ratio <= 1:
            raise UsageError(f"--trace must be a share in the range [0, 1]. Got {self.trace_ratio} instead.")

    @property
    def exposed(self) -> bool:
        """Whether clients on other machines can reach the server, directly or through a proxy with its own name."""
        return not is_loopback(self.host) or bool(self.allowed_hosts)

    def accepts_host(self, name: str) -> bool:
        """Return whether a Host header may have this name. A rebound DNS name is none of these.

        Where the server listens on more than loopback addresses, any address in digits will do.
        """
        if name in (*LOOPBACK_NAMES, self.host.lower(), *(host.lower() for host in self.allowed_hosts)):
            return True
        return not is_loopback(self.host) and _is_address(name)


@cache
def is_loopback(host: str) -> bool:
    """Return whether an address to bind is reached only from this machine."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def parse_collections(options: Sequence[str], methods: Sequence[str]) -> tuple[CollectionSpec, ...]:
    """Parse `FOLDER` and `NAME=FOLDER`; methods are `METHOD`, for all collections, or `NAME=METHOD`.

    The name of a folder without one is its last part. An exported retriever has its own method. Raises UsageError for
    names that are invalid or given twice.
    """
    collections = [_parse_collection(text) for text in options]
    names = [name for name, _ in collections]
    for name in names:
        if _NAME.fullmatch(name) is None or names.count(name) > 1:
            raise UsageError(
                f"A collection's name must be unique, of at most 64 letters, digits and . _ -. Got {name!r}. "
                "Write NAME=FOLDER."
            )
    named_methods = [
        (match[1], match[2]) if (match := _NAMED.fullmatch(method)) else ("", method) for method in methods
    ]
    for name, method in named_methods:
        if name and name not in names:
            raise UsageError(f"--method {name}={method} names no collection. Available: {', '.join(names)}.")
    return tuple(_make_spec(name, folder, named_methods) for name, folder in collections)


def _parse_collection(option: str) -> tuple[str, Path]:
    match = _NAMED.fullmatch(option)
    if match is not None:
        return match[1], Path(match[2])
    return Path(option).resolve().name.removesuffix(ARCHIVE_SUFFIX), Path(option)


def _make_spec(name: str, folder: Path, named_methods: Sequence[tuple[str, str]]) -> CollectionSpec:
    """Make a specification; methods without a name are for all collections but exported ones."""
    if folder.is_file() or (folder / RETRIEVER_FILE).is_file():
        for method in (method for collection, method in named_methods if collection == name):
            raise UsageError(f"{folder} is an exported retriever with a method of its own: leave out {name}={method}.")
        return CollectionSpec(name, folder, (), exported=True)
    methods = tuple(method for collection, method in named_methods if collection in ("", name))
    return CollectionSpec(name, folder, methods or (DEFAULT_METHOD,))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
