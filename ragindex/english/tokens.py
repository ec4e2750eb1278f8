"""Tokenizer of sentences into words, numbers, dates and punctuation marks, with their character offsets."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import regex

from ragindex.english.words import BESIDE_NUMBERS, MONTH_NAMES, UNITS

TokenKind = Literal["word", "number", "date", "mark"]

_MONTH = f"(?:{'|'.join(MONTH_NAMES)})"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_YEAR = r"(?:1\d{3}|20\d{2})"
_ABBREVIATED = "St|Mt|Ft|Mr|Mrs|Ms|Dr|Prof|Rev|Gen|Col|Lt|Sgt|Capt|Gov|Sen|Rep|Hon|Jr|Sr|Bros|Inc|Ltd|Co|Corp|No|Op|vs"
_TOKEN = regex.compile(
    rf"""(?P<date>
          \b{_DAY}(?:\ of)?\ {_MONTH}(?:,?\ \d{{4}})?\b | \b{_MONTH}\ {_DAY}(?:,?\ \d{{4}})?\b(?!,\d)
        | \b{_MONTH},?\ \d{{4}}\b | \b\d{{4}}-\d\d-\d\d\b | \b\d{{3,4}}s\b | \b{_YEAR}\ ?-\ ?(?:{_YEAR}|\d\d)\b
        | \bca?\.\ ?\d{{3,4}}\b | \b\d{{1,2}}(?:st|nd|rd|th)[ -]century\b(?:\ BC)? | \b\d{{1,4}}\ (?:BCE?|AD|CE)\b
        | \b{_YEAR}\b(?![,.:/]?\d|%)
        | \d{{4}}年(?:\d{{1,2}}月(?:\d{{1,2}}日)?)? )
      | (?P<number>
          (?:(?:US|A|C)?[$€£¥]\ ?)?\d+(?:[,.:/]\d+)*
          (?:(?:st|nd|rd|th)\b | \ ?(?:{UNITS})(?![\p{{L}}\p{{N}}]) | (?![\p{{L}}])) )
      | (?P<word>
          (?<=\p{{Ll}}\ )[IVX]{{1,4}}(?=\.(?:\s|$))
        | (?:\p{{Lu}}\.){{1,6}}(?=[\s,;:)"'\]-]|$)
        | (?:{_ABBREVIATED})\.(?=[\s,;:)]|$)
        | [\p{{L}}\p{{N}}][\p{{L}}\p{{M}}\p{{N}}]*(?:(?:['’](?!s\b)|[&.-])[\p{{L}}\p{{N}}][\p{{L}}\p{{M}}\p{{N}}]*)* )
      | (?P<mark>['’]s\b|\.\.\.|--|\S)""",
    regex.VERBOSE,
)


class Token(NamedTuple):
    """Token with its character offsets `start` and `end` in the sentence. `lower` is the text in lower case."""

    text: str
    lower: str
    kind: TokenKind
    start: int
    end: int


def tokenize(sentence: str) -> list[Token]:
    """Return the tokens of a sentence, in order and without overlap."""
    return [
        Token(text := match.group(), text.lower(), match.lastgroup or "mark", match.start(), match.end())  # type: ignore[arg-type]
        for match in _TOKEN.finditer(sentence)
    ]


def is_capitalized(word: str) -> bool:
    """Return whether a word is written like a name: with a capital at its start or inside it (eBay, al-Qaida)."""
    return word[:1].isupper() or (len(word) > 2 and not word.isupper() and word != word.lower())


def is_all_capitals(held: Sequence[Token]) -> bool:
    """Return whether a sentence is in capitals: more than two thirds of its words, and it has at least five."""
    words = [token.text for token in held if token.kind == "word" and len(token.text) > 1]
    return len(words) > 4 and sum(word.isupper() for word in words) * 3 > len(words) * 2


_UNITS = frozenset(UNITS.lower().split("|"))
_LONGEST_NUMBER = 60  # characters


def is_number(name: str) -> bool:
    """Return whether a name is only a date, a year, a number or a measure: "1871", "12 May 1871", "about 40 km"."""
    return len(name) <= _LONGEST_NUMBER and any(_has_only_numbers(tokenize(text)) for text in (name, name.title()))


def _has_only_numbers(held: Sequence[Token]) -> bool:
    named = [token for token in held if token.kind != "mark" and token.lower not in BESIDE_NUMBERS]
    return (
        bool(named)
        and all(
            token.kind in ("date", "number") or token.text in MONTH_NAMES or token.lower in _UNITS for token in named
        )
        and any(token.kind != "word" or token.text in MONTH_NAMES for token in named)
    )
