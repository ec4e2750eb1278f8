"""The command `cache`: list, prune, export and import the cached LLM responses of an index."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ragindex._util.text import many
from ragindex.cli.console import escape_markup, format_dollars, stdout, text_table, write_result
from ragindex.cli.options import IndexOption, JsonOption
from ragindex.errors import UsageError
from ragindex.index import manifest
from ragindex.index.models import CALLS
from ragindex.llm.batches.endpoint import BatchRecord, drop_batches, read_batches
from ragindex.llm.cache import (
    SQLiteCache,
    TaskSummary,
    disk_size,
    export_calls,
    import_calls,
    prune_responses,
    summarize,
)

_DAY = 86_400.0


def cache(
    folder: IndexOption,
    export_to: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="Write all responses to FILE.")
    ] = None,
    import_from: Annotated[
        Path | None, typer.Option("--import", metavar="FILE", help="Add the responses of an export.")
    ] = None,
    remove: Annotated[bool, typer.Option("--prune", help="Delete responses; see --older-than and --task.")] = False,
    older_than: Annotated[
        float | None, typer.Option(metavar="DAYS", min=0, help="With --prune: only responses older than this.")
    ] = None,
    task: Annotated[str | None, typer.Option(metavar="NAME", help="With --prune: only responses of this task.")] = None,
    forget: Annotated[
        bool, typer.Option("--forget-batches", help="Give up the answers of batches that are on their way.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """List the cached LLM responses of an index by task; prune, export or import them. Also lists batches on their way.

    With the imported responses of a study, the same study runs without a key and at no cost.

    Example: ragindex cache --index my-index --export answers.jsonl
    """
    if (older_than is not None or task is not None) and not remove:
        raise UsageError("--older-than and --task need --prune.")
    manifest.require_manifest(folder)
    calls = SQLiteCache(folder / CALLS)
    messages = []
    if import_from is not None:
        messages.append(f"{many(import_calls(calls, import_from), 'response')} added from {import_from}.")
    if remove:
        deleted = prune_responses(calls, None if older_than is None else older_than * _DAY, task)
        messages.append(f"{many(deleted, 'response')} deleted.")
    if export_to is not None:
        messages.append(f"{many(export_calls(calls, export_to), 'response')} written to {export_to}.")
    messages += [_forget_batches(calls)] if forget else []
    tasks, size, batches = summarize(calls), disk_size(calls), read_batches(calls)

    def show() -> None:
        for message in messages:
            stdout().print(message, markup=False)
        stdout().print(_make_table(tasks) if tasks else "No cached responses.")
        for batch in batches:
            stdout().print(escape_markup(_format_batch(batch)), soft_wrap=True)
        stdout().print(f"{size / 1e6:.1f} MB")

    sent = [{"id": batch.id, "task": batch.task, "requests": len(batch.keys), "sent": batch.at} for batch in batches]
    write_result({"bytes": size, "tasks": [asdict(item) for item in tasks], "batches": sent}, json, show)


def _make_table(tasks: Sequence[TaskSummary]) -> Table:
    columns = ("task", "responses", "tokens in", "tokens out", "first cost $", "oldest")
    rows = [
        (
            item.task,
            f"{item.responses:,}",
            f"{item.input_tokens:,}",
            f"{item.output_tokens:,}",
            format_dollars(item.money),
            time.strftime("%Y-%m-%d", time.gmtime(item.oldest)),
        )
        for item in tasks
    ]
    return text_table(columns, rows)


def _forget_batches(calls: SQLiteCache) -> str:
    batches = read_batches(calls)
    drop_batches(calls, [batch.name for batch in batches])
    return f"Forgotten batches: {len(batches)}. They go on at the endpoint, and their answers are lost."


def _format_batch(batch: BatchRecord) -> str:
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(batch.at))
    requests = f"{many(len(batch.keys), 'request')} of {batch.task} to {batch.model}"
    return f"On its way: {batch.id or 'a batch not seen yet'}, {requests}, sent {when}"
