"""The command `index`: update an index to its documents, and build methods over them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ragindex._util.text import many
from ragindex._util.workers import use_workers
from ragindex.cli.approval import Consent, approve, approve_removals
from ragindex.cli.console import (
    command_spending,
    command_tally,
    escape_markup,
    stdout,
    text_table,
    write_result,
)
from ragindex.cli.documents import ReadingOptions, read_corpus, report_skipped
from ragindex.cli.option_groups import group_of, with_groups
from ragindex.cli.options import (
    AsOption,
    BudgetOption,
    ChunkingOption,
    EncoderOption,
    IndexOption,
    JsonOption,
    LanguageOption,
    LlmOption,
    NoCacheOption,
    ReuseAnswersOption,
    SeedOption,
    StoreOption,
    WaitOption,
    WorkersOption,
)
from ragindex.corpus import Chunking, Corpus
from ragindex.errors import UsageError
from ragindex.estimate_left import estimate_left
from ragindex.index import manifest, sources
from ragindex.index.documents import DocumentChanges
from ragindex.index.figures import PartFigures
from ragindex.index.index import Index
from ragindex.index.models import ASKED_FOR, Refit
from ragindex.index.notes import (
    describe_drafts,
    describe_fit,
    describe_full_vocabulary,
    describe_unknown_passages,
    describe_unknown_words,
    format_changes,
    format_part_notes,
    list_part_details,
    require_records,
)
from ragindex.index.parts import TRIPLES, list_working_methods, require_reader, require_working, uses_encoder
from ragindex.index.repair import move_aside
from ragindex.index.sync import finished_parts, parts_to_update
from ragindex.interfaces import Part, Scheme
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.budget import parse_budget
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
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed", help="Ask again about passages that are set aside after two charged, unusable answers."
        ),
    ] = False


@with_groups
def index(
    folder: IndexOption,
    reading: Annotated[ReadingOptions, group_of(ReadingOptions, "Documents")],
    opening: Annotated[OpeningOptions, group_of(OpeningOptions, "Index and models")],
    consent: Annotated[Consent, group_of(Consent)],
    building: Annotated[BuildingOptions, group_of(BuildingOptions, "Building")],
    data: Annotated[str | None, typer.Argument(metavar="DATA", help="Documents: a folder, a file or world:1k.")] = None,
    methods: Annotated[
        str | None,
        typer.Option(metavar="a,b", help="Methods to build besides what is built. Default: hybrid, if nothing is."),
    ] = None,
    named: AsOption = "",
    allow_removals: Annotated[
        bool, typer.Option("--allow-removals", help="Do not ask before many documents of a source are removed.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """Build methods over the documents of DATA, and update everything that is built to them.

    The index remembers DATA: documents that are gone from it are removed.
    Without DATA, methods are built over the documents in the index.
    An interrupted run resumes where it stopped.

    Example: ragindex index my-documents/ --index my-index --methods bm25,hybrid
    """
    schemes = _choose_methods(methods, folder, building.rebuild)
    wanted_chunking = None if opening.chunking is None else _parse_chunking(opening.chunking)
    if building.triples is not None:
        require_reader(schemes)
    with use_workers(building.workers):
        if building.rebuild and not consent.dry_run:
            move_aside(folder)
        corpus = None if data is None else read_corpus(data, folder, reading)
        estimating = partial(
            estimate_left,
            folder,
            corpus,
            {registry.label(scheme): scheme for scheme in schemes},
            LLMSettings(reuse_answers=opening.reuse_answers),
            updates=True,
            refit=building.refit,
            encoder=opening.encoder,
            llm=opening.llm,
            language=opening.language,
            seed=opening.seed,
            keep_calls=not opening.no_cache,
            imported=() if building.triples is None else [TRIPLES],
        )
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
        changed = None if corpus is None else index.replace(corpus, source=named, announce=asking)
        if building.triples is not None:
            index.import_part(TRIPLES, building.triples)
        fit = index.encoder_id
        with use_workers(building.workers):
            refitted = _build(index, schemes, building.refit, building.retry_failed)
        built = finished_parts(index, schemes)
        parts, counts = _collect_figures(index, built), index.counts()
        unknown = describe_unknown_words(index, changed or DocumentChanges(), fit)
        full = describe_full_vocabulary(index, built, fit)
        notes = [*refitted, *format_part_notes(index, built), *list_part_details(index, built)]
        notes += [*filter(None, (unknown, full, describe_unknown_passages(index))), *describe_drafts(command_tally())]
        fit_state, fit_sentences = _collect_fit(index, built)
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
    counted = ("added", "changed", "removed", "unchanged", "reread")
    value |= {} if changed is None else {"changed": {name: getattr(changed, name) for name in counted}}

    def show() -> None:
        sizes = f"{many(counts.documents, 'document')}, {many(counts.passages, 'passage')}"
        stdout().print(escape_markup(f"{sizes} in {folder}"))
        if changed is not None:
            stdout().print(escape_markup(f"{data}: {format_changes(changed)}"), soft_wrap=True)
        rows = [(name, f"{f.seconds:.1f}", f"{f.bytes / 1e6:.1f}", f.search) for name, f in parts.items()]
        stdout().print(text_table(("part", "seconds", "MB", "search"), rows))
        for note in [*fit_sentences, *notes]:
            stdout().print(escape_markup(note), soft_wrap=True)
        stdout().print(f"Next: {escape_markup(command)}", soft_wrap=True)

    write_result(value, json, show)
    report_skipped([] if corpus is None else [corpus], reading.skip_bad)


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


def _build(index: Index, schemes: Sequence[Scheme], refit: bool, retry_failed: bool) -> list[str]:
    """Build methods, and what is built already; with `refit`, fit the encoder first. Return notes on that."""
    updated = finished_parts(index, schemes) if schemes else parts_to_update(index)
    before = index.encoder_id
    if not refit:
        result = index.build(*updated, *schemes, retry_failed=retry_failed)
        return [] if result.refit is None else [_describe_refit(index, result.refit, updated, before)]
    index.refit()
    wanted, others = _divide_parts(updated)
    result = index.build(*wanted, *schemes, retry_failed=retry_failed)
    left = [registry.label(part) for part in others if uses_encoder(part)]
    notes = [] if result.refit is None else [_describe_refit(index, result.refit, wanted, before)]
    return [*notes, f"Not built again, as no method is complete with it: {', '.join(left)}."] if left else notes


def _divide_parts(parts: Sequence[Part[Any]]) -> tuple[list[Part[Any]], list[Part[Any]]]:
    """Return the parts of methods that are built, and those that no method uses as long as its other parts are missing.

    A method counts as built if a part of the name of each of its parts is. Parts of methods that have no default
    parameters are wanted.
    """
    methods = [{registry.name_of(part) for part in needed} for needed in list_working_methods().values()]
    there = {registry.name_of(part) for part in parts}
    built = {name for needed in methods if needed <= there for name in needed}
    known = {name for needed in methods for name in needed}
    others = [part for part in parts if registry.name_of(part) in known - built]
    return [part for part in parts if part not in others], others


def _describe_refit(index: Index, refit: Refit, wanted: Sequence[Part[Any]], before: str | None) -> str:
    """Say what was fitted and built again, and how long it took."""
    fitted = f"{refit.encoder} was fitted again in {refit.seconds:.1f} s"
    if index.encoder_id == before:
        return f"{fitted}, and nothing has changed by it."
    because = "" if refit.reason == ASKED_FOR else f", because {refit.reason}"
    again = [index.figures(part) for part in wanted if uses_encoder(part)]
    times = ", ".join(f"{built.name} {built.seconds:.1f} s" for built in again) or "nothing"
    return f"{fitted}{because}, and built again: {times}."


def _collect_fit(index: Index, built: Sequence[Part[Any]]) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the state of the encoder's fit as JSON and in a sentence, if a part uses the encoder and it is fitted."""
    state = index.fit_state() if any("encoder" in part.uses for part in built) else None
    return (None, []) if state is None else (state.as_json(), [describe_fit(state)])


def _collect_figures(index: Index, built: Sequence[Part[Any]]) -> dict[str, PartFigures]:
    """Return time and size of each part by label, and of the encoder's fit if a part uses the encoder."""
    parts = {registry.label(part): part for part in built}
    fit = index.fit_figures() if any("encoder" in part.uses for part in parts.values()) else None
    return {name: index.figures(part) for name, part in parts.items()} | ({fit.name: fit} if fit else {})
