"""Bringing parts up to the corpus: the one verb behind building, adding, changing, removing and carrying on.

A part's coverage (passage id, revision, what it cost) is a collection beside its data and is written after the data;
before the data, a journal names the passages whose records are about to change. So whatever moment a process dies at,
the next sync makes again or forgets what was in doubt or is not covered, and twice does no harm.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from ragindex.accounting import ledger
from ragindex.encoders.vector_cache import CachedEncoder
from ragindex.interfaces import Change, Part, Store
from ragindex.plugins.registry import describe, name_of
from ragindex.progress import bar
from ragindex.types import Usage
from ragindex.workspace import revisions, versioned_files
from ragindex.workspace.coverage import Coverage
from ragindex.workspace.manifest import PartRecord
from ragindex.workspace.part_context import PartBuildContext

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
    coverage: Coverage
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


def bring_up(tasks: Sequence[Building], corpus: pa.Table) -> tuple[dict[str, PartRecord], Synced]:
    """Bring `tasks` (inputs before what is made from them) up to the passage revisions of `corpus`.

    A part is finished before what is made from it begins. Returns the finished parts by key.
    """
    records, made, finish_seconds, start = {}, 0, 0.0, time.perf_counter()
    forgotten = sum(_forget(task, revisions.to_forget(corpus, task.coverage.held)) for task in reversed(tasks))
    fingerprint = revisions.fingerprint(corpus)
    for task in tasks:
        forgotten += _forget(task, revisions.to_forget(_wanted(task, corpus), task.coverage.held))  # an input failed
        made += _make(task, revisions.to_make(_wanted(task, corpus), task.coverage.held))
        made_at = time.perf_counter()
        records[task.key] = _finish(task, fingerprint)
        finish_seconds += time.perf_counter() - made_at
    return records, Synced(made, forgotten, time.perf_counter() - start - finish_seconds, finish_seconds)


def _wanted(task: Building, corpus: pa.Table) -> pa.Table:
    return revisions.merged([source.coverage.outputs for source in task.inputs]) if task.inputs else corpus


def _forget(task: Building, ids: list[str]) -> int:
    """What is made from a part forgets before the part does."""
    with bar(f"{task.name}: removing", len(ids)) as advance:
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
    with bar(f"{task.name}: indexing", len(todo)) as advance:
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


def finished(key: str, store: Store) -> Collections:
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
    collections = finished(task.key, store)
    seconds = time.perf_counter() - start
    states = (store.open(f"{task.key}.{kind}", version) for kind, version in collections.versions.items())
    holding = sorted(
        name for one in states for name in versioned_files.holding(one) if (task.context.folder / name).is_dir()
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
        bytes=collections.bytes + versioned_files.size(task.context.folder, holding),
        input_tokens=cost.input_tokens,
        output_tokens=cost.output_tokens,
        money=cost.money,
        failed=task.context.failures,
        notes=tuple(task.context.notes),
        files=tuple(holding),
    )
