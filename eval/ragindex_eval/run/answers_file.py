"""JSON Lines files with the answers of a method, from which a stopped comparison resumes."""

import json
import os
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ragindex._util import durable_files
from ragindex.errors import StoreError
from ragindex_eval.results.json_values import answer_from_json, answer_to_json
from ragindex_eval.results.model import MethodAnswer


def load_answers(path: Path) -> dict[str, MethodAnswer]:
    """Load the answers in a file by the keys that they are saved under; {} if there is no file.

    Damaged lines, such as one cut short by a crash, are removed from the file, so their questions are asked again.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return {}
    parsed = [(line, _parse(line)) for line in lines if line]
    whole = [(line, answer) for line, answer in parsed if answer is not None]
    if len(whole) < len(parsed) or lines[-1]:
        answered = path.stat()
        write_whole(path, b"".join(line + b"\n" for line, _ in whole))
        os.utime(path, ns=(answered.st_atime_ns, answered.st_mtime_ns))  # a note reports when the answers were given
    return {answer.query_id: answer for _, answer in whole}


def find_answers(path: Path, keys: Mapping[str, str]) -> dict[str, MethodAnswer]:
    """Return the answers in a file to the questions that have these keys, by the id of the question."""
    answers = load_answers(path)
    return {id: replace(answers[key], query_id=id) for id, key in keys.items() if key in answers}


def delete_answers(path: Path, keys: Container[str]) -> None:
    """Delete the answers with these keys from a file, atomically: the others may be paid for. Raises StoreError."""
    answers = load_answers(path)
    others = [answer for key, answer in answers.items() if key not in keys]
    if len(others) < len(answers):
        write_whole(path, _write_lines(others))


def append_answers(path: Path, answers: Iterable[MethodAnswer]) -> None:
    """Append answers to a file, and create it if it is missing. Raises StoreError if it cannot be written."""
    lines = _write_lines(answers)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(lines)
    except OSError as error:
        raise _not_writable_error(path, error) from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically, and create its folder. Raises StoreError if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        durable_files.write_file(path, content)
    except OSError as error:
        raise _not_writable_error(path, error) from error


def _write_lines(answers: Iterable[MethodAnswer]) -> bytes:
    values = (json.dumps(answer_to_json(answer), ensure_ascii=False) for answer in answers)
    return b"".join(map(durable_files.hash_line, values))


def _not_writable_error(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path.name} could not be written in {path.parent}: {error.strerror or error}.")


def _parse(line: bytes) -> MethodAnswer | None:
    """Parse a line; None if it is damaged or was written by an earlier version."""
    try:
        return answer_from_json(json.loads(durable_files.verify_line(line) or ""))
    except ValueError:
        return None


# ---------------------------------------------------------------- answers of earlier runs


@dataclass(frozen=True, slots=True)
class EarlierAnswers:
    """Number of answers from an earlier run, and the time `at` of the last one in seconds since the epoch."""

    count: int
    at: float


def earlier_answers(path: Path, keys: Mapping[str, str]) -> EarlierAnswers | None:
    """Count the answers in a file to the questions that have these keys; None if there are none."""
    answers = find_answers(path, keys)
    return EarlierAnswers(len(answers), path.stat().st_mtime) if answers else None


def note_of_earlier(by_label: Mapping[str, EarlierAnswers]) -> str | None:
    """Return a sentence on the answers of earlier runs, by method; None if there are none."""
    methods: dict[tuple[int, str], list[str]] = {}
    for label, one in by_label.items():
        methods.setdefault((one.count, format_time(one.at)), []).append(label)
    if not methods:
        return None
    groups = [
        f"{', '.join(labels)}: {count} answer{'s' * (count != 1)}{' each' * (len(labels) > 1)} read from {moment}"
        for (count, moment), labels in methods.items()
    ]
    return f"{'; '.join(groups)}; --fresh asks again"


def format_time(at: float) -> str:
    """Format a time as time of day, with the date unless it is today."""
    moment, now = datetime.fromtimestamp(at).astimezone(), datetime.now().astimezone()
    return f"{moment:%H:%M}" if moment.date() == now.date() else f"{moment:%Y-%m-%d %H:%M}"
