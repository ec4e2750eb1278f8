"""Build parts and keep them up to date: plan, apply, cover, finish, pin readers, clean.

`sync` is the one verb behind building, adding, changing, removing and resuming.

A part's coverage (passage id, revision, what it cost) is a collection beside its data and is written after the data;
before the data, a journal names the passages whose records are about to change. So whatever moment a process dies at,
the next sync makes again or forgets what was in doubt or is not covered, and twice does no harm.
"""

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from ragindex import durable_files
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
from ragindex.interfaces import Change, Encoder, Part, Scheme, Store
from ragindex.llm.tasks import LLM
from ragindex.plugins import registry
from ragindex.plugins.registry import describe, name_of
from ragindex.progress import progress_bar
from ragindex.types import Usage
from ragindex.workspace import cleaning, imported_files, journal, payments, revisions, versioned_files
from ragindex.workspace import manifest as manifests
from ragindex.workspace import repair as mending
from ragindex.workspace.coverage import PartCoverage
from ragindex.workspace.documents import Documents
from ragindex.workspace.journal import DamagedJournalError, Journal
from ragindex.workspace.manifest import Manifest, PartRecord
from ragindex.workspace.part_context import PartBuildContext
from ragindex.workspace.part_keys import Means, part_key, parts_of, topological_order, uses_encoder
from ragindex.workspace.session import Session

_BATCH = 1024
_DEAR_BATCH = 256
"""Passages applied at once by parts that ask an encoder or a model: one batch is what a crash can lose."""


@dataclass(slots=True)
class Building:
    """One part on its way up: where it lives, what it covers, and what was found to be done."""

    key: str
    part: Part[Any]
    inputs: tuple["Building", ...]
    context: PartBuildContext
    encoder: CachedEncoder | None
    encoder_name: str
    coverage: PartCoverage
    finished_before: float = 0.0
    """Seconds of all earlier finishes, where each makes only what has changed (`finishes_changes` of the part)."""

    @property
    def name(self) -> str:
        """The part's registered name."""
        return name_of(self.part)


@dataclass(frozen=True, slots=True)
class Synced:
    """What a sync did: passages made and forgotten, summed over parts, and the seconds of both its stages."""

    made: int = 0
    forgotten: int = 0
    batches_seconds: float = 0.0
    finish_seconds: float = 0.0


def sync(session: Session, plugins: Iterable[Scheme | Part[Any]] = ()) -> Synced:
    """Bring the parts of `plugins` up to the corpus; without any, all parts that were ever finished.

    Goes on where an earlier sync stopped. Raises WriterBusyError, StoreError, WorkspaceError without documents.
    """
    session.reload()
    if session.manifest.parts and session.manifest.finished_by != session.store_plugin.finishes_by:
        _finish_again(session)
    parts = topological_order([part for plugin in plugins for part in parts_of(plugin)] or finished_parts(session))
    damaged = _damaged_files(session, parts)
    if _is_up_to_date(session, parts) and not damaged:
        _clean_leftover(session)
        return Synced()
    payments.require_prices(session, parts)
    with session.writing("ragindex sync") as corpus:
        wanted = corpus.passage_revisions()
        if not len(wanted) and not session.manifest.parts:
            raise WorkspaceError(
                f"The index {session.folder} has no documents. Run: ragindex add FILES --index {session.folder}"
            )
        if any("encoder" in part.uses for part in parts):
            ids = sorted(wanted.column("id").to_pylist())
            session.encoders.prepare(lambda: _texts(session, corpus, ids), len(ids))
        records, synced = apply_changes(_plan(session, parts, corpus), wanted)
        _pin_readers(session, records, corpus, wanted)
    for sentence in damaged:
        warnings.warn(f"{sentence}: rebuilt.", durable_files.RepairWarning, stacklevel=2)
    return synced


# ---------------------------------------------------------------- plan


def _is_up_to_date(session: Session, parts: Sequence[Part[Any]]) -> bool:
    if session.corpus_moved() or not parts:
        return not parts and not session.corpus_moved()
    keys = [session.key(part, session.pinned_encoder(part)) for part in parts]
    records = [session.manifest.parts.get(key) for key in keys]
    finish_collections = journal.unfinished(session.folder).isdisjoint(keys) and all(
        record is not None and record.corpus == session.manifest.corpus and not record.failed for record in records
    )
    return finish_collections and all((now or 0) >= pinned for key in keys for now, pinned in _versions(session, key))


def _versions(session: Session, key: str) -> list[tuple[int | None, int]]:
    """Of a finished part's collections: the version that the store has, and the one that readers are pinned to.

    None, or an older one, where somebody has deleted from the store or put back what it held before.
    """
    record = session.manifest.parts.get(key)
    pinned = record.collections.items() if record else ()
    return [(session.store.version(f"{key}.{kind}"), version) for kind, version in pinned]


