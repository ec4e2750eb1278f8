"""A workspace: one folder with a corpus, the parts made from it, and the caches. Open it, add, sync, retrieve."""

import shlex
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ragindex import canonical, durable_files, mlflow_tracing
from ragindex.corpus import Chunking, Corpus, passage_text
from ragindex.encoders.vector_cache import CachedEncoder
from ragindex.errors import (
    BrokenPluginError,
    EngineError,
    MissingExtraError,
    MissingPartError,
    NameTakenError,
    RagindexError,
    StoreError,
    UnknownNameError,
    UsageError,
    WorkspaceError,
    WriterBusyError,
)
from ragindex.interfaces import Encoder, Part, Retriever, Scheme, Store, StorePlugin
from ragindex.llm.cache import ResponseCache
from ragindex.llm.plugins import PaidPlugin
from ragindex.llm.settings import LLMSettings
from ragindex.llm.tasks import LLM
from ragindex.plugins import registry
from ragindex.plugins.registry import Written
from ragindex.progress import bar
from ragindex.stores.metered import MeteredCollection
from ragindex.text_analysis import language_warning
from ragindex.types import Document, Usage
from ragindex.workspace import cleaning, disk_usage, imported_files, journal, reader_leases, revisions, sources
from ragindex.workspace import manifest as manifests
from ragindex.workspace import repair as mending
from ragindex.workspace.coverage import Coverage
from ragindex.workspace.disk_usage import Disk
from ragindex.workspace.documents import SCHEMA, Changed, Documents
from ragindex.workspace.encoder import Encoders
from ragindex.workspace.journal import DamagedJournalError, Journal
from ragindex.workspace.llm import Model
from ragindex.workspace.manifest import Manifest, PartRecord, Settings
from ragindex.workspace.part_context import PartBuildContext, PartReadContext, open_pinned
from ragindex.workspace.part_keys import (
    Means,
    in_order,
    paid_by,
    part_key,
    parts_of,
    tasks_of,
    uses_encoder,
)
from ragindex.workspace.reader_leases import Lease, State
from ragindex.workspace.settings import checked_seed, settled
from ragindex.workspace.sources import Asking, Placed
from ragindex.workspace.sync import Building, Synced, bring_up, finished

_SAMPLE = 200


_INDEXING = "ragindex index or compare"
"""Who may make the collection of documents anew where it was lost."""


class StaleWarning(UserWarning):
    """Something is older than the corpus: results are right for the corpus of the last finished sync."""


class LeftoverWarning(UserWarning):
    """A sync is finished, and what no reader needs any more could not be removed."""


class LanguageWarning(UserWarning):
    """The corpus looks like another language than the workspace's."""


@dataclass(frozen=True, slots=True)
class PartFigures:
    """What a part took, as if built alone: seconds and tokens when each was first paid, and bytes on disk."""

    name: str
    seconds: float
    bytes: int
    search: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Counts:
    """The size of the corpus at the last finished sync."""

    documents: int
    passages: int


