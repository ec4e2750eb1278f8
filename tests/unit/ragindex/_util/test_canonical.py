"""Metadata as JSON, and its limits where documents are read and accepted."""

import json
from pathlib import Path
from typing import Any

import pytest

from ragindex._util.canonical import load_stored_json, metadata_json
from ragindex.corpus import read
from ragindex.errors import DamagedError, DataError
from ragindex.serve.spool import open_spool
from ragindex.types import Document


def nest(levels: int) -> Any:
    return {"a": nest(levels - 1)} if levels else 1


TOO_MUCH = {
    "metadata with at most 128 keys; found 129": {f"k{number}": 1 for number in range(129)},
    "metadata of at most 8 levels; found more": nest(9),
    "metadata of at most 65,536 bytes as JSON; found 65,545": {"a": "é" * 32_768},
}


@pytest.mark.parametrize("metadata", [{f"k{n}": 1 for n in range(128)}, nest(8), {"a": "é" * 32_700}, {"a": [[1], {}]}])
def test_metadata_within_the_limits(metadata: Any) -> None:
    assert json.loads(metadata_json(metadata)) == metadata


@pytest.mark.parametrize(("limit", "metadata"), TOO_MUCH.items())
def test_metadata_beyond_the_limits_is_refused_by_name(limit: str, metadata: Any, tmp_path: Path) -> None:
    with open_spool(tmp_path).writing() as changes, pytest.raises(DataError, match=f"document 'big': expected {limit}"):
        changes.accept([("big", Document("big", "", "text", metadata))])
    big = json.dumps({"_id": "big", "text": "text", "metadata": metadata})
    (tmp_path / "corpus.jsonl").write_text(f'{{"_id": "good", "text": "text"}}\n{big}\n')
    corpus = read(tmp_path / "corpus.jsonl", skip_bad=True)
    assert [document.id for document in corpus.documents] == ["good"]
    assert [limit.partition(";")[0] in str(item) and "line 2" in str(item) for item in corpus.skipped] == [True]


def test_depth_beyond_any_recursion_is_refused() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(DataError, match="at most 8 levels"):
        metadata_json({"a": deep})


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "9" * 5000])
def test_stored_json_that_cannot_be_read_is_damage(text: str) -> None:
    with pytest.raises(DamagedError, match="A record of the index holds JSON that cannot be read"):
        load_stored_json(text)
