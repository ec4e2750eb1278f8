"""Reader of HTML files, by way of html-to-markdown.

Before its conversion the markup is rewritten, so that words stay apart and code stays as it is.
"""

import html
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import regex

from ragindex.corpus.readers.content import ContentBuilder, FileContent, clean_text, is_relative
from ragindex.corpus.readers.text_encodings import decode_page, name_encoding
from ragindex.errors import DataError

_RAW = "script|style|title|iframe|noframes|noembed|textarea|xmp"  # their content is not markup
_SHOWN = ("textarea", "xmp")
_FORMATTING = "abbr|acronym|b|big|bdi|cite|code|del|dfn|em|font|i|ins|kbd|mark|s|samp|small|strike|strong|tt|u|var"
_BLOCKS = "blockquote|dl|hr|ol|pre|ul"
_TABLE_PARTS = "table|caption|thead|tbody|tfoot|tr|td|th"
_MARKUP = regex.compile(
    rf"""<!--(?:-?>|.*?(?:--!?>|(?<unclosed>\Z)))
       | <(?:{_RAW})\b[^>]*+(?<=/)>
       | <(?<raw>{_RAW})\b[^>]*+> .*? (?:(?=</(?P=raw)\b)|(?<unclosed>\Z))
       | (?<wrong></br\s*+>)
       | <(?<end>/?)(?:(?<formatting>{_FORMATTING})|(?<table>{_TABLE_PARTS})|(?<heading>h[1-6])|(?<block>{_BLOCKS}))
         (?=[\s/>]) (?:"[^"]*+"|'[^']*+'|[^'"<>]++)*+>""",
    regex.DOTALL | regex.IGNORECASE | regex.VERBOSE,
)
_EMPTY = regex.compile(  # written so in XML; in HTML they would be open
    r"<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr)\b)([a-z][\w:.-]*+)([^<>]*+)(?<=/)>",
    regex.IGNORECASE,
)
_OVERSIZED = regex.compile(r"&#\w{9,}+;?+")  # names no character, and may be too long for an integer
_CDATA = regex.compile(r"<!\[CDATA\[(.*?)(?:\]\]>|\Z)", regex.DOTALL)
_NAVIGATION_CLASSES = frozenset(  # of common generators of pages
    (
        *("nav", "navbar", "navigation", "navheader", "navfooter", "nav-panel", "nav-path", "navrow", "node-nav"),
        *("breadcrumb", "breadcrumbs", "breadcrumb-section", "pagination", "pagination-nav"),
        *("toc", "table-of-contents", "table_of_contents", "sphinxsidebar", "related", "site-footer", "site-nav"),
        *("skip-link", "skiplink", "mw-jump-link", "md-skip", "a11y-skip", "md-header", "md-sidebar", "md-tabs"),
        *("md-footer", "theme-doc-sidebar-container", "nav-chapters", "menu-bar"),  # MkDocs, Docusaurus, mdBook
        *("mw-editsection", "mw-indicators", "catlinks", "printfooter", "navbox"),  # MediaWiki
        *("linenos", "gutter", "rouge-gutter", "lineno"),  # the numbers of lines of code
    )
)
_CLASSIFIED_ELEMENTS = frozenset(  # which are navigation by their class; the class of a section may be its heading's
    ("a", "article", "aside", "div", "dl", "footer", "form", "header", "ol", "p", "span", "table", "td", "ul")
)
_NAVIGATION_ROLES = frozenset(("navigation", "search", "contentinfo"))
_NAVIGATION_TAG = regex.compile(r"<(/?)nav(?=[\s>])", regex.IGNORECASE)
_NO_WORD = regex.compile(r"<[^<>]*+>|&#?\w++;?")  # tags and character references
_TAG_OF_PLACE = regex.compile(r"</?(?!(?:h[1-6]|pre|textarea|xmp|br)\b)[a-z][^<>]*+>", regex.IGNORECASE)
_MOSTLY = 0.9  # share of the words, above which a note says that they are left out
_WORD = regex.compile(r"\w++")
_ESCAPED = regex.compile(r"\\([!-/:-@\[-`{}~])")  # a bar stays escaped, in tables
_EMPHASIS = regex.compile(r"(?<!\\)\*")  # of captions, in which no asterisk of the page is escaped
_SIGNS = "\N{PILCROW SIGN}\N{SECTION SIGN}\N{LINK SYMBOL}#\u200b"  # of a link that leads to its own heading
_LAST_SIGN = regex.compile(r"\s*[\N{PILCROW SIGN}\N{LINK SYMBOL}]$")
_LONGEST_HEADING = 300  # characters; a longer one was never closed
_START, _END, _TABLE, _TABLE_END = "\ufdd0", "\ufdd1", "\ufdd2", "\ufdd3"  # Unicode gives them no meaning
_MARK = regex.compile(f"[{_START}-{_TABLE_END}]")
_PLACE = regex.compile(rf"{_START}(\d++){_END}")  # of a heading or code
_MARKED_TABLE = rf"{_TABLE}(?<table>[^{_TABLE}{_TABLE_END}]*+){_TABLE_END}"
_CODE_TABLE = regex.compile(_MARKED_TABLE)  # inside of code
_ITEM = r"^[ \t]*+[-*+][ \t]*+\n\s*+"  # the bullet of a list item that is all of a part
_PART = regex.compile(
    rf"(?:{_ITEM})?(?:{_START}(?<number>\d++){_END}|{_MARKED_TABLE})",
    regex.MULTILINE,
)