@dataclass
class Workspace:
    """Made by `Workspace.open`. Writes hold the writer's lease; readers are pinned to the last finished sync."""

    folder: Path
    manifest: Manifest
    store_plugin: StorePlugin
    store: Store
    encoders: Encoders
    model: Model
    seed: int = 0
    read_only: bool = False
    _opened: dict[str, Any] = field(default_factory=dict)
    _lease: Lease | None = None
    _pinned: State | None = None

    def __post_init__(self) -> None:
        self._pin()

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
    ) -> "Workspace":
        """Open the workspace in `folder`; with `create`, make one where there is none.

        With `read_only` nothing is written into the folder: no cached answers, and no reader's lease of its own (a
        shared lock keeps what is read). Language, chunking and store are fixed when it is made; asking for others later
        raises UsageError. The encoder, language model and the seed (default: those last used, `lsa`, `offline` and 0 at
        first) may change: other parts are then built beside. `asking` holds prices and budget; `keep_calls` keeps the
        answers of language models. Raises NewerFormatError, WorkspaceError, StoreError.
        """
        folder = Path(folder)
        checked_seed(seed or 0)
        held = manifests.read(folder)
        if held is None and (read_only or not create):
            raise WorkspaceError(
                f"There is no index in {folder}. Run: ragindex index DATA --index {shlex.quote(str(folder))}"
            )
        plugin = registry.store(store or (held.settings.store if held else "lancedb"))
        settings = settled(folder, held, language, chunking, plugin)
        if held is None:
            _make(folder)
        opened = plugin.open(folder / "store")
        if held is None:
            held = _first(folder, opened, settings, seed or 0)
            settings = settled(folder, held, language, chunking, plugin)  # somebody else may have made it meanwhile
        chosen = registry.encoder(encoder or held.encoder or "lsa")
        seed = held.seed if seed is None else seed
        asked = replace(asking or LLMSettings(), seed=seed)
        encoders = Encoders(folder, chosen, settings.language, seed, asked)
        asks = Model(folder, registry.llm(llm or held.llm or "offline"), asked, keep_calls and not read_only)
        return cls(folder, held, plugin, opened, encoders, asks, seed, read_only)

    def __enter__(self) -> "Workspace":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()
        if isinstance(error, EngineError):
            raise mending.advised(error, self.folder) from error

    def close(self) -> None:
        """Let go of what is held in memory, and of the state that is read; retrievers keep theirs."""
        self._opened.clear()
        self._lease = None

    # ------------------------------------------------------------ the corpus

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
            held = reader_leases.take(self.folder, State({"documents": version}), write=not self.read_only)
            newest = self.store.version("documents")
            lease, version = (held if newest == version else None), newest  # else a writer has gone on meanwhile
        if version is None:
            raise StoreError(
                f"The store of the workspace {self.folder} has lost its documents. "
                f"Run: ragindex index DATA --index {self.folder}"
            )
        return Documents(MeteredCollection(self.store.open("documents", version), lease), self.chunking)

    @mending.advising
    def add(self, documents: Corpus | Iterable[Corpus] | Iterable[Document], *, source: str = "") -> Changed:
        """Add documents, replacing those with the same id. `sync` brings parts up to them.

        A corpus that was read from a path belongs to the source of that path: ids are relative to the folder that the
        workspace remembers. A second folder needs a name, `source`, which its ids begin with. The documents that a
        program makes keep their ids; `source` names them (default: "program"). Raises UsageError, and WorkspaceError
        where an id is that of another source's document; nothing is written then.
        """
        given = sources.corpora(documents, source)
        with self._writing("ragindex add") as corpus, self._forgetting_empty_sources(corpus):
            changed = self._bring_in(corpus, self._placed(corpus, given, source, "add"))
        self._warn_of_language(given)
        return changed

    @mending.advising
    def remove(self, ids: Sequence[str]) -> Changed:
        """Remove documents. Raises UsageError if one of `ids` is not there: nothing is removed then.

        What is still in the file or folder it came from comes back when that is indexed again.
        """
        with self._writing("ragindex remove") as corpus:
            found = corpus.sources(ids)
            unknown = [id for id in ids if id not in found]
            if unknown:
                id = sources.id_of(self.manifest.sources, unknown[0])
                meant = f" The id of that file is {id!r}." if id in corpus.sources([id or ""]) else ""
                raise UsageError(
                    f"The workspace {self.folder} holds no document {unknown[0]!r}. Nothing was removed.{meant}"
                )
            return Changed(removed=corpus.remove(list(found)))

    @mending.advising
    def remove_source(self, name: str) -> Changed:
        """Remove all documents of a source and forget it. Raises UsageError where there is none of that name."""
        with self._writing("ragindex remove") as corpus:
            if name not in self.manifest.sources:
                there = ", ".join(map(repr, self.manifest.sources)) or "none"
                raise UsageError(f"The workspace {self.folder} has no source {name!r}. There are: {there}.")
            removed = corpus.remove([id for id, owner in corpus.sources().items() if owner == name])
            self._save(sources={one: held for one, held in self.manifest.sources.items() if one != name})
        return Changed(removed=removed)

    @mending.advising
    def replace(self, documents: Corpus | Iterable[Document], *, source: str = "") -> Changed:
        """Make a source hold exactly these documents; those of other sources stay.

        The rest as `add`. Of a file or folder inside a folder that the workspace remembers, only what lies there is
        brought up to date.
        """
        (given,) = sources.corpora(documents, source)
        with self._writing(_INDEXING) as corpus:
            with self._forgetting_empty_sources(corpus):
                (placed,) = self._placed(corpus, [given], source, "index")
                changed = self._bring_in(corpus, [placed])
            kept = {document.id for document in placed.documents}
            held = corpus.sources().items()
            gone = sorted(id for id, owner in held if owner == placed.source and placed.covers(id) and id not in kept)
            corpus.remove(gone)
        self._warn_of_language([given])
        return replace(changed, removed=len(gone), gone=tuple(gone))

    def sources(self) -> list[dict[str, str | int]]:
        """Where the documents come from: name, root, format, prefix of the ids, and the number of documents."""
        return sources.describe(self.manifest.sources, Counter(self.documents.sources().values()))

    def counts(self) -> Counts:
        """Documents and passages of the last finished sync."""
        return Counts(self.manifest.documents, self.manifest.passages)

    # ------------------------------------------------------------ building

    @mending.advising
    def sync(self, plugins: Iterable[Scheme | Part[Any]] = ()) -> Synced:
        """Bring the parts of `plugins` up to the corpus; without any, all parts that were ever finished.

        Goes on where an earlier sync stopped. Raises WriterBusyError, StoreError, WorkspaceError without documents.
        """
        self._reload()
        if self.manifest.parts and self.manifest.finished_by != self.store_plugin.finishes_by:
            self._finish_again()
        parts = in_order([part for plugin in plugins for part in parts_of(plugin)] or self._finished_parts())
        damaged = self._damaged(parts)
        if self._up_to_date(parts) and not damaged:
            self._clean_later()
            return Synced()
        self.require_prices(parts)
        with self._writing("ragindex sync") as corpus:
            wanted = corpus.passage_revisions()
            if not len(wanted) and not self.manifest.parts:
                raise WorkspaceError(
                    f"The workspace {self.folder} has no documents. Run: ragindex add FILES --index {self.folder}"
                )
            if any("encoder" in part.uses for part in parts):
                ids = sorted(wanted.column("id").to_pylist())
                self.encoders.prepare(lambda: self._texts(corpus, ids), len(ids))
            records, synced = bring_up(self._tasks(parts, corpus), wanted)
            self._finish(records, corpus, wanted)
        for sentence in damaged:
            warnings.warn(f"{sentence}: it was made again.", durable_files.RepairWarning, stacklevel=2)
        return synced

    def repair(self) -> mending.Findings:
        """Look at everything that is kept and remove what is damaged; `sync` then makes it again."""
        with self._writer("ragindex repair"):
            self._reload()
            manifests.write(self.folder, self.manifest)  # both copies of it are whole
            names = self.store.names()
            fit = self.encoders.damage(self.encoder_id)
            found = mending.look(self.folder, self.manifest, self.store, fit, lambda key: self._drop(key, names))
        self.close()
        return found

    def all_parts(self, scheme: Scheme) -> tuple[Part[Any], ...]:
        """The parts of a scheme and their inputs, each once, inputs first."""
        return tuple(in_order(scheme.parts()))

    def figures(self, part: Part[Any]) -> PartFigures:
        """What a part took, its inputs not included. Raises MissingPartError."""
        record = self._record(part)
        opened = self.open_part(part)
        search = str(opened.describe()["search"]) if hasattr(opened, "describe") else ""
        usage = Usage(record.seconds, record.input_tokens, record.output_tokens, record.money)
        return PartFigures(record.name, record.seconds, record.bytes, search, usage)

    def disk(self) -> Disk:
        """What the folder holds: what serves the last finished sync's readers, and the rest, by name."""
        return disk_usage.taken(self.folder, self.store, self.manifest)

    # ------------------------------------------------------------ reading

    def retriever(self, scheme: Written) -> Retriever:
        """The retriever of a scheme that `sync` has built; traced where that is on. Raises MissingPartError."""
        made = registry.scheme(scheme)
        return mlflow_tracing.traced_where_on(made.open(self), registry.label(made))

    @mending.advising
    def open_part(self, part: Part[Any]) -> Any:
        """A part as the last finished sync left it. Raises MissingPartError with the command that makes it."""
        self._pin()
        key, record = self._key(part, self._pinned_encoder(part)), self._record(part)
        if record.corpus != self.manifest.corpus or self._corpus_moved():
            warnings.warn(
                f"The part {record.name} is older than the corpus. Run: ragindex index --index {self.folder}",
                StaleWarning,
                stacklevel=2,
            )
        if key not in self._opened:
            self._opened[key] = part.open(self._read_context(part, key, record))
        return self._opened[key]

    @property
    def encoder(self) -> CachedEncoder:
        """The encoder of the last finished sync, for questions. Raises MissingPartError before there was one."""
        return self.encoders.open(self.encoder_id)

    @property
    def encoder_id(self) -> str | None:
        """The id of that encoder; None where no sync has needed one."""
        return self.manifest.encoders.get(self.encoders.name)

    def fit_figures(self) -> PartFigures | None:
        """What fitting the encoder took; None for an encoder that learns nothing from the corpus."""
        fit = self.encoders.fit(self.encoder_id)
        if fit is None:
            return None
        name = f"{registry.label(self.encoders.plugin)} fit"
        return PartFigures(name, fit.seconds, fit.bytes, "", Usage(fit.seconds))

    @property
    def encoder_name(self) -> str:
        """The encoder as it is written."""
        return self.encoders.name

    @property
    def llm(self) -> LLM:
        """The language model, for questions; its calls are kept."""
        return self.model.language

    @property
    def tokens_counted_by(self) -> str:
        """The model whose tokens a budget is counted in; empty for the rules, whose tokens are estimated."""
        return str(getattr(self.model.plugin, "model", ""))

    @property
    def setting(self) -> LLMSettings:
        """Prices, budget, seed and clock of whatever asks a remote service."""
        return self.model.setting

    @property
    def calls(self) -> ResponseCache:
        """The cache of paid calls."""
        return self.model.calls

    @property
    def llm_name(self) -> str:
        """The language model as it is written."""
        return self.model.name

    def import_part(self, part: Written, file: Path) -> None:
        """From now on a part's content comes from `file`, which is copied into the workspace.

        Raises DataError where it cannot be read, UsageError for a part that is not made from files.
        """
        made = registry.part(part)
        if "import" not in made.uses:
            raise UsageError(f"The part {registry.label(made)} is not made from files.")
        made.check_import(file)
        name, digest = registry.name_of(made), imported_files.taken(file, self.folder)
        with self._writer("ragindex index"):
            self._reload()
            before = self._current_keys()
            imported = self.manifest.model_copy(update={"imports": {**self.manifest.imports, name: digest}})
            replaced = before - self._current_keys(imported)  # made from another file: no sync would bring them up
            self._save(
                imports=imported.imports,
                imported_from={**self.manifest.imported_from, name: str(Path(file).resolve())},
                parts={key: record for key, record in self.manifest.parts.items() if key not in replaced},
                outdated=self.manifest.outdated | dict.fromkeys(sorted(replaced), time.time()),
                leftover=True,
            )

    def asks(self, scheme: Scheme) -> bool:
        """Whether the scheme or one of its parts asks a language model, or the rules in its place; no imported one."""
        asking = [part for part in self.all_parts(scheme) if "model" in part.uses and self._imported(part) is None]
        return bool(tasks_of(scheme) or asking)

    def unpriced(self, plugins: Iterable[Scheme | Part[Any]], *, reads: bool = False) -> dict[str, str]:
        """Of who would be paid for `plugins`, and with `reads` for reading, those without a price.

        What to say of each, by how it is written. Asks nobody.
        """
        prices, found = self.model.setting.prices, dict[str, str]()
        for plugin in self._paid(tuple(plugins), reads):
            missing = plugin.price_missing(prices)
            if missing is not None:
                found[registry.label(plugin)] = missing
        return found

    def require_prices(self, plugins: Iterable[Scheme | Part[Any]], *, reads: bool = False) -> None:
        """Raises UsageError where there is a budget, and somebody who would be paid for `plugins` has no price."""
        if self.model.setting.budget is not None:
            for missing in self.unpriced(plugins, reads=reads).values():
                raise UsageError(missing)

    def _paid(self, plugins: Sequence[Scheme | Part[Any]], reads: bool) -> Iterator[PaidPlugin]:
        parts = in_order(part for plugin in plugins for part in parts_of(plugin))
        yield from (one for plugin in (*plugins, *parts) for one in paid_by(plugin))
        asking = any("model" in part.uses and self._imported(part) is None for part in parts)
        asks = reads or asking or any(isinstance(one, Scheme) and tasks_of(one) for one in plugins)
        if asks and isinstance(self.model.plugin, PaidPlugin):
            yield self.model.plugin
        if any("encoder" in part.uses for part in parts) and isinstance(self.encoders.plugin, PaidPlugin):
            yield self.encoders.plugin

    def failures(self, scheme: Scheme) -> dict[str, dict[str, str]]:
        """The passages that a scheme's parts could not be made for, with the reason, by the part's name."""
        records = [self._record(part) for part in self.all_parts(scheme)]
        return {record.name: record.failed for record in records if record.failed}

    def notes(self, scheme: Scheme) -> list[str]:
        """What a reader of a scheme's figures should know of its parts."""
        records = [self._record(part) for part in self.all_parts(scheme)]
        return [f"{record.name}: {note}" for record in records for note in record.notes]

    @property
    def store_name(self) -> str:
        """The store as it is written."""
        return registry.label(self.store_plugin)

    def result_fingerprint(self, scheme: Scheme) -> str:
        """A hash of what a ranking depends on: scheme, parts, encoder, corpus, seed, settings, libraries."""
        return canonical.digest(
            {
                "scheme": registry.fingerprint(scheme),
                "parts": [self._key(part, self._pinned_encoder(part)) for part in self.all_parts(scheme)],
                "corpus": self.manifest.corpus,
                "seed": self.seed,
                "settings": self.manifest.settings.model_dump(mode="json", exclude={"store"}),
                "store": registry.fingerprint(self.store_plugin),
                "libraries": manifests.libraries(),
                **self._asked(scheme),
            }
        )

    # ------------------------------------------------------------ inside

    def _asked(self, scheme: Scheme) -> dict[str, Any]:
        """What a ranking depends on besides, where a language model is asked: by parts that failed, by the scheme."""
        failed = self.failures(scheme)
        asked = [task.identity for task in tasks_of(scheme)]
        return {**({"failed": failed} if failed else {}), **({"llm": self.model.id, "tasks": asked} if asked else {})}

    def _key(self, part: Part[Any], encoder: str | None) -> str:
        return part_key(part, self._means(encoder))

    def _means(self, encoder: str | None) -> Means:
        return Means(encoder, self.model.id, self.seed, self.manifest.imports)

    def _pinned_encoder(self, part: Part[Any]) -> str | None:
        """The id of the encoder behind the finished part, None where no encoder is used."""
        if not uses_encoder(part):
            return None
        return self.manifest.encoders.get(self.encoders.name) or "not fitted"

    def _record(self, part: Part[Any]) -> PartRecord:
        record = self.manifest.parts.get(self._key(part, self._pinned_encoder(part)))
        if record is None:
            encoder = f" with the encoder {self.encoders.name}" if uses_encoder(part) else ""
            raise MissingPartError(
                f"The part {registry.label(part)} has not been made{encoder} in {self.folder}. "
                f"Run: ragindex index --index {self.folder} --methods METHOD"
            )
        return record

    @contextmanager
    def _writing(self, owner: str) -> Iterator[Documents]:
        with self._writer(owner):
            self._reload()
            if self.manifest.documents and self.store.version("documents") is None:
                if owner != _INDEXING:  # an empty collection would be taken for a corpus without documents
                    raise self._lost()
                self._save(documents_version=0)  # that of the collection to come may be the number of the lost one's
            yield Documents(self.store.create("documents", SCHEMA), self.chunking)

    def _writer(self, owner: str) -> AbstractContextManager[None]:
        """The writer's lease. Raises UsageError where this workspace was opened to be read."""
        if self.read_only:
            raise UsageError(f"The index {self.folder} was opened with read_only=True. Open it without, to change it.")
        return self.store.lease(owner)

    def _lost(self) -> StoreError:
        return StoreError(
            f"The store of the workspace {self.folder} has lost its documents. "
            f"Run: ragindex index DATA --index {shlex.quote(str(self.folder))}"
        )

    def _save(self, **changes: Any) -> None:
        changed = self.manifest.model_copy(update=changes)
        if changed != self.manifest:
            manifests.write(self.folder, changed)
            self.manifest = changed
            self._pin()

    def _reload(self) -> None:
        """See what other processes have finished since: parts are then opened anew."""
        fresh = manifests.read(self.folder) or self.manifest
        if fresh != self.manifest:
            self._opened.clear()
            self.manifest = fresh
            self._pin()

    def _pin(self) -> Lease:
        """Take the lease on what the manifest names, so that it stays as long as this workspace or a part is used."""
        while self._lease is None or self._pinned != reader_leases.state(self.manifest):
            self._pinned = reader_leases.state(self.manifest)
            self._lease = reader_leases.take(self.folder, self._pinned, write=not self.read_only)
            fresh = manifests.read(self.folder) or self.manifest
            if fresh != self.manifest:  # a writer may have looked for leases before this one was there
                self._opened.clear()
                self.manifest = fresh
        return self._lease

    def _placed(self, corpus: Documents, given: Sequence[Corpus], name: str, verb: str) -> list[Placed]:
        """What is given with its ids here; its sources are remembered. Raises before anything is written."""
        asking, earlier = Asking(self.folder, verb), self.manifest.sources
        known, placed = sources.place_all(earlier, given, name, asking)
        for one in placed:
            owners = corpus.sources([document.id for document in one.documents])
            sources.require_free(owners, earlier, known, one, asking)
        self._save(sources=dict(known))
        return placed

    @contextmanager
    def _forgetting_empty_sources(self, corpus: Documents) -> Iterator[None]:
        """A source is remembered before its documents are written: one whose first document is refused is not kept."""
        earlier = self.manifest.sources
        try:
            yield
        except RagindexError:
            kept = earlier.keys() | set(corpus.sources().values())
            self._save(sources={name: one for name, one in self.manifest.sources.items() if name in kept})
            raise

    def _bring_in(self, corpus: Documents, placed: Sequence[Placed]) -> Changed:
        with bar("reading documents", sum(len(one.documents) for one in placed)) as advance:
            found = [corpus.upsert(one.documents, one.source, advance) for one in placed]
        return Changed(
            added=sum(one.added for one in found),
            changed=sum(one.changed for one in found),
            unchanged=sum(one.unchanged for one in found),
            new=tuple(id for one in found for id in one.new),
        )

    def _tasks(self, parts: Sequence[Part[Any]], corpus: Documents) -> list[Building]:
        tasks: dict[str, Building] = {}
        encoder = self.encoders.building() if any("encoder" in part.uses for part in parts) else None
        id = encoder.id if encoder else None
        names = self.store.names()
        for part in parts:
            key = self._key(part, id)
            lost = any(now is None for now, _ in self._versions(key))
            if lost or f"{key}.coverage" not in names:  # what is not covered may be left from a part half dropped
                self._drop(key, names)
            inputs = tuple(tasks[self._key(source, id)] for source in part.inputs())
            used = encoder if "encoder" in part.uses else None
            context = self._build_context(part, key, inputs, corpus, used)
            coverage = self._coverage(part, key, names)
            earlier = self.manifest.parts.get(key) if part.finishes_changes else None
            finished = earlier.finish_seconds if earlier else 0.0
            tasks[key] = Building(key, part, inputs, context, used, self.encoders.name, coverage, finished)
        return list(tasks.values())

    def _coverage(self, part: Part[Any], key: str, names: Sequence[str]) -> Coverage:
        """A part whose journal cannot be read is made anew: nothing tells what it holds."""
        kept = Journal.of(self.folder, key)
        try:
            return Coverage.open(self.store, key, kept, shares=part.shares_records)
        except DamagedJournalError:
            self._drop(key, names)
            return Coverage.open(self.store, key, kept, shares=part.shares_records)

    def _build_context(
        self, part: Part[Any], key: str, inputs: Sequence[Building], corpus: Documents, encoder: CachedEncoder | None
    ) -> PartBuildContext:
        def open_inputs() -> tuple[Any, ...]:
            return tuple(task.part.open(task.context.reopened().newest()) for task in inputs)

        def open_encoder() -> Encoder:
            if encoder is None:
                raise UsageError(f"The part {key} asks for an encoder, but its `uses` does not name it.")
            return encoder

        def open_llm() -> LLM:
            if "model" not in part.uses:
                raise UsageError(f"The part {key} asks for a language model, but its `uses` does not name it.")
            return self.llm

        root, file = self.folder, self._imported(part)
        if file is not None:
            imported_files.require(root, file.name, self.manifest.imported_from.get(registry.name_of(part), ""))
        return PartBuildContext(
            key=key,
            store=self.store,
            documents=corpus,
            root=root,
            language=self.language,
            open_inputs=open_inputs,
            open_encoder=open_encoder,
            seed=self.seed,
            open_llm=open_llm,
            imported=file,
        )

    def _imported(self, part: Part[Any]) -> Path | None:
        digest = self._means(None).imported(part)
        return None if digest is None else imported_files.place(self.folder, digest)

    def _read_context(self, part: Part[Any], key: str, record: PartRecord) -> PartReadContext:
        def open_inputs() -> tuple[Any, ...]:
            return tuple(self.open_part(source) for source in part.inputs())

        version, identity = self.manifest.documents_version, self.manifest.documents_identity
        return PartReadContext(
            key=key,
            store=self.store,
            documents=Documents(open_pinned(self.store, "documents", version, identity), self.chunking),
            root=self.folder,
            language=self.language,
            open_inputs=open_inputs,
            open_encoder=lambda: self.encoder,
            version_of=record.collections.get,
            identities=record.identities,
            lease=self._pin(),
        )

    def _finish(self, made: Mapping[str, PartRecord], corpus: Documents, wanted: Any) -> None:
        """Pin readers to what was made, and drop the parts of a fit that is replaced by another."""
        corpus.collection.finish()
        encoder = next((record.encoder for record in made.values() if record.encoder), None)
        encoders = {**self.manifest.encoders, **({self.encoders.name: encoder} if encoder else {})}
        replaced = self.manifest.encoders.get(self.encoders.name)
        now = time.time()
        names = self.store.names()
        abandoned = {name.rpartition(".")[0] for name in names if "." in name}  # begun by a sync that never finished
        outdated = {
            key: self.manifest.outdated.get(key, now)
            for key, record in {**dict.fromkeys((*abandoned, *self.manifest.outdated)), **self.manifest.parts}.items()
            if key not in made
            and (record is None or (encoder and record.encoder and record.encoder == replaced != encoder))
        }
        outdated |= dict.fromkeys(_made_from(outdated.keys(), self.manifest.parts) - made.keys() - outdated.keys(), now)
        parts = {key: record for key, record in self.manifest.parts.items() if key not in outdated}
        self._opened.clear()
        self._save(
            seed=self.seed,
            corpus=revisions.fingerprint(wanted),
            documents_version=corpus.collection.version,
            documents_identity=corpus.collection.identity,
            documents=corpus.collection.count(),
            passages=len(wanted),
            encoder=registry.describe(self.encoders.plugin),
            encoders=encoders,
            llm=registry.describe(self.model.plugin),
            parts={**parts, **made},
            finished_by=dict(self.store_plugin.finishes_by),
            outdated=outdated,
            leftover=True,  # until it is cleaned: a crash before that leaves something
            libraries=manifests.libraries(),
        )
        journal.finish(self.folder, made)
        self._clean()

    def _clean(self) -> None:
        """Remove what no reader needs any more. What was finished is finished, whether that goes well or not."""
        try:
            manifests.settle(self.folder)  # what only an older copy names is removed
            manifest, stays = cleaning.clean(self.folder, self.store, self.manifest)
        except (StoreError, OSError) as error:
            warnings.warn(f"What no reader needs stays in {self.folder}: {error}", LeftoverWarning, stacklevel=4)
            return
        self._save(outdated=manifest.outdated, leftover=stays)

    def _clean_later(self) -> None:
        """What stayed for readers at the last sync, once they are gone; not while somebody else writes."""
        if self.manifest.leftover and not self.read_only:
            with suppress(WriterBusyError), self.store.lease("ragindex sync"):
                self._reload()
                self._clean()

    def _finish_again(self) -> None:
        """Every part's collections, as the store's parameters now ask for: its memory may be less than it was.

        Readers stay pinned to the last finished state of a part that a sync was interrupted in: what the part holds
        now is of two corpora. The sync that completes it finishes it too.
        """
        with self._writing("ragindex sync"):
            interrupted = journal.unfinished(self.folder)
            made = {
                key: record.model_copy(update={"collections": record.collections | finished(key, self.store).versions})
                if key not in interrupted
                else record
                for key, record in self.manifest.parts.items()
            }
            self._opened.clear()
            self._save(parts=made, finished_by=dict(self.store_plugin.finishes_by), leftover=True)

    def _drop(self, key: str, names: Sequence[str]) -> None:
        record = self.manifest.parts.get(key)
        cleaning.drop(self.folder, self.store, key, names, ("coverage", *record.collections) if record else ())

    def _damaged(self, parts: Sequence[Part[Any]]) -> list[str]:
        """What is wrong with the files that readers of `parts` open: the next sync makes them again."""
        fit = self.encoders.damage(self.encoder_id) if any(map(uses_encoder, parts)) else None
        keys = [self._key(part, self._pinned_encoder(part)) for part in parts]
        return [*([fit] if fit else []), *mending.damaged_files(self.folder, self.manifest, keys)]

    def _up_to_date(self, parts: Sequence[Part[Any]]) -> bool:
        if self._corpus_moved() or not parts:
            return not parts and not self._corpus_moved()
        keys = [self._key(part, self._pinned_encoder(part)) for part in parts]
        records = [self.manifest.parts.get(key) for key in keys]
        finished = journal.unfinished(self.folder).isdisjoint(keys) and all(
            record is not None and record.corpus == self.manifest.corpus and not record.failed for record in records
        )
        return finished and all((now or 0) >= pinned for key in keys for now, pinned in self._versions(key))

    def _versions(self, key: str) -> list[tuple[int | None, int]]:
        """Of a finished part's collections: the version that the store has, and the one that readers are pinned to.

        None, or an older one, where somebody has deleted from the store or put back what it held before.
        """
        record = self.manifest.parts.get(key)
        pinned = record.collections.items() if record else ()
        return [(self.store.version(f"{key}.{kind}"), version) for kind, version in pinned]

    def _corpus_moved(self) -> bool:
        return (self.store.version("documents") or 0) != self.manifest.documents_version

    def _current_keys(self, manifest: Manifest | None = None) -> set[str]:
        """The finished parts that are made from the imported files of `manifest`, with any encoder."""
        imported, encoders = (manifest or self.manifest).imports, {None, *self.manifest.encoders.values()}
        means = [Means(encoder, self.model.id, self.seed, imported) for encoder in encoders]
        parts = [self._plugin_of(record) for record in self.manifest.parts.values()]
        return {part_key(part, one) for part in parts if part for one in means} & self.manifest.parts.keys()

    def _finished_parts(self) -> list[Part[Any]]:
        """Those that are made with this encoder, language model and seed."""
        names = {None, self.encoders.name}
        held = [(key, self._plugin_of(r)) for key, r in self.manifest.parts.items() if r.encoder_name in names]
        return [part for key, part in held if part and key == self._key(part, self._pinned_encoder(part))]

    def _plugin_of(self, record: PartRecord) -> Part[Any] | None:
        """A recorded part as a plugin; None, and a warning, where it is broken or not installed any more."""
        try:
            return registry.part(record.part)
        except (UnknownNameError, NameTakenError, MissingExtraError, BrokenPluginError) as error:
            warnings.warn(f"The part {record.name} stays as it was. {error}", StaleWarning, stacklevel=2)
            return None

    def _texts(self, corpus: Documents, ids: Sequence[str]) -> list[str]:
        texts: list[str] = []
        for start in range(0, len(ids), 2048):
            batch = corpus.passages(ids[start : start + 2048])
            pairs = zip(batch.column("title").to_pylist(), batch.column("text").to_pylist(), strict=True)
            texts += [passage_text(title, text) for title, text in pairs]
        return texts

    def _warn_of_language(self, given: Sequence[Corpus]) -> None:
        documents = [document for corpus in given for document in corpus.documents]
        step = max(1, len(documents) // _SAMPLE)
        message = language_warning([document.text for document in documents[::step]], self.language)
        if message is not None:
            warnings.warn(message, LanguageWarning, stacklevel=3)


def _made_from(keys: Iterable[str], parts: Mapping[str, PartRecord]) -> set[str]:
    """The parts that are made from those of `keys`, and from what is made from them."""
    found, sources = set[str](), set(keys)
    while new := {key for key, record in parts.items() if not sources.isdisjoint(record.inputs)} - found:
        found |= new
        sources |= new
    return found


def _first(folder: Path, store: Store, settings: Settings, seed: int) -> Manifest:
    """The first manifest, written after the collection of documents: nobody can write to that before."""
    with manifests.making(folder):
        held = manifests.read(folder)
        if held is None:
            documents = store.create("documents", SCHEMA)
            held = Manifest(
                settings=settings,
                seed=seed,
                documents_version=documents.version,
                documents_identity=documents.identity,
                libraries=manifests.libraries(),
            )
            manifests.write(folder, held)
        return held


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"The workspace {folder} cannot be made: {error.strerror or error}.") from error
