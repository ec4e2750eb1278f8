"""The index that applications, the command line and the evaluator work with: open one, add documents, build, search.

The work is done in other modules: `changes` changes the documents, `sync` builds parts, `repair` finds damage, and
`state` has what they all use.
"""

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from ragindex import mlflow_tracing
from ragindex._util import canonical
from ragindex._util.durable_files import expand_home
from ragindex._util.ids import find_spelling, spellings
from ragindex._util.text import many, require_known_options
from ragindex._util.workers import use_workers
from ragindex.corpus import Chunking, Corpus
from ragindex.errors import EngineError, MissingPartError, StaleWarning, UsageError
from ragindex.filters import Filter, from_mapping
from ragindex.index import changes
from ragindex.index.documents import DOCUMENT_SCHEMA, DocumentChanges, Documents, Removals
from ragindex.index.explanation import DocumentExplanation, MethodExplainer
from ragindex.index.figures import CorpusCounts, Disk, FitState, measure_disk
from ragindex.index.manifest import (
    IndexSettings,
    Manifest,
    PartRecord,
    creation_lock,
    current_values,
    libraries,
    read_manifest,
    require_manifest,
    require_seed,
    resolve_settings,
    wrap_write_errors,
    write_manifest,
)
from ragindex.index.models import CALLS, Encoders, Model
from ragindex.index.parts import (
    PartReadContext,
    documents_of,
    inputs_of,
    open_pinned,
    store_import,
    tasks_of,
    uses_encoder,
)
from ragindex.index.repair import Findings, adds_repair_hint, find_changes, find_damage, with_repair_hint
from ragindex.index.retriever import IndexRetriever, PassagePositions
from ragindex.index.sources import describe_sources
from ragindex.index.state import IndexState
from ragindex.index.sync import BuildResult, RemovedMethods, current_keys, drop_part, remove_methods, sync
from ragindex.index.updating import IndexUpdate, preview_update, read_sources, refuse_suspicious, update_index
from ragindex.interfaces import Part, Retriever, Scheme, Store
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.budget import Budget, parse_budget
from ragindex.llm.cache import NoCache, ResponseCache
from ragindex.llm.reading_cache import open_reading_cache
from ragindex.llm.tasks import retrying_failed
from ragindex.parts.text.passages import make_chunking, parse_chunking
from ragindex.plugins import registry
from ragindex.plugins.plugin_errors import check_opened
from ragindex.plugins.registry import PluginSpec
from ragindex.stores.metered import MeteredCollection
from ragindex.types import Document, PartFigures, Query, Usage

if TYPE_CHECKING:
    from ragindex.export.export_retriever import Export


class OpenOptions(TypedDict, total=False):
    """Options of `ragindex.open`, which explains them."""

    encoder: PluginSpec | None
    llm: PluginSpec | None
    store: PluginSpec | None
    language: str | None
    chunking: Chunking | str | None
    seed: int | None
    budget: float | Budget | None
    llm_settings: LLMSettings | None
    keep_calls: bool
    cache: Path | str | None
    vectors: Path | None
    wait_seconds: float


