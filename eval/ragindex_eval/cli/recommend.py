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
from ragindex.cli.approval import Approval, approve
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
from ragindex.cli.options import DryRunOption, JsonOption, YesOption
from ragindex.corpus.readers.rows import OPTIONAL_COLUMNS
from ragindex.errors import BudgetError, UsageError
from ragindex.export.export_retriever import Export, export_retriever
from ragindex.index.index import Index
from ragindex.index.manifest import read_manifest, write_command
from ragindex_eval.cli.compare import setting_flag
from ragindex_eval.cli.reading_flags import list_reading_flags
from ragindex_eval.format import join_names
from ragindex_eval.metrics.score import list_judged
from ragindex_eval.mlflow_tracking import describe_tracker
from ragindex_eval.recommend.candidates import DEFAULT, choose_candidates
from ragindex_eval.recommend.mlflow_run import track_recommendation
from ragindex_eval.recommend.recommend import Progress, recommend
from ragindex_eval.recommend.rules import RecommendRules
from ragindex_eval.recommend.show import describe_standing, render_recommendation
from ragindex_eval.recommend.values import LARGER_BUDGET, Recommendation
from ragindex_eval.run.ask import describe_own_documents
from ragindex_eval.run.estimate_comparison import estimate_comparison
from ragindex_eval.run.experiment import default_index, load_dataset
from ragindex_eval.run.notes import list_file_notes
from ragindex_eval.run.settings import CompareSettings, make_settings, read_settings
from ragindex_eval.run.thresholds import require_all_read


def rule_flag(field: str, metavar: str | None = None) -> Any:
    """Return the flag of a rule, with the description and the default of the rule as help text."""
    rule = RecommendRules.model_fields[field]
    told = rule.description or ""
    if rule.default is not None and "default" not in told:
        told = f"{told} Default: {rule.default}."
    return typer.Option(f"--{field.replace('_', '-')}", metavar=metavar, help=told)


_RULES = frozenset(RecommendRules.model_fields)


