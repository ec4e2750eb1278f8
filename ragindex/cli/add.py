"""The command `add`: add documents to an index."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import typer

from ragindex.cli.approval import approve
from ragindex.cli.console import command_spending, command_tally, print_note, stdout, write_result
from ragindex.cli.documents import DataReader, SourceOptions, report_skipped
from ragindex.cli.option_groups import group_of, with_groups
from ragindex.cli.options import (
    AsOption,
    BudgetOption,
    ConsentFlags,
    EncoderOption,
    IndexOption,
    JsonOption,
    ReuseAnswersOption,
    StoreOption,
    WaitOption,
)
from ragindex.estimate_left import BuildPlan, estimate_left
from ragindex.index import manifest, sources
from ragindex.index.index import Index
from ragindex.index.notes import (
    describe_drafts,
    describe_unknown_passages,
    describe_unknown_words,
    format_changes,
)
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.budget import parse_budget


@dataclass(frozen=True, slots=True)
class AddOptions:
    """What the index is opened with, and what the work on it may cost."""

    encoder: EncoderOption = None
    budget: BudgetOption = None
    reuse_answers: ReuseAnswersOption = False
    store: StoreOption = None
    wait: WaitOption = 0.0


@with_groups
def add(
    data: Annotated[list[str], typer.Argument(metavar="DATA...", help="Documents: folders, files or world:1k.")],
    folder: IndexOption,
    reading: Annotated[SourceOptions, group_of(SourceOptions, "Documents")],
    consent: Annotated[ConsentFlags, group_of(ConsentFlags)],
    opening: Annotated[AddOptions, group_of(AddOptions, "Index and models")],
    named: AsOption = "",
    json: JsonOption = None,
) -> None:
    """Add documents to an index, replace those with the same id, and update what is built.

    The ids of files are relative to the folder that the index remembers; another folder needs a name.

    Example: ragindex add new-documents/ --as new --index my-index
    """
    reader = DataReader(folder, reading, named)
    corpora = [reader.read(source).corpus for source in data]
    documents = tuple(document for corpus in corpora for document in corpus.documents)
    added = replace(corpora[0], documents=documents)
    setting = LLMSettings(budget=parse_budget(opening.budget), reuse_answers=opening.reuse_answers)
    plan = BuildPlan(encoder=opening.encoder, adds=True)
    estimating = partial(estimate_left, folder, added, None, setting, plan, thorough=consent.dry_run)
    approve(estimating, consent.answer(opening.budget, json))
    with Index.open(
        folder,
        encoder=opening.encoder,
        store=opening.store,
        chunking=sources.choose_chunking(manifest.read_manifest(folder), corpora[0], keep=True),
        llm_settings=setting,
        wait_seconds=opening.wait,
        create=True,
    ) as index:
        fit = index.encoder_id
        changed = index.add(corpora, source=named)
        index.build()
        command = None if index.manifest.parts else index.command("index", "--methods", "hybrid")
        unknown = describe_unknown_words(index, changed, fit), describe_unknown_passages(index)
    if command:
        print_note(f"No method is built yet. Run: {command}")
    for note in filter(None, (*unknown, *describe_drafts(command_tally()))):
        print_note(note)
    value = {name: getattr(changed, name) for name in ("added", "changed", "unchanged", "reread")}
    skipped = [str(reason) for corpus in corpora for reason in corpus.skipped]
    result = value | {"skipped": skipped, "spent": command_spending()}
    write_result(result, json, lambda: stdout().print(format_changes(changed)))
    report_skipped(corpora, reading.skip_bad)
