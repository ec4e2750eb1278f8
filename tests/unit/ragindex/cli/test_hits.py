"""What `search --explain` prints of the steps of a retrieval."""

import pytest

from ragindex.cli.hits import print_hits
from ragindex.types import Hit, Position, Retrieval, Step


@pytest.mark.parametrize(
    ("iterations", "expected"),
    [
        ((1, 1), ["Step 1: text, 2.0 ms", "Step 2: text, 2.0 ms"]),
        ((1, 2), ["Step 1: text, iteration 1, 2.0 ms", "Step 2: text, iteration 2, 2.0 ms"]),
    ],
)
def test_steps_are_numbered_and_name_their_iteration_if_there_are_several(
    iterations: tuple[int, int], expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    steps = tuple(Step(number, "text", "slate", ms=2.0) for number in iterations)
    print_hits("slate", Retrieval((), steps), "bm25", "english", full=False, explain=True)
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("Step ")] == expected


@pytest.mark.parametrize("header", ["", "| what | when |\n|---|---|\n" * 20])
@pytest.mark.parametrize(("full", "page"), [(False, 4), (True, 3)])
def test_a_snippet_is_named_by_the_page_where_it_starts(
    full: bool, page: int, header: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The passage begins on page 3, the words of the question stand on page 4, and page 5 comes after them.

    The header of the table that the passage starts in stands before, in the text and not in the position.
    """
    text = f"{'Nothing here. ' * 60}The slate came by boat. {'Nothing else. ' * 60}"
    there = text.index("The slate")
    position = Position("guide.pdf", 100, 100 + len(text), 3, (), ((100 + 400, 4), (100 + there + 90, 5)))
    hit = Hit(
        *("guide.pdf#0", "passage", ("guide.pdf#0",), ("guide.pdf",), "Guide", header + text, 1.0, "text"),
        positions=(position,),
    )
    print_hits("slate boat", Retrieval((hit,)), "bm25", "english", full=full, explain=False)
    assert f"guide.pdf, page {page}" in capsys.readouterr().out
