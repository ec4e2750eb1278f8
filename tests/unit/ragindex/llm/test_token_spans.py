"""The characters of tokens that split characters, and windows of such tokens."""

from collections.abc import Iterator

import pytest
import tiktoken
import tiktoken.registry

from ragindex.corpus.chunk_spans import by_tokens
from ragindex.llm import tokens
from ragindex.types import Span

SMILE = "🙂".encode()
MERGES = (b" s", b" sa", b" san", b" sand", SMILE[:2], SMILE[2:], SMILE[2:] + b"x")
MODEL = "text-embedding-3-small"


@pytest.fixture(autouse=True)
def _vocabulary(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Single bytes and a few words, one of which only follows a blank; a smile is two tokens, the second with an x."""
    ranks = {bytes([number]): number for number in range(256)} | {word: 256 + n for n, word in enumerate(MERGES)}
    encoding = tiktoken.Encoding("made", pat_str=r"(?s).+", mergeable_ranks=ranks, special_tokens={})
    monkeypatch.setitem(tiktoken.registry.ENCODINGS, "cl100k_base", encoding)
    tokens._loaded.cache_clear()
    yield
    tokens._loaded.cache_clear()


def spans_of(text: str) -> list[Span]:
    spans = tokens.find_token_spans(text, MODEL)
    assert spans is not None
    return spans


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("ab", [(0, 1), (1, 2)]),
        ("a sand", [(0, 1), (1, 6)]),
        ("é", [(0, 1), (0, 1)]),  # two bytes of one character
        ("🙂", [(0, 1), (0, 1)]),
        ("a🙂xb", [(0, 1), (1, 2), (1, 3), (3, 4)]),  # the second half of the smile and the x are one token
        ("🙂🙂x", [(0, 1), (0, 1), (1, 2), (1, 3)]),
    ],
)
def test_a_token_spans_each_character_of_which_it_has_a_byte(text: str, expected: list[Span]) -> None:
    assert spans_of(text) == expected


def test_long_texts_are_split_at_whole_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_PIECE_LENGTH", 2)
    assert spans_of("a🙂xé") == [(0, 1), (1, 2), (1, 2), (2, 3), (3, 4), (3, 4)]


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        (" sand", 2, ["sa", "nd"]),  # one token with the blank, four without
        ("sand", 4, ["sand"]),
        ("a sand", 4, ["a sand"]),
        ("🙂x", 1, ["🙂", "x"]),  # the smile alone has two tokens, and cannot be divided
        ("🙂x", 2, ["🙂x"]),
        (" \n ", 1, []),
    ],
)
def test_windows_are_counted_as_they_will_be_encoded(text: str, size: int, expected: list[str]) -> None:
    assert [text[start:end] for start, end in by_tokens(text, spans_of, size, 0)] == expected
