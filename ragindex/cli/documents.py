"""Helpers for commands that change documents: reading DATA, and reporting what was left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ragindex._util.text import many
from ragindex.cli.console import print_note
from ragindex.cli.options import (
    EncodingOption,
    ExcludeOption,
    FormatOption,
    IncludeOption,
    MaxFileOption,
    OcrOption,
    RowsOption,
    SkipBadOption,
)
from ragindex.corpus import (
    Corpus,
    FileSelection,
    describe_encodings,
    describe_ignored,
    describe_left_out,
    read_selected,
)
from ragindex.corpus.local_files import MAX_FILE_MB
from ragindex.corpus.readers.rows import parse_rows
from ragindex.errors import LeftOutError
from ragindex.index.manifest import require_apart


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """How the documents of DATA are read."""

    format: FormatOption = None
    skip_bad: SkipBadOption = None
    include: IncludeOption = None
    exclude: ExcludeOption = None
    encoding: EncodingOption = None
    max_file_mb: MaxFileOption = MAX_FILE_MB
    ocr: OcrOption = False
    rows: RowsOption = None

    def select_files(self) -> FileSelection:
        """Return which files of a folder are read, and how. Raises UsageError."""
        include, exclude = tuple(self.include or ()), tuple(self.exclude or ())
        return FileSelection(include, exclude, self.encoding, self.max_file_mb, self.ocr, parse_rows(self.rows))


def read_corpus(data: str, folder: Path, reading: ReadingOptions) -> Corpus:
    """Read the documents of DATA for the index in `folder`; print notes on ignored and duplicate ones.

    Raises the errors of `ragindex.read`, and UsageError if DATA and the index contain one another.
    """
    selection = reading.select_files()
    corpus = read_selected(data, format=reading.format, skip_bad=reading.skip_bad, selection=selection)
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
