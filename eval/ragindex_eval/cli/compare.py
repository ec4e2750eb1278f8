"""The commands `compare`, `report` and `demo`."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ragindex.cli.console import escape_markup, json_destination, require_index, require_writable, write_result
from ragindex.cli.console import stdout as standard_output
from ragindex.cli.options import FormatOption, JsonOption, LanguageOption
from ragindex.errors import StoreError
from ragindex.redaction import bare
from ragindex_eval.cli.terminal import shown
from ragindex_eval.files import read as results
from ragindex_eval.files import write
from ragindex_eval.mlflow_tracking import trace_to_tracker, track, tracking_uri
from ragindex_eval.results.model import Study
from ragindex_eval.run import compare as evaluator
from ragindex_eval.run import settings as config
from ragindex_eval.run import study as studies
from ragindex_eval.run.grid import require_answers, require_reached, threshold
from ragindex_eval.run.settings import Settings

_DEMO, _DEMO_QUESTIONS = "world:1k", 200
_DEMO_METHODS = "bm25,dense,hybrid,composed,ircot,hipporag"


def compare(
    data: Annotated[str | None, typer.Argument(metavar="DATA", help="A folder, a file, or world:1k.")] = None,
    questions: Annotated[Path | None, typer.Option(metavar="FILE", help="A .csv with gold, or a .txt.")] = None,
    format: FormatOption = None,
    skip_bad: Annotated[bool | None, typer.Option("--skip-bad", help="Count and skip what cannot be read.")] = None,
    language: LanguageOption = None,
    methods: Annotated[
        str | None, typer.Option(metavar="a,b", help="As bm25,hybrid(depth=50). Default: all that can be made.")
    ] = None,
    with_rerank: Annotated[
        bool | None, typer.Option("--with-rerank", help="Compare each method with its twin, the same reranked.")
    ] = None,
    reranker: Annotated[
        str | None, typer.Option(metavar="R", help="cross-encoder:MODEL, endpoint:MODEL; implies --with-rerank.")
    ] = None,
    config_file: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="YAML with these settings; flags win.")
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(metavar="E", help="lsa (default), sentence-transformers:NAME_OR_PATH or openai:NAME."),
    ] = None,
    llm: Annotated[str | None, typer.Option(metavar="L", help="openai:MODEL, or offline (rules, the default).")] = None,
    budget: Annotated[float | None, typer.Option(metavar="DOLLARS", help="Stop before the calls cost more.")] = None,
    no_cache: Annotated[
        bool | None, typer.Option("--no-cache", help="Neither use nor keep answers of language models.")
    ] = None,
    triples: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Published extractions (HippoRAG's OpenIE), in place of asking.")
    ] = None,
    read: Annotated[
        bool | None, typer.Option("--read", help="Answer each question from what was found; measure EM and F1.")
    ] = None,
    reader_tokens: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Tokens of what was found that are read. Default: 2000.")
    ] = None,
    store: Annotated[str | None, typer.Option(metavar="S", help="Default: lancedb.")] = None,
    k: Annotated[str | None, typer.Option("--k", metavar="5,10,20", help="The cutoffs. Default: 5,10,20.")] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Ask N questions, drawn by the seed.")] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="S", help="The seed of everything random. Default: 0, or the index's.")
    ] = None,
    grid: Annotated[
        list[str] | None, typer.Option(metavar="LABEL:P=V,V", help="Variants, as 'hybrid:rrf_k=10,60'. Repeatable.")
    ] = None,
    fail_below: Annotated[
        list[str] | None, typer.Option(metavar="LABEL:M=V", help="Exit with 8 below it, as 'dense:R@5=0.60'.")
    ] = None,
    strict: Annotated[bool | None, typer.Option("--strict", help="Stop at a question on which a method fails.")] = None,
    fresh: Annotated[
        bool | None, typer.Option("--fresh", help="Ask and time every question again, though an earlier run did.")
    ] = None,
    trace: Annotated[
        bool | None, typer.Option("--trace", help="Record each retrieval that is made now as an MLflow span.")
    ] = None,
    index: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The index's folder. Default: ragindex-workspaces/NAME; kept for the next run."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Rankings and figures. Default: ragindex-results/NAME.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Build methods over DATA, ask its questions, and say what each found, how fast, at what cost, and what is noise.

    A comparison that was stopped goes on where it was. It is recorded in MLflow (MLFLOW_TRACKING_URI, or mlflow.db).
    Questions in a .txt have no gold: then the report shows side by side what each method found.

    Example: ragindex compare my-documents/ --questions questions.csv --methods 'bm25,dense,hybrid(depth=50)'
    """
    flags = Settings(
        data=data,
        questions=questions,
        format=format,
        skip_bad=skip_bad,
        language=language,
        methods=methods,
        with_rerank=with_rerank,
        reranker=reranker,
        encoder=encoder,
        llm=llm,
        budget=budget,
        no_cache=no_cache,
        triples=triples,
        read=read,
        reader_tokens=reader_tokens,
        store=store,
        k=k,
        limit=limit,
        seed=seed,
        grid=grid or None,
        fail_below=fail_below or None,
        strict=strict,
        fresh=fresh,
        trace=trace,
        workspace=index,
        out=out,
        json_file=json,
    )
    settings = flags if config_file is None else flags.over(config.read(config_file))
    study = _shown(settings, _command(sys.argv[1:]))
    _record(study, settings)
    require_answers(study)
    ks = study.comparisons[0].ks
    require_reached(study, [threshold(written, ks) for written in settings.fail_below or []])


