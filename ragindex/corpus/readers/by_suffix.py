"""The reader of each suffix, and the library that it uses."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from ragindex.corpus.readers.books import read_epub, read_fb2
from ragindex.corpus.readers.content import FileContent
from ragindex.corpus.readers.html_file import read_html
from ragindex.corpus.readers.mail import read_mail, read_mailbox, read_outlook, read_saved_page
from ragindex.corpus.readers.markdown import read_markdown, read_notebook
from ragindex.corpus.readers.office import read_slides, read_word
from ragindex.corpus.readers.opendocument import read_opendocument
from ragindex.corpus.readers.pdf import read_pdf
from ragindex.corpus.readers.plain_text import (
    read_headed_text,
    read_json_lines_text,
    read_json_text,
    read_source_code,
    read_table,
    read_text,
)
from ragindex.corpus.readers.restructured_text import read_restructured_text
from ragindex.corpus.readers.spreadsheets import read_spreadsheet

_CODE = (
    *("bash", "c", "cc", "cfg", "conf", "cpp", "cs", "cxx", "dart", "ex", "exs", "go", "h", "hpp", "hs", "ini", "java"),
    *("jl", "js", "jsx", "kt", "kts", "lua", "m", "mjs", "ml", "php", "pl", "pm", "proto", "ps1", "py", "pyi", "r"),
    *("rb", "rs", "scala", "sh", "sql", "swift", "tf", "toml", "ts", "tsx", "vue", "yaml", "yml", "zig"),
)


def _read_attachment(raw: bytes, path: Path) -> FileContent | None:
    reader = READERS.get(path.suffix.lower())
    return None if reader is None else reader(raw, path, None)


READERS: Mapping[str, Callable[[bytes, Path, str | None], FileContent]] = {
    ".txt": read_text,
    ".text": read_text,
    ".log": read_text,
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".mdx": read_markdown,
    ".qmd": read_markdown,
    ".rmd": read_markdown,
    ".rst": read_restructured_text,
    ".adoc": read_headed_text,
    ".asciidoc": read_headed_text,
    ".org": read_headed_text,
    ".tex": read_headed_text,
    ".html": read_html,
    ".htm": read_html,
    ".xhtml": read_html,
    ".mht": read_saved_page,
    ".mhtml": read_saved_page,
    ".epub": read_epub,
    ".fb2": read_fb2,
    ".ipynb": read_notebook,
    ".csv": read_table,
    ".tsv": read_table,
    ".json": read_json_text,
    ".jsonl": read_json_lines_text,
    ".eml": partial(read_mail, read_attachment=_read_attachment),
    ".msg": partial(read_outlook, read_attachment=_read_attachment),
    ".mbox": partial(read_mailbox, read_attachment=_read_attachment),
    ".pdf": read_pdf,
    **dict.fromkeys((".docx", ".docm", ".doc"), read_word),
    **dict.fromkeys((".pptx", ".pptm", ".ppsx", ".ppt"), read_slides),
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), read_spreadsheet),
    **dict.fromkeys((".odt", ".odp"), read_opendocument),
    **{f".{suffix}": read_source_code for suffix in _CODE},
}
"""The reader of each suffix, called with content, path and the encoding of texts (None: detected)."""
OCR_READERS: Mapping[str, Callable[[bytes, Path, str | None], FileContent]] = {
    **READERS,
    ".pdf": partial(read_pdf, ocr=True),
}
"""The readers that recognise the text of scanned pages too."""
_LIBRARIES: Mapping[object, str] = {
    read_markdown: "markdown-it",
    read_notebook: "markdown-it",
    read_html: "html-to-markdown",
    read_saved_page: "html-to-markdown",
    read_epub: "html-to-markdown",
    read_pdf: "PDFium",
    read_word: "office-oxide",
    read_slides: "office-oxide",
    read_spreadsheet: "calamine",
    read_outlook: "oxmsg",
}


def name_reader(suffix: str) -> str:
    """Return the library that reads files with this suffix; "own" where it is the standard library and our own code."""
    reader = READERS[suffix]
    return _LIBRARIES.get(reader.func if isinstance(reader, partial) else reader, "own")


DOCUMENT_SUFFIXES = tuple(suffix for suffix in READERS if suffix.removeprefix(".") not in _CODE)
"""Suffixes of files other than source code."""
DATA_SUFFIXES = (".json", ".jsonl")
"""Suffixes of files that are documents in a folder and a data set alone."""