def simplify_markup(markup: str) -> tuple[str, str, str]:
    """Return the markup, the page's title, and what is never closed and so hides the rest of the page.

    The markup is without formatting and scripts, and cells of tables for layout are sections. The last is a comment or
    an element, such as `<script> in line 3`, or "".
    """
    parts, tables, start, title, unclosed, keeps_lines = list[str](), list[_Table](), 0, "", "", False
    pictures = markup.find("<svg")  # which have titles too
    for tag in _MARKUP.finditer(markup):
        between = markup[start : tag.start()]
        parts += between if keeps_lines else between.replace("\n", " "), _rewrite(tag)
        start = tag.end()
        keeps_lines = not tag["end"] if (tag["block"] or "").lower() == "pre" else keeps_lines
        if tag["unclosed"] is not None:
            element = f"<{tag['raw']}>" if tag["raw"] else "<!--"
            unclosed = f"{element} in line {markup.count(chr(10), 0, tag.start()) + 1}"
        if (tag["raw"] or "").lower() == "title" and not title and not 0 <= pictures < start:
            title = html.unescape(_OVERSIZED.sub("", tag[0].partition(">")[2]))
        elif (tag["table"] or "").lower() == "table":
            _open_or_close(tables, parts, tag["end"])
        elif tables and tag["heading"] and tables[-1].is_in_header():
            parts[-1] = " "
        elif tables:
            tables[-1].add(tag, len(parts) - 1)
    while tables:
        tables.pop().dissolve(parts)
    rest = markup[start:]
    return "".join([*parts, rest if keeps_lines else rest.replace("\n", " ")]), title, unclosed


def _rewrite(tag: "regex.Match[str]") -> str:
    """Return what stands for a part of the markup: nothing for comments, formatting and what is not shown."""
    raw = (tag["raw"] or "").lower()
    if raw and raw not in _SHOWN:
        return f"<{raw}>"
    if tag["wrong"]:
        return "<br>"  # as browsers do
    if tag["heading"] and not tag["end"]:
        return f"<wbr>{tag[0]}"  # the library writes a link that is all of a heading as Markdown
    return tag[0] if raw or tag["table"] or tag["block"] or tag["heading"] else ""


def _open_or_close(tables: "list[_Table]", parts: list[str], end: str) -> None:
    """Open or close a table, whose tag is the last of the parts."""
    if not end:
        if tables:
            tables[-1].lays_out = True
        tables.append(_Table(len(parts) - 1))
    elif tables:
        table = tables.pop()
        table.end = len(parts) - 1
        table.dissolve(parts)


@dataclass(slots=True)
class _Table:
    """A table: its tags among the parts of the markup, and what it holds."""

    start: int
    end: int | None = None
    tags: list[tuple[int, bool, str]] = field(default_factory=list)  # part, whether it starts an element, and name
    lays_out: bool = False  # whatever header it has
    has_header: bool = False
    has_blocks: bool = False
    columns: int = 0  # of the row
    widest: int = 0

    def add(self, tag: "regex.Match[str]", part: int) -> None:
        """Add a tag inside of the table."""
        self.lays_out = self.lays_out or tag["heading"] is not None
        self.has_blocks = self.has_blocks or tag["block"] is not None
        name = (tag["table"] or "").lower()
        if name:
            self.tags.append((part, not tag["end"], name))
            self.has_header = self.has_header or name in ("th", "thead", "caption")
            if not tag["end"]:
                self.columns = self.columns + 1 if name in ("td", "th") else 0
                self.widest = max(self.widest, self.columns)

    def is_in_header(self) -> bool:
        """Return whether what follows is in a header or the caption, whose headings are those of the table alone."""
        return bool(self.tags) and self.tags[-1][1] and self.tags[-1][2] in ("th", "caption")

    def dissolve(self, parts: list[str]) -> None:
        """Let cells be sections, if the table places parts of the page.

        It does so if it holds a table or heading, or, without a header, other blocks or a single column.
        """
        if not self.lays_out and (self.has_header or not (self.has_blocks or self.widest < 2)):
            return
        is_open = False
        for part, starts, name in self.tags:
            begins = starts and name in ("td", "th", "caption")
            attributes = parts[part][len(name) + 1 :]
            parts[part] = ("</article>" if is_open else "") + (f"<article{attributes}" if begins else "")
            is_open = begins
        parts[self.start] = f"<div{parts[self.start][len('<table') :]}"
        if self.end is None:
            parts[-1] += "</article>" if is_open else ""
        else:
            parts[self.end] = ("</article>" if is_open else "") + "</div>"


