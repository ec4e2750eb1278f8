"""Hits within a budget of tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragindex.errors import UsageError
from ragindex.llm.tokens import count_text_tokens
from ragindex.retrieval.token_budget import fit_hits, fit_text
from ragindex.types import Hit


def hit(id: str, text: str, title: str = "") -> Hit:
    return Hit(id, "passage", (id,), (id,), title, text, 1.0, "bm25")


LONG = hit("a", "The first sentence is here. The second sentence follows it. The third one ends it.", "Title")
SHORT = hit("b", "Short.")


def test_what_fits_stays_as_it_is() -> None:
    fit = fit_hits([LONG, SHORT], 1000)
    assert (fit.hits, fit.truncated, fit.left_out) == ((LONG, SHORT), False, 0)


def test_the_best_hit_comes_first_in_whole_sentences() -> None:
    fit = fit_hits([LONG, SHORT], 12)
    assert [fitted.text for fitted in fit.hits] == ["The first sentence is here.", "Short."]
    assert (fit.shortened, fit.left_out, fit.tokens) == (frozenset({"a"}), 0, 11)


def test_a_hit_of_which_no_sentence_fits_is_left_out() -> None:
    fit = fit_hits([LONG, SHORT], 3)
    assert ([fitted.id for fitted in fit.hits], fit.left_out, fit.truncated) == (["b"], 1, True)


def test_wrong_budgets() -> None:
    with pytest.raises(UsageError, match="max_tokens"):
        fit_hits([LONG], 0)


@given(st.lists(st.text(st.sampled_from("ab .!?\n\U0001f600"), max_size=60), max_size=5), st.integers(1, 40))
def test_never_more_than_the_budget_and_always_prefixes(texts: list[str], most: int) -> None:
    hits = [hit(str(number), text) for number, text in enumerate(texts)]
    fit = fit_hits(hits, most)
    assert sum(count_text_tokens(fitted.text, "").tokens for fitted in fit.hits) == fit.tokens <= most
    full_texts = {fitted.id: fitted.text for fitted in hits}
    assert all(full_texts[fitted.id].startswith(fitted.text) for fitted in fit.hits)
    assert all(text.startswith(fit_text(text, most)) for text in texts)
