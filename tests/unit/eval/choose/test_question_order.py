"""The order of a race and the questions kept apart: more questions move no earlier one."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex.types import Query
from ragindex_eval.choose.recommend import KEPT_FROM, split_questions
from ragindex_eval.run.holdout import hash_question

QUESTIONS = [Query(f"q{number}", f"What is {number}?") for number in range(600)]


def texts(queries: list[Query]) -> list[str]:
    return [query.text for query in queries]


def hashes(queries: list[Query]) -> list[str]:
    return [hash_question(query.text) for query in queries]


@settings(max_examples=examples(30))
@given(st.lists(st.integers(1, 300), min_size=2, max_size=4), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_more_questions_move_no_earlier_one_and_change_no_side(counts: list[int], seed: int, drawn: int) -> None:
    """They may stand anywhere in the file, which changes their ids."""
    random = Random(drawn)  # hypothesis would take a minute to draw each place
    file = random.sample(QUESTIONS, 300)
    raced, kept_before = list[str](), set[str]()
    for count in sorted(counts):
        mixed = random.sample(file[:count], count)
        racing, holdout = split_questions([Query(f"q{at}", query.text) for at, query in enumerate(mixed)], seed, raced)
        assert hashes(racing)[: len(raced)] == raced
        assert kept_before <= set(texts(holdout))
        assert sorted(texts(racing) + texts(holdout)) == sorted(texts(mixed))
        assert not holdout or count >= KEPT_FROM
        raced, kept_before = hashes(racing), set(texts(holdout))


def test_a_question_that_was_raced_on_is_never_kept_apart() -> None:
    """Not with another seed either, nor after runs with too few questions to keep any apart."""
    few, none = split_questions(QUESTIONS[:199], 0, [])
    assert (len(few), none) == (199, [])
    for seed in (0, 1):
        racing, holdout = split_questions(QUESTIONS[:250], seed, hashes(few))
        assert texts(racing)[:199] == texts(few)
        assert 5 < len(holdout) < 30  # a third of the 51 that are new
    all_raced, none = split_questions(QUESTIONS, 0, [], keep=False)
    assert (len(all_raced), none) == (600, [])
    assert split_questions(QUESTIONS, 1, hashes(all_raced))[1] == []


def test_a_third_is_kept_apart_and_the_seed_draws_both() -> None:
    racing, holdout = split_questions(QUESTIONS, 0, [])
    assert 160 < len(holdout) < 240
    assert texts(racing) != texts([query for query in QUESTIONS if query in racing])
    others = split_questions(QUESTIONS, 1, [])
    assert 30 < len(set(texts(holdout)) & set(texts(others[1]))) < 100  # a third of a third
    assert texts(others[0])[:20] != texts(racing)[:20]


def test_statements_about_these_questions_have_a_random_order_of_all() -> None:
    """Otherwise the questions left would not be like those seen, and a bet on their mean could lose too much."""
    earlier, _ = split_questions(QUESTIONS[:300], 0, [])
    racing, _ = split_questions(QUESTIONS, 0, hashes(earlier), appended=False)
    places = [at for at, query in enumerate(racing) if query.text in set(texts(earlier))]
    assert sum(places) / len(places) < 0.6 * len(racing)
    assert places[-1] > 0.9 * len(racing)


def test_equal_questions_stand_on_one_side() -> None:
    twice = [*QUESTIONS, *(Query(f"again{number}", f"what  IS {number}?") for number in range(600))]
    racing, holdout = split_questions(twice, 0, [])
    assert len(racing) % 2 == len(holdout) % 2 == 0
    assert set(hashes(racing)).isdisjoint(hashes(holdout))
