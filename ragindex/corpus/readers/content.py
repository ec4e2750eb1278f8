"""What a reader returns for one file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ragindex.types import NO_METADATA, MetadataValue, Section

SOFT_HYPHEN = "\N{SOFT HYPHEN}"
Blocks: TypeAlias = tuple[tuple[int, int], ...]
"""Start and end of tables and code blocks in a text, as `ragindex.Document` describes them."""


@dataclass(frozen=True, slots=True)
class FileContent:
    r"""The content of a file: title ("": it has none), text, sections in the order of the text, and metadata.

    `blocks` are the start and end of tables and code blocks in the text, as `ragindex.Document` describes them.

    Example:
        assert FileContent("", "See:\n\n```\nls\n```", blocks=((6, 16),)).text[6:16] == "```\nls\n```"
    """

    title: str
    text: str
    sections: tuple[Section, ...] = ()
    metadata: Mapping[str, MetadataValue] = field(default_factory=lambda: NO_METADATA)
    blocks: Blocks = ()


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


def join_pages(
    pages: Sequence[tuple[str, tuple[str, ...], Blocks]],
) -> tuple[str, tuple[Section, ...], Blocks]:
    """Return the text of pages with blank lines between, a section per page, and blocks.

    `pages` are text, headings and blocks of each.
    """
    sections, blocks, pieces, start = list[Section](), list[tuple[int, int]](), list[str](), 0
    for number, (text, headings, inside) in enumerate(pages, start=1):
        sections.append(Section(start, headings, number))
        blocks += [(start + first, start + end) for first, end in inside]
        pieces.append(text)
        start += len(text) + 2
    return "\n\n".join(pieces), tuple(sections), tuple(blocks)
