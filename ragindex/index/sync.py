"""Building and updating parts: plan, apply, cover, finish, pin readers, clean.

`sync` handles building, adding, changing, removing and resuming.

A part's coverage (passage id, revision, cost) is a collection next to the part's data, written after the data. Before
the data, a journal names the passages whose records are about to change. If a process dies at any moment, the next
sync therefore rebuilds or removes the passages that are in doubt or not covered; applying a batch twice is harmless.
"""

import logging
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ragindex._util import durable_files
from ragindex._util.cores import available_cores, limit_blas
from ragindex._util.progress import progress_bar
from ragindex._util.text import many
from ragindex._util.time_limit import TimeLimitError, require_time
from ragindex.accounting import ledger
from ragindex.corpus import passage_text
from ragindex.encoders.vector_cache import CachedEncoder
from ragindex.errors import (
    BrokenPluginError,
    LeftoverWarning,
    MissingExtraError,
    NameTakenError,
    StaleWarning,
    StoreError,
    UnknownNameError,
    UsageError,
    WorkspaceError,
    WriterBusyError,
)
from ragindex.index import revisions, versioned_files
from ragindex.index.coverage import DamagedJournalError, Journal, PartCoverage, remove_journals, unfinished_parts
from ragindex.index.documents import Documents
from ragindex.index.fit_watch import PassageSample
from ragindex.index.leases import drop_collections, remove_unread
from ragindex.index.manifest import Manifest, PartRecord, libraries, update_copy
from ragindex.index.models import ASKED_FOR, Refit
from ragindex.index.parts import (
    Chunks,
    KeyInputs,
    PartBuildContext,
    documents_of,
    inputs_of,
    list_working_methods,
    part_key,
    parts_of,
    require_import,
    require_working,
    topological_order,
    uses_encoder,
)
from ragindex.index.repair import damaged_files
from ragindex.index.state import IndexState
from ragindex.interfaces import Change, Collection, Encoder, Part, Scheme, Store
from ragindex.interfaces.llm import LLM
from ragindex.llm.tasks import answers_can_wait, retries_failed
from ragindex.plugins import code_fingerprint, registry
from ragindex.plugins.plugin_errors import is_of_plugin
from ragindex.plugins.registry import describe, name_of
from ragindex.types import Chunking, Usage

_log = logging.getLogger(__name__)
_BATCH = 2048
"""Passages per batch. Each batch is a version of a collection, whose cost grows with the number of versions."""
_DEAR_BATCH = 256
"""Passages per batch for parts that call an encoder or an LLM and lose a batch in a crash."""


@dataclass(slots=True)
class Building:
    """A part that is being built: its key, inputs, build context, encoder and coverage.

    `record` is its record if nothing of it has to be built.
    """

    key: str
    part: Part[Any]
    inputs: tuple["Building", ...]
    context: PartBuildContext
    encoder: CachedEncoder | None
    encoder_name: str
    coverage: PartCoverage
    record: PartRecord | None = None
    finished_before: float = 0.0
    """Seconds of all earlier `finish` calls, if each processes only what has changed (`Part.finishes_changes`)."""

    @property
    def name(self) -> str:
        """The part's registered name."""
        return name_of(self.part)


@dataclass(frozen=True, slots=True)
class BuildResult:
    """The result of a sync: passages built and removed, summed over parts, and the seconds of its two stages.

    `refit` is the new fit of the encoder, if it replaces another.
    """

    made: int = 0
    forgotten: int = 0
    batches_seconds: float = 0.0
    finish_seconds: float = 0.0
    refit: Refit | None = None


