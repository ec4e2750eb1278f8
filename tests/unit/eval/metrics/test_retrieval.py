import math

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import RR, R, Success, nDCG

from examples import examples
from ragindex_eval.data.gold import gains
from ragindex_eval.metrics.retrieval import gold_ranks, means, metric_names, ranking, score_hits

DOCUMENTS = [f"d{number}" for number in range(12)]
HITS = st.lists(st.lists(st.sampled_from(DOCUMENTS), min_size=1, max_size=3, unique=True), max_size=12)
GRADES = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(1, 4), min_size=1, max_size=8)


@settings(max_examples=examples(100))
@given(hits=HITS, gold=GRADES, k=st.integers(1, 15))
def test_equal_to_ir_measures(hits: list[list[str]], gold: dict[str, int], k: int) -> None:
    ranked = ranking(hits[:k])
    run = [ir_measures.ScoredDoc("q", doc_id, float(len(ranked) - rank)) for rank, doc_id in enumerate(ranked)]
    qrels = [ir_measures.Qrel("q", doc_id, grade) for doc_id, grade in gold.items()]
    expected = ir_measures.calc_aggregate([R @ k, Success @ k, RR @ k, nDCG @ k], qrels, run)
    scores = score_hits(hits, gold, (k,))
    assert {str(name): value for name, value in expected.items()} == pytest.approx(
        {name: scores[name] for name in map(str, expected)}, abs=1e-12
    )


def test_by_hand() -> None:
    hits = [["x"], ["a", "y"], ["b"], ["z"], ["c"]]  # documents: x a y b z c
    scores = score_hits(hits, {"a": 2, "b": 1, "c": 3}, (2, 4, 6))
    assert scores["R@2"] == 1 / 3
    assert scores["R@4"] == 2 / 3
    assert scores["R@6"] == 1
    assert [scores[f"full_R@{k}"] for k in (2, 4, 6)] == [0, 0, 1]
    assert [scores[f"Success@{k}"] for k in (2, 4, 6)] == [1, 1, 1]
    assert [scores[f"RR@{k}"] for k in (2, 4, 6)] == [0.5, 0.5, 0.5]
    ideal = 3 + 2 / math.log2(3) + 1 / 2
    assert scores["nDCG@4"] == pytest.approx((2 / math.log2(3) + 1 / math.log2(5)) / ideal)
    # without the hits of several documents, x b z c are left
    assert [scores[f"one_doc_R@{k}"] for k in (2, 4, 6)] == [1 / 3, 2 / 3, 2 / 3]


def test_a_document_counts_at_its_first_appearance_and_the_cut_is_in_hits_and_documents() -> None:
    hits = [["a", "b"], ["b", "a"], ["a"], ["c"]]
    assert ranking(hits) == ["a", "b", "c"]
    assert score_hits(hits, {"c": 1}, (3, 4)) == {
        **{"R@3": 0, "R@4": 1, "full_R@3": 0, "full_R@4": 1, "Success@3": 0, "Success@4": 1},
        **{"RR@3": 0, "RR@4": 1 / 3, "nDCG@3": 0, "nDCG@4": 0.5, "one_doc_R@3": 1, "one_doc_R@4": 1},
    }
    assert score_hits([["a", "b", "c"]], {"c": 1}, (2, 3))["R@2"] == 0  # a summary takes as many places as it names


@settings(max_examples=examples(60))
@given(hits=HITS, gold=GRADES, k=st.integers(1, 10), others=st.lists(st.integers(1, 20), max_size=3))
def test_a_metric_at_k_is_that_of_a_search_for_k_hits(
    hits: list[list[str]], gold: dict[str, int], k: int, others: list[int]
) -> None:
    alone = score_hits(hits[:k], gold, (k,))
    together = score_hits(hits, gold, (k, *others))
    names = [name for name in alone if not name.startswith("one_doc_R")]
    assert {name: together[name] for name in names} == {name: alone[name] for name in names}


def test_a_hit_that_names_one_document_twice_is_a_hit_of_one_document() -> None:
    assert score_hits([["a", "a"], [], ["b"]], {"a": 1, "b": 1}, (1, 2))["one_doc_R@2"] == 1


def test_gold_rank_is_that_of_the_first_hit_on_a_document_or_its_copy() -> None:
    hits = [["x"], ["a", "y"], ["copy of c"], ["b", "a"], ["c"]]
    assert gold_ranks(hits, {"a", "b", "c", "d"}, {"copy of c": "c"}) == {"a": 2, "c": 3, "b": 4}
    assert gold_ranks(hits, {"c"}) == {"c": 5}


def test_nothing_found_scores_zero_everywhere() -> None:
    assert score_hits([], {"a": 1}, (5, 10)) == dict.fromkeys(metric_names((5, 10)), 0.0)


def test_gains_default_to_one_and_nonpositive_grades_are_no_gold() -> None:
    assert gains({"a", "b"}, {"b": 3, "c": 0, "d": -1}) == {"a": 1, "b": 3}


def test_no_gold_is_an_error() -> None:
    with pytest.raises(ValueError, match="without gold"):
        score_hits([["a"]], {}, (5,))


def test_means_count_every_question() -> None:
    assert means([{"R@5": 1.0}, {"R@5": 0.0}, {"R@5": 0.5}]) == {"R@5": 0.5}
    assert means([]) == {}


def test_mean_of_a_metric_is_over_the_questions_that_have_it() -> None:
    assert means([{"R@5": 1.0, "F1": 0.25}, {"R@5": 0.0}]) == {"R@5": 0.5, "F1": 0.25}
