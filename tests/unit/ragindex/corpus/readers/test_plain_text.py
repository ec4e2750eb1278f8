"""Plain text, tables and JSON: a table of kinds for each, made after files that people have."""

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex.corpus.readers import READERS, FileContent
from ragindex.corpus.readers.content import format_table
from ragindex.corpus.readers.plain_text import read_csv_rows


def read_file(name: str, content: str) -> FileContent:
    return READERS[Path(name).suffix](content.encode(), Path(name), None)


PORTS = [["port", "hour"], ["Ely", "7"], ["Rye", "8"]]
STRAY = "1 row has a stray quotation mark and is divided at every delimiter: line "


@pytest.mark.parametrize(
    ("content", "before", "rows", "note"),
    [
        ("port,hour\r\nEly,7\r\n\r\nRye,8\r\n", "", PORTS, ""),
        ("port;hour\nEly;7\nRye;8", "", PORTS, ""),
        ("port\thour\nEly\t7\nRye\t8", "", PORTS, ""),
        ("port|hour\nEly|7\nRye|8", "", PORTS, ""),
        ("price;note\n1,5;a\n2,5;b", "", [["price", "note"], ["1,5", "a"], ["2,5", "b"]], ""),
        ("sep=;\nport;hour\nEly;7\nRye;8", "", PORTS, ""),
        ("SEP=|\nport|hour\nEly|7\nRye|8", "", PORTS, ""),
        ('Ports of 2026\n\nport,hour\nEly,7\nRye,"8"', "Ports of 2026", PORTS, ""),
        ("Ports of 2026,\nport,hour\nEly,7\nRye,8", "Ports of 2026", PORTS, ""),
        ("# made by hand\n# in May\nport,hour\nEly,7\nRye,8", "# made by hand\n\n# in May", PORTS, ""),
        ("by,Ann\non,May 3\na,b,c\n1,2,3", "by Ann\n\non May 3", [["a", "b", "c"], ["1", "2", "3"]], ""),
        ("sku,text\n17,a,b,c\n18,d,e,f", "", [["sku", "text"], ["17", "a", "b", "c"], ["18", "d", "e", "f"]], ""),
        ("Parts\nsku,text\n17,a,b\n18,d,e", "Parts", [["sku", "text"], ["17", "a", "b"], ["18", "d", "e"]], ""),
        ("a,a,,b,\n1,2,3,4,5,6", "", [["a", "a", "", "b", ""], ["1", "2", "3", "4", "5", "6"]], ""),
        ("a,b\n1\n,2\n3,4\nSource: Ann", "", [["a", "b"], ["1"], ["", "2"], ["3", "4"], ["Source: Ann"]], ""),
        ("a,b,\n1,2,\n3,,", "", [["a", "b", ""], ["1", "2", ""], ["3", "", ""]], ""),
        ('a,b\n1,"x\ny, ""z"""', "", [["a", "b"], ["1", 'x y, "z"']], ""),
        ('a,b\n1,"open\n2,x\n3,y', "", [["a", "b"], ["1", '"open'], ["2", "x"], ["3", "y"]], f"{STRAY}2"),
        ('sep=,\na,b\n"5" pipe",3\n"2,5",4', "", [["a", "b"], ['"5" pipe"', "3"], ["2,5", "4"]], f"{STRAY}3"),
        ('a,b\n5" pipe,3', "", [["a", "b"], ['5" pipe', "3"]], ""),
        ("word\none\ntwo, three", "", [["word"], ["one"], ["two", " three"]], ""),
        ("a|b,c\n1|2,3", "", [["a|b", "c"], ["1|2", "3"]], ""),
        ("a,b\n1," + "x" * 200_000, "", [["a", "b"], ["1", "x" * 200_000]], ""),
    ],
)
def test_no_cell_of_a_table_is_lost(content: str, before: str, rows: list[list[str]], note: str) -> None:
    read = read_file("a.csv", content)
    assert read.text == "\n\n".join(filter(None, [before, format_table(rows)]))
    assert read.notes == ((note,) if note else ())
    assert read.text[read.blocks[0][0] :] == format_table(rows)


def test_one_wide_row_does_not_widen_thousands() -> None:
    """Filled up to 3,000 cells, these rows would be 18 million characters."""
    read = read_file("a.csv", f"a,b\nx{',' * 3_000}y\n" + "3,4\n" * 3_000)
    lines = read.text.split("\n")
    assert lines[2:] == [f"| x |{'  |' * 2_999} y |", *["| 3 | 4 |"] * 3_000]


