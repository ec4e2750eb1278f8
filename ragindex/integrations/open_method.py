"""Opening a built method of an index, for adapters that are given a folder."""

from pathlib import Path

from ragindex.index.index import open_index
from ragindex.index.retriever import IndexRetriever
from ragindex.plugins.registry import Written


def open_built_method(folder: Path | str, method: Written) -> IndexRetriever:
    """Open a built method of the index in `folder`, which is only read. Raises the errors of `open` and `retriever`.

    The retriever stays on the state of the index at which it was opened.
    """
    with open_index(folder, read_only=True) as index:
        return index.retriever(method)
