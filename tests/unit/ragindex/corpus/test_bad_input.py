"""Whatever is wrong with a file of documents is one clear error, or, with skip_bad, one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex.corpus import read
from ragindex.corpus.corpus import describe_ignored, describe_left_out, explain_ignored
from ragindex.corpus.json_reader import format_value, left_out_by
from ragindex.errors import DataError

GOOD = '{"_id": "good", "text": "good"}'
JSONL = [
    ('{"_id": "d", "text": ', "JSON; found the end at character 22 (Expecting value)"),
    ('{"text": "x"} trailing', 'JSON; found "trailing" at character 15 (Extra data)'),
    ("not json", 'JSON; found "not json" at character 1 (Expecting value)'),
    ('{"text": "a\nb"}', 'JSON; found "\\"a" at character 10 (Unterminated string starting at)'),
    ('["text"]', 'an item to be an object; found ["text"]'),
    ("null", "an item to be an object; found null"),
    ("{}", "a string under 'text'; found an empty object"),
    ('{"_id": "d", "title": "t"}', "a string under 'text'; found only the keys '_id', 'title'"),
    ('{"text": null}', "a string under 'text'; found null"),
    ('{"text": 3}', "a string under 'text'; found 3"),
    ('{"text": ["a", "b"]}', 'a string under \'text\'; found ["a", "b"]'),
    ('{"text": "x", "title": {"en": "t"}}', 'a string under \'title\'; found {"en": "t"}'),
    ('{"_id": [], "text": "x"}', "a string under '_id'; found []"),
    ('{"_id": true, "text": "x"}', "a string under '_id'; found true"),
    (
        '{"_id": "a\\nb", "text": "x"}',
        "a document id without control characters; found the control character '\\n' in 'a\\nb'",
    ),
    ('{"id": " ", "text": "x"}', "an id under 'id'; found an empty one"),
    ('{"_id": "good", "text": "again"}', "each document id once; found the id 'good' a second time"),
    ('{"text": "", "title": " "}', "a title or a text; found a document with neither"),
    ('{"text": "\\ud800"}', "a string under 'text' that UTF-8 can hold; found a lone surrogate in \"\\ud800\""),
    ('{"text": "x", "metadata": "m"}', "'metadata' to be an object; found \"m\""),
    (
        '{"text": "x", "metadata": {"a": "\\ud800"}}',
        'metadata that UTF-8 can hold; found a lone surrogate in "\\ud800"',
    ),
    ('{"text": "x", "\\udfff": 1}', 'metadata that UTF-8 can hold; found a lone surrogate in "\\udfff"'),
    ('{"text": "x", "year": NaN}', "JSON; found NaN, which is not a JSON number"),
    ('{"text": "x", "year": -Infinity}', "JSON; found -Infinity, which is not a JSON number"),
    ('{"text": "x", "year": [{"a": 1e999}]}', "finite numbers in metadata; found Infinity"),
    (
        '{"text": "x", "metadata": {"a": 1}, "a": 2}',
        "each metadata key once; found 'a' both inside and beside 'metadata'",
    ),
    ('{"text": "x", "text": "y"}', "JSON; found the key 'text' twice in one object"),
    ('{"text": ' + "[" * 100_000, "JSON; found "),
    ('{"text": "x", "year": ' + "1" * 5000 + "}", "JSON; found Exceeds the limit"),
]


@pytest.mark.parametrize(("line", "message"), JSONL)
def test_a_bad_line_names_file_line_expected_and_found(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text(f"{GOOD}\n\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}, line 3: expected {message}")
    assert (caught.value.path, caught.value.line) == (path, 3)
    corpus = read(path, skip_bad=True)
    assert [document.id for document in corpus.documents] == ["good"]
    assert str(corpus.skipped[0]) == str(caught.value)


def test_a_line_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(f"{GOOD}\n".encode() + '{"text": "naïve"}\n'.encode("latin-1") + b'{"text": "last"}')
    with pytest.raises(DataError, match=r"corpus\.jsonl, line 2: expected text in UTF-8; found the byte 0xef\."):
        read(path)
    corpus = read(path, skip_bad=True)
    assert [document.text for document in corpus.documents] == ["good", "last"]
    assert len(corpus.skipped) == 1


PAIRS: list[tuple[Any, str]] = [
    ({"title": "t"}, "a text under 'text' or 'paragraph_text'; found only the keys 'title' in item 2"),
    ({"text": 3}, "a string or an array of sentences as text; found 3 in item 2"),
    ({"text": ["a", 3]}, "an array of strings as sentences; found 3 in item 2"),
    ({"title": 3, "text": "x"}, "a string under 'title'; found 3 in item 2"),
    ({"title": "", "text": []}, "a title or a text; found a document with neither in item 2"),
    ("text", 'an item to be an object; found "text" in item 2'),
    ({"text": "x\ud800"}, "a string or an array of sentences as text that UTF-8 can hold; found a lone surrogate in"),
]


@pytest.mark.parametrize(("item", "message"), PAIRS)
def test_a_bad_item_of_a_corpus_list(tmp_path: Path, item: Any, message: str) -> None:
    (tmp_path / "questions.json").write_text("[]")
    (tmp_path / "corpus.json").write_text(json.dumps([{"title": "good", "text": "good"}, item]))
    with pytest.raises(DataError) as caught:
        read(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'corpus.json'}: expected {message}")
    corpus = read(tmp_path, skip_bad=True)
    assert [document.title for document in corpus.documents] == ["good"]
    assert tuple(map(str, corpus.skipped)) == (str(caught.value),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"A": ["a"], "B": 3}', "a string or an array of sentences as text; found 3 in item 2."),
        ('{"A": ["a"], "A": ["b"]}', "JSON; found the key 'A' twice in one object."),
        ('"text"', 'a list of {title, text} or a mapping of titles to sentences; found "text".'),
        ('[\n{"text": "a"},\n{"text": }]', 'JSON; found "}]" at character 10 (Expecting value).'),
        ("[]", "at least one document; found none."),
        ("{}", "at least one document; found none."),
        ("", "JSON; found the end at character 1 (Expecting value)."),
    ],
)
def test_a_bad_corpus_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "case.json").write_text("[]")
    (tmp_path / "case_corpus.json").write_text(text)
    with pytest.raises(DataError) as caught:
        read(tmp_path / "case.json")
    assert str(caught.value).endswith(f": expected {message}")


def test_broken_json_in_an_array_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "questions.json").write_text("[]")
    (tmp_path / "corpus.json").write_text('[{"text": "a"},\n\n {"text": oops}]')
    with pytest.raises(DataError, match=r"corpus\.json, line 3: expected JSON; found \"oops}\]\" at character 11"):
        read(tmp_path)
    (tmp_path / "corpus.json").write_bytes(b'[{"text": "a"},\n {"text": "\xff"}]')
    with pytest.raises(DataError, match=r"corpus\.json, line 2: expected text in UTF-8; found the byte 0xff"):
        read(tmp_path, skip_bad=True)


PARAGRAPH = {"title": "t", "paragraph_text": "x"}
QUESTIONS: list[tuple[str, Any, str]] = [
    ("musique", {"paragraphs": {}}, "an array under 'paragraphs'; found {}"),
    ("musique", {"question": "?"}, "an array under 'paragraphs'; found only the keys 'question'"),
    ("musique", {"paragraphs": [PARAGRAPH, "p"]}, 'a paragraph to be an object; found "p"'),
    (
        "musique",
        {"paragraphs": [{"title": "t"}]},
        "a text under 'text' or 'paragraph_text'; found only the keys 'title'",
    ),
    ("hotpotqa", {"context": None}, "an array under 'context'; found null"),
    ("hotpotqa", {"context": [["A", ["x"], 3]]}, 'a context of [title, [sentence, …]] pairs; found ["A", ["x"], 3]'),
    ("hotpotqa", {"context": [{"title": "A"}]}, 'a context of [title, [sentence, …]] pairs; found {"title": "A"}'),
    ("hotpotqa", {"context": [[3, ["x"]]]}, "a string as title; found 3"),
    ("2wikimultihopqa", {"context": [["A", [None]]]}, "an array of strings as sentences; found null"),
]


@pytest.mark.parametrize(("format", "item", "message"), QUESTIONS)
@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_a_bad_question(tmp_path: Path, format: str, item: Any, message: str, suffix: str) -> None:
    good = {"paragraphs": [PARAGRAPH], "context": [["t", ["x"]]]}
    path = tmp_path / f"dev{suffix}"
    lines = suffix == ".jsonl"
    path.write_text("\n".join(map(json.dumps, [good, item])) if lines else json.dumps([good, item]))
    with pytest.raises(DataError) as caught:
        read(path, format=format)
    where = (f"{path}, line 2", "") if lines else (f"{path}", " in item 2")
    assert str(caught.value) == f"{where[0]}: expected {message}{where[1]}."
    corpus = read(path, format=format, skip_bad=True)
    assert [(document.title, document.text) for document in corpus.documents] == [("t", "x")]
    assert tuple(map(str, corpus.skipped)) == (str(caught.value),)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("corpus.json", '[{"title": "t", "text": "x"}]', "found items with the keys 'title', 'text'."),
        ("dev.json", "[]", "found not a list of objects."),
        ("dev.json", '{"data": []}', "found not a list of objects."),
    ],
)
def test_json_that_is_no_questions(tmp_path: Path, name: str, text: str, expected: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError) as caught:
        read(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path / name}: expected a file of questions with 'paragraphs' (MuSiQue)")
    assert str(caught.value).endswith(expected)


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf"])
def test_an_empty_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "corpus.jsonl").write_bytes(content)
    if content.strip() and b"\xbf" in content:
        expected = "expected JSON; found the end at character 1"
    else:
        expected = "expected at least one document; found none."
    with pytest.raises(DataError, match=expected):
        read(tmp_path / "corpus.jsonl")


def test_when_every_line_is_skipped_the_first_is_named(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text("oops\n{}\n")
    with pytest.raises(DataError, match=r"at least one document; found none that can be read; .*line 1: expected JSON"):
        read(tmp_path / "corpus.jsonl", skip_bad=True)


def test_a_format_that_the_path_cannot_hold(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(GOOD)
    with pytest.raises(
        DataError, match=r"expected a BEIR folder \(corpus.jsonl, queries.jsonl, qrels/\); found a file"
    ):
        read(tmp_path / "a.jsonl", format="beir")
    with pytest.raises(DataError, match=r"expected a musique file \(\.json or \.jsonl\); found a folder"):
        read(tmp_path, format="musique")
    for format in ("beir", "jsonl"):
        with pytest.raises(DataError, match=r"corpus\.jsonl: expected a file that can be read; found No such file"):
            read(tmp_path, format=format)
    with pytest.raises(DataError, match=r"corpus\.json: expected a file that can be read; found No such file"):
        read(tmp_path, format="hipporag")


@given(st.binary(max_size=200))
@settings(max_examples=examples(40))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("any")
    for name in ("c.jsonl", "c.json", "c.txt", "c.md", "c.html"):
        (folder / name).write_bytes(content)
        for skip_bad in (False, True):
            try:
                corpus = read(folder / name, skip_bad=skip_bad)
            except DataError:
                continue
            assert all((document.title + document.text).strip() for document in corpus.documents)


def test_values_are_shown_short_and_printable() -> None:
    assert format_value("Südhof") == '"Südhof"'
    assert format_value("\x1b[31m\ud800") == '"\\u001b[31m\\ud800"'
    assert format_value("x" * 1000) == '"' + "x" * 76 + "…"


def test_files_left_out_are_grouped_by_reason_and_many_by_kind() -> None:
    scanned = [DataError("text", "a scan", path=f"{name}.pdf") for name in "abcde"]
    others = [DataError("JSON", "oops", path="q.jsonl", line=line) for line in (2, 7)]
    alone = DataError("a question", "an empty one", path="q.csv", line=3)
    few = [*scanned, others[0], alone, others[1]]
    assert describe_left_out(map(left_out_by, few)) == [
        "skipped: 5 (a.pdf; b.pdf; c.pdf; d.pdf; e.pdf): expected text; found a scan.",
        "skipped: 2 (q.jsonl, line 2; q.jsonl, line 7): expected JSON; found oops.",
        "skipped: q.csv, line 3: expected a question; found an empty one.",
    ]
    large = [DataError("at most 50 MB", f"{number} MB", path=f"{number}.pdf") for number in range(60, 72)]
    assert describe_left_out(map(left_out_by, [*few, *large])) == [
        "skipped: 5 (a.pdf; b.pdf; c.pdf; and 2 more): expected text; found a scan.",
        "skipped: 2 (q.jsonl, line 2; q.jsonl, line 7): expected JSON; found oops.",
        "skipped: q.csv, line 3: expected a question; found an empty one.",
        "skipped: 12 (60.pdf; 61.pdf; 62.pdf; and 9 more): expected at most 50 MB; found 60 MB.",
    ]
    unread = {name: explain_ignored(Path(name).suffix) for name in ("a.zip", "b.7z", "c.png", "d.foo", "e")}
    assert describe_ignored({".zip": 1, ".7z": 1, ".png": 1, ".foo": 1, ".rtf": 1, "": 1}, unread) == [
        "ignored: 1 file without a suffix (e)",
        "ignored: 2 archives (a.zip, b.7z)",
        "ignored: 1 .foo file (d.foo)",
        "ignored: 1 picture (c.png)",
        "ignored: 1 .rtf file; save them as .docx to read them",
    ]
