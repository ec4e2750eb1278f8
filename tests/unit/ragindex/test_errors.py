"""Messages of errors."""

import pytest

from ragindex.errors import DataError


@pytest.mark.parametrize(
    ("expected", "end"),
    [
        ("a line", "found a line."),
        ("a sentence. Another.", "found a sentence. Another."),
        ("nothing. Run: ragindex index notes --index w", "nothing. Run: ragindex index notes --index w"),
    ],
)
def test_data_errors_end_a_sentence_but_no_command(expected: str, end: str) -> None:
    """A full stop after a command would be part of its last word when it is pasted."""
    assert DataError("a number", expected).reason == f"expected a number; found {end.removeprefix('found ')}"
