"""The command `cache`: what is kept of language models' answers in a workspace, and handing it on."""

import time
from pathlib import Path
from typing import Annotated

import typer

from ragindex.cli.console import JsonOption, WorkspaceOption, dollars, emit, existing, out, table
from ragindex.errors import UsageError
from ragindex.llm.cache import Cache, held, prune, size
from ragindex.llm.export import export_calls, import_calls
from ragindex.workspace.llm import CALLS

_DAY = 86_400.0


def cache(
    workspace: WorkspaceOption,
    export_to: Annotated[Path | None, typer.Option("--export", metavar="FILE", help="Write all answers there.")] = None,
    import_from: Annotated[
        Path | None, typer.Option("--import", metavar="FILE", help="Add the answers of an export: they cost nothing.")
    ] = None,
    remove: Annotated[bool, typer.Option("--prune", help="Forget answers; see --older-than and --task.")] = False,
    older_than: Annotated[
        float | None, typer.Option(metavar="DAYS", min=0, help="With --prune: only those older than this.")
    ] = None,
    task: Annotated[str | None, typer.Option(metavar="NAME", help="With --prune: only those of this task.")] = None,
    json: JsonOption = None,
) -> None:
    """Show what is kept of language models' answers, prune it, or hand it on.

    Whoever imports the answers of a study replays it without a key and for nothing.

    Example: ragindex cache --index my-index --export answers.jsonl
    """
    if (older_than is not None or task is not None) and not remove:
        raise UsageError("--older-than and --task say what --prune forgets. Add --prune.")
    calls = Cache(existing(workspace) / CALLS)
    said = []
    if import_from is not None:
        said.append(f"{import_calls(calls, import_from):,} answers were added from {import_from}.")
    if remove:
        gone = prune(calls, None if older_than is None else older_than * _DAY, task)
        said.append(f"{gone:,} answers were forgotten.")
    if export_to is not None:
        said.append(f"{export_calls(calls, export_to):,} answers were written to {export_to}.")
    rows, taken = held(calls), size(calls)
    value = {
        "bytes": taken,
        "tasks": [
            {"task": one.task, "answers": one.answers, "input_tokens": one.input_tokens}
            | {"output_tokens": one.output_tokens, "money": one.money, "oldest": one.oldest}
            for one in rows
        ],
    }

    def show() -> None:
        for sentence in said:
            out().print(sentence, markup=False)
        columns = ("task", "answers", "tokens in", "tokens out", "first cost $", "oldest")
        shown = [
            (one.task, f"{one.answers:,}", f"{one.input_tokens:,}", f"{one.output_tokens:,}", dollars(one.money), day)
            for one in rows
            for day in (time.strftime("%Y-%m-%d", time.gmtime(one.oldest)),)
        ]
        out().print(table(columns, shown) if rows else "No answers are kept.")
        out().print(f"{taken / 1e6:.1f} MB")

    emit(value, json, show)