class Index(IndexState):
    """A folder with documents and the methods built over them. Opened by `ragindex.open`; a context manager.

    Example:
        with ragindex.open("my-index") as index:
            print(index, len(index))

    Only one process can write at a time; readers keep the state that they opened. Errors of a store's files name the
    command that repairs them.
    """

    @classmethod
    def open(
        cls,
        folder: Path | str,
        *,
        create: bool = False,
        read_only: bool = False,
        **options: Unpack[OpenOptions],
    ) -> "Index":
        """Open the index in `folder`; with `create=True`, create it if it does not exist.

        Example:
            with ragindex.open("my-index", encoder="lsa", create=True) as index:
                index.add(ragindex.read("my-documents"))
                index.build("hybrid")

        `encoder`, `llm` and `store` are written as on the command line ("lsa", "openai:gpt-4o-mini", "elasticsearch");
        the default is the index's own, for a new one `lsa`, the offline rules and LanceDB. Methods of another encoder,
        LLM or seed are built next to the existing ones, and a build makes these the index's own. `store`, `language`
        and `chunking` (None: whole documents, or as "passages(by=headings, size=200)") are set when the index is
        created; `Index.rechunk` changes the chunking. `budget` limits the spending on paid services, in dollars.
        With `read_only=True` nothing is written to the folder but, where that is possible, a small file that names what
        is read, so an application can serve the index from a read-only disk. What the index has paid for is read from
        it; new answers and the vectors of questions stay in memory. `cache` is a file that takes them instead, and is
        read at the next opening.

        `llm_settings` are prices, clock and cache for requests to services; without `keep_calls` the index's own cache
        of LLM responses is not used. `vectors` is a file of cached vectors, used in place of the index's own. An
        operation waits up to `wait_seconds` (0) for another process that writes.

        Raises WorkspaceError if there is no index, UsageError if a fixed setting is changed, NewerFormatError, and
        StoreError.
        """
        if create and read_only:
            raise UsageError("An index cannot be made with read_only=True. Leave out create=True or read_only=True.")
        require_known_options("ragindex.open", options, OpenOptions.__annotations__)
        folder, seed, cache = expand_home(folder), options.get("seed"), options.get("cache")
        language, chunking = options.get("language"), make_chunking(options.get("chunking", "default"))
        require_seed(seed or 0)
        manifest = read_manifest(folder) if create else require_manifest(folder)
        plugin = registry.store(options.get("store") or current_values(manifest)["store"])
        settings = resolve_settings(folder, manifest, language, chunking, plugin)
        if manifest is None:
            with wrap_write_errors(f"The index {folder} cannot be created"):
                folder.mkdir(parents=True, exist_ok=True)
        opened = check_opened(plugin, plugin.open(folder / "store"), Store)
        if manifest is None:
            manifest = _create_manifest(folder, opened, settings, seed or 0)
            # Another process may have created the index in the meantime.
            settings = resolve_settings(folder, manifest, language, chunking, plugin)
        own = current_values(manifest)
        seed = own["seed"] if seed is None else seed
        requests = replace(options.get("llm_settings") or LLMSettings(), seed=seed)
        if (budget := options.get("budget")) is not None:
            requests = replace(requests, budget=parse_budget(budget))
        keep_calls = options.get("keep_calls", True)
        if keep_calls and isinstance(requests.cache, NoCache) and (read_only or cache is not None):
            requests = replace(requests, cache=open_reading_cache(folder / CALLS, cache))
        encoder = registry.encoder(options.get("encoder") or own["encoder"])
        encoders = Encoders(folder, encoder, settings.language, seed, requests, options.get("vectors"))
        model = Model(folder, registry.llm(options.get("llm") or own["llm"]), requests, keep_calls)
        wait_seconds = options.get("wait_seconds", 0.0)
        return cls(folder, manifest, plugin, opened, encoders, model, seed, read_only, wait_seconds)

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()
        if isinstance(error, EngineError):
            raise with_repair_hint(error, self.folder) from error

    def __len__(self) -> int:
        """Count the documents, whether or not a method is built over them."""
        return self.documents.collection.count()

    def __bool__(self) -> bool:
        return True  # without documents, too

    def __repr__(self) -> str:
        parts = sorted({record.name for record in self.manifest.parts.values()})
        return f"Index({str(self.folder)!r}: {many(len(self), 'document')}; parts built: {', '.join(parts) or 'none'})"

    # ------------------------------------------------------------ documents

    @adds_repair_hint
    def add(self, documents: Corpus | Iterable[Corpus] | Iterable[Document], *, source: str = "") -> DocumentChanges:
        """Add documents, replacing those with the same id. Returns how many were added, changed and unchanged.

        Example:
            index.add([ragindex.Document("report-7", "Annual report", "The harbour was rebuilt in 1931.")])

        A corpus read from a path belongs to the source of that path, and its ids are relative to the source's folder.
        `source` names the origin of the documents (default for those of a program: "program"); it is required for a
        second folder, and becomes the prefix of its ids. Built methods do not find the documents until the next
        `build`. Raises UsageError for a path, WorkspaceError if an id belongs to another source (nothing is written
        then), and WriterBusyError.
        """
        return changes.add_documents(self, _require_documents(documents), source=source)

    @adds_repair_hint
    def replace(
        self,
        documents: Corpus | Iterable[Document],
        *,
        source: str = "",
        announce: Callable[[Removals], None] = lambda removals: None,
    ) -> DocumentChanges:
        """Make a source hold exactly these documents: add new ones, update changed ones, remove the rest.

        Example:
            index.replace(ragindex.read("my-documents"))  # after files were changed, added or deleted

        Documents of other sources stay. If the documents come from a file or folder inside the folder of a source,
        only those below that path are replaced. `announce` is given the documents that leave the index, before any is
        written, and may raise an error to stop it. Raises the same errors as `add`.
        """
        return changes.replace_source(self, _require_documents(documents), source=source, announce=announce)

    @adds_repair_hint
    def remove(self, ids: Sequence[str]) -> DocumentChanges:
        """Remove documents by id. Built methods still find them until the next `build`.

        Example:
            index.remove(["notes/old.md"])

        A document that is still in its file or folder comes back when that is indexed again. Raises UsageError, and
        removes nothing, if one of `ids` is not in the index.
        """
        if isinstance(ids, str):
            raise UsageError(f"'ids' must be a list of ids. Got the string {ids!r}: write [{ids!r}].")
        return changes.remove_documents(self, ids)

    @adds_repair_hint
    def remove_source(self, name: str) -> DocumentChanges:
        """Remove a source and all its documents. Raises UsageError if there is no source with that name.

        Example:
            index.remove_source("program")
        """
        return changes.remove_source(self, name)

    @adds_repair_hint
    def remove_methods(self, *methods: PluginSpec) -> RemovedMethods:
        """Remove what these methods have built; methods that need all of it (`evidence` of `links`) go with them.

        Example:
            index.build("bm25", "links")
            index.remove_methods("links").parts  # ("links",)

        Parts that other methods use stay. Answers and vectors stay in the caches: building again pays for none. Raises
        UsageError, and removes nothing, if one of the methods is not built, or others use all of their parts.
        """
        return remove_methods(self, [registry.scheme(method) for method in methods])

    @adds_repair_hint
    def rechunk(self, chunking: Chunking | str) -> DocumentChanges:
        """Split all documents by another chunking of the index; return how many have other passages than before.

        Example:
            index.rechunk(ragindex.Chunking(by="headings", size=200, overlap=0))

        Methods follow at their next `build`; those with a chunking of their own (`over=…`) stay as they are. An
        interrupted change is finished by the next write. Raises UsageError if the documents are passages as they are
        (whole documents), and WriterBusyError.
        """
        parsed = parse_chunking(chunking) if isinstance(chunking, str) else chunking
        return changes.rechunk_documents(self, parsed)

    def read(self, ids: Sequence[str]) -> list[Document]:
        """Return the existing documents among `ids`, in the order of `ids`, as of the last finished build.

        Example:
            for document in index.read(["notes/old.md"]):
                print(document.title, document.metadata)
        """
        spelled = [spelling for id in ids for spelling in spellings(id)]
        documents = {document.id: document for document in self.finished_documents().read(spelled)}
        return [documents[known] for id in ids if (known := find_spelling(id, documents)) is not None]

    def renames(self, corpus: Corpus) -> dict[str, str]:
        """Return the ids that a corpus's documents have now by the ids that they had before, in this index.

        Example:
            renames = index.renames(ragindex.read("my-documents"))
            print(renames.get("notes/old.md"))

        `replace` remembers which documents were renamed; those that it would find in `corpus` now are among them.
        """
        return changes.list_renames(self, corpus)

    def sources(self) -> list[dict[str, str | int]]:
        """List the sources of the documents: name, root, format, prefix of the ids, and number of documents.

        Example:
            for source in index.sources():
                print(source["name"], source["documents"])
        """
        return describe_sources(self.manifest.sources, Counter(self.documents.sources().values()))

    def counts(self) -> CorpusCounts:
        """Return the number of documents and passages at the last finished build."""
        return CorpusCounts(self.manifest.documents, self.manifest.passages)

    # ------------------------------------------------------------ building

    @adds_repair_hint
    def build(
        self, *methods: PluginSpec | Part[Any], workers: int | str | None = None, retry_failed: bool = False
    ) -> BuildResult:
        """Build methods, or update them to the current documents; without arguments, update every built method.

        Example:
            index.build("bm25", "hybrid(rrf_k=20)")

        What is already built is not built again, and an interrupted build resumes where it stopped. A part is built as
        a method is. `workers` is the number of processes for rules and clustering, by default the cores, or a Dask
        cluster, as "dask:tcp://HOST:8786" (see `ragindex.use_executor`). With `retry_failed`, a model is asked again
        about passages that are set aside after two charged answers that cannot be used. Raises UsageError for unknown
        methods and parameters, WorkspaceError without documents, WriterBusyError, BudgetError.
        """
        with use_workers(workers), retrying_failed(retry_failed):
            return sync(self, [method if isinstance(method, Part) else registry.scheme(method) for method in methods])

    @adds_repair_hint
    def update(
        self,
        *methods: PluginSpec,
        allow_removals: bool = False,
        dry_run: bool = False,
        workers: int | str | None = None,
        retry_failed: bool = False,
    ) -> IndexUpdate:
        """Read every source again as it was read before, and update what is built; returns a report.

        Example:
            report = index.update()
            print(report.changes.added, report.changes.changed, report.changes.removed)

        Documents that are gone from a source are removed. With `methods`, only these are updated, which must be built.
        A source that cannot be read stays as it is, and `report.failures` says why. With `dry_run`, nothing is done,
        and the report says what would change. Raises UsageError, and changes nothing, where more than a fifth of a
        source's documents, and at least five, would be removed without `allow_removals`; further as `build` does.
        """
        started = time.monotonic()
        only = [self.require_built(method) for method in methods]
        source_documents = list(read_sources(self))
        if dry_run:
            return preview_update(self, source_documents)

        def build() -> BuildResult:
            if not self.manifest.parts:
                return BuildResult()
            return self.build(*only, workers=workers, retry_failed=retry_failed)

        return update_index(self, source_documents, build, _allow if allow_removals else refuse_suspicious, started)

    def require_built(self, method: PluginSpec) -> Scheme:
        """Return a method that is built. Raises MissingPartError, with the command that builds it, if it is not."""
        scheme = registry.scheme(method)
        try:
            for part in self.all_parts(scheme):
                self.record(part)
        except MissingPartError as error:
            raise self._missing_method(registry.label(scheme)) from error
        return scheme

    def refit(self) -> None:
        """Have the next `build` fit the encoder to all documents again, so that it knows the words of added ones.

        Example:
            index.refit()
            index.build()

        Without it, `lsa` is fitted again once the documents have grown or shrunk by half, or once it does not know a
        hundredth more of the words of the passages than when it was fitted, if nothing that was paid for depends on
        it. Raises UsageError for an encoder that is not fitted to the documents, and WriterBusyError.
        """
        with self.writer("ragindex index"):
            self.encoders.ask_refit()

    def import_part(self, part: PluginSpec, file: Path) -> None:
        """Copy `file` into the index and use it as the content of `part` from now on.

        Raises DataError if the file cannot be read, and UsageError if the part cannot be imported from a file.
        """
        plugin = registry.part(part)
        if "import" not in plugin.uses:
            raise UsageError(f"The part {registry.label(plugin)} cannot be imported from a file.")
        plugin.check_import(file)
        name, digest = registry.name_of(plugin), store_import(file, self.folder)
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

    def repair(self) -> Findings:
        """Check everything in the index folder and remove what is damaged, so that the next `build` rebuilds it."""
        with self.writer("ragindex repair"):
            self.reload()
            write_manifest(self.folder, self.manifest)  # rewrite both copies, in case one is damaged
            names = self.store.names()
            fit = self.encoders.damage(self.encoder_id)
            findings = find_damage(
                self.folder, self.manifest, self.store, fit, lambda key: drop_part(self, key, names), self.pin_documents
            )
        self.close()
        return findings

    def find_changes(self) -> list[str]:
        """Return one sentence for the documents and for each part, if their files have changed. Reads all of them."""
        return find_changes(self.folder, self.manifest, self.store)

    def disk(self) -> Disk:
        """Return the disk usage of the folder: bytes used by the last finished build, and all other bytes."""
        return measure_disk(self.folder, self.store, self.manifest)

    # ------------------------------------------------------------ searching

    def retriever(self, method: PluginSpec) -> IndexRetriever:
        """Open a built method in its state after the last build. Writes nothing and builds nothing.

        Example:
            retriever = index.retriever("hybrid")

        Raises MissingPartError, with the command that builds it, if the method is not built.
        """
        scheme = registry.scheme(method)
        label = registry.label(scheme)
        try:
            return IndexRetriever(label, self.open_method(scheme), self.positions(scheme))
        except MissingPartError as error:
            raise self._missing_method(label) from error

    def _missing_method(self, label: str) -> MissingPartError:
        command = self.command("index", "--methods", label)
        return MissingPartError(
            f"The method {label} is not built in {self.folder} with the encoder {self.encoder_name} and the LLM "
            f"{self.llm_name}. Call index.build({label!r}), or run: {command}"
        )

    def explain_document(
        self,
        question: str,
        document: str,
        method: PluginSpec = "hybrid",
        k: int = 5,
        *,
        where: Filter | Mapping[str, object] | None = None,
    ) -> DocumentExplanation:
        """Say where a method had a document, or passage, at each stage of a search, and which stage lost it.

        Example:
            explanation = index.explain_document("Who wrote the report?", "report-7", method="hybrid")
            print(explanation.rank, explanation.lost_at)
            print(explanation)

        The method searches once, and pays what one search does. Raises the same errors as `IndexRetriever.search`.
        """
        query = Query("search", question, from_mapping(where) if isinstance(where, Mapping) else where)
        return self.explainer(registry.scheme(method), self.retriever(method)).search(query, k, document)[1]

    def explainer(self, scheme: Scheme, retriever: Retriever) -> MethodExplainer:
        """Return what explains the searches of an open method. Raises MissingPartError."""
        return MethodExplainer(self, scheme, retriever, self.open_collections(scheme))

    def open_collections(self, scheme: Scheme) -> dict[str, MeteredCollection]:
        """Open the collections among the parts of a method, by the label of the part. Raises MissingPartError."""
        opened = {registry.label(part): self.open_part(part) for part in self.all_parts(scheme)}
        return {label: part for label, part in opened.items() if isinstance(part, MeteredCollection)}

    def open_method(self, method: PluginSpec) -> Retriever:
        """Open a built method as its class does: hits without positions. It is traced if tracing is on.

        Raises MissingPartError if a part is not built.
        """
        scheme = registry.scheme(method)
        return mlflow_tracing.trace_if_enabled(scheme.open(self), registry.label(scheme))

    def export(self, method: PluginSpec, out: Path | str, *, pack: bool = False) -> "Export":
        """Export a built method in its state after the last build, for `ragindex.load`.

        Example:
            index.export("hybrid", "retriever/")  # refers to this index
            index.export("hybrid", "retriever.ragindex", pack=True)  # one file that needs no index

        Raises MissingPartError if the method is not built, UsageError if `out` holds something else or the method
        cannot be packed, and StoreError if it cannot be written.
        """
        from ragindex.export.export_retriever import export_retriever  # here, for HTTP takes long to import

        return export_retriever(self, registry.scheme(method), out, pack=pack)

    def newest(self) -> "Index":
        """Open the newest finished state of the index, which another process may have built since.

        Example:
            if not index.is_newest():
                index = index.newest()
                retriever = index.retriever("hybrid")

        This index stays on its state, as do its retrievers. Both have the same store, encoder, LLM and seed, unless
        these are the index's own and a build has made others its own since. Raises WorkspaceError if the index is gone.
        """
        newest = require_manifest(self.folder)
        moved = replace(self, manifest=newest, opened={}, _lease=None, _pinned=None, _writing_thread=None)
        if moved.is_current() or not self.is_current():
            return moved
        return Index.open(
            self.folder,
            store=self.store_plugin,
            llm_settings=self.setting,
            keep_calls=self.model.keep_calls,
            read_only=self.read_only,
        )

    def is_newest(self) -> bool:
        """Return whether no later build has finished since this index was opened.

        Example:
            print(index.is_newest())
        """
        return read_manifest(self.folder) == self.manifest

    def positions(self, scheme: Scheme) -> PassagePositions:
        """Return a lookup of where the hits of a built scheme stand in their documents."""
        lease, corpus = self.pin(), self.manifest.corpus
        parts = self.all_parts(scheme)
        current = all(self.record(part).corpus == corpus for part in parts)
        views = {view.mark: view for view in map(self._pinned_documents, parts)} if current else {}
        return PassagePositions(tuple(views.values()), lease)

    def finished_documents(self) -> Documents:
        """Return the documents of the last finished build, read-only. Raises StoreError if they are lost."""
        version, identity = self.manifest.documents_version, self.manifest.documents_identity
        collection = open_pinned(self.store, "documents", version, identity)
        return Documents(MeteredCollection(collection, self.pin()), self.chunking)

    def open_positions(self, part: Part[Any]) -> PassagePositions:
        """Return a lookup of the passages that a part is made from. Raises MissingPartError if it is not built."""
        part = part.with_chunking(None)
        lease = self.pin()
        self.record(part)
        return PassagePositions((self._pinned_documents(part),), lease)

    def _pinned_documents(self, part: Part[Any]) -> Documents:
        return documents_of(part, self.finished_documents(), self.open_part)

    @adds_repair_hint
    def open_part(self, part: Part[Any]) -> Any:
        """Return a part as of the last finished build. Raises MissingPartError, with the command that builds it."""
        self.pin()
        part = part.with_chunking(None)
        key, record = self.key(part, self.pinned_encoder(part)), self.record(part)
        is_older = record.corpus != self.manifest.corpus or self.corpus_moved()
        if is_older and not self.store.is_being_written():  # while an update runs, readers search what was there before
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

    def encoder_of(self, scheme: Scheme | Part[Any]) -> str | None:
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

    def fit_state(self) -> FitState | None:
        """Return how old the fit of the encoder is, and how much it does not know; None if the encoder has no fit.

        Example:
            if (fit := index.fit_state()) is not None:
                print(f"{fit.encoder} does not know {fit.unknown:.1%} of the words")
        """
        fit = self.encoders.fit(self.encoder_id)
        if fit is None:
            return None
        passages, question_words = self.encoders.unknown_words(fit), self.encoders.question_words(fit)
        return FitState(
            self.encoder_name,
            fit.at,
            fit.seconds,
            fit.size,
            fit.unknown,
            passages.total.unknown_share,
            question_words.words,
            question_words.unknown_share,
            passages.unknown_new,
            passages.new_share,
        )

    def failures(self, scheme: Scheme | Part[Any]) -> dict[str, dict[str, str]]:
        """Return the passages for which a part of the scheme failed, with the reason, by part name."""
        records = [self.record(part) for part in self.all_parts(scheme)]
        return {record.name: record.failed for record in records if record.failed}

    def set_aside(self) -> dict[str, dict[str, str]]:
        """Return the passages that a model is not asked about again by itself, with the reason, by part name.

        Example:
            if index.set_aside():
                index.build(retry_failed=True)
        """
        aside: dict[str, dict[str, str]] = {}
        for record in self.manifest.parts.values():
            for id in record.set_aside:
                aside.setdefault(record.name, {})[id] = record.failed[id]
        return aside

    def notes(self, scheme: Scheme | Part[Any]) -> list[str]:
        """Return the notes of the scheme's parts, to be shown together with its figures."""
        records = [self.record(part) for part in self.all_parts(scheme)]
        return [f"{record.name}: {note}" for record in records for note in record.notes]

    def details(self, scheme: Scheme | Part[Any]) -> list[str]:
        """Return the details of the scheme's parts, which change none of its figures."""
        records = [self.record(part) for part in self.all_parts(scheme)]
        return [f"{record.name}: {detail}" for record in records for detail in record.details]

    def result_fingerprint(self, scheme: Scheme) -> str:
        """Return a hash of everything a ranking depends on: scheme, parts, corpus, seed, settings, store, libraries.

        Failed passages, the scheme's LLM and its tasks belong to it if there are any.
        """
        failed, tasks = self.failures(scheme), [task.identity for task in tasks_of(scheme)]
        return canonical.digest(
            {
                "scheme": registry.plugin_fingerprint(scheme),
                "parts": [self.key(part, self.pinned_encoder(part)) for part in self.all_parts(scheme)],
                "corpus": self.manifest.corpus,
                "seed": self.seed,
                "settings": self.manifest.settings.model_dump(mode="json", exclude={"store"}),
                "store": registry.plugin_fingerprint(self.store_plugin),
                "libraries": libraries(),
                **({"failed": failed} if failed else {}),
                **({"llm": self.model.id, "tasks": tasks} if tasks else {}),
            }
        )

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
        return self.model.tokens_counted_by

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
    with creation_lock(folder):
        manifest = read_manifest(folder)
        if manifest is None:
            documents = store.create("documents", DOCUMENT_SCHEMA)
            manifest = Manifest(
                settings=settings,
                seed=seed,
                documents_version=documents.version,
                documents_identity=documents.identity,
                libraries=libraries(),
            )
            write_manifest(folder, manifest)
        return manifest


def _allow(removals: Removals) -> None:
    """Raise nothing: whatever a source no longer has may be removed."""


def _require_documents(documents: Any) -> Any:
    """Raise UsageError for a path: reading is a separate step, so that the caller can see what was skipped."""
    if isinstance(documents, str | Path):
        raise UsageError(f"Expected documents, got a path. Write: ragindex.read({str(documents)!r})")
    return [documents] if isinstance(documents, Document) else documents


open_index = Index.open
"""`ragindex.open`."""
