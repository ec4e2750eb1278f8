"""Counting tokens, where no server has said how many there were."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from threading import Thread
from typing import TYPE_CHECKING

import regex

from ragindex.llm.tasks import Message

if TYPE_CHECKING:
    from tiktoken import Encoding

_PATIENCE = 20.0  # seconds for a vocabulary that is not on this machine yet
_PIECE = 20_000  # characters counted at once: time stays linear in the length of the text
_A_MESSAGE = 4  # tokens that stand around each message in the chat format, its role included
_A_REPLY = 3  # tokens that open the reply
_DENSE = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{So}]")


@dataclass(frozen=True, slots=True)
class TokenCount:
    """So many tokens; `estimated` where the model's own vocabulary could not be had."""

    tokens: int
    estimated: bool


def count_text_tokens(text: str, model: str) -> TokenCount:
    """The tokens of `text` by the model's tiktoken vocabulary; without it an estimate.

    The estimate: four ASCII characters a token, two of other alphabets, one of Chinese, Japanese, Korean, Thai, emoji.
    """
    encoding = load_tokenizer(model)
    if encoding is None:
        return TokenCount(_estimate(text), True)
    pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
    return TokenCount(sum(len(encoding.encode(piece, disallowed_special=())) for piece in pieces), False)


def count_message_tokens(messages: Sequence[Message], model: str) -> TokenCount:
    """The input tokens of a chat request: the texts and what the chat format puts around them."""
    counts = [count_text_tokens(message.content, model) for message in messages]
    tokens = sum(count.tokens for count in counts) + _A_MESSAGE * len(messages) + _A_REPLY
    return TokenCount(tokens, any(count.estimated for count in counts))


def _estimate(text: str) -> int:
    ascii_characters = len(text.encode("ascii", "ignore"))
    dense = len(_DENSE.findall(text))
    return ceil(ascii_characters / 4 + dense + (len(text) - ascii_characters - dense) / 2)


def load_tokenizer(model: str) -> "Encoding | None":
    """The model's tokenizer; None where tiktoken does not know the model or its vocabulary cannot be had."""
    import tiktoken

    try:
        name = tiktoken.encoding_name_for_model(model)
    except KeyError:
        return None
    return _loaded(name)


@cache
def _loaded(name: str) -> "Encoding | None":
    """Fetched by tiktoken where its own cache lacks it: without a network, or with a silent one, we do without."""
    import tiktoken

    found: list[Encoding] = []

    def load() -> None:
        try:
            found.append(tiktoken.get_encoding(name))
        except (OSError, ValueError):  # no network; a file that is not the vocabulary
            return

    thread = Thread(target=load, daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    return found[0] if found else None
