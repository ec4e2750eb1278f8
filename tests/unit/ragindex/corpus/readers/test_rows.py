"""Rows of tables as documents."""

import csv
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packed import pack_workbook
from pyarrow import parquet

from ragindex.corpus.readers.content import FileContent
from ragindex.corpus.readers.rows import Rows, parse_rows, read_rows, suggest_rows
from ragindex.errors import DataError, UsageError
from ragindex.types import Section

_DAY = date(2024, 5, 17)


def make_csv(rows: list[list[Any]], **options: Any) -> bytes:
    written = io.StringIO(newline="")
    csv.writer(written, **options).writerows(rows)
    return written.getvalue().encode()


def make_parquet(columns: dict[str, Any]) -> bytes:
    written = io.BytesIO()
    parquet.write_table(pa.table(columns), written)
    return written.getvalue()


def make_workbook(sheets: dict[str, dict[int, list[Any]]]) -> bytes:
    """An .xlsx file: the cells of rows, by number, of sheets."""

    def write_cell(value: Any) -> str:
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t>{escape(value)}</t></is></c>'
        return f'<c t="b"><v>{value:d}</v></c>' if isinstance(value, bool) else f"<c><v>{value}</v></c>"

    def write_rows(rows: dict[int, list[Any]]) -> str:
        return "".join(f'<row r="{at}">{"".join(map(write_cell, cells))}</row>' for at, cells in rows.items())

    return pack_workbook({name: f"<sheetData>{write_rows(rows)}</sheetData>" for name, rows in sheets.items()})


def read(name: str, raw: bytes, rows: str = "") -> FileContent:
    columns = parse_rows(rows)
    assert columns is not None
    return read_rows(raw, Path(name), Path(name).suffix, None, columns)


def list_rows(content: FileContent) -> list[tuple[str, str, str, int | None, dict[str, Any]]]:
    """Id, title, text, number and metadata of each row."""
    assert all(document.sections == (Section(0, (), document.sections[0].page),) for _, document in content.inner)
    return [
        (id, document.title, document.text, document.sections[0].page, dict(document.metadata))
        for id, document in content.inner
    ]


# ---------------------------------------------------------------- formats

_RECORDS = [
    {"id": "T-1", "title": "Tides", "text": "They turn\ntwice.", "year": 1931, "open": True, "price": 2.5},
    {"id": "T-2", "title": "Ebb", "text": "It is low.", "year": 1932, "open": False, "price": 3},
]
_CELLS = [list(_RECORDS[0]), *(list(record.values()) for record in _RECORDS)]


@pytest.mark.parametrize(
    ("name", "raw", "first", "typed"),
    [
        ("a.csv", make_csv(_CELLS), 2, False),
        ("a.csv", make_csv(_CELLS, delimiter=";", lineterminator="\n"), 2, False),
        ("a.tsv", make_csv(_CELLS, delimiter="\t"), 2, False),
        ("a.json", json.dumps(_RECORDS).encode(), 1, True),
        ("a.jsonl", "\n".join(map(json.dumps, _RECORDS)).encode(), 1, True),
        ("a.xlsx", make_workbook({"Sheet": dict(enumerate(_CELLS, 3)), "Empty": {}}), 4, True),
        ("a.parquet", make_parquet({key: [record[key] for record in _RECORDS] for key in _RECORDS[0]}), 1, True),
    ],
)
def test_each_format_gives_the_same_documents(name: str, raw: bytes, first: int, typed: bool) -> None:
    """The number of a row is that of a spreadsheet, of an item or of a line; cells of CSV are texts."""
    rows = [
        (
            record["id"],
            record["title"],
            record["text"],
            first + number,
            {key: record[key] for key in ("year", "open", "price")},
        )
        for number, record in enumerate(_RECORDS)
    ]
    if not typed:
        rows = [(*row[:4], {key: str(value) for key, value in row[4].items()}) for row in rows]
    assert list_rows(read(name, raw)) == rows


_TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\xad"), max_size=20).map(str.strip)
_VALUES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(_TEXTS, _TEXTS, _VALUES), min_size=1, max_size=6))
def test_rows_come_back_equal(rows: list[tuple[str, str, Any]]) -> None:
    texts, notes, values = ([row[at] for row in rows] for at in range(3))
    numbers = [None if value is None else float(value) for value in values]
    files = {
        "a.csv": (make_csv([["text", "note", "value"], *map(list, rows)]), str),
        "a.json": (json.dumps([{"text": text, "note": note, "value": value} for text, note, value in rows]), None),
        "a.parquet": (make_parquet({"text": texts, "note": notes, "value": numbers}), float),
    }
    for name, (raw, kind) in files.items():
        content = read(name, raw if isinstance(raw, bytes) else raw.encode())
        documents = [
            (document.text, document.metadata.get("note", ""), document.metadata.get("value"))
            for _, document in content.inner
        ]
        assert documents == [
            (text, note, value if value is None or kind is None else kind(value)) for text, note, value in rows if text
        ]


