"""The commands `compare` and `demo`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from eval import config, evaluator, outputs
from eval.comparison import Comparison
from eval.config import Settings
from eval.report import table
from eval.tracking import track, tracking_uri
from ragindex.console import FormatOption, JsonOption, LanguageOption, emit
from ragindex.console import out as standard_output

_DEMO = Path(__file__).parent / "demo"
_WIDTH = 160  # columns, where the output is no terminal


def compare(
    data: Annotated[str | None, typer.Argument(metavar="[DATA]", help="Documents: a folder or a file.")] = None,
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
    seed: Annotated[int | None, typer.Option(metavar="S", help="The seed of everything random. Default: 0.")] = None,
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
    done = _done(settings)
    emit(done.comparison.to_json(), settings.json_file, lambda: _show(done))


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
    done = _done(settings)

    def show() -> None:
        _show(done)
        lines = (
            f"  the questions   {escape(str(settings.questions))}",
            "\n[bold]Next, on your own documents:[/]",
            "  ragindex compare my-documents/ --questions questions.csv",
        )
        standard_output().print("\n".join(lines), soft_wrap=True)

    emit(done.comparison.to_json(), json, show)


@dataclass(frozen=True, slots=True)
class _Done:
    """A comparison, where its files are, and whether MLflow has it."""

    comparison: Comparison
    workspace: Path
    results: Path
    tracked: bool


def _done(settings: Settings) -> _Done:
    """Compare, write the files, and record it."""
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
        seed=settings.seed or 0,
        workspace=settings.workspace,
        tracking=False,
    )
    name = comparison.dataset.name
    results = settings.out or Path("ragindex-results", evaluator.folder_name(name))
    outputs.write(comparison, results)
    workspace = settings.workspace or evaluator.default_workspace(name)
    return _Done(comparison, workspace, results, track(comparison) is not None)


def _show(done: _Done) -> None:
    console = standard_output()
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH)
    console.print(table(done.comparison))
    console.print(f"\n  the results     {escape(str(done.results))}", soft_wrap=True)
    console.print(f"  the index       {escape(str(done.workspace))}", soft_wrap=True)
    if done.tracked:
        console.print(f"  the runs        {escape(_runs())}", soft_wrap=True)


def _runs() -> str:
    """Where MLflow has the runs, and how to look at them."""
    uri = tracking_uri()
    return uri if uri.startswith("http") else f"{uri}; to look at them: mlflow ui --backend-store-uri {uri}"
