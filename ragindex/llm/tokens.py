"""Token counts for texts and requests that no server has counted."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from threading import Lock, Thread
from time import perf_counter
from typing import TYPE_CHECKING

import regex

from ragindex.accounting import ledger
from ragindex.llm.tasks import Message
from ragindex.types import Span

if TYPE_CHECKING:
    from tiktoken import Encoding

DEFAULT_TOKENS = 2_000
"""Tokens of passages that a reader gets by default."""
_DOWNLOAD_TIMEOUT = 20.0  # seconds to wait for the download of a vocabulary
_PIECE_LENGTH = 20_000  # characters encoded at once, so that time stays linear in the length of the text
_MESSAGE_OVERHEAD = 4  # tokens that the chat format adds to each message, including its role
_REPLY_OVERHEAD = 3  # tokens that open the reply
_loading = Lock()  # one thread loads a vocabulary, and the others wait for it
_DENSE_SCRIPT = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{So}]")


@dataclass(frozen=True, slots=True)
class TokenCount:
    """A number of tokens; `estimated` is True if the model's vocabulary is not available."""

    tokens: int
    estimated: bool

    @property
    def bound(self) -> int:
        """A number that the text rarely exceeds: a fifth more if the tokens are estimated."""
        return round(1.2 * self.tokens) if self.estimated else self.tokens


def count_text_tokens(text: str, model: str) -> TokenCount:
    """Count the tokens of `text` with the model's tiktoken vocabulary, or estimate them if it is not available.

    The estimate is one token for 4 ASCII characters, for 2 characters of other alphabets, and for 1 character of
    Chinese, Japanese, Korean, Thai or emoji.
    """
    encoding = load_tokenizer(model)
    if encoding is None:
        return TokenCount(_estimate_tokens(text), True)
    pieces = (text[at : at + _PIECE_LENGTH] for at in range(0, len(text), _PIECE_LENGTH))
    return TokenCount(sum(len(encoding.encode(piece, disallowed_special=())) for piece in pieces), False)


def count_message_tokens(messages: Sequence[Message], model: str) -> TokenCount:
    """Count the input tokens of a chat request: the texts and the overhead of the chat format."""
    count = sum_text_tokens([message.content for message in messages], model)
    return TokenCount(count.tokens + _MESSAGE_OVERHEAD * len(messages) + _REPLY_OVERHEAD, count.estimated)


def sum_text_tokens(texts: Sequence[str], model: str) -> TokenCount:
    """Count the tokens of all texts; the sum is estimated if any count is."""
    counts = [count_text_tokens(text, model) for text in texts]
    return TokenCount(sum(count.tokens for count in counts), any(count.estimated for count in counts))


def _estimate_tokens(text: str) -> int:
    ascii_characters = len(text.encode("ascii", "ignore"))
    dense = len(_DENSE_SCRIPT.findall(text))
    return ceil(ascii_characters / 4 + dense + (len(text) - ascii_characters - dense) / 2)


def knows_tokenizer(model: str) -> bool:
    """Return whether tiktoken knows the model. Downloads nothing."""
    import tiktoken

    try:
        tiktoken.encoding_name_for_model(model)
    except KeyError:
        return False
    return True


def find_token_spans(text: str, model: str) -> list[Span] | None:
    """Return the characters of each token that `count_text_tokens` counts; None if it can only estimate them.

    A token that has only some of a character's bytes spans the whole character, as do the tokens with its other bytes:
    spans may overlap by one character, and neither starts nor ends ever decrease.
    """
    encoding = load_tokenizer(model)
    if encoding is None:
        return None
    spans: list[Span] = []
    for at in range(0, len(text), _PIECE_LENGTH):
        piece = text[at : at + _PIECE_LENGTH]
        character_of_byte = [n for n, character in enumerate(piece, at) for _ in character.encode()]
        end = 0
        for token in encoding.decode_tokens_bytes(encoding.encode(piece, disallowed_special=())):
            start, end = end, end + len(token)
            spans.append((character_of_byte[start], character_of_byte[end - 1] + 1))
    return spans


def load_tokenizer(model: str) -> "Encoding | None":
    """Return the model's tokenizer, or None if tiktoken does not know the model or cannot get its vocabulary.

    A process tries to load it once, and waiting for it counts in no measured time.
    """
    import tiktoken

    try:
        name = tiktoken.encoding_name_for_model(model)
    except KeyError:
        return None
    start = perf_counter()
    with _loading:
        encoding = _loaded(name)
    ledger.add_time(0.0, perf_counter() - start)
    return encoding


@cache
def _loaded(name: str) -> "Encoding | None":
    """Load a vocabulary, or return None if tiktoken must download it and the network is down or too slow."""
    import tiktoken

    encodings: list[Encoding] = []

    def load() -> None:
        try:
            encodings.append(tiktoken.get_encoding(name))
        except (OSError, ValueError):  # no network; a file that is not the vocabulary
            return

    thread = Thread(target=load, daemon=True)
    thread.start()
    thread.join(_DOWNLOAD_TIMEOUT)
    return encodings[0] if encodings else None
