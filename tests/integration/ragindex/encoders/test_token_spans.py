"""Whatever spans a tokenizer gives: griever's matching bears all that are in the contract, and names what is not."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ragindex.encoders.vector_cache import CachedEncoder
from ragindex.encoders.vectors import check_token_embeddings, normalize_rows
from ragindex.errors import UsageError
from ragindex.interfaces import Encoder, Floats, TokenEmbeddings
from ragindex.types import Triple
from ragindex_retrievers.griever.lookups import StatedTriple
from ragindex_retrievers.griever.matching import NameMatch, ScoredTriple, rewrite

Span = tuple[int, int]


def vectors_of(count: int, dimensions: int = 4) -> Floats:
    return normalize_rows(np.random.default_rng(count).normal(size=(count, dimensions)))


def test_spans_are_sorted_and_those_of_no_characters_left_out() -> None:
    given, vectors = ((2, 3), (0, 0), (0, 2), (0, 1)), vectors_of(4)
    (tokens,) = check_token_embeddings("x", 4, ["a b"], [TokenEmbeddings(given, vectors)])
    assert tokens.spans == ((0, 1), (0, 2), (2, 3))
    np.testing.assert_array_equal(tokens.vectors, vectors[[3, 2, 0]])


WRONG: dict[str, tuple[TokenEmbeddings, str]] = {
    "beyond the text": (
        TokenEmbeddings(((0, 2), (3, 9)), vectors_of(2)),
        r"the span \(3, 9\) in a text of 7 characters",
    ),
    "before the text": (TokenEmbeddings(((-1, 2),), vectors_of(1)), r"the span \(-1, 2\)"),
    "backwards": (TokenEmbeddings(((4, 2),), vectors_of(1)), r"the span \(4, 2\)"),
    "a vector too few": (TokenEmbeddings(((0, 1), (2, 3)), vectors_of(1)), "2 spans with vectors of 1 x 4"),
    "another space": (
        TokenEmbeddings(((0, 1),), vectors_of(1, 5)),
        "1 spans with vectors of 1 x 5, where 4 dimensions",
    ),
    "no span": (TokenEmbeddings((), vectors_of(1)), "0 spans with vectors of 1 x 4"),
    "one number": (TokenEmbeddings(((0,),), vectors_of(1)), "spans that are no pairs of whole numbers"),  # type: ignore[arg-type]
    "fractions": (TokenEmbeddings(((0, 1.5),), vectors_of(1)), "no pairs of whole numbers"),  # type: ignore[arg-type]
    "booleans": (TokenEmbeddings(((False, True),), vectors_of(1)), "no pairs of whole numbers"),
    "nothing": (TokenEmbeddings((None,), vectors_of(1)), "no pairs of whole numbers"),  # type: ignore[arg-type]
    "unlike": (TokenEmbeddings(((0, 1), (1,)), vectors_of(2)), "no pairs of whole numbers"),  # type: ignore[arg-type]
}


class Wrong(Encoder):
    """Gives the same token vectors for every text."""

    id, dimensions = "strange", 4

    def __init__(self, tokens: TokenEmbeddings | None) -> None:
        self.tokens = tokens

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        return np.ones((len(texts), 4), np.float32)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        return self.encode_documents(texts)

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenEmbeddings]:
        return [self.tokens] * len(texts) if self.tokens is not None else []

    def encode_queries_with_tokens(self, texts: Sequence[str]) -> tuple[Floats, list[TokenEmbeddings]]:
        return self.encode_queries(texts), self.encode_tokens(texts)


@pytest.mark.parametrize(
    ("tokens", "message"), [*WRONG.values(), (None, "0 answers for 1 texts")], ids=[*WRONG, "none"]
)
def test_what_is_wrong_is_said_where_it_comes_in(tokens: TokenEmbeddings | None, message: str) -> None:
    encoder = CachedEncoder(Wrong(tokens), Path("never opened"))
    for ask in (encoder.encode_tokens, encoder.encode_queries_with_tokens):
        with pytest.raises(UsageError, match=f"^The encoder strange must give .*{message}"):
            ask(["a ü b c"])


def test_nan_is_refused_in_questions() -> None:
    """The token vectors of a document with NaN fail alone."""
    given = TokenEmbeddings(((0, 1),), np.full((1, 4), np.nan, np.float32))
    encoder = CachedEncoder(Wrong(given), Path("never opened"))
    with pytest.raises(UsageError, match="^The encoder strange must give .*NaN"):
        encoder.encode_queries_with_tokens(["a ü b c"])
    assert np.isnan(encoder.encode_tokens(["a ü b c"])[0].vectors).all()


def test_spans_in_bytes_are_found_where_they_reach_beyond_the_text() -> None:
    text = "Wo liegt Zürich?"
    in_bytes = ((0, 2), (3, 8), (9, len(text.encode())))
    with pytest.raises(UsageError, match="bytes are no characters"):
        check_token_embeddings("x", 4, [text], [TokenEmbeddings(in_bytes, vectors_of(3))])


def scored(subject: str, object: str, span: Span) -> ScoredTriple:
    stated = StatedTriple("p", 0, Triple(subject, "is", object), subject, object, ("1", "2"))
    return ScoredTriple(stated, 1.0, False, NameMatch(1.0, span), NameMatch(0.0, None))


@pytest.mark.parametrize("object", ["", " ", "\n"])
def test_a_question_is_never_rewritten_to_nothing(object: str) -> None:
    assert rewrite("Ann", [scored("Ann", object, (0, 3))], 0.5, 0.5, 1) == "Ann"
    assert rewrite("Ann ?", [scored("Ann", object, (0, 3))], 0.5, 0.5, 1) == "?"
