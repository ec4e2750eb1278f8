"""The command line. `compare`, `demo` and other packages' commands come through the entry points ragindex.commands."""

import importlib.util
import os
import platform
from importlib.metadata import metadata, version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ragindex import filters, registry
from ragindex.console import (
    EncoderOption,
    FormatOption,
    JsonOption,
    LanguageOption,
    SeedOption,
    SkipBadOption,
    StoreOption,
    WorkspaceOption,
    emit,
    filters_of,
    note,
    out,
    run,
    table,
)
from ragindex.corpus import Corpus, read
from ragindex.errors import MissingExtraError
from ragindex.specs import parse_many
from ragindex.types import Query, Retrieval
from ragindex.workspace import Workspace

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
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A method to describe.")] = None,
    json: JsonOption = None,
) -> None:
    """List the methods, or describe one with its parameters.

    Example: ragindex methods hybrid
    """
    if name is None:
        rows = [_listed(method) for method in registry.names("schemes")]
        value = [dict(zip(("name", "distribution", "object"), row, strict=True)) for row in rows]
        emit(value, json, lambda: out().print(table(("method", "from", "object"), rows)))
        return
    plugin = registry.load("schemes", name)
    schema = plugin.model_json_schema()
    fields = plugin.model_fields.items()
    defaults = {key: plugin.model_construct().__dict__.get(key) for key, _ in fields}
    rows = [(key, _type(field.annotation), _written(defaults[key])) for key, field in fields]

    def show() -> None:
        out().print(f"[bold]{escape(name)}[/]: {escape((plugin.__doc__ or '').strip())}\n")
        out().print(table(("parameter", "type", "default"), rows))

    parameters = [dict(zip(("name", "type", "default"), row, strict=True)) for row in rows]
    emit({"name": name, "doc": schema.get("description", ""), "parameters": parameters}, json, show)


@app.command()
def index(
    workspace: WorkspaceOption,
    data: Annotated[Path | None, typer.Argument(metavar="[DATA]", help="Documents: a folder or a file.")] = None,
    methods: Annotated[str, typer.Option(metavar="a,b", help="The methods to build.")] = "hybrid",
    format: FormatOption = None,
    skip_bad: SkipBadOption = False,
    language: LanguageOption = None,
    encoder: EncoderOption = None,
    store: StoreOption = None,
    seed: SeedOption = 0,
    json: JsonOption = None,
) -> None:
    """Make the workspace hold exactly the documents of DATA and build methods over them.

    Without DATA, build over the documents that are there. A run that was stopped goes on where it was.

    Example: ragindex index my-documents/ --workspace my-index --methods bm25,hybrid
    """
    schemes = [registry.scheme(spec) for spec in parse_many(methods)]
    corpus = None if data is None else _read(data, format, skip_bad)
    cutting: Any = "default" if corpus is None or not corpus.whole else None
    with Workspace.open(
        workspace, encoder=encoder, store=store, language=language, cutting=cutting, seed=seed
    ) as opened:
        if corpus is not None and data is not None:
            opened.replace(corpus.documents, source=str(data.resolve()))
        opened.sync(schemes)
        parts = {registry.label(part): part for scheme in schemes for part in opened.all_parts(scheme)}  # type: ignore[arg-type]
        figures = {name: opened.figures(part) for name, part in parts.items()}
        counts = opened.counts()
    value = {
        "workspace": str(workspace),
        "documents": counts.documents,
        "passages": counts.passages,
        "parts": {name: {"seconds": f.seconds, "bytes": f.bytes, "search": f.search} for name, f in figures.items()},
    }
    rows = [(name, f"{f.seconds:.1f}", f"{f.bytes / 1e6:.1f}", f.search) for name, f in figures.items()]

    def show() -> None:
        out().print(f"{counts.documents} documents, {counts.passages} passages in {escape(str(workspace))}")
        out().print(table(("part", "seconds", "MB", "search"), rows))

    emit(value, json, show)


@app.command()
def search(
    question: Annotated[str, typer.Argument(help="What to look for.")],
    workspace: WorkspaceOption,
    method: Annotated[str, typer.Option(metavar="NAME", help="The method to ask.")] = "hybrid",
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="How many hits.")] = 5,
    filter: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only documents with it.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show each step of the retrieval.")] = False,
    encoder: EncoderOption = None,
    store: StoreOption = None,
    seed: SeedOption = 0,
    json: JsonOption = None,
) -> None:
    """Ask one method one question.

    Example: ragindex search "Who wrote the report?" --workspace my-index --method hybrid -k 3
    """
    wanted = tuple(filters.meta(key, value) for key, value in filters_of(filter or []).items())
    with Workspace.open(workspace, encoder=encoder, store=store, seed=seed) as opened:
        retriever = registry.scheme(method).open(opened)
        query = Query("question", question, filters.All(wanted) if wanted else None)
        found = retriever.retrieve([query], k)[0]
    emit(_found(question, found), json, lambda: _show(found, explain))


@app.command()
def add(
    data: Annotated[Path, typer.Argument(help="Documents: a folder or a file.")],
    workspace: WorkspaceOption,
    format: FormatOption = None,
    skip_bad: SkipBadOption = False,
    encoder: EncoderOption = None,
    store: StoreOption = None,
    json: JsonOption = None,
) -> None:
    """Add documents to a workspace, replacing those with the same id, and bring what was built up to them.

    Example: ragindex add new-documents/ --workspace my-index
    """
    corpus = _read(data, format, skip_bad)
    with Workspace.open(workspace, encoder=encoder, store=store) as opened:
        changed = opened.add(corpus.documents)
        opened.sync()
    sentence = f"{changed.added} added, {changed.changed} changed, {changed.unchanged} as they were"
    value = {"added": changed.added, "changed": changed.changed, "unchanged": changed.unchanged}
    emit(value, json, lambda: out().print(sentence))


