"""Texts of reports reveal no folder of the machine, wherever in a text a path stands."""

import pytest

from ragindex_eval.format import without_folders


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("encoder sentence-transformers:/srv/models/mini, seed 0", "encoder sentence-transformers:…/mini, seed 0"),
        ("--encoder sentence-transformers:~/m/mini", "--encoder sentence-transformers:…/mini"),
        ("see https://example.org/a/b", "see https://example.org/a/b"),
        ("file:///home/ann/b.md", "…/b.md"),
        ("C:/data/x.txt", "…/x.txt"),
        ("notes/rivers/sarn.md", "notes/rivers/sarn.md"),
        ("'/srv/a/q.csv' is gone", "'…/q.csv' is gone"),
    ],
)
def test_folders_are_left_out(text: str, shown: str) -> None:
    assert without_folders(text) == shown
