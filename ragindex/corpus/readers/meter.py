"""Which share of a file's words its reader read: the words are counted by another way than the reader's.

Text, Markdown and tables of text are compared with the decoded file, pages of HTML with their text outside of scripts,
Office files and books with the text in the XML of the archive, and .xls files with what another library reads of them.
A PDF file can only be compared with what PDFium sees of some of its pages. Other formats are not measured.
"""

import json
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from math import floor
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError
from xml.parsers.expat import ExpatError

import office_oxide
import regex

from ragindex._util.text import many
from ragindex.corpus.readers.archives import ARCHIVE_FAULTS
from ragindex.corpus.readers.content import FileContent, ReadWords, clean_text
from ragindex.corpus.readers.meter_markup import ON_PURPOSE, Piece, list_archive_pieces, list_html_pieces
from ragindex.corpus.readers.pdf import is_picture, name_pages
from ragindex.corpus.readers.text_encodings import decode_text
from ragindex.errors import RagindexError

LEAST_SHARE = 0.97
"""Below this share of its words, what was read of a file has a note."""
_MOST_SECONDS = 10.0
_NAMED_WORDS = 10
_GONE = 0.8  # of the words of a place: it is lost if so many are
_SHORTEST_PIECE = 6  # characters
_SEARCHED = 200_000_000  # characters that are searched at most for words that a reader breaks or joins
_LEADERS = regex.compile(r"(?:[.…·_] ?){4,}+\s*(?:\d{1,4}|[ivxlc]{1,7})?\s*\Z")
_CHECKED_PAGES = 4
_FEWEST_WORDS = 3  # of a page that is no picture
_SEPARATOR = regex.compile(r"\Asep=[^\n]*+")  # for Excel
_PLURALS = {
    "text box": "text boxes",
    "cell of code": "cells of code",
    "cell of text": "cells of text",
    "page of speaker notes": "pages of speaker notes",
}
_JOINED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"  # scripts that are counted by characters
_WORD = regex.compile(rf"[{_JOINED}]|[^\W_{_JOINED}]++")
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))
_MARKDOWN = (  # what is markup or metadata, and no text
    regex.compile(r"\A(?:---|\+\+\+)[ \t]*+\n.*?\n(?:---|\+\+\+|\.\.\.)[ \t]*+(?:\n|\Z)", regex.DOTALL),
    regex.compile(r"<!--.*?(?:-->|\Z)", regex.DOTALL),
    regex.compile(
        r"^ {0,3}<(?<unseen>script|style)\b[^<>]*+>.*?(?:</(?P=unseen)\s*+>|\Z)",
        regex.DOTALL | regex.MULTILINE | regex.IGNORECASE,
    ),
    regex.compile(r"data:[\w/+.;-]{1,100}?base64,[A-Za-z0-9+/=]*+"),
    regex.compile(r"(?<=\])\[[^\[\]\n]{0,999}+\]"),
    regex.compile(r"(?<=\])\([^()\n]{0,4000}+(?:\([^()\n]{0,4000}+\)[^()\n]{0,4000}+)?\)?"),
    regex.compile(r"^ {0,3}\[[^\[\]\n]{1,999}+\]:[^\n]*+", regex.MULTILINE),
    regex.compile(r"</?[A-Za-z][^<>]*+>"),
    regex.compile(r"\{#[^{}\n]{1,999}+\}"),
)
_RST = (
    regex.compile(r"^[ \t]*\.\.(?:[ \t]+\S*+|$)", regex.MULTILINE),  # a comment, a directive or its name
    regex.compile(r"^[ \t]+:[\w-]+:.*$", regex.MULTILINE),  # an option of one
    regex.compile(r":[\w:+.-]{1,99}+:(?=`)"),
    regex.compile(r"<[^<>`]{1,4000}+>(?=`)"),
)


def measure(raw: bytes, suffix: str, content: FileContent, seconds: float = _MOST_SECONDS) -> ReadWords | None:
    """Return how much of a file stands in what was read of it; None if it cannot be counted in so many seconds."""
    if suffix not in _LISTERS:
        return None
    pieces, deadline = list[Piece](), time.monotonic() + seconds
    try:
        for piece in _LISTERS[suffix](raw, content):
            if time.monotonic() > deadline:
                return None
            pieces.append(piece)
        return _compare(pieces, "\n".join(_list_texts(content)))
    except (*ARCHIVE_FAULTS, ExpatError, office_oxide.OfficeOxideError, ParseError, RagindexError, MemoryError):
        return None  # what was read stays, whatever is wrong with the file or with this count


