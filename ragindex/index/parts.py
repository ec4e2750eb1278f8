"""Parts in an index: their keys, their order, the contexts they are built and opened with, and imported files.

Passages of a chunking that is not the index's own are a part too, from which others are made. A file that a part is
imported from is copied into the index, and named by the hash of its content.
"""

import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import regex
from pydantic import Field

from ragindex._util import canonical, durable_files
from ragindex.corpus.chunk_spans import TokenSpans
from ragindex.errors import (
    BrokenPluginError,
    DamagedError,
    DataError,
    MissingPartError,
    NameTakenError,
    RagindexError,
    StoreError,
    UsageError,
)
from ragindex.filters import TERMS_VERSION
from ragindex.index.documents import CHUNK_SCHEMA, Documents
from ragindex.index.leases import ReaderLease
from ragindex.index.manifest import wrap_write_errors
from ragindex.interfaces import (
    BuildContext,
    Change,
    Collection,
    Encoder,
    Part,
    ReadContext,
    Schema,
    Scheme,
    SearchKind,
    Store,
    Uses,
)
from ragindex.interfaces.llm import LLM, PaidPlugin
from ragindex.plugins import code_fingerprint, registry
from ragindex.plugins.base import Plugin
from ragindex.plugins.plugin_errors import describe_class, describe_failure, find_fault
from ragindex.stores.metered import MeteredCollection
from ragindex.text_analysis import VERSION as ANALYSIS
from ragindex.types import ChunkBy, Chunking

if TYPE_CHECKING:
    from ragindex.llm.tasks import Task


@dataclass(frozen=True, slots=True)
class KeyInputs:
    """The inputs shared by all parts: encoder id, LLM id, seed, and the hashes of imported files by part name."""

    encoder: str | None
    llm: str
    seed: int
    imports: Mapping[str, str] = field(default_factory=dict)

    def imported(self, part: Part[Any]) -> str | None:
        """Return the hash of the file that a part is imported from, or None if it is not imported."""
        return self.imports.get(registry.name_of(part)) if "import" in part.uses else None


def part_key(part: Part[Any], shared: KeyInputs) -> str:
    """Return the key of a part: its name and a hash of its class, version, parameters, inputs, and what `uses` names.

    The key of an imported part depends on the file instead of the LLM.
    """
    own: dict[str, Any] = {
        "part": registry.plugin_fingerprint(part),
        "inputs": [part_key(source, shared) for source in inputs_of(part)],
        "encoder": shared.encoder if "encoder" in part.uses else None,
        "seed": shared.seed if "seed" in part.uses else None,
        "analysis": ANALYSIS,
        "terms": TERMS_VERSION,
    }
    imported = shared.imported(part)
    if imported is not None:
        own["import"] = imported
    elif "model" in part.uses:
        own["model"] = shared.llm
    if imported is None and (tasks := part.tasks()):
        own["prompts"] = [task.identity for task in tasks]
    return f"{regex.sub(r'[^A-Za-z0-9_-]', '-', registry.name_of(part))}-{canonical.digest(own)}"


def tasks_of(scheme: Scheme) -> tuple["Task[Any]", ...]:
    """Return the LLM tasks that a scheme runs for queries: its own and those of its base schemes, without duplicates.

    The tasks that its parts use while they are built are not included.
    """
    return tuple(dict.fromkeys((*scheme.tasks(), *(task for base in scheme.base_schemes() for task in tasks_of(base)))))


def require_working(scheme: Scheme) -> Scheme:
    """Return the scheme if it and its parts can be used. Raises BrokenPluginError if one lacks something or fails."""
    try:
        parts = topological_order(scheme.parts())
        tasks_of(scheme)
        for plugin in (scheme, *parts):
            if code_fingerprint.of(type(plugin)) is not None and (fault := find_fault(plugin)) is not None:
                raise BrokenPluginError(f"{describe_class(plugin)}: {fault}")
    except RagindexError:
        raise
    except Exception as error:
        raise broken_plugin(registry.name_of(scheme), error, scheme) from error
    return scheme


