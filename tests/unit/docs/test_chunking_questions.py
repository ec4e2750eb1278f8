"""The questions with evidence over long documents, and their check."""

from project import ROOT

from benchmarks.chunking.check import find_problems, read_rows


def test_the_files_are_questions_with_evidence() -> None:
    files = sorted((ROOT / "benchmarks" / "chunking").glob("*.csv"))
    assert [(file.stem, len(read_rows(file))) for file in files] == [
        ("latex", 80),
        ("own", 42),
        ("postfix", 40),
        ("postgresql", 40),
        ("sqlite", 40),
    ]
    assert all(row["evidence"].strip() for file in files for row in read_rows(file))


def test_a_quote_elsewhere_or_twice_is_a_problem() -> None:
    row = {"documents": "a.md", "evidence": "one two three four"}
    assert find_problems({"a.md": "one  two\nthree four"}, [row]) == []
    twice = "line 2: 'one two three four' stands in {'a.md': 1, 'b.md': 1}"
    assert find_problems({"a.md": "one two three four", "b.md": "one two three four"}, [row]) == [twice]
    assert find_problems({"a.md": "nothing"}, [row]) == [
        "line 2: 'one two three four' stands in no document",
        "line 2: no quote is of a.md",
    ]
