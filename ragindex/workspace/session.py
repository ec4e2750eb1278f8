"""An open index folder: its engine, encoder and LLM, and the state that its readers are pinned to."""

import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragindex.corpus import Chunking
from ragindex.encoders.vector_cache import CachedEncoder
from ragindex.errors import MissingPartError, StoreError, UsageError
from ragindex.interfaces import Part, Store, StorePlugin
from ragindex.llm.tasks import LLM
from ragindex.plugins import registry
from ragindex.stores.metered import MeteredCollection
from ragindex.workspace import imported_files, reader_leases
from ragindex.workspace import manifest as manifests
from ragindex.workspace.documents import DOCUMENT_SCHEMA, Documents
from ragindex.workspace.encoder import Encoders
from ragindex.workspace.llm import Model
from ragindex.workspace.manifest import Manifest, PartRecord
from ragindex.workspace.part_keys import Means, part_key, uses_encoder
from ragindex.workspace.reader_leases import ReaderLease, ReaderState

INDEXING = "ragindex index or compare"
"""Who may make the collection of documents anew where it was lost."""


@dataclass
class Session:
    """What everything that is done with an open index shares; `Workspace` is its public side."""

    folder: Path
    manifest: Manifest
    store_plugin: StorePlugin
    store: Store
    encoders: Encoders
    model: Model
    seed: int = 0
    read_only: bool = False
    opened: dict[str, Any] = field(default_factory=dict)
    _lease: ReaderLease | None = None
    _pinned: ReaderState | None = None

    def __post_init__(self) -> None:
        self.pin()

    @property
    def language(self) -> str:
        """The language that texts are analysed in."""
        return self.manifest.settings.language

    @property
    def chunking(self) -> Chunking | None:
        """How documents are cut into passages; None: not at all."""
        settings = self.manifest.settings
        return None if settings.size is None else Chunking(settings.size, settings.overlap or 0)

    @property
    def documents(self) -> Documents:
        """The documents as they are now, indexed or not; to be read, and there as long as somebody does."""
        lease, version = None, self.store.version("documents")
        while version is not None and lease is None:
            held = reader_leases.take_lease(self.folder, ReaderState({"documents": version}), write=not self.read_only)
            newest = self.store.version("documents")
            lease, version = (held if newest == version else None), newest  # else a writer has gone on meanwhile
        if version is None:
            raise self.lost()
        return Documents(MeteredCollection(self.store.open("documents", version), lease), self.chunking)

    @property
    def encoder(self) -> CachedEncoder:
        """The encoder of the last finished sync, for questions. Raises MissingPartError before there was one."""
        return self.encoders.open(self.encoder_id)

    @property
    def encoder_id(self) -> str | None:
        """The id of that encoder; None where no sync has needed one."""
        return self.manifest.encoders.get(self.encoders.name)

    @property
    def llm(self) -> LLM:
        """The language model, for questions; its calls are kept."""
        return self.model.language

    def key(self, part: Part[Any], encoder: str | None) -> str:
        """The identity of a part made with the encoder of that id."""
        return part_key(part, self.means(encoder))

    def means(self, encoder: str | None) -> Means:
        """What parts are made with now."""
        return Means(encoder, self.model.id, self.seed, self.manifest.imports)

    def pinned_encoder(self, part: Part[Any]) -> str | None:
        """The id of the encoder behind the finished part, None where no encoder is used."""
        if not uses_encoder(part):
            return None
        return self.manifest.encoders.get(self.encoders.name) or "not fitted"

    def record(self, part: Part[Any]) -> PartRecord:
        """The record of a finished part. Raises MissingPartError with the command that builds it."""
        record = self.manifest.parts.get(self.key(part, self.pinned_encoder(part)))
        if record is None:
            encoder = f" with the encoder {self.encoders.name}" if uses_encoder(part) else ""
            raise MissingPartError(
                f"The part {registry.label(part)} is not built{encoder} in {self.folder}. "
                f"Run: ragindex index --index {self.folder} --methods METHOD"
            )
        return record

    def imported(self, part: Part[Any]) -> Path | None:
        """The file that the part is imported from, None where there is none."""
        digest = self.means(None).imported(part)
        return None if digest is None else imported_files.imported_path(self.folder, digest)

    def corpus_moved(self) -> bool:
        """Whether documents were changed since the last finished sync."""
        return (self.store.version("documents") or 0) != self.manifest.documents_version

    @contextmanager
    def writing(self, owner: str) -> Iterator[Documents]:
        """Hold the writer's lease; gives the documents, writable. Raises WriterBusyError, StoreError, UsageError."""
        with self.writer(owner):
            self.reload()
            if self.manifest.documents and self.store.version("documents") is None:
                if owner != INDEXING:  # an empty collection would be taken for a corpus without documents
                    raise self.lost()
                self.save(documents_version=0)  # that of the collection to come may be the number of the lost one's
            yield Documents(self.store.create("documents", DOCUMENT_SCHEMA), self.chunking)

    def writer(self, owner: str) -> AbstractContextManager[None]:
        """The writer's lease. Raises UsageError where this workspace was opened to be read."""
        if self.read_only:
            raise UsageError(f"The index {self.folder} was opened with read_only=True. Open it without, to change it.")
        return self.store.lease(owner)

    def lost(self) -> StoreError:
        """The error for an index whose collection of documents is gone."""
        return StoreError(
            f"The store of the index {self.folder} has lost its documents. "
            f"Run: ragindex index DATA --index {shlex.quote(str(self.folder))}"
        )

    def save(self, **changes: Any) -> None:
        """Replace fields of the manifest, durably, and pin readers to what it names."""
        changed = self.manifest.model_copy(update=changes)
        if changed != self.manifest:
            manifests.write_manifest(self.folder, changed)
            self.manifest = changed
            self.pin()

    def reload(self) -> None:
        """See what other processes have finished since: parts are then opened anew."""
        fresh = manifests.read_manifest(self.folder) or self.manifest
        if fresh != self.manifest:
            self.opened.clear()
            self.manifest = fresh
            self.pin()

    def pin(self) -> ReaderLease:
        """Take the lease on what the manifest names, so that it stays as long as this workspace or a part is used."""
        while self._lease is None or self._pinned != reader_leases.state_of(self.manifest):
            self._pinned = reader_leases.state_of(self.manifest)
            self._lease = reader_leases.take_lease(self.folder, self._pinned, write=not self.read_only)
            fresh = manifests.read_manifest(self.folder) or self.manifest
            if fresh != self.manifest:  # a writer may have looked for leases before this one was there
                self.opened.clear()
                self.manifest = fresh
        return self._lease
