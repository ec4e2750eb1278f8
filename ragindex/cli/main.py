"""The command line. `compare`, `demo` and other packages' commands come through the entry points ragindex.commands."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from typer import BadParameter

from ragindex import filters
from ragindex.accounting import ledger, spending
from ragindex.cli import open_retriever, show_hits
from ragindex.cli.console import (
    AsOption,
    BudgetOption,
    EncoderOption,
    FormatOption,
    JsonOption,
    LanguageOption,
    LlmOption,
    NoCacheOption,
    SeedOption,
    SkipBadOption,
    StoreOption,
    WorkspaceOption,
    emit,
    existing,
    filters_of,
    note,
    out,
    plain,
    run,
    seed_of,
    table,
)
from ragindex.cli.doctor import findings
from ragindex.cli.plugin_help import Parameter, description, parameters
from ragindex.cli.repair import repair
from ragindex.corpus import Corpus, read
from ragindex.errors import RagindexError, UsageError
from ragindex.interfaces import Scheme
from ragindex.llm.budget import limited
from ragindex.llm.settings import LLMSettings
from ragindex.plugins import registry
from ragindex.plugins.specs import parse_many
from ragindex.stores.metered import MeteredCollection
from ragindex.types import Query
from ragindex.workspace import imported_files, manifest, sources
from ragindex.workspace.documents import Changed
from ragindex.workspace.notes import require_records, said_of_parts
from ragindex.workspace.settings import require_apart
from ragindex.workspace.workspace import PartFigures, Workspace

_NAMED = 5  # documents that a sentence names

app = typer.Typer(
    name="ragindex",
    help="Which retriever should I use on my documents? Build several, compare them, use the best.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A method to describe.")] = None,
    json: JsonOption = None,
) -> None:
    """List the methods, or describe one with its parameters (or an encoder, a store, a part).

    Example: ragindex methods hybrid
    """
    if name is None:
        rows = list(_listed())
        value = [dict(zip(("name", "distribution", "object"), row, strict=True)) for row in rows]
        emit(value, json, lambda: out().print(table(("method", "from", "object"), rows)))
        return
    plugin = registry.load(_group(name), name)
    found = parameters(plugin)

    def show() -> None:
        out().print(f"[bold]{plain(name)}[/]: {plain(description(plugin))}\n")
        out().print(table(("parameter", "type", "default", "description"), [_parameter_row(one) for one in found]))

    as_json = [
        {"name": one.name, "type": one.type, "default": one.value, "description": one.description} for one in found
    ]
    emit({"name": name, "doc": description(plugin), "parameters": as_json}, json, show)


@app.command()
def index(
    workspace: WorkspaceOption,
    data: Annotated[str | None, typer.Argument(metavar="DATA", help="Documents: a folder, a file or world:1k.")] = None,
    methods: Annotated[str, typer.Option(metavar="a,b", help="The methods to build.")] = "hybrid",
    format: FormatOption = None,
    skip_bad: SkipBadOption = False,
    named: AsOption = "",
    language: LanguageOption = None,
    encoder: EncoderOption = None,
    llm: LlmOption = None,
    budget: BudgetOption = None,
    no_cache: NoCacheOption = False,
    triples: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Published extractions (HippoRAG's OpenIE), in place of asking.")
    ] = None,
    store: StoreOption = None,
    seed: SeedOption = None,
    json: JsonOption = None,
) -> None:
    """Bring a workspace up to the documents of DATA, which it remembers, and build methods over all it holds.

    What is gone from DATA is removed; documents from elsewhere stay. Without DATA, build over the documents that are
    there. A run that was stopped goes on where it was.

    Example: ragindex index my-documents/ --index my-index --methods bm25,hybrid
    """
    schemes = [registry.scheme(spec) for spec in parse_many(methods)]
    if triples is not None:
        imported_files.require_reader(schemes)
    corpus = None if data is None else _read(data, workspace, format, skip_bad)
    folder = workspace if corpus is not None else existing(workspace)
    asking = LLMSettings(budget=limited(budget))
    with Workspace.open(
        folder,
        encoder=encoder,
        llm=llm,
        store=store,
        language=language,
        chunking="default" if corpus is None else sources.chunking(manifest.read(folder), corpus),
        seed=seed_of(folder, seed),
        asking=asking,
        keep_calls=not no_cache,
    ) as opened:
        changed = None if corpus is None else opened.replace(corpus, source=named)
        if triples is not None:
            opened.import_part(imported_files.TRIPLES, triples)
        with ledger.recording() as paid:
            opened.sync(schemes)
        figures, counts = _figures(opened, schemes), opened.counts()
        said = said_of_parts(opened, schemes)
        require_records(opened, schemes)
    value = {
        "workspace": str(workspace),
        "documents": counts.documents,
        "passages": counts.passages,
        "parts": {name: {"seconds": f.seconds, "bytes": f.bytes, "search": f.search} for name, f in figures.items()},
        "notes": said,
        **({} if changed is None else {"changed": _changes(changed)}),
        "spent": spending.as_json(paid),
    }
    rows = [(name, f"{f.seconds:.1f}", f"{f.bytes / 1e6:.1f}", f.search) for name, f in figures.items()]
    flags = f"--index {_quoted(workspace)} --method {_quoted(registry.label(schemes[0]))}"

    def show() -> None:
        out().print(f"{counts.documents} documents, {counts.passages} passages in {plain(str(workspace))}")
        if changed is not None:
            out().print(plain(f"{data}: {_sentence(changed)}"), soft_wrap=True)
        out().print(table(("part", "seconds", "MB", "search"), rows))
        for sentence in (*said, spending.sentence(paid)):
            if sentence:
                out().print(plain(sentence), soft_wrap=True)
        out().print(f'To ask it: ragindex search "…" {flags}', soft_wrap=True)

    emit(value, json, show)


@app.command()
def search(
    question: Annotated[str, typer.Argument(help="What to look for.")],
    workspace: WorkspaceOption,
    method: Annotated[str, typer.Option(metavar="NAME", help="The method to ask.")] = "hybrid",
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="How many hits.")] = 5,
    filter: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Only documents with it; a key given twice: either value."),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show each step of the retrieval.")] = False,
    encoder: EncoderOption = None,
    llm: LlmOption = None,
    budget: BudgetOption = None,
    store: StoreOption = None,
    seed: SeedOption = None,
    json: JsonOption = None,
) -> None:
    """Ask one method one question.

    Example: ragindex search "Who wrote the report?" --index my-index --method hybrid -k 3
    """
    wanted = filters_of(filter or [])
    scheme = registry.scheme(method)
    if not question.strip():
        raise UsageError("The question is empty. Ask something.")
    chosen, asking = seed_of(workspace, seed), LLMSettings(budget=limited(budget))
    with (
        Workspace.open(
            existing(workspace), encoder=encoder, llm=llm, store=store, seed=chosen, asking=asking
        ) as opened,
        ledger.recording() as paid,
    ):
        opened.require_prices([scheme])
        retriever = open_retriever.opened(opened, scheme, {"--encoder": encoder, "--llm": llm, "--seed": seed})
        where = filters.All(tuple(filters.meta(key, *values) for key, values in wanted.items())) if wanted else None
        found = retriever.retrieve([Query("question", question, where)], k)[0]
        unknown = [] if found.hits else _unknown_keys(opened, scheme, wanted)
    for sentence in unknown:
        note(sentence)

    def show() -> None:
        show_hits.show(found, explain)
        _say_spent(paid)

    emit(show_hits.as_json(question, found) | {"spent": spending.as_json(paid)}, json, show)


@app.command()
def add(
    data: Annotated[list[str], typer.Argument(metavar="DATA...", help="Documents: folders, files or world:1k.")],
    workspace: WorkspaceOption,
    format: FormatOption = None,
    skip_bad: SkipBadOption = False,
    named: AsOption = "",
    encoder: EncoderOption = None,
    budget: BudgetOption = None,
    store: StoreOption = None,
    json: JsonOption = None,
) -> None:
    """Add documents to a workspace, replacing those with the same id, and bring what was built up to them.

    The ids of files are relative to the folder that the workspace remembers; another folder needs a name.

    Example: ragindex add new-documents/ --as new --index my-index
    """
    corpora = [_read(one, workspace, format, skip_bad) for one in data]
    chunking = sources.chunking(manifest.read(workspace), corpora[0], kept=True)
    seed, asking = seed_of(workspace, None), LLMSettings(budget=limited(budget))
    with (
        Workspace.open(workspace, encoder=encoder, store=store, chunking=chunking, seed=seed, asking=asking) as opened,
        ledger.recording() as paid,
    ):
        changed = opened.add(corpora, source=named)
        opened.sync()
        built = bool(opened.manifest.parts)
    if not built:
        note(f"Nothing is built over them yet. Run: ragindex index --index {_quoted(workspace)} --methods hybrid")
    value = {"added": changed.added, "changed": changed.changed, "unchanged": changed.unchanged}

    def show() -> None:
        out().print(_sentence(changed))
        _say_spent(paid)

    emit(value | {"spent": spending.as_json(paid)}, json, show)


@app.command()
def remove(
    workspace: WorkspaceOption,
    ids: Annotated[list[str] | None, typer.Argument(help="Document ids.", show_default=False)] = None,
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Remove all that came from there, and forget it.")
    ] = None,
    encoder: EncoderOption = None,
    budget: BudgetOption = None,
    store: StoreOption = None,
    json: JsonOption = None,
) -> None:
    """Remove documents from a workspace and from everything that was built over them.

    Example: ragindex remove notes/old.md --index my-index
    """
    if bool(ids) == bool(source):
        raise BadParameter("Missing argument 'IDS...' or --source NAME: one of them.")
    seed, asking = seed_of(workspace, None), LLMSettings(budget=limited(budget))
    with (
        Workspace.open(existing(workspace), encoder=encoder, store=store, seed=seed, asking=asking) as opened,
        ledger.recording() as paid,
    ):
        there = _files(opened, ids or [])
        changed = opened.remove(ids) if ids else opened.remove_source(source or "")
        opened.sync()
    for file in there:
        note(f"{file} is still there: it comes back when its folder is indexed again.")

    def show() -> None:
        out().print(f"{changed.removed} removed")
        _say_spent(paid)

    emit({"removed": changed.removed, "spent": spending.as_json(paid)}, json, show)


def _say_spent(paid: ledger.Tally) -> None:
    said = spending.sentence(paid)
    if said:
        out().print(plain(said), soft_wrap=True)


app.command()(repair)


@app.command()
def doctor(json: JsonOption = None) -> None:
    """Say what is installed, what is missing, and what to run.

    Example: ragindex doctor
    """
    rows = findings()
    value = [dict(zip(("what", "state", "detail"), row, strict=True)) for row in rows]

    def show() -> None:
        out().print(table(("what", "state", "detail"), rows))
        out().print("\nTo try it: ragindex demo. On your documents: ragindex compare DATA --questions FILE")

    emit(value, json, show)


def _group(name: str) -> registry.Group:
    """The kind of plugin that a name stands for: a method, where there is none of that name."""
    groups: tuple[registry.Group, ...] = ("schemes", "encoders", "stores", "parts")
    return next((group for group in groups if name in registry.names(group)), "schemes")


def _parameter_row(one: Parameter) -> tuple[str, str, str, str]:
    return one.name, one.type, "required" if one.default is None else one.default, one.description


def _quoted(value: Path | str) -> str:
    return plain(shlex.quote(str(value)))


def _figures(opened: Workspace, schemes: Sequence[Scheme]) -> dict[str, PartFigures]:
    """What the parts took, and the fit of the encoder where one of them uses it."""
    parts = {registry.label(part): part for scheme in schemes for part in opened.all_parts(scheme)}
    fit = opened.fit_figures() if any("encoder" in part.uses for part in parts.values()) else None
    return {name: opened.figures(part) for name, part in parts.items()} | ({fit.name: fit} if fit else {})


def _changes(changed: Changed) -> dict[str, int]:
    return {name: getattr(changed, name) for name in ("added", "changed", "removed", "unchanged")}


def _sentence(changed: Changed) -> str:
    """What was done to documents. Those that came to others, and those that left their folder, are named."""
    added = _names(changed.new) if changed.changed + changed.unchanged else ""
    removed = f", {changed.removed} removed{_names(changed.gone)}" if changed.removed else ""
    return f"{changed.added} added{added}, {changed.changed} changed{removed}, {changed.unchanged} as they were"


def _names(ids: Sequence[str]) -> str:
    return f" ({', '.join(ids[:_NAMED])}{', …' if len(ids) > _NAMED else ''})" if ids else ""


def _files(opened: Workspace, ids: Sequence[str]) -> list[Path]:
    """The files, still there, of the first few of these documents."""
    owners, known = opened.documents.sources(ids[:_NAMED]), opened.manifest.sources
    files = [sources.file_of(known[owner], id) for id, owner in owners.items()]
    return [file for file in files if file is not None]


def _unknown_keys(opened: Workspace, scheme: Scheme, wanted: Iterable[str]) -> list[str]:
    """A sentence for each key of a filter that no document has."""
    parts = [opened.open_part(part) for part in opened.all_parts(scheme)]
    fields = {name for part in parts if isinstance(part, MeteredCollection) for name in part.fields()}
    known = sorted(name.removeprefix("meta.") for name in fields if name.startswith("meta."))
    there = f"There are: {', '.join(known)}." if known else "There are none."
    return [f"No document has the metadata key {key!r}. {there}" for key in wanted if key not in known]


def _listed() -> Iterator[tuple[str, str, str]]:
    """Every method with its distribution and object. Those of others are loaded: a broken one is said and left out."""
    for name in registry.names("schemes"):
        try:
            point = registry.entry("schemes", name)
            if not registry.is_ours("schemes", name):
                registry.load("schemes", name)
        except UsageError as error:
            note(f"left out: {error}")
        else:
            yield name, point.dist.name if point.dist else "", point.value


def _read(data: str, workspace: Path, format: str | None, skip_bad: bool) -> Corpus:
    corpus = read(data, format=format, skip_bad=skip_bad)
    require_apart(workspace, data, corpus)
    for sentence in corpus.skipped:
        note(f"skipped: {sentence}")
    for suffix, count in sorted(corpus.ignored.items()):
        note(f"not read: {count} files {suffix}")
    if corpus.repeats:
        note(f"{corpus.repeats} repeated documents are kept once")
    return corpus


def register(to: typer.Typer) -> None:
    """Add the commands of installed packages, ours among them. One that cannot be loaded is said and left out."""
    there = {command.name for command in to.registered_commands}
    for name in registry.names("commands"):
        if name in there:
            continue
        try:
            to.command(name)(registry.load("commands", name))
        except RagindexError as error:
            note(f"The command {name} is left out: {error}")


def main() -> None:
    """The entry point of the command `ragindex`."""
    run(_start_app)


def _start_app() -> None:
    register(app)
    app()


if __name__ == "__main__":
    main()
