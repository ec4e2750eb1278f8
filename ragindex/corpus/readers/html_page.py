"""Extraction of the title and visible text of an HTML page, following HTML5 (html.spec.whatwg.org, section 13.2).

The tokenizer is that of HTML5. No tree is built: HTML5 repeats unclosed formatting elements in every paragraph, so the
tree of 200 kB of markup can take gigabytes and minutes. The reader only tracks the elements that decide whether text is
visible: elements whose content is not markup, templates, SVG and MathML, hidden elements and navigation. Elements of
the head show no text, so all other text belongs to the body, even without a body tag. Time and memory grow linearly
with the page.
"""

import html
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

import regex

from ragindex.corpus.readers.content import SOFT_HYPHEN, Blocks
from ragindex.corpus.readers.html_blocks import BLOCK_ELEMENTS, HEADER_PARTS, BlockElements

_NAME = regex.compile(r"[A-Za-z][^\t\n\f />]*+")
_REST_OF_TAG = regex.compile(  # attributes as the tokenizer sees them: a quote only counts after "="
    r"""(?: [\t\n\f\x20]++
          | /(?!>)
          | (?: =[^\t\n\f\x20/>=]*+ | [^\t\n\f\x20/>=]++ )
            (?: [\t\n\f\x20]*+ = [\t\n\f\x20]*+
                (?: "[^"]*+(?:"|\Z) | '[^']*+(?:'|\Z) | [^\t\n\f\x20>"'][^\t\n\f\x20>]*+ ) )?+
        )*+ (/?+)>""",
    regex.VERBOSE,
)
_ADDRESS = regex.compile(
    r"""[\t\n\f\x20/"']href[\t\n\f\x20]*+=[\t\n\f\x20]*+(?:"([^"]*+)"|'([^']*+)'|([^\t\n\f\x20>"']++))""",
    regex.IGNORECASE | regex.ASCII,
)
_ATTRIBUTE = regex.compile(
    r"""[\t\n\f\x20/"'](class|id|role|hidden|style)(?=[\t\n\f\x20/>=])
        (?:[\t\n\f\x20]*+=[\t\n\f\x20]*+(?:"([^"]*+)"|'([^']*+)'|([^\t\n\f\x20>"']++)))?+""",
    regex.IGNORECASE | regex.ASCII | regex.VERBOSE,
)
_EMPTY_COMMENT = regex.compile(r"<!---?>")
_COMMENT_END = regex.compile(r"--!?>")
_SCRIPT = regex.compile(r"<!(?=--)|-->|<(/?)script(?=[\t\n\f />])", regex.IGNORECASE | regex.ASCII)
_HIDDEN_ELEMENTS = ("script", "style", "noscript", "iframe", "noembed", "noframes")
_RAW_ELEMENTS = (*_HIDDEN_ELEMENTS, "title", "textarea", "xmp")  # elements whose content is not markup
_RAW_ENDS = {name: regex.compile(rf"</{name}(?=[\t\n\f />])", regex.IGNORECASE | regex.ASCII) for name in _RAW_ELEMENTS}
_LEADING_ZEROS = regex.compile(r"&#([xX]?)00++")
_OVERSIZED_REFERENCE = regex.compile(r"&#(?:[0-9]{10,}+|[xX][0-9a-fA-F]{9,}+);?")  # int() fails on very long numbers
_ANCHOR_SIGN = regex.compile(r"(?<=\S)\s*[¶§🔗]$|^[¶§🔗]\s*(?=\S)")  # of a link to the heading itself
_SPACE = regex.compile(r"[ \t\n\f]+")

# HTML elements that end SVG or MathML around them, and elements of SVG and MathML that contain HTML again.
_BREAKOUT_ELEMENTS = frozenset(
    (
        *("b", "big", "blockquote", "body", "br", "center", "code", "dd", "div", "dl", "dt", "em", "embed", "h1"),
        *("h2", "h3", "h4", "h5", "h6", "head", "hr", "i", "img", "li", "listing", "menu", "meta", "nobr", "ol"),
        *("p", "pre", "ruby", "s", "small", "span", "strong", "strike", "sub", "sup", "table", "tt", "u", "ul"),
        *("var",),
    )
)
_INTEGRATION_POINTS = frozenset(
    [("svg", name) for name in ("foreignobject", "desc", "title")]
    + [("math", name) for name in ("mi", "mo", "mn", "ms", "mtext")]
)
_HIDDEN_IN_SVG = ("script", "style", "title")