def current_keys(session: Session, manifest: Manifest | None = None) -> set[str]:
    """The finished parts that are made from the imported files of `manifest`, with any encoder."""
    imported, encoders = (manifest or session.manifest).imports, {None, *session.manifest.encoders.values()}
    means = [Means(encoder, session.model.id, session.seed, imported) for encoder in encoders]
    parts = [_plugin_of(record) for record in session.manifest.parts.values()]
    return {part_key(part, one) for part in parts if part for one in means} & session.manifest.parts.keys()


def _damaged_files(session: Session, parts: Sequence[Part[Any]]) -> list[str]:
    """What is wrong with the files that readers of `parts` open: the next sync makes them again."""
    fit = session.encoders.damage(session.encoder_id) if any(map(uses_encoder, parts)) else None
    keys = [session.key(part, session.pinned_encoder(part)) for part in parts]
    return [*([fit] if fit else []), *mending.damaged_files(session.folder, session.manifest, keys)]


def finished_parts(session: Session) -> list[Part[Any]]:
    """Those that are made with this encoder, language model and seed."""
    names = {None, session.encoders.name}
    held = [(key, _plugin_of(r)) for key, r in session.manifest.parts.items() if r.encoder_name in names]
    return [part for key, part in held if part and key == session.key(part, session.pinned_encoder(part))]


def _plugin_of(record: PartRecord) -> Part[Any] | None:
    """A recorded part as a plugin; None, and a warning, where it is broken or not installed any more."""
    try:
        return registry.part(record.part)
    except (UnknownNameError, NameTakenError, MissingExtraError, BrokenPluginError) as error:
        warnings.warn(f"The part {record.name} is not updated. {error}", StaleWarning, stacklevel=2)
        return None


def _plan(session: Session, parts: Sequence[Part[Any]], corpus: Documents) -> list[Building]:
    tasks: dict[str, Building] = {}
    encoder = session.encoders.building() if any("encoder" in part.uses for part in parts) else None
    id = encoder.id if encoder else None
    names = session.store.names()
    for part in parts:
        key = session.key(part, id)
        lost = any(now is None for now, _ in _versions(session, key))
        if lost or f"{key}.coverage" not in names:  # what is not covered may be left from a part half dropped
            drop_part(session, key, names)
        inputs = tuple(tasks[session.key(source, id)] for source in part.inputs())
        used = encoder if "encoder" in part.uses else None
        context = _build_context(session, part, key, inputs, corpus, used)
        coverage = _open_coverage(session, part, key, names)
        earlier = session.manifest.parts.get(key) if part.finishes_changes else None
        finish_collections = earlier.finish_seconds if earlier else 0.0
        tasks[key] = Building(key, part, inputs, context, used, session.encoders.name, coverage, finish_collections)
    return list(tasks.values())


def _open_coverage(session: Session, part: Part[Any], key: str, names: Sequence[str]) -> PartCoverage:
    """A part whose journal cannot be read is made anew: nothing tells what it holds."""
    kept = Journal.of(session.folder, key)
    try:
        return PartCoverage.open(session.store, key, kept, shares=part.shares_records)
    except DamagedJournalError:
        drop_part(session, key, names)
        return PartCoverage.open(session.store, key, kept, shares=part.shares_records)


