"""Terms of the index: numbers sort as numbers, long texts have different terms."""

from hypothesis import given
from hypothesis import strategies as st

from ragindex.stores.elasticsearch.filters import encode_number, encode_term


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_terms_of_numbers_sort_as_numbers(first: float, other: float) -> None:
    assert (encode_number("n", first) < encode_number("n", other)) == (first < other)


@given(st.text(max_size=300), st.text(max_size=300))
def test_terms_of_texts_are_equal_where_the_texts_are(first: str, other: str) -> None:
    first, other = (text.encode("utf-8", "ignore").decode() for text in (first, other))
    assert (encode_term("f", first) == encode_term("f", other)) == (first == other)
    longer = first + "x" * 300
    assert len(encode_term("f", longer)) < 300
    assert encode_term("f", longer) != encode_term("f", f"{longer}x")
