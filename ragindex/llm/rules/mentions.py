"""What a sentence mentions: names by their capitals, quoted titles, dates and numbers.

`split_units` cuts a sentence into what the other rules work on: a name of several words is one unit.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ragindex.llm.rules.sentences import MAX_TEXT_LENGTH, split_normalized
from ragindex.llm.rules.tokens import Token, is_all_capitals, is_capitalized, tokenize
from ragindex.llm.rules.words import (
    ABBREVIATIONS,
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

_CALENDAR = frozenset((*MONTH_NAMES, *WEEKDAYS))
_LONGEST_NAME = 14
_LONGEST_QUOTE = 14
_NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class MentionSpan:
    """Characters `start` to `end` of a sentence: a name, a quoted title, a date or a number."""

    kind: MentionSpanKind
    start: int
    end: int
    text: str


class Unit(NamedTuple):
    """A word, mark or mention of a sentence. `space` is what stands before it; a `subject` is the passage's title."""

    text: str
    lower: str
    kind: UnitKind
    space: str
    start: int


def find_mentions(text: str, known_words: Collection[str] = _NOBODY) -> list[MentionSpan]:
    """What a text mentions, from left to right, none inside another: each is the characters of `text` that it names.

    Only the first LONGEST_TEXT characters are read. `known_words` are words in lower case that are no names even where
    they open a sentence.
    """
    found: list[MentionSpan] = []
    position = 0
    for sentence in split_normalized(text[:MAX_TEXT_LENGTH]):
        position = text.index(sentence, position)
        for unit in split_units(sentence, known_words):
            if unit.kind in ("name", "title", "date", "number"):
                start = position + unit.start
                found.append(MentionSpan(unit.kind, start, start + len(unit.text), unit.text))
        position += len(sentence)
    return found


def split_units(
    sentence: str, known_words: Collection[str] = _NOBODY, subject: Sequence[Sequence[str]] = ()
) -> list[Unit]:
    """The units of a sentence, in order. `subject` are the names of the title, each as its words: those in lower case
    stand for themselves in any case, the others only as they are written or in capitals."""
    held = tokenize(sentence)
    silent = is_all_capitals(held)
    spans: list[tuple[int, int, UnitKind]] = []
    position = 0
    while position < len(held):
        end, kind = _unit(held, position, known_words, subject, silent)
        spans.append((position, end, kind))
        position = end
    return [_made(sentence, held, span) for span in spans]


def _made(sentence: str, held: Sequence[Token], span: tuple[int, int, UnitKind]) -> Unit:
    first, last = held[span[0]], held[span[1] - 1]
    before = held[span[0] - 1].end if span[0] else 0
    text = sentence[first.start : last.end]
    return Unit(text, text.lower(), span[2], sentence[before : first.start], first.start)


def _unit(
    held: Sequence[Token],
    position: int,
    known_words: Collection[str],
    subject: Sequence[Sequence[str]],
    silent: bool,
) -> tuple[int, UnitKind]:
    """Where the unit that starts at `position` ends, and what it is."""
    token = held[position]
    for words in subject:
        if token.lower == words[0].lower() and _follow(held, position, words):
            return position + len(words), "subject"
    if token.kind != "word" and not _year_of_a_name(held, position):
        return position + 1, token.kind
    if _quoted(held, position):
        end = _closing(held, position)
        if end:
            return end, "title"
    if silent or not (is_capitalized(token.text) or token.kind == "date"):
        return position + 1, "word"
    return _name(held, position, known_words)


def _follow(held: Sequence[Token], position: int, words: Sequence[str]) -> bool:
    there = held[position : position + len(words)]
    same = len(there) == len(words) and all(
        token.lower == word.lower() and (place or word in (token.text, token.lower) or token.text.isupper())
        for place, (token, word) in enumerate(zip(there, words, strict=True))
    )
    longer = position + len(words)
    return same and not (
        longer < len(held)
        and held[longer - 1].text[:1].isupper()
        and _part(held[longer])
        and held[longer - 1].kind == "word"
    )


# ---------------------------------------------------------------- quoted titles

_CLOSING = {'"': '"', "《": "》", "「": "」", "«": "»", "『": "』"}


def _quoted(held: Sequence[Token], position: int) -> bool:
    return position > 0 and held[position - 1].text in _CLOSING


def _closing(held: Sequence[Token], position: int) -> int:
    """Where the closing quote of a title stands; 0 where the quote is a remark, or never closes."""
    mark = _CLOSING[held[position - 1].text]
    cased = held[position].text[:1].upper() != held[position].text[:1].lower()
    if cased and not is_capitalized(held[position].text):
        return 0
    for end in range(position + 1, min(position + _LONGEST_QUOTE, len(held))):
        if held[end].text == mark:
            return end - 1 if held[end - 1].text in (",", ".") and end - 1 > position else end
    return 0


# ---------------------------------------------------------------- names


def _name(held: Sequence[Token], position: int, known_words: Collection[str]) -> tuple[int, UnitKind]:
    opens = _opens(held, position)
    token = held[position]
    if _function_word(token) and not _article_of_a_name(held, position, opens):
        return position + 1, "word"
    end = position + 1
    for step in _steps(held, position):
        end = step
    end = _without_tail(held, position, end)
    if opens and end == position + 1 and _common(held, position, known_words):
        return end, "word"
    return end, "date" if end == position + 1 and token.text in _CALENDAR else "name"