@app.command()
def remove(
    ids: Annotated[list[str], typer.Argument(help="Document ids.")],
    workspace: WorkspaceOption,
    encoder: EncoderOption = None,
    store: StoreOption = None,
    json: JsonOption = None,
) -> None:
    """Remove documents from a workspace and from everything that was built over them.

    Example: ragindex remove notes/old.md --workspace my-index
    """
    with Workspace.open(workspace, encoder=encoder, store=store) as opened:
        changed = opened.remove(ids)
        opened.sync()
    emit({"removed": changed.removed}, json, lambda: out().print(f"{changed.removed} removed"))


@app.command()
def doctor(json: JsonOption = None) -> None:
    """Say what is installed, what is missing, and what to run.

    Example: ragindex doctor
    """
    rows = [("python", "ok", platform.python_version()), ("ragindex", "ok", version("ragindex"))]
    rows += [_extra(name) for name in sorted(metadata("ragindex").get_all("Provides-Extra") or []) if name != "dev"]
    rows += [_loads(group, name) for group in ("schemes", "encoders", "stores") for name in registry.names(group)]
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "EMBEDDING_API_KEY", "EMBEDDING_BASE_URL"):
        rows.append((variable, "set" if os.environ.get(variable) else "not set", ""))
    rows.append(
        ("MLFLOW_TRACKING_URI", "set" if os.environ.get("MLFLOW_TRACKING_URI") else "not set", "default: ./mlflow.db")
    )
    value = [dict(zip(("what", "state", "detail"), row, strict=True)) for row in rows]
    emit(value, json, lambda: out().print(table(("what", "state", "detail"), rows)))


_EXTRAS = {"neural": "sentence_transformers", "elasticsearch": "elasticsearch", "pdf": "pypdf", "umap": "umap"}


def _extra(name: str) -> tuple[str, str, str]:
    there = importlib.util.find_spec(_EXTRAS.get(name, name)) is not None
    return (f"extra {name}", "ok" if there else "missing", "" if there else f"pip install 'ragindex[{name}]'")


def _loads(group: registry.Group, name: str) -> tuple[str, str, str]:
    try:
        registry.load(group, name)
    except MissingExtraError as error:
        return (f"{group.removesuffix('s')} {name}", "missing", str(error))
    return (f"{group.removesuffix('s')} {name}", "ok", registry.entry(group, name).value)


def _listed(name: str) -> tuple[str, str, str]:
    point = registry.entry("schemes", name)
    return name, point.dist.name if point.dist else "", point.value


def _type(annotation: Any) -> str:
    return getattr(annotation, "__name__", str(annotation)).replace("typing.", "")


def _written(value: Any) -> str:
    return registry.label(value) if hasattr(value, "model_fields") else repr(value)


def _read(data: Path, format: str | None, skip_bad: bool) -> Corpus:
    corpus = read(data, format=format, skip_bad=skip_bad)
    for sentence in corpus.skipped:
        note(f"skipped: {sentence}")
    for suffix, count in sorted(corpus.ignored.items()):
        note(f"not read: {count} files {suffix}")
    if corpus.repeats:
        note(f"{corpus.repeats} repeated documents are kept once")
    return corpus


def _found(question: str, found: Retrieval) -> dict[str, Any]:
    hits = [
        {
            "id": hit.id,
            "kind": hit.kind,
            "score": hit.score,
            "title": hit.title,
            "text": hit.text,
            "doc_ids": list(hit.doc_ids),
            "passage_ids": list(hit.passage_ids),
            "metadata": {id: dict(value) for id, value in hit.metadata.items()},
            "source": hit.source,
        }
        for hit in found.hits
    ]
    steps = [
        {"iteration": s.iteration, "index": s.index, "query": s.query, "ids": list(s.ids), "ms": s.ms}
        for s in found.trace
    ]
    return {"question": question, "hits": hits, "trace": steps, "notes": list(found.notes)}


def _show(found: Retrieval, explain: bool) -> None:
    if not found.hits:
        out().print("Nothing was found.")
    for rank, hit in enumerate(found.hits, start=1):
        out().print(
            f"[bold]{rank}. {escape(hit.title or hit.id)}[/]  {hit.score:.4f}  [dim]{escape(', '.join(hit.doc_ids))}[/]"
        )
        out().print(escape(hit.text[:400]) + ("…" if len(hit.text) > 400 else ""))
    if explain:
        for step in found.trace:
            ids = ", ".join(step.ids[:5]) + (f", … ({len(step.ids)})" if len(step.ids) > 5 else "")
            out().print(
                f"[dim]step {step.iteration}, {step.index}, {step.ms:.1f} ms: {escape(step.query)} → {escape(ids)}[/]"
            )


def register(to: typer.Typer) -> None:
    """Add the commands of installed packages, ours among them."""
    for name in registry.names("commands"):
        to.command(name)(registry.load("commands", name))


def main() -> None:
    """The entry point of the command `ragindex`."""
    register(app)
    run(app)


if __name__ == "__main__":
    main()
