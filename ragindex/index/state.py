"""The state of an open index: its folder, store, encoder and LLM, and the finished sync that readers are pinned to."""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragindex._util import durable_files
from ragindex.encoders.vector_cache import CachedEncoder
from ragindex.errors import DamagedError, MissingPartError, StoreError, UsageError, WriterBusyError
from ragindex.index.documents import DOCUMENT_SCHEMA, Documents
from ragindex.index.leases import ReaderLease, ReaderState, state_of, take_lease
from ragindex.index.manifest import Manifest, PartRecord, current_values, read_manifest, write_command, write_manifest
from ragindex.index.models import Encoders, Model
from ragindex.index.parts import (
    KeyInputs,
    imported_path,
    paid_by,
    part_key,
    parts_of,
    tasks_of,
    topological_order,
    uses_encoder,
)
from ragindex.index.readings import forget_readers
from ragindex.interfaces import Collection, Part, Scheme, Store, StorePlugin
from ragindex.interfaces.llm import LLM, LLMPlugin, PaidPlugin
from ragindex.plugins import registry
from ragindex.plugins.base import Plugin
from ragindex.plugins.registry import PluginSpec
from ragindex.stores.metered import MeteredCollection
from ragindex.types import Chunking

_BUSY_SECONDS = 0.2
INDEXING = "ragindex index or compare"
"""The lease owner that may recreate a lost documents collection, where a repair cannot."""


