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

    Only white space between windows is left out, and what a window counts is without the white space around it: many
    tokenizers have one token for a word with a blank before it, and several for the word alone. A character with more
    tokens than `size` is a window.
    """

    def stripped_tokens(part: str) -> Sequence[Span]:
        return tokens(part.rstrip())

    yield from strip(_find_windows(text, stripped_tokens, size, overlap), text)


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
    """Return where windows may begin, the first at the first character, and the number of tokens to the next."""
    words, starts, counts = {start for start, _ in word_spans(text)}, [_skip_blanks(text, 0)], [0]
    end = 0
    for token in tokens(text):
        begin = _skip_blanks(text, token[0])
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


def _skip_blanks(text: str, place: int) -> int:
    """Return the first place from `place` on that is no white space."""
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _halve(text: str, start: int, end: int, tokens: TokenSpans, size: int) -> Iterator[tuple[int, int]]:
    """Yield the start and number of tokens of pieces of a long word."""
    spans = tokens(text[start:end])
    cuts = sorted({_skip_blanks(text, start + place) for span in spans for place in span} - {start})
    cuts = [cut for cut in cuts if cut < end]
    if len(spans) <= size or not cuts:
        yield start, len(spans)
        return
    cut = cuts[max(0, bisect_right(cuts, start + spans[len(spans) // 2][0]) - 1)]
    yield from _halve(text, start, cut, tokens, size)
    yield from _halve(text, cut, end, tokens, size)
