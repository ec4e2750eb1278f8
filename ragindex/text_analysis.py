"""The one analysis of text that every engine indexes and every question goes through.

A text becomes tokens in these steps: words are runs of letters, marks, digits and inner underscores; scripts that
write no spaces give overlapping pairs of characters; case and compatibility forms are folded; stop words go; words are
stemmed; the diacritics of Latin, Greek and Cyrillic go (never the vowel signs of Indic scripts); 64 characters stay.

- English is folded before it is stemmed, because its marks are foreign (Beyoncé is Beyonce). Every other language is
  stemmed as it is written, because its stemmer knows its marks, and folded afterwards.
- A text that holds nothing but stop words keeps them, in the index and in the question alike: an entity called
  "The Who" or a question "To be or not to be?" is never empty.
- English stop words are the 33 of Lucene's EnglishAnalyzer and the "s" that a possessive leaves. Other languages' come
  from the package stop-words; its English list holds 1,333 words, "world", "state" and "first" among them.
- The language `none` has no stop words and no stemming: the words themselves.
"""

import difflib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from threading import Lock

import regex
import Stemmer
import stop_words

from ragindex.errors import UsageError

VERSION = 1
"""Raised when the same text would give other tokens: whatever holds tokens must be made again."""

MAX_TOKEN_LENGTH = 64
"""Tokens are cut at so many characters."""

_CACHED_WORDS = 200_000
_LUCENE_ENGLISH = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with s"
)
_NOT_LANGUAGES = frozenset({"porter", "dutch_porter"})  # second algorithms for languages that have one

# Soft hyphens and zero-width joiners stand inside words and say nothing.
_INVISIBLE = "\u00ad\u200d"
_ASCII_WORD = re.compile(r"[^\W_]+(?:_+[^\W_]+)*", re.ASCII)
_WORD = regex.compile(rf"[\p{{L}}\p{{M}}\p{{N}}{_INVISIBLE}]+(?:_+[\p{{L}}\p{{M}}\p{{N}}{_INVISIBLE}]+)*")
_UNSPACED = r"\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_RUN = regex.compile(rf"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_HAS_UNSPACED = regex.compile(rf"[{_UNSPACED}]")
_CLUSTER = regex.compile(r"\X")
_MARKS = re.compile("[\u0300-\u036f]+")
_STROKES = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"}
)
_TURKISH_CASE = str.maketrans({"I": "ı", "İ": "i"})
_NO_INVISIBLE = str.maketrans("", "", _INVISIBLE)


def analyse(text: str, language: str = "english") -> list[str]:
    """The tokens of a text, in order. Raises UsageError where the language is unknown."""
    return _analysed(text, _analyser(language)).split()


def analyse_many(texts: Iterable[str], language: str = "english") -> list[str]:
    """The tokens of each text joined by single spaces: what stores keep. Raises UsageError as `analyse` does."""
    analyser = _analyser(language)
    return [_analysed(text, analyser) for text in texts]


def token_spans(text: str, language: str = "english") -> list[tuple[str, int, int]]:
    """(token, start, end) for each token of `analyse(text)`: the characters of `text` that it stands for."""
    analyser = _analyser(language)
    return list(_spans(text, analyser)) or list(_spans(text, analyser.unstopped))


@cache
def languages() -> tuple[str, ...]:
    """The languages that texts can be analysed in, sorted."""
    known = {*Stemmer.algorithms(), *stop_words.AVAILABLE_LANGUAGES, "none"}
    return tuple(sorted(known - _NOT_LANGUAGES))


# ---------------------------------------------------------------- one text


def _analysed(text: str, analyser: "_Analyser") -> str:
    words = (_ASCII_WORD if text.isascii() else _WORD).findall(text)
    tokens = " ".join(filter(None, map(analyser.__getitem__, words)))
    return tokens or " ".join(filter(None, map(analyser.unstopped.__getitem__, words)))


def _spans(text: str, analyser: "_Analyser") -> Iterator[tuple[str, int, int]]:
    for word in _WORD.finditer(text):
        for piece, start, end in _pieces(word.group()):
            for token in analyser[piece].split():
                yield token, word.start() + start, word.start() + end


def _pieces(word: str) -> Iterator[tuple[str, int, int]]:
    """The word itself; of scripts without spaces, pairs of characters (one that stands alone stays)."""
    if _HAS_UNSPACED.search(word) is None:
        yield word, 0, len(word)
        return
    for run in _RUN.finditer(word):
        if _HAS_UNSPACED.match(run.group()) is None:
            yield run.group(), run.start(), run.end()
            continue
        starts = [run.start() + cluster.start() for cluster in _CLUSTER.finditer(run.group())]
        ends = [*starts[1:], run.end()]
        for start, end in zip(starts, ends[1:] or ends, strict=False):
            yield word[start:end], start, end


# ---------------------------------------------------------------- one word


