"""Rankings and judgements in files."""

import gzip
import json
from pathlib import Path

import pytest

from ragindex.errors import DataError
from ragindex_eval.data.run_files import read_qrels, read_run

TREC = "q1 Q0 a 1 2.5 tag\nq1 Q0 b 2 3.5 tag and more\n\nq2\tQ0\tc\t1\t1e-3\ttag\n"
RANKINGS = {"q1": (("b", 3.5), ("a", 2.5)), "q2": (("c", 0.001),)}
SCORES = {"q1": {"a": 2.5, "b": 3.5}, "q2": {"c": 0.001}}
ENTRIES = [{"query": q, "document": d, "score": s} for q, of_query in SCORES.items() for d, s in of_query.items()]
TABLE = "query,document,score\n" + "".join(f"{e['query']},{e['document']},{e['score']}\n" for e in ENTRIES)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mine.trec", TREC),
        ("mine", TREC),
        ("mine.run.txt", TREC),
        ("mine.json", json.dumps(SCORES)),
        ("mine.json", json.dumps(ENTRIES)),
        ("mine.csv", TABLE),
        ("mine.csv", "\ufeff" + TABLE),
        ("mine.tsv", TABLE.replace(",", "\t")),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_formats_of_rankings(tmp_path: Path, name: str, text: str, packed: bool) -> None:
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    run = read_run(path)
    assert (run.name, run.rankings) == ("mine", RANKINGS)


def test_ties_come_in_falling_order_of_ids_as_trec_eval_keeps_scores(tmp_path: Path) -> None:
    path = tmp_path / "ties.trec"
    close = 1.0 + 1e-12  # the same in single precision
    path.write_text(f"q Q0 a 1 1.0 t\nq Q0 c 2 1.0 t\nq Q0 b 3 {close!r} t\nq Q0 z 4 0.5 t\n")
    assert [id for id, _ in read_run(path).rankings["q"]] == ["c", "b", "a", "z"]


def test_judgements(tmp_path: Path) -> None:
    expected = {"q1": {"a": 2, "b": 0}, "q2": {"c": -1}}
    (tmp_path / "q.trec").write_text("q1 0 a 2\nq1 0 b 0\nq2 0 c -1\n")
    (tmp_path / "q.json").write_text(json.dumps(expected))
    (tmp_path / "q.csv").write_text("query,document,grade\nq1,a,2\nq1,b,0\nq2,c,-1\n")
    for name in ("q.trec", "q.json", "q.csv"):
        assert read_qrels(tmp_path / name) == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.trec", b"q1 Q0 a 1\n", "QUERY Q0 DOCUMENT RANK SCORE TAG a line"),
        ("a.trec", b"q1 Q0 a 1 high t\n", "a finite number as score"),
        ("a.trec", b"q1 Q0 a 1 nan t\n", "a finite number as score"),
        ("a.trec", b"q1 Q0 a 1 2 t\nq1 Q0 a 2 1 t\n", "'a' twice for the query 'q1'"),
        ("a.trec", b"", "an empty file"),
        ("a.trec", b"\xff\xfe", "UTF-8"),
        ("a.trec.gz", b"no gzip", "a file of rankings"),
        ("a.json", b"[1]", "something else"),
        ("a.json", b"{", "JSON"),
        ("a.json", b'{"q": {"a": true}}', "a finite number as score"),
        ("a.csv", b"query,doc\nq,a\n", "a header with query, document and score"),
        ("a.csv", b"query,document,score\n,a,1\n", "a query and a document in each row"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_run(tmp_path / name)


def test_grades_are_whole_numbers(tmp_path: Path) -> None:
    (tmp_path / "q.trec").write_text("q1 0 a 0.5\n")
    with pytest.raises(DataError, match="a whole number as grade"):
        read_qrels(tmp_path / "q.trec")
    with pytest.raises(DataError, match="none.trec"):
        read_qrels(tmp_path / "none.trec")
