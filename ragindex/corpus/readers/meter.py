"""Which share of a file's words its reader read: the words are counted by another way than the reader's.

Text, Markdown and tables of text are compared with the decoded file, pages of HTML with their text outside of scripts,
Office files and books with the text in the XML of the archive. A PDF file can only be compared with what PDFium sees of
some of its pages. Other formats are not measured.
"""

import json
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import floor
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError

import regex

from ragindex.corpus.readers.content import FileContent, ReadWords
from ragindex.corpus.readers.libraries import FAULTS
from ragindex.corpus.readers.meter_html import list_html_pieces
from ragindex.corpus.readers.meter_pieces import ON_PURPOSE, MeterStoppedError, Piece, TimedPieces, pluralise
from ragindex.corpus.readers.meter_words import find_words, squeeze_words
from ragindex.corpus.readers.meter_xml import list_office_pieces
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
_MARKDOWN = (  # what is markup or metadata, and no text
    regex.compile(r"\A(?:---|\+\+\+)[ \t]*+\n.*?\n(?:---|\+\+\+|\.\.\.)[ \t]*+(?:\n|\Z)", regex.DOTALL),
    regex.compile(r"<!--.*?(?:-->|\Z)", regex.DOTALL),
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
_FAILURES = (
    *FAULTS,
    RagindexError,
    MeterStoppedError,
    ExpatError,
    zipfile.BadZipFile,
    zlib.error,
    RuntimeError,
    EOFError,
    MemoryError,
)


def measure(raw: bytes, suffix: str, content: FileContent, seconds: float = _MOST_SECONDS) -> ReadWords | None:
    """Return how much of a file stands in what was read of it; None if it cannot be counted in so many seconds."""
    lister = _LISTERS.get(suffix)
    if lister is None:
        return None
    try:
        pieces = list(TimedPieces(lister(raw, content), time.monotonic() + seconds))
        return _compare(pieces, "\n".join(_list_texts(content)))
    except _FAILURES:
        return None  # what was read stays, whatever is wrong with the file or with this count


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
    named = tuple(word[:40] for word, _ in lost.most_common(_NAMED_WORDS))
    return ReadWords(total, total - estimated - lost.total(), named, places, left_out)


def _count_missing(there: Sequence[tuple[Piece, list[str]]], lost: Counter[str], read: str) -> Counter[str]:
    """Return the words of those pieces with lost words that do not stand in the text even with words broken or joined.

    A reader may break or join words where a line, a cell or a font ends. Short pieces are not looked for: they would be
    found in other words.
    """
    squeezed, missing = squeeze_words(read), Counter[str]()
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
        *(pluralise(count, kind) for kind, count in kinds.items()),
    ]
    return tuple(places or ([pluralise(plain, "paragraph")] if plain else []))


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


# ---------------------------------------------------------------- what stands in texts


def _list_lines(raw: bytes, content: FileContent) -> Iterator[Piece]:
    text = _decode(raw, content)
    yield from (Piece("", number, line) for number, line in enumerate(text.split("\n")) if line)


def _list_rows(raw: bytes, content: FileContent) -> Iterator[Piece]:
    """Yield the lines of a table, whose cells no markup is in."""
    lines = _list_lines(raw, content)
    for line in lines:
        if line.group or not line.text.startswith("sep="):
            yield Piece("row", line.group, line.text)


def _list_markdown(raw: bytes, content: FileContent) -> Iterator[Piece]:
    return _list_without(_decode(raw, content), _MARKDOWN)


def _list_rst(raw: bytes, content: FileContent) -> Iterator[Piece]:
    return _list_without(_decode(raw, content), _RST)


def _list_without(text: str, markup: Iterable["regex.Pattern[str]"]) -> Iterator[Piece]:
    for pattern in markup:
        text = pattern.sub(" ", text)
    yield from (Piece("", number, line) for number, line in enumerate(text.split("\n")) if line)


def _list_html(raw: bytes, content: FileContent) -> Iterator[Piece]:
    return list_html_pieces(_decode(raw, content))


