"""API keys: who may read, write or judge, in which collections and documents, and what they may spend.

Secrets come from environment variables or files, never from the command line. Only their hashes are kept.
"""

import hashlib
import hmac
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ragindex._util.http import read_secret
from ragindex.accounting import ledger
from ragindex.accounting.ledger import Tally
from ragindex.errors import BudgetError, UsageError
from ragindex.filters import Filter, document_fields, fields, from_mapping, passes
from ragindex.llm.budget import Booking, Budget, reserve_money
from ragindex.serve.refusals import RefusalError, ServerBudgetError
from ragindex.serve.telemetry import ServerMetrics
from ragindex.types import Document, Hit, Metadata

Right: TypeAlias = Literal["read", "write", "judge"]
RIGHTS: tuple[Right, ...] = ("read", "write", "judge")
_SHORTEST_SECRET = 16  # characters


@dataclass(frozen=True, slots=True)
class AccessKey:
    """A key: its rights, the collections it opens (None: all), and the filter that its documents pass (None: all).

    `budget` caps what its requests may spend on paid services since the server started; None is no cap. `id_prefix`
    begins the ids of all documents that it writes. `metadata_keys` is how many metadata keys its documents may have
    together in a collection; None is an equal share of what other keys have not for themselves.
    """

    name: str
    rights: frozenset[Right]
    collections: frozenset[str] | None = None
    where: Filter | None = None
    budget: Budget | None = None
    id_prefix: str = ""
    metadata_keys: int | None = None
    digest: bytes = field(default=b"", repr=False)

    @property
    def limited(self) -> bool:
        """Whether there are collections or documents that the key may not see."""
        return self.collections is not None or self.where is not None

    def opens(self, collection: str) -> bool:
        """Return whether the key may use a collection."""
        return self.collections is None or collection in self.collections


LOCAL = AccessKey("local", frozenset({"read"}))
"""What a client without a key may do on a loopback address, if no key has the right to read."""


@dataclass(frozen=True, slots=True)
class Keyring:
    """All keys of a server."""

    keys: tuple[AccessKey, ...] = ()

    def __len__(self) -> int:
        return len(self.keys)

    def find(self, secret: str) -> AccessKey | None:
        """Return the key with this secret. Compares with every key, in a time that does not depend on the secret."""
        digest = _digest(secret)
        matching = [key for key in self.keys if hmac.compare_digest(key.digest, digest)]
        return matching[0] if matching else None

    def continue_from(self, before: "Keyring") -> "Keyring":
        """Return these keys, whose budgets go on from those that keys of the same names had before."""
        budgets = {key.name: key.budget for key in before.keys if key.budget is not None}
        return Keyring(tuple(_continue_budget(key, budgets.get(key.name)) for key in self.keys))

    @property
    def capped(self) -> bool:
        """Whether there is a cap on what some key may pay."""
        return any(key.budget is not None for key in self.keys)

    def guards(self, right: Right) -> bool:
        """Return whether some key has this right."""
        return any(right in key.rights for key in self.keys)

    def writers(self, collection: str) -> list[AccessKey]:
        """Return the keys that may write into a collection."""
        return [key for key in self.keys if "write" in key.rights and key.opens(collection)]

    def stated_metadata_keys(self, collection: str) -> int:
        """Return how many metadata keys are set apart in a collection for keys with a number of their own."""
        return sum(key.metadata_keys or 0 for key in self.writers(collection))

    def share_metadata_keys(self, key: AccessKey, collection: str, most: int) -> int:
        """Return how many of `most` metadata keys a key has: its own number, or an equal share of what those leave."""
        if key.metadata_keys is not None:
            return key.metadata_keys
        sharing = sum(writer.metadata_keys is None for writer in self.writers(collection))
        return max(0, most - self.stated_metadata_keys(collection)) // max(1, sharing)


def _continue_budget(key: AccessKey, before: Budget | None) -> AccessKey:
    if key.budget is None or before is None:
        return key
    before.limit = key.budget.limit
    return replace(key, budget=before)


