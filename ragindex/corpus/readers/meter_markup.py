"""The texts in markup that the meter counts, and where they stand: pages of HTML, and the XML of files of Office.

No tree is built, and each character is looked at a bounded number of times. Tables say what elements mean.
"""

import html
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers.expat import ParserCreate

import regex

from ragindex.corpus.readers.archives import open_archive, parse_xml, read_part
from ragindex.corpus.readers.text_encodings import decode_page

ON_PURPOSE = frozenset(("navigation", "deleted text", "contents", "header or footer"))
"""Kinds of pieces that readers leave out on purpose."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A text of a file, such as a paragraph: the `kind` of place that it is in ("": the body), and which one it is.

    A text that no program can see has the estimated number of its `words`, and `place` says where it is.
    """

    kind: str
    group: int
    text: str
    words: int = 0
    place: str = ""


def _names(names: str) -> frozenset[str]:
    return frozenset(names.lower().split())


@dataclass(frozen=True, slots=True)
class _Grammar:
    """What elements of a language mean, by their names in lower case without prefix.

    The content of `silent` ones is no text, and a piece ends at `breaks`. Text stands in `texts` (empty: in all), and
    `places` are the kinds of what is in others. `find_place` says so of an element by its attributes.
    """

    breaks: frozenset[str]
    silent: frozenset[str]
    texts: frozenset[str] = frozenset()
    places: Mapping[str, str] = field(default_factory=dict)
    find_place: Callable[[str, Any], str] = lambda name, attributes: ""


_TAG = regex.compile(
    r"""<!--.*?(?:-->|\Z) | <[!?][^>]*+>? | </(?![A-Za-z])[^>]*+>?
      | <(?<end>/?)(?:[\w.-]++:)?(?<name>[A-Za-z][^\s/>:]*+)
        (?<attributes>(?:[^"<>]++|"[^"]{0,20000}+")*+>|[^<>]*+>?)""",
    regex.DOTALL | regex.VERBOSE,
)
_CHUNK = 1 << 16  # bytes
_STYLE = "pstyle"  # of the paragraph around it
_PLACE_OF_HTML = regex.compile(  # what precedes a value may not end a word, as in "sub-nav"
    r"""^<(?:div|ul|ol|aside|section|header|span|form)\b[^>]*?\sclass\s*+=\s*+["']?[^"'>]*?(?<![^\W_])(?<navigation>
        nav|navbar|navigation|menu|breadcrumbs?|pagination|toc|sidebar|skip-?link|related|footer|navbox
        |sphinxsidebar|headerlink|mw-editsection|catlinks|printfooter|cookie)(?![^\W_])
      | ^<div\b[^>]*?\sid\s*+=\s*+["']?(?<navigation>footer|nav|navbar|navigation|sidebar|breadcrumbs)["'\s>]
      | \s(?:role|epub:type)\s*+=\s*+["']?[^"'>]*?\b(?<navigation>navigation|search|contentinfo|banner|toc|landmarks)\b
      | (?<hidden>\shidden(?=[\s=>/]) | \srole\s*+=\s*+["']?tabpanel | \sstyle\s*+=\s*+["'][^"'>]*?display\s*+:\s*+none)
    """,
    regex.IGNORECASE | regex.VERBOSE,
)


def _find_place_of_html(name: str, attributes: str) -> str:
    has_end = name in _REGIONS and attributes != ">"
    match = _PLACE_OF_HTML.search(f"<{name}{attributes[:2_000]}") if has_end else None
    return "" if match is None else "navigation" if match["navigation"] else "hidden part"


_REGIONS = _names("div ul ol aside section header span p form dialog table pre details nav footer")
_HTML = _Grammar(
    breaks=_names(
        "address article aside blockquote body br button caption center dd details dialog dir div dl dt fieldset"
        " figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 header hr html img input label legend li link main"
        " menu meta nav ol optgroup option p pre section select summary table tbody td textarea tfoot th thead tr ul"
    ),
    silent=_names("script style template title noscript iframe noembed noframes svg math"),
    places={
        "table": "table",
        "pre": "code block",
        "details": "accordion",
        "nav": "navigation",
        "footer": "header or footer",
    },
    find_place=_find_place_of_html,
)


