"""A folder of judgements: questions that people asked, and how well documents answer them.

    queries.jsonl   {"_id": ID, "text": TEXT} a line, as BEIR has them
    qrels.trec      ID 0 DOCUMENT GRADE a line, as TREC has them; the last line of a pair counts

Lines are only ever appended: one process at a time, one write and one flush to the disk a line. So a crash can tear the
last line only, which the next write removes. It is passed over until then.
"""

import json
import os
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from ragindex._util.canonical import digest
from ragindex._util.durable_files import fsync
from ragindex._util.ids import escape_field, unescape_field
from ragindex.errors import DataError, StoreError, UsageError

QUERIES_FILE, QRELS_FILE = "queries.jsonl", "qrels.trec"
GRADES = {0: "no", 1: "partly", 2: "yes"}
"""Whether a document answers a question, by grade."""
LONGEST_QUESTION, LONGEST_ID = 8_000, 2_000  # characters
_LONGEST_LINE, _LARGEST_FILE = 1 << 17, 1 << 26  # bytes; no line of the longest question or id is longer
_LOCK_SECONDS = 30.0

_Line = TypeVar("_Line")


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """A question, and the grades of the documents that were judged for it, by document id."""

    text: str
    grades: Mapping[str, int]


def question_id(question: str) -> str:
    """Return the id of a question: 16 hexadecimal digits of a hash of its NFC-normalized text."""
    return digest(unicodedata.normalize("NFC", question))


def add_judgement(folder: Path, question: str, document_id: str, grade: int) -> str:
    """Append a judgement, which is on the disk on return; return the question's id. The folder is made if need be.

    Raises UsageError for a grade, question or id that cannot be kept, DataError for a damaged file, and StoreError.
    """
    text = unicodedata.normalize("NFC", question)  # which can be longer than the question
    _require_text("question", text, LONGEST_QUESTION)
    _require_text("document id", document_id, LONGEST_ID)
    if type(grade) is not int or grade not in GRADES:
        raise UsageError(f"A grade must be one of {', '.join(map(str, GRADES))}. Got {grade!r} instead.")
    id = question_id(question)
    with _locked(folder):
        if id not in {known for known, _ in _read_lines(folder / QUERIES_FILE, _parse_query)}:
            line = json.dumps({"_id": id, "text": text}, ensure_ascii=False)
            _append_line(folder / QUERIES_FILE, line, _parse_query)
        _append_line(folder / QRELS_FILE, f"{id} 0 {escape_field(document_id)} {grade}", _parse_judgement)
    return id


def read_judgements(folder: Path) -> dict[str, JudgedQuestion]:
    """Return the questions of a folder by id, in the order in which they were first asked.

    A question without judgements has no grades. Raises DataError with file and line for what cannot be read.
    """
    if not (folder / QUERIES_FILE).is_file():
        raise DataError(f"{QUERIES_FILE} and {QRELS_FILE}", f"no {QUERIES_FILE}", path=folder)
    # In the other order than they are written: the question of each judgement that is read is in its file by then.
    judged = _read_lines(folder / QRELS_FILE, _parse_judgement)
    texts: dict[str, str] = {}
    for number, (id, text) in enumerate(_read_lines(folder / QUERIES_FILE, _parse_query), start=1):
        if texts.setdefault(id, text) != text:
            raise DataError("one text a question", f"a second one for {id!r}", path=folder / QUERIES_FILE, line=number)
    grades: dict[str, dict[str, int]] = {id: {} for id in texts}
    for number, (id, document_id, grade) in enumerate(judged, start=1):
        if id not in grades:
            expected = f"the id of a question in {QUERIES_FILE}"
            raise DataError(expected, repr(id), path=folder / QRELS_FILE, line=number)
        grades[id][document_id] = grade
    return {id: JudgedQuestion(text, grades[id]) for id, text in texts.items()}


