"""The command `read`: show what is read of each file of a folder, without an index."""

import math
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from ragindex._util.text import describe_near, find_near_names
from ragindex.cli.console import print_note, stdout, strip_controls, text_table, write_result
from ragindex.cli.options import EncodingOption, ExcludeOption, IncludeOption, JsonOption, MaxFileOption, OcrOption
from ragindex.corpus import FileSelection
from ragindex.corpus.corpus import describe_ignored, describe_left_out
from ragindex.corpus.file_selection import NamedOptions
from ragindex.corpus.json_reader import Problems
from ragindex.corpus.local_files import is_taken_whole, list_folder, name_file, name_reader_of, read_files
from ragindex.corpus.readers.content import FileContent
from ragindex.corpus.readers.meter import find_words
from ragindex.errors import DataError, UsageError
from ragindex.types import HYPERLINKS

_COLUMNS = ("file", "reader", "words", "share", "pages", "headings", "tables", "links", "notes")


def read(
    data: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder of documents, or one file.")],
    include: IncludeOption = None,
    exclude: ExcludeOption = None,
    encoding: EncodingOption = None,
    max_file_mb: MaxFileOption = None,
    ocr: OcrOption = False,
    show: Annotated[
        str | None, typer.Option("--show", metavar="FILE", help="Print what is read of this file of the folder.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Show what is read of each file: words, the share of the file's words, pages, headings, tables, links, notes.

    Files that are left out are listed with the reason. Nothing is written, and no index is needed.

    Example: ragindex read my-documents/ --show report.docx
    """
    selection = NamedOptions(include, exclude, encoding, max_file_mb, ocr).change(FileSelection())
    if not data.exists():
        raise DataError("a folder or a file", "no such path", path=data)
    problems, root = Problems(skip_bad=True), data if data.is_dir() else data.parent
    listing = list_folder(data, problems, selection)
    files = {name_file(file, root): file for file in listing.files}
    if show is not None:
        _show_file(*_find_file(files, show), selection, json)
        return
    contents = _read_contents(files, root, selection, problems)
    rows = [_describe_file(name, files[name], content) for name, content in contents.items()]
    skipped = [{"file": name_file(Path(problem.path), root), "reason": problem.reason} for problem in problems.left_out]
    passed_over = [{"file": name, "reason": reason} for name, reason in listing.unread().items()]
    ignored = describe_ignored(Counter(listing.ignored.values()), listing.unread())

    def print_files() -> None:
        stdout().print(text_table(_COLUMNS, list(map(_format_row, rows))))
        for note in (f"{row['file']}: {note}" for row in rows for note in row["notes"]):
            stdout().print(Text(strip_controls(note)), soft_wrap=True)
        for sentence in (*describe_left_out(problems.left_out), *ignored, *listing.notes()):
            print_note(sentence)

    write_result({"files": rows, "left_out": [*skipped, *passed_over]}, json, print_files)


def _read_contents(
    files: Mapping[str, Path], root: Path, selection: FileSelection, problems: Problems
) -> dict[str, FileContent]:
    contents = dict[str, FileContent]()
    with closing(read_files(list(files.values()), root, selection)) as results:
        for result, file in results:
            if isinstance(result, DataError):
                problems.note(result)
            else:
                contents[name_file(file, root)] = result
    return contents


def _show_file(name: str, file: Path, selection: FileSelection, json: str | None) -> None:
    (content,) = _read_contents({name: file}, file.parent, selection, Problems(skip_bad=False)).values()
    value = {**_describe_file(name, file, content), **_list_text(content)}
    write_result(value, json, lambda: _print_text(content))


def _find_file(files: Mapping[str, Path], name: str) -> tuple[str, Path]:
    """Return name and path of the file that is named as in the folder, or by its path. Raises UsageError."""
    normal_name = unicodedata.normalize("NFC", name)
    by_path = next((file_name for file_name, file in files.items() if file == Path(name)), None)
    name_in_files = normal_name if normal_name in files else by_path
    if name_in_files is None:
        near = describe_near(find_near_names(name, files))
        raise UsageError(f"--show must name a file of the folder that can be read. Got {name!r}{near and f': {near}'}.")
    return name_in_files, files[name_in_files]


def _describe_file(name: str, file: Path, content: FileContent) -> dict[str, Any]:
    """Return what is known of the text that was read of a file, with the documents inside of it."""
    inner = [document for _, document in content.inner]
    blocks = [document.text[start:end] for document in (content, *inner) for start, end in document.blocks]
    links = content.metadata.get(HYPERLINKS, ())
    headings = [section.headings for section in content.sections]
    share = 1.0 if is_taken_whole(file) else None
    return {
        "file": name,
        "format": file.suffix.lower().removeprefix(".") or "txt",
        "reader": name_reader_of(file),
        "words": sum(len(find_words(document.text)) for document in (content, *inner)),
        "share": share if content.reading is None else round(content.reading.share, 4),
        "pages": len({section.page for section in content.sections} - {None}),
        "headings": sum(1 for before, after in pairwise([(), *headings]) if after and after != before),
        "tables": sum(1 for block in blocks if block.lstrip().startswith("|")),
        "links": len(links) if isinstance(links, Sequence) else 0,
        "lost": [] if content.reading is None else list(content.reading.lost),
        "places": [] if content.reading is None else list(content.reading.places),
        "left_out_on_purpose": 0 if content.reading is None else content.reading.left_out,
        "notes": list(content.notes),
    }


def _format_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    share = "–" if row["share"] is None else f"{math.floor(100 * row['share'])} %"
    counts = (f"{row[column]:,}" if row[column] else "" for column in ("pages", "headings", "tables", "links"))
    return (row["file"], row["reader"], f"{row['words']:,}", share, *counts, str(len(row["notes"]) or ""))


def _print_text(content: FileContent) -> None:
    """Print title, notes and text, with a line for each section that names its page and headings."""
    stdout().print(Text(strip_controls(content.title or "(no title)"), "bold"))
    for note in content.notes:
        print_note(note)
    starts = [section.start for section in content.sections]
    stdout().print(Text(strip_controls(content.text[: starts[0] if starts else None])), soft_wrap=True)
    for section, (start, end) in zip(content.sections, pairwise([*starts, len(content.text)]), strict=True):
        page = [] if section.page is None else [f"page {section.page}"]
        stdout().print(Text(strip_controls(f"[{' · '.join([*page, *section.headings])}]"), "dim"), soft_wrap=True)
        stdout().print(Text(strip_controls(content.text[start:end].strip("\n"))), soft_wrap=True)
    for name, inner in content.inner:
        stdout().print(Text(strip_controls(f"[{name}]"), "dim"), soft_wrap=True)
        _print_text(inner)


def _list_text(content: FileContent) -> dict[str, Any]:
    return {
        "title": content.title,
        "text": content.text,
        "sections": [
            {"start": section.start, "headings": section.headings, "page": section.page} for section in content.sections
        ],
        "inner": {name: _list_text(inner) for name, inner in content.inner},
    }
