"""The words of a text as the meter compares them, whatever a reader does to marks, spaces and ligatures."""

import unicodedata

import regex

_JOINED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"  # scripts that are counted by characters
_WORD = regex.compile(rf"[{_JOINED}]|[^\W_{_JOINED}]++")
_INVISIBLE = "\u00ad\u200b\u200c\u200d\u2060\ufeff"


def find_words(text: str) -> list[str]:
    """Return the words of a text in lower case; of Chinese and Japanese text, the characters.

    >>> find_words("Tide_7: 潮汐")
    ['tide', '7', '潮', '汐']
    """
    if not text.isascii():
        for mark in _INVISIBLE:
            text = text.replace(mark, "")
        text = unicodedata.normalize("NFKC", text)
    return _WORD.findall(text.lower())


def squeeze_words(text: str) -> str:
    """Return the words of a text without what is between them."""
    return "".join(find_words(text))
