"""Text normalization and sentence splitting. Every pattern takes time linear in the text."""

import unicodedata
from collections.abc import Iterator

import regex

from ragindex.english.words import ABBREVIATIONS, ENGLISH_FUNCTION_WORDS

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
    text = "\n".join(_join_paragraphs(_LOOSE_BRACKET.sub("(", text)))
    if " - " in text and not _HYPHEN.search(text):
        text = _SPACED_HYPHEN.sub(_join_hyphen, text)
    return text


def _join_hyphen(match: regex.Match[str]) -> str:
    """Join a hyphen that tokenized text writes with spaces, but keep a dash, which precedes a function word."""
    return " - " if match[1].lower() in ENGLISH_FUNCTION_WORDS else "-"


def _join_paragraphs(text: str) -> list[str]:
    """Join lines to paragraphs. A non-blank line continues one that is long or ends with a comma."""
    found: list[list[str]] = [[]]
    runs_on = False
    for line in text.splitlines():
        words = " ".join(line.split())
        if not (runs_on and words):
            found.append([])
        found[-1].append(words)
        runs_on = len(words) >= _SHORT_LINE or words.endswith(",")
    return [joined for lines in found if (joined := " ".join(lines).strip())]


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
    """Return the ranges of a text's sentences, in order, without the white space around them."""
    found: list[tuple[int, int]] = []
    start = 0
    for match in _END.finditer(text):
        if match[1] and not _ends_sentence(text, start, match):
            continue
        found += _split_long_sentence(text, start, match.end())
        start = match.end()
    return found + list(_split_long_sentence(text, start, len(text)))


def _ends_sentence(text: str, start: int, match: regex.Match[str]) -> bool:
    """Return whether a sentence ends at this mark: not after an abbreviation or initial, and not inside brackets."""
    if match[1] == ".":
        word = _LAST_WORD.search(text, max(start, match.start() - 20), match.start())
        if word is not None and _is_abbreviation(word[0].lower()) and not _opens_sentence(text, match.end()):
            return False
    sentence = text[max(start, match.end() - MAX_SENTENCE_LENGTH) : match.end()]
    return sentence.count("(") <= sentence.count(")")


def _opens_sentence(text: str, position: int) -> bool:
    """Return whether a function word follows; after an abbreviation, its capital shows that a sentence begins."""
    word = _NEXT_WORD.match(text, position)
    return word is not None and word[0].lower() in ENGLISH_FUNCTION_WORDS


def _is_abbreviation(word: str) -> bool:
    return word in ABBREVIATIONS or len(word) == 1 or ("." in word and len(word.split(".")[-1]) == 1)


def _split_long_sentence(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    start, end = _strip(text, start, end)
    while end - start > MAX_SENTENCE_LENGTH:
        cut = text.rfind(" ", start + MAX_SENTENCE_LENGTH // 2, start + MAX_SENTENCE_LENGTH)
        cut = start + MAX_SENTENCE_LENGTH if cut < 0 else cut
        yield _strip(text, start, cut)
        start, end = _strip(text, cut, end)
    if start < end:
        yield start, end


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the range without the white space at its ends."""
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())