def sync(index: IndexState, plugins: Iterable[Scheme | Part[Any]] = ()) -> BuildResult:
    """Build or update the parts of `plugins`; without any, update all parts built with the current settings.

    Resumes an interrupted sync. Raises WriterBusyError, StoreError, WorkspaceError if there are no documents, and
    BrokenPluginError if a scheme or one of its parts lacks something. What a part raises is raised with a note.
    """
    index.reload()
    plugins = [require_working(plugin) if isinstance(plugin, Scheme) else plugin for plugin in plugins]
    if index.manifest.parts and index.manifest.finished_by != index.store_plugin.finishes_by:
        _finish_again(index)
    parts = topological_order([part for plugin in plugins for part in parts_of(plugin)] or finished_parts(index))
    damaged = _damaged_files(index, parts)
    if _is_up_to_date(index, parts) and not damaged:
        _make_current(index)
        # Remove data that the last sync kept for its readers, unless another process is writing.
        if index.manifest.leftover and not index.read_only:
            lease = index.writer if index.holds_lease else index.store.lease
            with suppress(WriterBusyError), lease("cleaning up"):
                index.reload()
                _clean(index)
        return BuildResult()
    index.require_prices(parts)
    cores = limit_blas(available_cores())  # in a container, BLAS sees all cores of the machine
    with cores, index.writing("indexing") as corpus:
        revisions = corpus.passage_revisions()
        if not len(revisions) and not index.manifest.parts:
            raise WorkspaceError(
                f"The index {index.folder} has no documents. Run: ragindex add FILES --index {index.folder}"
            )
        refit = None
        if any("encoder" in part.uses for part in parts):
            ids = sorted(revisions.column("id").to_pylist())
            refit = index.encoders.prepare(
                lambda: _read_texts(index, corpus, ids),
                len(ids),
                PassageSample(revisions, partial(_read_texts, index, corpus)),
                watch=not find_refit_hindrances(index, parts),
            )
        if refit is not None and refit.reason != ASKED_FOR:
            _log.warning("%s was fitted again in %.1f s, because %s.", refit.encoder, refit.seconds, refit.reason)
        tasks = _plan(index, parts, corpus, keep=not damaged and not index.corpus_moved())
        records, synced = apply_changes(tasks, revisions)
        _pin_readers(index, records, corpus, revisions)
    for sentence in damaged:
        warnings.warn(f"{sentence}: rebuilt.", durable_files.RepairWarning, stacklevel=2)
    return replace(synced, refit=refit)


# ---------------------------------------------------------------- plan


def _is_up_to_date(index: IndexState, parts: Sequence[Part[Any]]) -> bool:
    if index.corpus_moved():
        return False
    if not parts:
        return not unfinished_parts(index.folder)  # of a method whose first build was interrupted
    if any(map(uses_encoder, parts)) and index.encoders.awaits_refit():
        return False
    keys = {index.key(part, index.pinned_encoder(part)) for part in parts}
    return keys <= _list_finished(index, keys).keys()


def _list_finished(index: IndexState, keys: set[str]) -> dict[str, PartRecord]:
    """Return the records of the parts among `keys` that the last sync finished, and that lost nothing since.

    Passages that are set aside count as done, unless this sync retries them.
    """
    unfinished, recorded, retries = unfinished_parts(index.folder), index.manifest.parts, retries_failed()
    return {
        key: recorded[key]
        for key in recorded.keys() & keys - unfinished
        if recorded[key].corpus == index.manifest.corpus
        and (not recorded[key].failed or (recorded[key].failed.keys() <= set(recorded[key].set_aside) and not retries))
        and all((now or 0) >= pinned for now, pinned in _list_versions(index, key))
    }


def find_refit_hindrances(index: IndexState, parts: Sequence[Part[Any]] = ()) -> list[PartRecord]:
    """Return the records for which a sync of `parts` does not fit the encoder again because of unknown words.

    Those are the parts that depend on its fit and were paid for, as summaries of clusters, or that the sync does not
    build. Without `parts`, only the ones that were paid for.
    """
    fit = index.encoder_id
    fitted = {key for key, record in index.manifest.parts.items() if fit and record.encoder == fit}
    dependents = {key: index.manifest.parts[key] for key in fitted | _made_from(fitted, index.manifest.parts)}
    built = {index.key(part, index.pinned_encoder(part)) for part in parts} if parts else dependents.keys()
    return [record for key, record in sorted(dependents.items()) if record.money != 0 or key not in built]


