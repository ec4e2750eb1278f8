"""Judgements kept in a folder: what is read is what was added, whatever its letters, and after a kill at any byte."""

import json
import threading
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex._util.ids import escape_field, unescape_field
from ragindex.corpus import judgements
from ragindex.corpus.judgements import (
    QRELS_FILE,
    QUERIES_FILE,
    JudgedQuestion,
    add_judgement,
    question_id,
    read_judgements,
)
from ragindex.errors import DataError, UsageError

TEXTS = st.text(min_size=1, max_size=30).filter(str.strip)
GRADED = st.lists(st.tuples(TEXTS, TEXTS, st.integers(0, 2)), min_size=1, max_size=8)


def test_a_judgement_is_a_line_of_each_file(tmp_path: Path) -> None:
    id = add_judgement(tmp_path / "new", "Who built it?", "notes/a b%.md", 2)
    add_judgement(tmp_path / "new", "Who built it?", "other.md", 0)
    assert (tmp_path / "new" / QUERIES_FILE).read_text() == f'{{"_id": "{id}", "text": "Who built it?"}}\n'
    assert (tmp_path / "new" / QRELS_FILE).read_text() == f"{id} 0 notes/a%20b%25.md 2\n{id} 0 other.md 0\n"
    judged = JudgedQuestion("Who built it?", {"notes/a b%.md": 2, "other.md": 0})
    assert read_judgements(tmp_path / "new") == {id: judged}


def test_a_question_has_one_id_in_both_normal_forms_and_a_later_grade_wins(tmp_path: Path) -> None:
    composed, decomposed = "Où ?", unicodedata.normalize("NFD", "Où ?")
    assert composed != decomposed
    assert add_judgement(tmp_path, decomposed, "a", 2) == add_judgement(tmp_path, composed, "a", 1)
    assert read_judgements(tmp_path) == {question_id(composed): JudgedQuestion(composed, {"a": 1})}


@given(GRADED)
@settings(max_examples=examples(25), phases=[Phase.generate])  # each writes to the disk
def test_any_question_and_id_comes_back(given_judgements: list[tuple[str, str, int]]) -> None:
    with TemporaryDirectory() as name:
        expected: dict[str, JudgedQuestion] = {}
        for question, document, grade in given_judgements:
            id, text = add_judgement(Path(name), question, document, grade), unicodedata.normalize("NFC", question)
            before = expected.get(id, JudgedQuestion(text, {}))
            expected[id] = JudgedQuestion(text, {**before.grades, document: grade})
        assert read_judgements(Path(name)) == expected


@given(st.text(max_size=30))
def test_an_escaped_field_is_one_word_and_comes_back(text: str) -> None:
    assert escape_field(text).split() == ([escape_field(text)] if text else [])
    assert unescape_field(escape_field(text)) == text


@pytest.mark.parametrize("file", [QRELS_FILE, QUERIES_FILE])
@pytest.mark.parametrize(("question", "id"), [("A?", "a"), ("Où?\u2028日", "né e\x1c日%.md")])
def test_a_kill_at_any_byte_of_the_last_line_loses_that_line_only(
    tmp_path: Path, question: str, id: str, file: str
) -> None:
    """And what is added afterwards is kept. A line that lacks only its end is whole."""
    add_judgement(tmp_path, "First?", id, 1)
    before, start = read_judgements(tmp_path), (tmp_path / file).stat().st_size
    qrels = (tmp_path / QRELS_FILE).read_bytes()
    later = add_judgement(tmp_path, question, f"{id}2", 2)
    complete, written = read_judgements(tmp_path), (tmp_path / file).read_bytes()
    unjudged = {**before, later: JudgedQuestion(complete[later].text, {})}
    for end in range(start, len(written)):
        if file == QUERIES_FILE:  # the judgement follows its question, so it was not written
            (tmp_path / QRELS_FILE).write_bytes(qrels)
        (tmp_path / file).write_bytes(written[:end])
        ended = end == len(written) - 1
        lost, remaining = (unjudged, complete) if file == QRELS_FILE else (before, unjudged)
        assert read_judgements(tmp_path) == (remaining if ended else lost)
        add_judgement(tmp_path, question, f"{id}2", 2)
        assert read_judgements(tmp_path) == complete


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    jobs = [(f"Question {number % 7}?", f"d{number}", number % 3) for number in range(60)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda job: add_judgement(tmp_path, *job), jobs))
    written = read_judgements(tmp_path)
    assert sorted(question.text for question in written.values()) == [f"Question {number}?" for number in range(7)]
    judged = {(question.text, id, grade) for question in written.values() for id, grade in question.grades.items()}
    assert judged == set(jobs)


