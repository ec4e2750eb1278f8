"""Comparisons over documents, which the command `compare` runs, and the commands `report` and `demo`."""

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ragindex.cli.approval import approve
from ragindex.cli.console import (
    escape_markup,
    json_destination,
    print_note,
    require_writable,
    write_result,
)
from ragindex.cli.console import stdout as standard_output
from ragindex.cli.options import Approval, JsonOption
from ragindex.errors import UsageError
from ragindex.index.manifest import require_manifest, write_command
from ragindex_eval.cli.settings_options import print_text, shorten_command
from ragindex_eval.conclusions.first_sentence import list_close_leaders
from ragindex_eval.conclusions.leaders import better, leaders, rank_methods
from ragindex_eval.export_compared import export_compared, find_compared
from ragindex_eval.mlflow.live import LiveRuns, record_live
from ragindex_eval.mlflow.retriever import log_retriever
from ragindex_eval.mlflow.tracking import describe_tracker, has_run, store_id, trace_to_tracker, track, tracking_uri
from ragindex_eval.report.page import save_report
from ragindex_eval.report.terminal import render_study
from ragindex_eval.results.earlier import keep_earlier
from ragindex_eval.results.files import REPORT_FILE, RESULTS, load_results, remove_records, save_results
from ragindex_eval.results.model import LATENCY, Comparison, Study
from ragindex_eval.results.seeds import study_to_json
from ragindex_eval.run import rerun
from ragindex_eval.run.answers_file import format_time
from ragindex_eval.run.build_costs import describe_rest, estimate_rest_building, list_rest
from ragindex_eval.run.settings import ALL, CompareSettings
from ragindex_eval.run.study import run_study
from ragindex_eval.run.thresholds import (
    require_answers,
)

_DEMO, _DEMO_QUESTIONS = "world:1k", 200
_DEMO_METHODS = "bm25,dense,hybrid,composed,links,ircot"


def demo(
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="The folder of the demo's files.")] = Path(
        "ragindex-demo"
    ),
    every: Annotated[bool, typer.Option("--all", help="Every method that is installed, in about two minutes.")] = False,
    json: JsonOption = None,
) -> None:
    """Compare the quick methods on a made-up encyclopaedia of 1,000 passages, and write a report.

    Needs no key, no model and no network. A second run takes seconds.

    Example: ragindex demo
    """
    settings = CompareSettings(
        data=_DEMO,
        methods=ALL if every else _DEMO_METHODS,
        limit=_DEMO_QUESTIONS,
        index=folder / "index",
        out=folder / "results",
        json_file=json,
    )
    study = run_comparison(settings)
    print_text(settings, "\n[bold]Next, on your own documents:[/]")
    print_text(
        settings, "  ragindex questions my-documents/ --out drafts.csv    # drafts some: edit them into questions.csv"
    )
    print_text(settings, "  ragindex compare my-documents/ --questions questions.csv")
    require_answers(study)


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The results of a comparison: what --out named.")],
) -> None:
    """Write the report of a comparison again, from its files.

    Example: ragindex report ragindex-results/my-documents
    """
    path = folder / "report.html"
    save_report(load_results(folder), path)
    standard_output().print(escape_markup(str(path)), soft_wrap=True)


def run_comparison(
    settings: CompareSettings, export_best: Path | None = None, approval: Approval | None = None
) -> Study:
    """Show the results of an equal study that is finished, or run it and write its files; record it in MLflow."""
    _check(settings)
    with record_live(settings) as live:
        return _run_recorded(settings, live, export_best, approval or Approval(json=settings.json_file))


def _run_recorded(settings: CompareSettings, live: LiveRuns, export_best: Path | None, approval: Approval) -> Study:
    earlier = None if settings.fresh else rerun.find_record(rerun.settings_digest(settings), settings.out)
    inputs = rerun.describe_inputs(settings, earlier[1].files if earlier else {})
    study = rerun.load_unchanged(settings, *earlier, inputs) if earlier else None
    record: rerun.FinishedStudy | None
    if earlier and study:
        folder, record = earlier
        if approval.dry_run:
            approve(list, approval)
        rerun.require_thresholds(settings, study)
    else:
        earlier = None
        study, folder, record = _compare(settings, inputs, live, approval)
    shown = rerun.spent_nothing(study) if earlier else study
    write_result(study_to_json(shown), settings.json_file, lambda: standard_output().print(render_study(shown)))
    print_text(settings, f"\n  the report      {escape_markup(str(folder / REPORT_FILE))}")
    print_text(settings, f"  the results     {escape_markup(str(folder))}")
    for name in dict.fromkeys(comparison.dataset.name for comparison in study.comparisons):
        index = settings.index_folder(name)
        use = write_command(index, None, {}, "use", "--method", "METHOD")
        print_text(settings, f"  the index       {escape_markup(str(index))}")
        print_text(settings, f"  in your code    {escape_markup(use)}")
    run = _record(study, settings, folder, record, live.parent)
    _print_export(study, settings, folder)
    if export_best is not None:
        _export_best(study, settings, export_best, run)
    if earlier:
        print_text(settings, f"  unchanged       since {format_time(earlier[1].finished)}; --fresh asks and times anew")
    if settings.methods is None and settings.json_file != "-":
        print_text(settings, f"\n{escape_markup(_describe_rest(study, settings))}")
    return study


