"""Detection of mentions: names (by their capitals), quoted titles, dates and numbers.

`split_units` splits a sentence into the units that the other rules work on; a name of several words is one unit.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ragindex.english.sentences import (
    MAX_TEXT_LENGTH,
    Token,
    is_all_capitals,
    is_capitalized,
    split_normalized,
    tokenize,
)
from ragindex.english.words import (
    BODIES,
    COMMON_ENDINGS,
    ENGLISH_FUNCTION_WORDS,
    MONTH_NAMES,
    NAME_ARTICLES,
    NAME_LINKS,
    NUMBER_WORDS,
    NUMERALS,
    OWNERS_IN_NAMES,
    PAST_VERBS,
    WEEKDAYS,
)

MentionSpanKind = Literal["name", "title", "date", "number"]
UnitKind = Literal["name", "title", "subject", "date", "number", "word", "mark"]

_OPENING_MARKS = frozenset((":", '"', "(", "-", "--", ".", "...", "!", "?", "'", "*", "•"))
_CALENDAR = frozenset((*MONTH_NAMES, *WEEKDAYS))
_LONGEST_NAME = 14
_LONGEST_QUOTE = 14
_NO_WORDS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class MentionSpan:
    """A name, a quoted title, a date or a number, with its character offsets `start` and `end` in the text."""

    kind: MentionSpanKind
    start: int
    end: int
    text: str


class Unit(NamedTuple):
    """A word, mark or mention; a `subject` is the passage's title. `space` is the white space before the unit."""

    text: str
    lower: str
    kind: UnitKind
    space: str
    start: int


def find_mentions(text: str, known_words: Collection[str] = _NO_WORDS) -> list[MentionSpan]:
    """Return the mentions in a text, from left to right and without overlap.

    Only the first MAX_TEXT_LENGTH characters are read. `known_words` are lower-case words that are not names even at
    the start of a sentence.
    """
    return list(iterate_mentions(text, known_words))


def iterate_mentions(text: str, known_words: Collection[str] = _NO_WORDS) -> Iterator[MentionSpan]:
    """Yield the mentions of `find_mentions` one by one, for callers who need the first ones alone."""
    position = 0
    for sentence in split_normalized(text[:MAX_TEXT_LENGTH]):
        position = text.index(sentence, position)
        for unit in split_units(sentence, known_words):
            if unit.kind in ("name", "title", "date", "number"):
                start = position + unit.start
                yield MentionSpan(unit.kind, start, start + len(unit.text), unit.text)
        position += len(sentence)


def find_names(text: str) -> Iterator[str]:
    """Yield the names and the quoted titles among the mentions of a text, as written, one by one.

    >>> list(find_names('In 1990 Ada Lund wrote "The Long Quay".'))
    ['Ada Lund', 'The Long Quay']
    """
    return (mention.text for mention in iterate_mentions(text) if mention.kind in ("name", "title"))


def split_units(
    sentence: str, known_words: Collection[str] = _NO_WORDS, subject: Sequence[Sequence[str]] = ()
) -> list[Unit]:
    """Return the units of a sentence, in order.

    `subject` has the names of the title, each as its words. A lower-case first word matches in any case, a capitalized
    one only as written or in capitals; the other words match in any case. `known_words` are as in `find_mentions`.
    """
    tokens = tokenize(sentence)
    capitals = is_all_capitals(tokens)
    units: list[Unit] = []
    start = before = 0
    while start < len(tokens):
        end, kind = _find_unit(tokens, start, known_words, subject, capitals)
        first, last = tokens[start].start, tokens[end - 1].end
        text = sentence[first:last]
        units.append(Unit(text, text.lower(), kind, sentence[before:first], first))
        start, before = end, last
    return units


def _find_unit(
    tokens: Sequence[Token],
    position: int,
    known_words: Collection[str],
    subject: Sequence[Sequence[str]],
    capitals: bool,
) -> tuple[int, UnitKind]:
    """Return the end and the kind of the unit at `position`, in a sentence that may be in `capitals`."""
    token = tokens[position]
    for words in subject:
        if token.lower == words[0].lower() and _match_words(tokens, position, words):
            return position + len(words), "subject"
    if token.kind != "word" and not _is_year_of_name(tokens, position):
        return position + 1, token.kind
    if position and tokens[position - 1].text in _CLOSING:
        end = _find_closing_quote(tokens, position)
        if end:
            return end, "title"
    if capitals or not (is_capitalized(token.text) or token.kind == "date"):
        return position + 1, "word"
    return _find_name(tokens, position, known_words)


def _match_words(tokens: Sequence[Token], position: int, words: Sequence[str]) -> bool:
    end = position + len(words)
    same = end <= len(tokens) and all(
        token.lower == word.lower() and (place or word in (token.text, token.lower) or token.text.isupper())
        for place, (token, word) in enumerate(zip(tokens[position:end], words, strict=True))
    )
    longer = end < len(tokens) and tokens[end - 1].text[:1].isupper() and _is_name_part(tokens[end])
    return same and not longer  # a longer name is another name


_CLOSING = {'"': '"', "《": "》", "「": "」", "«": "»", "『": "』"}