_PARAGRAPH_ELEMENTS = frozenset(
    (
        *("article", "aside", "blockquote", "center", "details", "dialog", "dir", "dl", "fieldset", "figure"),
        *("footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hgroup", "hr", "listing", "main"),
        *("menu", "nav", "ol", "p", "plaintext", "pre", "search", "section", "table", "ul", "xmp"),
    )
)
_LINE_ELEMENTS = frozenset(
    (
        *("address", "br", "caption", "dd", "div", "dt", "figcaption", "legend", "li", "optgroup", "option"),
        *("summary", "tr"),
    )
)
_NEWLINES = {
    **dict.fromkeys(_PARAGRAPH_ELEMENTS, 2),
    **dict.fromkeys(_LINE_ELEMENTS, 1),
}  # before and after the element
_PARAGRAPH_PARTS = frozenset(("br", "caption", "legend", "optgroup", "option", "tr"))  # do not end a paragraph
_SPACED_ELEMENTS = frozenset(("button", "input", "select", "td", "textarea", "th"))  # get a space before and after
_TABLE_PARTS = frozenset(("caption", "td", "th", "tr"))
_VOID_ELEMENTS = frozenset(("br", "hr", "input"))
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_HIDEABLE_ELEMENTS = frozenset(  # their end tags are not optional
    ("a", "aside", "div", "dl", "footer", "form", "header", "nav", "ol", "section", "span", "table", "ul")
)
_NAVIGATION_ROLES = frozenset(("navigation", "search", "contentinfo"))
_NAVIGATION_NAMES = frozenset(  # classes and ids of common generators of pages, in lower case
    (
        *("nav", "navbar", "navigation", "navheader", "navfooter", "nav-panel", "nav-path", "navrow", "node-nav"),
        *("breadcrumb", "breadcrumbs", "breadcrumb-section", "pagination", "pagination-nav"),
        *("toc", "table-of-contents", "table_of_contents", "_table_of_contents", "dw__toc"),
        *("headerlink", "anchorjs-link", "copiable-link", "permalink", "mw-editsection"),
        *("skip-link", "skiplink", "mw-jump-link", "md-skip", "a11y-skip"),
        *("site-footer", "site-nav", "sphinxsidebar", "related", "md-header", "md-sidebar", "md-tabs", "md-footer"),
        *("mw-navigation", "mw-head", "mw-panel", "mw-indicators", "catlinks", "printfooter", "navbox"),  # MediaWiki
        *("dokuwiki__aside", "dokuwiki__sitetools", "dokuwiki__usertools", "dokuwiki__pagetools"),
        *("theme-doc-sidebar-container", "nav-chapters", "menu-bar"),  # Docusaurus, mdBook
    )
)
_FOOTER_NAMES = frozenset(("footer",))  # as good as the element `footer`
_LEAST_MAIN = 0.5  # share of the text
_CONTENT_SECTIONS = ("article", "blockquote", "main", "section")  # a footer inside of them is content
_MARK = "\0"  # NUL, which does not occur in text
_HEADING_MARK = f"{_MARK}#"  # stands before the first character of a heading
_BLOCK_MARKS = f"{_MARK}[", f"{_MARK}]"  # stand before and after a block
_ANY_MARK = regex.compile(rf"{_MARK}[#\[\]]")
_PREFORMATTED_ELEMENTS = frozenset(("listing", "plaintext", "pre", "textarea", "xmp"))


@dataclass(frozen=True, slots=True)
class Page:
    """The visible content of a page: `title` (of the page, else its first heading, else "") and `text` of the body.

    `headings` are start in the text, level (1 to 6) and text of each heading. `blocks` are the start and end of tables
    and preformatted texts, without those that hold a heading and tables that lay out the page. `hyperlinks` are pairs
    of visible text, with single spaces, and address, in the order of the page. `unclosed` names the unclosed markup
    that hides the rest of the page, with its line; "" if there is none.
    """

    title: str
    text: str
    headings: tuple[tuple[int, int, str], ...] = ()
    hyperlinks: tuple[tuple[str, str], ...] = ()
    unclosed: str = ""
    blocks: Blocks = ()


