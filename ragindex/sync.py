"""Bringing parts up to the corpus: the one verb behind building, adding, changing, removing and carrying on.

A part's coverage (passage id, revision, what it cost) is a collection beside its data and is written after the data.
So whatever moment a process dies at, the next sync makes again what is not covered, and twice does no harm.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ragindex import revisions
from ragindex.interfaces import Change, Collection, Part, Schema, Store
from ragindex.manifest import PartRecord
from ragindex.progress import bar
from ragindex.registry import describe, name_of
from ragindex.site import BuildEncoder, PartSite
from ragindex.types import Usage

_BATCH = 1024
_COSTS = ("seconds", "input_tokens", "output_tokens", "money")
_COVERAGE = Schema(stored=("revision",), numbers=_COSTS)


@dataclass(slots=True)
class Task:
    """One part on its way up: where it lives, what it covers, and what was found to be done."""

    key: str
    part: Part[Any]
    inputs: tuple["Task", ...]
    site: PartSite
    encoder: BuildEncoder | None
    coverage: Collection
    covered: pa.Table

    @property
    def name(self) -> str:
        """The part's registered name."""
        return name_of(self.part)  # type: ignore[arg-type]  # a part is a pydantic model


def open_coverage(store: Store, key: str) -> tuple[Collection, pa.Table]:
    """A part's coverage and its revisions; made empty the first time."""
    coverage = store.create(f"{key}.coverage", _COVERAGE)
    read = pa.Table.from_batches(coverage.scan(("revision",)), revisions.SCHEMA)
    return coverage, read


def bring_up(tasks: Sequence[Task], corpus: pa.Table) -> None:
    """Bring `tasks` (inputs before what is made from them) up to the passage revisions of `corpus`."""
    for task in reversed(tasks):  # what is made from a part forgets before the part does
        _forget(task, revisions.to_forget(corpus, task.covered))
    for task in tasks:
        wanted = revisions.merged([source.covered for source in task.inputs]) if task.inputs else corpus
        _make(task, revisions.to_make(wanted, task.covered))


def _forget(task: Task, ids: list[str]) -> None:
    with bar(f"{task.name}: removing", len(ids)) as advance:
        for start in range(0, len(ids), _BATCH):
            doomed = ids[start : start + _BATCH]
            task.part.apply(Change({}, tuple(doomed)), task.site)
            task.coverage.delete(doomed)
            advance(len(doomed))
    if ids:
        gone = pc.is_in(task.covered.column("id"), value_set=pa.array(ids, pa.string()))
        task.covered = task.covered.filter(pc.invert(gone))


def _make(task: Task, todo: pa.Table) -> None:
    task.site = task.site.reopened()  # its inputs may have moved since it was told what to forget
    with bar(f"{task.name}: indexing", len(todo)) as advance:
        for start in range(0, len(todo), _BATCH):
            batch = todo.slice(start, _BATCH)
            ids, wanted = batch.column("id").to_pylist(), batch.column("revision").to_pylist()
            cost = _apply(task, Change(dict(zip(ids, wanted, strict=True))))
            shares = [pa.array([getattr(cost, name) / len(ids)] * len(ids), pa.float64()) for name in _COSTS]
            columns = [pa.array(ids, pa.string()), pa.array(wanted, pa.string()), *shares]
            task.coverage.upsert(pa.RecordBatch.from_arrays(columns, names=["id", "revision", *_COSTS]))
            advance(len(ids))
    if len(todo):
        kept = task.covered.filter(pc.invert(pc.is_in(task.covered.column("id"), value_set=_ids(todo))))
        task.covered = pa.concat_tables([kept, todo.select(["id", "revision"])])


def _ids(table: pa.Table) -> pa.Array:
    return table.column("id").combine_chunks()


def _apply(task: Task, change: Change) -> Usage:
    """Apply a batch; what it cost as if nothing had been encoded before."""
    if task.encoder is not None:
        task.encoder.first = task.encoder.spent = Usage()
    start = time.perf_counter()
    task.part.apply(change, task.site)
    seconds = time.perf_counter() - start
    if task.encoder is None:
        return Usage(seconds)
    first, spent = task.encoder.first, task.encoder.spent
    return Usage(seconds - spent.seconds + first.seconds, first.input_tokens, first.output_tokens, first.money)


def finish_part(task: Task, store: Store, corpus: str, encoder_name: str) -> PartRecord:
    """Make what can only be made whole, and say what readers are to be pinned to."""
    start = time.perf_counter()
    task.part.finish(task.site)
    prefix, collections, size = f"{task.key}.", {}, 0
    for full in (name for name in store.names() if name.startswith(prefix)):
        version = store.version(full)
        assert version is not None  # noqa: S101  # it was listed a moment ago and we hold the lease
        collection = store.create(full, store.open(full, version).schema)
        collection.finish()
        if full != f"{prefix}coverage":
            collections[full.removeprefix(prefix)] = collection.version
            size += int(collection.describe()["bytes"])
    seconds = time.perf_counter() - start
    cost = {name: sum_of(task.coverage, name) for name in _COSTS}
    files = sum(file.stat().st_size for file in task.site.folder.rglob("*") if file.is_file())
    return PartRecord(
        name=task.name,
        part=describe(task.part),  # type: ignore[arg-type]
        version=task.part.version,
        encoder=task.encoder.id if task.encoder else None,
        encoder_name=encoder_name if task.encoder else None,
        inputs=tuple(source.key for source in task.inputs),
        corpus=corpus,
        collections=collections,
        seconds=cost["seconds"] + seconds,
        bytes=size + files,
        input_tokens=round(cost["input_tokens"]),
        output_tokens=round(cost["output_tokens"]),
        money=cost["money"],
    )


def sum_of(collection: Collection, number: str) -> float:
    """The sum of a number over all records."""
    return float(sum(pc.sum(batch.column(number)).as_py() or 0.0 for batch in collection.scan((number,))))
