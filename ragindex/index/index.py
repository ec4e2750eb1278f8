"""The `Workspace` class: an index folder with a corpus, the parts built from it, and the caches.

Open a workspace, add documents, sync, and retrieve. The work is done in other modules: `sync` builds parts,
`corpus_changes` changes the documents, and `session` holds the shared state.
"""

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ragindex import canonical, mlflow_tracing
from ragindex.corpus import Chunking, Corpus
from ragindex.errors import (
    EngineError,
    StaleWarning,
    StoreError,
    UsageError,
)
from ragindex.interfaces import Part, Retriever, Scheme, Store
from ragindex.llm.cache import ResponseCache
from ragindex.llm.settings import LLMSettings
from ragindex.plugins import registry
from ragindex.plugins.registry import Written
from ragindex.stores.metered import MeteredCollection
from ragindex.types import Document, Usage
from ragindex.workspace import corpus_changes, disk_usage, imported_files, payments, sources
from ragindex.workspace import manifest as manifests
from ragindex.workspace import repair as mending
from ragindex.workspace.chunks import chunks_of
from ragindex.workspace.disk_usage import Disk
from ragindex.workspace.documents import DOCUMENT_SCHEMA, Changed, Documents
from ragindex.workspace.encoder import Encoders
from ragindex.workspace.llm import Model
from ragindex.workspace.manifest import IndexSettings, Manifest, PartRecord
from ragindex.workspace.part_context import PartReadContext, open_pinned
from ragindex.workspace.part_keys import (
    inputs_of,
    tasks_of,
    topological_order,
    uses_encoder,
)
from ragindex.workspace.positions import PassagePositions
from ragindex.workspace.session import Session
from ragindex.workspace.settings import current_values, require_seed, resolve_settings
from ragindex.workspace.sync import Synced, current_keys, drop_part, sync


@dataclass(frozen=True, slots=True)
class PartFigures:
    """The cost of a part as if it were built alone, without cached answers: seconds, tokens, and bytes on disk."""

    name: str
    seconds: float
    bytes: int
    search: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class CorpusCounts:
    """The number of documents and passages at the last finished sync."""

    documents: int
    passages: int