def read_page(markup: str) -> Page:
    """Return title and text of a page: a line per block, blank lines around paragraphs, white space as in a browser.

    Navigation is left out: what is outside of `main` if that has at least half of the text, `nav`, the footer of the
    page, ARIA roles, and the classes and ids that common generators give it; unless an element of it is never closed,
    or nothing else is on the page. So are elements with `hidden`.
    """
    markup = markup.replace("\r\n", "\n").replace("\r", "\n")
    reader = _read(markup, "content")
    if reader.hidden_by or not reader.shown_in["body"]:
        reader = _read(markup, "all")
    elif reader.shown_in["body"] > reader.shown_in["main"] >= _LEAST_MAIN * reader.shown_in["body"]:
        reader = _read(markup, "main")
    shown = reader.shown
    text, starts, blocks = shown.text()
    levels = [(level, _ANCHOR_SIGN.sub("", " ".join("".join(pieces).split()))) for level, pieces in shown.headings]
    headings = tuple((start, *heading) for start, heading in zip(starts, levels, strict=True))
    first = next((heading for _, level, heading in headings if level == 1), "")
    return Page(reader.title or first, text, headings, tuple(shown.hyperlinks), reader.unclosed, blocks)


def _read(markup: str, wanted: Literal["all", "content", "main"]) -> "_Reader":
    """Read a page: all of it, without navigation, or of the latter only what is inside `main`."""
    reader = _Reader(markup, hides=wanted != "all", only_main=wanted == "main")
    reader.read()
    return reader


@dataclass(slots=True)
class _VisibleText:
    """A builder of the visible text."""

    pieces: list[str] = field(default_factory=list)
    newlines: int = 0
    as_it_is: int = 0
    in_paragraph: bool = False
    headings: list[tuple[int, list[str]]] = field(default_factory=list)  # level and text of those with text
    heading_level: int = 0  # of the open heading, 0 outside of headings
    heading_begun: bool = False  # whether the open heading has text
    opened: Counter[str] = field(default_factory=Counter)
    hyperlinks: list[tuple[str, str]] = field(default_factory=list)
    address: str = ""
    linked_from: int = 0
    blocks: BlockElements = field(default_factory=BlockElements)

    def add(self, text: str) -> None:
        """Add text between tags. White space next to a newline is dropped."""
        if not self.as_it_is:
            text = _SPACE.sub(" ", text)
        if text.strip() or not self.newlines:
            self.pieces.append("\n" * self.newlines + self._mark_heading(text))
            self.newlines = 0
        if self.heading_begun:
            self.headings[-1][1].append(text)

    def _mark_heading(self, text: str) -> str:
        """Return the text, with a mark before its first character if a heading begins with it."""
        if not self.heading_level or self.heading_begun or not text.strip():
            return text
        self.headings.append((self.heading_level, []))
        self.heading_begun = True
        start = len(text) - len(text.lstrip())
        return text[:start] + _HEADING_MARK + text[start:]

    def open(self, name: str) -> None:
        """Process a start tag. HTML5 ignores tags of table parts outside of a table."""
        if name in _TABLE_PARTS and not self.opened["table"]:
            return
        self.opened[name] += name not in _VOID_ELEMENTS
        if name in BLOCK_ELEMENTS:
            self.blocks.open(name, len(self.pieces), len(self.headings))
        elif name in HEADER_PARTS:
            self.blocks.add_header()
        self._part(name)
        self.in_paragraph = self.in_paragraph or name == "p"
        if name in _HEADINGS:
            self.heading_level, self.heading_begun = int(name[1]), False
        self.as_it_is += name in _PREFORMATTED_ELEMENTS

    def close(self, name: str) -> None:
        """Process an end tag. HTML5 ignores it if no matching element is open."""
        if name in _HEADINGS:  # the end tag of one heading closes any other heading
            name = next((other for other in _HEADINGS if self.opened[other]), name)
        if not self.opened[name] and name not in ("br", "p"):
            return
        self.opened[name] -= self.opened[name] > 0
        if name in BLOCK_ELEMENTS:
            self.blocks.close(name, len(self.pieces), len(self.headings))
        self.as_it_is = max(0, self.as_it_is - (name in _PREFORMATTED_ELEMENTS))
        self._part(name)

    def begin_link(self, address: str) -> None:
        """Begin a hyperlink; one that is open ends here, as in HTML5."""
        self.end_link()
        self.address, self.linked_from = address, len(self.pieces)

    def end_link(self) -> None:
        """End the open hyperlink, if any; without visible text it is dropped."""
        shown = "".join(self.pieces[self.linked_from :]).replace(_HEADING_MARK, "") if self.address else ""
        visible = " ".join(shown.split())
        if visible:
            self.hyperlinks.append((visible, self.address))
        self.address = ""

    def _part(self, name: str) -> None:
        if name in _SPACED_ELEMENTS or (name == "br" and self.heading_level):
            self.add(" ")
        newlines = _NEWLINES.get(name, 0)
        if newlines and name not in _PARAGRAPH_PARTS:
            newlines = 2 if self.in_paragraph else newlines
            self.in_paragraph = self.heading_begun = False
            self.heading_level = 0
        self.newlines = max(self.newlines, newlines)

    def text(self) -> tuple[str, list[int], Blocks]:
        """Return the visible text with white space normalized, where its headings start, and its blocks."""
        for first, last in self.blocks.choose(self.pieces, len(self.headings)):
            start = len(self.pieces[first]) - len(self.pieces[first].lstrip())
            self.pieces[first] = f"{self.pieces[first][:start]}{_BLOCK_MARKS[0]}{self.pieces[first][start:]}"
            end = len(self.pieces[last].rstrip())
            self.pieces[last] = f"{self.pieces[last][:end]}{_BLOCK_MARKS[1]}{self.pieces[last][end:]}"
        lines = (" ".join(line.split()) for line in "".join(self.pieces).split("\n"))
        marked = regex.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
        places: dict[str, list[int]] = {mark: [] for mark in (_HEADING_MARK, *_BLOCK_MARKS)}
        for number, found in enumerate(_ANY_MARK.finditer(marked)):
            places[found[0]].append(found.start() - len(found[0]) * number)
        blocks = tuple(zip(places[_BLOCK_MARKS[0]], places[_BLOCK_MARKS[1]], strict=True))
        return _ANY_MARK.sub("", marked), places[_HEADING_MARK], blocks


