"""The command `index`: update an index to its documents, and build methods over them."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from ragindex._util.text import many
from ragindex._util.workers import use_workers
from ragindex.cli.approval import Approval, approve, approve_removals
from ragindex.cli.building import build_methods, collect_figures, list_notes
from ragindex.cli.console import (
    command_spending,
    escape_markup,
    stdout,
    text_table,
    write_result,
)
from ragindex.cli.documents import DataReader, ReadData, report_skipped
from ragindex.cli.options import (
    AllowRemovalsOption,
    AsOption,
    BudgetOption,
    ChunkingOption,
    DryRunOption,
    EncoderOption,
    EncodingOption,
    ExcludeOption,
    ForgetOption,
    FormatOption,
    IncludeOption,
    IndexOption,
    JsonOption,
    LanguageOption,
    LlmOption,
    MaxFileOption,
    NoCacheOption,
    OcrOption,
    RefOption,
    RetryFailedOption,
    RowsOption,
    SeedOption,
    SkipBadOption,
    SkipStubsOption,
    StoreOption,
    WaitOption,
    WorkersOption,
    YesOption,
)
from ragindex.corpus import Chunking, Corpus
from ragindex.corpus.file_selection import NamedOptions
from ragindex.errors import UsageError
from ragindex.estimate_left import estimate_left
from ragindex.index import manifest, sources
from ragindex.index.documents import DocumentChanges
from ragindex.index.index import Index
from ragindex.index.notes import (
    format_changes,
    require_records,
)
from ragindex.index.parts import TRIPLES, require_reader, require_working
from ragindex.index.repair import move_aside
from ragindex.index.sync import finished_parts
from ragindex.index.updating import SourceDocuments, update_index, update_to_json
from ragindex.interfaces import Scheme
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.budget import parse_budget
from ragindex.plugins import registry
from ragindex.plugins.specs import parse_many


def index(
    folder: IndexOption,
    data: Annotated[str | None, typer.Argument(metavar="DATA", help="Documents: a folder, a file or world:1k.")] = None,
    methods: Annotated[
        str | None,
        typer.Option(metavar="a,b", help="Methods to build besides what is built. Default: hybrid, if nothing is."),
    ] = None,
    format: FormatOption = None,
    skip_bad: SkipBadOption = None,
    include: IncludeOption = None,
    exclude: ExcludeOption = None,
    encoding: EncodingOption = None,
    max_file_mb: MaxFileOption = None,
    ocr: OcrOption = None,
    rows: RowsOption = None,
    skip_stubs: SkipStubsOption = None,
    ref: RefOption = None,
    forget_options: ForgetOption = False,
    named: AsOption = "",
    language: LanguageOption = None,
    chunking: ChunkingOption = None,
    encoder: EncoderOption = None,
    llm: LlmOption = None,
    budget: BudgetOption = None,
    yes: YesOption = False,
    allow_removals: AllowRemovalsOption = False,
    dry_run: DryRunOption = False,
    no_cache: NoCacheOption = False,
    triples: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Published extractions (HippoRAG's OpenIE), used instead of an LLM."),
    ] = None,
    store: StoreOption = None,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild", help="Move an index of an older format aside and build it again with its cached answers."
        ),
    ] = False,
    refit: Annotated[
        bool, typer.Option("--refit", help="Fit the encoder to all documents again, and build its vectors again.")
    ] = False,
    retry_failed: RetryFailedOption = False,
    wait: WaitOption = 0.0,
    json: JsonOption = None,
) -> None:
    """Build methods over the documents of DATA, and update everything that is built to them.

    The index remembers DATA: documents that are gone from it are removed.
    Without DATA, methods are built over the documents in the index.
    An interrupted run resumes where it stopped.

    Example: ragindex index my-documents/ --index my-index --methods bm25,hybrid
    """
    started = time.monotonic()
    schemes = _choose_methods(methods, folder, rebuild)
    wanted_chunking = None if chunking is None else _parse_chunking(chunking)
    if triples is not None:
        require_reader(schemes)
    with use_workers(workers):
        options = NamedOptions(include, exclude, encoding, max_file_mb, ocr, rows, skip_stubs)
        if rebuild and not dry_run:
            move_aside(folder)
        reader = DataReader(folder, options, format, skip_bad, named, forget_options, ref)
        read_data = None if data is None else reader.read(data)
        corpus = None if read_data is None else read_data.corpus
        estimating = partial(
            estimate_left,
            folder,
            corpus,
            {registry.label(scheme): scheme for scheme in schemes},
            LLMSettings(),
            updates=True,
            encoder=encoder,
            llm=llm,
            language=language,
            seed=seed,
            keep_calls=not no_cache,
            imported=() if triples is None else [TRIPLES],
        )
        approve(estimating, Approval(yes, budget, dry_run, json))
    existing = manifest.read_manifest(folder)
    with Index.open(
        folder,
        create=corpus is not None,
        encoder=encoder,
        llm=llm,
        store=store,
        language=language,
        chunking=_choose_chunking(existing, corpus, wanted_chunking),
        seed=seed,
        llm_settings=LLMSettings(budget=parse_budget(budget)),
        wait_seconds=wait,
        keep_calls=not no_cache,
    ) as index:
        if existing is not None and wanted_chunking is not None:
            index.rechunk(wanted_chunking)
        asking = partial(approve_removals, allowed=allow_removals, json=json)
        given = [] if corpus is None else [SourceDocuments(data or "", (corpus,), named=named)]
        fit, notes = index.encoder_id, list[str]()
        build = partial(_build, index, schemes, triples, workers, refit, retry_failed, notes)
        report = update_index(index, given, build, asking, started)
        changed = report.changes if given else None
        built = finished_parts(index, schemes)
        parts, counts = collect_figures(index, built), index.counts()
        notes += list_notes(index, built, report, fit)
        require_records(index, built)
        command = index.command("search", "…", *(["--method", registry.label(schemes[0])] if schemes else []))
    value = {
        "index": str(folder),
        "documents": counts.documents,
        "passages": counts.passages,
        "parts": {name: {"seconds": f.seconds, "bytes": f.bytes, "search": f.search} for name, f in parts.items()},
        "notes": notes,
        "skipped": [] if corpus is None else [str(reason) for reason in corpus.skipped],
        "spent": command_spending(),
    }
    counted = ("added", "changed", "removed", "unchanged", "reread")
    value |= {} if changed is None else {"changed": {name: getattr(changed, name) for name in counted}}
    value |= {"update": update_to_json(report)}

    def show() -> None:
        sizes = f"{many(counts.documents, 'document')}, {many(counts.passages, 'passage')}"
        stdout().print(escape_markup(f"{sizes} in {folder}"))
        for line in () if read_data is None else _describe_changes(read_data, report.changes):
            stdout().print(escape_markup(line), soft_wrap=True)
        rows = [(name, f"{f.seconds:.1f}", f"{f.bytes / 1e6:.1f}", f.search) for name, f in parts.items()]
        stdout().print(text_table(("part", "seconds", "MB", "search"), rows))
        for note in notes:
            stdout().print(escape_markup(note), soft_wrap=True)
        stdout().print(f"Next: {escape_markup(command)}", soft_wrap=True)

    write_result(value, json, show)
    report_skipped([] if corpus is None else [corpus], skip_bad)


def _build(
    index: Index,
    schemes: Sequence[Scheme],
    triples: Path | None,
    workers: int | None,
    refit: bool,
    retry_failed: bool,
    notes: list[str],
) -> None:
    if triples is not None:
        index.import_part(TRIPLES, triples)
    with use_workers(workers):
        notes += build_methods(index, schemes, refit, retry_failed)


def _describe_changes(read_data: ReadData, changes: DocumentChanges) -> list[str]:
    """Return what has changed in the documents of DATA, and what reading them by other options than before did."""
    lines = [f"{read_data.data}: {format_changes(changes)}"]
    if options := read_data.changed_options:
        lines.append(f"{read_data.data} is read with {options}: {changes.added:,} added, {changes.removed:,} removed")
    return lines


def _choose_methods(methods: str | None, folder: Path, rebuild: bool) -> list[Scheme]:
    """Return the methods to build besides what is built: `hybrid` if none is named and nothing is built."""
    existing = None if rebuild else manifest.read_manifest(folder)
    if methods is None and existing is not None and existing.parts:
        return []
    return [require_working(registry.scheme(spec)) for spec in parse_many(methods or "hybrid")]


def _parse_chunking(written: str) -> Chunking:
    """Return the chunking that is written as the parameter `over` of methods. Raises UsageError."""
    part = registry.part(written)
    chunking = part.own_chunking()
    if registry.name_of(part) != "passages" or chunking is None:
        raise UsageError(f"--chunking is written 'passages(by=headings, size=200)'. Got {written!r} instead.")
    return chunking


def _choose_chunking(
    existing: manifest.Manifest | None, corpus: Corpus | None, wanted: Chunking | None
) -> Chunking | Literal["default"] | None:
    """Return the `chunking` argument for opening the index, whose chunking changes only after it is opened."""
    if wanted is not None:
        return wanted if existing is None else "default"
    return "default" if corpus is None else sources.choose_chunking(existing, corpus)
