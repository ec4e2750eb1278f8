"""Names that passages are known by, and places in texts where such names may stand: pure functions on texts.

A *key* is a name as it is looked up: its words in lower case, joined by spaces. The id of a document is a key too, one
word that begins with a slash, for hyperlinks. A *window* is a run of a text's words, some of which a name may begin
with. The keys of other passages are found in windows later, when a question is asked, so that a passage's record
depends on its own text alone.
"""

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

import regex

from ragindex.english import find_names, strip_brackets
from ragindex.english.words import ENGLISH_FUNCTION_WORDS

MAX_NAME_WORDS = 8
"""The largest number of words of a key."""
PREFIX_WORDS = 3
"""The number of words that mentions are looked up by: longer keys are then compared with the windows."""
_MIN_LETTERS = 4  # of a key of one word
_MAX_STARTS = 2_000
_OPENING_CHARACTERS = 2_000
"""The part of a text without a title that is searched for the name of what it is about, in characters."""

_WORD = regex.compile(r"\w+")
_SECTION_NUMBER = regex.compile(r"^\s*(?:\d+\.)+\d*\s+")  # "2. ", "2.1 " and "2.1. "
_HYPERLINK = regex.compile(r"\]\(\s*<?([^()\s<>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_OPENING_MARKS = frozenset('"“„«`‘[')


class Window(NamedTuple):
    """Words in lower case, and for each of them 1 if a name may begin with it, else 0."""

    words: Sequence[str]
    starts: str


class Occurrence(NamedTuple):
    """A place where a key may stand: the words `start` to `end` of the window number `window`."""

    window: int
    start: int
    end: int

    def contains(self, other: "Occurrence") -> bool:
        """Return whether this is a longer occurrence around `other`."""
        inside = self.window == other.window and self.start <= other.start and other.end <= self.end
        return inside and self != other


# ---------------------------------------------------------------- keys


def find_keys(title: str, text: str, doc_id: str, headings: Iterable[str] = ()) -> list[str]:
    """Return the keys of a passage: its title without a last parenthesis, the headings in it, and its file.

    Headings are taken without a section number. A passage without a title has the first name in it instead, which is
    often what it is about.
    """
    if title.strip():
        names = [strip_brackets(title)]
    else:
        names = [next(find_names(" ".join(text[:_OPENING_CHARACTERS].split())), "")]
    keys = [build_key(name) for name in [*names, *(_SECTION_NUMBER.sub("", heading) for heading in headings)]]
    keys += [build_document_key(doc_id)] if posixpath.splitext(doc_id)[1] else []  # hyperlinks lead to files
    return list(dict.fromkeys(key for key in keys if key))


def build_key(name: str) -> str:
    """Return a name as a key; empty if it has no word, more than MAX_NAME_WORDS, or only one short word."""
    words = [word.casefold() for word in _WORD.findall(name)]
    return " ".join(words) if is_key(words) else ""


def build_document_key(doc_id: str) -> str:
    """Return the id of a document as a key."""
    return "/" + quote(doc_id)


def is_key(words: Sequence[str]) -> bool:
    """Return whether these words can be a key."""
    return 1 < len(words) <= MAX_NAME_WORDS or (
        len(words) == 1 and (len(words[0]) >= _MIN_LETTERS or words[0][0] == "/")
    )


def find_prefix(key: str) -> str:
    """Return the part of a key that mentions are looked up by."""
    return " ".join(key.split(" ", PREFIX_WORDS)[:PREFIX_WORDS])


def list_question_keys(question: str) -> list[str]:
    """Return every key that a question may hold, in any case of letters."""
    words = [word.casefold() for word in _WORD.findall(question)][:_MAX_STARTS]
    runs = (words[start:end] for start, end in _list_runs(len(words)))
    return list(dict.fromkeys(" ".join(run) for run in runs if is_key(run)))


def _list_runs(count: int) -> Iterator[tuple[int, int]]:
    return ((start, end) for start in range(count) for end in range(start + 1, min(start + MAX_NAME_WORDS, count) + 1))


# ---------------------------------------------------------------- mentions


def find_windows(text: str, targets: Iterable[str] = ()) -> list[Window]:
    """Return the runs of words in which a name may stand, and a window for each document in `targets`.

    A name may begin with a capital letter, or right after an opening quotation mark, back-tick or square bracket.
    Texts in scripts without capitals have only the latter.
    """
    words, starts = _split_words(text)
    spans: list[tuple[int, int]] = []
    for start in [place for place, mark in enumerate(starts) if mark == "1"][:_MAX_STARTS]:
        begin = spans.pop()[0] if spans and start <= spans[-1][1] else start
        spans.append((begin, min(start + MAX_NAME_WORDS, len(words))))
    linked = [Window((build_document_key(target),), "1") for target in targets]
    return [*(Window(words[begin:end], starts[begin:end]) for begin, end in spans), *linked]


def _split_words(text: str) -> tuple[list[str], str]:
    """Return the words of a text in lower case, and which of them a name may begin with.

    An English function word begins one only before a capital: sentences begin with them more often than names.
    """
    matches = list(_WORD.finditer(text))
    words = [match.group().casefold() for match in matches]
    capital = [match.group()[0].isupper() for match in matches]
    marked = [text[match.start() - 1 : match.start()] in _OPENING_MARKS for match in matches]
    is_capitalised = [
        upper and (word not in ENGLISH_FUNCTION_WORDS or following)
        for word, upper, following in zip(words, capital, [*capital[1:], False], strict=False)
    ]
    return words, "".join(
        "1" if is_named or other else "0" for is_named, other in zip(is_capitalised, marked, strict=True)
    )


def write_windows(windows: Iterable[Window]) -> str:
    """Return windows as one text: a line each, of the starts and the words."""
    return "\n".join(" ".join((window.starts, *window.words)) for window in windows)


def read_windows(text: str) -> list[Window]:
    """Return the windows that `write_windows` wrote."""
    lines = [line.split(" ") for line in text.split("\n")] if text else []
    return [Window(line[1:], line[0]) for line in lines]


def list_prefixes(windows: Sequence[Window]) -> list[str]:
    """Return the first one, two and three words of each possible name, each once."""
    occurrences = find_occurrences(windows)
    return [run for run, places in occurrences.items() if places[0].end - places[0].start <= PREFIX_WORDS]


def find_occurrences(windows: Sequence[Window]) -> dict[str, list[Occurrence]]:
    """Return each run of words that may be a name, with its places."""
    occurrences: dict[str, list[Occurrence]] = {}
    for number, (words, starts) in enumerate(windows):
        for start in (place for place, mark in enumerate(starts) if mark == "1"):
            run = words[start]
            if is_key((run,)):
                occurrences.setdefault(run, []).append(Occurrence(number, start, start + 1))
            for end in range(start + 1, min(start + MAX_NAME_WORDS, len(words))):
                run = f"{run} {words[end]}"
                occurrences.setdefault(run, []).append(Occurrence(number, start, end + 1))
    return occurrences


def find_longer(key: str, windows: Sequence[Window]) -> list[list[str]]:
    """Return for each place where a key stands the longer runs of words around it that may be names."""
    key_words = key.split(" ")
    return [
        _list_around(window, start, start + len(key_words))
        for window in windows
        for start, mark in enumerate(window.starts)
        if mark == "1" and window.words[start : start + len(key_words)] == key_words
    ]


def _list_around(window: Window, inner_start: int, inner_end: int) -> list[str]:
    words, starts = window
    return [
        " ".join(words[start:end])
        for start in range(max(0, inner_end - MAX_NAME_WORDS), inner_start + 1)
        if starts[start] == "1"
        for end in range(inner_end, min(start + MAX_NAME_WORDS, len(words)) + 1)
        if (start, end) != (inner_start, inner_end)
    ]


# ---------------------------------------------------------------- hyperlinks


def find_targets(text: str, doc_id: str, pairs: Iterable[tuple[str, str]] = ()) -> list[str]:
    """Return the documents that a text links to, without its own and those of other hosts, as ids like `doc_id`.

    Addresses are relative to the document, in Markdown or as `pairs` of visible text and address, as pages of HTML
    have them; a pair belongs to the passages that have its text.
    """
    plain_text = " ".join(text.split())
    addresses = [*_HYPERLINK.findall(text), *(address for visible, address in pairs if visible in plain_text)]
    targets = (_resolve_address(address, posixpath.dirname(doc_id)) for address in addresses[:_MAX_STARTS])
    return list(dict.fromkeys(id for id in targets if id and id != doc_id))


def _resolve_address(address: str, folder: str) -> str:
    try:
        parts = urlsplit(address)
    except ValueError:  # a malformed address, such as an open IPv6 bracket
        return ""
    if parts.scheme or parts.netloc or not parts.path:
        return ""
    return posixpath.normpath(posixpath.join(folder, unquote(parts.path))).lstrip("/")
