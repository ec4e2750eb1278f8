"""What `search --explain` prints of the steps of a retrieval."""

import pytest

from ragindex.cli.show_hits import print_hits
from ragindex.types import Retrieval, Step


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
