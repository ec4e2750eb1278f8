"""The command `tune`, which fits `evidence` to judged questions and says what that is worth."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ragindex._util.durable_files import write_file
from ragindex.cli.approval import approve
from ragindex.cli.console import (
    command_spending,
    escape_markup,
    print_note,
    require_writable,
    text_table,
    write_result,
)
from ragindex.cli.console import stdout as standard_output
from ragindex.cli.option_groups import group_of, with_groups
from ragindex.cli.options import ConsentFlags, JsonOption
from ragindex.corpus.judgements import question_id
from ragindex.index.manifest import read_manifest, write_command
from ragindex.plugins import registry
from ragindex.plugins.specs import parse_many
from ragindex.types import Query
from ragindex_eval.choose.tune import METHOD, Tuned, make_method, tune
from ragindex_eval.cli.settings_options import OPENING, READING, DataArgument, list_reading_options, settings_group
from ragindex_eval.format import percent, points
from ragindex_eval.metrics.retrieval import list_judged
from ragindex_eval.run.ask import describe_own_documents
from ragindex_eval.run.estimate_comparison import estimate_comparison, require_keys_before_reading
from ragindex_eval.run.experiment import load_dataset
from ragindex_eval.run.notes import describe_naming, list_file_notes
from ragindex_eval.run.settings import CompareSettings


@with_groups
def tune_command(
    settings: Annotated[
        CompareSettings, settings_group(*("questions", "k", "limit", *READING, *OPENING), data=DataArgument)
    ],
    consent: Annotated[ConsentFlags, group_of(ConsentFlags)],
    bases: Annotated[
        str, typer.Option(metavar="a,b", help="Methods whose ranks may help. Those that do not are dropped.")
    ] = "",
    out: Annotated[Path, typer.Option("--out", metavar="FILE.json", help="Where the weights are written.")] = Path(
        "tuned.json"
    ),
    json_file: JsonOption = None,
) -> None:
    """Fit `evidence` to judged questions, and say what it is worth on questions that it was not fitted to.

    Needs 30 questions with gold documents. The figures are out of fold: each question is ranked with weights that
    were fitted, and bases that were chosen, without it.

    Example: ragindex tune my-documents/ --questions questions.csv --bases 'hipporag(mode=facts)' --out tuned.json
    """
    require_writable(out.parent)
    schemes, thorough = {METHOD: make_method(parse_many(bases) if bases else [])}, consent.dry_run
    require_keys_before_reading(settings, schemes, thorough=thorough)
    dataset = load_dataset(settings, settings.seed, settings.index)
    for note in (*describe_own_documents(dataset.gold), *list_file_notes(dataset)):
        print_note(note)
    judged = replace(dataset, queries=tuple(list_judged(dataset)))
    estimating = partial(estimate_comparison, settings, settings, judged, schemes, thorough=thorough)
    approve(estimating, consent.answer(settings.budget, json_file))
    tuned = tune(settings, dataset, parse_many(bases) if bases else [])
    if named := describe_naming(dataset):
        print_note(f"{named}: questions without it may give other weights and gains")
    weights = make_weights(tuned, settings.data or "", parse_many(bases) if bases else [], list_judged(dataset))
    content = json.dumps(weights, indent=2, ensure_ascii=False)
    write_file(out, f"{content}\n".encode())
    value = {**make_report(tuned), "file": str(out), "spent": command_spending()}
    write_result(value, json_file, lambda: _show(tuned, out, settings, settings.index_folder(dataset.name)))


def make_weights(tuned: Tuned, data: str, bases: Any, questions: Sequence[Query]) -> dict[str, Any]:
    """Return the file that `evidence(weights=FILE)` reads; it names `questions`, which the weights were fitted to."""
    used = [registry.describe(base) for base in map(registry.scheme, bases) if registry.label(base) in tuned.bases]
    made_from = f"{tuned.questions} judged questions of {Path(data).name}"
    ids = [question_id(query.text) for query in questions]
    weights = {"bases": used, "intercept": tuned.intercept, "weights": dict(tuned.weights)}
    return {"made_from": made_from, "questions": ids, **weights}


def make_report(tuned: Tuned) -> dict[str, Any]:
    """Return the figures as JSON."""
    return {
        "questions": tuned.questions,
        "k": list(tuned.ks),
        "out_of_fold": list(tuned.out_of_fold),
        "in_sample": list(tuned.in_sample),
        "best_single": {"name": tuned.best_single, "recall": list(tuned.single)},
        "gain": [
            {"k": k, "mean": gain, "ci95": list(interval), "p": p}
            for k, gain, interval, p in zip(tuned.ks, tuned.gain, tuned.interval, tuned.p, strict=True)
        ],
        "bases": list(tuned.bases),
        "dropped": dict(tuned.dropped),
        "base_seconds": dict(tuned.base_seconds),
        "weights": dict(tuned.weights),
    }


def _show(tuned: Tuned, out: Path, settings: CompareSettings, index: Path) -> None:
    console = standard_output()
    rows = [
        (f"{METHOD}, out of fold", *map(percent, tuned.out_of_fold)),
        (f"{METHOD}, on the questions it was fitted to", *map(percent, tuned.in_sample)),
        (f"{tuned.best_single}, the best single ranking", *map(percent, tuned.single)),
    ]
    console.print(text_table(("", *(f"R@{k}" for k in tuned.ks)), rows))
    gains = [
        f"{points(gain)} ({points(low)} to {points(high)}) at {k}"
        for k, gain, (low, high) in zip(tuned.ks, tuned.gain, tuned.interval, strict=True)
    ]
    console.print(f"\nGain out of fold over {escape_markup(tuned.best_single)}: {', '.join(gains)}.", soft_wrap=True)
    if not tuned.gains:
        console.print("No gain is significant. Use the best single method, or judge more questions.")
    for base in tuned.bases:
        console.print(f"kept     {escape_markup(base)}, {tuned.base_seconds[base]:.0f} s to index", soft_wrap=True)
    for base, worth in tuned.dropped.items():
        console.print(f"dropped  {escape_markup(base)}, worth {points(worth)}", soft_wrap=True)
    console.print(f"\n  the weights     {escape_markup(str(out))}", soft_wrap=True)
    data = [] if settings.data is None else [settings.data, *list_reading_options(settings)]
    words = [*data, "--methods", f"{METHOD}(weights={out})"]
    command = write_command(index, read_manifest(index), settings.opened_with(), "index", *words)
    console.print(
        f"  {'to use them    ' if tuned.gains else 'use them anyway'} {escape_markup(command)}", soft_wrap=True
    )
