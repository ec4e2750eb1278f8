"""Parts of the archive that a .docx, .pptx or .xlsx file is, which the libraries do not read or misread."""

import zipfile
import zlib
from html import unescape
from io import BytesIO

import regex

from ragindex.corpus.readers.libraries import FAULTS

_TITLE_PROPERTY = regex.compile(rb"<(?:[\w.-]++:)?title(?:\s[^<>]*+)?>([^<]*+)<")
_NO_TITLE = regex.compile(
    r"word document|document ?\d*|(?:slide|folie) ?\d+|powerpoint[ -]pr[äe]sentation|pr[ée]sentation powerpoint"
    r"|presentaci[óo]n de powerpoint|presentazione standard di powerpoint|apresenta[çc][ãa]o do powerpoint"
    r"|(?:microsoft (?:word|powerpoint|excel)|untitled).*|.*\.(?:do[ct]|p[op][pst]|xls|od[pst]|rtf|pdf)[bmx]?",
    regex.IGNORECASE,
)
"""What programs write for the title of a file where nobody gave one."""
_WORD_TEXT = "word/document.xml"
_TITLE_STYLE = regex.compile(rb'w:styleId="([^"]*+)"[^>]*+>\s*+<w:name w:val="title"', regex.IGNORECASE)
_WORDS = regex.compile(rb"<w:t(?:\s[^<>]*+)?>([^<]*+)</w:t>")
_MOST_BYTES = 200_000_000
ARCHIVE_FAULTS = (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, NotImplementedError, *FAULTS)
"""What reading a damaged archive may raise."""


def read_title_property(raw: bytes) -> str:
    """Return the title in a file's properties; empty if it has none that a person wrote."""
    match = _TITLE_PROPERTY.search(_read_part(raw, "docProps/core.xml"))
    return clean_title(_decode(match[1])) if match else ""


def clean_title(title: str) -> str:
    """Return a title in one line; empty if a program wrote it."""
    title = " ".join(title.split())
    return "" if _NO_TITLE.fullmatch(title) else title


def find_title_paragraphs(raw: bytes) -> frozenset[str]:
    """Return the paragraphs of a .docx file in the style "Title", which office-oxide does not tell from others."""
    style = _TITLE_STYLE.search(_read_part(raw, "word/styles.xml"))
    if style is None:
        return frozenset()
    mark = b'<w:pStyle w:val="%s"' % style[1]
    paragraphs = (part.rpartition(mark) for part in _read_part(raw, _WORD_TEXT).split(b"</w:p>"))
    return frozenset(" ".join(_find_words(after).split()) for _, found, after in paragraphs if found)


def write_out_phonetic_guides(raw: bytes) -> bytes:
    """Return a .docx file with phonetic guides in brackets behind their words; office-oxide drops both."""
    before, *pieces = _read_part(raw, _WORD_TEXT).split(b"<w:ruby>")
    if not pieces:
        return raw
    text, written = [before], BytesIO()
    for piece in pieces:
        ruby, _, after = piece.partition(b"</w:ruby>")
        guide, _, base = (b"".join(_WORDS.findall(part)) for part in ruby.partition(b"<w:rubyBase>"))
        text += [b"<w:t>%s(%s)</w:t>" % (base, guide), after]
    with zipfile.ZipFile(BytesIO(raw)) as given, zipfile.ZipFile(written, "w") as archive:
        for part in given.infolist():
            archive.writestr(part.filename, b"".join(text) if part.filename == _WORD_TEXT else given.read(part))
    return written.getvalue()


def _read_part(raw: bytes, name: str) -> bytes:
    """Return a part of a file; empty if it is missing, damaged or too large."""
    try:
        with zipfile.ZipFile(BytesIO(raw)) as archive:
            return archive.read(name) if archive.getinfo(name).file_size <= _MOST_BYTES else b""
    except ARCHIVE_FAULTS:
        return b""


def _find_words(xml: bytes) -> str:
    return _decode(b"".join(_WORDS.findall(xml)))


def _decode(xml: bytes) -> str:
    return unescape(xml.decode(errors="replace"))
