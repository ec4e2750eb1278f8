from pathlib import Path

import ragindex
from benchmarks.chunking.check import find_problems, read_rows

ROOT = Path(__file__).parents[2]


def test_quotes_stand_once_in_the_documentation() -> None:
    texts = {document.id: document.text for document in ragindex.read(ROOT / "docs").documents}
    rows = read_rows(ROOT / "benchmarks/chunking/docs.csv")
    assert len(rows) == 40
    assert find_problems(texts, rows) == []


def test_a_quote_elsewhere_or_twice_is_a_problem() -> None:
    row = {"documents": "a.md", "evidence": "one two three four"}
    assert find_problems({"a.md": "one  two\nthree four"}, [row]) == []
    twice = "line 2: 'one two three four' stands in {'a.md': 1, 'b.md': 1}"
    assert find_problems({"a.md": "one two three four", "b.md": "one two three four"}, [row]) == [twice]
    assert find_problems({"a.md": "nothing"}, [row]) == [
        "line 2: 'one two three four' stands in no document",
        "line 2: no quote is of a.md",
    ]
