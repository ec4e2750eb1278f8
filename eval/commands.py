"""The commands `compare` and `demo`."""

from pathlib import Path
from typing import Annotated

import typer

from eval import config, evaluator, outputs
from eval.comparison import Comparison
from eval.config import Settings
from eval.report import table
from eval.tracking import track, tracking_uri
from ragindex.console import (
    FormatOption,
    JsonOption,
    LanguageOption,
    emit,
    existing,
    json_destination,
    plain,
    seed_of,
    writable,
)
from ragindex.console import out as standard_output

_DEMO = Path(__file__).parent / "demo"


def compare(
    data: Annotated[str | None, typer.Argument(metavar="DATA", help="Documents: a folder or a file.")] = None,
    questions: Annotated[Path | None, typer.Option(metavar="FILE", help="A .csv with gold, or a .txt.")] = None,
    format: FormatOption = None,
    skip_bad: Annotated[bool | None, typer.Option("--skip-bad", help="Count and skip what cannot be read.")] = None,
    language: LanguageOption = None,
    methods: Annotated[
        str | None, typer.Option(metavar="a,b", help="As bm25,hybrid(depth=50). Default: all that can be made.")
    ] = None,
    config_file: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="YAML with these settings; flags win.")
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(metavar="E", help="lsa (default), sentence-transformers:NAME_OR_PATH or openai:NAME."),
    ] = None,
    store: Annotated[str | None, typer.Option(metavar="S", help="Default: lancedb.")] = None,
    k: Annotated[str | None, typer.Option("--k", metavar="5,10,20", help="The cutoffs. Default: 5,10,20.")] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Ask N questions, drawn by the seed.")] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="S", help="The seed of everything random. Default: 0, or the workspace's.")
    ] = None,
    workspace: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Default: ragindex-workspaces/NAME; kept, to go on from.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Rankings and figures. Default: ragindex-results/NAME.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Build methods over DATA, ask its questions, and print what each found, how fast, and at what cost.

    A comparison that was stopped goes on where it was. It is recorded in MLflow (MLFLOW_TRACKING_URI, or mlflow.db).

    Example: ragindex compare my-documents/ --questions questions.csv --methods 'bm25,dense,hybrid(depth=50)'
    """
    flags = Settings(
        data=data,
        questions=questions,
        format=format,
        skip_bad=skip_bad,
        language=language,
        methods=methods,
        encoder=encoder,
        store=store,
        k=k,
        limit=limit,
        seed=seed,
        workspace=workspace,
        out=out,
        json_file=json,
    )
    settings = flags if config_file is None else flags.over(config.read(config_file))
    _record(_shown(settings), settings)


def demo(
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where the demo keeps its files.")] = Path(
        "ragindex-demo"
    ),
    json: JsonOption = None,
) -> None:
    """Compare every method that is installed on a small corpus that comes with ragindex.

    Needs no key, no model and no network. Run it again and it takes seconds.

    Example: ragindex demo
    """
    settings = Settings(
        data=str(_DEMO / "corpus.jsonl"),
        questions=_DEMO / "questions.csv",
        workspace=folder / "workspace",
        out=folder / "results",
        json_file=json,
    )
    _record(_shown(settings), settings)
    lines = (
        f"  the questions   {plain(str(settings.questions))}",
        "\n[bold]Next, on your own documents:[/]",
        "  ragindex compare my-documents/ --questions questions.csv",
    )
    _say(settings, "\n".join(lines))


def _shown(settings: Settings) -> Comparison:
    """Compare, write the files, and show the result."""
    _check(settings)
    comparison = evaluator.compare(
        settings.data,
        settings.written_methods(),
        questions=settings.questions,
        format=settings.format,
        skip_bad=bool(settings.skip_bad),
        language=settings.language,
        encoder=settings.encoder or "lsa",
        store=settings.store or "lancedb",
        ks=settings.cutoffs() or (5, 10, 20),
        limit=settings.limit,
        seed=_seed(settings),
        workspace=settings.workspace,
        tracking=False,
    )
    name = comparison.dataset.name
    results = settings.out or Path("ragindex-results", evaluator.folder_name(name))
    outputs.write(comparison, results)
    emit(comparison.to_json(), settings.json_file, lambda: standard_output().print(table(comparison)))
    _say(settings, f"\n  the results     {plain(str(results))}")
    _say(settings, f"  the index       {plain(str(settings.workspace or evaluator.default_workspace(name)))}")
    return comparison


def _check(settings: Settings) -> None:
    """What would end the comparison after all its work is said before it."""
    json_destination(settings.json_file)
    writable(settings.out or Path("ragindex-results"))
    if settings.data is None and settings.workspace is not None:
        existing(settings.workspace)


def _seed(settings: Settings) -> int:
    """Where a workspace's own documents are searched, its seed counts, as for `search`."""
    if settings.data is None and settings.workspace is not None:
        return seed_of(settings.workspace, settings.seed)
    return settings.seed or 0


def _record(comparison: Comparison, settings: Settings) -> None:
    """Record the comparison in MLflow, and say how to look at it."""
    if track(comparison) is not None:
        uri = tracking_uri()
        look = "" if uri.startswith("http") else f"; to look at them: mlflow ui --backend-store-uri {uri}"
        _say(settings, f"  the runs        {plain(uri + look)}")


def _say(settings: Settings, text: str) -> None:
    """Print for a person, unless JSON alone is wanted."""
    if settings.json_file != "-":
        standard_output().print(text, soft_wrap=True)