class _Analyser(dict[str, str]):
    """Word as written → its tokens joined by spaces, "" where it is dropped. Bounded; safe to share by threads."""

    def __init__(self, language: str, stops: frozenset[str], stems: bool) -> None:
        super().__init__()
        self.language, self.stops = language, stops
        self.unstopped = _Analyser(language, frozenset(), stems) if stops else self
        self._lock = Lock()  # a Stemmer object belongs to one thread at a time
        self._stemmer = Stemmer.Stemmer(language, 0) if stems else None

    def __missing__(self, word: str) -> str:
        if _HAS_UNSPACED.search(word) is None:
            tokens = " ".join(self._tokens(word))
        else:
            tokens = " ".join(token for piece, _, _ in _pieces(word) for token in self._tokens(piece))
        if len(word) <= MAX_TOKEN_LENGTH:
            with self._lock:
                if len(self) >= _CACHED_WORDS:
                    self.clear()
                self[word] = tokens
        return tokens

    def _tokens(self, piece: str) -> Iterator[str]:
        """A compatibility form may hold several words: ½ is 1⁄2."""
        for word in _WORD.findall(_fold_case(piece, self.language)):
            folded = _fold_marks(word)
            if folded and folded not in self.stops:
                yield self._stem(folded if self.language == "english" else word)[:MAX_TOKEN_LENGTH]

    def _stem(self, word: str) -> str:
        if self._stemmer is None:
            return _fold_marks(word)
        with self._lock:
            stem = str(self._stemmer.stemWord(word[:MAX_TOKEN_LENGTH]))
        return _fold_marks(stem) or _fold_marks(word)


def _fold_case(word: str, language: str) -> str:
    if language == "turkish":
        word = word.translate(_TURKISH_CASE)
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold()).translate(_NO_INVISIBLE)


def _fold_marks(word: str) -> str:
    if word.isascii():
        return word
    bare = _MARKS.sub("", unicodedata.normalize("NFD", word))
    return unicodedata.normalize("NFC", bare).translate(_STROKES)


@cache
def _analyser(language: str) -> _Analyser:
    if language not in languages():
        near = difflib.get_close_matches(language, languages(), n=3, cutoff=0.6)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(languages())}."
        raise UsageError(f"Unknown text analysis {language!r}. {hint}")
    if language == "english":
        return _Analyser(language, frozenset(_LUCENE_ENGLISH.split()), stems=True)
    return _Analyser(language, listed_stop_words(language), stems=language in Stemmer.algorithms())


def listed_stop_words(language: str) -> frozenset[str]:
    """The stop words that the package stop-words lists for a language, as the language `none` analyses them."""
    return frozenset(_fold_marks(word) for word in _listed(language))


@cache
def _listed(language: str) -> frozenset[str]:
    """The package's stop words that are single words, in folded case."""
    if language not in stop_words.AVAILABLE_LANGUAGES:
        return frozenset()
    entries = stop_words.get_stop_words(language)
    if language == "turkish":  # the package read a file of ISO 8859-9 as ISO 8859-1
        entries = [entry.encode("latin-1").decode("iso8859-9") for entry in entries]
    found = (_WORD.findall(_fold_case(entry, language)) for entry in entries)
    return frozenset(words[0] for words in found if len(words) == 1)


# ---------------------------------------------------------------- which language a corpus is in

_SAMPLED_TEXTS, _SAMPLED_CHARACTERS = 200, 1_000
_FEWEST_LETTERS, _SHARE_OF_LETTERS = 60, 0.6
_SHARE_OF_WORDS, _DISTINCT_WORDS, _TIMES = 0.15, 6, 3
"""Stop words that the language has and the configured one lacks: at least such a share of all words, so many different
ones (names repeat "de" and "la"), and so many times as many as the other way round."""

_SCRIPTS: Mapping[str, tuple[str, ...]] = {
    "Cyrillic": ("russian", "ukrainian", "bulgarian", "serbian"),
    "Greek": ("greek",),
    "Arabic": ("arabic", "persian"),
    "Hebrew": ("hebrew", "yiddish"),
    "Devanagari": ("hindi", "nepali"),
    "Gujarati": ("gujarati",),
    "Armenian": ("armenian",),
    "Tamil": ("tamil",),
    "Hangul": ("korean",),
    "Hiragana": ("japanese",),
    "Han": ("chinese", "japanese"),
}
_LETTERS = {script: regex.compile(rf"\p{{{script}}}") for script in ("Latin", *_SCRIPTS)}


def language_warning(texts: Sequence[str], language: str) -> str | None:
    """A sentence where the texts look like another language than the one configured; None where that is unsure.

    A bounded sample is looked at: the script of its letters, then the languages' shares of stop words.
    """
    step = max(1, len(texts) // _SAMPLED_TEXTS)
    sample = "\n".join(text[:_SAMPLED_CHARACTERS] for text in texts[::step])
    candidates = _written_in(sample)
    if language == "none" or not candidates:
        return None
    words = [_fold_case(word, language) for word in _WORD.findall(sample)]
    best = max(candidates, key=lambda name: sum(word in _listed(name) for word in words))
    if language in candidates and not _clearly(best, language, words):
        return None
    return f"The corpus looks like {best}; pass --language {best}"


def _written_in(sample: str) -> tuple[str, ...]:
    """The languages of the script that most letters are in; none where there is no such script."""
    counts = {script: len(letters.findall(sample)) for script, letters in _LETTERS.items()}
    if counts["Hiragana"] * 5 > counts["Han"]:  # Chinese has no kana, Japanese has many
        counts["Hiragana"] += counts.pop("Han")
    script = max(counts, key=lambda name: counts[name])
    if counts[script] < max(_FEWEST_LETTERS, _SHARE_OF_LETTERS * sum(counts.values())):
        return ()
    elsewhere = {name for names in _SCRIPTS.values() for name in names}
    return _SCRIPTS.get(script) or tuple(name for name in languages() if name not in elsewhere and name != "none")


def _clearly(best: str, configured: str, words: Sequence[str]) -> bool:
    ours, theirs = _listed(configured), _listed(best)
    if not ours:
        return False
    more = [word for word in words if word in theirs and word not in ours]
    fewer = sum(word in ours and word not in theirs for word in words)
    return len(more) >= max(_SHARE_OF_WORDS * len(words), _TIMES * fewer) and len(set(more)) >= _DISTINCT_WORDS
