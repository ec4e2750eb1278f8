"""What a reader returns for one file, and how it is put together block by block."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias
from urllib.parse import urlsplit

import regex

from ragindex.types import HYPERLINKS, NO_METADATA, MetadataValue, Section, Span

SOFT_HYPHEN = "\N{SOFT HYPHEN}"
Blocks: TypeAlias = tuple[Span, ...]
"""Start and end of tables and code blocks in a text, as `ragindex.Document` describes them."""
_MOST_LINKS = 200
_MOST_PADDED = 1_000_000  # cells of a table whose rows are all filled up to the width of the longest
_NO_TITLE = regex.compile(
    r"word document|document ?\d*|(?:slide|folie) ?\d+|powerpoint[ -]pr[äe]sentation(?: - .*)?"
    r"|pr[ée]sentation powerpoint|presentaci[óo]n de powerpoint|presentazione standard di powerpoint"
    r"|apresenta[çc][ãa]o do powerpoint|microsoft (?:word|powerpoint|excel)(?: - .*)?|untitled.*|slide 1 - .*"
    r"|.*\.(?:do[ct]|p[op][pst]|xls|od[pst]|rtf|pdf|dvi|tex|e?ps|indd|qxd)[bmx]?|\S+\.(?:fm|md|html?|txt)",
    regex.IGNORECASE,
)
"""What programs write for the title of a file where nobody gave one, such as the name of another file."""


@dataclass(frozen=True, slots=True)
class ReadWords:
    """How many words a file has and how many of them were read, without those that are left out on purpose.

    `lost` are some of the words that were not read, and `places` say where they stood.
    """

    words: int
    read: int
    lost: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    left_out: int = 0

    @property
    def share(self) -> float:
        """The share of the words that was read."""
        return self.read / self.words


@dataclass(frozen=True, slots=True)
class FileContent:
    r"""The content of a file: title ("": it has none), text, sections in the order of the text, and metadata.

    `blocks` are the start and end of tables and code blocks in the text, as `ragindex.Document` describes them. `notes`
    say what of the file is not in the text, a sentence each, without the file's name. `inner` are the documents inside
    of the file by name, such as the attachments of a mail; a file whose own text is blank may consist of them.
    `reading` says which share of the file's words was read (None: not measured), and `digest` is a hash of the file.

    Example:
        assert FileContent("", "See:\n\n```\nls\n```", blocks=((6, 16),)).text[6:16] == "```\nls\n```"
    """

    title: str
    text: str
    sections: tuple[Section, ...] = ()
    metadata: Mapping[str, MetadataValue] = field(default_factory=lambda: NO_METADATA)
    blocks: Blocks = ()
    notes: tuple[str, ...] = ()
    inner: tuple[tuple[str, "FileContent"], ...] = ()
    reading: ReadWords | None = None
    digest: str = ""


class ContentBuilder:
    """Puts the content of a file together from its blocks, which blank lines separate.

    Example:
        builder = ContentBuilder()
        builder.add_heading("Tides", 1)
        builder.add_table([["port", "hour"], ["Ely", "7"]])
        content = builder.build()
        assert content.title == "Tides" and content.blocks == ((9, len(content.text)),)
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._sections: list[Section] = []
        self._path: list[tuple[int, str]] = []
        self._page: int | None = None
        self._blocks: list[Span] = []
        self._links: dict[tuple[str, str], None] = {}
        self._top_heading = ""

    def start_page(self, number: int, heading: str | None = None) -> None:
        """Start a page, slide or sheet. A `heading` ("": none), which is not written, replaces all before it."""
        self._page = number
        if heading is not None:
            self._path = [(0, heading)] if heading else []
        self._sections.append(Section(self._next_start(), self._headings(), number))

    def add_paragraph(self, text: str) -> int:
        """Add a text without the white space around it, and return its start; a blank one is left out."""
        return self._add(clean_text(text).strip())

    def add_heading(self, text: str, level: int) -> None:
        """Add a heading, in one line; level 1 is the highest, and 0 is that of a title above all headings."""
        heading = " ".join(clean_text(text).split())
        if heading:
            start = self._add(heading)
            self.place_heading(start, heading, level)

    def place_heading(self, start: int, heading: str, level: int) -> None:
        """Let a section begin with the heading that was added at `start`. Sections begin in the order of the text."""
        self._top_heading = self._top_heading or ("" if start else heading)
        while self._path and self._path[-1][0] >= level:
            self._path.pop()
        self._path.append((level, heading))
        section = Section(start, self._headings(), self._page)
        if self._sections and self._sections[-1].start == start:
            self._sections[-1] = section  # the page begins with the heading
        else:
            self._sections.append(section)

    def add_table(self, rows: Sequence[Sequence[str]]) -> None:
        """Add a table, of which the first row is the header."""
        self.add_block(format_table(rows))

    def add_block(self, text: str) -> None:
        """Add a table or code, whose lines keep their indentation; a blank one is left out."""
        lines = clean_text(text).split("\n")
        while lines and not lines[0].strip():
            del lines[0]
        text = "\n".join(lines).rstrip()
        if text:
            start = self._add(text)
            self.place_block(start + len(text) - len(text.lstrip()), start + len(text))

    def place_block(self, start: int, end: int) -> None:
        """Mark what was added as a table or code."""
        self._blocks.append((start, end))

    def add_link(self, text: str, address: str) -> None:
        """Add a hyperlink to another file: its visible text and its relative address."""
        self._links[" ".join(text.split()), address] = None

    def build(
        self,
        title: str = "",
        metadata: Mapping[str, MetadataValue] = NO_METADATA,
        notes: Sequence[str] = (),
        inner: Sequence[tuple[str, FileContent]] = (),
    ) -> FileContent:
        """Return the content. Without the file's own `title` it has that of a heading that stands before all text."""
        return FileContent(
            " ".join(clean_text(title).split()) or self._top_heading,
            "\n\n".join(self._pieces),
            tuple(section for section in self._sections if section.start <= self._length),
            {**metadata, **link_metadata(self._links)},
            tuple(self._blocks),
            tuple(notes),
            tuple(inner),
        )

    def _add(self, text: str) -> int:
        start = self._next_start()
        if text:
            self._pieces.append(text)
            self._length = start + len(text)
        return start

    def _next_start(self) -> int:
        return self._length + 2 if self._pieces else 0

    def _headings(self) -> tuple[str, ...]:
        return tuple(heading for _, heading in self._path)