def _find_place_of_office(name: str, attributes: Mapping[str, str]) -> str:
    """Return "contents" for the number of a slide and the style of a paragraph of a table of contents."""
    number = name == "fld" and attributes.get("type") == "slidenum"
    style = name == _STYLE and any(value[:3].upper() == "TOC" for value in attributes.values())
    return "contents" if number or style else ""


_OFFICE = _Grammar(
    breaks=_names("p si is pt tab br cr tc tr noBreakHyphen"),
    silent=_names("Fallback instrText delText delInstrText rPh sectPr tblPr rPr"),
    texts=_names("t text"),
    places={
        "txbxcontent": "text box",
        "footnote": "footnote",
        "endnote": "footnote",
        "comment": "comment",
        "ins": "tracked insertion",
        "moveto": "tracked insertion",
        "movefrom": "deleted text",
        "rt": "phonetic guide",
        "sdtcontent": "content control",
    },
    find_place=_find_place_of_office,
)
_CHART = _Grammar(_OFFICE.breaks, _OFFICE.silent | _names("numCache numLit"), _names("t v"))
_OPENDOCUMENT = _Grammar(
    breaks=_names("p h s tab line-break table-cell table-row"),
    silent=_names("tracked-changes ruby-text note-citation styles automatic-styles page-number date creator"),
    texts=_names("p h"),
    places={
        "text-box": "text box",
        "custom-shape": "shape",
        "note": "footnote",
        "annotation": "comment",
        "notes": "page of speaker notes",
        "table-of-content": "contents",
    },
)
_PARTS = (  # of archives: name, kind of what is in it, and language
    (r"word/(?:document\d*|footnotes|endnotes|comments)\.xml|ppt/slides/slide\d+\.xml", "", _OFFICE),
    (r"word/(?:header|footer)\d*\.xml", "header or footer", _OFFICE),
    (r"ppt/notesSlides/notesSlide\d+\.xml", "page of speaker notes", _OFFICE),
    (r"(?:ppt|xl)/comments/?[\w-]*\.xml", "comment", _OFFICE),
    (r"xl/drawings/drawing\d+\.xml", "text box", _OFFICE),
    (r"xl/worksheets/[^/]*\.xml", "cell", _OFFICE),
    (r"(?:word|ppt|xl)/diagrams/data\d*\.xml", "diagram", _OFFICE),
    (r"(?:word|ppt)/charts/chart\d*\.xml", "chart", _CHART),
    (r"xl/charts/chart\d*\.xml", "chart", _OFFICE),  # its cells are counted
    (r"content\.xml", "", _OPENDOCUMENT),
    (r".*\.x?html?", "", _HTML),  # a page of a book
)
_SHARED_STRING = regex.compile(rb'<(?:\w++:)?c\b[^>]*?\st="s"[^>]*+>\s*+<(?:\w++:)?v>(\d++)')


def list_html_pieces(markup: str) -> Iterator[Piece]:
    """Yield the text of a page by blocks: all outside of scripts."""
    collector, position = _Collector(_HTML, "", 0), 0
    while (tag := _TAG.search(markup, position)) is not None:
        collector.data(html.unescape(markup[position : tag.start()]))
        position, name = tag.end(), (tag["name"] or "").lower()
        if name in _HTML.silent:
            if not tag["end"] and not tag["attributes"].endswith("/>"):
                end = regex.search(rf"</{name}\b", markup, regex.IGNORECASE, pos=position)
                position = len(markup) if end is None else end.start()
        elif name and tag["end"]:
            collector.end(name)
        elif name:
            collector.start(name, tag["attributes"])
        yield from collector.take()
    collector.data(html.unescape(markup[position:]))
    collector.flush()
    yield from collector.take()