def _make_current(index: IndexState) -> None:
    """Make encoder, LLM and seed of the index the index's own, as a sync does that builds something."""
    if not index.read_only and not index.is_current():
        with index.writer("indexing"):
            index.reload()
            index.save(**index.built_with())


def _list_versions(index: IndexState, key: str) -> list[tuple[int | None, int]]:
    """Return (version in the store, version that readers are pinned to) for each collection of a finished part.

    The store's version is None or older if the collection was deleted or restored from a backup.
    """
    record = index.manifest.parts.get(key)
    pinned = record.collections.items() if record else ()
    return [(index.store.version(f"{key}.{kind}"), version) for kind, version in pinned]


def current_keys(index: IndexState, manifest: Manifest | None = None) -> set[str]:
    """Return the keys of the finished parts that match the imported files of `manifest`, for any known encoder."""
    imported, encoders = (manifest or index.manifest).imports, {None, *index.manifest.encoders.values()}
    settings = [KeyInputs(encoder, index.model.id, index.seed, imported) for encoder in encoders]
    parts = [_load_plugin(record) for record in index.manifest.parts.values()]
    return {part_key(part, inputs) for part in parts if part for inputs in settings} & index.manifest.parts.keys()


def _damaged_files(index: IndexState, parts: Sequence[Part[Any]]) -> list[str]:
    """Return a sentence for each damaged file or fit that readers of `parts` open; the next sync rebuilds them."""
    fit = index.encoders.damage(index.encoder_id) if any(map(uses_encoder, parts)) else None
    keys = [index.key(part, index.pinned_encoder(part)) for part in parts]
    return [*([fit] if fit else []), *damaged_files(index.folder, index.manifest, keys)]


def finished_parts(index: IndexState, methods: Iterable[Scheme | Part[Any]] = ()) -> list[Part[Any]]:
    """Return the finished parts that were built with the current encoder, LLM and seed.

    Parts of `methods` need not be registered: others that are not are left out, with a warning.
    """
    own = {index.key(part, index.pinned_encoder(part)): part for each in methods for part in index.all_parts(each)}
    names = {None, index.encoders.name}
    records = [(key, record) for key, record in index.manifest.parts.items() if record.encoder_name in names]
    parts = [(key, own.get(key) or _load_plugin(record)) for key, record in records]
    return [part for key, part in parts if part and key == index.key(part, index.pinned_encoder(part))]


def parts_to_update(index: IndexState) -> list[Part[Any]]:
    """Return the parts that an update builds: the finished ones; if another encoder, LLM or seed is named, all of them.

    What other encoders have built besides the index's own is left as it is.
    """
    parts = finished_parts(index)
    if index.is_current():
        return parts
    others = filter(None, map(_load_plugin, index.manifest.parts.values()))
    return [*parts, *(part for part in others if part not in parts)]


def _load_plugin(record: PartRecord) -> Part[Any] | None:
    """Return a recorded part as a plugin, or None with a warning if the plugin is broken or no longer installed."""
    try:
        return registry.part(record.part)
    except (UnknownNameError, NameTakenError, MissingExtraError, BrokenPluginError) as error:
        warnings.warn(f"The part {record.name} is not updated. {error}", StaleWarning, stacklevel=2)
        return None