def demo(
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where the demo keeps its files.")] = Path(
        "ragindex-demo"
    ),
    every: Annotated[bool, typer.Option("--all", help="Every method that is installed, in about two minutes.")] = False,
    json: JsonOption = None,
) -> None:
    """Compare the quick methods on a made-up encyclopaedia of 1,000 passages, and write a report.

    Needs no key, no model and no network. Run it again and it takes seconds.

    Example: ragindex demo
    """
    settings = Settings(
        data=_DEMO,
        methods=None if every else _DEMO_METHODS,
        limit=_DEMO_QUESTIONS,
        workspace=folder / "workspace",
        out=folder / "results",
        json_file=json,
    )
    study = _shown(settings, _command(sys.argv[1:]))
    _record(study, settings)
    _say(settings, "\n[bold]Next, on your own documents:[/]")
    _say(settings, "  ragindex questions my-documents/ --out questions.csv    # drafts some, for you to edit")
    _say(settings, "  ragindex compare my-documents/ --questions questions.csv")
    require_answers(study)


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The results of a comparison: what --out named.")],
) -> None:
    """Make the report of a comparison again, from its files.

    Example: ragindex report ragindex-results/my-documents
    """
    study = results.read(folder)
    try:
        write.write_report(study, folder)
    except OSError as error:
        raise StoreError(f"The report could not be written to {folder}: {error.strerror or error}.") from error
    standard_output().print(escape_markup(str(folder / "report.html")), soft_wrap=True)


def _shown(settings: Settings, command: str) -> Study:
    """Compare, write the files, and show the result."""
    _check(settings)
    if settings.trace:
        trace_to_tracker()
    study = studies.run(settings, command)
    folder = settings.out or Path("ragindex-results", evaluator.folder_name(study.name))
    write.write(study, folder)
    write_result(write.as_json(study), settings.json_file, lambda: standard_output().print(shown(study)))
    _say(settings, f"\n  the report      {escape_markup(str(folder / 'report.html'))}")
    _say(settings, f"  the results     {escape_markup(str(folder))}")
    for name in dict.fromkeys(comparison.dataset.name for comparison in study.comparisons):
        _say(
            settings, f"  the index       {escape_markup(str(settings.workspace or evaluator.default_workspace(name)))}"
        )
    return study


def _command(arguments: Sequence[str]) -> str:
    """The command as it can be written again; of absolute paths only the last part, for others may read it."""
    told = [Path(argument).name if os.path.isabs(argument) else argument for argument in arguments]
    return shlex.join(["ragindex", *told])


def _check(settings: Settings) -> None:
    """What would end the comparison after all its work is said before it."""
    json_destination(settings.json_file)
    require_writable(settings.out or Path("ragindex-results"))
    if settings.each_corpus() == [None] and settings.workspace is not None:
        require_index(settings.workspace)


def _record(study: Study, settings: Settings) -> None:
    """Record the study in MLflow, and say how to look at it."""
    if track(study) is not None:
        uri = tracking_uri()
        shown = bare(uri)
        store = shown if shown == uri else '"$MLFLOW_TRACKING_URI"'
        look = "" if uri.startswith("http") else f"; to look at them: mlflow ui --backend-store-uri {store}"
        _say(settings, f"  the runs        {escape_markup(shown + look)}")


def _say(settings: Settings, text: str) -> None:
    """Print for a person, unless JSON alone is wanted."""
    if settings.json_file != "-":
        standard_output().print(text, soft_wrap=True)
