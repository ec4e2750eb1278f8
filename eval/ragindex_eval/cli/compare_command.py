"""The command `compare`; rankings in files are compared here, with few imports, so that it takes a second or two."""

import os
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ragindex.cli.console import (
    escape_markup,
    explain_stop,
    print_note,
    require_writable,
    write_result,
)
from ragindex.cli.console import stdout as standard_output
from ragindex.cli.option_groups import group_of, with_groups
from ragindex.cli.options import ConsentFlags, JsonOption
from ragindex.errors import UsageError
from ragindex_eval.cli.settings_options import IgnoreOption, QrelsOption, print_text, settings_group, shorten_command
from ragindex_eval.format import join_names
from ragindex_eval.report.page import save_report
from ragindex_eval.report.terminal import render_study
from ragindex_eval.results.earlier import keep_earlier
from ragindex_eval.results.files import REPORT_FILE, RESULTS, folder_name, remove_records, save_results
from ragindex_eval.results.model import Study
from ragindex_eval.results.seeds import study_to_json
from ragindex_eval.run.compare_runs import compare_runs
from ragindex_eval.run.settings import CompareSettings, given_values
from ragindex_eval.run.thresholds import (
    count_skipped,
    parse_threshold,
    require_all_read,
    require_answers,
    require_reached,
)


@dataclass(frozen=True, slots=True)
class RunFileOptions:
    """Rankings in files, and the judgements that score them."""

    run: Annotated[
        list[str] | None,
        typer.Option("--run", metavar="FILE", help="A TREC run, .json or .csv, also as .gz. Repeatable."),
    ] = None
    qrels: QrelsOption = None
    ignore_identical_ids: IgnoreOption = False

    def require_none(self) -> None:
        """Raise UsageError for options that need --run."""
        if self.qrels is not None or self.ignore_identical_ids:
            raise UsageError("--qrels and --ignore-identical-ids are about rankings in files. Name them: --run FILE")


@with_groups
def compare(
    settings: Annotated[
        CompareSettings,
        settings_group(
            *(name for name, field in CompareSettings.model_fields.items() if field.description),
            data=Annotated[
                str | None, typer.Argument(metavar="DATA", help=CompareSettings.model_fields["data"].description)
            ],
            json_file=JsonOption,
        ),
    ],
    consent: Annotated[ConsentFlags, group_of(ConsentFlags)],
    rankings: Annotated[RunFileOptions, group_of(RunFileOptions, "Rankings from elsewhere")],
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="YAML with these settings; flags win.")
    ] = None,
    export_best: Annotated[
        Path | None,
        typer.Option("--export-best", metavar="FILE", help="Pack the best method, and record it as an MLflow model."),
    ] = None,
) -> None:
    """Build methods over DATA, ask its questions, and say what each found, how fast, at what cost, and what is noise.

    The same command resumes a comparison that was stopped. It is recorded in MLflow
    (MLFLOW_TRACKING_URI, or mlflow.db).
    Questions in a .txt have no gold: then the report shows side by side what each method found.
    With --run, rankings in files are compared, without documents.

    Example: ragindex compare my-documents/ --questions questions.csv --methods 'bm25,dense,hybrid(depth=50)'
    """
    settings = settings.over_file(config)
    if rankings.run:
        with explain_stop("Stopped."):  # nothing is kept of what takes seconds
            study = _compare_rankings(settings, rankings)
        require_reached(study, [parse_threshold(written, settings.k) for written in settings.fail_below])
        return
    rankings.require_none()
    from ragindex_eval.cli.compare import run_comparison  # takes a second to import

    study = run_comparison(settings, export_best, consent.answer(settings.budget, settings.json_file))
    require_answers(study)
    require_all_read(count_skipped(study), settings.skip_bad)
    require_reached(study, [parse_threshold(written, settings.k) for written in settings.fail_below])


def _compare_rankings(settings: CompareSettings, rankings: RunFileOptions) -> Study:
    """Compare rankings in files, and write the files of the comparison."""
    if rankings.qrels is None:
        raise UsageError("--run needs the judgements that score the rankings: --qrels FILE")
    allowed = {"k", "seed", "out", "json_file", "fail_below", "name"}
    other = [name for name in given_values(settings) if name not in allowed]
    if other:
        flags = join_names([f"--{name.replace('_', '-')}" for name in sorted(other)])
        raise UsageError(f"--run compares rankings as they are, so leave out {flags}.")
    started, clock = datetime.now(UTC).isoformat(timespec="milliseconds"), time.perf_counter()
    files = [Path(file) for file in rankings.run or ()]
    folder = settings.out or RESULTS / folder_name(rankings.qrels.name)
    require_writable(folder)
    ignore = rankings.ignore_identical_ids
    comparison = compare_runs(files, rankings.qrels, settings, settings.seed or 0, ignore_identical_ids=ignore)
    name, seconds = settings.name or comparison.dataset.name, round(time.perf_counter() - clock, 3)
    study = Study(name, (comparison,), shorten_command(sys.argv[1:]), started, seconds)
    if note := keep_earlier(folder, study):
        print_note(note)
    remove_records(folder)
    save_results(study, folder)
    save_report(study, folder / REPORT_FILE)
    write_result(study_to_json(study), settings.json_file, lambda: standard_output().print(render_study(study)))
    print_text(settings, f"\n  the report      {escape_markup(str(folder / REPORT_FILE))}")
    print_text(settings, f"  the results     {escape_markup(str(folder))}")
    _record(study, settings, folder)
    return study


def _record(study: Study, settings: CompareSettings, folder: Path) -> None:
    """Record the comparison in MLflow if it is used here: its import takes as long as the comparison."""
    if not os.environ.get("MLFLOW_TRACKING_URI") and not Path("mlflow.db").exists():
        return
    from ragindex_eval.mlflow.tracking import describe_tracker, track  # as above

    if track(study, folder=folder) is not None:
        print_text(settings, f"  the runs        {escape_markup(describe_tracker())}")
