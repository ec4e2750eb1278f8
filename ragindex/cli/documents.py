"""Helpers for commands that change documents: reading DATA, and reporting what was left out."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ragindex._util.text import many
from ragindex.cli.console import explain_stop, print_note
from ragindex.cli.options import (
    EncodingOption,
    ExcludeOption,
    ForgetOption,
    FormatOption,
    IncludeOption,
    MaxFileOption,
    OcrOption,
    RefOption,
    RowsOption,
    SkipBadOption,
    SkipStubsOption,
)
from ragindex.corpus import (
    Corpus,
    FileSelection,
    describe_encodings,
    describe_ignored,
    describe_left_out,
    read_selected,
)
from ragindex.corpus.file_selection import DataReading, NamedOptions
from ragindex.errors import LeftOutError
from ragindex.index.manifest import read_manifest, require_apart
from ragindex.index.readings import find_commit, find_reading

STOPPED_READING = "Stopped while documents were read, before anything was changed."


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """How the documents of DATA are read."""

    format: FormatOption = None
    skip_bad: SkipBadOption = None
    include: IncludeOption = None
    exclude: ExcludeOption = None
    encoding: EncodingOption = None
    max_file_mb: MaxFileOption = None
    ocr: OcrOption = None
    rows: RowsOption = None
    skip_stubs: SkipStubsOption = None

    @property
    def named(self) -> NamedOptions:
        """The options that the command names."""
        chosen = (self.include, self.exclude, self.encoding, self.max_file_mb, self.ocr, self.rows, self.skip_stubs)
        return NamedOptions(*chosen)

    def select_files(self) -> FileSelection:
        """Return which files of a folder are read, and how. Raises UsageError."""
        return self.named.change(FileSelection())


@dataclass(frozen=True, slots=True)
class SourceOptions(ReadingOptions):
    """How the documents of DATA are read into an index, which remembers it."""

    ref: RefOption = None
    forget_options: ForgetOption = False


@dataclass(frozen=True, slots=True)
class ReadData:
    """The documents of DATA, with the options that an index remembered of it before (None: nothing)."""

    data: str
    corpus: Corpus
    before: DataReading | None = None

    @property
    def changed_options(self) -> str:
        """How the documents are read otherwise than before, as flags; "" if they are not."""
        now = self.corpus.reading
        if self.before is None or now is None:
            return ""
        flags = [shlex.join(options.selection.flags()) or "no options" for options in (self.before, now)]
        return f"{flags[1]} instead of {flags[0]}" if flags[0] != flags[1] else ""


@dataclass(frozen=True, slots=True)
class DataReader:
    """Reads DATA for the index in `folder`: with the options of the command, and with those remembered of a source.

    `name` is that of the source (`--as`).
    """

    folder: Path
    options: SourceOptions
    name: str = ""

    def read(self, data: str) -> ReadData:
        """Read the documents of DATA; print notes on ignored and duplicate ones, and on options that are remembered.

        Raises the errors of `ragindex.read`, and UsageError if DATA and the index contain one another.
        """
        manifest, options = read_manifest(self.folder), self.options
        known = {} if manifest is None else manifest.sources
        remembered = find_reading(known, data, self.name, options.ref)
        before = remembered.options if remembered else None
        base = before if before is not None and not options.forget_options else DataReading(data)
        selection = options.named.change(base.selection)
        if options.named.change(FileSelection(inside=selection.inside)) != selection:  # not all options are named
            print_note(f"{data} is read as before: {shlex.join(selection.flags())}")
        with explain_stop(STOPPED_READING):
            corpus = read_selected(
                data,
                format=options.format or base.format,
                skip_bad=base.skip_bad if options.skip_bad is None else options.skip_bad,
                selection=selection,
                ref=options.ref or base.ref or None,
                since="" if remembered is None else find_commit(known[remembered.source], selection),
            )
        require_apart(self.folder, data, corpus)
        print_reading_notes(corpus)
        return ReadData(data, corpus, before)


def print_reading_notes(corpus: Corpus) -> None:
    """Print notes on the files that are ignored, read in another encoding, or twice the same."""
    for note in (
        *describe_encodings(corpus.encodings),
        *describe_ignored(corpus.ignored, corpus.unread),
        *corpus.notes,
    ):
        print_note(note)
    if corpus.repeats:
        print_note(f"ignored: {many(corpus.repeats, 'duplicate document')}")


def report_skipped(corpora: Sequence[Corpus], skip_bad: bool | None) -> None:
    """Print why documents were skipped, after the work. Raises LeftOutError unless `skip_bad` asked for it."""
    skipped = [reason for corpus in corpora for reason in corpus.skipped]
    for sentence in describe_left_out(skipped):
        print_note(sentence)
    if skipped and skip_bad is None:
        raise LeftOutError(len(skipped))