def _build_context(
    session: Session,
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
        return session.llm

    root, file = session.folder, session.imported(part)
    if file is not None:
        imported_files.require_import(root, file.name, session.manifest.imported_from.get(registry.name_of(part), ""))
    return PartBuildContext(
        key=key,
        store=session.store,
        documents=corpus,
        root=root,
        language=session.language,
        open_inputs=open_inputs,
        open_encoder=open_encoder,
        seed=session.seed,
        open_llm=open_llm,
        imported=file,
    )


def _texts(session: Session, corpus: Documents, ids: Sequence[str]) -> list[str]:
    texts: list[str] = []
    for start in range(0, len(ids), 2048):
        batch = corpus.passages(ids[start : start + 2048])
        pairs = zip(batch.column("title").to_pylist(), batch.column("text").to_pylist(), strict=True)
        texts += [passage_text(title, text) for title, text in pairs]
    return texts


def drop_part(session: Session, key: str, names: Sequence[str]) -> None:
    """Remove a part with its collections; `names` are those of the store."""
    record = session.manifest.parts.get(key)
    cleaning.drop_collections(
        session.folder, session.store, key, names, ("coverage", *record.collections) if record else ()
    )


# ---------------------------------------------------------------- apply and cover


def apply_changes(tasks: Sequence[Building], corpus: pa.Table) -> tuple[dict[str, PartRecord], Synced]:
    """Bring `tasks` (inputs before what is made from them) up to the passage revisions of `corpus`.

    A part is finished before what is made from it begins. Returns the finished parts by key.
    """
    records, made, finish_seconds, start = {}, 0, 0.0, time.perf_counter()
    forgotten = sum(_forget(task, revisions.to_forget(corpus, task.coverage.held)) for task in reversed(tasks))
    fingerprint = revisions.corpus_fingerprint(corpus)
    for task in tasks:
        forgotten += _forget(task, revisions.to_forget(_wanted(task, corpus), task.coverage.held))  # an input failed
        made += _make(task, revisions.to_make(_wanted(task, corpus), task.coverage.held))
        made_at = time.perf_counter()
        records[task.key] = _finish(task, fingerprint)
        finish_seconds += time.perf_counter() - made_at
    return records, Synced(made, forgotten, time.perf_counter() - start - finish_seconds, finish_seconds)


def _wanted(task: Building, corpus: pa.Table) -> pa.Table:
    return revisions.merge_revisions([source.coverage.outputs for source in task.inputs]) if task.inputs else corpus


def _forget(task: Building, ids: list[str]) -> int:
    """What is made from a part forgets before the part does."""
    with progress_bar(f"{task.name}: removing", len(ids)) as advance:
        for start in range(0, len(ids), _BATCH):
            doomed = ids[start : start + _BATCH]
            task.coverage.begin(doomed)
            _touch_neighbours(task, doomed)
            _remove(task, doomed)
            advance(len(doomed))
    return len(ids)


def _remove(task: Building, ids: Sequence[str]) -> None:
    task.part.apply(Change({}, tuple(ids)), task.context)
    task.coverage.forget(ids)


def _make(task: Building, todo: pa.Table) -> int:
    task.context = task.context.reopened()  # its inputs may have moved since it was told what to forget
    if not len(todo) and not len(task.coverage.held):
        task.part.apply(Change({}), task.context)  # a part of nothing has its collections too
    size = min(_BATCH, _DEAR_BATCH) if task.part.uses & {"encoder", "model"} else _BATCH
    with progress_bar(f"{task.name}: indexing", len(todo)) as advance:
        for start in range(0, len(todo), size):
            batch = todo.slice(start, size)
            ids, wanted = batch.column("id").to_pylist(), batch.column("revision").to_pylist()
            task.coverage.begin(ids)
            _touch_neighbours(task, ids)  # of the records the passages leave
            cost = _apply(task, Change(dict(zip(ids, wanted, strict=True))))
            _touch_neighbours(task, ids)  # of those they join
            _cover(task, ids, wanted, cost)
            advance(len(ids))
    task.coverage.flush()
    return len(todo)


def _cover(task: Building, ids: Sequence[str], wanted: Sequence[str], cost: Usage) -> None:
    """What failed is not held and not covered: the next sync tries again."""
    made = [(id, revision) for id, revision in zip(ids, wanted, strict=True) if id not in task.context.failures]
    failed = [id for id in ids if id in task.context.failures]
    if failed:
        _remove(task, failed)
    if made:
        task.coverage.cover([id for id, _ in made], [revision for _, revision in made], cost)


def _touch_neighbours(task: Building, ids: Sequence[str]) -> None:
    if task.part.shares_records:
        task.coverage.touch(set(task.part.passages_sharing_with(ids, task.context)) - set(ids))


def _apply(task: Building, change: Change) -> Usage:
    """Apply a batch; what it cost as if nothing had been encoded or asked before."""
    return _cost(lambda: task.part.apply(change, task.context))


def _cost(work: Callable[[], None]) -> Usage:
    start = time.perf_counter()
    with ledger.attribute_calls(phase="index"), ledger.record_calls() as asked:
        work()
    seconds = time.perf_counter() - start + asked.correction
    return replace(asked.first, seconds=seconds)


@dataclass(frozen=True, slots=True)
class Collections:
    """A part's finished collections without the coverage: versions and identities by kind, and bytes in all."""

    versions: dict[str, int]
    identities: dict[str, str]
    bytes: int


def finish_collections(key: str, store: Store) -> Collections:
    """Finish the collections of the part `key`."""
    prefix, versions, identities, size = f"{key}.", dict[str, int](), dict[str, str](), 0
    for full in (name for name in store.names() if name.startswith(prefix)):
        version = store.version(full)
        assert version is not None  # noqa: S101  # it was listed a moment ago and we hold the lease
        collection = store.create(full, store.open(full, version).schema)
        collection.finish()
        if full != f"{prefix}coverage":
            kind = full.removeprefix(prefix)
            versions[kind], identities[kind] = collection.version, collection.identity
            size += int(collection.describe()["bytes"])
    return Collections(versions, identities, size)


def _finish(task: Building, corpus: str) -> PartRecord:
    """Make what can only be made whole, and say what readers are to be pinned to."""
    store = task.context.store
    whole = _cost(lambda: task.part.finish(task.context))
    start = time.perf_counter()
    finish_seconds = task.finished_before + whole.seconds
    cost = task.coverage.cost() + replace(whole, seconds=finish_seconds)
    collections = finish_collections(task.key, store)
    seconds = time.perf_counter() - start
    states = (store.open(f"{task.key}.{kind}", version) for kind, version in collections.versions.items())
    holding = sorted(
        name
        for one in states
        for name in versioned_files.recorded_versions(one)
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
        failed=task.context.failures,
        notes=tuple(task.context.notes),
        files=tuple(holding),
    )


# ---------------------------------------------------------------- pin readers, clean


def _pin_readers(session: Session, made: Mapping[str, PartRecord], corpus: Documents, wanted: Any) -> None:
    """Pin readers to what was made, and drop the parts of a fit that is replaced by another."""
    corpus.collection.finish()
    encoder = next((record.encoder for record in made.values() if record.encoder), None)
    encoders = {**session.manifest.encoders, **({session.encoders.name: encoder} if encoder else {})}
    replaced = session.manifest.encoders.get(session.encoders.name)
    now = time.time()
    names = session.store.names()
    abandoned = {name.rpartition(".")[0] for name in names if "." in name}  # begun by a sync that never finished
    outdated = {
        key: session.manifest.outdated.get(key, now)
        for key, record in {**dict.fromkeys((*abandoned, *session.manifest.outdated)), **session.manifest.parts}.items()
        if key not in made
        and (record is None or (encoder and record.encoder and record.encoder == replaced != encoder))
    }
    outdated |= dict.fromkeys(_made_from(outdated.keys(), session.manifest.parts) - made.keys() - outdated.keys(), now)
    parts = {key: record for key, record in session.manifest.parts.items() if key not in outdated}
    session.opened.clear()
    session.save(
        seed=session.seed,
        corpus=revisions.corpus_fingerprint(wanted),
        documents_version=corpus.collection.version,
        documents_identity=corpus.collection.identity,
        documents=corpus.collection.count(),
        passages=len(wanted),
        encoder=registry.describe(session.encoders.plugin),
        encoders=encoders,
        llm=registry.describe(session.model.plugin),
        parts={**parts, **made},
        finished_by=dict(session.store_plugin.finishes_by),
        outdated=outdated,
        leftover=True,  # until it is cleaned: a crash before that leaves something
        libraries=manifests.libraries(),
    )
    journal.finish(session.folder, made)
    _clean(session)


def _clean(session: Session) -> None:
    """Remove what no reader needs any more. What was finished is finished, whether that goes well or not."""
    try:
        manifests.update_copy(session.folder)  # what only an older copy names is removed
        manifest, stays = cleaning.remove_unread(session.folder, session.store, session.manifest)
    except (StoreError, OSError) as error:
        warnings.warn(f"Unused files stay in {session.folder}: {error}", LeftoverWarning, stacklevel=4)
        return
    session.save(outdated=manifest.outdated, leftover=stays)


def _clean_leftover(session: Session) -> None:
    """What stayed for readers at the last sync, once they are gone; not while somebody else writes."""
    if session.manifest.leftover and not session.read_only:
        with suppress(WriterBusyError), session.store.lease("ragindex sync"):
            session.reload()
            _clean(session)


def _finish_again(session: Session) -> None:
    """Every part's collections, as the store's parameters now ask for: its memory may be less than it was.

    Readers stay pinned to the last finished state of a part that a sync was interrupted in: what the part holds
    now is of two corpora. The sync that completes it finishes it too.
    """
    with session.writing("ragindex sync"):
        interrupted = journal.unfinished(session.folder)
        made = {
            key: record.model_copy(
                update={"collections": record.collections | finish_collections(key, session.store).versions}
            )
            if key not in interrupted
            else record
            for key, record in session.manifest.parts.items()
        }
        session.opened.clear()
        session.save(parts=made, finished_by=dict(session.store_plugin.finishes_by), leftover=True)


def _made_from(keys: Iterable[str], parts: Mapping[str, PartRecord]) -> set[str]:
    """The parts that are made from those of `keys`, and from what is made from them."""
    found, sources = set[str](), set(keys)
    while new := {key for key, record in parts.items() if not sources.isdisjoint(record.inputs)} - found:
        found |= new
        sources |= new
    return found
