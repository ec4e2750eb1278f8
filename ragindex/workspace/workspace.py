"""A workspace: one folder with a corpus, the parts made from it, and the caches. Open it, add, sync, retrieve.

`sync` builds, `corpus_changes` changes the documents, `session` holds the state they share.
"""

import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
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
from ragindex.types import Document, Usage
from ragindex.workspace import corpus_changes, disk_usage, imported_files, payments, sources
from ragindex.workspace import manifest as manifests
from ragindex.workspace import repair as mending
from ragindex.workspace.disk_usage import Disk
from ragindex.workspace.documents import DOCUMENT_SCHEMA, Changed, Documents
from ragindex.workspace.encoder import Encoders
from ragindex.workspace.llm import Model
from ragindex.workspace.manifest import IndexSettings, Manifest, PartRecord
from ragindex.workspace.part_context import PartReadContext, open_pinned
from ragindex.workspace.part_keys import (
    tasks_of,
    topological_order,
)
from ragindex.workspace.session import Session
from ragindex.workspace.settings import require_seed, resolve_settings
from ragindex.workspace.sync import Synced, current_keys, drop_part, sync


@dataclass(frozen=True, slots=True)
class PartFigures:
    """What a part took, as if built alone: seconds and tokens when each was first paid, and bytes on disk."""

    name: str
    seconds: float
    bytes: int
    search: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class CorpusCounts:
    """The size of the corpus at the last finished sync."""

    documents: int
    passages: int


