"""Questions that name the title of a document that answers them, which ask less of a method than a description."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence

import regex

from ragindex.types import Query
from ragindex_eval.data.gold import Gold

_SHORTEST = 2  # letters and digits of a title; shorter ones stand in any question
_SPACE = regex.compile(r"\s+")
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_IN_WORD = regex.compile(rf"[\p{{L}}\p{{M}}\p{{N}}--[{_UNSPACED}]]", regex.VERSION1)
_BRACKET = regex.compile(r"[(（\[]")
_LETTER = regex.compile(r"[\p{L}\p{N}]")


def find_naming(queries: Sequence[Query], gold: Mapping[str, Gold] | None, titles: Mapping[str, str]) -> frozenset[str]:
    """Return the ids of the questions whose text contains the title of one of their gold documents.

    `titles` are by document id.
    """
    return frozenset(
        query.id
        for query in queries
        if gold and query.id in gold and names_title(query.text, (titles.get(id, "") for id in gold[query.id].doc_ids))
    )


def names_title(text: str, titles: Iterable[str]) -> bool:
    """Return whether a text contains one of the titles as whole words, whatever their case.

    What stands in brackets at the end of a title may be missing, as in `qshape(1)`. Words are not told apart in scripts
    without spaces, nor in Korean, whose particles follow without one.
    """
    folded = _fold(text)
    names = {name for title in titles for name in (title, drop_brackets(title))}
    return any(len(_LETTER.findall(name)) >= _SHORTEST and _contains(folded, _fold(name)) for name in names)


def drop_brackets(title: str) -> str:
    """Return a title without its first bracket and what follows."""
    return str(_BRACKET.split(title, maxsplit=1)[0]).rstrip()


def _fold(text: str) -> str:
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def _contains(text: str, words: str) -> bool:
    """Return whether `words` stand in `text`, and no word of a script with spaces goes on before or after them."""
    at = text.find(words)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(words) : at + len(words) + 1]
        if not (_joins(before, words[0]) or _joins(words[-1], after)):
            return True
        at = text.find(words, at + 1)
    return False


def _joins(first: str, second: str) -> bool:
    """Return whether two neighbouring characters are of one word."""
    return bool(_IN_WORD.match(first) and _IN_WORD.match(second))