def _describe_rest(study: Study, settings: CompareSettings) -> str:
    """Return what the methods that were not compared would take; a single comparison is estimated on its index."""
    names = [comparison.dataset.name for comparison in study.comparisons]
    opened = [settings.on_index(settings.index_folder(name)) for name in names]
    asks = {used.llm for used in opened} != {"offline"}
    single = len(names) == 1 and not asks and bool(list_rest())
    building = estimate_rest_building(opened[0], settings.index_folder(names[0])) if single else None
    return describe_rest(study.comparisons, asks=asks, building=building)


def _print_export(study: Study, settings: CompareSettings, folder: Path) -> None:
    """Print the lines that put the best method of a single comparison to use."""
    if len(study.comparisons) != 1 or not study.comparisons[0].methods:
        return
    comparison = study.comparisons[0]
    index = settings.index_folder(comparison.dataset.name)
    command = write_command(index, None, {}, "export", "--results", folder, "--out", "retriever")
    for what, line in _suggest_exports(comparison, command):
        print_text(settings, f"  {what:15} {escape_markup(line)}")


def _suggest_exports(comparison: Comparison, command: str) -> list[tuple[str, str]]:
    """Return what to export and the command for it; where several methods may be the best, a faster one comes first."""
    if not comparison.dataset.judged:
        return [("use one", f"{command} --method METHOD")]
    best, metric = comparison.methods[0].label, f"R@{comparison.ks[0]}"
    if len(leaders(comparison, metric)) < 2:
        return [("use the best", f"{command}   # {best}")]
    first = f"{command}   # {best}, not significantly ahead at {metric}"
    quick = _find_quickest_leader(comparison)
    if quick is None:
        return [("use the first", first)]
    fastest = f"{command} --method {shlex.quote(quick)}   # faster than {best}, and behind it by no metric for certain"
    return [("use the fastest", fastest), ("or the first", first)]


def _find_quickest_leader(comparison: Comparison) -> str | None:
    """Return the quickest of the methods that may be as good as the first, if it is faster for certain.

    Of those that the quickest is not clearly faster than, the one with the highest figures is returned.
    """
    best, *others = list_close_leaders(comparison) or [""]
    ranked = rank_methods(comparison, LATENCY)
    faster = [label for label in others if better(comparison, label, best, LATENCY)]  # best figures first
    quickest = next((label for label in ranked if label in faster), "")
    return next((label for label in faster if not better(comparison, quickest, label, LATENCY)), None)


def _compare(
    settings: CompareSettings, inputs: rerun.Inputs, live: LiveRuns, approval: Approval
) -> tuple[Study, Path, rerun.FinishedStudy | None]:
    """Run the study and write its files; return it with their folder and the record for the next run."""
    if settings.trace:
        trace_to_tracker()
    approving = partial(approve, approval=approval)
    command = shorten_command(sys.argv[1:])
    study = run_study(settings, command, live.watch, approving, thorough=approval.dry_run)
    folder = rerun.results_folder(settings.out, settings.questions, study.name)
    if note := keep_earlier(folder, study):
        print_note(note)
    remove_records(folder)
    results = save_results(study, folder)
    save_report(study, folder / REPORT_FILE)
    unchanged = rerun.describe_inputs(settings, inputs.files).matches(inputs)
    record = rerun.record_finished(settings, inputs, study, folder, results) if unchanged else None
    return study, folder, record


def _check(settings: CompareSettings) -> None:
    """Raise errors about outputs and index before the work starts, not after it."""
    json_destination(settings.json_file)
    require_writable(settings.out or RESULTS)
    if settings.all_corpora() == [None] and settings.index is not None:
        require_manifest(settings.index)


def _export_best(study: Study, settings: CompareSettings, out: Path, run: str | None) -> None:
    """Pack the best method of a single comparison, and log it in its run if the study was recorded."""
    if len(study.comparisons) != 1:
        raise UsageError("--export-best needs a single comparison: one corpus, encoder and seed.")
    compared = find_compared(study.comparisons[0], None)
    index = settings.index_folder(study.comparisons[0].dataset.name)
    written = export_compared(compared, index, out, pack=True)
    print_text(settings, f"  the best        {escape_markup(f'{written.path}: {compared.result.label}, packed')}")
    uri = None if run is None else log_retriever(tracking_uri(), run, compared.result.label, written.path)
    if uri is not None:
        print_text(settings, f'                  mlflow.pyfunc.load_model("{escape_markup(uri)}").predict(["…"])')


def _record(
    study: Study, settings: CompareSettings, folder: Path, record: rerun.FinishedStudy | None, begun: str | None
) -> str | None:
    """Record the study in MLflow, unless this store has it already, and print how to view it. Return its run.

    `begun` is the run that was shown while the study ran.
    """
    uri = tracking_uri()
    store = store_id(uri)
    run = None if record is None else record.tracked.get(store)
    if record is None or not has_run(uri, run):
        run = track(study, begun, folder)
        if run is None:
            return None
        if record is not None:
            tracked = {**record.tracked, store: run}
            rerun.write_record(folder, record.model_copy(update={"tracked": tracked}))
    print_text(settings, f"  the runs        {escape_markup(describe_tracker())}")
    return run
