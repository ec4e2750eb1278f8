"""The commands `studies` and `study`: published tables, and their runs as printed."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ragindex._util.text import many
from ragindex.cli.approval import estimate_costs, estimates_to_json, render_estimates
from ragindex.cli.console import escape_markup, print_estimate, print_note, stdout, text_table, write_result
from ragindex.cli.option_groups import group_of, with_groups
from ragindex.cli.options import Approval, ConsentFlags, JsonOption
from ragindex.errors import DataError, UsageError
from ragindex.estimate import Estimate
from ragindex_eval.cli.compare import run_comparison
from ragindex_eval.cli.settings_options import settings_group
from ragindex_eval.report.sections.published import tabulate_published
from ragindex_eval.run.settings import CompareSettings
from ragindex_eval.run.study import estimate_study
from ragindex_eval.run.thresholds import require_answers
from ragindex_eval.studies.catalogue import PrintedStudy, list_studies, load_study
from ragindex_eval.studies.needs import Need, list_missing, list_needs
from ragindex_eval.studies.rehearsal import QUESTIONS, WORLD, Rehearsal, rehearse


def studies_command(json: JsonOption = None) -> None:
    """List the studies: published tables that can be run as they are printed.

    Example: ragindex studies
    """
    studies = [load_study(name) for name in list_studies()]
    value = [
        {"name": study.name, "source": study.table.source, "data": list(study.data), **_describe_models(study)}
        for study in studies
    ]
    rows = [(study.name, study.table.source, ", ".join(study.data)) for study in studies]

    def show() -> None:
        stdout().print(text_table(("study", "table", "data"), rows))
        stdout().print("\nWhat a run needs, and its rows: ragindex study NAME --dry-run")

    write_result(value, json, show)


def _describe_models(study: PrintedStudy) -> dict[str, Any]:
    setup = study.setup
    return {"encoder": setup.encoder, "llm": setup.llm, "reader_llm": setup.reader_llm}


@with_groups
def study_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A study, as ragindex studies lists them.")],
    settings: Annotated[
        CompareSettings,
        settings_group(
            *("encoder", "llm", "reader_llm", "out", "limit", "index", "budget", "reuse_answers", "triples"),
            *("chunking", "store", "seed", "workers"),
        ),
    ],
    consent: Annotated[ConsentFlags, group_of(ConsentFlags)],
    folder: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="The folder of the published files. Default: this one.")
    ] = Path(),
    on: Annotated[
        list[str] | None, typer.Option("--on", metavar="DATA", help="Only this data set of the table. Repeatable.")
    ] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option(metavar="LABEL", help="Do not run this row. Repeatable.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Run a published table as it is printed: with its encoder, models, reader and data.

    The command first says what is missing, and what the run costs. With --dry-run it ends there, and adds the rows of
    the table beside those of a rehearsal by rules over a small made-up corpus.

    Example: ragindex study griever-table-1 --dry-run
    """
    study = load_study(name)
    names = study.require_data(tuple(on or ()))
    runs = {data: study.settings_on(data, folder, settings, leave_out or ()) for data in names}
    needs = {data: list_needs(run, study.source_of(data), folder) for data, run in runs.items()}
    if consent.dry_run:
        _rehearse(study, runs, needs, json)
        return
    missing = list_missing(needs)
    if missing:
        raise UsageError(f"{name} cannot run yet. Missing for {'; '.join(missing)}. To see all: --dry-run")
    if json is not None and len(runs) > 1:
        raise UsageError(f"--json takes one data set. Name it: --on {names[0]}")
    for run in runs.values():
        finished = run_comparison(
            run.model_copy(update={"json_file": json}), approval=Approval(consent.yes, run.budget, json=json)
        )
        require_answers(finished)


def _rehearse(
    study: PrintedStudy, runs: Mapping[str, CompareSettings], needs: Mapping[str, Sequence[Need]], json: str | None
) -> None:
    """Print what each run needs and costs, and the rows of a rehearsal."""
    estimates = {data: _estimate(run, needs[data]) for data, run in runs.items()}
    rehearsal = rehearse(study, tuple(runs))
    value = {
        "study": study.name,
        "source": study.table.source,
        "data": [
            {
                "name": data,
                **{name: getattr(run, name) for name in ("encoder", "llm", "reader_llm", "limit", "kinds", "seeds")},
                "needs": [
                    {"kind": need.kind, "what": need.what, "state": need.state, "advice": need.advice}
                    for need in needs[data]
                ],
                "estimate": None if (each := estimates[data]) is None else estimates_to_json(each),
                "rows": [
                    {"method": row.method, "metric": row.metric, "published": row.published, "here": row.here}
                    for row in rehearsal.published[data].figures
                ],
            }
            for data, run in runs.items()
        ],
        "rehearsed_on": WORLD,
        "not_rehearsed": list(rehearsal.left_out),
    }
    write_result(value, json, partial(_show, study, needs, estimates, rehearsal))


def _estimate(settings: CompareSettings, needs: Sequence[Need]) -> list[Estimate] | None:
    """Return what a run costs; None if its files are missing or cannot be read."""
    if any(need.kind == "files" and not need.there for need in needs):
        return None
    try:
        return estimate_costs(partial(estimate_study, settings))
    except DataError as error:
        print_note(f"What this costs is not known: {error}")
        return None


def _show(
    study: PrintedStudy,
    needs: Mapping[str, Sequence[Need]],
    estimates: Mapping[str, Sequence[Estimate] | None],
    rehearsal: Rehearsal,
) -> None:
    console = stdout()
    console.print(f"[bold]{escape_markup(study.table.source)}[/]")
    for data, of_data in needs.items():
        console.print(f"\n[bold]{escape_markup(data)}[/]: what its run needs")
        rows = [(need.kind, need.state, f"{need.what}{f': {need.advice}' if need.advice else ''}") for need in of_data]
        console.print(text_table(("what", "state", "detail"), rows))
        estimate = estimates[data]
        if estimate is None:
            console.print("What it costs is known once the files are there.")
        else:
            print_estimate(render_estimates(estimate), stderr=False)
    console.print(
        f"\n[bold]Rehearsed by rules[/] over {WORLD}, {many(QUESTIONS, 'question')}: these figures mean nothing"
    )
    for data, published in rehearsal.published.items():
        table = tabulate_published(published)
        figures = [(row.method, row.metric, row.published, row.here) for row in table.rows]
        console.print(text_table((escape_markup(data), "metric", "published", "rehearsed"), figures))
    if rehearsal.left_out:
        console.print(f"Not rehearsed, as they load weights: {escape_markup(', '.join(rehearsal.left_out))}.")