def test_a_tsv_file_is_divided_at_tabs_alone() -> None:
    assert read_file("a.tsv", "word\none, two\nthree, four").text == format_table(
        [["word"], ["one, two"], ["three, four"]]
    )


def test_texts_that_are_read_in_turns_leave_the_limit_of_fields() -> None:
    usual = csv.field_size_limit()
    first, second = (read_csv_rows("a,b\n1,2\n", Path(name)) for name in ("a.csv", "b.csv"))
    assert next(first)[1] == next(second)[1] == ["a", "b"]
    assert csv.field_size_limit() > usual
    assert [row for _, row in first] == [["1", "2"]]
    assert csv.field_size_limit() > usual  # the second text is still read
    assert [row for _, row in second] == [["1", "2"]]
    assert csv.field_size_limit() == usual


@settings(max_examples=examples(60))
@given(st.lists(st.lists(st.text('ab,;"\n\té 1', max_size=6), min_size=2, max_size=5), min_size=1, max_size=8))
def test_cells_that_are_written_are_read(rows: list[list[str]]) -> None:
    lines = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    usual = csv.field_size_limit()
    read = read_file("a.csv", "\n".join(lines))
    words = [word for row in rows for cell in row for word in cell.split()]
    assert read.notes == ()
    assert csv.field_size_limit() == usual
    assert [word for word in read.text.replace("|", " ").split() if word != "---"] == words


@pytest.mark.parametrize(
    ("name", "content", "text", "note"),
    [
        ("a.json", '{"a": {"b": 1.10, "c": [1, "x"]}, "d": null, "e": true}', "a.b: 1.10\na.c: 1, x\ne: true", ""),
        ("a.json", '[{"a": "x"}, {"a": "y", "b": ""}, "z"]', "a: x\n\na: y\n\nz", ""),
        ("a.json", '{"items": [{"n": 1}, {"n": [[2], [3, 4]]}]}', "items.n: 1\nitems.n: 2\nitems.n: 3, 4", ""),
        ("a.json", '{"k": 1, "k": NaN, "": "t"}', "k: 1\nk: NaN\nt", ""),
        ("a.json", r'{"a": "\ud800x"}', "a: ?x", ""),
        (
            "a.json",
            '{ // ours\n"a": 1}',
            '{ // ours\n"a": 1}',
            "it is not JSON, and stays as it is written: "
            "Expecting property name enclosed in double quotes: line 1 column 3 (char 2)",
        ),
        (
            "a.jsonl",
            '{"name": "Ann", "age": 7, "none": null}\r\n\n{"tags": ["x", "é"]}',
            "name: Ann\nage: 7\n\ntags: x, é",
            "",
        ),
        (
            "a.jsonl",
            '{"a": 1}\n{"a": \n[2]\nb',
            'a: 1\n\n{"a": \n\n2\n\nb',
            "2 lines are not JSON and stay as they are written: lines 2, 4",
        ),
    ],
)
def test_every_value_of_json_is_a_line(name: str, content: str, text: str, note: str) -> None:
    read = read_file(name, content)
    assert (read.text, read.notes) == (text, (note,) if note else ())


@pytest.mark.parametrize("depth", [900, 100_000])
def test_json_may_be_nested_deeply(depth: int) -> None:
    assert "deep" in read_file("a.json", "[" * depth + json.dumps("deep") + "]" * depth).text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("\x1b[31mERROR\x1b[0m on \x1b[1;4mnode7\x1b[m", "ERROR on node7"),
        ("\x1b[38;2;255;0;0mred\x1b[K", "red"),
        ("\x1b]8;;file:x\x1b\\a link\x1b]8;;\x07 here", "a link here"),
        ("\x1b(Bplain\x1b7", "plain"),
        ("N\x08NA\x08AM\x08ME\x08E _\x08x", "NAME x"),
        ("10%\r20%", "10%\n20%"),
        ("[31m stays", "[31m stays"),
        ("\x1b[31", "\x1b[31"),
    ],
)
def test_what_moves_and_colours_a_terminal_is_left_out(content: str, text: str) -> None:
    assert read_file("a.log", content).text == text


def test_source_code_is_named_with_its_suffix() -> None:
    assert read_file("src/main.rs", "fn main() {}\r\n") == FileContent("main.rs", "fn main() {}\n")


def test_soft_hyphens_join_words() -> None:
    assert read_file("a.txt", "Donau\u00addampf\u00adschiff").text == "Donaudampfschiff"
