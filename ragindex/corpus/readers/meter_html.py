"""The pieces of an HTML page that the meter counts: all text outside of scripts, with the places that it stands in.

No tree is built, and each character is looked at a bounded number of times.
"""

import html
from collections.abc import Iterator
from dataclasses import dataclass

import regex

from ragindex.corpus.readers.meter_pieces import ON_PURPOSE, Piece

_NAME = regex.compile(r"/?[A-Za-z][^\s/>]{0,40}+")
_ATTRIBUTE = regex.compile(
    r"""\s(class|id|role|epub:type|hidden|style)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>"']++)))?+""",
    regex.IGNORECASE,
)
_SILENT = frozenset(
    ("script", "style", "template", "title", "noscript", "iframe", "noembed", "noframes", "svg", "math")
)
"""Elements whose content is no text, ends at the next end tag, and is not looked into."""
_INLINE = frozenset(
    (
        *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i"),
        *("ins", "kbd", "mark", "nobr", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "time"),
        *("tt", "u", "var", "wbr"),
    )
)
_PLACES = {
    "table": "table",
    "pre": "code block",
    "details": "accordion",
    "nav": "navigation",
    "footer": "header or footer",
}
_REGIONS = frozenset((*_PLACES, "div", "ul", "ol", "aside", "section", "header", "span", "p", "form", "dialog"))
"""Elements that may be places, by their names or attributes."""
_NAVIGATION = regex.compile(
    r"(?:^|[\s_-])(?:nav|navbar|navigation|menu|breadcrumbs?|pagination|toc|sidebar|skip-?link|related|footer|navbox"
    r"|sphinxsidebar|headerlink|mw-editsection|catlinks|printfooter|cookie)(?:$|[\s_-])",
    regex.IGNORECASE,
)
_NAVIGATION_IDS = frozenset(("footer", "nav", "navbar", "navigation", "sidebar", "breadcrumbs"))
_NAVIGATION_ROLES = frozenset(("navigation", "search", "contentinfo", "banner", "toc", "landmarks", "doc-toc"))
_NAVIGATION_ELEMENTS = frozenset(("div", "ul", "ol", "aside", "section", "header", "span", "form"))
_HIDDEN = regex.compile(r"display\s*+:\s*+none|^\s*+tabpanel")
_LONGEST_TAG = 20_000  # characters that a quote in a tag may lead to


def list_html_pieces(markup: str) -> Iterator[Piece]:
    """Yield the text of a page by blocks."""
    page = _Page(markup)
    while (start := markup.find("<", page.position)) >= 0:
        page.text.append(markup[page.position : start])
        named = _NAME.match(markup, start + 1)
        if named is None:
            page.skip_declaration(start)
            continue
        page.position = _find_tag_end(markup, start) + 1
        name = named[0].lower()
        if name in _SILENT:
            page.skip_content(name)
        if name.lstrip("/") not in _INLINE:
            yield from page.flush()
            page.group += 1
        if name.lstrip("/") in _REGIONS:
            yield from page.enter(name, markup[start : page.position]) if name[0] != "/" else page.leave(name[1:])
    page.text.append(markup[page.position :])
    yield from page.flush()


@dataclass(slots=True)
class _Place:
    """An element that is a place: its name, the kind, which one it is, and how many elements of the name are open."""

    element: str
    kind: str
    group: int
    depth: int = 1


class _Page:
    """A page that is being looked through."""

    def __init__(self, markup: str) -> None:
        lower = markup.lower()
        self._markup, self._lower = markup, lower if len(lower) == len(markup) else markup  # as long, to search in it
        self._unclosed = set[str]()  # elements that are not closed any more
        self._places: list[_Place] = []
        self.text: list[str] = []
        self.position, self.group = 0, 0

    def flush(self) -> Iterator[Piece]:
        """Yield the text since the last block."""
        text = html.unescape("".join(self.text))
        self.text.clear()
        if text.strip():
            place = self._places[-1] if self._places else None
            yield Piece(place.kind, place.group, text) if place else Piece("", self.group, text)

    def skip_declaration(self, start: int) -> None:
        """Go to the end of a comment or declaration, or behind a sign that begins no markup."""
        if self._markup.startswith("<!--", start):
            end = self._markup.find("-->", start + 2)
            self.position = len(self._markup) if end < 0 else end + 3
        elif self._markup[start + 1 : start + 2] in ("!", "?", "/"):
            self.position = _find_tag_end(self._markup, start) + 1
        else:
            self.text.append("<")
            self.position = start + 1

    def skip_content(self, name: str) -> None:
        """Go to the end of an element whose content is no text: of a script, the end of the page if it has none."""
        end = -1 if name in self._unclosed else self._lower.find(f"</{name}", self.position)
        if end >= 0:
            self.position = end
        elif name in ("script", "style"):
            self.position = len(self._markup)
        else:
            self._unclosed.add(name)

    def enter(self, name: str, tag: str) -> Iterator[Piece]:
        """Note the start tag of an element that may be a place."""
        around = self._places[-1] if self._places else None
        kind = _find_kind(name, tag)
        if kind and (around is None or around.kind not in ON_PURPOSE):
            yield from self.flush()
            self._places.append(_Place(name, kind, self.group))
        elif around is not None and around.element == name:
            around.depth += 1

    def leave(self, name: str) -> Iterator[Piece]:
        """Note the end tag of an element that may be a place."""
        if self._places and self._places[-1].element == name:
            self._places[-1].depth -= 1
            if self._places[-1].depth == 0:
                yield from self.flush()
                self._places.pop()


def _find_tag_end(markup: str, start: int) -> int:
    """Return where a tag ends, beyond quoted values with a `>`, or the end of the page."""
    end = markup.find(">", start)
    if end < 0:
        return len(markup)
    first = end
    quotes = markup.count('"', start, end)
    while quotes % 2 and end - start < _LONGEST_TAG:
        following = markup.find(">", end + 1, start + _LONGEST_TAG)
        if following < 0:
            return first
        quotes += markup.count('"', end, following)
        end = following
    return first if quotes % 2 else end


def _find_kind(name: str, tag: str) -> str:
    """Return the kind of place that an element is; "" if it is none."""
    kind = _PLACES.get(name, "")
    if kind in ON_PURPOSE:
        return kind
    for found in _ATTRIBUTE.finditer(tag[:_LONGEST_TAG]):
        value = (found[2] or found[3] or found[4] or "").lower()
        match found[1].lower():
            case "class" if name in _NAVIGATION_ELEMENTS and _NAVIGATION.search(value):
                return "navigation"
            case "id" if name == "div" and value in _NAVIGATION_IDS:
                return "navigation"
            case "role" | "epub:type" if not _NAVIGATION_ROLES.isdisjoint(value.split()):
                return "navigation"
            case "hidden" | "role" | "style" if found[1].lower() == "hidden" or _HIDDEN.search(value):
                kind = kind or "hidden part"
    return kind