class _Reader:
    """A single-pass reader of markup."""

    def __init__(self, markup: str, *, hides: bool, only_main: bool) -> None:
        self.markup, self.end = markup, len(markup)
        self.xml = markup.lstrip().startswith("<?xml")  # in XML, <script/> is complete, and CDATA is text
        self.title, self.unclosed, self.shown = "", "", _VisibleText()
        self.templates = 0
        self.foreign: list[tuple[str, str]] = []  # open elements: ("svg" or "math", element name), the innermost last
        self.open_foreign = Counter[str]()
        self.holding_html = 0
        self.hides = hides  # hidden elements and navigation
        self.only_main, self.main_depth = only_main, 0
        self.shown_in = {"body": 0, "main": 0}  # characters
        self.hidden_by, self.hidden_depth = "", 0  # the element that is being hidden, and how many of its name are open

    def read(self) -> None:
        """Read all markup and the text between the tags."""
        at = 0
        while (tag := self.markup.find("<", at)) >= 0:
            self._text(self.markup[at:tag])
            at = self._markup(tag)
        self._text(self.markup[at:])
        self.shown.end_link()

    def _text(self, text: str, *, raw: bool = False) -> None:
        hidden = (
            self.templates
            or self.hidden_by
            or (self.foreign and any(self.open_foreign[name] for name in _HIDDEN_IN_SVG))
        )
        if text and not hidden and not (self.only_main and not self.main_depth):
            text = text.replace(_MARK, "")
            self.shown_in["body"] += len(text.strip())
            self.shown_in["main"] += len(text.strip()) if self.main_depth else 0
            self.shown.add((text if raw else _unescape(text)).replace(SOFT_HYPHEN, ""))

    # Each of these methods takes the position of a "<" and returns the position after the markup that starts there.

    def _markup(self, at: int) -> int:
        following = self.markup[at + 1 : at + 2]
        if following == "/":
            return self._end_tag(at)
        if following in ("!", "?"):
            return self._declaration(at)
        return self._start_tag(at)

    def _declaration(self, at: int) -> int:
        """Skip a comment, document type or processing instruction; read CDATA in XML, SVG and MathML as text."""
        if self.markup.startswith("<!--", at):
            empty = _EMPTY_COMMENT.match(self.markup, at)
            found = empty or _COMMENT_END.search(self.markup, at + 4)
            return found.end() if found else self._to_the_end("<!--", at)
        if (self.foreign or self.xml) and self.markup.startswith("<![CDATA[", at):
            closed = self.markup.find("]]>", at)
            self._text(self.markup[at + 9 : closed if closed >= 0 else self.end], raw=True)
            return closed + 3 if closed >= 0 else self.end
        return self._after(">", at)

    def _after(self, mark: str, at: int) -> int:
        found = self.markup.find(mark, at)
        return found + 1 if found >= 0 else self.end

    def _to_the_end(self, what: str, at: int) -> int:
        """Record that the markup at `at` is never closed, and skip the rest, which HTML5 does not show."""
        self.unclosed = f"{what} in line {self.markup.count(chr(10), 0, at) + 1}"
        return self.end

    def _end_tag(self, at: int) -> int:
        name = _NAME.match(self.markup, at + 2)
        if name is None and at + 2 < self.end:
            return self._after(">", at)  # HTML5 treats it as a comment
        if name is None:
            self._text("</")
            return self.end
        rest = _REST_OF_TAG.match(self.markup, name.end())
        if rest is None:
            return self._to_the_end(f"</{name[0]}", at)
        self._close(name[0].lower())
        self._end_hiding(name[0].lower())
        return int(rest.end())

    def _start_tag(self, at: int) -> int:
        name = _NAME.match(self.markup, at + 1)
        if name is None:
            self._text("<")
            return at + 1
        rest = _REST_OF_TAG.match(self.markup, name.end())
        if rest is None:
            return self._to_the_end(f"<{name[0]}", at)
        if self.hides and not self.templates and not self.foreign:
            self._begin_hiding(name[0].lower(), self.markup[name.end() : rest.end()])
        hidden = self.hidden_by or (self.only_main and not self.main_depth)
        if name[0] in ("a", "A") and not self.templates and not self.foreign and not hidden:
            self.shown.begin_link(_find_address(self.markup[name.end() : rest.end()]))
        return self._open(name[0].lower(), rest.end(), empty=bool(rest[1]))

    # Elements.

    def _begin_hiding(self, name: str, attributes: str) -> None:
        """Begin to hide an element that is not shown, or count one inside of it."""
        if self.hidden_by:
            self.hidden_depth += name == self.hidden_by
        elif name in _HIDEABLE_ELEMENTS and self._is_hidden(name, attributes):
            self.shown.end_link()
            self.hidden_by, self.hidden_depth = name, 1

    def _is_hidden(self, name: str, attributes: str) -> bool:
        """Return whether an element is hidden, or navigation."""
        inside = any(self.shown.opened[section] for section in _CONTENT_SECTIONS)
        if not inside and (name == "footer" or _is_called(attributes, _FOOTER_NAMES)):
            return True
        return name == "nav" or _is_navigation(attributes)

    def _end_hiding(self, name: str) -> None:
        if name == self.hidden_by and not self.foreign and not self.templates:
            self.hidden_depth -= 1
            self.hidden_by = self.hidden_by if self.hidden_depth else ""

    def _open(self, name: str, at: int, *, empty: bool) -> int:
        """Open an element, and return the position to go on at: `at`, or the end of content that is not markup."""
        if self._is_foreign(name):
            if not empty:
                self._enter_foreign(name)
            return at
        empty = empty and self.xml
        if name in _RAW_ELEMENTS and not empty:
            return self._raw(name, at)
        if name == "template":
            self.templates += not empty
        elif not self.templates:
            self.main_depth += name == "main" and not empty
            self.shown.open(name)
            if empty:
                self.shown.close(name)
        if name == "plaintext":
            self._text(self.markup[at:], raw=True)
            return self.end
        return at

    def _is_foreign(self, name: str) -> bool:
        """Return whether the element that starts here belongs to SVG or MathML."""
        if self.foreign and self.foreign[-1] not in _INTEGRATION_POINTS:
            if name not in _BREAKOUT_ELEMENTS:
                return True
            self._leave_foreign()
        return name in ("svg", "math")

    def _enter_foreign(self, name: str) -> None:
        inside = self.foreign and self.foreign[-1] not in _INTEGRATION_POINTS
        self.foreign.append((self.foreign[-1][0] if inside else name, name))
        self.open_foreign[name] += 1
        self.holding_html += self.foreign[-1] in _INTEGRATION_POINTS

    def _pop_foreign(self) -> str:
        popped = self.foreign.pop()
        self.open_foreign[popped[1]] -= 1
        self.holding_html -= popped in _INTEGRATION_POINTS
        return popped[1]

    def _leave_foreign(self) -> None:
        while self.foreign and self.foreign[-1] not in _INTEGRATION_POINTS:
            self._pop_foreign()

    def _close(self, name: str) -> None:
        if self.open_foreign[name]:
            while self._pop_foreign() != name:
                pass
            return
        if name in ("br", "p") or (self.shown.opened[name] and not self.holding_html):
            self._leave_foreign()  # the closed element surrounds the SVG or MathML
        if name == "template":
            self.templates = max(0, self.templates - 1)
        elif not self.templates:
            self.main_depth = max(0, self.main_depth - (name == "main"))
            self.shown.close(name)
            if name == "a":
                self.shown.end_link()

    def _raw(self, name: str, at: int) -> int:
        """Read an element whose content is text up to its end tag or the end of the page."""
        end = _find_script_end(self.markup, at) if name == "script" else _find_start(_RAW_ENDS[name], self.markup, at)
        content = self.markup[at : self.end if end is None else end]
        if name == "title" and not self.title and not self.templates and not self.foreign:
            self.title = " ".join(_unescape(content).split())
        elif name in ("textarea", "xmp") and not self.templates:
            self.shown.open(name)
            self._text(content, raw=name == "xmp")
            self.shown.close(name)
        if end is None:
            return self._to_the_end(f"<{name}>", at)
        rest = _REST_OF_TAG.match(self.markup, end + len(f"</{name}"))
        return int(rest.end()) if rest else self.end