def _list_cells(raw: bytes, content: FileContent) -> Iterator[Piece]:
    """Yield what stands in the cells of a notebook, without their outputs."""
    cells = json.loads(raw.decode("utf-8-sig"))["cells"]
    for number, cell in enumerate(cells):
        source = cell.get("source", "")
        text = source if isinstance(source, str) else "".join(source)
        kind = "cell of code" if cell.get("cell_type") == "code" else "cell of text"
        yield from (
            Piece(kind, number, piece.text)
            for piece in _list_without(text, _MARKDOWN if kind == "cell of text" else ())
        )


def _list_json_lines(raw: bytes, content: FileContent) -> Iterator[Piece]:
    for number, line in enumerate(raw.decode("utf-8-sig").splitlines()):
        if line.strip():
            yield Piece("row", number, "\n".join(_list_strings(json.loads(line))))


def _decode(raw: bytes, content: FileContent) -> str:
    encoding = content.metadata.get("text_encoding")
    text, _ = decode_text(raw, Path(), encoding if isinstance(encoding, str) else None)
    return text.replace("\r\n", "\n").replace("\r", "\n")


# ---------------------------------------------------------------- what stands in PDF files


def _list_pdf(raw: bytes, content: FileContent) -> Iterator[Piece]:
    """Yield the lines of some pages, and which pages are pictures: these count like the mean of the others."""
    import pypdfium2 as pdfium

    words = Counter[int]()
    sections = content.sections
    for section, end in zip(sections, [*(one.start for one in sections[1:]), len(content.text)], strict=True):
        if section.page is not None:
            words[section.page] += len(find_words(content.text[section.start : end]))
    document = pdfium.PdfDocument(raw)
    try:
        count = len(document)
        pictures = [
            number
            for number in range(1, count + 1)
            if words and words[number] < _FEWEST_WORDS and _is_picture(pdfium, document, number)
        ]
        others = sorted(set(range(1, count + 1)).difference(pictures))
        checked = others[:: max(1, -(-len(others) // _CHECKED_PAGES))]
        if pictures:
            estimated = sum(words[number] for number in checked) * len(pictures) // max(1, len(checked))
            yield Piece("picture", 0, "", max(1, estimated), describe_pages(pictures))
        for number in checked:
            for line in _read_page_lines(document, number):
                yield Piece("contents" if _LEADERS.search(line) else "", number, line)
    finally:
        document.close()


def _is_picture(pdfium: Any, document: Any, number: int) -> bool:
    """Return whether a page shows pictures and no text."""
    page = document[number - 1]
    try:
        kinds = {item.type for item in page.get_objects(max_depth=3)}
    finally:
        page.close()
    return pdfium.raw.FPDF_PAGEOBJ_IMAGE in kinds and pdfium.raw.FPDF_PAGEOBJ_TEXT not in kinds


def _read_page_lines(document: Any, number: int) -> list[str]:
    page = document[number - 1]
    try:
        text = page.get_textpage()
        try:
            found: str = text.get_text_bounded()
        finally:
            text.close()
    finally:
        page.close()
    return found.replace("\ufffe", "").replace("\r", "\n").split("\n")


def describe_pages(numbers: Sequence[int]) -> str:
    """Return that pages are pictures, neighbours together.

    >>> describe_pages([7]), describe_pages([2, 3, 4, 9])
    ('page 7 is a picture', 'pages 2 to 4, 9 are pictures')
    """
    runs = list[list[int]]()
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    named = ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in runs)
    return f"page {named} is a picture" if len(numbers) == 1 else f"pages {named} are pictures"


_Lister = Callable[[bytes, FileContent], Iterator[Piece]]
_LISTERS: Mapping[str, _Lister] = {
    **dict.fromkeys((".md", ".markdown", ".mdx", ".qmd"), _list_markdown),
    ".rst": _list_rst,
    **dict.fromkeys((".html", ".htm", ".xhtml"), _list_html),
    ".ipynb": _list_cells,
    **dict.fromkeys((".csv", ".tsv"), _list_rows),
    ".jsonl": _list_json_lines,
    ".pdf": _list_pdf,
    **dict.fromkeys((".docx", ".docm", ".pptx", ".pptm", ".xlsx", ".xlsm"), list_office_pieces),
    **dict.fromkeys((".odt", ".odp", ".ods", ".epub"), list_office_pieces),
}