def test_values_are_as_json_has_them() -> None:
    values = {
        "text": "x",
        "when": datetime(2024, 5, 17, 12, 30, tzinfo=UTC),
        "day": _DAY,
        "cost": Decimal("2.50"),
        "exact": Decimal("0.1234567890123456789012345"),
        "nothing": float("nan"),
        "bytes": b"\xff",
        "spelled": b"tea",
        "list": ["a", "b"],
        "of": {"deep": {"er": 1}, "none": None},
        "source": "mine",
        "modified": _DAY,
    }
    content = read("a.parquet", make_parquet({key: [value] for key, value in values.items()}))
    assert content.inner[0][1].metadata == {
        "when": "2024-05-17T12:30:00+00:00",
        "day": "2024-05-17",
        "cost": 2.5,
        "exact": "0.1234567890123456789012345",
        "spelled": "tea",
        "list": ["a", "b"],
        "of.deep.er": 1,
        "author_source": "mine",
        "author_modified": "2024-05-17",
    }
    assert content.notes == ("columns of bytes that are no text are left out: bytes",)


def test_sheets() -> None:
    """Of several sheets each names its rows; one without the columns is named, and one that is empty is none."""
    sheet = {1: ["Export of May"], 3: ["id", "text"], 4: [7, "Tea."], 6: ["", "Milk."]}
    sheets = {"May": sheet, "June": {1: ["id", "text"], 2: ["x", "Rum."]}, "Legend": {1: ["a"], 2: ["b"]}, "Empty": {}}
    content = read("a.xlsx", make_workbook(sheets))
    assert list_rows(content) == [
        ("May/7", "a", "Tea.", 4, {"sheet": "May"}),
        ("May/6", "a", "Milk.", 6, {"sheet": "May"}),
        ("June/x", "a", "Rum.", 2, {"sheet": "June"}),
    ]
    assert content.notes == (
        "row 1 above the table is left out",
        "the sheet Legend is left out, because its columns are 'a'",
    )


@pytest.mark.parametrize(
    ("name", "raw", "rows", "notes"),
    [
        ("a.json", b'["Tea.", "", "Rum."]', [("1", "Tea."), ("3", "Rum.")], ("1 row without text left out: 2",)),
        ("a.csv", b'text\nTea.\n\n""\nRum.\n', [("2", "Tea."), ("5", "Rum.")], ()),
        ("a.csv", "text\nÄpfel\n".encode("utf-16"), [("2", "Äpfel")], ()),
        (
            "a.jsonl",
            b'{"text": "Tea."}\n{\n[]\n{"text": "Rum."}\n',
            [("1", "Tea."), ("4", "Rum.")],
            (
                "line 2 is left out: expected JSON; found the end at character 2 "
                "(Expecting property name enclosed in double quotes)",
                "line 3 is left out: expected an item to be an object; found []",
            ),
        ),
    ],
)
def test_rows_that_are_no_documents(name: str, raw: bytes, rows: list[tuple[str, str]], notes: tuple[str, ...]) -> None:
    content = read(name, raw)
    assert ([(id, document.text) for id, document in content.inner], content.notes) == (rows, notes)


