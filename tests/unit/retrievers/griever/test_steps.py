"""GRIEVER's steps one by one: splitting, n-grams, scores, paths, rewriting."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragindex.interfaces import TokenEmbeddings
from ragindex.types import Triple
from ragindex_retrievers.griever.lookups import StatedTriple
from ragindex_retrievers.griever.matching import (
    CONNECTORS,
    NameMatch,
    Pooling,
    ScoredTriple,
    ngrams,
    ngrams_as_texts,
    partial_score,
    rewrite,
    spans,
    split_question,
)

PAPER = "When did Napolean occupy the city where the mother of the woman who brought Louis XV style to the court died?"


def test_the_papers_example() -> None:
    assert split_question(PAPER, CONNECTORS, with_question=True, most=8) == [
        PAPER,
        "where the mother of the woman who brought Louis XV style to the court died?",
        "who brought Louis XV style to the court died?",
    ]
    assert (
        split_question(PAPER, CONNECTORS, with_question=False, most=8)
        == split_question(PAPER, CONNECTORS, with_question=True, most=8)[1:]
    )


@pytest.mark.parametrize(
    ("question", "clauses"),
    [
        ("Who wrote Emma?", []),
        ("who that wrote", ["that wrote"]),
        ("The film THAT Ann made", ["THAT Ann made"]),
        ("What is that?", []),  # a rest of one word is no clause
        ("Whoever thatched which", []),
        ("", []),
        ("Wer hat das Buch geschrieben, das Ann las?", []),
    ],
)
def test_where_questions_are_split(question: str, clauses: list[str]) -> None:
    assert split_question(question, CONNECTORS, with_question=True, most=8) == [question, *clauses]


def test_forty_clauses_are_bounded() -> None:
    question = "Find one " + "who knows one " * 40
    clauses = split_question(question, CONNECTORS, with_question=True, most=8)
    assert len(clauses) == 8
    assert clauses[:2] == [question, question[question.index("who") :].strip()]
    assert len(split_question(question, CONNECTORS, with_question=True, most=100)) == 41


def test_other_connectors() -> None:
    assert split_question("Wer schrieb das Buch, das Ann las?", ["DAS"], with_question=False, most=8) == [
        "das Buch, das Ann las?",
        "das Ann las?",
    ]


def test_spans_of_ngrams() -> None:
    text = "Ann's U.S. trip?"
    assert [text[start:end] for start, end in spans(text, 2)] == ["Ann's", "U.S", "trip", "Ann's U.S", "U.S. trip"]


def test_an_ngram_is_the_greatest_of_its_tokens() -> None:
    tokens = TokenEmbeddings(((0, 1), (2, 3)), np.array([[0.6, 0.8], [-0.8, 0.6]], np.float32))
    vector = ngrams("a b", tokens, 2, "max").vectors[2]
    np.testing.assert_allclose(vector, [0.6, 0.8], atol=1e-6)


@given(st.data(), st.sampled_from(["mean", "max"]))
def test_ngrams_of_tokens_that_overlap_and_nest(data: st.DataObject, pool: Pooling) -> None:
    """Against sets of tokens: any spans in the order of the contract, gaps and repeats included."""
    text = " ".join(data.draw(st.lists(st.text("ab.", min_size=1, max_size=4), max_size=7)))
    places = st.integers(0, max(0, len(text)))
    given = sorted(tuple(sorted(span)) for span in data.draw(st.lists(st.tuples(places, places), max_size=9)))
    tokens = [(start, end) for start, end in given if start < end]
    vectors = np.random.default_rng(len(text)).normal(size=(len(tokens), 3)).astype(np.float32)
    expected: dict[frozenset[int], tuple[int, int]] = {}
    for start, end in spans(text, 3):
        inside = frozenset(i for i, (low, high) in enumerate(tokens) if low < end and high > start)
        if inside:
            expected.setdefault(inside, (start, end))
    result = ngrams(text, TokenEmbeddings(tuple(tokens), vectors), 3, pool)
    assert result.spans == tuple(expected.values())
    for inside, vector in zip(expected, result.vectors, strict=True):
        rows = vectors[sorted(inside)]
        pooled = rows.mean(axis=0) if pool == "mean" else rows.max(axis=0)
        np.testing.assert_allclose(vector, pooled / np.linalg.norm(pooled), atol=1e-5)


def test_ngrams_as_texts() -> None:
    def encode(texts):  # type: ignore[no-untyped-def]
        return np.array([[len(text), 0] for text in texts], np.float32)

    first, second, empty = ngrams_as_texts(["ab c", "d", "?"], encode, 2)
    assert (first.spans, first.vectors[:, 0].tolist()) == (((0, 2), (3, 4), (0, 4)), [2, 1, 4])
    assert (second.spans, second.vectors[:, 0].tolist(), empty.spans) == (((0, 1),), [1], ())


def test_equation_1() -> None:
    assert partial_score(0.8, 0.4, 1) == pytest.approx(0.6)
    assert partial_score(0.8, 0.4, 10) == pytest.approx(0.6 / (1 + math.log(10)))
    assert partial_score(0.8, 0.4, 0) == pytest.approx(0.6)


def _scored(passage: str, subject: str, predicate: str, object: str, score: float, **match: NameMatch) -> ScoredTriple:
    stated = StatedTriple(passage, 0, Triple(subject, predicate, object), subject, object, ("", ""))
    nothing = NameMatch(0.0, None)
    return ScoredTriple(stated, score, False, match.get("entity", nothing), match.get("relation", nothing))


def _scored_triple(
    question: str, mention: str, entity: float, relation: str, predicate: float, other: str
) -> ScoredTriple:
    def span(words: str) -> tuple[int, int]:
        return question.index(words), question.index(words) + len(words)

    return _scored(
        "p",
        mention,
        relation,
        other,
        0.5,
        entity=NameMatch(entity, span(mention)),
        relation=NameMatch(predicate, span(relation)),
    )


def test_a_relation_around_the_mention_keeps_what_was_put_there() -> None:
    question = "Where was the author of Emma born?"
    triple = _scored_triple(question, "Emma", 0.9, "author of Emma born", 0.8, "Jane Austen")
    assert rewrite(question, [triple], 0.7, 1) == "Where was the Jane Austen?"


def test_mentions_that_overlap_are_rewritten_once() -> None:
    question = "Did Ann meet Bob in Rome?"
    best = _scored_triple(question, "Bob", 0.9, "meet", 0.1, "Robert")
    around = _scored_triple(question, "Bob in", 0.95, "meet", 0.1, "Nobody")
    other = _scored_triple(question, "Ann", 0.8, "meet", 0.1, "Anna")
    assert rewrite(question, [best, around, other], 0.7, 3) == "Did Anna meet Robert in Rome?"
    assert rewrite(question, [best, around, other], 0.7, 1) == "Did Ann meet Robert in Rome?"
    assert rewrite(question, [], 0.7, 1) == question


def test_an_alias_in_place_of_itself_says_nothing() -> None:
    question = "Did Ann meet Bob in Rome?"
    itself = _scored_triple(question, "Bob", 0.9, "meet", 0.9, "BOB")
    other = _scored_triple(question, "Ann", 0.8, "meet", 0.1, "Anna")
    assert rewrite(question, [itself, other], 0.7, 1) == "Did Anna meet Bob in Rome?"