@pytest.mark.parametrize(
    ("question", "document", "grade", "message"),
    [
        ("  ", "d", 1, "question is empty"),
        ("q", "", 1, "document id is empty"),
        ("q" * 8_001, "d", 1, "at most 8000 characters. Got 8001"),
        ("\ufb2c" * 3_000, "d", 1, "at most 8000 characters. Got 9000"),  # three characters each in NFC
        ("q", "d" * 2_001, 1, "at most 2000 characters. Got 2001"),
        ("q", "d", 3, "one of 0, 1, 2. Got 3"),
        ("q", "d", True, "one of 0, 1, 2. Got True"),
        ("q\ud800", "d", 1, "lone surrogate"),
    ],
)
def test_what_cannot_be_kept_is_refused(tmp_path: Path, question: str, document: str, grade: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        add_judgement(tmp_path / "none", question, document, grade)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("file", "lines", "line", "message"),
    [
        (QUERIES_FILE, b'{"_id": "a", "text": "t"}\n{"_id": 3, "text": "t"}\n', 2, '"_id": ID'),
        (QUERIES_FILE, b'{"_id": "a", "text": "t"}\n{"_id": "a", "text": "u"}\n', 2, "one text a question"),
        (QUERIES_FILE, b"[" * 100_000 + b"\n", 1, '"_id": ID'),
        (QUERIES_FILE, b'{"_id": "a", "text": "\\ud800"}\n', 1, '"_id": ID'),
        (QRELS_FILE, b"a 0 d 1\na 0 d 3\n", 2, "a grade of 0 .no., 1 .partly., 2 .yes."),
        (QRELS_FILE, b"a 0 d\n", 1, "a grade of"),
        (QRELS_FILE, b"a 0 %FF 1\n", 1, "a grade of"),
        (QRELS_FILE, b"a 0 \xff 1\n", 1, "a grade of"),
        (QRELS_FILE, b"b 0 d 1\n", 1, "the id of a question in queries.jsonl"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, file: str, lines: bytes, line: int, message: str) -> None:
    (tmp_path / QUERIES_FILE).write_text('{"_id": "a", "text": "t"}\n')
    (tmp_path / file).write_bytes(lines)
    with pytest.raises(DataError, match=message) as raised:
        read_judgements(tmp_path)
    assert (raised.value.path, raised.value.line) == (tmp_path / file, line)


def test_what_is_read_while_somebody_writes_is_whole(tmp_path: Path) -> None:
    add_judgement(tmp_path, "first?", "d", 1)

    def write() -> None:
        for number in range(150):
            add_judgement(tmp_path, f"new {number}?", "d", 2)

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        assert "first?" in {judgement.text for judgement in read_judgements(tmp_path).values()}
    writer.join()
    assert len(read_judgements(tmp_path)) == 151


def test_a_folder_without_judgements_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no queries.jsonl"):
        read_judgements(tmp_path)


def test_files_beyond_their_bound_are_neither_read_nor_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    id = add_judgement(tmp_path, "q", "d", 1)
    monkeypatch.setattr(judgements, "_LARGEST_FILE", (tmp_path / QUERIES_FILE).stat().st_size)
    qrels = (tmp_path / QRELS_FILE).read_bytes()
    with pytest.raises(DataError, match="room for another line"):
        for _ in range(3):
            add_judgement(tmp_path, "q", "d", 1)
    assert (tmp_path / QRELS_FILE).read_bytes() in (qrels, qrels * 2)
    assert json.loads((tmp_path / QUERIES_FILE).read_text())["_id"] == id
    monkeypatch.setattr(judgements, "_LARGEST_FILE", 10)
    with pytest.raises(DataError, match="at most 10 bytes"):
        read_judgements(tmp_path)