def _plan(index: IndexState, parts: Sequence[Part[Any]], corpus: Documents, *, keep: bool) -> list[Building]:
    """Return what to build, inputs first. With `keep`, finished parts stay as they are, if their inputs do."""
    tasks: dict[str, Building] = {}
    encoder = index.encoders.building() if any("encoder" in part.uses for part in parts) else None
    id = encoder.id if encoder else None
    finished = _list_finished(index, {index.key(part, id) for part in parts}) if keep else {}
    names = index.store.names()

    def open_chunks(chunks: Chunks) -> Collection:
        name = f"{index.key(chunks, id)}.records"
        return index.store.open(name, index.store.version(name) or 0)

    for part in parts:
        key = index.key(part, id)
        lost = any((now or 0) < pinned for now, pinned in _list_versions(index, key))
        if lost or f"{key}.coverage" not in names:  # data without coverage may be left from an interrupted drop
            drop_part(index, key, names)
        inputs = tuple(tasks[index.key(source, id)] for source in inputs_of(part))
        used = encoder if "encoder" in part.uses else None
        context = _build_context(index, part, key, inputs, documents_of(part, corpus, open_chunks), used)
        coverage = _open_coverage(index, part, key, names)
        earlier = index.manifest.parts.get(key) if part.finishes_changes else None
        tasks[key] = Building(
            key=key,
            part=part,
            inputs=inputs,
            context=context,
            encoder=used,
            encoder_name=index.encoders.name,
            coverage=coverage,
            record=finished.get(key) if all(task.record for task in inputs) else None,
            finished_before=earlier.finish_seconds if earlier else 0.0,
        )
    return list(tasks.values())


def _open_coverage(index: IndexState, part: Part[Any], key: str, names: Sequence[str]) -> PartCoverage:
    """Open a part's coverage. If the journal is damaged, drop the part first, because its content is then unknown."""
    journal = Journal.of(index.folder, key)
    try:
        return PartCoverage.open(index.store, key, journal, shares=part.shares_records)
    except DamagedJournalError:
        drop_part(index, key, names)
        return PartCoverage.open(index.store, key, journal, shares=part.shares_records)


def _build_context(
    index: IndexState,
    part: Part[Any],
    key: str,
    inputs: Sequence[Building],
    corpus: Documents,
    encoder: CachedEncoder | None,
) -> PartBuildContext:
    def open_inputs() -> tuple[Any, ...]:
        return tuple(task.part.open(task.context.reopened().newest()) for task in inputs)

    def open_encoder() -> Encoder:
        if encoder is None:
            raise UsageError(f'The part {key} uses an encoder; add "encoder" to its `uses`.')
        return encoder

    def open_llm() -> LLM:
        if "model" not in part.uses:
            raise UsageError(f'The part {key} uses an LLM; add "model" to its `uses`.')
        return index.llm

    root, file = index.folder, index.imported(part)
    if file is not None:
        require_import(root, file.name, index.manifest.imported_from.get(registry.name_of(part), ""))
    return PartBuildContext(
        key=key,
        store=index.store,
        open_documents=lambda: corpus,
        root=root,
        language=index.language,
        open_inputs=open_inputs,
        open_encoder=open_encoder,
        seed=index.seed,
        open_llm=open_llm,
        imported=file,
    )


def _read_texts(index: IndexState, corpus: Documents, ids: Sequence[str]) -> list[str]:
    texts: list[str] = []
    for start in range(0, len(ids), 2048):
        batch = corpus.passages(ids[start : start + 2048])
        pairs = zip(batch.column("title").to_pylist(), batch.column("text").to_pylist(), strict=True)
        texts += [passage_text(title, text) for title, text in pairs]
    return texts


def drop_part(index: IndexState, key: str, names: Sequence[str]) -> None:
    """Remove a part and its collections. `names` are the store's collection names."""
    record = index.manifest.parts.get(key)
    drop_collections(index.folder, index.store, key, names, ("coverage", *record.collections) if record else ())


# ---------------------------------------------------------------- apply and cover


