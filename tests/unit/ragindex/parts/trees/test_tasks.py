"""What a model is shown of a cluster."""

from ragindex.parts.trees.tasks import drop_repeated_lines


def test_lines_are_shown_once() -> None:
    texts = ["a\nb", " a \nb", "b\nc\n\nd", "d", "e"]
    assert drop_repeated_lines(texts) == ["a\nb", "c\n\nd", "e"]
    assert drop_repeated_lines(["a\n\na", "", "x"]) == ["a\n\na", "x"]
