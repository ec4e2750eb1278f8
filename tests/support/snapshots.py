"""Texts that commands print, kept in files beside the tests; UPDATE_SNAPSHOTS=1 writes the files anew."""

import io
import os
import re
from difflib import unified_diff
from pathlib import Path

from rich.console import Console

# What differs from run to run or from machine to machine, and what stands for it.
_MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?( UTC)?"), "<time>"),
    (re.compile(r"\bfrom \d\d:\d\d\b"), "from <time>"),
    (re.compile(r"\b[0-9a-f]{16}\b"), "<hash>"),
    (re.compile(r"\b\d+\.\d+\.\d+\b"), "<version>"),
)

# For the tables of comparisons: the width of a figure moves the other columns, and the last four of the first table,
# which follow four or five metrics, are times and sizes.
SPACES = (r" {2,}", "  ")
FIGURES = (r"(?m)^(\S.*?(?:  [\d.,]+){4,5})(?:  [\d.,]+){4}$", r"\1  <p50 p95 s MB>")

# For the first sentence: which method is fastest, if any, and what two of them cost.
FASTEST = (r"Of [^.;]+ is fastest: .+?, geometric mean\)\. ", "")
COSTS = (r"\S+ takes [\d.,]+ ms a question, and [\d.,]+ MB for its index(; |\.)", r"<costs>\1")
SENTENCE = (SPACES, FIGURES, FASTEST, COSTS)


def printed(value: object, width: int) -> str:
    """What a terminal of this width shows."""
    console = Console(width=width, file=io.StringIO(), record=True, highlight=False, emoji=False)
    console.print(value)
    return "".join(f"{line.rstrip()}\n" for line in console.export_text().splitlines())


def masked(text: str, *more: tuple[str, str]) -> str:
    """`text` without times, hashes and versions; `more` are patterns with what stands for them."""
    for pattern, stand_in in (*_MASKS, *((re.compile(pattern_text), two) for pattern_text, two in more)):
        text = pattern.sub(stand_in, text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def assert_matches(text: str, path: Path) -> None:
    """Fail where `text` is not what the file `path` holds. With UPDATE_SNAPSHOTS=1, write the file first."""
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"{path.name} is missing: run the test with UPDATE_SNAPSHOTS=1"
    expected = path.read_text(encoding="utf-8")
    difference = unified_diff(expected.splitlines(), text.splitlines(), path.name, "what was printed", lineterm="")
    assert text == expected, "\n".join(difference)
