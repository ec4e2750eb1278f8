"""The command `update`: bring an index up to date with all of its sources, once or again and again."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import regex
import typer

from ragindex._util.text import many
from ragindex._util.workers import use_workers
from ragindex.cli.approval import approve, approve_removals, estimate_costs, estimates_to_json, render_estimates
from ragindex.cli.building import build_methods, collect_notes, describe_work
from ragindex.cli.console import (
    command_spending,
    escape_markup,
    explain_stop,
    print_estimate,
    print_note,
    stdout,
    write_result,
)
from ragindex.cli.documents import STOPPED_READING, print_reading_notes, report_skipped
from ragindex.cli.option_groups import group_of, with_groups
from ragindex.cli.options import (
    AllowRemovalsOption,
    Approval,
    BudgetOption,
    JsonOption,
    RetryFailedOption,
    WaitOption,
    WorkersOption,
    YesOption,
)
from ragindex.cli.watching import Watcher
from ragindex.corpus import Corpus
from ragindex.errors import BudgetError, DailyBudgetError, DataError, LeftOutError, RagindexError, UsageError
from ragindex.estimate import Estimate
from ragindex.estimate_left import BuildPlan, estimate_left, find_payees
from ragindex.index.index import Index
from ragindex.index.manifest import read_manifest, require_manifest
from ragindex.index.notes import format_changes
from ragindex.index.readings import list_source_paths
from ragindex.index.sync import BuildResult, finished_parts
from ragindex.index.updating import (
    IndexUpdate,
    SourceDocuments,
    preview_update,
    read_sources,
    update_index,
    update_to_json,
    write_outcome,
)
from ragindex.interfaces import Scheme
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.budget import Budget, parse_budget
from ragindex.plugins import registry
from ragindex.plugins.specs import parse_many

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_TIME = regex.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
_FIRST_RETRY, _LAST_RETRY = 10.0, 600.0
"""Seconds until a failed round is repeated: the first time, and at most."""


@dataclass(frozen=True, slots=True)
class RepeatingOptions:
    """Whether the command stays, and updates again and again."""

    watch: Annotated[bool, typer.Option("--watch", help="Stay, and update whenever files of the sources change.")] = (
        False
    )
    every: Annotated[
        str | None, typer.Option("--every", metavar="TIME", help="Stay, and update so often: 30m, 1h, 1d.")
    ] = None


@dataclass(frozen=True, slots=True)
class WorkOptions:
    """How the work is done."""

    retry_failed: RetryFailedOption = False
    workers: WorkersOption = None
    wait: WaitOption = 0.0


@with_groups
def update(
    repeating: Annotated[RepeatingOptions, group_of(RepeatingOptions, "Repetition")],
    work: Annotated[WorkOptions, group_of(WorkOptions, "Building")],
    folder: Annotated[
        Path | None,
        typer.Option("--index", metavar="DIR", help="Folder of the index. Default: the only one here."),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option("--only", metavar="a,b", help="Update these methods alone. Default: all that are built."),
    ] = None,
    budget: BudgetOption = None,
    yes: YesOption = False,
    allow_removals: AllowRemovalsOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would change and what it may cost, and end.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """Read all sources of an index again, as they were read before, and update everything that is built.

    Documents are added, changed and removed as in the sources. A source that cannot be read stays as it is.
    With --watch or --every it goes on until it is stopped, and a failed round is repeated.

    Example: ragindex update --index my-index
    """
    seconds, stays = _parse_time(repeating.every), repeating.watch or repeating.every is not None
    if stays and dry_run:
        raise UsageError("--dry-run looks once. Leave out --watch and --every.")
    update_round = _Round(
        _find_index(folder),
        tuple(map(registry.scheme, parse_many(only))) if only else (),
        Approval(yes, budget, dry_run, json),
        parse_budget(budget),
        allow_removals,
        work.retry_failed,
        work.workers,
        work.wait,
        stays,
    )
    if stays:
        _repeat(update_round, Watcher(_list_watched(update_round.folder)) if repeating.watch else None, seconds)
    else:
        update_round.run()


@dataclass(frozen=True, slots=True)
class _Round:
    """One update of the index in `folder`. `stays` says that it is repeated: then nobody is asked anything."""

    folder: Path
    only: tuple[Scheme, ...]
    approval: Approval
    budget: Budget | None
    allow_removals: bool
    retry_failed: bool
    workers: str | None
    wait: float
    stays: bool

    def run(self) -> None:
        """Read the sources, update, and print the report. Raises RagindexError; what was left out comes last."""
        started = time.monotonic()
        with (
            use_workers(self.workers),
            explain_stop(STOPPED_READING),
            Index.open(self.folder, read_only=True) as index,
        ):
            per_source = list(read_sources(index))
        if self.approval.dry_run:
            self._preview(per_source)
            return
        approve(partial(self._estimate, per_source), self.approval)
        settings = LLMSettings(budget=self.budget)
        with Index.open(self.folder, llm_settings=settings, wait_seconds=self.wait) as index:
            schemes = [index.require_built(scheme) for scheme in self.only]
            fit, notes = index.encoder_id, list[str]()
            build = partial(self._build, index, notes)
            asking = partial(
                approve_removals, allowed=self.allow_removals, json="-" if self.stays else self.approval.json
            )
            report = update_index(index, per_source, build, asking, started)
            notes += collect_notes(index, finished_parts(index, schemes), report, fit)
        failure = "; ".join(f"{name}: {reason}" for name, reason in report.failures.items())
        write_outcome(self.folder, failure)
        _print_notes(per_source, report)
        self._print(report, notes)
        report_skipped([corpus for source in per_source for corpus in source.corpora], None)
        if failure:
            raise DataError("every source", f"{many(len(report.failures), 'source')} that cannot be read: {failure}")

    def _build(self, index: Index, notes: list[str]) -> BuildResult:
        if not index.manifest.parts:
            return BuildResult()
        with use_workers(self.workers):
            if self.only:
                return index.build(*self.only, retry_failed=self.retry_failed)
            result, of_fits = build_methods(index, [], refit=False, retry_failed=self.retry_failed)
        notes += of_fits
        return result

    def _estimate(self, per_source: list[SourceDocuments]) -> list[Estimate]:
        documents = tuple(
            document for source in per_source for corpus in source.corpora for document in corpus.documents
        )
        corpus = Corpus(self.folder.name, "index", documents, 0, (), undivided=False)
        schemes = {registry.label(scheme): scheme for scheme in self.only} or None
        thorough = self.approval.dry_run
        return estimate_left(self.folder, corpus, schemes, LLMSettings(), BuildPlan(adds=True), thorough=thorough)

    def _preview(self, per_source: list[SourceDocuments]) -> None:
        with Index.open(self.folder, read_only=True) as index:
            report = preview_update(index, per_source)
        _print_notes(per_source, report)
        estimates = estimate_costs(partial(self._estimate, per_source))
        value = {
            "index": str(self.folder),
            "dry_run": True,
            **update_to_json(report),
            "estimate": estimates_to_json(estimates),
        }

        def show() -> None:
            for line in (*_describe_sources(report), "nothing was done (--dry-run)"):
                stdout().print(escape_markup(line), soft_wrap=True)
            print_estimate(render_estimates(estimates), stderr=False)

        write_result(value, self.approval.json, show)

    def _print(self, report: IndexUpdate, notes: list[str]) -> None:
        value = {
            "index": str(self.folder),
            "dry_run": False,
            **update_to_json(report),
            "notes": notes,
            "spent": command_spending(),
        }

        def show() -> None:
            for line in (*_describe_sources(report), *describe_work(report), *notes):
                stdout().print(escape_markup(line), soft_wrap=True)

        write_result(value, self.approval.json, show)


def _print_notes(per_source: Sequence[SourceDocuments], report: IndexUpdate) -> None:
    """Print what was noted when sources were read that have changed: that of the others was printed before."""
    for source, update in zip(per_source, report.sources, strict=True):
        changes = update.changes
        if changes.new or changes.replaced or changes.renamed:
            for corpus in source.corpora:
                print_reading_notes(corpus)


def _describe_sources(report: IndexUpdate) -> list[str]:
    """Return a line for each source: what has changed in it, or why it could not be read."""
    if not report.sources:
        return ["The index has no sources that can be read again: a program added its documents."]
    return [
        f"{source.source}: {f'not read: {source.failure}' if source.failure else format_changes(source.changes)}"
        for source in report.sources
    ]


def _repeat(work: _Round, watcher: Watcher | None, seconds: float | None) -> None:
    """Run rounds until the command is stopped. Raises BudgetError once the budget is spent, and UsageError at first."""
    model, encoder = find_payees(work.folder)
    if (model or encoder) and work.budget is None:
        raise UsageError("What this index asks is paid for: with --watch and --every it needs --budget DOLLARS.")
    retry = _FIRST_RETRY
    while True:
        pause = seconds
        try:
            work.run()
            retry = _FIRST_RETRY
        except LeftOutError as error:
            print_note(str(error))
        except RagindexError as error:
            if isinstance(error, BudgetError) and not isinstance(error, DailyBudgetError):
                raise
            write_outcome(work.folder, str(error))
            pause, retry = retry if seconds is None else min(retry, seconds), min(2 * retry, _LAST_RETRY)
            print_note(f"This round failed, and is repeated in {pause:g} s: {error}")
        if watcher is not None:
            watcher.wait(pause)
        else:
            time.sleep(pause or 0)


def _parse_time(option: str | None) -> float | None:
    """Return the seconds of a time such as 30m. Raises UsageError."""
    if option is None:
        return None
    match = _TIME.fullmatch(option.strip())
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0 < seconds < math.inf:
        raise UsageError(f"--every is a time such as 90s, 30m, 1h or 1d. Got {option!r} instead.")
    return seconds


def _find_index(folder: Path | None) -> Path:
    """Return the index that is named, else the only one that is this folder or in it. Raises UsageError."""
    if folder is not None:
        return folder
    places = [Path(), *sorted(place for place in Path().iterdir() if place.is_dir() and not place.is_symlink())]
    indexes = [place for place in places if read_manifest(place) is not None]
    if len(indexes) != 1:
        several = f"Here are {', '.join(map(str, indexes))}." if indexes else "There is none here."
        raise UsageError(f"Name the index with --index DIR. {several}")
    return indexes[0]


def _list_watched(folder: Path) -> list[Path]:
    sources = require_manifest(folder).sources
    return [place for name, source in sources.items() for place in list_source_paths(source)]