def apply_changes(tasks: Sequence[Building], corpus: pa.Table) -> tuple[dict[str, PartRecord], BuildResult]:
    """Update `tasks`, ordered inputs first, to the passage revisions of `corpus`.

    The passages of other chunkings are made first. A part is finished before the parts built from it are started.
    Returns the records of the finished parts by key, and the totals.
    """
    records, built, forgotten, finish_seconds, start = dict[str, PartRecord](), 0, 0, 0.0, time.perf_counter()
    fingerprint = revisions.corpus_fingerprint(corpus)
    chunks = [task for task in tasks if isinstance(task.part, Chunks)]
    others = [task for task in tasks if not isinstance(task.part, Chunks)]

    def update(task: Building, current: pa.Table) -> None:
        nonlocal built, forgotten, finish_seconds
        if task.record is not None:
            records[task.key] = task.record
            return
        forgotten += _forget(task, revisions.to_forget(current, task.coverage.stored))
        try:
            built += _build_passages(task, revisions.to_make(current, task.coverage.stored))
            made_at = time.perf_counter()
            with progress_bar(f"{task.name}: finishing", None):
                records[task.key] = _finish_part(task, fingerprint)
        except TimeLimitError as error:
            error.parts = tuple(registry.label(other.part) for other in tasks if other.key in records or other is task)
            raise
        finish_seconds += time.perf_counter() - made_at

    for task in chunks:
        update(task, task.context.documents.document_revisions())
    passages = _read_passage_revisions(others, corpus)
    _reuse_vectors(others, passages)
    for task in reversed(others):
        forgotten += _forget(task, revisions.to_forget(passages[task.part.own_chunking()], task.coverage.stored))
    for task in others:
        sources = [other.coverage.outputs for other in task.inputs if not isinstance(other.part, Chunks)]
        # An input may have failed for some passages.
        current = revisions.merge_revisions(sources) if sources else passages[task.part.own_chunking()]
        update(task, current)
    return records, BuildResult(built, forgotten, time.perf_counter() - start - finish_seconds, finish_seconds)


def _reuse_vectors(tasks: Sequence[Building], passages: Mapping[Chunking | None, pa.Table]) -> None:
    """Let encoders keep the vectors of what is removed if passages are made: these may be the same under other ids."""
    makes = any(len(revisions.to_make(passages[task.part.own_chunking()], task.coverage.stored)) for task in tasks)
    for task in tasks:
        if task.encoder is not None:
            task.encoder.take_vectors(makes)


def _read_passage_revisions(tasks: Sequence[Building], corpus: pa.Table) -> dict[Chunking | None, pa.Table]:
    """Return the revisions of the passages of each chunking; `corpus` are those of the index's own."""
    tables: dict[Chunking | None, pa.Table] = {None: corpus}
    for task in tasks:
        chunking, documents = task.part.own_chunking(), task.context.documents
        if chunking not in tables:
            tables[chunking] = corpus if documents.chunks is None else documents.passage_revisions()
    return tables


def _forget(task: Building, ids: list[str]) -> int:
    """Remove passages from a part. Callers remove them from dependent parts before the part itself."""
    with progress_bar(f"{task.name}: removing", len(ids)) as advance, _keep_cache_open(task):
        for start in range(0, len(ids), _BATCH):
            batch = ids[start : start + _BATCH]
            task.coverage.begin(batch)
            _touch_neighbours(task, batch)
            _remove(task, batch)
            advance(len(batch))
    return len(ids)


def _keep_cache_open(task: Building) -> AbstractContextManager[None]:
    return nullcontext() if task.encoder is None else task.encoder.keep_cache_open()


def _remove(task: Building, ids: Sequence[str]) -> None:
    task.part.apply(Change({}, tuple(ids)), task.context)
    task.coverage.forget(ids)


def _build_passages(task: Building, todo: pa.Table) -> int:
    task.context = task.context.reopened()  # the inputs may have changed since passages were removed
    if not len(todo) and not len(task.coverage.stored):
        task.part.apply(Change({}), task.context)  # an empty part needs its collections too
    expensive = task.part.uses & {"encoder", "model"} and not task.part.caches_costs
    size = min(_BATCH, _DEAR_BATCH) if expensive else _BATCH
    if "model" in task.part.uses:
        size = max(size, task.context.llm.batch_size)
    known = pc.is_in(todo.column("id"), value_set=task.coverage.stored.column("id"))
    old = set(todo.column("id").filter(known).to_pylist())
    batches = (todo.slice(start, size) for start in range(0, len(todo), size))
    with (
        progress_bar(f"{task.name}: indexing", len(todo)) as advance,
        _keep_cache_open(task),
        closing(_encode_ahead(task, batches)) as ahead,
    ):
        for batch in ahead:
            ids, batch_revisions = batch.column("id").to_pylist(), batch.column("revision").to_pylist()
            task.coverage.begin(ids)
            _touch_neighbours(task, ids)  # passages that share the old records
            change = Change(dict(zip(ids, batch_revisions, strict=True)), fresh=old.isdisjoint(ids))
            cost = _apply_batch(task, change)
            _touch_neighbours(task, ids)  # passages that share the new records
            _cover(task, ids, batch_revisions, cost)
            advance(len(ids))
            require_time()
    task.coverage.flush()
    return len(todo)