def _find_start(pattern: "regex.Pattern[str]", markup: str, at: int) -> int | None:
    found = pattern.search(markup, at)
    return found.start() if found else None


def _find_script_end(markup: str, at: int) -> int | None:
    """Return the position of the script's end tag; one within `<!-- <script> … </script> -->` does not end it."""
    depth = 0  # 1: after <!--, 2: in a <script> after <!--
    for found in _SCRIPT.finditer(markup, at):
        if found[0] == "<!":
            depth = max(depth, 1)
        elif found[0] == "-->":
            depth = 0
        elif not found[1]:
            depth = 2 if depth else 0
        elif depth == 2:
            depth = 1
        else:
            return int(found.start())
    return None


def _is_navigation(attributes: str) -> bool:
    """Return whether the attributes of a start tag hide it, or say that it is navigation."""
    for found in _ATTRIBUTE.finditer(attributes):
        key, value = found[1].lower(), (found[2] or found[3] or found[4] or "").lower()
        if key == "hidden" and value != "until-found":
            return True
        if key == "style" and regex.search(r"(?:^|;)\s*display\s*:\s*none", value):
            return True
        if key == "role" and not _NAVIGATION_ROLES.isdisjoint(value.split()):
            return True
    return _is_called(attributes, _NAVIGATION_NAMES)


def _is_called(attributes: str, names: frozenset[str]) -> bool:
    """Return whether the attributes of a start tag have one of `names` among classes and ids."""
    return any(
        found[1].lower() in ("class", "id")
        and not names.isdisjoint((found[2] or found[3] or found[4] or "").lower().split())
        for found in _ATTRIBUTE.finditer(attributes)
    )


def _find_address(attributes: str) -> str:
    """Return the address of a hyperlink's start tag; empty if it has none."""
    found = _ADDRESS.search(attributes)
    return _unescape(next(filter(None, found.groups()), "")).strip() if found else ""


def _unescape(text: str) -> str:
    """Return the text with character references replaced."""
    if "&" not in text:
        return text
    if "&#" in text:
        text = _OVERSIZED_REFERENCE.sub("\N{REPLACEMENT CHARACTER}", _LEADING_ZEROS.sub(r"&#\g<1>0", text))
    return html.unescape(text)