def test_columns_of_csv_without_a_name_or_with_one_of_another() -> None:
    raw = b"text,a,a,,b\nTea.,1,2,3,4,5\n"
    assert read("a.csv", raw).inner[0][1].metadata == {
        "a": "1",
        "a (3)": "2",
        "column 4": "3",
        "b": "4",
        "column 6": "5",
    }


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("a.json", b'{"rows": []}', "no array"),
        ("a.json", b"[1]", "an array with other items"),
        ("a.xlsx", b"PK", "found a damaged one"),
        ("a.parquet", b"PAR1", "found a damaged one"),
        ("a.jsonl", b"{", "the end at character 2"),
    ],
)
def test_damaged_files(name: str, raw: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(name, raw)


# ---------------------------------------------------------------- columns


@pytest.mark.parametrize(
    ("header", "written", "read_as"),
    [
        ("id,question,answer", "", ("i", "q", "a")),
        ("Key,NAME,Body", "", ("i", "q", "a")),
        ("id,question,answer", "id=", ("2", "q", "a")),
        ("id,question,answer", "title=", ("i", "file", "a")),
        ("Nr,Frage,Antwort", "text=Antwort", ("2", "file", "a")),
        ("Nr,Frage,Antwort", "text=antwort,title=Frage,id=Nr", ("i", "q", "a")),
        ("Nr,Question,Antwort", "id=Nr, text=Question+Antwort", ("i", "file", "Question: q\nAntwort: a")),
        ("id,a+b,c", "text=a+b", ("i", "file", "q")),
        ('id,"a, b","c=d"', "text=a, b,title=c=d", ("i", "a", "q")),
    ],
)
def test_columns_are_named_or_conventional(header: str, written: str, read_as: tuple[str, str, str]) -> None:
    ((id, document),) = read("file.csv", f"{header}\ni,q,a\n".encode(), written).inner
    assert (id, document.title, document.text) == read_as
    assert str(parse_rows(written)) == written.replace(", text", ",text") or "id=Nr" in written


@pytest.mark.parametrize(
    ("header", "written", "problem"),
    [
        ("a,b", "", "No column is called text, body, content, answer, description or passage"),
        ("body,answer", "", "'body' and 'answer' could each be the text."),
        ("text,name,title", "", "'name' and 'title' could each be the title."),
        ("a,b", "text=c", "There is no column 'c'."),
        ("a,b", "text=a,title=c", "There is no column 'c'."),
        ("A,a", "text=a+ä", "There is no column 'ä'."),
        ("AB,Ab", "text=ab", "'AB' and 'Ab' are both called 'ab'."),
    ],
)
def test_columns_that_are_missing_or_several(header: str, written: str, problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        read("my faq.csv", f"{header}\n1,2,3\n".encode(), written)
    listed = ", ".join(map(repr, header.split(",")))
    assert problem in str(raised.value)
    assert f"Its columns are {listed}" in str(raised.value)
    assert str(raised.value).endswith("or leave the file out with --exclude 'my faq.csv'.")


@pytest.mark.parametrize("written", ["text", "text=", "column=a", "text=a,text=b", "Text=a"])
def test_columns_are_written_in_one_way(written: str) -> None:
    with pytest.raises(UsageError, match="Columns are written as in --rows 'text=COLUMN,title=COLUMN,id=COLUMN'"):
        parse_rows(written)


def test_columns_in_python() -> None:
    rows = Rows(text=["a", "b"], id="")
    assert (str(rows), parse_rows(rows), parse_rows(True), parse_rows(False)) == ("text=a+b,id=", rows, Rows(), None)
    assert parse_rows(str(Rows("a", "b", "c"))) == Rows("a", "b", "c")


@pytest.mark.parametrize(
    ("header", "row", "count", "flag"),
    [
        ("id,question,answer", "{},q,a", 51, "text=answer,title=question,id=id"),
        ("id,question,answer", "{},q,a", 50, None),
        ("id,question,answer", "7,q,a", 51, "text=answer,title=question,id="),
        ("question,name,answer", "q,n,a", 51, "text=answer,title="),
        ("Nr,Die Antwort", f"{{}},{'Tee ' * 20}", 51, "'text=Die Antwort'"),
        ("body,answer", f"b,{'Tea ' * 20}", 51, "text=answer"),
        ("body,answer", "b,a", 51, None),
        ("port,hour", "{},7", 51, None),
    ],
)
def test_rows_are_suggested_for_long_tables_with_a_text(header: str, row: str, count: int, flag: str | None) -> None:
    raw = "\n".join([header, *(row.format(number) for number in range(count))]).encode()
    message = f"its {count} rows are one document; to make each a document: --rows {flag}"
    assert suggest_rows(raw, Path("a.csv"), ".csv", None) == (message if flag else None)


@pytest.mark.parametrize(
    ("name", "written", "numbers"),
    [
        ("a.csv", 'id,text\n1,Tides turn\n2,"5" pipe\n3,Ebb', [2, 3, 4]),
        ("a.csv", 'sep=;\nid;text\n1;Tides, turn\n2;"5" pipe\n3;Ebb', [3, 4, 5]),
        ("a.tsv", 'id\ttext\n1\tTides, turn, a\n2\t"5" pipe\n3\tEbb', [2, 3, 4]),
    ],
)
def test_stray_quotation_mark_costs_one_row_a_note(name: str, written: str, numbers: list[int]) -> None:
    content = read(name, written.encode())
    assert [row[3] for row in list_rows(content)] == numbers
    assert [row[2] for row in list_rows(content)][1:] == ['"5" pipe', "Ebb"]
    assert content.notes == (f"1 row has a stray quotation mark and is divided at every delimiter: line {numbers[1]}",)
