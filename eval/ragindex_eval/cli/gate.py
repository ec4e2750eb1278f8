"""The command `gate`: passes a method that is not worse than its baseline, for releases and continuous integration."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ragindex._util.text import first_names
from ragindex.cli.approval import approve
from ragindex.cli.console import (
    command_spending,
    escape_markup,
    json_destination,
    print_note,
    require_writable,
    write_result,
)
from ragindex.cli.console import stdout as standard_output
from ragindex.cli.option_groups import group_of, with_groups
from ragindex.cli.options import Approval, ConsentFlags, JsonOption
from ragindex.errors import GateFailedError, GateUndecidedError, QuestionError, StoreError, UsageError
from ragindex.index.renames import read_renames
from ragindex_eval.choose.gate import (
    Gate,
    QuestionScores,
    judge_gate,
    saved_scores,
    scores_of,
    write_junit,
)
from ragindex_eval.cli.settings_options import (
    OPENING,
    READING,
    IgnoreOption,
    QrelsOption,
    option_of,
    settings_group,
)
from ragindex_eval.format import about_questions, join_names
from ragindex_eval.results.model import describe_failed
from ragindex_eval.run.ask import describe_own_documents
from ragindex_eval.run.compare_runs import compare_runs
from ragindex_eval.run.estimate_comparison import estimate_comparison, require_keys_before_reading
from ragindex_eval.run.experiment import load_dataset
from ragindex_eval.run.notes import list_file_notes
from ragindex_eval.run.plan import make_plan
from ragindex_eval.run.settings import CompareSettings, given_values
from ragindex_eval.run.study import evaluate
from ragindex_eval.run.thresholds import require_all_read
from ragindex_eval.stats.paired_tests import POWER


@dataclass(frozen=True, slots=True)
class JudgementOptions:
    """What scores NEW and BASELINE if they are files of rankings."""

    qrels: QrelsOption = None
    ignore_identical_ids: IgnoreOption = False


@with_groups
def gate_command(
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="A method, saved results (FOLDER or FOLDER:LABEL), or a run file.")
    ],
    against: Annotated[str, typer.Option(metavar="BASELINE", help="The same: what NEW must not be worse than.")],
    settings: Annotated[
        CompareSettings,
        settings_group(
            *("questions", "k", "limit", *READING, *OPENING),
            data=option_of("data", CompareSettings.model_fields["data"]),
        ),
    ],
    consent: Annotated[ConsentFlags, group_of(ConsentFlags)],
    judgements: Annotated[JudgementOptions, group_of(JudgementOptions, "Rankings from elsewhere")],
    metric: Annotated[str, typer.Option(metavar="R@5", help="The metric.")] = "R@5",
    margin: Annotated[float, typer.Option(metavar="M", min=0, help="A loss that does not matter.")] = 0.02,
    junit: Annotated[Path | None, typer.Option(metavar="FILE.xml", help="The verdict as a JUnit report.")] = None,
    json_file: JsonOption = None,
) -> None:
    """Say whether a method is worse than its baseline by more than a margin: PASS, FAIL or UNDECIDED.

    Exit code 0 is PASS, 12 FAIL, 13 UNDECIDED, 11 PASS without files that cannot be read. PASS means that the 95 %
    interval of the difference lies above -margin, FAIL that it lies below. Methods are asked anew; saved results
    and rankings in files, which need --qrels, stand as they are.

    Example: ragindex gate hybrid --against baseline-results:bm25 --data my-documents/ --questions questions.csv
    """
    json_destination(json_file)
    if junit is not None:
        require_writable(junit.parent)
    saved = {written: _read_scores(written, settings, judgements, metric) for written in (new, against)}
    unknown = [written for written, scores in saved.items() if scores is None]
    of_files = any(Path(written).is_file() for written in (new, against))
    if not of_files and (judgements.qrels is not None or judgements.ignore_identical_ids):
        raise UsageError("--qrels and --ignore-identical-ids are about files of rankings, and none is named.")
    approval = consent.answer(settings.budget, json_file)
    measured, renames, skipped = _measure(unknown, settings, metric, approval, of_files=of_files)
    scores = {**measured, **_follow(saved, renames)}
    gate = judge_gate(scores[new], scores[against], metric, margin)
    if junit is not None:
        _write(gate, junit)
    value = {**gate.to_json(), "spent": command_spending()}
    lines = "\n".join([gate.describe(), *gate.describe_lost()])
    write_result(value, json_file, lambda: standard_output().print(escape_markup(lines), soft_wrap=True))
    _require_pass(gate)
    require_all_read(skipped, settings.skip_bad)


def _read_scores(
    written: str, settings: CompareSettings, judgements: JudgementOptions, metric: str
) -> QuestionScores | None:
    """Return the scores of a file of rankings or of saved results; None for a method."""
    if not Path(written).is_file():
        return saved_scores(written, metric)
    if judgements.qrels is None:
        raise UsageError(f"{written} is a file of rankings. Name the judgements that score it: --qrels FILE")
    ignore = judgements.ignore_identical_ids
    comparison = compare_runs([Path(written)], judgements.qrels, settings, ignore_identical_ids=ignore)
    return scores_of(comparison, comparison.methods[0], metric)


def _measure(
    methods: list[str], settings: CompareSettings, metric: str, approval: Approval, *, of_files: bool
) -> tuple[dict[str, QuestionScores], dict[str, str], int]:
    """Compare the methods, asking every question anew.

    Return their scores as they are written, the ids of renamed documents by those before, and how many files and items
    were left out, of which notes are printed. With `of_files` the cutoffs are those of rankings in files. Raises
    QuestionError if a method failed on every question.
    """
    given = given_values(settings)
    if not methods:
        allowed = {"seed", "k"} if of_files else {"seed"}
        if unused := [f"--{name.replace('_', '-')}" for name in given if name not in allowed]:
            raise UsageError(f"Saved results stand as they are, so leave out {join_names(unused)}.")
        return {}, {}, 0
    if "data" not in given and "index" not in given:
        raise UsageError(f"gate measures {' and '.join(methods)} on documents. Name them: --data my-documents/")
    settings = settings.model_copy(update={"methods": methods, "fresh": True})
    plan, thorough = make_plan(settings), approval.dry_run
    require_keys_before_reading(settings, plan.schemes, thorough=thorough)
    dataset = load_dataset(settings, settings.seed, settings.index) if settings.data is not None else None
    for note in () if dataset is None else (*describe_own_documents(dataset.gold), *list_file_notes(dataset)):
        print_note(note)
    folder = settings.index_folder(dataset.name if dataset else "")
    approve(partial(estimate_comparison, settings, settings, dataset, plan.schemes, thorough=thorough), approval)
    comparison = evaluate(plan, settings, dataset)
    if comparison.failed:
        raise QuestionError(f"There is no verdict. {describe_failed(comparison.failed)}")
    by_label = {method.label: method for method in comparison.methods}
    labels = dict(zip(methods, comparison.asked, strict=True))
    scores = {written: scores_of(comparison, by_label[labels[written]], metric) for written in methods}
    return scores, read_renames(folder), comparison.dataset.skipped


def _follow(saved: Mapping[str, QuestionScores | None], renames: Mapping[str, str]) -> dict[str, QuestionScores]:
    """Return the saved scores with the ids that their gold documents have now; print which were renamed."""
    scores = {written: of_method for written, of_method in saved.items() if of_method is not None}
    gold = {id for of_method in scores.values() for _, ids in of_method.values for id in ids}
    pairs = [f"{id} → {renames[id]}" for id in sorted(gold & renames.keys())]
    if pairs:
        print_note(f"Gold documents of the saved results were renamed: {first_names(pairs)}")
    return {written: of_method.follow(renames) for written, of_method in scores.items()}


def _write(gate: Gate, path: Path) -> None:
    try:
        write_junit(gate, path)
    except OSError as error:
        raise StoreError(f"{path} could not be written: {error.strerror or error}.") from error


def _require_pass(gate: Gate) -> None:
    if gate.verdict == "FAIL":
        raise GateFailedError(f"{gate.new} is worse than {gate.baseline} by more than the margin.")
    if gate.verdict == "UNDECIDED":
        raise GateUndecidedError(
            f"The questions do not tell: add questions{_describe_needed(gate.needed)}, or choose a larger --margin "
            "before looking at the next result."
        )


def _describe_needed(questions: int | None) -> str:
    if questions is None:
        return ""
    return f" ({about_questions(questions)} in all would settle it if the differences stay, {100 * POWER:.0f} % power)"