def _encode_ahead(task: Building, batches: Iterator[pa.Table]) -> Generator[pa.Table, None, None]:
    """Yield batches of passages, while workers, if there are any, encode the texts of those that follow.

    Passages that have records already are left out: the part may need no new vectors of these.
    """
    if task.encoder is None:
        yield from batches
        return
    covered = task.coverage.stored.column("id")

    def list_texts(batch: pa.Table) -> Sequence[str]:
        ids = batch.column("id")
        new = ids.filter(pc.invert(pc.is_in(ids, value_set=covered.combine_chunks())))
        return task.part.list_texts(new.to_pylist(), task.context)

    with closing(task.encoder.encoding_ahead(batches, list_texts)) as ahead:
        yield from ahead


def _cover(task: Building, ids: Sequence[str], batch_revisions: Sequence[str], cost: Usage) -> None:
    """Record a batch as covered, except failed passages, so that the next sync tries them again.

    They are removed, unless their records can belong to other passages.
    """
    built = [
        (id, revision) for id, revision in zip(ids, batch_revisions, strict=True) if id not in task.context.failures
    ]
    failed = [id for id in ids if id in task.context.failures]
    if failed and task.part.shares_records:
        task.coverage.fail(failed)
    elif failed:
        _remove(task, failed)
    if built:
        task.coverage.cover([id for id, _ in built], [revision for _, revision in built], cost)


def _touch_neighbours(task: Building, ids: Sequence[str]) -> None:
    if task.part.shares_records:
        task.coverage.touch(set(task.part.passages_sharing_with(ids, task.context)) - set(ids))


def _apply_batch(task: Building, change: Change) -> Usage:
    """Apply a batch and return its cost, as if nothing had been cached."""
    try:
        return _measure_cost(lambda: task.part.apply(change, task.context))
    except Exception as error:
        if is_of_plugin(error, task.part):
            error.add_note(_describe_batch(task, change))
        raise


def _describe_batch(task: Building, change: Change) -> str:
    """Return which batch of which part failed, and for a third-party part the first passage that fails alone.

    Applying passages again does no harm. A part that asks an LLM is not applied again, for it could pay for answers
    that the batch had not come to.
    """
    where = f"in a batch of {many(len(change.upsert), 'passage')} of the part {task.name}"
    if code_fingerprint.of(type(task.part)) is None or "model" in task.part.uses:
        return where
    for id, revision in change.upsert.items():
        try:
            task.part.apply(Change({id: revision}), task.context)
        except Exception as error:
            if not is_of_plugin(error, task.part):
                raise
            return f"{where}, first at the passage {id!r}"
    return f"{where}, at no passage alone"


def _measure_cost(work: Callable[[], None]) -> Usage:
    start = time.perf_counter()
    with ledger.attribute_calls(phase="index"), ledger.record_calls() as calls, answers_can_wait():
        work()
    seconds = time.perf_counter() - start + calls.correction
    return replace(calls.first, seconds=seconds)


@dataclass(frozen=True, slots=True)
class Collections:
    """The finished collections of a part, without its coverage: versions and identities by kind, and total bytes.

    `opened` are the collections, for writing.
    """

    opened: list[Collection]
    versions: dict[str, int]
    identities: dict[str, str]
    bytes: int