def recommend_command(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A folder, a file, or world:1k.")],
    questions: Annotated[Path | None, setting_flag("questions", "FILE")] = None,
    holdout: Annotated[Path | None, setting_flag("holdout", "FILE")] = None,
    reuse_holdout: Annotated[bool | None, setting_flag("reuse_holdout")] = None,
    metric: Annotated[str | None, rule_flag("metric", "R@5")] = None,
    delta: Annotated[float | None, rule_flag("delta", "D")] = None,
    alpha: Annotated[float | None, rule_flag("alpha", "A")] = None,
    estimand: Annotated[str | None, rule_flag("estimand", "WHICH")] = None,
    block: Annotated[int | None, rule_flag("block", "N")] = None,
    min_recall: Annotated[float | None, rule_flag("min_recall", "R")] = None,
    max_p95_ms: Annotated[float | None, rule_flag("max_p95_ms", "MS")] = None,
    max_index_minutes: Annotated[float | None, rule_flag("max_index_minutes", "M")] = None,
    max_index_dollars: Annotated[float | None, rule_flag("max_index_dollars", "USD")] = None,
    max_dollars_per_1000: Annotated[float | None, rule_flag("max_dollars_per_1000", "USD")] = None,
    max_mb: Annotated[float | None, rule_flag("max_mb", "MB")] = None,
    methods: Annotated[
        str | None,
        typer.Option(metavar="a,b", help=f"The candidates. Default: {len(DEFAULT)} that need no language model."),
    ] = None,
    grid: Annotated[list[str] | None, setting_flag("grid", "[LABEL:]P=V,V")] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="YAML with candidates and settings; flags win.")
    ] = None,
    format: Annotated[str | None, setting_flag("format", "F")] = None,
    skip_bad: Annotated[bool | None, setting_flag("skip_bad")] = None,
    strict: Annotated[bool | None, setting_flag("strict")] = None,
    include: Annotated[list[str] | None, setting_flag("include", "GLOB")] = None,
    exclude: Annotated[list[str] | None, setting_flag("exclude", "GLOB")] = None,
    encoding: Annotated[str | None, setting_flag("encoding", "E")] = None,
    max_file_mb: Annotated[float | None, setting_flag("max_file_mb", "MB")] = None,
    ocr: Annotated[bool | None, setting_flag("ocr")] = None,
    rows: Annotated[str | None, setting_flag("rows", OPTIONAL_COLUMNS)] = None,
    language: Annotated[str | None, setting_flag("language", "L")] = None,
    encoder: Annotated[str | None, setting_flag("encoder", "E")] = None,
    llm: Annotated[str | None, setting_flag("llm", "L")] = None,
    budget: Annotated[float | None, setting_flag("budget", "DOLLARS")] = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    store: Annotated[str | None, setting_flag("store", "S")] = None,
    k: Annotated[str | None, setting_flag("k", "5,10,20")] = None,
    limit: Annotated[int | None, setting_flag("limit", "N", 1)] = None,
    seed: Annotated[int | None, setting_flag("seed", "S")] = None,
    workers: Annotated[int | None, setting_flag("workers", "N", 1)] = None,
    index: Annotated[Path | None, setting_flag("index", "DIR")] = None,
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
    own = {"config", "export", "yes", "dry_run"}
    given = {name: value for name, value in locals().items() if name not in (*own, "own") and value not in (None, [])}
    json_destination(json_file)
    rules = _make_rules({name: value for name, value in given.items() if name in _RULES})
    flags = make_settings({name: value for name, value in given.items() if name not in _RULES})
    settings = flags if config is None else flags.over(read_settings(config))
    dataset = load_dataset(settings, settings.seed)
    for note in (*describe_own_documents(dataset.gold), *list_file_notes(dataset)):
        print_note(note)
    folder = settings.index or default_index(dataset.name)
    settings = settings.on_index(folder)
    schemes = {candidate.label: candidate.scheme for candidate in choose_candidates(settings)}
    estimating = partial(
        estimate_comparison, settings, replace(dataset, queries=tuple(list_judged(dataset))), folder, schemes
    )
    approve(estimating, Approval(yes, settings.budget, dry_run, json_file))
    started = time.time()
    progress = Progress(print_note)

    def describe() -> str:
        command = shlex.join(["ragindex", *sys.argv[1:]])
        return describe_standing(list(progress.standing.values()), rules.metric, command)

    with use_workers(settings.workers), explain_interrupt(describe):
        found = recommend(settings, rules, dataset, progress)
    exported = None if export is None else _export_chosen(found, settings, folder, export)
    if exported is not None and exported.replaced:
        print_note(exported.describe_replaced())
    run = track_recommendation(found, settings, started, time.time() - started, export)
    value = {
        **found.to_json(),
        "paid": command_spending(),  # `spent` are questions
        "index": str(folder),
        "export": None if export is None else str(export),
    }

    def show() -> None:
        console = standard_output()
        console.print(render_recommendation(found, rules))
        console.print()
        for name, command in _list_next_commands(found, settings, folder, exported).items():
            console.print(f"  {name:15} {escape_markup(command)}", soft_wrap=True)
        if run is not None:
            console.print(f"  {'the run':15} {escape_markup(describe_tracker())}", soft_wrap=True)

    write_result(value, json_file, show)
    if found.over_budget:
        names = join_names([candidate.label for candidate in found.over_budget])
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
        asked = [] if settings.questions is None else ["--questions", settings.questions]
        read = [*asked, *list_reading_flags(settings), "--methods", f"{recommendation.chosen},{recommendation.rival}"]
        lines["all figures"] = follow_up("compare", settings.data, *read)
    return lines


def _export_chosen(recommendation: Recommendation, settings: CompareSettings, index: Path, out: Path) -> Export:
    """Export the chosen method as the race has measured it, to a folder that refers to the index."""
    with Index.open(index, **settings.opened_with()) as opened:
        return export_retriever(opened, recommendation.candidate(recommendation.chosen).scheme, out)


def _make_rules(values: dict[str, Any]) -> RecommendRules:
    """Return the rules. Raises UsageError for a value that is not allowed."""
    from pydantic import ValidationError

    try:
        return RecommendRules.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        flag = str(problem["loc"][0]).replace("_", "-")
        raise UsageError(f"--{flag}: {problem['msg']}. Got {problem['input']!r}.") from error
