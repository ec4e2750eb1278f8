"""The command `results`: what each method of a saved comparison found, by question."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ragindex.cli.console import escape_markup, write_result
from ragindex.cli.console import stdout as standard_output
from ragindex.cli.options import JsonOption
from ragindex.errors import DataError, UsageError
from ragindex_eval.format import percent, shown
from ragindex_eval.report.sections.table import metrics_shown
from ragindex_eval.results.files import RESULTS, load_results
from ragindex_eval.results.model import Comparison, SavedHit, headline_metric
from ragindex_eval.results.questions import (
    QuestionAnswer,
    QuestionResult,
    find_question_result,
    list_question_results,
)

_QUESTION, _TITLE = 60, 60  # characters


def results_command(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="The results: what --out named. Default: the newest.")
    ] = None,
    question: Annotated[
        str | None, typer.Option(metavar="Q", help="The id of a question, its text, or a part of it.")
    ] = None,
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="Hits of each method that are shown.")] = 10,
    json: JsonOption = None,
) -> None:
    """Show what each method found for a question, from the files of a comparison; without --question, all figures.

    Example: ragindex results --question "Who wrote the report?"
    """
    comparison = _load(folder or _find_newest())
    if question is None:
        question_results = list_question_results(comparison)
        write_result(
            [result.to_json() for result in question_results], json, lambda: _print_list(comparison, question_results)
        )
        return
    question_result = find_question_result(comparison, question)
    write_result(
        question_result.to_json(), json, lambda: _print_question(question_result, k, metrics_shown(comparison))
    )


def _find_newest() -> Path:
    """Return the folder of the comparison that was saved last. Raises UsageError if there is none."""
    studies = sorted(RESULTS.glob("*/study.json"), key=lambda file: file.stat().st_mtime)
    if not studies:
        raise UsageError(f"There are no results in {RESULTS}. Name their folder: ragindex results DIR")
    return studies[-1].parent


def _load(folder: Path) -> Comparison:
    comparisons = load_results(folder).comparisons
    if len(comparisons) > 1:
        places = ", ".join(str(file.parent) for file in sorted(folder.glob("*/comparison.json"))[:3])
        raise DataError("results of one comparison", f"{len(comparisons)}; they are in {places}, …", path=folder)
    return comparisons[0]


def _print_list(comparison: Comparison, results: tuple[QuestionResult, ...]) -> None:
    metric = headline_metric(comparison.methods, comparison.ks)
    table = Table(box=None, pad_edge=False, header_style="bold", title=metric or None, title_justify="left")
    for title in ("id", "question", *(method.label for method in comparison.methods)):
        table.add_column(escape_markup(title), overflow="fold")
    for result in results:
        values = (result.methods[method.label].metrics.get(metric) for method in comparison.methods)
        cells = [
            result.id,
            shown(result.text, _QUESTION),
            *("–" if value is None else percent(value) for value in values),
        ]
        table.add_row(*map(escape_markup, cells))
    standard_output().print(table)


def _print_question(result: QuestionResult, k: int, metrics: Sequence[str]) -> None:
    """Print the first k hits and the metrics of the table for each method."""
    lines = [f"[bold]{escape_markup(f'{result.id}: {result.text}')}[/]"]
    lines.append(escape_markup(f"gold: {', '.join(result.gold)}" if result.gold else "no gold documents"))
    for label, answer in result.methods.items():
        lines += ["", f"[bold]{escape_markup(label)}[/]  {escape_markup(_format_figures(answer, metrics))}"]
        lines += [escape_markup(_format_hit(rank, hit, answer)) for rank, hit in enumerate(answer.hits[:k], start=1)]
        beyond = {id: rank for id, rank in answer.gold_ranks.items() if rank > k}
        lines += [escape_markup(f"  … gold {id} at rank {rank}") for id, rank in beyond.items()]
    standard_output().print("\n".join(lines), soft_wrap=True)


def _format_figures(answer: QuestionAnswer, metrics: Sequence[str]) -> str:
    figures = [f"{name} {percent(answer.metrics[name])}" for name in metrics if name in answer.metrics]
    time = [] if answer.latency_ms is None else [f"{answer.latency_ms:.1f} ms"]
    read = [] if answer.answer is None else [f"answer: {shown(answer.answer, _TITLE)}"]
    return "; ".join([*([f"failed: {answer.error}"] if answer.error else []), *figures, *time, *read])


def _format_hit(rank: int, hit: SavedHit, answer: QuestionAnswer) -> str:
    mark = "gold" if rank in answer.gold_ranks.values() else ""
    title = f"  {shown(hit.title, _TITLE)}" if hit.title else ""
    return f"{rank:3}. {mark:4} {hit.score:8.4f}  {hit.id}{title}"