def finish_collections(key: str, store: Store, coverage: Collection | None = None) -> Collections:
    """Finish all collections of the part `key`, including its coverage, which a sync has open."""
    prefix, opened, versions, identities, size = f"{key}.", list[Collection](), dict[str, int](), dict[str, str](), 0
    for full in (name for name in store.names() if name.startswith(prefix)):
        kind = full.removeprefix(prefix)
        if kind == "coverage" and coverage is not None:
            coverage.finish()
            continue
        version = store.version(full)
        assert version is not None  # noqa: S101  # it was just listed, and this process holds the lease
        collection = store.create(full, store.open(full, version).schema)
        collection.finish()
        if kind != "coverage":
            opened.append(collection)
            versions[kind], identities[kind] = collection.version, collection.identity
            size += int(collection.describe()["bytes"])
    return Collections(opened, versions, identities, size)


def _finish_part(task: Building, corpus: str) -> PartRecord:
    """Finish the part and its collections, and return the record that readers are pinned to."""
    finishing = _measure_cost(lambda: task.part.finish(task.context))
    start = time.perf_counter()
    finish_seconds = task.finished_before + finishing.seconds
    cost = task.coverage.cost() + replace(finishing, seconds=finish_seconds)
    collections = finish_collections(task.key, task.context.store, task.coverage.collection)
    seconds = time.perf_counter() - start
    holding = sorted(
        name
        for collection in collections.opened
        for name in versioned_files.recorded_versions(collection)
        if (task.context.folder / name).is_dir()
    )
    return PartRecord(
        name=task.name,
        part=describe(task.part),
        version=task.part.version,
        encoder=task.encoder.id if task.encoder else None,
        encoder_name=task.encoder_name if task.encoder else None,
        inputs=tuple(source.key for source in task.inputs),
        corpus=corpus,
        collections=collections.versions,
        identities=collections.identities,
        seconds=cost.seconds + seconds,
        finish_seconds=finish_seconds,
        bytes=collections.bytes + versioned_files.versions_size(task.context.folder, holding),
        input_tokens=cost.input_tokens,
        output_tokens=cost.output_tokens,
        money=cost.money,
        estimated=cost.estimated,
        failed=task.context.failures,
        set_aside=tuple(sorted(task.context.set_aside)),
        notes=tuple(task.context.notes),
        details=tuple(task.context.details),
        files=tuple(holding),
    )


@dataclass(frozen=True)
class RemovedMethods:
    """The result of `Index.remove_methods`: the labels of the removed parts, and the methods that needed them."""

    parts: tuple[str, ...]
    methods: tuple[str, ...]


def remove_methods(index: IndexState, methods: Sequence[Scheme]) -> RemovedMethods:
    """Remove the parts of `methods` that no other built method can be left with. See `Index.remove_methods`."""
    with index.writer("removing methods"):
        index.reload()
        finished = finished_parts(index, methods)
        parts_of_named = {registry.label(method): topological_order(method.parts()) for method in methods}
        missing = [label for label, parts in parts_of_named.items() if not set(parts) <= set(finished)]
        if missing:
            raise UsageError(f"The index {index.folder} is not built for {', '.join(missing)}. Nothing was removed.")
        named_parts = topological_order(part for parts in parts_of_named.values() for part in parts)
        built = {name: parts for name, parts in list_working_methods().items() if set(parts) <= set(finished)}
        staying = [  # a method that needs all that a named one needs cannot stay without it
            parts for parts in built.values() if not any(set(parts) >= set(own) for own in parts_of_named.values())
        ]
        others = [part for part in finished if part not in named_parts]
        needed = topological_order([*others, *(part for parts in staying for part in parts)])
        removed = [part for part in named_parts if part not in needed]
        if not removed:
            using = [
                name
                for name, parts in built.items()
                if name not in parts_of_named and not set(named_parts).isdisjoint(parts)
            ]
            raise UsageError(
                f"All parts of {', '.join(parts_of_named)} are used by {', '.join(using)} too. Nothing was removed. "
                "To remove them, name these methods as well."
            )
        keys = {index.key(part, index.pinned_encoder(part)) for part in removed}
        index.opened.clear()
        index.save(
            parts={key: record for key, record in index.manifest.parts.items() if key not in keys},
            outdated={**index.manifest.outdated, **dict.fromkeys(keys, time.time())},
            leftover=True,
        )
        _clean(index)
    unbuilt = {*parts_of_named, *(name for name, parts in built.items() if not set(removed).isdisjoint(parts))}
    return RemovedMethods(tuple(map(registry.label, removed)), tuple(sorted(unbuilt)))