@dataclass(eq=False, repr=False)
class IndexState:
    """What all operations on an open index share. `ragindex.index.index.Index` adds the operations."""

    folder: Path
    manifest: Manifest
    store_plugin: StorePlugin
    store: Store
    encoders: Encoders
    model: Model
    seed: int = 0
    read_only: bool = False
    wait_seconds: float = 0.0
    opened: dict[str, Any] = field(default_factory=dict)
    _lease: ReaderLease | None = None
    _pinned: ReaderState | None = None
    _writing_thread: int | None = None

    def __post_init__(self) -> None:
        self.pin()

    @property
    def language(self) -> str:
        """The language used for text analysis."""
        return self.manifest.settings.language

    @property
    def chunking(self) -> Chunking | None:
        """The chunking of documents into passages; None if every document is one passage."""
        settings = self.manifest.settings
        return None if settings.by is None else Chunking(settings.size, settings.overlap or 0, settings.by)

    @property
    def documents(self) -> Documents:
        """The current documents, indexed or not, read-only. The collection holds a lease on the version it reads.

        Raises StoreError if the documents collection is lost.
        """
        lease, version = None, self.store.version("documents")
        while version is not None and lease is None:
            taken = take_lease(self.folder, ReaderState({"documents": version}), read_only=self.read_only)
            newest = self.store.version("documents")
            lease, version = (taken if newest == version else None), newest  # retry if a writer was faster
        if version is None:
            raise self.lost()
        collection = self.store.open("documents", version)
        self._require_known(collection)
        return Documents(MeteredCollection(collection, lease), self.chunking)

    @property
    def encoder(self) -> CachedEncoder:
        """The encoder of the last finished sync, for queries. Raises MissingPartError if it is not fitted yet."""
        return self.encoders.open(self.encoder_id)

    @property
    def encoder_id(self) -> str | None:
        """The id of the encoder of the last finished sync; None if no sync has used the encoder."""
        return self.manifest.encoders.get(self.encoders.name)

    @property
    def llm(self) -> LLM:
        """The LLM for queries; its calls are cached."""
        return self.model.language

    def model_for(self, llm: PluginSpec | None = None) -> Model:
        """Return a language model with the cache, prices and budget of this index: its own where none is named.

        Example:
            index.model_for("openai:gpt-4o").language
        """
        plugin = self.model.plugin if llm is None else registry.llm(llm)
        if plugin == self.model.plugin:
            return self.model
        return Model(self.folder, plugin, self.model.setting, self.model.keep_calls)

    def built_with(self) -> dict[str, Any]:
        """Return the encoder, LLM and seed that a sync builds with, as the manifest has them."""
        encoder, llm = registry.describe(self.encoders.plugin), registry.describe(self.model.plugin)
        return {"encoder": encoder, "llm": llm, "seed": self.seed}

    def is_current(self) -> bool:
        """Return whether the index was opened with its own encoder, LLM and seed."""
        return self.built_with().items() <= current_values(self.manifest).items()

    def command(self, name: str, *arguments: object) -> str:
        """Return a command on this index, which names the encoder, LLM, store and seed that are not the index's own."""
        used = {
            "encoder": self.encoders.plugin,
            "llm": self.model.plugin,
            "store": self.store_plugin,
            "seed": self.seed,
        }
        return write_command(self.folder, self.manifest, used, name, *arguments)

    def key(self, part: Part[Any], encoder: str | None) -> str:
        """Return the key of a part that is built with the encoder id `encoder`."""
        return part_key(part, self.key_inputs(encoder))

    def key_inputs(self, encoder: str | None) -> KeyInputs:
        """Return what parts are built with now: encoder id, LLM id, seed and imported files."""
        return KeyInputs(encoder, self.model.id, self.seed, self.manifest.imports)

    def all_parts(self, scheme: Scheme | Part[Any]) -> tuple[Part[Any], ...]:
        """Return the parts of a scheme, or a part, and their inputs without duplicates, inputs first."""
        return tuple(topological_order(parts_of(scheme)))

    def pinned_encoder(self, part: Part[Any]) -> str | None:
        """Return the id of the encoder that the finished part was built with, or None if it uses no encoder."""
        return (self.encoder_id or "not fitted") if uses_encoder(part) else None

    def record(self, part: Part[Any]) -> PartRecord:
        """Return the record of a finished part. Raises MissingPartError, with the command that builds it."""
        record = self.manifest.parts.get(self.key(part, self.pinned_encoder(part)))
        if record is None:
            encoder = f" with the encoder {self.encoders.name}" if uses_encoder(part) else ""
            raise MissingPartError(
                f"The part {registry.label(part)} is not built{encoder} in {self.folder}. "
                f"Run: {self.command('index', '--methods', 'METHOD')}"
            )
        return record

    def imported(self, part: Part[Any]) -> Path | None:
        """Return the index's copy of the file that the part is imported from, or None if it is not imported."""
        digest = self.key_inputs(None).imported(part)
        return None if digest is None else imported_path(self.folder, digest)

    def corpus_moved(self) -> bool:
        """Return whether documents have changed since the last finished sync."""
        moved = (self.store.version("documents") or 0) != self.manifest.documents_version
        return moved or self.manifest.rechunking

    @contextmanager
    def writing(self, owner: str) -> Iterator[Documents]:
        """Hold the writer's lease and yield the documents, writable. Raises WriterBusyError, StoreError, UsageError."""
        with self.writer(owner):
            self.reload()
            if self.manifest.documents and self.store.version("documents") is None:
                # An empty collection would look like a corpus without documents; what is left may be the only copy.
                if owner != INDEXING or self.store.keeps_files:
                    raise self.lost()
                # The new collection may reach the version number of the lost one.
                sources = dict(forget_readers(self.manifest.sources))
                self.save(documents_version=0, documents_identity="", sources=sources)
            collection = self.store.create("documents", DOCUMENT_SCHEMA)
            self._require_known(collection)
            documents = Documents(collection, self.chunking)
            if self.manifest.rechunking:  # a change of the chunking was interrupted
                documents.rechunk()
                self.save(rechunking=False)
            yield documents

    @contextmanager
    def writer(self, owner: str) -> Iterator[None]:
        """Hold the writer's lease, for which it waits up to `wait_seconds`. Raises UsageError if it may not write.

        Within a block that holds it, such as a round of an update, it is held already.
        """
        if self.holds_lease:
            yield
            return
        if self.read_only:
            raise UsageError(f"The index {self.folder} was opened with read_only=True. Open it without, to change it.")
        end = time.monotonic() + self.wait_seconds
        with ExitStack() as lease:
            while True:
                try:
                    lease.enter_context(self.store.lease(owner))
                    break
                except WriterBusyError:
                    if time.monotonic() >= end:
                        raise
                time.sleep(_BUSY_SECONDS)
            self._writing_thread = threading.get_ident()
            try:
                yield
            finally:
                self._writing_thread = None

    @property
    def holds_lease(self) -> bool:
        """Whether this thread holds the writer's lease."""
        return self._writing_thread == threading.get_ident()

    def _require_known(self, collection: Collection) -> None:
        """Raise DamagedError unless the newest documents are those of the last finished sync, or a later state."""
        known = self.manifest.documents_identity in ("", collection.identity)
        if not known or collection.version < self.manifest.documents_version:
            raise DamagedError(
                f"The store of the index {self.folder} has other documents than the last finished sync, or an earlier "
                f"state of them, as after a partial restore. {durable_files.repair_hint(self.folder)}"
            )

    def pin_documents(self, collection: Collection) -> None:
        """Pin readers to a new collection of the documents, which a repair has made."""
        self.save(
            documents_version=collection.version,
            documents_identity=collection.identity,
            documents=collection.count(),
            sources=dict(forget_readers(self.manifest.sources)),
        )

    def lost(self) -> StoreError:
        """Return the error for an index whose documents collection is lost."""
        rescues = self.store.keeps_files
        command = durable_files.repair_hint(self.folder) if rescues else f"Run: {self.command('index', 'DATA')}"
        return StoreError(f"The store of the index {self.folder} has lost its documents. {command}")

    def save(self, **changes: Any) -> None:
        """Replace fields of the manifest, write it durably, and pin this index to the new state."""
        changed = self.manifest.model_copy(update=changes)
        if changed != self.manifest:
            write_manifest(self.folder, changed)
            self.manifest = changed
            self.pin()

    def reload(self) -> None:
        """Read the manifest again; if another process has changed it, close the opened parts and pin the new state."""
        fresh = read_manifest(self.folder) or self.manifest
        if fresh != self.manifest:
            self.opened.clear()
            self.manifest = fresh
            self.pin()

    def pin(self) -> ReaderLease:
        """Return a lease on the state in the manifest, which keeps it on disk while this index or a part uses it."""
        while self._lease is None or self._pinned != state_of(self.manifest):
            self._pinned = state_of(self.manifest)
            self._lease = take_lease(self.folder, self._pinned, read_only=self.read_only)
            fresh = read_manifest(self.folder) or self.manifest
            if fresh != self.manifest:  # a writer may have looked for leases before this one existed
                self.opened.clear()
                self.manifest = fresh
        return self._lease

    def close(self) -> None:
        """Release the opened parts and the lease on the state that is read. Open retrievers keep working."""
        self.opened.clear()
        self._lease = None

    # ------------------------------------------------------------ paid services

    def asks_llm(self, *plugins: Scheme | Part[Any]) -> bool:
        """Return whether `plugins` or their parts call an LLM (or the offline rules). Imported parts do not."""
        return any(
            (isinstance(plugin, Scheme) and tasks_of(plugin))
            or any("model" in part.uses and self.imported(part) is None for part in topological_order(parts_of(plugin)))
            for plugin in plugins
        )

    def may_cost(self, *plugins: Scheme | Part[Any]) -> bool:
        """Return whether a question to `plugins` may cost money: they ask an LLM, or anything else that is paid."""
        return self.asks_llm(*plugins) or any(True for _ in self._find_paid_plugins(plugins))

    def unpriced(self, plugins: Iterable[Scheme | Part[Any]], *, also: LLMPlugin | None = None) -> dict[str, str]:
        """Return a message for each paid service that `plugins` would call and that has no price, by service label.

        `also` is an LLM that is called besides, such as the one that reads retrieved passages. Sends no request.
        """
        prices = self.model.setting.prices
        paid = self._find_paid_plugins(tuple(plugins), also)
        return {
            registry.label(plugin): missing for plugin in paid if (missing := plugin.price_missing(prices)) is not None
        }

    def require_prices(self, plugins: Iterable[Scheme | Part[Any]], *, also: LLMPlugin | None = None) -> None:
        """Raise UsageError if there is a budget and a paid service that `plugins`, or `also`, call has no price."""
        if self.model.setting.budget is not None:
            for missing in self.unpriced(plugins, also=also).values():
                raise UsageError(missing)

    def _find_paid_plugins(
        self, plugins: tuple[Scheme | Part[Any], ...], also: LLMPlugin | None = None
    ) -> Iterator[PaidPlugin]:
        parts = topological_order(part for plugin in plugins for part in parts_of(plugin))
        yield from (paid for plugin in (*plugins, *parts) for paid in paid_by(plugin))
        models: list[Plugin | None] = [self.model.plugin if self.asks_llm(*plugins) else None, also]
        yield from (model for model in models if isinstance(model, PaidPlugin))
        if any("encoder" in part.uses for part in parts) and isinstance(self.encoders.plugin, PaidPlugin):
            yield self.encoders.plugin