def list_working_methods() -> dict[str, list[Part[Any]]]:
    """Return all parts, inputs first, of each installed method that works with its default parameters, by name."""
    methods = dict[str, list[Part[Any]]]()
    for name in registry.plugin_names("schemes"):
        try:
            methods[name] = topological_order(require_working(registry.scheme(name)).parts())
        except RagindexError:  # broken, or without a default
            continue
    return methods


def require_working_default(name: str) -> None:
    """Check the method of a name with its default parameters; a method that requires a parameter is not checked.

    Raises BrokenPluginError or NameTakenError.
    """
    try:
        require_working(registry.scheme(name))
    except (BrokenPluginError, NameTakenError):
        raise
    except UsageError:
        return


def broken_plugin(method: str, error: Exception, scheme: Scheme) -> BrokenPluginError:
    """Return the error for a method whose code failed: what it raised, and where."""
    failure = describe_failure(error, scheme)
    return BrokenPluginError(f"The method {method} is broken: {failure}. Fix or uninstall it, or leave it out.")


def paid_by(plugin: Plugin) -> Iterator[PaidPlugin]:
    """Yield the paid plugins among a plugin and the plugins in its parameters, at any depth."""
    if isinstance(plugin, PaidPlugin):
        yield plugin
    for inner in plugin.inner_plugins():
        yield from paid_by(inner)


def uses_encoder(part: Part[Any]) -> bool:
    """Return whether the part or one of its inputs uses the encoder."""
    return "encoder" in part.uses or any(uses_encoder(source) for source in inputs_of(part))


def parts_of(plugin: Scheme | Part[Any]) -> tuple[Part[Any], ...]:
    """Return the parts of a scheme, or the part itself."""
    return plugin.parts() if isinstance(plugin, Scheme) else (plugin,)


def inputs_of(part: Part[Any]) -> tuple[Part[Any], ...]:
    """Return the inputs of a part, made from the same passages; without any, the chunks that it is made from."""
    chunking = part.own_chunking()
    inputs = tuple(source.with_chunking(chunking) for source in part.inputs())
    chunks = None if inputs or isinstance(part, Chunks) else chunks_of(chunking)
    return inputs if chunks is None else (chunks,)


def topological_order(parts: Iterable[Part[Any]]) -> list[Part[Any]]:
    """Return the parts and their inputs without duplicates, inputs first."""
    ordered: dict[str, Part[Any]] = {}

    def visit(part: Part[Any]) -> None:
        fingerprint = registry.plugin_fingerprint(part)
        if fingerprint not in ordered:  # else its inputs are there too
            for source in inputs_of(part):
                visit(source)
            ordered[fingerprint] = part

    for part in parts:
        visit(part.with_chunking(None))
    return list(ordered.values())


class Chunks(Part[Collection]):
    """The spans of the passages of a chunking: one record per document.

    It is made from documents, not passages: its coverage has the ids and revisions of documents. The parts that are
    made from its passages have it as an input.
    """

    version: ClassVar[int] = 1
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset()
    by: ChunkBy = Field(description="Units and boundaries of passages.")
    size: int | None = Field(default=None, description="Most units of a passage.")
    overlap: int = Field(default=0, description="Most units shared with the passage before.")

    @property
    def chunking(self) -> Chunking:
        """The chunking; its context is no matter of spans."""
        return Chunking(self.size, self.overlap, self.by)

    def apply(self, change: Change, context: BuildContext) -> None:
        """Split the documents of the batch."""
        records = context.collection("records", CHUNK_SCHEMA)
        records.delete(change.remove)
        if change.upsert:
            building: PartBuildContext = context  # type: ignore[assignment]  # the index makes the context
            records.upsert(building.documents.chunk_rows(list(change.upsert), self.chunking, self._tokens(context)))

    def open(self, context: ReadContext) -> Collection:
        """Return the collection of spans."""
        return context.collection("records")

    def _tokens(self, context: BuildContext) -> TokenSpans | None:
        return None


