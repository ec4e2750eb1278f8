"""A small index with metadata, built once for the tests of what opens it."""

from pathlib import Path

import ragindex

DOCUMENTS = [
    ragindex.Document(
        "light",
        "Lighthouse",
        "The lighthouse was built of slate in 1931.",
        {"year": 1931, "kind": "tower", "opened": "1931-05-01", "score": "A+", "open": True},
        sections=(ragindex.Section(0, ("Lighthouse", "History"), 3),),
    ),
    ragindex.Document("harbour", "Harbour", "The harbour was built in 1850.", {"year": 1850, "kind": "port"}),
    ragindex.Document("mill", "Mill", "The mill was built in 1850, and ground corn.", {"year": 1850, "kind": "mill"}),
    ragindex.Document("pier", "Pier", "The pier was built later.", {"tags": ["wood", "long"]}),
]
QUESTION = "When was the lighthouse built?"


def build_library(folder: Path) -> Path:
    """Build `bm25` over DOCUMENTS in `folder` and return it."""
    with ragindex.open(folder, encoder="lsa", create=True) as index:
        index.add(DOCUMENTS)
        index.build("bm25")
    return folder
