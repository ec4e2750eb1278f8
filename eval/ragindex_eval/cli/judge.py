"""The command `judge`: a person, and a model, judge the documents that several methods find."""

import sys
import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ragindex._util.distribution import require_all_installed
from ragindex._util.workers import use_workers
from ragindex.cli.approval import approve
from ragindex.cli.console import (
    command_spending,
    command_tally,
    escape_markup,
    json_destination,
    print_note,
    require_writable,
    write_result,
)
from ragindex.cli.console import stdout as standard_output
from ragindex.cli.option_groups import group_of, with_groups
from ragindex.cli.options import Approval, ConsentFlags, JsonOption
from ragindex.index.manifest import MANIFEST_FILE, read_manifest, write_command
from ragindex.plugins.registry import PluginSpec
from ragindex_eval.cli.settings_options import OPENING, READING, list_reading_options, settings_group
from ragindex_eval.judge.estimate import PoolEstimates, estimate_methods
from ragindex_eval.judge.model_judge import MODEL_FOLDER, read_model_grades
from ragindex_eval.judge.pool import Pool
from ragindex_eval.judge.prepare import estimate_judging, prepare_pool, read_model_run
from ragindex_eval.judge.session import JudgingSession, read_pair_grades
from ragindex_eval.judge.show import render_judged
from ragindex_eval.judge.terminal import judge_in_terminal
from ragindex_eval.mlflow.decisions import track_judging
from ragindex_eval.run.estimate_comparison import require_keys_before_reading
from ragindex_eval.run.experiment import load_dataset
from ragindex_eval.run.notes import list_file_notes
from ragindex_eval.run.plan import make_plan
from ragindex_eval.run.settings import CompareSettings, make_settings

_CUTOFFS = "5,10"


@with_groups
def judge_command(
    settings: Annotated[
        CompareSettings,
        settings_group(
            *("methods", "limit", "workers", *READING, *OPENING),
            data=Annotated[
                str, typer.Argument(metavar="DATA_OR_INDEX", help="A folder, a file, world:1k, or an index.")
            ],
            questions=Annotated[
                Path, typer.Argument(metavar="QUESTIONS", help="A .txt with a question a line, or a .csv.")
            ],
            llm=Annotated[
                str | None,
                typer.Option(
                    metavar="L", help="The methods' model, which judges all documents first: openai:MODEL, or offline."
                ),
            ],
            k=Annotated[str | None, typer.Option(metavar=_CUTOFFS, help=f"The cutoffs. Default: {_CUTOFFS}.")],
        ),
    ],
    consent: Annotated[ConsentFlags, group_of(ConsentFlags)],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The judgements, kept.")] = Path("judged"),
    depth: Annotated[
        int, typer.Option(metavar="D", min=1, help="Pool the documents of the first D hits of each method.")
    ] = 5,
    judge_llm: Annotated[
        str | None, typer.Option(metavar="L", help="The model that judges, as openai:MODEL. Default: that of --llm.")
    ] = None,
    by_hand: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Judge N questions, drawn by the seed. Default: all.")
    ] = None,
    page: Annotated[bool, typer.Option("--page", help="Judge on a local web page instead of in the terminal.")] = False,
    json_file: JsonOption = None,
) -> None:
    """Judge what unlike methods find for your questions, and estimate how good each method is.

    Shows each question with the pooled documents, in an order that says nothing about the methods. Press y, p (partly)
    or n; u goes back, q stops. Every answer is saved at once, and the same command goes on. A model that judges too
    can make the intervals narrower, and biases no estimate. `compare --questions DIR` uses the judgements.

    Example: ragindex judge my-documents/ questions.txt --out judged/ --by-hand 30
    """
    json_destination(json_file)
    require_writable(out)
    if page:
        require_all_installed(("starlette", "uvicorn"), "ragindex judge --page")
    if settings.index is None and (Path(settings.data or "") / MANIFEST_FILE).is_file():
        settings = settings.model_copy(update={"index": Path(settings.data or ""), "data": None})
    settings, started = settings.over(make_settings({"k": _CUTOFFS})), time.time()
    judge = judge_llm or settings.llm
    pool, language, folder = _prepare(settings, depth, out, judge, consent.answer(settings.budget, json_file))
    count = len(pool.questions) if by_hand is None else by_hand
    if json_file != "-":
        _judge(JudgingSession(pool, out, count, language), page=page)
    estimates, paid = _estimate(pool, out), command_tally().spent
    if paid.money != 0:
        name = folder.name if settings.data is None else Path(settings.data).name
        track_judging(name, pool.source, estimates, judge, paid, started, time.time() - started)
    value = {**estimates.to_json(), "out": str(out), "spent": command_spending()}
    write_result(value, json_file, lambda: _show(estimates, settings, folder, out))


def _prepare(
    settings: CompareSettings, depth: int, out: Path, judge: PluginSpec | None, approval: Approval
) -> tuple[Pool, str, Path]:
    """Return the pool, the language of its texts, and the folder of the index, once the user agrees to the cost."""
    require_keys_before_reading(settings, make_plan(settings).schemes, judge, thorough=approval.dry_run)
    dataset = None if settings.data is None else load_dataset(settings, settings.seed, settings.index)
    for note in () if dataset is None else list_file_notes(dataset):
        print_note(note)
    folder = settings.index_folder(dataset.name if dataset else "")
    estimating = partial(estimate_judging, settings, dataset, folder, depth, out, judge, thorough=approval.dry_run)
    approve(estimating, approval)
    with use_workers(settings.workers):
        pool, language = prepare_pool(settings, dataset, depth, out, print_note, judge)
    return pool, language, folder


def _judge(session: JudgingSession, *, page: bool) -> None:
    """Let the person judge, if there is something left to judge and someone to do it."""
    if page:
        from ragindex_eval.judge.page import judge_on_page

        judge_on_page(session, lambda address: print_note(f"Judge at {address}"))
    elif session.judged < session.total:
        if sys.stdin.isatty():
            judge_in_terminal(session, Console(highlight=False, emoji=False))
        else:
            left = session.total - session.judged
            print_note(f"{left} documents are left to judge: run this command in a terminal, or with --page.")


def _estimate(pool: Pool, out: Path) -> PoolEstimates:
    person, run = read_pair_grades(out), read_model_run(out / MODEL_FOLDER)
    if run is None:
        return estimate_methods(pool, person, None)
    if not run.whole:
        left_out = f"{run.model} has not judged the whole pool: its judgements are left out."
        print_note(f"{left_out} Give --llm {run.model} to go on.")
        return estimate_methods(pool, person, None)
    return estimate_methods(pool, person, read_model_grades(out), run.model)


def _show(estimates: PoolEstimates, settings: CompareSettings, index: Path, out: Path) -> None:
    console = standard_output()
    console.print(render_judged(estimates))
    console.print()
    # of other methods, what nobody judged would count as wrong
    methods = ",".join(method.label for method in estimates.methods)
    data = [] if settings.data is None else [settings.data]
    words = [*data, "--questions", out, *list_reading_options(settings), "--methods", methods]
    command = write_command(index, read_manifest(index), settings.opened_with(), "compare", *words)
    console.print(f"  the judgements  {escape_markup(str(out))}", soft_wrap=True)
    console.print(f"  compare by them {escape_markup(command)}", soft_wrap=True)