def _find_closing_quote(tokens: Sequence[Token], position: int) -> int:
    """Return the end of a quoted title, or 0 if the quote begins in lower case or does not close."""
    mark, first = _CLOSING[tokens[position - 1].text], tokens[position].text
    if first[:1].upper() != first[:1].lower() and not is_capitalized(first):
        return 0
    for end in range(position + 1, min(position + _LONGEST_QUOTE, len(tokens))):
        if tokens[end].text == mark:
            return end - 1 if tokens[end - 1].text in (",", ".") and end - 1 > position else end
    return 0


# ---------------------------------------------------------------- names


def _find_name(tokens: Sequence[Token], position: int, known_words: Collection[str]) -> tuple[int, UnitKind]:
    # where a sentence or a quotation begins, a capital does not mark a name
    opens = position == 0 or tokens[position - 1].text in _OPENING_MARKS
    following = tokens[position + 1] if position + 1 < len(tokens) else None
    if _is_function_word(tokens[position]) and (
        opens or following is None or following.kind != "word" or not is_capitalized(following.text)
    ):
        return position + 1, "word"  # but "The Hague" within a sentence is a name
    end = position + 1
    while end < min(len(tokens), position + _LONGEST_NAME):
        longer = _continue_name(tokens, position, end)
        if not longer:
            break
        end = longer
    if end > position + 1:
        return end, "name"
    if opens and _is_common_word(tokens, position, known_words):
        return end, "word"
    return end, "date" if tokens[position].text in _CALENDAR else "name"


def _is_year_of_name(tokens: Sequence[Token], position: int) -> bool:
    """Return whether a year begins a name: "the 2018 Winter Olympics"."""
    is_name = position + 1 < len(tokens) and _is_name_part(tokens[position + 1]) and tokens[position].text.isdigit()
    return is_name and position > 0 and tokens[position - 1].lower in ("the", "a", "an", "'s")


def _is_common_word(tokens: Sequence[Token], position: int, known_words: Collection[str]) -> bool:
    """Return whether a single word at the start of a sentence is a common word instead of a name."""
    word, lower = tokens[position].text, tokens[position].lower
    following = tokens[position + 1].lower if position + 1 < len(tokens) else ""
    if lower in known_words or lower in NUMBER_WORDS or lower.removeprefix("co-") in PAST_VERBS:
        return True
    if not word.isalpha() or word.isupper():
        return False
    plural = lower.endswith("s") and not lower.endswith("ss") and following in ("are", "were", "have", "can", "of")
    return plural or len(lower) < 3 or (lower.endswith(COMMON_ENDINGS) and following != "'s" and len(lower) > 4)


def _continue_name(tokens: Sequence[Token], start: int, end: int) -> int:
    """Return the new end of a name that continues at `end` (capital, number, or link and capital), or 0."""
    token = tokens[end]
    if tokens[end - 1].end == token.start and token.kind != "mark":
        return 0
    if _is_name_part(token):
        return end + 1
    if token.kind == "number" and token.text.isdigit() and len(token.text) <= 3:
        return end + 1
    if token.lower in NAME_LINKS or token.text in ("&", "and", "for", "on"):
        return _continue_link(tokens, start, end)
    if token.text in ("'", "'s") and tokens[end - 1].end == token.start and end + 1 < len(tokens):
        plural = token.text == "'" and tokens[end - 1].lower.endswith("s")
        belongs = plural or tokens[end - 1].text in OWNERS_IN_NAMES or tokens[start].text == "St."
        return end + 2 if belongs and tokens[end + 1].start > token.end and _is_name_part(tokens[end + 1]) else 0
    if (
        token.text == ","
        and end + 1 < len(tokens)
        and tokens[end + 1].text in ("Jr.", "Sr.", "Inc.", "Inc", "Ltd.", "Jr", "Sr")
    ):
        return end + 2
    return 0


def _is_name_part(token: Token) -> bool:
    return (
        token.kind == "word" and is_capitalized(token.text) and (not _is_function_word(token) or token.text in NUMERALS)
    )


def _is_function_word(token: Token) -> bool:
    """Return whether a token is a function word; words in capitals are not: US, IT, WHO."""
    return token.lower in ENGLISH_FUNCTION_WORDS and (len(token.text) == 1 or not token.text.isupper())


def _continue_link(tokens: Sequence[Token], start: int, end: int) -> int:
    """Return the end of a name that a link continues ("of", "de la", "&"; "and" or "for" only in some), or 0."""
    after = end + 1
    while after < len(tokens) and tokens[after].lower in NAME_ARTICLES and after < end + 3:
        after += 1
    if after >= len(tokens) or not _is_name_part(tokens[after]):
        return 0
    if tokens[end].lower in ("and", "for", "on") and not _joins(tokens, start, end, after):
        return 0
    return after + 1


def _joins(tokens: Sequence[Token], start: int, end: int, after: int) -> bool:
    """Return whether "and" or "for" is part of a name: Ministry of Health and Welfare, Baltimore and Ohio Railroad."""
    if tokens[end].lower in ("for", "on"):
        return tokens[end - 1].text in BODIES
    goes_on = after + 1 < len(tokens) and _is_name_part(tokens[after + 1])
    if end > start + 1:
        return tokens[start].text in BODIES and not goes_on
    return goes_on and tokens[after + 1].text in ("Railroad", "Railway", "Act", "League", "Museum", "Union")