def list_archive_pieces(raw: bytes) -> Iterator[Piece]:
    """Yield the text in an archive of XML: a file of Word, PowerPoint, Excel or OpenDocument, or a book."""
    with open_archive(raw) as archive:
        shared = parse_xml(read_part(archive, "xl/sharedStrings.xml"))
        strings = [  # which the cells of a workbook point to, without phonetic guides
            "".join(node.text or "" for run in string if not run.tag.endswith("rPh") for node in run.iter())
            for string in shared
        ]
        for number, name in enumerate(archive.namelist()):
            for pattern, kind, grammar in _PARTS:
                if regex.fullmatch(pattern, name):
                    part, group = read_part(archive, name), number * 1_000_000
                    if grammar is _HTML:
                        yield from list_html_pieces(decode_page(part, Path(name))[0])
                    else:
                        yield from _list_xml_pieces(part, grammar, kind, group)
                    cells = _SHARED_STRING.finditer(part) if kind == "cell" else ()
                    yield from (Piece("cell", -place, strings[int(cell[1])]) for place, cell in enumerate(cells, group))


def _list_xml_pieces(part: bytes, grammar: _Grammar, kind: str, group: int) -> Iterator[Piece]:
    """Yield the text of XML. Raises ExpatError if it is damaged, and ValueError if it declares entities."""

    def refuse_entity(*declared: object) -> None:
        raise ValueError("it declares entities")

    collector, parser = _Collector(grammar, kind, group), ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = collector.start, collector.end
    parser.CharacterDataHandler, parser.EntityDeclHandler = collector.data, refuse_entity
    for start in range(0, len(part), _CHUNK):
        parser.Parse(part[start : start + _CHUNK], start + _CHUNK >= len(part))
        yield Piece("", 0, "")  # lets the caller look at the clock
        yield from collector.take()
    collector.flush()
    yield from collector.take()


@dataclass(slots=True)
class _Place:
    """An element that is a place: its name, the kind, which one it is, and how many elements of the name are open."""

    element: str
    kind: str
    group: int
    depth: int = 1


class _Collector:
    """Collects the text of markup up to each break, in the innermost place around it."""

    def __init__(self, grammar: _Grammar, kind: str, group: int) -> None:
        self._grammar, self._places, self._group = grammar, [_Place("", kind, group)], group
        self._pieces, self._text = list[Piece](), list[str]()
        self._silent, self._texts = 0, 0  # elements around that are silent, or of text

    def start(self, name: str, attributes: Any) -> None:
        """Take a start tag."""
        name, grammar = name[name.find(":") + 1 :].lower(), self._grammar
        if self._silent or name in grammar.silent:
            self._silent += 1
            return
        self._texts += name in grammar.texts
        if name in grammar.breaks:
            self.flush()
        kind = grammar.find_place(name, attributes) or grammar.places.get(name, "")
        name = "p" if name == _STYLE else name
        if kind and self._places[-1].kind not in ON_PURPOSE:
            self.flush()
            self._group += 1
            self._places.append(_Place(name, kind, self._group))
        elif self._places[-1].element == name and name != "p":
            self._places[-1].depth += 1

    def end(self, name: str) -> None:
        """Take an end tag."""
        name = name[name.find(":") + 1 :].lower()
        if self._silent:
            self._silent -= 1
            return
        self._texts -= name in self._grammar.texts
        if name in self._grammar.breaks:
            self.flush()
        if self._places[-1].element == name:
            self._places[-1].depth -= 1
            if self._places[-1].depth == 0:
                self.flush()
                self._places.pop()

    def data(self, text: str) -> None:
        """Take characters."""
        if not self._silent and (self._texts or not self._grammar.texts):
            self._text.append(text)

    def flush(self) -> None:
        """End a piece."""
        text = "".join(self._text)
        self._text.clear()
        if text and not text.isspace():
            self._pieces.append(Piece(self._places[-1].kind, self._places[-1].group, text))

    def take(self) -> list[Piece]:
        """Return the pieces that were not taken yet."""
        pieces, self._pieces = self._pieces, []
        return pieces
