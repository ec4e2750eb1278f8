"""BM25 from memory, held equal to bm25s and to arithmetic by hand."""

import math
from collections import Counter

import bm25s
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex.stores.memory.bm25 import TextCounts, build_text_index, count_postings, count_tokens, merge_postings

words = st.sampled_from(["ferry", "harbour", "dawn", "rye", "oven", "beech", "oak", "über", "東京"])
texts = st.lists(st.lists(words, min_size=1, max_size=12), min_size=1, max_size=15)


@given(texts, st.lists(words, min_size=1, max_size=6))
@settings(max_examples=examples(60))
def test_scores_are_those_of_bm25s(corpus: list[list[str]], question: list[str]) -> None:
    peer = bm25s.BM25(k1=1.2, b=0.75, method="lucene", dtype="float64")
    peer.index(corpus, show_progress=False)
    known = [word for word in question if word in peer.vocab_dict]
    expected = peer.get_scores(known).tolist() if known else [0.0] * len(corpus)
    scores = build_text_index(pa.array([" ".join(tokens) for tokens in corpus])).scores(question)
    assert scores.tolist() == pytest.approx(expected, rel=1e-5)


def test_by_hand() -> None:
    index = build_text_index(pa.array(["a b b", "b c", "", None, "a"]))
    idf_b = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))  # three rows have tokens, two of them hold b
    mean = 6 / 3
    first = 2 / (2 + 1.2 * (0.25 + 0.75 * 3 / mean))
    second = 1 / (1 + 1.2 * (0.25 + 0.75 * 2 / mean))
    assert index.scores(["b"]).tolist() == pytest.approx([idf_b * first, idf_b * second, 0, 0, 0], rel=1e-6)
    assert index.scores(["b", "b"]).tolist() == pytest.approx(
        [2 * idf_b * first, 2 * idf_b * second, 0, 0, 0], rel=1e-6
    )
    assert index.scores(["x", ""]).tolist() == [0, 0, 0, 0, 0]


@pytest.mark.parametrize("rows", [[], [""], [None, ""]])
def test_nothing_to_find(rows: list[str | None]) -> None:
    assert build_text_index(pa.array(rows, pa.string())).scores(["a", ""]).tolist() == [0.0] * len(rows)


@given(texts)
@settings(max_examples=examples(30))
def test_the_order_of_rows_changes_no_score(corpus: list[list[str]]) -> None:
    joined = [" ".join(tokens) for tokens in corpus]
    forth = build_text_index(pa.array(joined)).scores(["ferry", "oak"])
    back = build_text_index(pa.array(joined[::-1])).scores(["ferry", "oak"])
    assert forth.tolist() == back.tolist()[::-1]  # to the last bit: the law rests on it


@given(texts, st.lists(words, max_size=4), st.sets(st.integers(0, 14)))
@settings(max_examples=examples(60))
def test_scores_of_some_rows_are_those_of_all(corpus: list[list[str]], question: list[str], some: set[int]) -> None:
    index = build_text_index(pa.array([" ".join(tokens) for tokens in corpus]))
    rows = np.array(sorted(row for row in some if row < len(corpus)), np.int64)
    assert index.scores_of(question, rows).tolist() == index.scores(question)[rows].tolist()  # to the last bit


@given(st.lists(st.none() | st.lists(words, max_size=6), max_size=12), st.integers(0, 3))
@settings(max_examples=examples(100))
def test_postings_are_the_counts_of_each_row(rows: list[list[str] | None], skipped: int) -> None:
    column = pa.array([None if row is None else " ".join(row) for row in rows], pa.string())[skipped:]
    index, remaining = build_text_index(column), rows[skipped:]
    counts = [Counter(row or []) for row in remaining]
    assert set(index.terms) == set().union(*counts)
    for term, number in index.terms.items():
        postings = index.rows[index.starts[number] : index.starts[number + 1]]
        assert postings.tolist() == [row for row, count in enumerate(counts) if term in count]
    assert count_tokens([column]) == TextCounts(
        sum(bool(row) for row in remaining),
        sum(map(len, filter(None, remaining))),
        Counter(term for count in counts for term in count),
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.sets(st.integers(0, 199), max_size=40))
@settings(max_examples=examples(200))
def test_best_rows_are_those_of_all_scores(seed: int, k: int, without: set[int]) -> None:
    """With frequent and rare tokens, which are read differently, and with ties."""
    rng = np.random.default_rng(seed)
    shares = rng.uniform(0, 1, 12) ** rng.integers(1, 6)
    corpus = [
        " ".join(f"w{word}" for word in range(12) for _ in range(rng.integers(1, 4) * (rng.uniform() < shares[word])))
        for _ in range(200)
    ]
    index, question = build_text_index(pa.array(corpus)), [f"w{word}" for word in rng.integers(0, 13, 6)]
    scores = index.scores(question)
    scores[sorted(without)] = 0
    rows = index.select_best(question, k, np.array(sorted(without), np.int64))
    assert rows.tolist() == sorted(set(rows.tolist()))
    least = np.sort(scores)[-k]
    best = np.flatnonzero((scores > 0) & (scores >= least)).tolist()
    assert set(best) <= set(rows.tolist()) <= set(np.flatnonzero(scores).tolist())


@given(texts, st.integers(1, 5))
@settings(max_examples=examples(60))
def test_postings_of_blocks_are_those_of_all_rows(corpus: list[list[str]], size: int) -> None:
    column = pa.array([" ".join(tokens) for tokens in corpus] + ["", None])
    blocks = merge_postings(count_postings(column[start : start + size]) for start in range(0, len(column), size))
    at_once = merge_postings([count_postings(column)])
    assert [np.asarray(own).tolist() for own in blocks] == [np.asarray(own).tolist() for own in at_once]
    assert blocks.terms == sorted({token for tokens in corpus for token in tokens})
