"""Helpers for commands that change documents: reading DATA, and reporting the changes."""

from collections.abc import Sequence
from pathlib import Path

from ragindex.cli.console import print_note
from ragindex.corpus import Corpus, FileSelection, read_selected
from ragindex.counts import many
from ragindex.errors import LeftOutError
from ragindex.workspace.documents import Changed
from ragindex.workspace.settings import require_apart

MAX_NAMED = 5
"""Largest number of document ids that a message lists."""


def select_files(
    include: Sequence[str] | None, exclude: Sequence[str] | None, encoding: str | None, max_file_mb: float
) -> FileSelection:
    """Return the selection that the flags of a command describe. Raises UsageError."""
    return FileSelection(tuple(include or ()), tuple(exclude or ()), encoding, max_file_mb)


def read_corpus(data: str, folder: Path, format: str | None, skip_bad: bool | None, selection: FileSelection) -> Corpus:
    """Read the documents of DATA for the index in `folder`; print notes on ignored and duplicate ones.

    Raises the errors of `ragindex.read`, and UsageError if DATA and the index contain one another.
    """
    corpus = read_selected(data, format=format, skip_bad=skip_bad, selection=selection)
    require_apart(folder, data, corpus)
    for encoding, ids in corpus.encodings.items():
        print_note(f"read as {encoding}: {len(ids)}{_format_names(ids)}")
    for suffix, count in sorted(corpus.ignored.items()):
        print_note(f"ignored: {many(count, f'{suffix} file')}")
    for note in corpus.notes:
        print_note(note)
    if corpus.repeats:
        print_note(f"ignored: {many(corpus.repeats, 'duplicate document')}")
    return corpus


def report_skipped(corpora: Sequence[Corpus], skip_bad: bool | None) -> None:
    """Print why documents were skipped, after the work. Raises LeftOutError unless `skip_bad` asked for it."""
    skipped = [message for corpus in corpora for message in corpus.skipped]
    for message in skipped:
        print_note(f"skipped: {message}")
    if skipped and skip_bad is None:
        raise LeftOutError(len(skipped))


def format_changes(changed: Changed) -> str:
    """Return how many documents were added, changed and removed, with the first ids, or that nothing changed."""
    if not changed.added + changed.changed + changed.removed:
        return f"nothing changed in {many(changed.unchanged, 'document')}"
    added = _format_names(changed.new) if changed.changed + changed.unchanged else ""
    counts = (
        (changed.added, f"added{added}"),
        (changed.changed, f"changed{_format_names(changed.replaced)}"),
        (changed.removed, f"removed{_format_names(changed.gone)}"),
        (changed.unchanged, "unchanged"),
    )
    first, *others = [(count, what) for count, what in counts if count]
    return ", ".join([f"{many(first[0], 'document')} {first[1]}", *(f"{count:,} {what}" for count, what in others)])


def _format_names(ids: Sequence[str]) -> str:
    return f" ({', '.join(ids[:MAX_NAMED])}{', …' if len(ids) > MAX_NAMED else ''})" if ids else ""