# ---------------------------------------------------------------- pin readers, clean


def _pin_readers(index: IndexState, built: Mapping[str, PartRecord], corpus: Documents, current: pa.Table) -> None:
    """Pin readers to the built parts, mark outdated parts (such as those of a replaced encoder fit), and clean up."""
    corpus.collection.finish()
    encoder = next((record.encoder for record in built.values() if record.encoder), None)
    encoders = {**index.manifest.encoders, **({index.encoders.name: encoder} if encoder else {})}
    replaced = index.manifest.encoders.get(index.encoders.name)
    now = time.time()
    names = index.store.names()
    abandoned = {name.rpartition(".")[0] for name in names if "." in name}  # started by a sync that never finished
    outdated = {
        key: index.manifest.outdated.get(key, now)
        for key, record in {**dict.fromkeys((*abandoned, *index.manifest.outdated)), **index.manifest.parts}.items()
        if key not in built
        and (record is None or (encoder and record.encoder and record.encoder == replaced != encoder))
    }
    outdated |= dict.fromkeys(_made_from(outdated.keys(), index.manifest.parts) - built.keys() - outdated.keys(), now)
    parts = {key: record for key, record in index.manifest.parts.items() if key not in outdated}
    index.opened.clear()
    index.save(
        **index.built_with(),
        corpus=revisions.corpus_fingerprint(current),
        documents_version=corpus.collection.version,
        documents_identity=corpus.collection.identity,
        documents=corpus.collection.count(),
        passages=len(current),
        encoders=encoders,
        parts={**parts, **built},
        finished_by=dict(index.store_plugin.finishes_by),
        outdated=outdated,
        leftover=True,  # until cleaning succeeds, because a crash before that leaves unused files
        libraries=libraries(),
    )
    remove_journals(index.folder, built)
    _clean(index)


def _clean(index: IndexState) -> None:
    """Remove data that no reader needs. If it fails, only warn: the sync itself has finished."""
    try:
        update_copy(index.folder)  # data that only an older copy names is about to be removed
        manifest, stays = remove_unread(index.folder, index.store, index.manifest)
    except (StoreError, OSError) as error:
        warnings.warn(f"Unused files stay in {index.folder}: {error}", LeftoverWarning, stacklevel=4)
        return
    index.save(outdated=manifest.outdated, leftover=stays)


def _finish_again(index: IndexState) -> None:
    """Finish the collections of all parts again, because the store's parameters have changed (less memory, say).

    If a sync of a part was interrupted, readers stay pinned to the part's last finished state, because its current
    data mix two states of the corpus. The sync that completes the part also finishes it.
    """
    with index.writing("cleaning up"):
        interrupted = unfinished_parts(index.folder)
        records = {
            key: record.model_copy(
                update={"collections": record.collections | finish_collections(key, index.store).versions}
            )
            if key not in interrupted
            else record
            for key, record in index.manifest.parts.items()
        }
        index.opened.clear()
        index.save(parts=records, finished_by=dict(index.store_plugin.finishes_by), leftover=True)


def _made_from(keys: Iterable[str], parts: Mapping[str, PartRecord]) -> set[str]:
    """Return the keys of the parts that depend on `keys`, directly or through other parts."""
    dependents, sources = set[str](), set(keys)
    while new := {key for key, record in parts.items() if not sources.isdisjoint(record.inputs)} - dependents:
        dependents |= new
        sources |= new
    return dependents
