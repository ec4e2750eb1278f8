"""Worlds are more than word overlap: what bm25 finds in them."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from ragindex.index.index import Index
from ragindex.types import Query
from ragindex_baselines.bm25 import BM25
from ragindex_eval.data import worlds


@pytest.mark.parametrize("seed", [0, 1])
def test_word_overlap_alone_does_not_win(seed: int, tmp_path: Path) -> None:
    recall = recalls(seed, tmp_path)
    assert 0.5 < recall["2hop"] < 0.75
    assert 1 / 3 < recall["3hop"] < 0.6
    assert 1 / 4 < recall["4hop"] < 0.6


def recalls(seed: int, folder: Path) -> Mapping[str, float]:
    """bm25's mean R@5 of each kind of question, at 1,000 passages."""
    questions = worlds.make_questions(1000, seed)[:400]
    with Index.open(folder / "w", chunking=None, create=True) as workspace:
        workspace.add(worlds.make_documents(1000, seed))
        workspace.build(BM25())
        retrievals = (
            BM25().open(workspace).retrieve([Query(str(i), query.text) for i, query in enumerate(questions)], 5)
        )
    values = defaultdict(list)
    for question, retrieval in zip(questions, retrievals, strict=True):
        assert question.gold is not None
        hits = {id for hit in retrieval.hits for id in hit.doc_ids}
        values[question.gold.kind].append(len(hits & question.gold.doc_ids) / len(question.gold.doc_ids))
    return {kind: sum(recall) / len(recall) for kind, recall in values.items()}
