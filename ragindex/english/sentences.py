"""Normalization of texts, their sentences, and tokens of sentences. Every pattern takes time linear in the text."""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import regex

from ragindex.english.words import ABBREVIATIONS, BESIDE_NUMBERS, ENGLISH_FUNCTION_WORDS, MONTH_NAMES, UNITS

MAX_TEXT_LENGTH = 100_000
"""Characters of a text that are read; `extract` says so where there are more."""

MAX_SENTENCE_LENGTH = 1_200
"""A sentence that does not end within so many characters is cut at a space."""

_SHORT_LINE = 60

_QUOTES = str.maketrans(
    {"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "\u00a0": " ", "…": "..."}
)
_INVISIBLE = regex.compile(r"[\p{Cs}\p{Co}\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+|(?![\n\t\r])\p{Cc}")
_REFERENCE = regex.compile(r"\[(?:\d{1,3}|[a-z]|citation needed|note \d{1,3})\]")
_EMPTY_BRACKETS = regex.compile(r"\([\s,;:]{0,10}\)")
_LOOSE_BRACKET = regex.compile(r"\([,;:\s]{1,10}(?=\S)")
_SPACED_HYPHEN = regex.compile(r"(?<=[\p{L}\p{N}]) - (?=([\p{L}\p{N}]+))")
_HYPHEN = regex.compile(r"\p{L}-\p{L}")


def normalize_text(text: str) -> str:
    """Normalize a text for the rules: NFC, straight quotes, single spaces, no reference marks such as "[1]".

    Line breaks at the end of paragraphs and of short lines are kept; other line breaks become spaces. Only the first
    MAX_TEXT_LENGTH characters are read.
    """
    text = unicodedata.normalize("NFC", text[:MAX_TEXT_LENGTH]).replace("''", '"').replace("``", '"').translate(_QUOTES)
    text = _EMPTY_BRACKETS.sub("", _REFERENCE.sub("", _INVISIBLE.sub("", text)))
    text = "\n".join(_join_lines(_LOOSE_BRACKET.sub("(", text)))
    if " - " in text and not _HYPHEN.search(text):
        text = _SPACED_HYPHEN.sub(_join_hyphen, text)
    return text


def _join_hyphen(match: regex.Match[str]) -> str:
    """Join a hyphen that tokenized text writes with spaces, but keep a dash, which precedes a function word."""
    return " - " if match[1].lower() in ENGLISH_FUNCTION_WORDS else "-"


def _join_lines(text: str) -> list[str]:
    """Return the paragraphs of a text. A non-blank line continues one that is long or ends with a comma."""
    paragraphs: list[list[str]] = [[]]
    runs_on = False
    for line in text.splitlines():
        words = " ".join(line.split())
        if not (runs_on and words):
            paragraphs.append([])
        paragraphs[-1].append(words)
        runs_on = len(words) >= _SHORT_LINE or words.endswith(",")
    return [joined for lines in paragraphs if (joined := " ".join(lines).strip())]


# ---------------------------------------------------------------- sentences

_END = regex.compile(r"""([.!?])["')\]]{0,3}\s+(?=["']{0,2}[\p{Lu}\p{Lo}\p{N}])|[。！？।॥؟]["'」』）]{0,2}\s*|\n+""")
_NEXT_WORD = regex.compile(r"\p{L}++(?!\.)")
_LAST_WORD = regex.compile(r"[\p{L}.]+\Z")


def split_sentences(text: str) -> list[str]:
    """Normalize a text and return its sentences, in order; each has 1 to MAX_SENTENCE_LENGTH characters."""
    return split_normalized(normalize_text(text))


def split_normalized(text: str) -> list[str]:
    """Return the sentences of a normalized text, in order."""
    return [text[start:end] for start, end in find_sentences(text)]


def find_sentences(text: str) -> list[tuple[int, int]]:
    """Return the ranges of a text's sentences, in order, without the white space around them.

    >>> find_sentences("It rained. She left.")
    [(0, 10), (11, 20)]
    """
    ranges: list[tuple[int, int]] = []
    start = 0
    for match in _END.finditer(text):
        if not match[1] or _ends_sentence(text, start, match):
            ranges += _cut_sentence(text, start, match.end())
            start = match.end()
    return ranges + list(_cut_sentence(text, start, len(text)))


def _ends_sentence(text: str, start: int, match: regex.Match[str]) -> bool:
    """Return whether a sentence ends at this mark: not after an abbreviation or initial, and not inside brackets."""
    if match[1] == ".":
        last = _LAST_WORD.search(text, max(start, match.start() - 20), match.start())
        word = last[0].lower() if last else ""
        if word in ABBREVIATIONS or len(word) == 1 or ("." in word and len(word.split(".")[-1]) == 1):
            # after an abbreviation, the capital of a function word shows that a sentence begins
            following = _NEXT_WORD.match(text, match.end())
            if following is None or following[0].lower() not in ENGLISH_FUNCTION_WORDS:
                return False
    sentence = text[max(start, match.end() - MAX_SENTENCE_LENGTH) : match.end()]
    return sentence.count("(") <= sentence.count(")")


def _cut_sentence(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the range of a sentence without the white space at its ends, in pieces of MAX_SENTENCE_LENGTH."""
    start, end = _strip(text, start, end)
    while end - start > MAX_SENTENCE_LENGTH:
        cut = text.rfind(" ", start + MAX_SENTENCE_LENGTH // 2, start + MAX_SENTENCE_LENGTH)
        cut = start + MAX_SENTENCE_LENGTH if cut < 0 else cut
        yield _strip(text, start, cut)
        start, end = _strip(text, cut, end)
    if start < end:
        yield start, end


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


# ---------------------------------------------------------------- tokens

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
        Token(text := match.group(), text.lower(), match.lastgroup, match.start(), match.end())  # type: ignore[arg-type]
        for match in _TOKEN.finditer(sentence)
    ]


def is_capitalized(word: str) -> bool:
    """Return whether a word is written like a name: with a capital at its start or inside it (eBay, al-Qaida)."""
    return word[:1].isupper() or (len(word) > 2 and not word.isupper() and word != word.lower())


def is_all_capitals(tokens: Sequence[Token]) -> bool:
    """Return whether a sentence is in capitals: more than two thirds of its words, and it has at least five."""
    words = [token.text for token in tokens if token.kind == "word" and len(token.text) > 1]
    return len(words) > 4 and sum(word.isupper() for word in words) * 3 > len(words) * 2


_UNITS = frozenset(UNITS.lower().split("|"))
_LONGEST_NUMBER = 60  # characters


def is_number(name: str) -> bool:
    """Return whether a name is only a date, a year, a number or a measure: "1871", "12 May 1871", "about 40 km"."""
    return len(name) <= _LONGEST_NUMBER and any(_has_only_numbers(tokenize(text)) for text in (name, name.title()))


def _has_only_numbers(tokens: Sequence[Token]) -> bool:
    tokens = [token for token in tokens if token.kind != "mark" and token.lower not in BESIDE_NUMBERS]
    months = [token.text in MONTH_NAMES for token in tokens]
    return any(month or token.kind != "word" for token, month in zip(tokens, months, strict=True)) and all(
        month or token.kind != "word" or token.lower in _UNITS for token, month in zip(tokens, months, strict=True)
    )
