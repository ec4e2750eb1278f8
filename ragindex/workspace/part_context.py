"""Where a part lives while it is built or opened, and the meters on what it uses there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from ragindex.errors import MissingPartError, StoreError
from ragindex.interfaces import Collection, Encoder, Schema, Store
from ragindex.llm.tasks import LLM
from ragindex.stores.metered import MeteredCollection
from ragindex.workspace.documents import Documents
from ragindex.workspace.reader_leases import Lease

_LONGEST_REASON = 300


@dataclass(slots=True)
class PartSite:
    """See ragindex.interfaces.Site. `pinned` is None while building; for readers, each collection's version, which
    `lease` keeps from being removed: collections hold it for as long as they are used. `identities` are theirs.
    """

    key: str
    store: Store
    documents: Documents
    root: Path
    language: str
    seed: int
    open_inputs: Callable[[], tuple[Any, ...]]
    open_encoder: Callable[[], Encoder]
    open_llm: Callable[[], LLM]
    imported: Path | None = None
    pinned: Mapping[str, int] | None = None
    identities: Mapping[str, str] = field(default_factory=dict)
    lease: Lease | None = None
    failures: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _collections: dict[str, Collection] = field(default_factory=dict)
    _inputs: tuple[Any, ...] | None = None

    @property
    def folder(self) -> Path:
        """Made when it is first asked for."""
        folder = self.root / "parts" / self.key
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def inputs(self) -> tuple[Any, ...]:
        """Opened when first asked for."""
        if self._inputs is None:
            self._inputs = self.open_inputs()
        return self._inputs

    @property
    def encoder(self) -> Encoder:
        """The workspace's encoder."""
        return self.open_encoder()

    @property
    def llm(self) -> LLM:
        """The workspace's language model."""
        return self.open_llm()

    def failed(self, id: str, reason: str) -> None:
        """Kept until the batch is covered, and with the part."""
        self.failures[id] = reason[:_LONGEST_REASON]

    def note(self, sentence: str) -> None:
        """Kept with the part."""
        self.notes.append(sentence)

    def collection(self, name: str, schema: Schema | None = None) -> Collection:
        """Raises MissingPartError where a reader asks for a collection that no sync has finished."""
        if name not in self._collections:
            self._collections[name] = self._open(name, schema)
        return self._collections[name]

    def reopened(self) -> "PartSite":
        """The same place with its collections opened afresh: what was written before is seen."""
        return replace(self, _collections={}, _inputs=None)

    def passages(self, ids: Sequence[str]) -> pa.RecordBatch:
        """Passages of the corpus."""
        return self.documents.passages(ids)

    def _open(self, name: str, schema: Schema | None) -> Collection:
        full = f"{self.key}.{name}"
        if self.pinned is None and schema is not None:
            return self.store.create(full, schema)
        version = self.store.version(full) if self.pinned is None else self.pinned.get(name)
        if version is None:
            raise MissingPartError(f"The part {self.key} has no collection {name!r}. Run: ragindex index")
        return MeteredCollection(open_pinned(self.store, full, version, self.identities.get(name)), self.lease)


def open_pinned(store: Store, name: str, version: int, identity: str | None) -> Collection:
    """A collection at a version, where it is the one of that identity (None: whichever it is). Raises StoreError."""
    collection = store.open(name, version)
    if identity is not None and collection.identity != identity:
        raise StoreError(
            f"The collection {name} was damaged or lost, and has been made anew since this workspace was opened. "
            "Open the workspace again; if that does not help, run: ragindex index"
        )
    return collection
