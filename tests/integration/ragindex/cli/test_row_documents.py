"""Rows of tables as documents, as a user of the commands meets them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import failed, make_desk, ragindex

import ragindex as package
from ragindex.encoders import lsa
from ragindex_eval.cli.settings_options import list_reading_options
from ragindex_eval.run.settings import make_settings, read_settings

WORDS = ("gorge", "barge", "slate", "hill", "quarry", "ferry")


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_desk(tmp_path, monkeypatch)


def write_faq(count: int = 60, **other: str) -> None:
    """A table whose ids are those of `other`, or numbers."""
    rows = [f"{number},Where is {WORDS[number % 6]} {number}?,It is in place{number}." for number in range(count)]
    rows = [other.get(f"row{number}", row) for number, row in enumerate(rows)]
    Path("notes/faq.csv").write_text("\n".join(["id,question,answer", *filter(None, rows)]))


def test_rows_are_found_and_only_those_that_change_are_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    write_faq(20)
    arguments = ("index", "notes", "--rows", "--index", "w", "--methods", "bm25,dense", "--json", "-")
    assert ragindex(*arguments).json["documents"] == 24
    assert "faq.csv/17, row 19" in ragindex("search", "place17", "--index", "w", "--method", "bm25").out
    (hit,) = ragindex("search", "place17", "--index", "w", "--method", "bm25", "--json", "-").json["hits"]
    assert (hit["title"], hit["text"]) == ("Where is ferry 17?", "It is in place17.")
    encoded, encode = list[str](), lsa.LsaEncoder.encode_documents

    def record(self: Any, texts: Sequence[str]) -> Any:
        encoded.extend(texts)
        return encode(self, texts)

    monkeypatch.setattr(lsa.LsaEncoder, "encode_documents", record)
    for change, changed, texts in (
        ({}, (0, 0, 0), []),
        ({"row17": "17,Where?,It is in place16."}, (0, 1, 0), ["Where?\nIt is in place16."]),  # of known words
        ({"row17": "17,Where?,It is in place16.", "row19": ""}, (0, 0, 1), []),
    ):
        encoded.clear()
        write_faq(20, **change)
        changes = ragindex(*arguments).json["changed"]
        assert (changes["added"], changes["changed"], changes["removed"]) == changed
        assert encoded == texts


def test_rows_are_gold() -> None:
    write_faq()
    Path("questions.csv").write_text("question,documents\nWhere is place17?,faq.csv/17\nplace18?,faq.csv/18\n")
    arguments = ("compare", "notes", "--questions", "questions.csv", "--methods", "bm25", "--index", "w", "--json", "-")
    message = 'found "faq.csv/17", which is not in it (faq.csv is one document; --rows makes each of its rows one)'
    assert message in failed(3, *arguments)
    assert ragindex(*arguments, "--rows").json["methods"][0]["metrics"]["R@5"] == 1.0
    result = package.compare("notes", "bm25", questions="questions.csv", rows=package.Rows("answer"), index="v")
    assert result.comparison.methods[0].metrics["R@5"] == 1.0


def test_rows_of_one_file_leave_the_index_with_it() -> None:
    """Also where the flag stands before DATA, and where the table was one document before."""
    write_faq(3)
    index = ("notes/faq.csv", "--index", "w", "--methods", "bm25", "--json", "-")
    assert ragindex("index", *index).json["documents"] == 1
    first = ragindex("index", "--rows", *index).json
    assert (first["documents"], first["changed"]["removed"]) == (3, 1)
    write_faq(2)
    assert ragindex("index", "--rows", "text=question+answer", *index).json["documents"] == 2
    assert ragindex("index", *index, "--rows=id=").json["changed"] == {
        "added": 2,
        "changed": 0,
        "removed": 2,
        "unchanged": 0,
        "reread": 0,
        "renamed": {},
    }


@pytest.mark.parametrize(
    ("given", "flags"),
    [
        (None, []),
        (False, []),
        (True, ["--rows"]),
        ("", ["--rows"]),
        ("text=a b+c,id=", ["--rows", "text=a b+c,id="]),
        (package.Rows(["a", "b"], "c"), ["--rows", "text=a+b,title=c"]),
    ],
)
def test_settings_have_rows_and_commands_repeat_them(given: Any, flags: list[str]) -> None:
    assert list_reading_options(make_settings({"rows": given})) == flags
    if isinstance(given, str | bool):
        Path("study.yaml").write_text(f"rows: {given!r}\n")
        assert list_reading_options(read_settings(Path("study.yaml"))) == flags
