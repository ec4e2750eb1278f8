"""The contexts that a part gets when it is built and when it is opened."""

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
from ragindex.workspace.reader_leases import ReaderLease

_MAX_REASON_LENGTH = 300


@dataclass(slots=True, kw_only=True)
class _Context:
    """The common base of build and read contexts (ragindex.interfaces.PartContext)."""

    key: str
    store: Store
    open_documents: Callable[[], Documents]
    root: Path
    language: str
    open_inputs: Callable[[], tuple[Any, ...]]
    open_encoder: Callable[[], Encoder]
    _collections: dict[str, Collection] = field(default_factory=dict)
    _inputs: tuple[Any, ...] | None = None
    _documents: Documents | None = None

    @property
    def folder(self) -> Path:
        """The part's folder, created on first access."""
        folder = self.root / "parts" / self.key
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def documents(self) -> Documents:
        """The documents, opened on first access: a part that does not read them is searched though they are damaged."""
        if self._documents is None:
            self._documents = self.open_documents()
        return self._documents

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The input parts, opened on first access."""
        if self._inputs is None:
            self._inputs = self.open_inputs()
        return self._inputs

    @property
    def encoder(self) -> Encoder:
        """The index's encoder."""
        return self.open_encoder()

    def passages(self, ids: Sequence[str]) -> pa.RecordBatch:
        """Return the existing passages among `ids`, in the order of `ids`."""
        return self.documents.passages(ids)


@dataclass(slots=True, kw_only=True)
class PartReadContext(_Context):
    """The implementation of ragindex.interfaces.ReadContext.

    `version_of` returns the version of a collection that readers are pinned to. Opened collections hold `lease`, which
    prevents that version from being removed. `identities` are the identities of the collections at that version, if
    known.
    """

    version_of: Callable[[str], int | None]
    identities: Mapping[str, str] = field(default_factory=dict)
    lease: ReaderLease | None = None

    def collection(self, name: str) -> Collection:
        """Open a collection at its pinned version. Raises MissingPartError if no sync has finished it."""
        if name not in self._collections:
            version = self.version_of(name)
            if version is None:
                raise MissingPartError(f"The part {self.key} has no collection {name!r}. Run: ragindex index")
            opened = open_pinned(self.store, f"{self.key}.{name}", version, self.identities.get(name))
            self._collections[name] = MeteredCollection(opened, self.lease)
        return self._collections[name]


@dataclass(slots=True, kw_only=True)
class PartBuildContext(_Context):
    """The implementation of ragindex.interfaces.BuildContext; `failures` maps passage ids to reasons."""

    seed: int
    open_llm: Callable[[], LLM]
    imported: Path | None = None
    failures: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)

    @property
    def llm(self) -> LLM:
        """The index's LLM."""
        return self.open_llm()

    def collection(self, name: str, schema: Schema) -> Collection:
        """Open the newest state of a collection for writing, creating it if needed."""
        if name not in self._collections:
            self._collections[name] = self.store.create(f"{self.key}.{name}", schema)
        return self._collections[name]

    def failed(self, id: str, reason: str) -> None:
        """Record that a passage could not be built, and why. The reason is stored with the part."""
        self.failures[id] = reason[:_MAX_REASON_LENGTH]

    def note(self, sentence: str, *, detail: bool = False) -> None:
        """Add a note, or a detail, which is stored with the part."""
        (self.details if detail else self.notes).append(sentence)

    def reopened(self) -> "PartBuildContext":
        """Return a copy of the context that opens collections and inputs again, so that earlier writes are visible."""
        return replace(self, _collections={}, _inputs=None)

    def newest(self) -> PartReadContext:
        """Return the context in which dependent parts open this part at its newest state."""
        return PartReadContext(
            key=self.key,
            store=self.store,
            open_documents=lambda: self.documents,
            root=self.root,
            language=self.language,
            open_inputs=self.open_inputs,
            open_encoder=self.open_encoder,
            version_of=lambda name: self.store.version(f"{self.key}.{name}"),
        )


def open_pinned(store: Store, name: str, version: int, identity: str | None) -> Collection:
    """Open a collection at a version. Raises StoreError if it does not have the given identity (None: any)."""
    collection = store.open(name, version)
    if identity is not None and collection.identity != identity:
        raise StoreError(
            f"The collection {name} was damaged or lost and has been rebuilt since this index was opened. "
            "Open the index again; if that does not help, run: ragindex index"
        )
    return collection
