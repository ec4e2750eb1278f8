"""The command `add`: add documents to an index."""

from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from ragindex.cli.approval import Approval, approve
from ragindex.cli.console import command_spending, command_tally, print_note, stdout, write_result
from ragindex.cli.documents import DataReader, report_skipped
from ragindex.cli.options import (
    AsOption,
    BudgetOption,
    DryRunOption,
    EncoderOption,
    EncodingOption,
    ExcludeOption,
    ForgetOption,
    FormatOption,
    IncludeOption,
    IndexOption,
    JsonOption,
    MaxFileOption,
    OcrOption,
    RefOption,
    RowsOption,
    SkipBadOption,
    SkipStubsOption,
    StoreOption,
    WaitOption,
    YesOption,
)
from ragindex.corpus.file_selection import NamedOptions
from ragindex.estimate_left import estimate_left
from ragindex.index import manifest, sources
from ragindex.index.index import Index
from ragindex.index.notes import describe_drafts, describe_unknown_words, format_changes
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.budget import parse_budget


def add(
    data: Annotated[list[str], typer.Argument(metavar="DATA...", help="Documents: folders, files or world:1k.")],
    folder: IndexOption,
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
    encoder: EncoderOption = None,
    budget: BudgetOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    store: StoreOption = None,
    wait: WaitOption = 0.0,
    json: JsonOption = None,
) -> None:
    """Add documents to an index, replace those with the same id, and update what is built.

    The ids of files are relative to the folder that the index remembers; another folder needs a name.

    Example: ragindex add new-documents/ --as new --index my-index
    """
    options = NamedOptions(include, exclude, encoding, max_file_mb, ocr, rows, skip_stubs)
    reader = DataReader(folder, options, format, skip_bad, named, forget_options, ref)
    corpora = [reader.read(source).corpus for source in data]
    documents = tuple(document for corpus in corpora for document in corpus.documents)
    added = replace(corpora[0], documents=documents)
    estimating = partial(estimate_left, folder, added, None, LLMSettings(), encoder=encoder, adds=True)
    approve(estimating, Approval(yes, budget, dry_run, json))
    with Index.open(
        folder,
        encoder=encoder,
        store=store,
        chunking=sources.choose_chunking(manifest.read_manifest(folder), corpora[0], kept=True),
        llm_settings=LLMSettings(budget=parse_budget(budget)),
        wait_seconds=wait,
        create=True,
    ) as index:
        fit = index.encoder_id
        changed = index.add(corpora, source=named)
        index.build()
        command = None if index.manifest.parts else index.command("index", "--methods", "hybrid")
        unknown = describe_unknown_words(index, changed, fit)
    if command:
        print_note(f"No method is built yet. Run: {command}")
    for note in filter(None, (unknown, *describe_drafts(command_tally()))):
        print_note(note)
    value = {name: getattr(changed, name) for name in ("added", "changed", "unchanged", "reread")}
    skipped = [str(reason) for corpus in corpora for reason in corpus.skipped]
    result = value | {"skipped": skipped, "spent": command_spending()}
    write_result(result, json, lambda: stdout().print(format_changes(changed)))
    report_skipped(corpora, skip_bad)
