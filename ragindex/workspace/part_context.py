"""What a part may use while it is built, and what when it is opened."""

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

_LONGEST_REASON = 300


@dataclass(slots=True, kw_only=True)
class _Context:
    """What building a part and opening it share (ragindex.interfaces.PartContext)."""

    key: str
    store: Store
    documents: Documents
    root: Path
    language: str
    open_inputs: Callable[[], tuple[Any, ...]]
    open_encoder: Callable[[], Encoder]
    _collections: dict[str, Collection] = field(default_factory=dict)
    _inputs: tuple[Any, ...] | None = None

    @property
    def folder(self) -> Path:
        """The part's folder, created when it is first asked for."""
        folder = self.root / "parts" / self.key
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The input parts, opened when first asked for."""
        if self._inputs is None:
            self._inputs = self.open_inputs()
        return self._inputs

    @property
    def encoder(self) -> Encoder:
        """The index's encoder."""
        return self.open_encoder()

    def passages(self, ids: Sequence[str]) -> pa.RecordBatch:
        """Passages of the corpus."""
        return self.documents.passages(ids)


@dataclass(slots=True, kw_only=True)
class PartReadContext(_Context):
    """See ragindex.interfaces.ReadContext.

    `version_of` gives the version of a collection that readers are pinned to. Opened collections hold `lease`, which
    keeps that version from being removed. `identities` are those of the collections at that version, where known.
    """

    version_of: Callable[[str], int | None]
    identities: Mapping[str, str] = field(default_factory=dict)
    lease: ReaderLease | None = None

    def collection(self, name: str) -> Collection:
        """A collection at its pinned version. Raises MissingPartError if no sync has finished it."""
        if name not in self._collections:
            version = self.version_of(name)
            if version is None:
                raise MissingPartError(f"The part {self.key} has no collection {name!r}. Run: ragindex index")
            opened = open_pinned(self.store, f"{self.key}.{name}", version, self.identities.get(name))
            self._collections[name] = MeteredCollection(opened, self.lease)
        return self._collections[name]


@dataclass(slots=True, kw_only=True)
class PartBuildContext(_Context):
    """See ragindex.interfaces.BuildContext. `failures` are the reasons by passage id; `notes` the sentences."""

    seed: int
    open_llm: Callable[[], LLM]
    imported: Path | None = None
    failures: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def llm(self) -> LLM:
        """The index's LLM."""
        return self.open_llm()

    def collection(self, name: str, schema: Schema) -> Collection:
        """The newest state of a collection, writable."""
        if name not in self._collections:
            self._collections[name] = self.store.create(f"{self.key}.{name}", schema)
        return self._collections[name]

    def failed(self, id: str, reason: str) -> None:
        """Stored until the batch is covered, and with the part."""
        self.failures[id] = reason[:_LONGEST_REASON]

    def note(self, sentence: str) -> None:
        """Stored with the part."""
        self.notes.append(sentence)

    def reopened(self) -> "PartBuildContext":
        """The same context with its collections and inputs opened again, so that earlier writes are visible."""
        return replace(self, _collections={}, _inputs=None)

    def newest(self) -> PartReadContext:
        """The context in which parts that are made from this one open it: its newest state."""
        return PartReadContext(
            key=self.key,
            store=self.store,
            documents=self.documents,
            root=self.root,
            language=self.language,
            open_inputs=self.open_inputs,
            open_encoder=self.open_encoder,
            version_of=lambda name: self.store.version(f"{self.key}.{name}"),
        )


def open_pinned(store: Store, name: str, version: int, identity: str | None) -> Collection:
    """A collection at a version, where it is the one of that identity (None: whichever it is). Raises StoreError."""
    collection = store.open(name, version)
    if identity is not None and collection.identity != identity:
        raise StoreError(
            f"The collection {name} was damaged or lost and has been rebuilt since this index was opened. "
            "Open the index again; if that does not help, run: ragindex index"
        )
    return collection
