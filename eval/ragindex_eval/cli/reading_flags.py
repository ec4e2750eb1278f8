"""The flags that say how documents are read, for the commands that other commands suggest."""

from ragindex.corpus.file_selection import MAX_FILE_MB, FileSelection
from ragindex_eval.run.settings import CompareSettings


def list_flags(format: str | None, selection: FileSelection) -> list[str]:
    """Return the flags that differ from their defaults, with their values."""
    given = (
        ("--format", format),
        *(("--include", pattern) for pattern in selection.include),
        *(("--exclude", pattern) for pattern in selection.exclude),
        ("--encoding", selection.encoding),
        ("--max-file-mb", f"{selection.max_file_mb:g}" if selection.max_file_mb != MAX_FILE_MB else None),
    )
    rows = [] if selection.rows is None else ["--rows", *filter(None, [str(selection.rows)])]
    return [*(word for flag, value in given if value for word in (flag, value)), *["--ocr"] * selection.ocr, *rows]


def list_reading_flags(settings: CompareSettings) -> list[str]:
    """Return the flags that say how the documents of some settings are read."""
    return list_flags(settings.format, settings.selected_files())