class _KeyEntry(BaseModel):
    """An entry of the file of keys."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(min_length=1, max_length=64, pattern=r"^[\w.-]+$")
    rights: list[Right] = Field(min_length=1)
    variable: str = ""
    file: str = ""
    collections: list[str] | None = None
    filter: dict[str, Any] | None = None
    budget: float | None = Field(default=None, gt=0)
    id_prefix: str = Field(default="", max_length=256, pattern=r"^([A-Za-z0-9_.-]+/)*$")
    metadata_keys: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _names_one_secret(self) -> "_KeyEntry":
        if bool(self.variable) == bool(self.file):
            raise ValueError("give the secret by 'variable' (of the environment) or by 'file', one of them")
        return self


def load_keyring(file: Path | None, collections: Sequence[str]) -> Keyring:
    """Read the keys of a TOML file, and those of RAGINDEX_READ_KEY, RAGINDEX_WRITE_KEY and RAGINDEX_JUDGE_KEY.

    Each of these variables may be replaced by one with the suffix _FILE that names a file. Raises UsageError.
    """
    keys = [] if file is None else [_make_key(entry, file, collections) for entry in _read_entries(file)]
    for right in RIGHTS:
        secret = read_secret([f"RAGINDEX_{right.upper()}_KEY"])
        if secret is not None:
            keys.append(AccessKey(right, frozenset({right}), digest=_checked(secret, right)))
    names, digests = set[str](), set[bytes]()
    for key in keys:
        if key.name in names or key.digest in digests:
            raise UsageError(f"The key {key.name!r} is given twice, by its name or by its secret.")
        names.add(key.name)
        digests.add(key.digest)
    return Keyring(tuple(keys))


def _read_entries(file: Path) -> list[_KeyEntry]:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"The file of keys {file} cannot be read: {error}.") from error
    if set(content) != {"keys"} or not isinstance(content["keys"], list):
        raise UsageError(f"The file of keys {file} must consist of [[keys]] tables. Got {sorted(content)} instead.")
    try:
        return [_KeyEntry.model_validate(entry) for entry in content["keys"]]
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(f"The file of keys {file} is not valid: {place}: {first['msg']}.") from None


def _make_key(entry: _KeyEntry, file: Path, collections: Sequence[str]) -> AccessKey:
    unknown = sorted(set(entry.collections or ()) - set(collections))
    if unknown:
        known = ", ".join(collections)
        raise UsageError(f"The key {entry.name!r} names the collection {unknown[0]!r}. Available: {known}.")
    where = None if entry.filter is None else from_mapping(entry.filter)
    if where is not None and "passage_ids" in fields(where):
        raise UsageError(f"The filter of the key {entry.name!r} must use meta.KEY or doc_ids, not passage_ids.")
    return AccessKey(
        entry.name,
        frozenset(entry.rights),
        None if entry.collections is None else frozenset(entry.collections),
        where,
        None if entry.budget is None else Budget(entry.budget),
        entry.id_prefix,
        entry.metadata_keys,
        _checked(_read_key(entry, file), entry.name),
    )


def _read_key(entry: _KeyEntry, file: Path) -> str:
    if entry.variable:
        secret = read_secret([entry.variable])
        if secret is None:
            raise UsageError(f"The key {entry.name!r} reads the variable {entry.variable}, which is not set.")
        return secret
    path = file.parent / Path(entry.file).expanduser()
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The file of the key {entry.name!r}, {path}, cannot be read: {error}.") from None


def _checked(secret: str, name: str) -> bytes:
    """Return the hash of a secret. Raises UsageError, without the secret, if no header could hold it."""
    if len(secret) < _SHORTEST_SECRET or not (secret.isascii() and secret.isprintable() and " " not in secret):
        raise UsageError(
            f"The secret of the key {name!r} must be one word of at least {_SHORTEST_SECRET} printable ASCII "
            "characters. Make one with: openssl rand -hex 24"
        )
    return _digest(secret)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


def passing_documents(where: Filter | None, documents: Mapping[str, Metadata]) -> frozenset[str]:
    """Return the ids of the documents, given with their metadata, that pass the filter."""
    if where is None:
        return frozenset(documents)
    return frozenset(id for id, metadata in documents.items() if passes(where, document_fields(id, metadata)))


def keep_permitted(key: AccessKey, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Return the hits all of whose documents pass the filter of the key; hits of unknown documents do not.

    The filter has been part of the search already: this holds even where a method does not keep to it.
    """
    if key.where is None:
        return tuple(hits)
    known = {id: metadata for hit in hits for id, metadata in hit.metadata.items()}
    passing = passing_documents(key.where, known)
    return tuple(hit for hit in hits if hit.doc_ids and passing.issuperset(hit.doc_ids))


def require_writable_documents(key: AccessKey, documents: Sequence[Document]) -> None:
    """Raise RefusalError unless all documents pass the filter of the key, and their ids are its own."""
    for document in documents:
        require_own_id(key, document.id)
    passing = passing_documents(key.where, {document.id: document.metadata for document in documents})
    for document in documents:
        if document.id not in passing:
            raise RefusalError(
                403, f"The key may not write the document {document.id!r}: its filter excludes it.", "filter"
            )


def require_own_id(key: AccessKey, id: str) -> None:
    """Raise RefusalError unless an id begins as those that the key may write."""
    if not id.startswith(key.id_prefix):
        raise RefusalError(
            403, f"The key writes documents whose ids begin with {key.id_prefix!r}. Got {id!r}.", "id_prefix"
        )


_payer: ContextVar[Budget | None] = ContextVar("ragindex_payer", default=None)


class CallersBudget(Budget):
    """The budget of a server, and within it that of the key whose request is being answered; inf is no cap."""

    def __init__(self, limit: float = float("inf")) -> None:
        super().__init__(limit)

    @contextmanager
    def reserved(self, most: float) -> Iterator[Booking]:
        """Reserve money for one call from the caller's budget and the server's. Raises BudgetError."""
        with reserve_money(_payer.get(), lambda: most) as callers, super().reserved(most) as booking:
            try:
                yield booking
            finally:
                callers.pay(booking.paid)
                callers.lose(booking.possibly_charged)

    def _exhausted(self, most: float) -> BudgetError:
        return ServerBudgetError(f"The budget of the server, ${self.limit:.4f}, is used up: ${self.spent:.4f} paid.")


def callers_budget(keys: Keyring, limit: float | None = None) -> CallersBudget | None:
    """Return the budget to open indexes with, of `limit` US dollars for all keys together.

    It is None if neither the server nor a key has a cap, because a budget requires all prices.
    """
    return CallersBudget(float("inf") if limit is None else limit) if keys.capped or limit is not None else None


@contextmanager
def charge(key: AccessKey, metrics: ServerMetrics) -> Iterator[Tally]:
    """Charge paid calls inside, and in threads that copy the context, to the key.

    Yields what is paid. It is counted in the metrics, also if the request fails after it has paid.
    """
    token = _payer.set(key.budget)
    with ledger.record_calls() as paid:
        try:
            yield paid
        finally:
            _payer.reset(token)
            spent = paid.spent
            metrics.tokens.labels(key.name).inc(spent.input_tokens + spent.output_tokens)
            metrics.dollars.labels(key.name).inc(spent.money or 0.0)
