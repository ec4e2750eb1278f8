"""The chunking that a program gives to `ragindex.open` and `Index.rechunk`."""

from pathlib import Path
from typing import Any

import pytest

import ragindex
from ragindex.errors import UsageError


def test_a_chunking_may_be_written(tmp_path: Path) -> None:
    with ragindex.open(tmp_path / "i", chunking="passages(size=50)", create=True) as index:
        assert index.chunking == ragindex.Chunking(50, 0, "words")
        index.rechunk("passages(by=headings, size=80)")
        assert index.chunking == ragindex.Chunking(80, 0, "headings")


@pytest.mark.parametrize(
    ("chunking", "message"),
    [
        ("some text", "A chunking is written 'passages.by=headings, size=200.': 'some text' cannot be read"),
        ("bm25", "A chunking is written 'passages.by=headings, size=200.': No part is called 'bm25'"),
        ("triples", "A chunking is written .* Got 'triples' instead"),
        (5, "A chunking is ragindex.Chunking.*Got 5"),
    ],
)
def test_what_is_no_chunking_is_refused(chunking: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        ragindex.open(tmp_path / "i", chunking=chunking, create=True)
    assert not (tmp_path / "i").exists()
