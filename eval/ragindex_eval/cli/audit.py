"""The command `audit`: what results by others can and cannot show."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ragindex._util import durable_files
from ragindex.cli.console import json_destination, require_writable, write_result
from ragindex.cli.console import stdout as standard_output
from ragindex.cli.option_groups import group_of, with_groups
from ragindex.cli.options import JsonOption
from ragindex.errors import StoreError, UsageError
from ragindex_eval.auditing.audit import DEFAULT_METRIC, Audit, audit
from ragindex_eval.auditing.show import render_audit, to_html


@dataclass(frozen=True, slots=True)
class PrintedFigures:
    """Figures on the command line, and what a table does not say of its own."""

    value: Annotated[
        list[str] | None,
        typer.Option("--value", metavar="V", help="A mean, such as 40.5, 40.5% or 0.405; twice: and its baseline."),
    ] = None
    n: Annotated[
        str | None,
        typer.Option("--n", metavar="N", help="How many questions, or a benchmark's name: nfcorpus."),
    ] = None
    method: Annotated[
        list[str] | None,
        typer.Option("--method", metavar="ROW", help="The row whose claims are meant. Repeatable. Default: all."),
    ] = None
    metric: Annotated[
        str | None,
        typer.Option(metavar="EM", help=f"The metric, where it is not named; of rankings: {DEFAULT_METRIC}."),
    ] = None
    binary: Annotated[
        bool | None, typer.Option("--binary/--graded", help="Values of questions are 0 or 1, or anything between.")
    ] = None
    baseline: Annotated[
        str | None,
        typer.Option(metavar="ROW", help="The row, or the value, to compare with. Default: the second best row."),
    ] = None


@dataclass(frozen=True, slots=True)
class AuditedFiles:
    """Ranking files with their judgements, questions, and documents."""

    run: Annotated[
        list[Path] | None,
        typer.Option("--run", metavar="FILE", help="A TREC run, .json or .csv, also as .gz. Repeatable."),
    ] = None
    qrels: Annotated[
        Path | None, typer.Option("--qrels", metavar="FILE", help="The judgements: TREC qrels, .json or .csv.")
    ] = None
    questions: Annotated[
        Path | None, typer.Option("--questions", metavar="FILE", help="A .csv or .jsonl with gold, or a .txt.")
    ] = None
    documents: Annotated[
        Path | None, typer.Option("--documents", metavar="DATA", help="The documents, or a data set with questions.")
    ] = None


@with_groups
def audit_command(
    table: Annotated[
        Path | None, typer.Argument(metavar="TABLE", help="A printed table: .csv, .tsv, .md, .json, or .yaml.")
    ] = None,
    *,
    figures: Annotated[PrintedFigures, group_of(PrintedFigures, "Figures")],
    files: Annotated[AuditedFiles, group_of(AuditedFiles, "Rankings and questions")],
    json_file: JsonOption = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write the page as HTML.")] = None,
) -> None:
    """Say what a printed table, ranking files or questions can and cannot show; no index is needed.

    Of means alone: their intervals, the smallest difference that so many questions show, and whether a paired test
    could have found the difference, or had to. Of rankings and questions: gaps, ties, duplicates, leaks, and tests.

    Example: ragindex audit --value 40.5 --value 36.4 --n 1000 --metric EM
    """
    json_destination(json_file)
    if html is not None:
        require_writable(html.parent)
    if table is not None and figures.value:
        raise UsageError("Give a table or values, not both.")
    result = audit(
        table or figures.value,
        methods=figures.method or (),
        n=figures.n,
        baseline=figures.baseline,
        metric=figures.metric,
        binary=figures.binary,
        runs=files.run or (),
        qrels=files.qrels,
        documents=files.documents,
        questions=files.questions,
    )
    if html is not None:
        _write_page(result, html)
    write_result(result.to_json(), json_file, lambda: standard_output().print(render_audit(result)))


def _write_page(result: Audit, path: Path) -> None:
    try:
        durable_files.write_file(path, to_html(result).encode())
    except OSError as error:
        raise StoreError(f"{path} could not be written: {error.strerror or error}.") from error
