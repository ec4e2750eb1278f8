"""Spans (start, end) of the passages of a text: windows of words or tokens, whole sentences, and sections.

All functions but `by_tokens` take time linear in the text. Spans begin and end at characters that are no white space.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

import regex

from ragindex.types import Section, Span

# Scripts without spaces have no words that a rule finds, so each of their characters counts as one.
_UNSPACED = r"\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_WORD = regex.compile(rf"[{_UNSPACED}]\p{{M}}*|[^\s{_UNSPACED}]+")
_LINE_END = regex.compile("\n")
_SENTENCE_END = regex.compile(
    r"""[.!?…]+["'”’)\]]*\s+ | [。！？]+[”’」』）]*\s* | \n\s*\n\s* | \n(?=[ \t]*(?:[-*+•]|\d+[.)])\s)""", regex.VERBOSE
)
TokenSpans: TypeAlias = Callable[[str], Sequence[Span]]
"""A function that returns the characters (start, end) of each token of a text."""


def word_spans(text: str) -> list[Span]:
    """Return the words of a text: what white space separates, and each character of scripts without spaces."""
    return [match.span() for match in _WORD.finditer(text)]


def windows(text: str, units: Sequence[Span], size: int, overlap: int) -> Iterator[Span]:
    """Yield windows of `size` units, each of which shares `overlap` units with the one before.

    Whatever stands between two windows goes to the first one.
    """
    step = size - overlap
    spans = []
    for first in range(0, max(1, len(units) - overlap), step):
        start = units[first][0] if first and units else 0
        following = first + size
        end = units[following][0] if following < len(units) else len(text)
        spans.append((start, end))
    yield from strip(spans, text)


def sentence_spans(text: str, start: int = 0, end: int | None = None) -> list[Span]:
    """Return the sentences of a part of a text. Blank lines and items of lists end a sentence, too."""
    end = len(text) if end is None else end
    cuts = [start, *(match.end() for match in _SENTENCE_END.finditer(text, start, end)), end]
    return list(strip(pairwise(cuts), text))


def by_sentences(text: str, size: int, overlap: int = 0, blocks: Sequence[Span] = ()) -> Iterator[Span]:
    """Yield as many whole sentences as fit into `size` words, and longer sentences cut into windows of words.

    The whole sentences at the end of a passage that have at most `overlap` words together begin the next one. The
    tables among `blocks` count as sentences, and those with more than `size` words are divided at their rows.
    """
    tables = [block for block in blocks if find_rows(text, block)]
    yield from pack(text, _find_atoms(text, (0, len(text)), tables, size), size, overlap)


def find_rows(text: str, block: Span) -> int:
    """Return where the rows below the header of a Markdown table begin; 0 if a block is no table with header and rows.

    The second line of such a table consists of bars, hyphens and colons.
    """
    start, end = block
    first = text.find("\n", start, end)
    second = text.find("\n", first + 1, end)
    if first < 0 or second < 0 or "|" not in text[start:first]:
        return 0
    rule = set(text[first + 1 : second])
    return second + 1 if {"|", "-"} <= rule <= set("|-: \t>") else 0  # tables in quotations begin their lines with >


def pack(text: str, atoms: Sequence[Span], size: int, overlap: int = 0) -> Iterator[Span]:
    """Yield runs of neighbouring atoms that have at most `size` words; an atom with more is a run of its own."""
    counts = [_count_words(text, *atom) for atom in atoms]
    first = 0
    while first < len(atoms):
        last, total = first, counts[first]
        while last + 1 < len(atoms) and total + counts[last + 1] <= size:
            last += 1
            total += counts[last]
        yield atoms[first][0], atoms[last][1]
        following, shared = last + 1, 0
        if following == len(atoms):
            return
        while following - 1 > first and shared + counts[following - 1] <= min(overlap, size - counts[last + 1]):
            following -= 1
            shared += counts[following]
        first = following


def by_sections(text: str, sections: Sequence[Section]) -> Iterator[Span]:
    """Yield the text from each heading or page to the next, and what stands before the first."""
    cuts = [0, *sorted({section.start for section in sections if section.start > 0}), len(text)]
    yield from strip(pairwise(cuts), text)


def by_headings(text: str, sections: Sequence[Section], blocks: Sequence[Span], size: int) -> Iterator[Span]:
    """Yield whole sections of at most `size` words, and larger ones divided.

    A section with all sections below it is one passage if it fits. If not, its own text, divided at the ends of
    sentences if it is too long, and the sections below are treated likewise. Neighbours under the same heading that
    fit together are joined, and so are a section's own text and the first ones below. Of the spans `blocks`, tables
    with more than `size` words are divided at their rows, and others are never divided.
    """
    own = list[Section]()
    for section in sections:
        before = bisect_left(blocks, (section.start,)) - 1
        if before < 0 or section.start >= blocks[before][1]:  # it begins outside of blocks
            own.append(section)
    if not own or own[0].start > 0:
        own.insert(0, Section(0))
    ends = [*(section.start for section in own[1:]), len(text)]
    spans = [(section.start, end) for section, end in zip(own, ends, strict=True)]
    yield from strip(_divide(text, spans, [section.headings for section in own], blocks, size), text)