def _require_text(what: str, text: str, longest: int) -> None:
    """Raise UsageError for a text that is blank, too long, or that UTF-8 cannot encode."""
    if not text.strip():
        raise UsageError(f"The {what} is empty.")
    if len(text) > longest:
        raise UsageError(f"A {what} must have at most {longest} characters. Got {len(text)}.")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise UsageError(f"A {what} must be text that UTF-8 can encode. Got a lone surrogate.")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Make the folder, and keep other writers out of it. Raises StoreError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "judgements.lock", timeout=_LOCK_SECONDS):
            yield
    except Timeout:
        raise StoreError(f"Another process has written to {folder} for {_LOCK_SECONDS:g} seconds.") from None
    except OSError as error:
        raise StoreError(f"The judgement could not be written to {folder}: {error.strerror or error}.") from error


def _read_lines(path: Path, parse: Callable[[bytes, Path, int], _Line]) -> list[_Line]:
    """Parse the lines of a file, none if it does not exist; a torn last one is left out. Raises DataError."""
    try:
        if path.exists() and path.stat().st_size > _LARGEST_FILE:
            raise DataError(f"at most {_LARGEST_FILE} bytes", "more", path=path)
        content = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise DataError("a readable file", error.strerror or str(error), path=path) from error
    *lines, last = content.split(b"\n")
    parsed = [parse(line, path, number) for number, line in enumerate(lines, start=1)]
    return parsed if _is_torn(last, path, parse) else [*parsed, parse(last, path, len(lines) + 1)]


def _is_torn(last: bytes, path: Path, parse: Callable[[bytes, Path, int], _Line]) -> bool:
    """Return whether the bytes after the last newline are no whole line; each whole line ends as no part of it does."""
    try:
        parse(last, path, 0)
        return False
    except DataError:
        return True


def _append_line(path: Path, line: str, parse: Callable[[bytes, Path, int], _Line]) -> None:
    """Append a line after removing a torn one, or ending a whole one. Raises OSError and DataError."""
    with path.open("r+b" if path.exists() else "x+b") as file:
        end = file.seek(0, os.SEEK_END)
        start = file.seek(max(0, end - _LONGEST_LINE))
        *before, last = file.read().split(b"\n")
        if start and not before:
            raise DataError(f"lines of at most {_LONGEST_LINE} bytes", "a longer one", path=path)
        torn = _is_torn(last, path, parse)
        if torn:
            file.truncate(end - len(last))
        file.seek(0, os.SEEK_END)
        added = (b"" if torn else b"\n") + line.encode() + b"\n"
        if file.tell() + len(added) > _LARGEST_FILE:
            raise DataError(f"room for another line in {_LARGEST_FILE} bytes", "none; use another folder", path=path)
        file.write(added)
        file.flush()
        os.fsync(file.fileno())
    fsync(path.parent)  # always: who made the file may have been killed before this


def _parse_query(line: bytes, path: Path, number: int) -> tuple[str, str]:
    try:
        value = json.loads(line)
        id, text = value["_id"], value["text"]
        if not (isinstance(id, str) and isinstance(text, str) and text.strip() and len(text) <= LONGEST_QUESTION):
            raise ValueError
        _require_id(id)
        text.encode()
        return id, text
    except (ValueError, KeyError, TypeError, RecursionError):
        expected = '{"_id": ID, "text": TEXT} with texts of 1 to 8,000 characters'
        raise DataError(expected, _shown(line), path=path, line=number) from None


def _parse_judgement(line: bytes, path: Path, number: int) -> tuple[str, str, int]:
    try:
        id, _, document_id, grade = line.decode().split()
        if grade not in map(str, GRADES):
            raise ValueError
        document_id = unescape_field(document_id)
        _require_id(document_id)
        return unescape_field(id), document_id, int(grade)
    except ValueError:
        grades = ", ".join(f"{grade} ({meaning})" for grade, meaning in GRADES.items())
        expected = f"question id, 0, document id and a grade of {grades}, with spaces between"
        raise DataError(expected, _shown(line), path=path, line=number) from None


def _require_id(id: str) -> None:
    """Raise ValueError for an id that is blank, too long, or that UTF-8 cannot encode."""
    if not id.strip() or len(id) > LONGEST_ID:
        raise ValueError
    id.encode()


def _shown(line: bytes) -> str:
    return repr(line[:80].decode("utf-8", "replace"))