def close_empty_elements(markup: str) -> str:
    """Return XHTML as HTML: an element that is empty has an end tag, and CDATA is text."""
    markup = _CDATA.sub(lambda data: data[1].replace("&", "&amp;").replace("<", "&lt;"), markup)
    return str(_EMPTY.sub(lambda tag: f"<{tag[1]}{tag[2][:-1]}></{tag[1]}>", markup))


def read_html(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read the text of a page. Raises DataError if markup that is never closed hides all of it."""
    text, encoded = decode_page(raw, path, encoding)
    page = HtmlPage(text, is_xml=path.suffix.lower() == ".xhtml")
    builder = ContentBuilder()
    page.write(builder)
    for link_text, address in page.links:
        builder.add_link(link_text, address)
    content = builder.build(page.title, name_encoding(encoded), page.notes)
    if not content.text and page.unclosed:
        raise DataError("a page with text in its body", f"none, for {page.unclosed} is never closed", path=path)
    return content


class HtmlPage:
    """A page: title, hyperlinks to other files (text and address), notes, what is never closed ("": nothing), and text.

    Left out are scripts, style sheets, templates and navigation: by element, by role or by a class that common
    generators of pages give it, unless nothing else is on the page or a `nav` is never closed. What a browser hides
    at first, such as the tabs that are not open, is read.
    """

    def __init__(self, page: str, *, is_xml: bool = False) -> None:
        import html_to_markdown as library  # here, since it takes 0.1 s

        page = _MARK.sub("", clean_text(page))
        page = close_empty_elements(page) if is_xml or page.startswith("<?xml") else page
        page, self.title, self.unclosed = simplify_markup(page)
        options = library.ConversionOptions(
            hidden_content="reachable",
            inline_data_media="alt_text_only",
            preprocessing=library.PreprocessingOptions(enabled=False),
            extract_metadata=False,  # the text would begin with it
            compact_tables=True,
            autolinks=False,
            expand_abbreviations=False,
            include_blockquote_citations=False,
        )

        def convert(page: str, *, leaves_out: bool) -> bool:
            """Convert a page, and return whether it is nested too deep for the library, which leaves out the rest."""
            self._parts = _Visitor(leaves_out)
            visitor: Any = self._parts  # has the methods of the protocol that are needed
            try:
                # without names of another attribute: a link without text has none
                result = library.convert_with_accessible_names(page, False, options, visitor)
            except library.ConversionError as error:  # the bytes of another format, say
                raise DataError("an HTML page", f"one that cannot be converted ({error})") from error
            self._markdown = (result.content or "").strip("\n")
            return any("depth limit" in warning.message for warning in result.warnings)

        tags = [tag[1] for tag in _NAVIGATION_TAG.finditer(page)]
        too_deep = convert(page, leaves_out=tags.count("/") >= tags.count(""))
        if too_deep:
            convert(_TAG_OF_PLACE.sub("<br>", page), leaves_out=False)
        elif not self._markdown:
            convert(page, leaves_out=False)
        self.links = [(self._parts.resolve(text), address) for text, address in self._parts.links]
        words = len(_WORD.findall(_NO_WORD.sub(" ", page)))
        lost = words - len(_WORD.findall(self._parts.resolve(self._markdown)))
        notes = {
            f"{lost:,} of {words:,} words are navigation or hidden by markup, and left out": lost > _MOSTLY * words,
            f"{self.unclosed} is never closed, so that the rest of the page is not read": self.unclosed,
            "more than 1,000 elements stand inside of each other, so that only lines are read": too_deep,
        }
        self.notes = tuple(note for note, applies in notes.items() if applies)

    def is_blank(self) -> bool:
        """Return whether the page shows no text."""
        return not self._markdown

    def write(self, builder: ContentBuilder) -> None:
        """Add the headings, tables, code and other text of the page."""
        parts, markdown, start = self._parts, self._markdown, 0
        for part in _PART.finditer(markdown):
            builder.add_paragraph(parts.resolve(markdown[start : part.start()]))
            start = part.end()
            if part["table"] is not None:
                caption, rows = _split_table(part["table"])
                builder.add_paragraph(parts.resolve(caption))
                builder.add_block(parts.resolve(rows))
                continue
            level, text = parts.taken[int(part["number"])]
            if level:
                builder.add_heading(text, level)
            else:
                builder.add_block(text)
        builder.add_paragraph(parts.resolve(markdown[start:]))


@dataclass(slots=True)
class _Visitor:
    """Takes headings and code out of the Markdown, where numbers stand for them, marks tables, and collects links."""

    leaves_out: bool  # navigation
    taken: list[tuple[int, str]] = field(default_factory=list)  # level of a heading, 0 for code, and text
    links: list[tuple[str, str]] = field(default_factory=list)  # text and address

    def visit_element_start(self, context: Any) -> dict[str, str] | None:
        if not self.leaves_out:
            return None
        name, attributes = context.tag_name, context.attributes()
        is_navigation = (
            name == "nav"
            or not _NAVIGATION_ROLES.isdisjoint(attributes.get("role", "").split())
            or (
                name in _CLASSIFIED_ELEMENTS
                and not _NAVIGATION_CLASSES.isdisjoint(attributes.get("class", "").lower().split())
            )
        )
        return {"type": "skip"} if is_navigation else None

    def visit_element_end(self, context: Any, output: str) -> dict[str, str] | None:
        if context.tag_name != "caption":
            return None
        return _replace(f"\n\n{_EMPHASIS.sub('', output)}\n\n")

    def visit_heading(self, _context: Any, level: int, text: str, _id: str | None) -> dict[str, str]:
        before, table, rest = text.partition(_TABLE)  # inside of a heading that is never closed
        heading = _LAST_SIGN.sub("", self.resolve(before).strip())
        heading_text = self._put(level, heading)["output"] if len(heading) < _LONGEST_HEADING else f"\n\n{before}\n\n"
        return _replace(f"{heading_text}{table}{rest}\n\n" if table else heading_text)

    def visit_code_block(self, _context: Any, _language: str | None, code: str) -> dict[str, str]:
        code = _CODE_TABLE.sub(lambda table: "\n".join(_split_table(table["table"])), code)
        return self._put(0, _MARK.sub("", _PLACE.sub(lambda place: self.taken[int(place[1])][1], code)))

    def visit_table_start(self, _context: Any) -> dict[str, str]:
        return _replace(f"\n\n{_TABLE}")  # stands before the table

    def visit_table_end(self, _context: Any, _table: str) -> dict[str, str]:
        return _replace(f"{_TABLE_END}\n\n")  # stands behind it

    def visit_link(self, _context: Any, address: str, text: str, _title: str | None) -> dict[str, str]:
        link_text = text if text.strip(f"{_SIGNS} \n") else ""
        if link_text and is_relative(address):
            self.links.append((text, address))
        return _replace(link_text)

    def visit_image(self, _context: Any, _source: str, alternative: str, _title: str | None) -> dict[str, str]:
        return _replace(alternative)

    def visit_summary(self, _context: Any, text: str) -> dict[str, str]:
        return _replace(f"\n\n{text}\n\n")

    def visit_blockquote(self, _context: Any, text: str, _depth: int) -> dict[str, str]:
        return _replace(f"\n\n{text}\n\n")

    def resolve(self, markdown: str) -> str:
        """Return the text of a piece of Markdown, with the words of headings and code inside of it."""
        text = "\n".join(line.rstrip() for line in _ESCAPED.sub(r"\1", markdown).split("\n"))
        return _MARK.sub("", _PLACE.sub(lambda place: " ".join(self.taken[int(place[1])][1].split()), text))

    def _put(self, level: int, text: str) -> dict[str, str]:
        self.taken.append((level, text))
        return _replace(f"\n\n{_START}{len(self.taken) - 1}{_END}\n\n")


def _split_table(table: str) -> tuple[str, str]:
    """Return the caption and the rows of a table in Markdown."""
    lines = [line.strip() for line in table.split("\n")]
    caption = _EMPHASIS.sub("", " ".join(line for line in lines if line[:1] != "|"))
    return caption, "\n".join(line for line in lines if line[:1] == "|")


def _replace(output: str) -> dict[str, str]:
    return {"type": "custom", "output": output}
