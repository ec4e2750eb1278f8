"""`world:SIZE[:SEED]` wherever DATA is taken."""

import re
from pathlib import Path

import pytest

from ragindex.corpus import read
from ragindex.errors import DataError, UsageError
from ragindex_eval.data import datasets, worlds


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("world:50", (50, 0)),
        ("world:1k", (1000, 0)),
        ("WORLD:10K:3", (10_000, 3)),
        ("world:1m:12", (1_000_000, 12)),
        ("world:000777", (777, 0)),
    ],
)
def test_what_can_be_written(written: str, meant: tuple[int, int]) -> None:
    assert worlds.parse_world(written) == meant


@pytest.mark.parametrize("written", ["world:49", "world:2m", "world:0", "world:1000001", "world:99999999999k"])
def test_sizes_that_cannot_be(written: str) -> None:
    message = f"A world has 50 to 1,000,000 passages. Got '{written}' instead."
    with pytest.raises(UsageError, match=re.escape(message)):
        worlds.parse_world(written)


@pytest.mark.parametrize(
    "written", ["world:", "world:x", "world:1.5k", "world:-1", "world:1k:", "world:1k:x", "world:1k:1:2"]
)
def test_what_is_no_world(written: str) -> None:
    with pytest.raises(UsageError, match=rf"written world:SIZE or world:SIZE:SEED.*Got {re.escape(repr(written))}"):
        read(written)


def test_parameters_that_cannot_be() -> None:
    with pytest.raises(UsageError, match="50 to 1,000,000 passages. Got 10 instead"):
        next(worlds.make_documents(10))
    with pytest.raises(UsageError, match="seed of a world must be an int in the range .* Got -1 instead"):
        worlds.make_questions(50, -1)


def test_read() -> None:
    corpus = read("world:60:2")
    assert (corpus.name, corpus.format, corpus.undivided, corpus.repeats) == ("world-60-seed2", "world", True, 0)
    assert corpus.documents == tuple(sorted(worlds.make_documents(60, 2), key=lambda document: document.id))
    with pytest.raises(UsageError, match="world:60 is generated and has no format. Omit --format. Got 'jsonl'"):
        read("world:60", format="jsonl")
    with pytest.raises(DataError, match="no such path"):
        read("word:60")


def test_a_file_comes_before_a_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "world:60").mkdir()
    (tmp_path / "world:60" / "a.txt").write_text("mine")
    assert [document.text for document in read("world:60").documents] == ["mine"]


def test_load_with_other_questions(tmp_path: Path) -> None:
    document = next(worlds.make_documents(60))
    (tmp_path / "q.csv").write_text(f"question,answer,documents\nWhat is it?,this,{document.title}\n")
    dataset = datasets.read_dataset("world:60", questions=tmp_path / "q.csv")
    assert dataset.gold is not None
    assert [gold.doc_ids for gold in dataset.gold.values()] == [frozenset({document.id})]
    assert (dataset.skipped, dataset.notes) == ((), ())