def _year_of_a_name(held: Sequence[Token], position: int) -> bool:
    """Whether a year begins a name: "the 2018 Winter Olympics"."""
    named = position + 1 < len(held) and _part(held[position + 1]) and held[position].text.isdigit()
    return named and position > 0 and held[position - 1].lower in ("the", "a", "an", "'s")


def _opens(held: Sequence[Token], position: int) -> bool:
    """Whether a sentence or a quotation opens here, so that a capital says nothing."""
    return position == 0 or held[position - 1].text in (":", '"', "(", "-", "--", ".", "...", "!", "?", "'", "*", "•")


def _article_of_a_name(held: Sequence[Token], position: int, opens: bool) -> bool:
    """ "The Hague" within a sentence; "New", "Most", "First" before another capital are judged alike."""
    following = held[position + 1] if position + 1 < len(held) else None
    return not opens and following is not None and following.kind == "word" and is_capitalized(following.text)


def _common(held: Sequence[Token], position: int, known_words: Collection[str]) -> bool:
    """Whether the one word that opens a sentence is no name: a word of the language written with a capital."""
    word, lower = held[position].text, held[position].lower
    following = held[position + 1].lower if position + 1 < len(held) else ""
    if lower in known_words or lower in NUMBER_WORDS or lower.removeprefix("co-") in PAST_VERBS:
        return True
    if not word.isalpha() or word.isupper():
        return False
    plural = lower.endswith("s") and not lower.endswith("ss") and following in ("are", "were", "have", "can", "of")
    return plural or len(lower) < 3 or (lower.endswith(COMMON_ENDINGS) and following != "'s" and len(lower) > 4)


def _steps(held: Sequence[Token], start: int) -> Iterator[int]:
    """The places where a name that starts at `start` may end, each farther than the one before."""
    end = start + 1
    while end < min(len(held), start + _LONGEST_NAME):
        if _ends_name(held[end - 1]):
            return
        longer = _continued(held, start, end)
        if not longer:
            return
        end = longer
        yield end


def _ends_name(token: Token) -> bool:
    """A full stop that belongs to neither an initial nor an abbreviation ends a name."""
    return (
        token.text.endswith(".")
        and len(token.text) > 3
        and token.lower[:-1] not in ABBREVIATIONS
        and token.text.count(".") < 2
    )


def _continued(held: Sequence[Token], start: int, end: int) -> int:
    """Where a name ends that goes on at `end`: with a capital, a numeral, or a link and a capital; 0 if it does not."""
    token = held[end]
    if held[end - 1].end == token.start and token.kind != "mark":
        return 0
    if _part(token):
        return end + 1
    if token.kind == "number" and token.text.isdigit() and len(token.text) <= 3:
        return end + 1
    if token.lower in NAME_LINKS or token.text in ("&", "and", "for", "on", "in", "the"):
        return _linked(held, start, end)
    if token.text in ("'", "'s") and held[end - 1].end == token.start and end + 1 < len(held):
        plural = token.text == "'" and held[end - 1].lower.endswith("s")
        belongs = plural or held[end - 1].text in OWNERS_IN_NAMES or held[start].text == "St."
        return end + 2 if belongs and held[end + 1].start > token.end and _part(held[end + 1]) else 0
    if (
        token.text == ","
        and end + 1 < len(held)
        and held[end + 1].text in ("Jr.", "Sr.", "Inc.", "Inc", "Ltd.", "Jr", "Sr")
    ):
        return end + 2
    return 0


def _part(token: Token) -> bool:
    return token.kind == "word" and is_capitalized(token.text) and (not _function_word(token) or token.text in NUMERALS)


def _function_word(token: Token) -> bool:
    """A function word is none in capitals: US, IT, WHO."""
    return token.lower in ENGLISH_FUNCTION_WORDS and (len(token.text) == 1 or not token.text.isupper())


def _linked(held: Sequence[Token], start: int, end: int) -> int:
    """Where a name ends that a link continues: "of", "de la", "&"; "and", "for" and "on" in names of bodies only."""
    link = held[end].lower
    after = end + 1
    while after < len(held) and held[after].lower in NAME_ARTICLES and after < end + 3:
        after += 1
    if after >= len(held) or not _part(held[after]) or (link == "the" and held[end - 1].lower not in ("of", "&")):
        return 0
    if link in ("and", "for", "on", "in", "et"):
        return after + 1 if _joins(held, start, end, after) else 0
    return after + 1


def _joins(held: Sequence[Token], start: int, end: int, after: int) -> bool:
    """Whether "and" or "for" stands within one name: Ministry of Health and Welfare, Baltimore and Ohio Railroad."""
    body = held[start].text in BODIES
    if held[end].lower in ("for", "on"):
        return held[end - 1].text in BODIES
    if held[end].lower in ("in", "et"):
        return False
    goes_on = after + 1 < len(held) and _part(held[after + 1])
    if body and end > start + 1:
        of = after + 1 < len(held) and held[after + 1].lower == "of"
        return not goes_on and (of or held[start].text not in ("University", "College", "School", "Treaty"))
    return (
        end == start + 1
        and goes_on
        and held[after + 1].text in ("Railroad", "Railway", "Act", "League", "Museum", "Union")
    )


def _without_tail(held: Sequence[Token], start: int, end: int) -> int:
    """The name without a function word or a link that it ended on."""
    while end > start + 1 and _function_word(held[end - 1]) and held[end - 1].text not in NUMERALS:
        end -= 1
    return end