@dataclass
class Workspace(Session):
    """An index folder. Made by `Workspace.open`. Writes hold the writer's lease; readers see the last finished sync."""

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
        require_seed(seed or 0)
        may_create = create and not read_only
        held = manifests.read_manifest(folder) if may_create else manifests.require_manifest(folder)
        plugin = registry.store(store or (held.settings.store if held else "lancedb"))
        settings = resolve_settings(folder, held, language, chunking, plugin)
        if held is None:
            _make(folder)
        opened = plugin.open(folder / "store")
        if held is None:
            held = _first(folder, opened, settings, seed or 0)
            # somebody else may have made it meanwhile
            settings = resolve_settings(folder, held, language, chunking, plugin)
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
            raise mending.with_repair_hint(error, self.folder) from error

    def close(self) -> None:
        """Let go of what is held in memory, and of the state that is read; retrievers keep theirs."""
        self.opened.clear()
        self._lease = None

    # ------------------------------------------------------------ documents

    @mending.adds_repair_hint
    def add(self, documents: Corpus | Iterable[Corpus] | Iterable[Document], *, source: str = "") -> Changed:
        """Add documents, replacing those with the same id. `sync` brings parts up to them.

        A corpus that was read from a path belongs to the source of that path: ids are relative to the folder that the
        workspace remembers. A second folder needs a name, `source`, which its ids begin with. The documents that a
        program makes keep their ids; `source` names them (default: "program"). Raises UsageError, and WorkspaceError
        where an id is that of another source's document; nothing is written then.
        """
        return corpus_changes.add_documents(self, documents, source=source)

    @mending.adds_repair_hint
    def remove(self, ids: Sequence[str]) -> Changed:
        """Remove documents. Raises UsageError if one of `ids` is not there: nothing is removed then.

        What is still in the file or folder it came from comes back when that is indexed again.
        """
        return corpus_changes.remove_documents(self, ids)

    @mending.adds_repair_hint
    def remove_source(self, name: str) -> Changed:
        """Remove all documents of a source and forget it. Raises UsageError where there is none of that name."""
        return corpus_changes.remove_source(self, name)

    @mending.adds_repair_hint
    def replace(self, documents: Corpus | Iterable[Document], *, source: str = "") -> Changed:
        """Make a source hold exactly these documents; those of other sources stay.

        The rest as `add`. Of a file or folder inside a folder that the workspace remembers, only what lies there is
        brought up to date.
        """
        return corpus_changes.replace_source(self, documents, source=source)

    def sources(self) -> list[dict[str, str | int]]:
        """Where the documents come from: name, root, format, prefix of the ids, and the number of documents."""
        return sources.describe_sources(self.manifest.sources, Counter(self.documents.sources().values()))

    def counts(self) -> CorpusCounts:
        """Documents and passages of the last finished sync."""
        return CorpusCounts(self.manifest.documents, self.manifest.passages)

    # ------------------------------------------------------------ building

    @mending.adds_repair_hint
    def sync(self, plugins: Iterable[Scheme | Part[Any]] = ()) -> Synced:
        """Bring the parts of `plugins` up to the corpus; without any, all parts that were ever finished.

        Goes on where an earlier sync stopped. Raises WriterBusyError, StoreError, WorkspaceError without documents.
        """
        return sync(self, plugins)

    def import_part(self, part: Written, file: Path) -> None:
        """From now on a part's content comes from `file`, which is copied into the workspace.

        Raises DataError where it cannot be read, UsageError for a part that cannot be imported from a file.
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
            replaced = before - current_keys(self, imported)  # made from another file: no sync would bring them up
            self.save(
                imports=imported.imports,
                imported_from={**self.manifest.imported_from, name: str(Path(file).resolve())},
                parts={key: record for key, record in self.manifest.parts.items() if key not in replaced},
                outdated=self.manifest.outdated | dict.fromkeys(sorted(replaced), time.time()),
                leftover=True,
            )

    def repair(self) -> mending.Findings:
        """Look at everything that is kept and remove what is damaged; `sync` then makes it again."""
        with self.writer("ragindex repair"):
            self.reload()
            manifests.write_manifest(self.folder, self.manifest)  # both copies of it are whole
            names = self.store.names()
            fit = self.encoders.damage(self.encoder_id)
            found = mending.find_damage(
                self.folder, self.manifest, self.store, fit, lambda key: drop_part(self, key, names)
            )
        self.close()
        return found

    def disk(self) -> Disk:
        """What the folder holds: what serves the last finished sync's readers, and the rest, by name."""
        return disk_usage.measure_disk(self.folder, self.store, self.manifest)

    # ------------------------------------------------------------ reading

    def retriever(self, scheme: Written) -> Retriever:
        """The retriever of a scheme that `sync` has built; traced where that is on. Raises MissingPartError."""
        made = registry.scheme(scheme)
        return mlflow_tracing.trace_if_enabled(made.open(self), registry.label(made))

    @mending.adds_repair_hint
    def open_part(self, part: Part[Any]) -> Any:
        """A part as the last finished sync left it. Raises MissingPartError with the command that makes it."""
        self.pin()
        key, record = self.key(part, self.pinned_encoder(part)), self.record(part)
        if record.corpus != self.manifest.corpus or self.corpus_moved():
            warnings.warn(
                f"The part {record.name} is older than the corpus. Run: ragindex index --index {self.folder}",
                StaleWarning,
                stacklevel=2,
            )
        if key not in self.opened:
            self.opened[key] = part.open(self._read_context(part, key, record))
        return self.opened[key]

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
            lease=self.pin(),
        )

    # ------------------------------------------------------------ figures of what was built

    def all_parts(self, scheme: Scheme) -> tuple[Part[Any], ...]:
        """The parts of a scheme and their inputs, each once, inputs first."""
        return tuple(topological_order(scheme.parts()))

    def figures(self, part: Part[Any]) -> PartFigures:
        """What a part took, its inputs not included. Raises MissingPartError."""
        record = self.record(part)
        opened = self.open_part(part)
        search = str(opened.describe()["search"]) if hasattr(opened, "describe") else ""
        usage = Usage(record.seconds, record.input_tokens, record.output_tokens, record.money)
        return PartFigures(record.name, record.seconds, record.bytes, search, usage)

    def fit_figures(self) -> PartFigures | None:
        """What fitting the encoder took; None for an encoder that learns nothing from the corpus."""
        fit = self.encoders.fit(self.encoder_id)
        if fit is None:
            return None
        name = f"{registry.label(self.encoders.plugin)} fit"
        return PartFigures(name, fit.seconds, fit.bytes, "", Usage(fit.seconds))

    def asks(self, scheme: Scheme) -> bool:
        """Whether the scheme or one of its parts asks an LLM, or the rules in its place; imported parts do not."""
        return payments.asks_llm(self, [scheme])

    def failures(self, scheme: Scheme) -> dict[str, dict[str, str]]:
        """The passages that a scheme's parts could not be made for, with the reason, by the part's name."""
        records = [self.record(part) for part in self.all_parts(scheme)]
        return {record.name: record.failed for record in records if record.failed}

    def notes(self, scheme: Scheme) -> list[str]:
        """What a reader of a scheme's figures should know of its parts."""
        records = [self.record(part) for part in self.all_parts(scheme)]
        return [f"{record.name}: {note}" for record in records for note in record.notes]

    def result_fingerprint(self, scheme: Scheme) -> str:
        """A hash of what a ranking depends on: scheme, parts, encoder, corpus, seed, settings, libraries."""
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
        """What a ranking depends on besides, where a language model is asked: by parts that failed, by the scheme."""
        failed = self.failures(scheme)
        asked = [task.identity for task in tasks_of(scheme)]
        return {**({"failed": failed} if failed else {}), **({"llm": self.model.id, "tasks": asked} if asked else {})}

    def unpriced(self, plugins: Iterable[Scheme | Part[Any]], *, reads: bool = False) -> dict[str, str]:
        """Of who would be paid for `plugins`, and with `reads` for reading, those without a price.

        What to say of each, by how it is written. Asks nobody.
        """
        return payments.unpriced(self, plugins, reads=reads)

    def require_prices(self, plugins: Iterable[Scheme | Part[Any]], *, reads: bool = False) -> None:
        """Raises UsageError where there is a budget, and somebody who would be paid for `plugins` has no price."""
        payments.require_prices(self, plugins, reads=reads)

    # ------------------------------------------------------------ how it was opened

    @property
    def encoder_name(self) -> str:
        """The encoder as it is written."""
        return self.encoders.name

    @property
    def llm_name(self) -> str:
        """The language model as it is written."""
        return self.model.name

    @property
    def store_name(self) -> str:
        """The store as it is written."""
        return registry.label(self.store_plugin)

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


def _first(folder: Path, store: Store, settings: IndexSettings, seed: int) -> Manifest:
    """The first manifest, written after the collection of documents: nobody can write to that before."""
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


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"The index {folder} cannot be created: {error.strerror or error}.") from error
