"""Records that copy their document's metadata, written in blocks of a bounded size."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ragindex
from ragindex.filters import meta
from ragindex.interfaces import Part
from ragindex.parts import records
from ragindex.parts.text.passages import Passages
from ragindex.parts.text.propositions import Propositions
from ragindex.parts.triples.triples import Triples
from ragindex.stores.lancedb.store import LanceCollection

PARTS: tuple[Part[Any], ...] = (
    Passages(),
    Passages(by="sentences", size=8, context="headings"),
    Triples(),
    Propositions(),
)
DOCUMENTS = [
    ragindex.Document(
        f"d{number}",
        f"Harbour {number}",
        f"Emma Weil built the harbour of town {number}. She lived in Bergen. The harbour has a mole of stone.",
        {"number": number, "tags": ["a", None, f"t{number % 2}"]} if number % 3 else {},
    )
    for number in range(7)
]


def read(folder: Path) -> list[list[dict[str, Any]]]:
    """Build the parts; return all their records, sorted, and those that pass a filter."""
    with ragindex.open(folder, chunking=ragindex.Chunking(40, 0), create=True) as index:
        index.add(DOCUMENTS)
        index.build(*PARTS)
        opened = [index.open_part(part) for part in PARTS]
        return [
            sorted(to_rows(part.scan(part.fields(), where)), key=lambda row: str(row["id"]))
            for part in opened
            for where in (None, meta("tags", "t1"))
        ]


def to_rows(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def test_records_are_those_of_one_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = read(tmp_path / "one")
    assert all(expected)
    rows, upsert = list[int](), LanceCollection.upsert

    def count(collection: LanceCollection, written: pa.RecordBatch) -> None:
        rows.append(len(written))
        upsert(collection, written)

    monkeypatch.setattr(records, "_COPIED_BYTES", 60)
    monkeypatch.setattr(LanceCollection, "upsert", count)
    assert read(tmp_path / "several") == expected
    assert len([row for row in rows if 0 < row < 5]) > 10


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([0, 0, 0], [(0, 3)]),
        ([4, 4, 4], [(0, 3)]),
        ([5, 5, 1, 20, 3], [(0, 2), (2, 4), (4, 5)]),
    ],
)
def test_blocks(sizes: list[int], expected: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_COPIED_BYTES", 10)
    assert list(records.split_by_size(sizes)) == expected
