"""Text analysis: the tokenizer that every engine uses for indexed texts and questions.

1. Split the text into words: runs of letters, marks, digits and inner underscores. Scripts without spaces, and Korean,
   whose particles are written together with the word, are split into overlapping pairs of characters, as Lucene's
   CJKAnalyzer does; Chinese characters are tokens alone too, for many a word is one of them.
2. Fold case, compatibility forms and the digits of all scripts, leave out what chooses the shape of a character (emoji
   selectors), and remove stop words. Arabic and Persian fold each other's forms of kaf and yeh to their own.
3. Stem the words, and remove the diacritics of Latin, Greek and Cyrillic (never the vowel signs of Indic scripts).
4. Cut tokens at 64 characters.

- English loses its diacritics before stemming, because they only occur in foreign words (Beyoncé becomes Beyonce).
  Other languages lose them after stemming, because their stemmers use them.
- A text that consists of stop words keeps them, in the index as in a question: an entity called "The Who" or a
  question "To be or not to be?" is never empty.
- English has the 33 stop words of Lucene's EnglishAnalyzer, plus the "s" that a possessive leaves. The stop words of
  other languages come from the package stop-words, whose English list is too long: its 1,333 words include "world",
  "state" and "first".
- The language `none` has no stop words and no stemming.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from threading import Lock

import regex
import Stemmer
import stop_words

from ragindex._util.text import suggest_names
from ragindex.errors import UsageError

VERSION = 3
"""Increased when the same text would give other tokens; everything that stores tokens is then rebuilt."""

MAX_TOKEN_LENGTH = 64
"""Length at which tokens are cut, in characters."""

_CACHED_WORDS = 200_000
_LUCENE_ENGLISH = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with s"
)
_NOT_LANGUAGES = frozenset({"porter", "dutch_porter"})  # alternative stemmers for languages that are listed anyway

# Soft hyphens and zero-width joiners occur inside words and carry no meaning, nor do the signs that choose the shape of
# the character before (variation selectors, of emoji and ideographs too, and the frame of a key).
_SHAPES = "\u180b-\u180d\ufe00-\ufe0f\u20e3\U000e0100-\U000e01ef"
_INVISIBLE = "\u00ad\u200d"
_ASCII_WORD = re.compile(r"[^\W_]+(?:_+[^\W_]+)*", re.ASCII)
_WORD = regex.compile(rf"[\p{{L}}\p{{M}}\p{{N}}{_INVISIBLE}]+(?:_+[\p{{L}}\p{{M}}\p{{N}}{_INVISIBLE}]+)*")
_UNSPACED = r"\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Hangul}"
_RUN = regex.compile(rf"[{_UNSPACED}][{_UNSPACED}{_SHAPES}]*|[^{_UNSPACED}]+")
_HAS_UNSPACED = regex.compile(rf"[{_UNSPACED}]")
_ALL_UNSPACED = regex.compile(rf"[{_UNSPACED}]+")
_HAN = regex.compile(r"\p{Han}")
_CLUSTER = regex.compile(r"\X")
_MARKS = re.compile("[\u0300-\u036f]+")
_STROKES = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"}
)
_TURKISH_CASE = str.maketrans({"I": "ı", "İ": "i"})
_LEFT_OUT = regex.compile(rf"[{_INVISIBLE}{_SHAPES}]")
_FOREIGN_DIGIT = regex.compile(r"[^\P{Nd}0-9]")
_LETTERS_OF_LANGUAGES: Mapping[str, Mapping[int, int]] = {
    "arabic": str.maketrans("یک", "يك"),
    "persian": str.maketrans("يىك", "ییک"),
}


def analyse(text: str, language: str = "english") -> list[str]:
    """Return the tokens of a text, in order. Raises UsageError if the language is unknown."""
    return _tokenize(text, _analyser(language)).split()


def analyse_many(texts: Iterable[str], language: str = "english") -> list[str]:
    """Return the tokens of each text joined by single spaces, as stores keep them. Raises UsageError like `analyse`."""
    analyser = _analyser(language)
    return [_tokenize(text, analyser) for text in texts]


def token_spans(text: str, language: str = "english") -> list[tuple[str, int, int]]:
    """Return (token, start, end) for each token of `analyse(text)`, where `text[start:end]` is its source."""
    analyser = _analyser(language)
    return list(_find_spans(text, analyser)) or list(_find_spans(text, analyser.unstopped))


def is_unspaced(text: str) -> bool:
    """Return whether all characters are of scripts that are split into pairs: those without spaces, and Hangul."""
    return _ALL_UNSPACED.fullmatch(text) is not None


@cache
def languages() -> tuple[str, ...]:
    """Return the languages that texts can be analysed in, sorted."""
    known = {*Stemmer.algorithms(), *stop_words.AVAILABLE_LANGUAGES, "none"}
    return tuple(sorted(known - _NOT_LANGUAGES))


# ---------------------------------------------------------------- one text


def _tokenize(text: str, analyser: "_Analyser") -> str:
    words = (_ASCII_WORD if text.isascii() else _WORD).findall(text)
    tokens = " ".join(filter(None, map(analyser.__getitem__, words)))
    return tokens or " ".join(filter(None, map(analyser.unstopped.__getitem__, words)))


def _find_spans(text: str, analyser: "_Analyser") -> Iterator[tuple[str, int, int]]:
    for word in _WORD.finditer(text):
        for piece, start, end in _split_word(word.group()):
            for token in analyser.find_tokens(piece):
                yield token, word.start() + start, word.start() + end


def _split_word(word: str) -> Iterator[tuple[str, int, int]]:
    """Yield the word and its range, or, for scripts without spaces, pairs of characters, and single Chinese ones.

    A character that stands by itself is yielded alone in every script.
    """
    if _HAS_UNSPACED.search(word) is None:
        yield word, 0, len(word)
        return
    for run in _RUN.finditer(word):
        if _HAS_UNSPACED.match(run.group()) is None:
            yield run.group(), run.start(), run.end()
            continue
        starts = [run.start() + cluster.start() for cluster in _CLUSTER.finditer(run.group())]
        ends = [*starts[1:], run.end()]
        for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if len(starts) == 1 or _HAN.match(word, start):
                yield word[start:end], start, end
            if end != ends[-1]:
                yield word[start : ends[number + 1]], start, ends[number + 1]


# ---------------------------------------------------------------- one word


class _Analyser(dict[str, str]):
    """A bounded, thread-safe cache that maps a word to its tokens joined by spaces; "" if the word is dropped."""

    def __init__(self, language: str, stops: frozenset[str], stems: bool) -> None:
        super().__init__()
        self.language, self.stops = language, stops
        self.unstopped = _Analyser(language, frozenset(), stems) if stops else self
        self._lock = Lock()  # a Stemmer object is not thread-safe
        self._stemmer = Stemmer.Stemmer(language, 0) if stems else None

    def __missing__(self, word: str) -> str:
        if _HAS_UNSPACED.search(word) is None:
            tokens = " ".join(self._tokens(word))
        else:
            tokens = " ".join(token for piece, _, _ in _split_word(word) for token in self._tokens(piece))
        if len(word) <= MAX_TOKEN_LENGTH:
            with self._lock:
                if len(self) >= _CACHED_WORDS:
                    self.clear()
                self[word] = tokens
        return tokens

    def find_tokens(self, piece: str) -> Sequence[str]:
        """Return the tokens of a piece of a word, as `_split_word` yields it: pairs of characters stay whole."""
        return self[piece].split() if _HAS_UNSPACED.search(piece) is None else list(self._tokens(piece))

    def _tokens(self, piece: str) -> Iterator[str]:
        """Yield the tokens of a word: several if its compatibility form has several words (½ becomes 1⁄2)."""
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
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold())
    if folded.isascii():
        return folded
    letters = _LEFT_OUT.sub("", folded)
    # a digit that is newer than Python's Unicode stays as it is
    digits = _FOREIGN_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit.group(), digit.group())), letters)
    return digits.translate(_LETTERS_OF_LANGUAGES.get(language, {}))


def _fold_marks(word: str) -> str:
    if word.isascii():
        return word
    bare = _MARKS.sub("", unicodedata.normalize("NFD", word))
    return unicodedata.normalize("NFC", bare).translate(_STROKES)


@cache
def _analyser(language: str) -> _Analyser:
    if language not in languages():
        raise UsageError(f"Unknown text analysis {language!r}. {suggest_names(language, languages())}")
    if language == "english":
        return _Analyser(language, frozenset(_LUCENE_ENGLISH.split()), stems=True)
    return _Analyser(language, listed_stop_words(language), stems=language in Stemmer.algorithms())


def listed_stop_words(language: str) -> frozenset[str]:
    """Return the stop words of the package stop-words for a language, in the form of the language `none`."""
    return frozenset(_fold_marks(word) for word in _load_stop_words(language))


@cache
def _load_stop_words(language: str) -> frozenset[str]:
    """Return the package's stop words that are single words, with case folded."""
    if language not in stop_words.AVAILABLE_LANGUAGES:
        return frozenset()
    entries = stop_words.get_stop_words(language)
    if language == "turkish":  # the package decodes its ISO 8859-9 file as ISO 8859-1
        entries = [entry.encode("latin-1").decode("iso8859-9") for entry in entries]
    word_lists = (_WORD.findall(_fold_case(entry, language)) for entry in entries)
    return frozenset(words[0] for words in word_lists if len(words) == 1)


