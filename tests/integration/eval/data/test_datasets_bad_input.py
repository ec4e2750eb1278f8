"""Whatever is wrong with questions or gold is one clear error, or, with skip_bad, one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest
from comparing import compare

from ragindex.corpus import FileSelection
from ragindex.errors import DataError, UsageError
from ragindex_eval.data.datasets import read_dataset

GOOD: dict[str, Any] = {"question": "Good?", "paragraphs": [{"title": "T", "text": "x", "is_supporting": True}]}


def pair(folder: Path, *items: Any) -> Path:
    (folder / "case_corpus.json").write_text(
        json.dumps([{"title": "T", "text": "x"}, {"title": "Two", "text": "y"}, {"title": "Two", "text": "z"}])
    )
    (folder / "case.json").write_text(json.dumps(items))
    return folder / "case.json"


def own(folder: Path) -> Path:
    for name in ("apples.txt", "one/pears.txt", "two/pears.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"text of {name}")
    return folder


def supporting(**paragraph: Any) -> dict[str, Any]:
    return {"question": "?", "paragraphs": [{"title": "T", "text": "x", "is_supporting": True, **paragraph}]}


NO_GOLD = "gold documents under 'documents', or answerable=no for a question that no document answers; found none."
NOT_IN = "gold that names documents of the corpus; found "
QUESTIONS: list[tuple[Any, str]] = [
    ("?", 'an item to be an object; found "?"'),
    ({**GOOD, "question": "  "}, "a question; found an empty one"),
    ({**GOOD, "question": 3}, "a string under 'question'; found 3"),
    ({"paragraphs": []}, "a string under 'question'; found only the keys 'paragraphs'"),
    ({**GOOD, "question": "\ud800?"}, "a string under 'question' that UTF-8 can hold; found a lone surrogate in"),
    ({**GOOD, "answer": 3}, "a string or an array of strings under 'answer'; found 3"),
    ({**GOOD, "answer_aliases": [None]}, "a string or an array of strings under 'answer_aliases'; found null"),
    ({**GOOD, "type": []}, "a string under 'type'; found []"),
    ({"question": "?"}, "gold under 'paragraphs' or 'supporting_facts'; found only the keys 'question'"),
    ({"question": "?", "paragraphs": []}, "a question with paragraphs; found one without any"),
    (supporting(is_supporting="yes"), "true or false under 'is_supporting'; found \"yes\""),
    (supporting(text="another"), f'{NOT_IN}"T", which is not in it (its text is another)'),
    (supporting(title="Tow"), f"{NOT_IN}\"Tow\", which is not in it (near it is 'Two')"),
    (supporting(title="Nowhere"), f'{NOT_IN}"Nowhere", which is not in it (no similar id)'),
    ({"question": "?", "supporting_facts": [["Nowhere", 0]]}, f'{NOT_IN}"Nowhere", which is not in it'),
    ({"question": "?", "supporting_facts": [["Two", 0]]}, "gold that names one document; 'Two' stands for 2, so give"),
    (
        {"question": "?", "supporting_facts": [["Two", 0]], "context": [["Two", ["other"]]]},
        f'{NOT_IN}"Two", which is not in it (its text is another)',
    ),
    ({"question": "?", "supporting_facts": ["Two"]}, 'supporting_facts of [title, sentence number] pairs; found ["Two'),
    ({"question": "?", "supporting_facts": [[2, 0]]}, "a title in supporting_facts; found 2"),
    ({"question": "?", "supporting_facts": "Two"}, "an array under 'supporting_facts'; found \"Two\""),
]


@pytest.mark.parametrize(("item", "message"), QUESTIONS)
def test_a_bad_question_names_its_number(tmp_path: Path, item: Any, message: str) -> None:
    path = pair(tmp_path, GOOD, item, {**GOOD, "question": "Last?"})
    with pytest.raises(DataError) as caught:
        read_dataset(path)
    assert str(caught.value).startswith(f"{path}: expected {message}")
    assert str(caught.value).endswith(" in item 2.")
    dataset = read_dataset(path, skip_bad=True)
    assert [(query.id, query.text) for query in dataset.queries] == [("q00001", "Good?"), ("q00002", "Last?")]
    assert tuple(map(str, dataset.skipped)) == (str(caught.value),)


def test_what_is_left_out_of_corpus_and_questions_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "dev.jsonl"
    paragraphs = [{"title": "T", "paragraph_text": "x", "is_supporting": True}]
    questions = [json.dumps({"question": question, "paragraphs": paragraphs}) for question in ("", "?")]
    path.write_text("\n".join(["oops", *questions]))
    dataset = read_dataset(path, skip_bad=True, format="musique")
    assert len(dataset.corpus.skipped) == 1
    assert tuple(map(str, dataset.skipped)) == (
        f'{path}, line 1: expected JSON; found "oops" at character 1 (Expecting value).',
        f"{path}, line 2: expected a question; found an empty one.",
    )


@pytest.mark.parametrize(("items", "expected"), [([], "none."), ([{"question": ""}], "none that can be read; ")])
def test_no_questions(tmp_path: Path, items: list[Any], expected: str) -> None:
    with pytest.raises(DataError) as caught:
        read_dataset(pair(tmp_path, *items), skip_bad=True)
    assert str(caught.value).startswith(f"{tmp_path / 'case.json'}: expected at least one question; found {expected}")


@pytest.mark.parametrize("limit", [0, -1, 1.5, True])
def test_an_impossible_limit(tmp_path: Path, limit: Any) -> None:
    with pytest.raises(UsageError, match=rf"'limit' of questions must be an int in the range \[1, inf\). Got {limit}"):
        read_dataset(pair(tmp_path, GOOD), limit=limit)


@pytest.mark.parametrize("name", ["docs", "corpus.jsonl"])
def test_documents_without_questions(tmp_path: Path, name: str) -> None:
    own(tmp_path / "docs")
    (tmp_path / "corpus.jsonl").write_text('{"text": "x"}')
    with pytest.raises(UsageError, match=r"comes without questions. Give some: --questions FILE, a \.csv with"):
        read_dataset(tmp_path / name)


# ---------------------------------------------------------------- BEIR


def beir(folder: Path, qrels: str = "0\td0\t1\n1\td1\t1\n", queries: str = "") -> Path:
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text('{"_id": "d0", "text": "x"}\n{"_id": "d1", "text": "y"}\n')
    lines = '{"_id": "0", "text": "zero?"}\n' + queries + '{"_id": 1, "text": "one?"}\n'
    (folder / "queries.jsonl").write_text(lines)
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + qrels)
    return folder


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0\tabsent\t1", NOT_IN + "'absent', which is not in it."),
        ("7\td0\t1", "the id of a query in queries.jsonl; found '7'."),
        ("0\td0", "query id, document id and a whole number, with tabs between; found '0\\td0'."),
        ("0\td0\thigh", "query id, document id and a whole number, with tabs between; found '0\\td0\\thigh'."),
        ("0\td0\t2", "one grade a document; found two for 'd0' and query '0'."),
    ],
)
def test_a_bad_line_of_qrels(tmp_path: Path, line: str, message: str) -> None:
    folder = beir(tmp_path / "set", f"0\td0\t1\n\n{line}\n1\td1\t1\n")
    with pytest.raises(DataError) as caught:
        read_dataset(folder)
    assert str(caught.value) == f"{folder / 'qrels' / 'test.tsv'}, line 4: expected {message}"
    dataset = read_dataset(folder, skip_bad=True)
    assert [query.text for query in dataset.queries] == ["zero?", "one?"]
    assert tuple(map(str, dataset.skipped)) == (str(caught.value),)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"_id": "2", "text": ""}', "a question; found an empty one."),
        ('{"text": "x"}', "an id under '_id'; found only the keys 'text'."),
        ('{"_id": "0", "text": "x"}', "each query id once; found the id '0' a second time."),
        ('{"_id": "2"}', "a string under 'text'; found only the keys '_id'."),
    ],
)
def test_a_bad_line_of_queries(tmp_path: Path, line: str, message: str) -> None:
    folder = beir(tmp_path / "set", queries=line + "\n")
    with pytest.raises(DataError) as caught:
        read_dataset(folder)
    assert str(caught.value) == f"{folder / 'queries.jsonl'}, line 2: expected {message}"
    assert tuple(map(str, read_dataset(folder, skip_bad=True).skipped)) == (str(caught.value),)


NOTHING_RIGHT: dict[str, Any] = {
    "MuSiQue": supporting(is_supporting=False),
    "HotpotQA": {"question": "?", "supporting_facts": []},
}


@pytest.mark.parametrize("item", NOTHING_RIGHT.values(), ids=NOTHING_RIGHT)
def test_a_question_whose_paragraphs_are_all_wrong_is_left_out_and_counted(tmp_path: Path, item: Any) -> None:
    path = pair(tmp_path, GOOD, item, {**item, "question": "And?"})
    for dataset in (read_dataset(path), read_dataset(path, skip_bad=True)):
        assert [query.text for query in dataset.queries] == [GOOD["question"]]
        assert dataset.notes == ("left out: 2 questions for which no document is graded above 0",)
        assert dataset.skipped == ()
    with pytest.raises(DataError, match=r"a question for which a document is graded above 0; found none \(left out: 1"):
        read_dataset(pair(tmp_path, item))


def test_a_question_whose_grades_are_all_0_is_left_out_and_counted(tmp_path: Path) -> None:
    folder = beir(tmp_path / "set", "0\td0\t1\n1\td1\t0\n1\td0\t-1\n")
    for dataset in (read_dataset(folder), read_dataset(folder, skip_bad=True)):
        assert [query.text for query in dataset.queries] == ["zero?"]
        assert dataset.notes == ("left out: 1 question for which no document is graded above 0",)
    result = compare(folder, ["bm25"], index=tmp_path / "w")
    assert result.dataset.questions == result.dataset.judged == 1
    assert dataset.notes[0] in result.notes
    with pytest.raises(DataError, match="a question for which a document is graded above 0"):
        read_dataset(beir(tmp_path / "none", "1\td1\t0\n"))


@pytest.mark.parametrize(("file", "reason"), [("", "no files in qrels/"), ("all.tsv", "qrels/ with all.tsv")])
def test_beir_without_qrels(tmp_path: Path, file: str, reason: str) -> None:
    folder = beir(tmp_path / "set")
    (folder / "qrels" / "test.tsv").unlink()
    if file:
        (folder / "qrels" / file).write_text("")
    with pytest.raises(DataError) as caught:
        read_dataset(folder)
    expected = "expected qrels/test.tsv, qrels/dev.tsv or qrels/train.tsv"
    assert str(caught.value) == f"{folder}: {expected}; found {reason}."


# ---------------------------------------------------------------- questions beside one's own documents


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (",x,apples.txt", "a question; found an empty one."),
        ("Q?,x,", NO_GOLD),
        ("Q?,x, ; ", NO_GOLD),
        ("Q?,x", "3 columns (question,answer,documents); found 2."),
        ("Q?,x,apples.txt,more", "3 columns (question,answer,documents); found 4."),
        ("Q?,x,aples.txt", NOT_IN + "\"aples.txt\", which is not in it (near it is 'apples.txt')."),
        ("Q?,x,apples.txt;qqqq", NOT_IN + '"qqqq", which is not in it (no similar id).'),
        (
            "Q?,x,pears.txt",
            "gold that names one document; 'pears.txt' stands for 2, so give one of their ids; "
            "found 'one/pears.txt', 'two/pears.txt'.",
        ),
    ],
)
def test_a_bad_row(tmp_path: Path, row: str, message: str) -> None:
    docs, questions = own(tmp_path / "docs"), tmp_path / "q.csv"
    questions.write_text(f'question,answer,documents\n"Good\n?",x,apples\n\n{row}\nLast?,,one/pears.txt\n')
    with pytest.raises(DataError) as caught:
        read_dataset(docs, questions=questions)
    assert str(caught.value) == f"{questions}, line 5: expected {message}"
    dataset = read_dataset(docs, questions=questions, skip_bad=True)
    assert [query.text for query in dataset.queries] == ["Good\n?", "Last?"]
    assert tuple(map(str, dataset.skipped)) == (str(caught.value),)


UNREAD = {
    "plan.dwg": "no reader takes .dwg files",
    "sub/plan.dxf": "no reader takes .dxf files",
    "drafts/plan.md": "excluded by --include or --exclude",
    "node_modules/a.md": "one of the generated files",
    "empty.py": "one of the empty files of source code",
    ".git/notes.md": "it is hidden",
}


@pytest.mark.parametrize(("name", "why"), UNREAD.items())
def test_gold_in_a_file_that_is_there_and_not_read(tmp_path: Path, name: str, why: str) -> None:
    docs, questions = own(tmp_path / "docs"), tmp_path / "q.csv"
    for file in UNREAD:
        (docs / file).parent.mkdir(parents=True, exist_ok=True)
        (docs / file).write_text("" if file == "empty.py" else "{}")
    questions.write_text(f"question,documents\nQ?,{name}\n")
    with pytest.raises(DataError) as caught:
        read_dataset(docs, questions=questions, selection=FileSelection(exclude=("drafts/*",)))
    expected = "gold that names documents that can be read"
    reason = f'"{name}": the file is there and is not read ({why})'
    assert str(caught.value) == f"{questions}, line 2: expected {expected}; found {reason}."


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("q.csv", b"question;answer;document\n", "line 1: expected the columns question,answer,documents in the first"),
        ("q.csv", b"question,documents,question\n", "found question, documents, question."),
        (
            "q.csv",
            b"",
            "line 1: expected the columns question,answer,documents in the first line; found an empty file.",
        ),
        ("q.csv", b"question,documents\n", "q.csv: expected at least one question; found none."),
        ("q.csv", b'question,documents\n"open', "q.csv, line 2: expected comma-separated values; found unexpected end"),
        (
            "q.csv",
            b"question,documents\nna\xefve?\x00,apples",
            "q.csv, line 2: expected text in UTF-8; found the byte 0xef, and no other encoding is likely",
        ),
        ("q.txt", b"one?\nwho?\x00", "q.txt: expected a text; found binary data: 10% of the bytes are control"),
        ("q.txt", b" \n\n", "q.txt: expected at least one question; found none."),
        (
            "q.xlsx",
            b"",
            "questions in a .csv (question,answer,documents), a .jsonl (the same keys) or a .txt (one a line), "
            "ASQA.json, or a folder of judgements",
        ),
        ("", b"", "absent.txt: expected a file that can be read; found No such file or directory."),
    ],
)
def test_a_bad_file_of_questions(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    docs, questions = own(tmp_path / "docs"), tmp_path / (name or "absent.txt")
    if name:
        questions.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_dataset(docs, questions=questions)
    assert message in str(caught.value)


def test_questions_that_are_the_only_document(tmp_path: Path) -> None:
    (tmp_path / "questions.txt").write_text("Who?\n")
    with pytest.raises(DataError, match="expected at least one document beside the questions; found none"):
        read_dataset(tmp_path, questions=tmp_path / "questions.txt")