class TokenChunks(Chunks):
    """Passages whose size is counted in tokens of the index's encoder."""

    uses: ClassVar[Uses] = frozenset({"encoder"})

    def _tokens(self, context: BuildContext) -> TokenSpans:
        return context.encoder.token_spans


def chunks_of(chunking: Chunking | None) -> Chunks | None:
    """Return the part with the passages of `chunking`; None if they are the index's own."""
    if chunking is None or chunking.by == "index":
        return None
    kind = TokenChunks if chunking.by == "tokens" else Chunks
    return kind(by=chunking.by, size=chunking.size, overlap=chunking.overlap)


def documents_of(part: Part[Any], documents: Documents, open_chunks: Callable[[Chunks], Collection]) -> Documents:
    """Return the documents with the passages of a part; `open_chunks` opens those of a chunking of its own."""
    chunking = part.own_chunking()
    chunks = chunks_of(chunking)
    if chunking is None or chunks is None:
        return documents
    return documents.chunked(chunking, lambda: open_chunks(chunks))


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
    """The implementation of ragindex.interfaces.BuildContext.

    `failures` maps passage ids to reasons; `set_aside` are those that are not retried by themselves.
    """

    seed: int
    open_llm: Callable[[], LLM]
    imported: Path | None = None
    failures: dict[str, str] = field(default_factory=dict)
    set_aside: set[str] = field(default_factory=set)
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

    def failed(self, id: str, reason: str, *, set_aside: bool = False) -> None:
        """Record that a passage could not be built, and why. The reason is stored with the part."""
        self.failures[id] = reason[:_MAX_REASON_LENGTH]
        if set_aside:
            self.set_aside.add(id)

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


TRIPLES = "extractions"
"""The name of the part that --triples fills."""


def require_reader(schemes: Iterable[Scheme]) -> None:
    """Raise UsageError if no part of `schemes` uses the file given with --triples. Called before any work is done."""
    parts = topological_order([part for scheme in schemes for part in scheme.parts()])
    if TRIPLES not in [registry.name_of(part) for part in parts]:
        raise UsageError("No selected method uses triples. Try 'bm25(over=triples)'.")


def store_import(file: Path, folder: Path) -> str:
    """Copy `file` into the index in `folder` and return its hash (16 hexadecimal digits).

    Raises DataError if the file cannot be read or changes meanwhile, and StoreError if the copy cannot be written.
    """
    try:
        digest = durable_files.hash_file(file)
    except OSError as error:
        raise DataError("a file to import", error.strerror or str(error), path=file) from error
    target = imported_path(folder, digest)
    with wrap_write_errors(f"{file} could not be copied into {folder}"):
        target.parent.mkdir(parents=True, exist_ok=True)
        if durable_files.find_file_damage(target, digest) is not None:
            with file.open("rb") as source, durable_files.replace_file(target) as copy:
                shutil.copyfileobj(source, copy)
    if durable_files.find_file_damage(target, digest) is not None:
        raise DataError("a file that nobody changes while it is imported", "another", path=file)
    return digest


def require_import(folder: Path, digest: str, source: str) -> Path:
    """Return the path of the index's copy of an imported file. Raises DamagedError if it is damaged or missing.

    `source` is the path that the file was imported from, for the error's command.
    """
    path = imported_path(folder, digest)
    wrong = durable_files.find_file_damage(path, digest)
    if wrong is not None:
        option = f"--triples {shlex.quote(source or 'FILE')}"
        raise DamagedError(f"An imported file: {wrong}. Give it again. {durable_files.repair_hint(folder)} {option}")
    return path


def imported_path(folder: Path, digest: str) -> Path:
    """Return the path at which the index keeps the imported file with this hash."""
    return folder / "imports" / digest