# ---------------------------------------------------------------- language detection

_SAMPLED_TEXTS, _SAMPLED_CHARACTERS = 200, 1_000
_MIN_LETTERS, _MIN_LETTER_SHARE = 60, 0.6
_MIN_WORD_SHARE, _MIN_DISTINCT_WORDS, _MIN_RATIO = 0.15, 6, 3
"""Thresholds for stop words that the detected language has and the configured one lacks: their share of all words, the
number of distinct ones (names repeat "de" and "la"), and their ratio to the stop words of only the configured one."""

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
    "Thai": ("thai",),
    "Lao": ("lao",),
    "Khmer": ("khmer",),
    "Myanmar": ("burmese",),
    "Bengali": ("bengali",),
    "Telugu": ("telugu",),
}
"""The languages of each script. Those that texts cannot be analysed in are analysed as `none`."""
_LETTERS = {script: regex.compile(rf"\p{{{script}}}") for script in ("Latin", *_SCRIPTS)}


def language_warning(texts: Sequence[str], language: str) -> str | None:
    """Return a warning if the texts seem to be in another language than the configured one; None if unsure.

    The detection compares the script of the letters, then the share of each language's stop words, in a bounded sample.
    """
    step = max(1, len(texts) // _SAMPLED_TEXTS)
    sample = "\n".join(text[:_SAMPLED_CHARACTERS] for text in texts[::step])
    candidates = _find_candidates(sample)
    if language == "none" or not candidates:
        return None
    words = [_fold_case(word, language) for word in _WORD.findall(sample)]
    best = max(candidates, key=lambda name: sum(word in _load_stop_words(name) for word in words))
    if language in candidates and not _is_clearly_better(best, language, words):
        return None
    known = best in languages()
    warning = f"The corpus looks like {best}"
    return (
        f"{warning}; pass --language {best}"
        if known
        else f"{warning}, which has no stop words here; pass --language none"
    )


def _find_candidates(sample: str) -> tuple[str, ...]:
    """Return the languages of the sample's dominant script; empty if no known script dominates."""
    counts = {script: len(letters.findall(sample)) for script, letters in _LETTERS.items()}
    if counts["Hiragana"] * 5 > counts["Han"]:  # Chinese has no kana, Japanese has many
        counts["Hiragana"] += counts.pop("Han")
    script = max(counts, key=lambda name: counts[name])
    if counts[script] < max(_MIN_LETTERS, _MIN_LETTER_SHARE * sum(counts.values())):
        return ()
    elsewhere = {name for names in _SCRIPTS.values() for name in names}
    return _SCRIPTS.get(script) or tuple(name for name in languages() if name not in elsewhere and name != "none")


def _is_clearly_better(best: str, configured: str, words: Sequence[str]) -> bool:
    ours, theirs = _load_stop_words(configured), _load_stop_words(best)
    if not ours:
        return False
    more = [word for word in words if word in theirs and word not in ours]
    fewer = sum(word in ours and word not in theirs for word in words)
    return len(more) >= max(_MIN_WORD_SHARE * len(words), _MIN_RATIO * fewer) and len(set(more)) >= _MIN_DISTINCT_WORDS
