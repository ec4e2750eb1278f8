"""Windows of tokens that have at most `size` tokens when they are split into tokens alone.

Tokenizers split a text that begins inside a word differently. Windows therefore begin at words, and each is counted
again; only a word with more tokens than a window is divided.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from ragindex.corpus.chunk_spans import strip, word_spans
from ragindex.types import Span

TokenSpans: TypeAlias = Callable[[str], Sequence[Span]]
"""A function that returns the characters (start, end) of each token of a text."""


def by_tokens(text: str, tokens: TokenSpans, size: int, overlap: int) -> Iterator[Span]:
    """Yield windows of whole words with at most `size` tokens, which share at most `overlap` with the one before.

    Whatever stands between two windows goes to the first one. A character with more tokens than `size` is a window.
    """
    yield from strip(_find_windows(text, tokens, size, overlap), text)


def _find_windows(text: str, tokens: TokenSpans, size: int, overlap: int) -> Iterator[Span]:
    starts, counts = _find_atoms(text, tokens, size)
    ends = [*starts[1:], len(text)]
    first = done = 0  # the first atom of the window, and the first that no window has had yet
    while done < len(starts):
        last = done
        total = sum(counts[first : last + 1])
        while last + 1 < len(starts) and total + counts[last + 1] <= size:
            last += 1
            total += counts[last]
        while last > done and len(tokens(text[starts[first] : ends[last]])) > size:
            last -= 1
        if last == done > first and len(tokens(text[starts[first] : ends[last]])) > size:
            first += 1  # less is shared, so that a new word fits in
            continue
        pieces = _halve(text, starts[first], ends[last], tokens, size) if first == last else [(starts[first], 0)]
        cuts = [*(start for start, _ in pieces), ends[last]]
        yield from pairwise(cuts)
        done = following = last + 1
        shared = 0
        while following - 1 > first and shared + counts[following - 1] <= overlap:
            following -= 1
            shared += counts[following]
        first = following


def _find_atoms(text: str, tokens: TokenSpans, size: int) -> tuple[list[int], list[int]]:
    """Return where windows may begin, the first at 0, and the number of tokens from there to the next."""
    words, starts, counts = {start for start, _ in word_spans(text)}, [0], [0]
    end = 0
    for token in tokens(text):
        begin = _find_begin(text, token)
        if begin > starts[-1] and counts[-1] and begin >= end and begin in words:
            starts.append(begin)
            counts.append(0)
        counts[-1] += 1
        end = max(end, token[1])
    ends = [*starts[1:], len(text)]
    divided = [
        piece
        for start, stop, count in zip(starts, ends, counts, strict=True)
        for piece in ([(start, count)] if count <= size else _halve(text, start, stop, tokens, size))
    ]
    return [start for start, _ in divided], [count for _, count in divided]


def _find_begin(text: str, token: Span) -> int:
    """Return the first character of a token that is no white space."""
    return token[1] - len(text[token[0] : token[1]].lstrip())


def _halve(text: str, start: int, end: int, tokens: TokenSpans, size: int) -> Iterator[tuple[int, int]]:
    """Yield the start and number of tokens of pieces of a long word."""
    found = tokens(text[start:end])
    begins = {_find_begin(text[start:end], token) for token in found}
    cuts = sorted(begin for begin in begins if 0 < begin < end - start and not text[start + begin].isspace())
    if len(found) <= size or not cuts:
        yield start, len(found)
        return
    cut = start + cuts[max(0, bisect_right(cuts, found[len(found) // 2][0]) - 1)]
    yield from _halve(text, start, cut, tokens, size)
    yield from _halve(text, cut, end, tokens, size)
