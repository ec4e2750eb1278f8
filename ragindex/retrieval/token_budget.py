"""Hits within a budget of tokens: the best first, in whole sentences."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragindex.english import MAX_TEXT_LENGTH, find_sentences
from ragindex.errors import UsageError
from ragindex.llm.tokens import count_text_tokens
from ragindex.types import Hit


@dataclass(frozen=True, slots=True)
class HitsInBudget:
    """Hits whose texts and titles have at most the tokens asked for.

    `shortened` are the ids of hits that end before their text does, `left_out` the number of hits of which not even the
    first sentence fits. `estimated` says whether the tokens are estimates.
    """

    hits: tuple[Hit, ...]
    tokens: int
    shortened: frozenset[str] = frozenset()
    left_out: int = 0
    estimated: bool = False

    @property
    def truncated(self) -> bool:
        """Whether anything of the hits is missing."""
        return bool(self.shortened) or self.left_out > 0


def fit_hits(hits: Sequence[Hit], max_tokens: int, model: str = "") -> HitsInBudget:
    """Keep what fits into `max_tokens` tokens over all hits, the best hit first, in whole sentences.

    A hit takes as many of its first sentences as fit into what the hits before it have left. Tokens are counted with
    the tokenizer of `model`, or estimated if there is none (`ragindex.llm.tokens`). Positions stay those of the whole
    passages. Raises UsageError if `max_tokens` is less than 1.
    """
    if type(max_tokens) is not int or max_tokens < 1:
        raise UsageError(f"'max_tokens' must be an int in the range [1, inf). Got {max_tokens!r} instead.")
    fitting, shortened, used = list[Hit](), set[str](), 0
    for hit in hits:
        text, tokens = _fit_text(hit, max_tokens - used, model)
        if text or not hit.text:
            fitting.append(hit if text == hit.text else replace(hit, text=text))
            used += tokens
            if text != hit.text:
                shortened.add(hit.id)
    estimated = count_text_tokens("", model).estimated
    return HitsInBudget(tuple(fitting), used, frozenset(shortened), len(hits) - len(fitting), estimated)


def fit_text(text: str, max_tokens: int, model: str = "") -> str:
    """Return the longest prefix of whole sentences with at most `max_tokens` tokens; "" if no sentence fits."""
    if count_text_tokens(text, model).tokens <= max_tokens:
        return text
    return _cut(text, "", max_tokens, model)


def _fit_text(hit: Hit, most: int, model: str) -> tuple[str, int]:
    """Return what fits of a hit's text, and the tokens of its title and that text; ("", 0) if nothing fits."""
    head = f"{hit.title}\n" if hit.title else ""
    count = count_text_tokens(head + hit.text, model).tokens
    if count <= most:
        return hit.text, count
    text = _cut(hit.text, head, most, model)
    return (text, count_text_tokens(head + text, model).tokens) if text else ("", 0)


def _cut(text: str, head: str, most: int, model: str) -> str:
    """Return the longest prefix of whole sentences that fits behind `head`, found by bisection."""
    ends = [end for _, end in find_sentences(text[:MAX_TEXT_LENGTH])]
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high + 1) // 2
        fits = count_text_tokens(head + text[: ends[middle - 1]], model).tokens <= most
        low, high = (middle, high) if fits else (low, middle - 1)
    return text[: ends[low - 1]] if low else ""
