"""Helpers for commands that change documents: reading DATA, and reporting what was left out."""

from collections.abc import Sequence
from pathlib import Path

from ragindex._util.text import many
from ragindex.cli.console import print_note
from ragindex.corpus import (
    Corpus,
    FileSelection,
    describe_encodings,
    describe_ignored,
    describe_left_out,
    read_selected,
)
from ragindex.corpus.readers.rows import parse_rows
from ragindex.errors import LeftOutError
from ragindex.index.manifest import require_apart


def select_files(
    include: Sequence[str] | None,
    exclude: Sequence[str] | None,
    encoding: str | None,
    max_file_mb: float,
    ocr: bool,
    rows: str | None,
) -> FileSelection:
    """Return the selection that the flags of a command describe. Raises UsageError."""
    return FileSelection(tuple(include or ()), tuple(exclude or ()), encoding, max_file_mb, ocr, parse_rows(rows))


def read_corpus(data: str, folder: Path, format: str | None, skip_bad: bool | None, selection: FileSelection) -> Corpus:
    """Read the documents of DATA for the index in `folder`; print notes on ignored and duplicate ones.

    Raises the errors of `ragindex.read`, and UsageError if DATA and the index contain one another.
    """
    corpus = read_selected(data, format=format, skip_bad=skip_bad, selection=selection)
    require_apart(folder, data, corpus)
    for note in (
        *describe_encodings(corpus.encodings),
        *describe_ignored(corpus.ignored, corpus.unread),
        *corpus.notes,
    ):
        print_note(note)
    if corpus.repeats:
        print_note(f"ignored: {many(corpus.repeats, 'duplicate document')}")
    return corpus


def report_skipped(corpora: Sequence[Corpus], skip_bad: bool | None) -> None:
    """Print why documents were skipped, after the work. Raises LeftOutError unless `skip_bad` asked for it."""
    skipped = [reason for corpus in corpora for reason in corpus.skipped]
    for sentence in describe_left_out(skipped):
        print_note(sentence)
    if skipped and skip_bad is None:
        raise LeftOutError(len(skipped))