def clean_title(title: str) -> str:
    """Return a title in one line; empty if a program wrote it."""
    title = " ".join(title.split())
    return "" if _NO_TITLE.fullmatch(title) else title


def is_relative(address: str) -> bool:
    """Return whether an address leads to another file of the same corpus, if to any."""
    try:
        parts = urlsplit(address)
    except ValueError:  # a malformed address, such as an open IPv6 bracket
        return False
    return bool(parts.path) and not parts.scheme and not parts.netloc


def link_metadata(links: Iterable[tuple[str, str]]) -> dict[str, MetadataValue]:
    """Return the metadata of hyperlinks to other files: visible text and relative address of each."""
    pairs: list[MetadataValue] = [list(link) for link in islice(links, _MOST_LINKS)]
    return {HYPERLINKS: pairs} if pairs else {}


def format_table(rows: Sequence[Sequence[str]]) -> str:
    r"""Return a table as Markdown: a line a row, its cells between bars, empty ones kept; the first row is the header.

    Example:
        assert format_table([["port", "hour"], ["Ely", ""]]) == "| port | hour |\n| --- | --- |\n| Ely |  |"
    """
    width = max(map(len, rows), default=0)
    is_padded = width * len(rows) <= max(_MOST_PADDED, 10 * sum(map(len, rows)))  # one row may have thousands of cells
    lines = list[str]()
    for row in rows:
        padding = [""] * (width - len(row) if is_padded else 0)
        cells = (" ".join(clean_text(cell).split()).replace("|", r"\|") for cell in (*row, *padding))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines[:1], "|" + " --- |" * width, *lines[1:]]) if width else ""


def clean_text(text: str) -> str:
    r"""Return a text with newlines as \n and without soft hyphens, which only say where a word may be broken."""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace(SOFT_HYPHEN, "")


def find_heading_paths(headings: Sequence[tuple[int, int, str]]) -> tuple[Section, ...]:
    """Return the sections that headings begin, from the start, level (1 is the highest) and text of each in order."""
    sections, path = list[Section](), list[tuple[int, str]]()
    for start, level, text in headings:
        while path and path[-1][0] >= level:
            path.pop()
        path.append((level, text))
        sections.append(Section(start, tuple(text for _, text in path)))
    return tuple(sections)
