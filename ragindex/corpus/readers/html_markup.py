"""The markup of an HTML page, rewritten so that its conversion to Markdown keeps the words apart and the code whole."""

import html
from dataclasses import dataclass, field

import regex

_RAW = "script|style|title|iframe|noframes|noembed|textarea|xmp"  # their content is not markup
_SHOWN = ("textarea", "xmp")
_FORMATTING = "abbr|acronym|b|big|bdi|cite|code|del|dfn|em|font|i|ins|kbd|mark|s|samp|small|strike|strong|tt|u|var"
_BLOCKS = "blockquote|dl|hr|ol|pre|ul"
_TABLE_PARTS = "table|caption|thead|tbody|tfoot|tr|td|th"
_PART = regex.compile(
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


def simplify_markup(markup: str) -> tuple[str, str, str]:
    """Return the markup, the page's title, and what is never closed and so hides the rest of the page.

    The markup is without formatting and scripts, and cells of tables for layout are sections. The last is a comment or
    an element, such as `<script> in line 3`, or "".
    """
    parts, tables, start, title, unclosed, keeps_lines = list[str](), list[_Table](), 0, "", "", False
    pictures = markup.find("<svg")  # which have titles too
    for tag in _PART.finditer(markup):
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
