"""Evidence: quotes become places, and places are found by positions."""

from pathlib import Path

import pytest

from ragindex.corpus.json_reader import Item
from ragindex.errors import DataError
from ragindex.types import Document, Position
from ragindex_eval.data.gold import EvidencePlace, Gold, find_evidence
from ragindex_eval.metrics.evidence import TokensToRecall, evidence_recall, find_ranks, recall_steps, tokens_to_recall

TEXT = "The pier opens\n  at nine.  It closes at six. It opens again."
DOCUMENTS = {"a": Document("a", "", TEXT), "b": Document("b", "", "It closes at six.")}
ITEM = Item({}, Path("q.csv"), 3)


def test_quotes_and_offsets_become_the_spans_of_their_words() -> None:
    assert find_evidence(["opens at  nine.", " ", "a:26-45"], {"a"}, DOCUMENTS, ITEM) == (
        EvidencePlace("a", ((9, 14), (17, 19), (20, 25))),
        EvidencePlace("a", ((27, 29), (30, 36), (37, 39), (40, 44))),
    )
    assert TEXT[26:45] == " It closes at six. "


@pytest.mark.parametrize(
    ("quote", "documents", "message"),
    [
        ("It opens at ten", {"a"}, "'It opens at ten', which is not"),
        ("It closes at six.", {"a", "b"}, "'It closes at six.', which stands there 2 times"),
        ("pens", {"a"}, "'pens', which stands there 2 times"),
        ("a:50-999", {"a"}, "evidence inside the 60 characters of 'a'; found 'a:50-999'"),
        ("a:14-17", {"a"}, "evidence inside the 60 characters"),
        ("b:0-2", {"a"}, "'b:0-2', which is not"),
    ],
)
def test_evidence_that_names_no_place(quote: str, documents: set[str], message: str) -> None:
    with pytest.raises(DataError) as caught:
        find_evidence([quote], documents, DOCUMENTS, ITEM)
    assert message in str(caught.value)
    assert "q.csv, line 3" in str(caught.value)


FIRST, SECOND = EvidencePlace("a", ((0, 3), (4, 8))), EvidencePlace("b", ((5, 9),))
GOLD = Gold(frozenset({"a", "b"}), evidence=(FIRST, SECOND), equivalents={"copy": "b"})
HITS = (
    (Position("c", 0, 99),),
    (Position("a", 4, 20),),
    (Position("copy", 5, 9),),
    (Position("b", 6, 99), Position("a", 0, 4)),
)


def test_evidence_is_found_by_the_hits_that_hold_all_its_words_together() -> None:
    assert find_ranks(HITS, GOLD) == [4, 3]
    assert evidence_recall(HITS, GOLD, (1, 3, 4)) == {"evidence_R@1": 0.0, "evidence_R@3": 0.5, "evidence_R@4": 1.0}
    assert find_ranks(HITS[:2], GOLD) == [None, None]
    assert find_ranks([[Position("b", 5, 8)], [Position("b", 6, 9)]], GOLD) == [None, None]  # a word in halves
    assert evidence_recall(HITS, Gold(frozenset({"a"})), (5,)) == {}


def test_recall_grows_where_evidence_is_whole_or_a_document_is_found() -> None:
    hits = [(("c",), HITS[0], 10), (("a",), HITS[1], 20), (("copy",), HITS[2], 5), (("b",), HITS[3], 7)]
    assert recall_steps(hits, GOLD) == [(42, 0.5), (35, 0.5)]
    documents = Gold(frozenset({"a", "b"}), equivalents={"copy": "b"})
    assert recall_steps(hits, documents) == [(30, 0.5), (35, 0.5)]


def test_tokens_up_to_a_mean_recall() -> None:
    """Of four questions, two are answered by 10 and 20 tokens, one by half at 30, and one not at all."""
    questions = [[(10, 1.0)], [(20, 1.0)], [(30, 0.5)], []]
    needed = tokens_to_recall(questions, seed=0)
    assert {name: figure.tokens for name, figure in needed.items()} == {
        "tokens_to_recall@0.5": 20,
        "tokens_to_recall@0.8": None,
    }
    half = needed["tokens_to_recall@0.5"].ci95
    assert half is not None
    assert half[0] == 10
    assert half[1] is None
    assert tokens_to_recall([[(10, 1.0)]], seed=0)["tokens_to_recall@0.8"] == TokensToRecall(10, None)
    assert tokens_to_recall([], seed=0) == {}
    sure = tokens_to_recall([[(10, 1.0)]] * 9, seed=0)
    assert sure["tokens_to_recall@0.8"] == TokensToRecall(10, (10, 10))
