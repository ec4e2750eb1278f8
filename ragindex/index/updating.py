"""Updates of an index to its sources: reading, replacing and building in one path, with one report.

`ragindex index` updates one source, which is named, and `ragindex update` all of them, as they were read before.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import repeat
from pathlib import Path
from typing import Any

from ragindex._util import durable_files
from ragindex.accounting import ledger
from ragindex.corpus import Corpus
from ragindex.errors import DataError, UsageError
from ragindex.index.changes import find_removals, preview_replacement, replace_source
from ragindex.index.documents import DocumentChanges, Removals
from ragindex.index.manifest import wrap_write_errors
from ragindex.index.models import Refit
from ragindex.index.parts import list_working_methods, topological_order
from ragindex.index.readings import read_source
from ragindex.index.state import INDEXING, IndexState
from ragindex.index.sync import BuildResult
from ragindex.interfaces import Part, Scheme
from ragindex.plugins import registry

_OUTCOME_FILE = "update.json"


@dataclass(frozen=True, slots=True)
class SourceDocuments:
    """The documents that a source has now, as they were read; `failure` says why it could not be read.

    `named` is the name that a command gives DATA, if any: a new source gets it.
    """

    source: str
    corpora: tuple[Corpus, ...] = ()
    failure: str = ""
    named: str = ""


@dataclass(frozen=True, slots=True)
class SourceUpdate:
    """What an update has changed of a source: with a `failure`, nothing. `left_out` has a reason for each file.

    `commit` is the one that the documents of a git repository are of now.
    """

    source: str
    changes: DocumentChanges = field(default_factory=DocumentChanges)
    left_out: tuple[str, ...] = ()
    failure: str = ""
    commit: str = ""


@dataclass(frozen=True, slots=True)
class IndexUpdate:
    """The report of an update.

    Example:
        report = index.update()
        print(report.changes.added, report.changes.removed, report.methods, report.seconds)

    `parts` and `methods` are those that were built or updated, `seconds` those of this run, and `spent` what it paid.
    """

    sources: tuple[SourceUpdate, ...]
    parts: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    refits: tuple[Refit, ...] = ()
    seconds: float = 0.0
    spent: Mapping[str, Any] = field(default_factory=dict)

    @property
    def changes(self) -> DocumentChanges:
        """The changes of all sources together."""
        return add_changes([source.changes for source in self.sources])

    @property
    def failures(self) -> dict[str, str]:
        """Why sources could not be read, by name."""
        return {source.source: source.failure for source in self.sources if source.failure}


@dataclass(frozen=True, slots=True)
class UpdateOutcome:
    """How the last round of `ragindex update` ended, and when: with a `failure`, or "" if all was done."""

    finished: str
    failure: str = ""


def write_outcome(folder: Path, failure: str = "") -> None:
    """Keep how a round of `ragindex update` has ended, for `parts` and `doctor`. Raises StoreError."""
    outcome = UpdateOutcome(datetime.now(UTC).isoformat(timespec="seconds"), failure)
    with wrap_write_errors(f"{_OUTCOME_FILE} could not be written in {folder}"):
        durable_files.write_file(folder / _OUTCOME_FILE, durable_files.dump_hashed_json(asdict(outcome)))


def read_outcome(folder: Path) -> UpdateOutcome | None:
    """Return how the last round has ended; None if there was none, or it cannot be read."""
    try:
        value = durable_files.load_hashed_json((folder / _OUTCOME_FILE).read_bytes())
    except OSError:
        return None
    return None if value is None else UpdateOutcome(**value)


def add_changes(each: Sequence[DocumentChanges]) -> DocumentChanges:
    """Return the sum of changes."""
    return DocumentChanges(
        added=sum(changes.added for changes in each),
        changed=sum(changes.changed for changes in each),
        removed=sum(changes.removed for changes in each),
        unchanged=sum(changes.unchanged for changes in each),
        new=tuple(id for changes in each for id in changes.new),
        gone=tuple(id for changes in each for id in changes.gone),
        replaced=tuple(id for changes in each for id in changes.replaced),
        kept=tuple(id for changes in each for id in changes.kept),
        reread=sum(changes.reread for changes in each),
        renamed=tuple(pair for changes in each for pair in changes.renamed),
    )


def read_sources(index: IndexState) -> Iterator[SourceDocuments]:
    """Read every source of an index as it was read before; yields its documents, or why it cannot be read.

    Files whose bytes are those that its documents were read from are not read again. Sources of a program's
    documents, which nothing can read again, are passed over.
    """
    for name, source in index.manifest.sources.items():
        if not source.root:
            continue
        try:
            yield SourceDocuments(name, tuple(read_source(name, source, index.documents, index.folder)))
        except (DataError, UsageError) as error:
            yield SourceDocuments(name, failure=str(error))


def update_index(
    index: IndexState,
    per_source: Sequence[SourceDocuments],
    build: Callable[[], BuildResult],
    announce: Callable[[Removals], None],
    started: float | None = None,
) -> IndexUpdate:
    """Make each source hold the documents that were read of it, build, and report.

    `announce` is given what leaves the index before anything is written, of any source, and may raise an error. The
    run has `started` when the reading began (None: now).
    """
    started = time.monotonic() if started is None else started
    with ledger.record_calls(paid_only=True) as tally, index.writer(INDEXING):
        index.reload()
        before = dict(index.manifest.parts)
        renames: Iterator[Mapping[str, str] | None] = repeat(None)
        if sum(len(source.corpora) for source in per_source) > 1:  # nothing is written before all removals are allowed
            corpora = [(corpus, source.named) for source in per_source for corpus in source.corpora]
            removals = [find_removals(index, corpus, source=source_name) for corpus, source_name in corpora]
            for removed in filter(lambda removed: removed.ids, removals):
                announce(removed)
            announce, renames = _agree, iter([removed.renames for removed in removals])
        updates = [_replace_source(index, source, announce, renames) for source in per_source]
        result = build()
    changed = (
        record
        for key, record in index.manifest.parts.items()
        if key not in before or before[key].corpus != record.corpus
    )
    parts = tuple(dict.fromkeys(record.name for record in changed))
    return IndexUpdate(
        tuple(updates),
        parts,
        name_methods(parts, [record.name for record in index.manifest.parts.values()]) if parts else (),
        () if result.refit is None else (result.refit,),
        time.monotonic() - started,
        ledger.spending_to_json(tally),
    )


def preview_update(index: IndexState, per_source: Sequence[SourceDocuments]) -> IndexUpdate:
    """Return the report of an update as far as it is known before: the documents that it would change."""
    started = time.monotonic()
    updates = [
        _report_source(source, [preview_replacement(index, corpus, source=source.named) for corpus in source.corpora])
        for source in per_source
    ]
    return IndexUpdate(tuple(updates), seconds=time.monotonic() - started)


def name_methods(updated: Sequence[str], built: Iterable[str]) -> tuple[str, ...]:
    """Return the methods, of which all parts are built, that use any of the updated parts: by their names.

    A method that adds nothing to the parts of its base, such as `ircot`, is left out: its base is named.
    """
    changed, there = ({label.partition("(")[0] for label in labels} for labels in (updated, built))
    needed = {
        name: {registry.name_of(part) for part in parts}
        for name, parts in list_working_methods().items()
        if not _adds_nothing(registry.scheme(name), parts)
    }
    return tuple(name for name, parts in needed.items() if parts <= there and parts & changed)


def refuse_suspicious(removals: Removals) -> None:
    """Raise UsageError if so many documents of a source would be removed that it may be read in part."""
    if removals.suspicious:
        raise UsageError(
            f"{len(removals.ids) - removals.renamed:,} of {removals.documents:,} documents of the source "
            f"{removals.source!r} would be removed, because it no longer has them. Nothing was done. If that is right, "
            "call index.update(allow_removals=True)."
        )


def update_to_json(report: IndexUpdate) -> dict[str, Any]:
    """Return the report of an update, with all ids."""
    return {
        "sources": list(map(_source_to_json, report.sources)),
        "parts": list(report.parts),
        "methods": list(report.methods),
        "refits": [asdict(refit) for refit in report.refits],
        "seconds": report.seconds,
    }


def _source_to_json(source: SourceUpdate) -> dict[str, Any]:
    return {
        "source": source.source,
        "added": list(source.changes.new),
        "changed": list(source.changes.replaced),
        "removed": list(source.changes.gone),
        "renamed": dict(source.changes.renamed),
        "kept": list(source.changes.kept),
        "unchanged": source.changes.unchanged,
        "reread": source.changes.reread,
        "left_out": list(source.left_out),
        "commit": source.commit,
        "failure": source.failure,
    }


# ---------------------------------------------------------------- helpers


def _adds_nothing(method: Scheme, parts: Sequence[Part[Any]]) -> bool:
    """Return whether all `parts` of a method are those of the method that it asks."""
    base = getattr(method, "base", None)
    return isinstance(base, Scheme) and set(topological_order(base.parts())) == set(parts)


def _agree(removals: Removals) -> None:
    """Raise nothing: the removals have been announced."""


def _replace_source(
    index: IndexState,
    source: SourceDocuments,
    announce: Callable[[Removals], None],
    renames: Iterator[Mapping[str, str] | None],
) -> SourceUpdate:
    """Replace the documents of a source; `renames` yields those of each of its corpora, where they are known."""
    changes = [
        replace_source(index, corpus, source=source.named, announce=announce, renames=next(renames))
        for corpus in source.corpora
    ]
    return _report_source(source, changes)


def _report_source(source: SourceDocuments, changes: Sequence[DocumentChanges]) -> SourceUpdate:
    left_out = tuple(str(reason) for corpus in source.corpora for reason in corpus.skipped)
    commits = [corpus.reading.commit for corpus in source.corpora if corpus.reading is not None]
    return SourceUpdate(source.source, add_changes(changes), left_out, source.failure, "".join(commits[:1]))
