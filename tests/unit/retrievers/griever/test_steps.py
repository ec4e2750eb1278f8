"""GRIEVER's steps one by one: splitting, n-grams, scores, paths, rewriting."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragindex.interfaces import TokenEmbeddings
from ragindex.types import Hit, Triple
from ragindex_retrievers.griever.lookups import StatedTriple
from ragindex_retrievers.griever.matching import (
    CONNECTORS,
    NameMatch,
    Ngrams,
    Pooling,
    ScoredTriple,
    choose_best,
    match_names,
    ngrams,
    ngrams_as_texts,
    partial_score,
    rewrite,
    spans,
    split_question,
)
from ragindex_retrievers.griever.search import Shortlist, Subgraph, SubquerySearch, extend_subgraphs, rank

# ---------------------------------------------------------------- clauses

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


# ---------------------------------------------------------------- n-grams


def _tokens(*spans: tuple[int, int]) -> TokenEmbeddings:
    return TokenEmbeddings(spans, np.eye(len(spans), 4, dtype=np.float32))


def test_spans_of_ngrams() -> None:
    text = "Ann's U.S. trip?"
    assert [text[start:end] for start, end in spans(text, 2)] == ["Ann's", "U.S", "trip", "Ann's U.S", "U.S. trip"]


def test_an_ngram_is_the_mean_of_its_tokens() -> None:
    """Word pieces un|known and a word that has no token (a stop word of the encoder)."""
    pooled = ngrams("unknown the cat", _tokens((0, 2), (2, 7), (12, 15)), 3, "mean")
    text = "unknown the cat"
    by_text = {text[start:end]: vector for (start, end), vector in zip(pooled.spans, pooled.vectors, strict=True)}
    half, third = 1 / math.sqrt(2), 1 / math.sqrt(3)
    assert set(by_text) == {"unknown", "unknown the cat", "cat"}  # the others have the tokens of these
    np.testing.assert_allclose(by_text["unknown"], [half, half, 0, 0], atol=1e-6)
    np.testing.assert_allclose(by_text["unknown the cat"], [third, third, third, 0], atol=1e-6)
    np.testing.assert_allclose(by_text["cat"], [0, 0, 1, 0], atol=1e-6)


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


def test_names_are_matched_to_ngrams() -> None:
    among = Ngrams(((0, 1), (2, 3)), np.array([[1, 0], [0, 1]], np.float32))
    matches = match_names(np.array([[0.6, 0.8], [1, 0], [0, 0]], np.float32), among)
    np.testing.assert_allclose(matches.scores, [0.8, 1, 0], atol=1e-6)
    assert matches.places.tolist()[:2] == [1, 0]
    best = choose_best(matches, [[0, 1], [2]])
    np.testing.assert_allclose(best.scores, [1, 0], atol=1e-6)
    assert best.places.tolist()[0] == 0
    nothing = match_names(np.ones((2, 2), np.float32), Ngrams((), np.empty((0, 2), np.float32)))
    assert (nothing.scores.tolist(), nothing.places.tolist()) == ([0, 0], [-1, -1])


# ---------------------------------------------------------------- scores and paths


def test_equation_1() -> None:
    assert partial_score(0.8, 0.4, 1) == pytest.approx(0.6)
    assert partial_score(0.8, 0.4, 10) == pytest.approx(0.6 / (1 + math.log(10)))
    assert partial_score(0.8, 0.4, 0) == pytest.approx(0.6)


def _scored(passage: str, subject: str, predicate: str, object: str, score: float, **match: NameMatch) -> ScoredTriple:
    stated = StatedTriple(passage, 0, Triple(subject, predicate, object), subject, object, ("", ""))
    nothing = NameMatch(0.0, None)
    return ScoredTriple(stated, score, False, match.get("entity", nothing), match.get("relation", nothing))


def _paths(graph: Subgraph) -> list[tuple[tuple[int, ...], float]]:
    assert graph.paths is not None
    return sorted(zip(graph.paths.places, graph.paths.scores.round(6).tolist(), strict=True))


FIRST = [_scored("p1", "Ann", "wrote", "Emma", 0.8), _scored("p1", "Bob", "is", "tall", 0.2)]
SECOND = [_scored("p2", "Emma", "published in", "1815", 0.4), _scored("p3", "Bobby", "lives in", "Rome", 0.6)]


def test_paths_share_an_entity() -> None:
    graph = Subgraph(3)
    graph.extend(FIRST, {})
    graph.extend(SECOND, {"Bobby": ("Bob",)})
    assert _paths(graph) == [((0,), 0.8), ((0, 2), 0.6), ((1,), 0.2), ((1, 3), 0.4), ((2,), 0.4), ((3,), 0.6)]
    assert graph.passage_scores() == pytest.approx({"p1": 0.8 * 0.8, "p2": 0.4 * 0.6, "p3": 0.6 * 0.6})
    assert graph.best_paths(2) == [
        ((FIRST[0].stated.triple,), 0.8),
        ((FIRST[0].stated.triple, SECOND[0].stated.triple), pytest.approx(0.6)),
    ]


def test_third_triple_extends_last() -> None:
    third = [_scored("p4", "Ann", "born in", "Bath", 0.5)]
    for keep, expected in ((True, [(0,), (0, 1), (0, 2), (1,), (2,)]), (False, [(0, 1), (1,), (2,)])):
        graph = Subgraph(3, keep_prefixes=keep)
        for triples in (FIRST[:1], SECOND[:1], third):
            graph.extend(triples, {})
        assert [places for places, _ in _paths(graph)] == expected


def test_a_path_has_each_fact_once() -> None:
    """Two passages state that Ann wrote Emma: both open a path, and none goes from the one to the other."""
    again = [_scored("p5", "Ann", "wrote", "Emma", 0.7), SECOND[0]]
    graph = Subgraph(3)
    graph.extend(FIRST[:1], {})
    graph.extend(again, {})
    assert _paths(graph) == [((0,), 0.8), ((0, 2), 0.6), ((1,), 0.7), ((2,), 0.4)]
    graph.extend([_scored("p6", "Emma", "published in", "1815", 0.9), _scored("p6", "Emma", "is", "a book", 0.3)], {})
    assert [places for places, _ in _paths(graph) if len(places) == 3] == [(0, 2, 4)]


def test_one_sub_graph_of_all_lines() -> None:
    """The triples of a line extend the paths of another; one that both found has its better score."""
    first, other = _line([FIRST[0]], []), _line([], [])
    other.subgraph = first.subgraph
    again = _scored("p2", "Emma", "published in", "1815", 0.5)
    empty = Shortlist((), (), {})
    extend_subgraphs([first, other], [empty, empty], [[SECOND[0]], [again]])
    assert _paths(first.subgraph) == [((0,), 0.8), ((0, 1), 0.65), ((1,), 0.5)]
    extend_subgraphs([first, other], [empty, empty], [[again], []])
    assert len(_paths(first.subgraph)) == 3  # it has this triple already


def _line(scored: list[ScoredTriple], hits: list[tuple[str, float]]) -> SubquerySearch:
    line = SubquerySearch("", np.empty(0, np.float32), Ngrams((), np.empty((0, 0), np.float32)), None, Subgraph(3))
    line.add(tuple(Hit(id, "passage", (id,), (id,), "", "", score, "") for id, score in hits))
    line.subgraph.extend(scored, {})
    return line


def test_passages_of_all_lines_as_one_ranking() -> None:
    first = _line(FIRST, [("p0", 0.9), ("p1", 0.6), ("p9", 0.3)])
    other = _line(SECOND, [("p3", 4.0), ("p2", 2.0), ("p9", 1.0)])
    assert rank([first, other], {}) == [
        ("p1", pytest.approx(0.64)),
        ("p3", pytest.approx(0.36)),
        ("p2", pytest.approx(0.16)),
        ("p0", -1.0),
        ("p9", pytest.approx(1 / 3 - 2)),
    ]
    cosines = {"p0": 0.5, "p1": 0.1, "p2": 0.3, "p3": 0.2, "p9": 0.0}
    assert rank([first, other], cosines) == [
        (id, pytest.approx(score)) for id, score in (("p1", 0.74), ("p3", 0.56), ("p0", 0.5), ("p2", 0.46), ("p9", 0))
    ]


# ---------------------------------------------------------------- rewriting


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


NORTH_STAR = "Who married the publisher of abolitionist newspaper The North Star?"


@pytest.mark.parametrize(
    ("entity", "predicate", "rewritten"),
    [
        (0.9, 0.6, "Who married the of abolitionist newspaper Frederick Douglass?"),
        (0.9, 0.4, "Who married the publisher of abolitionist newspaper Frederick Douglass?"),
        (0.7, 0.5, "Who married the of abolitionist newspaper Frederick Douglass?"),
        (0.6, 0.9, NORTH_STAR),
    ],
)
def test_the_mention_gives_way_to_what_was_found(entity: float, predicate: float, rewritten: str) -> None:
    triple = _scored_triple(NORTH_STAR, "The North Star", entity, "publisher", predicate, "Frederick Douglass")
    assert rewrite(NORTH_STAR, [triple], 0.7, 1) == rewritten


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


def test_the_best_triple_or_the_best_matched_entity_is_rewritten_first() -> None:
    question = "Did Ann meet Bob in Rome?"
    triple = replace(_scored_triple(question, "Bob", 0.8, "meet", 0.1, "Robert"), score=0.9)
    entity = replace(_scored_triple(question, "Ann", 0.95, "meet", 0.1, "Anna"), score=0.6)
    lower = replace(_scored_triple(question, "Ann", 0.95, "meet", 0.1, "Annika"), score=0.5)
    assert rewrite(question, [entity, triple], 0.7, 1) == "Did Ann meet Robert in Rome?"
    assert rewrite(question, [lower, triple, entity], 0.7, 1, "entity") == "Did Anna meet Bob in Rome?"


def test_a_deleted_relation_is_no_second_rewriting() -> None:
    question = "Did Ann meet Bob in Rome?"
    best = _scored_triple(question, "Bob", 0.9, "meet", 0.9, "Robert")
    other = _scored_triple(question, "Ann", 0.8, "in Rome", 0.9, "Anna")
    assert rewrite(question, [best, other], 0.7, 1) == "Did Ann Robert in Rome?"
    assert rewrite(question, [best, other], 0.7, 2) == "Did Anna Robert ?"


def test_an_alias_in_place_of_itself_says_nothing() -> None:
    question = "Did Ann meet Bob in Rome?"
    itself = _scored_triple(question, "Bob", 0.9, "meet", 0.9, "BOB")
    other = _scored_triple(question, "Ann", 0.8, "meet", 0.1, "Anna")
    assert rewrite(question, [itself, other], 0.7, 1) == "Did Anna meet Bob in Rome?"