def find_words(text: str) -> list[str]:
    """Return the words of a text in lower case, whatever a reader does to marks; of Chinese and Japanese, characters.

    >>> find_words("Tide_7: 潮汐")
    ['tide', '7', '潮', '汐']
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text.translate(_INVISIBLE))
    return _WORD.findall(text.lower())


def describe_reading(reading: ReadWords) -> str:
    """Return a sentence on the words that are lost.

    Example:
        described = describe_reading(ReadWords(100, 61, ("tide", "ebb"), ("2 text boxes",)))
        assert described == "61 % of its words were read; lost: tide, ebb (2 text boxes)"
    """
    places = f" ({', '.join(reading.places)})" if reading.places else ""
    words = f"; lost: {', '.join(reading.lost)}" if reading.lost else "; not read"
    return f"{floor(100 * reading.share)} % of its words were read{words}{places}"


def _compare(pieces: Sequence[Piece], read: str) -> ReadWords | None:
    """Return how much of the pieces of a file is in the text that was read."""
    unread = [piece for piece in pieces if piece.words]  # words that no program can see, by their estimated number
    there = [(piece, find_words(piece.text)) for piece in pieces if piece.text and piece.kind not in ON_PURPOSE]
    in_file, in_text = Counter[str](), Counter(find_words(read))
    for _, words in there:
        in_file.update(words)
    lost = in_file - in_text
    estimated = sum(piece.words for piece in unread)
    total = in_file.total() + estimated
    if total == 0:
        return None
    if lost.total() > (1 - LEAST_SHARE) * total:
        lost &= _count_missing(there, lost, read)
    others = Counter(word for piece in pieces if piece.kind in ON_PURPOSE for word in find_words(piece.text))
    left_out = (others - (in_text - in_file)).total()
    share_is_low = lost.total() + estimated > (1 - LEAST_SHARE) * total
    places = _describe_places(there, lost, unread) if share_is_low else ()
    lost_words = tuple(word[:40] for word, _ in lost.most_common(_NAMED_WORDS))
    return ReadWords(total, total - estimated - lost.total(), lost_words, places, left_out)


def _count_missing(there: Sequence[tuple[Piece, list[str]]], lost: Counter[str], read: str) -> Counter[str]:
    """Return the words of those pieces with lost words that do not stand in the text even with words broken or joined.

    A reader may break or join words where a line, a cell or a font ends. Short pieces are not looked for: they would be
    found in other words.
    """
    squeezed, missing = "".join(find_words(read)), Counter[str]()
    pieces = Counter(tuple(words) for _, words in there if not lost.keys().isdisjoint(words))
    searches = _SEARCHED // max(1, len(squeezed))
    for words, count in pieces.items():
        joined = "".join(words)
        if len(joined) >= _SHORTEST_PIECE and searches > 0:
            searches -= 1
            count -= min(count, squeezed.count(joined))
        for word in words if count else ():
            missing[word] += count
    return missing


def _describe_places(
    there: Sequence[tuple[Piece, list[str]]], lost: Counter[str], unread: Sequence[Piece]
) -> tuple[str, ...]:
    """Return where the lost words stood, as "3 text boxes"; where nothing else is lost, in how many paragraphs."""
    counts: dict[tuple[str, int], list[int]] = {}
    for number, (piece, words) in enumerate(there):
        count = counts.setdefault((piece.kind, piece.group if piece.kind else -number), [0, 0])
        count[0] += len(words)
        count[1] += sum(word in lost for word in words)
    kinds = Counter(kind for (kind, _), (total, missed) in counts.items() if total and missed >= _GONE * total)
    plain = kinds.pop("", 0)
    places = [
        *dict.fromkeys(piece.place for piece in unread),
        *(many(count, kind, _PLURALS.get(kind, "")) for kind, count in kinds.items()),
    ]
    return tuple(places or ([many(plain, "paragraph")] if plain else []))


def _list_texts(content: FileContent) -> Iterator[str]:
    """Yield all texts that were read, also those in metadata."""
    yield content.title
    yield content.text
    yield from _list_strings(content.metadata)
    for name, inner in content.inner:
        yield name
        yield from _list_texts(inner)


def _list_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _list_strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _list_strings(inner)
    elif value is not None:
        yield str(value)


# ---------------------------------------------------------------- what stands in files


def _list_lines(text: str, markup: Sequence["regex.Pattern[str]"] = (), kind: str = "") -> Iterator[Piece]:
    """Yield the lines of a text without its markup."""
    for pattern in markup:
        text = pattern.sub(" ", text)
    yield from (Piece(kind, number, line) for number, line in enumerate(text.split("\n")) if line)


def _list_cells(raw: bytes) -> Iterator[Piece]:
    """Yield what stands in the cells of a notebook, without their outputs."""
    for number, cell in enumerate(json.loads(raw.decode("utf-8-sig"))["cells"]):
        kind, markup = ("cell of code", ()) if cell.get("cell_type") == "code" else ("cell of text", _MARKDOWN)
        text = "".join(cell.get("source", ""))
        yield from (Piece(kind, number, piece.text) for piece in _list_lines(text, markup))


def _list_old_cells(raw: bytes) -> Iterator[Piece]:
    """Yield the texts of an .xls file by office-oxide, which is not its reader, without names of sheets and numbers."""
    document = office_oxide.Document.from_bytes(raw, "xls")
    names = {section.get("title") for section in document.to_ir()["sections"]}
    for number, text in enumerate(regex.split(r"[\t\n]", document.plain_text())):
        if text not in names and not any(map(str.isdigit, text)):  # which have other formats
            yield Piece("text", number, text)


def _decode(raw: bytes, content: FileContent) -> str:
    encoding = content.metadata.get("text_encoding")
    return clean_text(decode_text(raw, Path(), encoding if isinstance(encoding, str) else None)[0])


def _list_pdf(raw: bytes, content: FileContent) -> Iterator[Piece]:
    """Yield the lines of some pages, and which pages are pictures: these count like the mean of the others."""
    import pypdfium2 as pdfium

    words, sections = Counter[int](), content.sections
    for section, end in zip(sections, [*(section.start for section in sections[1:]), len(content.text)], strict=True):
        if section.page is not None:
            words[section.page] += len(find_words(content.text[section.start : end]))
    with closing(pdfium.PdfDocument(raw)) as document:
        pictures, others = list[int](), list[int]()
        for number in range(1, len(document) + 1):
            with closing(document[number - 1]) as page:
                is_scan = words and words[number] < _FEWEST_WORDS and is_picture(page, "")
                (pictures if is_scan else others).append(number)
        checked = others[:: max(1, -(-len(others) // _CHECKED_PAGES))]
        if pictures:
            estimated = sum(words[number] for number in checked) * len(pictures) // max(1, len(checked))
            what = "is a picture" if len(pictures) == 1 else "are pictures"
            yield Piece("picture", 0, "", max(1, estimated), f"{name_pages(pictures)} {what}")
        for number in checked:
            with closing(document[number - 1]) as page, closing(page.get_textpage()) as text:
                for line in text.get_text_bounded().replace("\ufffe", "").replace("\r", "\n").split("\n"):
                    yield Piece("contents" if _LEADERS.search(line) else "", number, line)


_LISTERS: Mapping[str, Callable[[bytes, FileContent], Iterator[Piece]]] = {
    **dict.fromkeys(
        (".md", ".markdown", ".mdx", ".qmd"), lambda raw, content: _list_lines(_decode(raw, content), _MARKDOWN)
    ),
    ".rst": lambda raw, content: _list_lines(_decode(raw, content), _RST),
    **dict.fromkeys((".html", ".htm", ".xhtml"), lambda raw, content: list_html_pieces(_decode(raw, content))),
    ".ipynb": lambda raw, content: _list_cells(raw),
    **dict.fromkeys((".csv", ".tsv"), lambda raw, content: _list_lines(_decode(raw, content), (_SEPARATOR,), "row")),
    ".jsonl": lambda raw, content: (
        Piece("row", number, "\n".join(_list_strings(json.loads(line))))
        for number, line in enumerate(raw.decode("utf-8-sig").splitlines())
        if line.strip()
    ),
    ".pdf": _list_pdf,
    ".xls": lambda raw, content: _list_old_cells(raw),
    **dict.fromkeys(
        (".docx", ".docm", ".pptx", ".pptm", ".xlsx", ".xlsm", ".odt", ".odp", ".ods", ".epub"),
        lambda raw, content: list_archive_pieces(raw),
    ),
}
