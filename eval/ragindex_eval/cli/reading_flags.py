"""The flags that say how documents are read, for the commands that other commands suggest."""

from ragindex.cli.console import quote_argument
from ragindex.corpus.local_files import MAX_FILE_MB, FileSelection
from ragindex_eval.run.settings import CompareSettings


def quote_reading_flags(format: str | None, language: str | None, selection: FileSelection) -> str:
    """Return the flags that differ from their defaults, each after a space."""
    given = (
        ("--format", format),
        *(("--include", pattern) for pattern in selection.include),
        *(("--exclude", pattern) for pattern in selection.exclude),
        ("--encoding", selection.encoding),
        ("--max-file-mb", f"{selection.max_file_mb:g}" if selection.max_file_mb != MAX_FILE_MB else None),
        ("--language", language),
    )
    return "".join(f" {flag} {quote_argument(value)}" for flag, value in given if value)


def quote_flags_of(settings: CompareSettings) -> str:
    """Return the flags that say how the documents of some settings are read."""
    return quote_reading_flags(settings.format, settings.language, settings.selected_files())
