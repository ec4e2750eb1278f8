"""The command `recommend`: the cheapest method that is good enough, with as few questions and builds as possible."""

import shlex
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ragindex._util.workers import use_workers
from ragindex.cli.approval import approve
from ragindex.cli.console import (
    command_spending,
    escape_markup,
    explain_interrupt,
    json_destination,
    print_note,
    quote_argument,
    write_result,
)
from ragindex.cli.console import stdout as standard_output
from ragindex.cli.option_groups import group_of, with_groups
from ragindex.cli.options import ConsentFlags, JsonOption
from ragindex.errors import BudgetError, UsageError
from ragindex.export.export_retriever import Export, export_retriever
from ragindex.index.index import Index
from ragindex.index.manifest import read_manifest, write_command
from ragindex_eval.choose.candidates import DEFAULT, choose_candidates
from ragindex_eval.choose.recommend import recommend
from ragindex_eval.choose.recommendation import LARGER_BUDGET, Progress, Recommendation, RecommendRules, make_rules
from ragindex_eval.choose.show import describe_standing, render_recommendation
from ragindex_eval.cli.settings_options import (
    OPENING,
    READING,
    DataArgument,
    list_reading_options,
    options_group,
    settings_group,
)
from ragindex_eval.format import join_names
from ragindex_eval.metrics.retrieval import list_judged
from ragindex_eval.mlflow.decisions import track_recommendation
from ragindex_eval.mlflow.tracking import describe_tracker
from ragindex_eval.run.ask import describe_own_documents
from ragindex_eval.run.estimate_comparison import estimate_comparison, require_keys_before_reading
from ragindex_eval.run.experiment import load_dataset
from ragindex_eval.run.notes import list_file_notes
from ragindex_eval.run.settings import CompareSettings
from ragindex_eval.run.thresholds import require_all_read


def _refuse_rankings(value: Any) -> Any:
    """Raise UsageError with the command that compares rankings in files: none of them is built, priced or asked."""
    if value:
        raise UsageError(
            "recommend saves building methods and asking questions, which rankings in files do not need. "
            "Which of them is best: ragindex compare --run FILE --run FILE --qrels FILE"
        )
    return value


@with_groups
def recommend_command(
    settings: Annotated[
        CompareSettings,
        settings_group(
            *("questions", "holdout", "reuse_holdout", "grid", "strict", "k", "limit", "workers", *READING, *OPENING),
            data=DataArgument,
            methods=Annotated[
                str | None,
                typer.Option(
                    metavar="a,b", help=f"The candidates. Default: {len(DEFAULT)} that need no language model."
                ),
            ],
        ),
    ],
    rules: Annotated[RecommendRules, options_group(RecommendRules, "Aim and constraints", make_rules)],
    consent: Annotated[ConsentFlags, group_of(ConsentFlags)],
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="YAML with candidates and settings; flags win.")
    ] = None,
    rankings: Annotated[
        list[str] | None, typer.Option("--run", hidden=True, is_eager=True, callback=_refuse_rankings)
    ] = None,
    qrels: Annotated[str | None, typer.Option(hidden=True, is_eager=True, callback=_refuse_rankings)] = None,
    export: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Export the chosen method, pinned to what was measured.")
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Find the cheapest method that is good enough, asking as few questions as possible.

    Candidates are priced on a sample first. Then all are asked block by block, and one that is shown to be more than
    --delta worse than another is dropped; the race ends when the cheapest remaining one is shown to be within --delta
    of the best. All these statements together are wrong with a risk of --alpha, whenever the race ends. The same
    command goes on where it stopped.

    Example: ragindex recommend my-documents/ --questions questions.csv --max-p95-ms 100 --max-index-minutes 30
    """
    json_destination(json_file)
    settings = settings.over_file(config)
    schemes = {candidate.label: candidate.scheme for candidate in choose_candidates(settings)}
    require_keys_before_reading(settings, schemes, thorough=consent.dry_run)
    dataset = load_dataset(settings, settings.seed, settings.index)
    for note in (*describe_own_documents(dataset.gold), *list_file_notes(dataset)):
        print_note(note)
    folder = settings.index_folder(dataset.name)
    settings = settings.on_index(folder)
    judged, thorough = replace(dataset, queries=tuple(list_judged(dataset))), consent.dry_run
    estimating = partial(estimate_comparison, settings, settings, judged, schemes, thorough=thorough)
    approve(estimating, consent.answer(settings.budget, json_file))
    started = time.time()
    progress = Progress(print_note)

    def describe() -> str:
        command = shlex.join(["ragindex", *sys.argv[1:]])
        return describe_standing(list(progress.standing.values()), rules.metric, command)

    with use_workers(settings.workers), explain_interrupt(describe):
        recommendation = recommend(settings, rules, dataset, progress)
    exported = None if export is None else _export_chosen(recommendation, settings, folder, export)
    if exported is not None and exported.replaced:
        print_note(exported.describe_replaced())
    run = track_recommendation(recommendation, settings, started, time.time() - started, export)
    value = {
        **recommendation.to_json(),
        "paid": command_spending(),  # `spent` are questions
        "index": str(folder),
        "export": None if export is None else str(export),
    }

    def show() -> None:
        console = standard_output()
        console.print(render_recommendation(recommendation, rules))
        console.print()
        for name, command in _list_next_commands(recommendation, settings, folder, exported).items():
            console.print(f"  {name:15} {escape_markup(command)}", soft_wrap=True)
        if run is not None:
            console.print(f"  {'the run':15} {escape_markup(describe_tracker())}", soft_wrap=True)

    write_result(value, json_file, show)
    if recommendation.over_budget:
        names = join_names([candidate.label for candidate in recommendation.over_budget])
        raise BudgetError(f"The budget did not suffice for {names}, of which nothing is known. {LARGER_BUDGET}")
    require_all_read(len(dataset.skipped), settings.skip_bad)


def _list_next_commands(
    recommendation: Recommendation, settings: CompareSettings, folder: Path, exported: Export | None
) -> dict[str, str]:
    """Return the lines that put the chosen method to use, by what they are for."""
    follow_up = partial(write_command, folder, read_manifest(folder), settings.opened_with())
    lines = {"to use it": follow_up("search", "QUESTION", "--method", recommendation.chosen)}
    if exported is None:
        lines["to keep it"] = follow_up("export", "--method", recommendation.chosen, "--out", "retriever")
    else:
        path, consent = str(exported.path), exported.consent
        lines["exported"] = f"ragindex search QUESTION --retriever {quote_argument(path)}{consent.write_flags()}"
        lines["in Python"] = f'import ragindex; ragindex.load({path!r}{consent.write_arguments()}).search("…")'
    if recommendation.rival is not None:
        questions = [] if settings.questions is None else ["--questions", settings.questions]
        read = [
            *questions,
            *list_reading_options(settings),
            "--methods",
            f"{recommendation.chosen},{recommendation.rival}",
        ]
        lines["all figures"] = follow_up("compare", settings.data, *read)
    return lines


def _export_chosen(recommendation: Recommendation, settings: CompareSettings, index: Path, out: Path) -> Export:
    """Export the chosen method as the race has measured it, to a folder that refers to the index."""
    with Index.open(index, **settings.opened_with()) as opened:
        return export_retriever(opened, recommendation.candidate(recommendation.chosen).scheme, out)
