"""JSON Lines files with the answers of a method, from which a stopped comparison resumes, and what these depend on."""

import json
import os
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ragindex._util import canonical, durable_files
from ragindex.errors import StoreError
from ragindex.index.index import Index
from ragindex.interfaces import Scheme
from ragindex.types import Query
from ragindex_eval.data.gold import Gold, own_documents
from ragindex_eval.results.model import RESULT_SCHEMA, MethodAnswer


def load_answers(path: Path) -> dict[str, MethodAnswer]:
    """Load the answers in a file by the keys that they are saved under; {} if there is no file.

    Damaged lines, such as one cut short by a crash, are removed from the file, so their questions are asked again.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return {}
    parsed = [(line, _parse(line)) for line in lines if line]
    intact = [(line, answer) for line, answer in parsed if answer is not None]
    if len(intact) < len(parsed) or lines[-1]:
        answered = path.stat()
        write_whole(path, b"".join(line + b"\n" for line, _ in intact))
        os.utime(path, ns=(answered.st_atime_ns, answered.st_mtime_ns))  # a note reports when the answers were given
    return {answer.query_id: answer for _, answer in intact}


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
    values = (json.dumps(answer.to_json(), ensure_ascii=False) for answer in answers)
    return b"".join(map(durable_files.hash_line, values))


def _not_writable_error(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path.name} could not be written in {path.parent}: {error.strerror or error}.")


def _parse(line: bytes) -> MethodAnswer | None:
    """Parse a line; None if it is damaged or was written by an earlier version."""
    try:
        return MethodAnswer.from_json(json.loads(durable_files.verify_line(line) or ""))
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
    for label, earlier in by_label.items():
        methods.setdefault((earlier.count, format_time(earlier.at)), []).append(label)
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


# ---------------------------------------------------------------- what answers depend on


def answers_fingerprint(index: Index, scheme: Scheme, queries: Sequence[Query], gold: Mapping[str, Gold] | None) -> str:
    """Return a hash of all that the answers of a method to the questions depend on; of the gold, the own documents."""
    own = own_documents(gold)
    questions = [questions_fingerprint(queries), RESULT_SCHEMA, *([own] if own else [])]
    return canonical.digest([index.result_fingerprint(scheme), *questions])


def rankings_fingerprint(index: Index, scheme: Scheme) -> str:
    """Return a hash of all that the answers of a method to any questions depend on, beside `answer_keys`."""
    return canonical.digest([index.result_fingerprint(scheme), RESULT_SCHEMA])


def answer_keys(queries: Iterable[Query], gold: Mapping[str, Gold] | None) -> dict[str, str]:
    """Return a hash of all that an answer depends on of its question, by the question's id.

    It is the same wherever the question stands, so that answers are found again among more questions.
    """
    none = Gold(frozenset())
    keys = dict[str, str]()
    for query in queries:
        right = none if gold is None else gold.get(query.id, none)
        read = [list(right.options), bool(right.sub_questions)]
        keys[query.id] = canonical.digest([query.text, repr(query.filter), right.own_document, *read])
    return keys


def questions_fingerprint(queries: Sequence[Query]) -> str:
    """Return a hash of the questions, in order, with their ids and filters."""
    return canonical.digest([[query.id, query.text, repr(query.filter)] for query in queries])


def answers_folder(index: Index, scheme: Scheme) -> Path:
    """Return the folder of a method's answers to any questions."""
    return index.folder / "runs" / rankings_fingerprint(index, scheme)