@dataclass
class Workspace(Session):
    """An open index folder, created by `Workspace.open`.

    Writing methods hold the writer's lease. Readers see the last finished sync.
    """

    @classmethod
    def open(
        cls,
        folder: Path | str,
        *,
        encoder: Written | None = None,
        llm: Written | None = None,
        store: Written | None = None,
        language: str | None = None,
        chunking: Chunking | Literal["default"] | None = "default",
        seed: int | None = None,
        asking: LLMSettings | None = None,
        keep_calls: bool = True,
        create: bool = True,
        read_only: bool = False,
        vectors: Path | None = None,
        wait_seconds: float = 0.0,
    ) -> "Workspace":
        """Open the workspace in `folder`; with `create`, create it if it does not exist.

        The language, chunking and store are set when the workspace is created; UsageError is raised if other values
        are given later (`rechunk` changes the chunking). The encoder, LLM and seed can change (default: the index's
        own; `lsa`, `offline` and 0 in a new workspace); other parts are then built next to the existing ones, and a
        `sync` makes them the index's own. `asking` sets prices and budget, and `keep_calls` whether LLM answers are
        cached. With `read_only`, nothing is written into the folder: no cached answers, and no lease file (a shared
        lock protects the data that is read).
        `vectors` is the file of cached vectors of another workspace, which is used instead of an own one.
        While another process writes, operations that write wait for it up to `wait_seconds`.
        Raises UsageError, NewerFormatError, WorkspaceError or StoreError.
        """
        folder = Path(folder)
        require_seed(seed or 0)
        may_create = create and not read_only
        held = manifests.read_manifest(folder) if may_create else manifests.require_manifest(folder)
        plugin = registry.store(store or current_values(held)["store"])
        settings = resolve_settings(folder, held, language, chunking, plugin)
        if held is None:
            _create_folder(folder)
        opened = plugin.open(folder / "store")
        if held is None:
            held = _create_manifest(folder, opened, settings, seed or 0)
            # Another process may have created the workspace in the meantime.
            settings = resolve_settings(folder, held, language, chunking, plugin)
        own = current_values(held)
        chosen = registry.encoder(encoder or own["encoder"])
        seed = own["seed"] if seed is None else seed
        asked = replace(asking or LLMSettings(), seed=seed)
        encoders = Encoders(folder, chosen, settings.language, seed, asked, vectors)
        asks = Model(folder, registry.llm(llm or own["llm"]), asked, keep_calls and not read_only)
        return cls(folder, held, plugin, opened, encoders, asks, seed, read_only, wait_seconds)

    def __enter__(self) -> "Workspace":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()
        if isinstance(error, EngineError):
            raise mending.with_repair_hint(error, self.folder) from error

    def close(self) -> None:
        """Release the opened parts and the lease on the state that is read. Open retrievers keep working."""
        self.opened.clear()
        self._lease = None

    # ------------------------------------------------------------ documents

    @mending.adds_repair_hint
    def add(self, documents: Corpus | Iterable[Corpus] | Iterable[Document], *, source: str = "") -> Changed:
        """Add documents, replacing those with the same id. Parts are updated by the next `sync`.

        A corpus read from a path belongs to the source of that path, and its ids are relative to the source's folder.
        A second folder needs a name, `source`, which becomes the prefix of its ids. Documents made by a program keep
        their ids, and `source` names their source (default: "program"). Raises UsageError, or WorkspaceError if another
        source already has a document with the same id; nothing is written in that case.
        """
        return corpus_changes.add_documents(self, documents, source=source)

    @mending.adds_repair_hint
    def remove(self, ids: Sequence[str]) -> Changed:
        """Remove documents by id. Raises UsageError, and removes nothing, if one of `ids` does not exist.

        A document that is still in its source file or folder comes back when that source is indexed again.
        """
        return corpus_changes.remove_documents(self, ids)

    @mending.adds_repair_hint
    def remove_source(self, name: str) -> Changed:
        """Remove a source and all its documents. Raises UsageError if there is no source with that name."""
        return corpus_changes.remove_source(self, name)

    @mending.adds_repair_hint
    def replace(
        self,
        documents: Corpus | Iterable[Document],
        *,
        source: str = "",
        announce: Callable[[Sequence[str]], None] = lambda gone: None,
    ) -> Changed:
        """Replace the documents of a source by `documents`; other sources stay as they are.

        `announce` is given the ids of the documents that leave the index, before anything is written.

        Sources and ids are assigned as in `add`. If `documents` come from a file or folder inside the folder of a
        source, only the documents below that path are replaced.
        """
        return corpus_changes.replace_source(self, documents, source=source, announce=announce)

    @mending.adds_repair_hint
    def rechunk(self, chunking: Chunking) -> Changed:
        """Split all documents by another chunking of the index; return how many have other passages than before.

        Parts over the index's passages are updated by the next `sync` that names them, where passages differ; those
        over other passages, and open readers, stay as they are. An interrupted change is finished by the next write.
        Raises UsageError for an index of whole documents.
        """
        return corpus_changes.rechunk_documents(self, chunking)

    def refit(self) -> None:
        """Have the next `sync` of a part with vectors fit the encoder to all documents again, and rebuild its vectors.

        Without it, an encoder is fitted again once the corpus has grown or shrunk by half. Raises UsageError for an
        encoder that is not fitted to the corpus.
        """
        with self.writer("ragindex index"):
            self.encoders.ask_refit()

    def sources(self) -> list[dict[str, str | int]]:
        """Return one row for each source: name, root, format, id prefix, and number of documents."""
        return sources.describe_sources(self.manifest.sources, Counter(self.documents.sources().values()))

    def counts(self) -> CorpusCounts:
        """Return the number of documents and passages at the last finished sync."""
        return CorpusCounts(self.manifest.documents, self.manifest.passages)

    # ------------------------------------------------------------ building

    @mending.adds_repair_hint
    def sync(self, plugins: Iterable[Scheme | Part[Any]] = ()) -> Synced:
        """Build or update the parts of `plugins`; without any, update all parts built with the current settings.

        Resumes an interrupted sync. Raises WriterBusyError, StoreError, or WorkspaceError if there are no documents.
        """
        return sync(self, plugins)

    def import_part(self, part: Written, file: Path) -> None:
        """Copy `file` into the workspace and use it as the content of `part` from now on.

        Raises DataError if the file cannot be read, and UsageError if the part cannot be imported from a file.
        """
        made = registry.part(part)
        if "import" not in made.uses:
            raise UsageError(f"The part {registry.label(made)} cannot be imported from a file.")
        made.check_import(file)
        name, digest = registry.name_of(made), imported_files.store_import(file, self.folder)
        with self.writer("ragindex index"):
            self.reload()
            before = current_keys(self)
            imported = self.manifest.model_copy(update={"imports": {**self.manifest.imports, name: digest}})
            replaced = before - current_keys(self, imported)  # built from another file; no sync would update them
            self.save(
                imports=imported.imports,
                imported_from={**self.manifest.imported_from, name: str(Path(file).resolve())},
                parts={key: record for key, record in self.manifest.parts.items() if key not in replaced},
                outdated=self.manifest.outdated | dict.fromkeys(sorted(replaced), time.time()),
                leftover=True,
            )

    def repair(self) -> mending.Findings:
        """Check everything in the index folder and remove what is damaged, so that the next `sync` rebuilds it."""
        with self.writer("ragindex repair"):
            self.reload()
            manifests.write_manifest(self.folder, self.manifest)  # rewrite both copies, in case one is damaged
            names = self.store.names()
            fit = self.encoders.damage(self.encoder_id)
            found = mending.find_damage(
                self.folder, self.manifest, self.store, fit, lambda key: drop_part(self, key, names), self.pin_documents
            )
        self.close()
        return found

    def find_changes(self) -> list[str]:
        """Return one sentence for the documents and for each part, if their files have changed. Reads all of them."""
        return mending.find_changes(self.folder, self.manifest, self.store)

    def disk(self) -> Disk:
        """Return the disk usage of the folder: bytes used by the last finished sync, and all other bytes."""
        return disk_usage.measure_disk(self.folder, self.store, self.manifest)

    # ------------------------------------------------------------ reading

    def retriever(self, scheme: Written) -> Retriever:
        """Return the retriever of a scheme, traced if tracing is on. Raises MissingPartError if a part is not built."""
        made = registry.scheme(scheme)
        return mlflow_tracing.trace_if_enabled(made.open(self), registry.label(made))

    def positions(self, scheme: Scheme) -> PassagePositions:
        """Return a lookup of where the hits of a built scheme stand in their documents."""
        lease, corpus = self.pin(), self.manifest.corpus
        parts = self.all_parts(scheme)
        current = all(self.record(part).corpus == corpus for part in parts)
        views = {one.mark: one for one in map(self._pinned_documents, parts)} if current else {}
        return PassagePositions(tuple(views.values()), lease)

    def at_newest(self) -> "Workspace":
        """Return the workspace at the newest finished sync; this one stays as it is.

        It has this one's store, encoder, LLM and seed; but if these are the index's own, and a sync has made others the
        index's own, it has those. Raises WorkspaceError if the index is gone.
        """
        newest = manifests.require_manifest(self.folder)
        moved = replace(self, manifest=newest, opened={}, _lease=None, _pinned=None)
        if moved.is_current() or not self.is_current():
            return moved
        return Workspace.open(
            self.folder,
            store=self.store_plugin,
            asking=self.setting,
            keep_calls=self.model.keep_calls,
            create=False,
            read_only=self.read_only,
        )

    def is_newest(self) -> bool:
        """Return whether no other process has changed the manifest since this workspace read it."""
        return manifests.read_manifest(self.folder) == self.manifest

    def finished_documents(self) -> Documents:
        """Return the documents of the last finished sync, read-only. Raises StoreError if they are lost."""
        version, identity = self.manifest.documents_version, self.manifest.documents_identity
        collection = open_pinned(self.store, "documents", version, identity)
        return Documents(MeteredCollection(collection, self.pin()), self.chunking)

    def open_positions(self, part: Part[Any]) -> PassagePositions:
        """Return a lookup of the passages that a part is made from. Raises MissingPartError if it is not built."""
        made = part.with_chunking(None)
        lease = self.pin()
        self.record(made)
        return PassagePositions((self._pinned_documents(made),), lease)

    def _pinned_documents(self, part: Part[Any]) -> Documents:
        """Return the documents with the passages that a part is made from."""
        documents = self.finished_documents()
        chunking = part.own_chunking()
        chunks = chunks_of(chunking)
        if chunking is None or chunks is None:
            return documents
        return documents.chunked(chunking, lambda: self.open_part(chunks))

    @mending.adds_repair_hint
    def open_part(self, part: Part[Any]) -> Any:
        """Return a part as of the last finished sync. Raises MissingPartError, with the command that builds it."""
        self.pin()
        part = part.with_chunking(None)
        key, record = self.key(part, self.pinned_encoder(part)), self.record(part)
        if record.corpus != self.manifest.corpus or self.corpus_moved():
            warnings.warn(
                f"The part {record.name} is older than the corpus. Run: {self.command('index')}",
                StaleWarning,
                stacklevel=2,
            )
        if key not in self.opened:
            self.opened[key] = part.open(self._read_context(part, key, record))
        return self.opened[key]

    def _read_context(self, part: Part[Any], key: str, record: PartRecord) -> PartReadContext:
        def open_inputs() -> tuple[Any, ...]:
            return tuple(self.open_part(source) for source in inputs_of(part))

        return PartReadContext(
            key=key,
            store=self.store,
            open_documents=lambda: self._pinned_documents(part),
            root=self.folder,
            language=self.language,
            open_inputs=open_inputs,
            open_encoder=lambda: self.encoder,
            version_of=record.collections.get,
            identities=record.identities,
            lease=self.pin(),
        )

    # ------------------------------------------------------------ figures of what was built

    def all_parts(self, scheme: Scheme) -> tuple[Part[Any], ...]:
        """Return the parts of a scheme and their inputs without duplicates, inputs first."""
        return tuple(topological_order(scheme.parts()))

    def encoder_of(self, scheme: Scheme) -> str | None:
        """Return the label of the encoder that the scheme searches with; None if no part of it uses one."""
        return self.encoder_name if any(map(uses_encoder, self.all_parts(scheme))) else None

    def figures(self, part: Part[Any]) -> PartFigures:
        """Return the cost of a part, without its inputs. Raises MissingPartError if it is not built."""
        record = self.record(part)
        opened = self.open_part(part)
        search = str(opened.describe()["search"]) if hasattr(opened, "describe") else ""
        usage = Usage(record.seconds, record.input_tokens, record.output_tokens, record.money, record.estimated)
        return PartFigures(record.name, record.seconds, record.bytes, search, usage)

    def fit_figures(self) -> PartFigures | None:
        """Return the cost of fitting the encoder, or None if the encoder is not fitted to the corpus."""
        fit = self.encoders.fit(self.encoder_id)
        if fit is None:
            return None
        name = f"{registry.label(self.encoders.plugin)} fit"
        return PartFigures(name, fit.seconds, fit.bytes, "", Usage(fit.seconds))

    def asks(self, scheme: Scheme) -> bool:
        """Return whether the scheme or one of its parts calls an LLM (or the offline rules). Imported parts do not."""
        return payments.asks_llm(self, [scheme])

    def failures(self, scheme: Scheme) -> dict[str, dict[str, str]]:
        """Return the passages for which a part of the scheme failed, with the reason, by part name."""
        records = [self.record(part) for part in self.all_parts(scheme)]
        return {record.name: record.failed for record in records if record.failed}

    def notes(self, scheme: Scheme) -> list[str]:
        """Return the notes of the scheme's parts, to be shown together with its figures."""
        records = [self.record(part) for part in self.all_parts(scheme)]
        return [f"{record.name}: {note}" for record in records for note in record.notes]

    def details(self, scheme: Scheme) -> list[str]:
        """Return the details of the scheme's parts, which change none of its figures."""
        records = [self.record(part) for part in self.all_parts(scheme)]
        return [f"{record.name}: {detail}" for record in records for detail in record.details]

    def result_fingerprint(self, scheme: Scheme) -> str:
        """Return a hash of everything a ranking depends on: scheme, parts, corpus, seed, settings, store, libraries."""
        return canonical.digest(
            {
                "scheme": registry.plugin_fingerprint(scheme),
                "parts": [self.key(part, self.pinned_encoder(part)) for part in self.all_parts(scheme)],
                "corpus": self.manifest.corpus,
                "seed": self.seed,
                "settings": self.manifest.settings.model_dump(mode="json", exclude={"store"}),
                "store": registry.plugin_fingerprint(self.store_plugin),
                "libraries": manifests.libraries(),
                **self._asked(scheme),
            }
        )

    def _asked(self, scheme: Scheme) -> dict[str, Any]:
        """Return what else a ranking depends on if an LLM is used: failed passages, the scheme's LLM and its tasks."""
        failed = self.failures(scheme)
        asked = [task.identity for task in tasks_of(scheme)]
        return {**({"failed": failed} if failed else {}), **({"llm": self.model.id, "tasks": asked} if asked else {})}

    def unpriced(self, plugins: Iterable[Scheme | Part[Any]], *, reads: bool = False) -> dict[str, str]:
        """Return a message for each paid service that `plugins` would call and that has no price, by service label.

        With `reads`, the LLM that reads retrieved passages counts too. Sends no request.
        """
        return payments.unpriced(self, plugins, reads=reads)

    def require_prices(self, plugins: Iterable[Scheme | Part[Any]], *, reads: bool = False) -> None:
        """Raise UsageError if there is a budget and a paid service that `plugins` would call has no price."""
        payments.require_prices(self, plugins, reads=reads)

    # ------------------------------------------------------------ how it was opened

    @property
    def encoder_name(self) -> str:
        """The label of the encoder, as written in a configuration."""
        return self.encoders.name

    @property
    def llm_name(self) -> str:
        """The label of the LLM, as written in a configuration."""
        return self.model.name

    @property
    def store_name(self) -> str:
        """The label of the store, as written in a configuration."""
        return registry.label(self.store_plugin)

    @property
    def tokens_counted_by(self) -> str:
        """The model whose tokenizer counts tokens for a budget; empty for the rules, whose tokens are estimated."""
        return str(getattr(self.model.plugin, "model", ""))

    @property
    def setting(self) -> LLMSettings:
        """The prices, budget, seed and clock used for requests to remote services."""
        return self.model.setting

    @property
    def calls(self) -> ResponseCache:
        """The cache of answers to paid calls."""
        return self.model.calls


def _create_manifest(folder: Path, store: Store, settings: IndexSettings, seed: int) -> Manifest:
    """Write and return the first manifest, after creating the documents collection.

    No other process can write documents before the manifest exists.
    """
    with manifests.creation_lock(folder):
        held = manifests.read_manifest(folder)
        if held is None:
            documents = store.create("documents", DOCUMENT_SCHEMA)
            held = Manifest(
                settings=settings,
                seed=seed,
                documents_version=documents.version,
                documents_identity=documents.identity,
                libraries=manifests.libraries(),
            )
            manifests.write_manifest(folder, held)
        return held


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"The index {folder} cannot be created: {error.strerror or error}.") from error
