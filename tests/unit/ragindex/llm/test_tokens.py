"""Counts of tokens, the characters of tokens that split characters, and windows of such tokens."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
import tiktoken
import tiktoken.registry

from ragindex.accounting import ledger
from ragindex.corpus.chunk_spans import by_tokens
from ragindex.llm import tokens
from ragindex.llm.tasks import Message
from ragindex.llm.tokens import TokenCount
from ragindex.types import Span

SMILE = "🙂".encode()
MERGES = (b" s", b" sa", b" san", b" sand", SMILE[:2], SMILE[2:], SMILE[2:] + b"x")
MODEL = "text-embedding-3-small"


@contextmanager
def made_vocabulary(name: str, words: Sequence[bytes], pattern: str) -> Iterator[None]:
    """Bytes and a few words, in the place of a vocabulary of tiktoken."""
    ranks = {bytes([number]): number for number in range(256)} | {word: 256 + n for n, word in enumerate(words)}
    special = {"<|endoftext|>": len(ranks)}
    encoding = tiktoken.Encoding("made", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(tiktoken.registry.ENCODINGS, name, encoding)
        tokens._loaded.cache_clear()
        yield
    tokens._loaded.cache_clear()


@pytest.fixture(autouse=True)
def _vocabulary() -> Iterator[None]:
    """A word that only follows a blank; a smile is two tokens, the second with an x."""
    with made_vocabulary("cl100k_base", MERGES, r"(?s).+"):
        yield


@pytest.fixture
def vocabulary() -> Iterator[None]:
    """The vocabulary of gpt-4o."""
    with made_vocabulary("o200k_base", (b"on", b"one", b" two", b" t", b"wo"), r" ?\w+|\W"):
        yield


# ---------------------------------------------------------------- counts


@pytest.mark.usefixtures("vocabulary")
def test_tokens_by_the_models_vocabulary() -> None:
    assert tokens.count_text_tokens("one two one", "gpt-4o") == TokenCount(1 + 1 + 2 + 0 + 0, False)
    assert tokens.count_text_tokens("", "gpt-4o") == TokenCount(0, False)
    assert tokens.count_text_tokens("<|endoftext|>", "gpt-4o").tokens > 1  # a text, not a token
    assert tokens.count_text_tokens("x " * 100_000, "gpt-4o").tokens == 200_000
    messages = [Message("system", "one"), Message("user", "one two")]
    assert tokens.count_message_tokens(messages, "gpt-4o") == TokenCount(3 + 2 * 4 + 3, False)


@pytest.mark.parametrize(("text", "count"), [("twelve chars", 3), ("слово" * 2, 5), ("漢字かな", 4)])
def test_an_estimate_where_there_is_no_vocabulary(text: str, count: int) -> None:
    assert tokens.count_text_tokens(text, "unheard-of") == TokenCount(count, True)
    assert tokens.count_message_tokens([Message("user", text)], "unheard-of") == TokenCount(count + 7, True)


@pytest.mark.usefixtures("vocabulary")
def test_waiting_for_a_vocabulary_counts_in_no_measured_time(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts, seconds = list[str](), iter([0.0, 20.0, 21.0, 21.0])

    def fail(name: str) -> tiktoken.Encoding:
        attempts.append(name)
        raise OSError("blocked")

    monkeypatch.setattr(tiktoken, "get_encoding", fail)
    monkeypatch.setattr(tokens, "perf_counter", lambda: next(seconds))
    with ledger.record_calls() as tally:
        assert [tokens.count_text_tokens("word", "gpt-4o") for _ in range(2)] == [TokenCount(1, True)] * 2
    assert attempts == ["o200k_base"]
    assert tally.correction == -20.0


# ---------------------------------------------------------------- spans and windows


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
