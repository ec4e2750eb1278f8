"""The command `index`: update an index to its documents, and build methods over them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ragindex._util.text import many
from ragindex._util.workers import use_workers
from ragindex.cli.approval import approve, approve_removals
from ragindex.cli.building import build_methods, collect_figures, collect_fit, collect_notes
from ragindex.cli.console import (
    command_spending,
    escape_markup,
    stdout,
    text_table,
    write_result,
)
from ragindex.cli.documents import DataReader, ReadData, SourceOptions, report_skipped
from ragindex.cli.option_groups import group_of, with_groups
from ragindex.cli.options import (
    AllowRemovalsOption,
    AsOption,
    BudgetOption,
    ChunkingOption,
    ConsentFlags,
    EncoderOption,
    IndexOption,
    JsonOption,
    LanguageOption,
    LlmOption,
    NoCacheOption,
    RetryFailedOption,
    ReuseAnswersOption,
    SeedOption,
    StoreOption,
    WaitOption,
    WorkersOption,
)
from ragindex.corpus import Chunking, Corpus
from ragindex.estimate_left import BuildPlan, estimate_left, require_keys
from ragindex.index import manifest, sources
from ragindex.index.documents import DocumentChanges
from ragindex.index.index import Index
from ragindex.index.notes import (
    format_changes,
    require_records,
)
from ragindex.index.parts import TRIPLES, require_reader, require_working
from ragindex.index.repair import move_aside
from ragindex.index.sync import BuildResult, finished_parts
from ragindex.index.updating import SourceDocuments, update_index, update_to_json
from ragindex.interfaces import Scheme
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.budget import parse_budget
from ragindex.parts.text.passages import parse_chunking
from ragindex.plugins import registry
from ragindex.plugins.specs import parse_many


@dataclass(frozen=True, slots=True)
class OpeningOptions:
    """What the index is opened with, and what the work on it may cost."""

    language: LanguageOption = None
    chunking: ChunkingOption = None
    encoder: EncoderOption = None
    llm: LlmOption = None
    budget: BudgetOption = None
    no_cache: NoCacheOption = False
    reuse_answers: ReuseAnswersOption = False
    store: StoreOption = None
    seed: SeedOption = None
    wait: WaitOption = 0.0


@dataclass(frozen=True, slots=True)
class BuildingOptions:
    """What is built anew, and from what."""

    triples: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Published extractions (HippoRAG's OpenIE), used instead of an LLM."),
    ] = None
    workers: WorkersOption = None
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild", help="Move an index of an older format aside and build it again with its cached answers."
        ),
    ] = False
    refit: Annotated[
        bool, typer.Option("--refit", help="Fit the encoder to all documents again, and build its vectors again.")
    ] = False
    retry_failed: RetryFailedOption = False


@with_groups
def index(
    folder: IndexOption,
    reading: Annotated[SourceOptions, group_of(SourceOptions, "Documents")],
    opening: Annotated[OpeningOptions, group_of(OpeningOptions, "Index and models")],
    consent: Annotated[ConsentFlags, group_of(ConsentFlags)],
    building: Annotated[BuildingOptions, group_of(BuildingOptions, "Building")],
    data: Annotated[str | None, typer.Argument(metavar="DATA", help="Documents: a folder, a file or world:1k.")] = None,
    methods: Annotated[
        str | None,
        typer.Option(metavar="a,b", help="Methods to build besides what is built. Default: hybrid, if nothing is."),
    ] = None,
    named: AsOption = "",
    allow_removals: AllowRemovalsOption = False,
    json: JsonOption = None,
) -> None:
    """Build methods over the documents of DATA, and update everything that is built to them.

    The index remembers DATA: documents that are gone from it are removed.
    Without DATA, methods are built over the documents in the index.
    An interrupted run resumes where it stopped.

    Example: ragindex index my-documents/ --index my-index --methods bm25,hybrid
    """
    started = time.monotonic()
    schemes = _choose_methods(methods, folder, building.rebuild)
    wanted_chunking = None if opening.chunking is None else parse_chunking(opening.chunking)
    if building.triples is not None:
        require_reader(schemes)
    with use_workers(building.workers):
        if building.rebuild and not consent.dry_run:
            move_aside(folder)
        plan = BuildPlan(
            llm=opening.llm,
            encoder=opening.encoder,
            language=opening.language,
            seed=opening.seed,
            keep_calls=not opening.no_cache,
            updates=True,
            refit=building.refit,
            imported=() if building.triples is None else (TRIPLES,),
            chunking=wanted_chunking,
        )
        if not consent.dry_run:
            require_keys(folder, schemes, plan)  # before documents are read, which may take minutes
        read_data = None if data is None else DataReader(folder, reading, named).read(data)
        corpus = None if read_data is None else read_data.corpus
        labelled = {registry.label(scheme): scheme for scheme in schemes}
        setting = LLMSettings(reuse_answers=opening.reuse_answers)
        estimating = partial(estimate_left, folder, corpus, labelled, setting, plan, thorough=consent.dry_run)
        approve(estimating, consent.answer(opening.budget, json))
    existing = manifest.read_manifest(folder)
    with Index.open(
        folder,
        create=corpus is not None,
        encoder=opening.encoder,
        llm=opening.llm,
        store=opening.store,
        language=opening.language,
        chunking=_choose_chunking(existing, corpus, wanted_chunking),
        seed=opening.seed,
        llm_settings=LLMSettings(budget=parse_budget(opening.budget), reuse_answers=opening.reuse_answers),
        wait_seconds=opening.wait,
        keep_calls=not opening.no_cache,
    ) as index:
        if existing is not None and wanted_chunking is not None:
            index.rechunk(wanted_chunking)
        asking = partial(approve_removals, allowed=allow_removals, json=json)
        source_documents = [] if corpus is None else [SourceDocuments(data or "", (corpus,), named=named)]
        fit, notes = index.encoder_id, list[str]()
        report = update_index(
            index, source_documents, partial(_build, index, schemes, building, notes), asking, started
        )
        changed = report.changes if source_documents else None
        built = finished_parts(index, schemes)
        parts, counts = collect_figures(index, built), index.counts()
        notes += collect_notes(index, built, report, fit)
        fit_state, fit_sentences = collect_fit(index, built)
        require_records(index, built)
        command = index.command("search", "…", *(["--method", registry.label(schemes[0])] if schemes else []))
    value = {
        "index": str(folder),
        "documents": counts.documents,
        "passages": counts.passages,
        "parts": {name: {"seconds": f.seconds, "bytes": f.bytes, "search": f.search} for name, f in parts.items()},
        "fit": fit_state,
        "notes": notes,
        "skipped": [] if corpus is None else [str(reason) for reason in corpus.skipped],
        "spent": command_spending(),
    }
    value |= {} if changed is None else {"changed": _count_changes(changed)}
    value |= {"update": update_to_json(report)}

    def show() -> None:
        sizes = f"{many(counts.documents, 'document')}, {many(counts.passages, 'passage')}"
        stdout().print(escape_markup(f"{sizes} in {folder}"))
        for line in () if read_data is None else _describe_changes(read_data, report.changes):
            stdout().print(escape_markup(line), soft_wrap=True)
        rows = [(name, f"{f.seconds:.1f}", f"{f.bytes / 1e6:.1f}", f.search) for name, f in parts.items()]
        stdout().print(text_table(("part", "seconds", "MB", "search"), rows))
        for note in [*fit_sentences, *notes]:
            stdout().print(escape_markup(note), soft_wrap=True)
        stdout().print(f"Next: {escape_markup(command)}", soft_wrap=True)

    write_result(value, json, show)
    report_skipped([] if corpus is None else [corpus], reading.skip_bad)


def _build(index: Index, schemes: Sequence[Scheme], building: BuildingOptions, notes: list[str]) -> BuildResult:
    if building.triples is not None:
        index.import_part(TRIPLES, building.triples)
    with use_workers(building.workers):
        result, of_fits = build_methods(index, schemes, building.refit, building.retry_failed)
    notes += of_fits
    return result


def _describe_changes(read_data: ReadData, changes: DocumentChanges) -> list[str]:
    """Return what has changed in the documents of DATA, and what reading them by other options than before did."""
    lines = [f"{read_data.data}: {format_changes(changes)}"]
    if options := read_data.changed_options:
        lines.append(f"{read_data.data} is read with {options}: {changes.added:,} added, {changes.removed:,} removed")
    return lines


def _count_changes(changed: DocumentChanges) -> dict[str, Any]:
    """Return the numbers of changed documents, and the new ids of renamed ones by their old ids."""
    counted = ("added", "changed", "removed", "unchanged", "reread")
    return {**{name: getattr(changed, name) for name in counted}, "renamed": dict(changed.renamed)}


def _choose_methods(methods: str | None, folder: Path, rebuild: bool) -> list[Scheme]:
    """Return the methods to build besides what is built: `hybrid` if none is named and nothing is built."""
    existing = None if rebuild else manifest.read_manifest(folder)
    if methods is None and existing is not None and existing.parts:
        return []
    return [require_working(registry.scheme(spec)) for spec in parse_many(methods or "hybrid")]


def _choose_chunking(
    existing: manifest.Manifest | None, corpus: Corpus | None, chunking: Chunking | None
) -> Chunking | Literal["default"] | None:
    """Return the `chunking` argument for opening the index, whose chunking changes only after it is opened."""
    if chunking is not None:
        return chunking if existing is None else "default"
    return "default" if corpus is None else sources.choose_chunking(existing, corpus)
