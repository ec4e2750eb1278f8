"""Worlds: the same bytes everywhere, of any size, with any seed."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex.corpus import read
from ragindex.errors import DataError, UsageError
from ragindex_eval.data import datasets, worlds
from ragindex_eval.data.questions import DatasetQuestion
from ragindex_eval.data.worlds.draws import permutation
from ragindex_eval.data.worlds.layout import Layout, Ref
from ragindex_eval.data.worlds.naming import WorldNames

# Pinned: a world that changes is another benchmark, and nobody may tune one to flatter a method. Figures measured on
# the old ones cannot be compared with figures measured on new ones; a change belongs in
# docs/dev/evidence/figures-of-worlds.md.
PINNED = {
    (50, 0): "001e8a8fd18da33a9499f3d47daac50e7b38dbcea928d1fbbd9cd3b2e856f8ec",
    (1000, 0): "51324686e89faa7e83b3919b4ea8e5d65bfe43192559af0e1767d00de11c8ff1",
    (100, 20260101): "1c70ba3b3df424f3d9b45d115837f1c7e32f2ce3b4bf0c64eb2c9da93b0d2eb9",
    (61, 4): "cf444bdb72e710a17b228cb4dd464eb132242f191dd96eba07a74b981af66216",
    (600, 2**60): "0d5f2f2ca2fcbcf58b63f317c6186706c3e2d0176ee465ab07d772f473fc8091",
}


def digest(values: Iterable[Any]) -> str:
    hashed = hashlib.sha256()
    for value in values:
        hashed.update(json.dumps(value, ensure_ascii=False).encode() + b"\n")
    return hashed.hexdigest()


def as_json(question: DatasetQuestion) -> list[Any]:
    assert question.gold is not None
    return [question.text, sorted(question.gold.doc_ids), list(question.gold.answers), question.gold.kind]


@pytest.mark.parametrize(("size", "seed"), PINNED)
def test_the_same_seed_gives_the_same_bytes(size: int, seed: int) -> None:
    documents = ([document.id, document.title, document.text] for document in worlds.make_documents(size, seed))
    triples = ([id, t.subject, t.predicate, t.object] for id, t in worlds.make_triples(size, seed))
    questions = map(as_json, worlds.make_questions(size, seed))
    assert digest([digest(documents), digest(triples), digest(questions)]) == PINNED[size, seed]


def test_too_few_questions_of_a_kind_are_listed() -> None:
    questions = worlds.make_questions(50, 0)
    counts = Counter(question.gold.kind for question in questions if question.gold)
    listed = ", ".join(f"{counts[kind]} {kind}" for kind in worlds.QUESTION_KINDS)
    assert (
        worlds.describe_shortfall(questions)
        == f"the world is too small for 200 questions of each kind: it holds {listed}"
    )
    assert all(0 < counts[kind] < 200 for kind in worlds.QUESTION_KINDS)
    assert worlds.describe_shortfall(worlds.make_questions(50, 0, 20), 20) is None


@settings(max_examples=examples(5))
@given(st.integers(50, 300), st.integers(0, 2**60))
def test_any_world_has_its_documents_and_gold(size: int, seed: int) -> None:
    documents = list(worlds.make_documents(size, seed))
    ids = {document.id for document in documents}
    assert len(documents) == len(ids) == len({document.title for document in documents}) == size
    assert ids == {f"p{number:06d}" for number in range(size)}
    assert all(40 <= len(document.text.split()) <= 120 for document in documents)
    for question in worlds.make_questions(size, seed, per_kind=5):
        assert question.gold is not None
        assert question.gold.doc_ids <= ids


def test_large_worlds_stream_and_keep_names_apart() -> None:
    first = [(document.id, document.title) for document in islice(worlds.make_documents(1_000_000), 3)]
    assert first == [("p891909", "Garlavia"), ("p769285", "Vandath March"), ("p307950", "Toulmarth Heath")]
    layout = Layout(1_000_000, 0)
    names = WorldNames(layout)
    refs = [ref for region in range(0, layout.regions, 97) for ref in layout.refs(region)]
    assert len(refs) > 10_000
    assert len({names.name(ref) for ref in refs}) == len(refs) == len({layout.doc_id(ref) for ref in refs})
    last = Ref("work", layout.regions - 1, 0)
    assert names.name(last) == "The Northern Forest at Dawn"


@pytest.mark.parametrize("n", [1, 10, 97])
def test_permutations(n: int) -> None:
    order = permutation(n, 7, "x")
    assert [order.inverse(order(i)) for i in range(n)] == list(range(n)) == sorted(order(i) for i in range(n))
    with pytest.raises(IndexError, match=rf"{n} is not in \[0, {n}\)"):
        order(n)


# ---------------------------------------------------------------- `world:SIZE[:SEED]` wherever DATA is taken


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