def _divide(
    text: str, sections: Sequence[Span], paths: Sequence[tuple[str, ...]], blocks: Sequence[Span], size: int
) -> Iterator[Span]:
    words = [_count_words(text, *section) for section in sections]
    start = end = total = at = 0  # what is joined so far: characters start to end, of `total` words, below `parent`
    parent: tuple[str, ...] = ()
    while at < len(sections):
        after = at + 1
        while after < len(sections) and _is_below(paths[after], paths[at]):
            after += 1
        with_below = sum(words[at:after])
        fits, own = with_below <= size, words[at] <= size
        if not (fits and parent == paths[at][:-1] and total + with_below <= size):
            yield start, end
            start, total = sections[at][0], 0
        if fits:
            end, total, parent, at = sections[after - 1][1], total + with_below, paths[at][:-1], after
        elif own:
            end, total, parent, at = sections[at][1], words[at], paths[at], at + 1
        else:
            yield from pack(text, _find_atoms(text, sections[at], blocks, size), size)
            start = end = sections[at][1]
            at += 1
    yield start, end


def _is_below(path: tuple[str, ...], above: tuple[str, ...]) -> bool:
    return len(path) > len(above) > 0 and path[: len(above)] == above


def _find_atoms(text: str, section: Span, blocks: Sequence[Span], size: int) -> list[Span]:
    """Return the sentences of a section, long ones cut, and its blocks whole, except for long tables."""
    start, end = section
    atoms, at = list[Span](), start
    for block in blocks[bisect_left(blocks, (start,)) : bisect_right(blocks, (end,))]:
        sentences = sentence_spans(text, at, block[0])
        atoms += [piece for sentence in sentences for piece in _cut_long(text, sentence, size)]
        rows = find_rows(text, block)
        atoms += _divide_table(text, block, rows, size) if rows and _count_words(text, *block) > size else [block]
        at = block[1]
    return atoms + [piece for sentence in sentence_spans(text, at, end) for piece in _cut_long(text, sentence, size)]


def _divide_table(text: str, table: Span, rows: int, size: int) -> Iterator[Span]:
    """Yield the rows of a table, long ones cut; its header stands with the first row if they fit together."""
    start, end = table
    cuts = [start, *(line.end() for line in _LINE_END.finditer(text, rows, end)), end]
    if _count_words(text, start, cuts[1]) > size:
        cuts.insert(1, rows)
    for row in strip(pairwise(cuts), text):
        yield from _cut_long(text, row, size)


def _cut_long(text: str, sentence: Span, size: int) -> Iterable[Span]:
    start, end = sentence
    units = [(start + a, start + b) for a, b in word_spans(text[start:end])]
    if len(units) <= size:
        return [sentence]
    return [(units[at][0], units[min(at + size, len(units)) - 1][1]) for at in range(0, len(units), size)]


def _count_words(text: str, start: int, end: int) -> int:
    return sum(1 for _ in _WORD.finditer(text, start, end))


def strip(spans: Iterable[Span], text: str) -> Iterator[Span]:
    """Yield the spans without the white space at their ends; blank ones are left out."""
    for start, end in spans:
        piece = text[start:end]
        inside = piece.strip()
        if inside:
            first = start + len(piece) - len(piece.lstrip())
            yield first, first + len(inside)


def by_tokens(text: str, tokens: TokenSpans, size: int, overlap: int) -> Iterator[Span]:
    """Yield windows of whole words with at most `size` tokens, which share at most `overlap` with the one before.

    Tokenizers split a text that begins inside a word differently. Windows therefore begin at words, and each is counted
    again; only a word with more tokens than a window is divided, and a character with more tokens than `size` is a
    window. Only white space between windows is left out, and what a window counts is without the white space around it:
    many tokenizers have one token for a word with a blank before it, and several for the word alone.
    """
    yield from strip(_find_token_windows(text, lambda part: tokens(part.rstrip()), size, overlap), text)


def _find_token_windows(text: str, tokens: TokenSpans, size: int, overlap: int) -> Iterator[Span]:
    starts, counts = _find_token_atoms(text, tokens, size)
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


def _find_token_atoms(text: str, tokens: TokenSpans, size: int) -> tuple[list[int], list[int]]:
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
