"""The reader of OpenDocument texts and slides: their XML as the elements that files of Office have, too."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

import regex

from ragindex.corpus.readers.archives import explain_damage, get_attribute, get_count, open_archive, read_part
from ragindex.corpus.readers.content import FileContent, clean_title
from ragindex.corpus.readers.office import MOST_COLUMNS, build_document, build_slides
from ragindex.errors import DataError
from ragindex.types import MetadataValue

_LEFT_OUT = frozenset(("tracked-changes", "forms", "note-citation", "page-thumbnail", "event-listeners"))
_SPACES = {"s": " ", "tab": "\t", "line-break": "\n"}
_MOST_SPACES = 100
_MARGINS = ("header", "footer", "header-first", "footer-first", "header-left", "footer-left")
_WHITE_SPACE = regex.compile(r"[ \t\r\n]++")


class _Tree(TreeBuilder):
    """Builds the tree of a document without a document type, whose entities might expand without limit."""

    def doctype(self, *_: str | None) -> None:
        raise ValueError("it declares a document type")


def read_opendocument(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read an .odt or .odp file, without deleted text. Raises DataError if it is damaged or encrypted."""
    expected = "an OpenDocument file"
    with explain_damage(expected, raw, path, ParseError), open_archive(raw) as archive:
        if b"encryption-data" in read_part(archive, "META-INF/manifest.xml"):
            raise DataError(expected, "one that a password protects; save it without one", path=path)
        content = _parse(archive.read("content.xml"))
        styles, meta = (_parse(read_part(archive, name) or b"<missing/>") for name in ("styles.xml", "meta.xml"))
        return _build(content, styles, *_read_properties(meta))


def _read_properties(meta: Element) -> tuple[str, dict[str, MetadataValue]]:
    """Return title and other metadata."""
    properties = {_name(node): "".join(node.itertext()).strip() for node in meta.iter()}
    author = properties.get("initial-creator") or properties.get("creator", "")
    described = {"author": author, "subject": properties.get("subject", "")}
    return clean_title(properties.get("title", "")), {key: value for key, value in described.items() if value}


def _build(content: Element, styles: Element, title: str, metadata: Mapping[str, MetadataValue]) -> FileContent:
    if slides := [node for node in content.iter() if _name(node) == "page"]:
        return build_slides([_read_slide(slide) for slide in slides], title, metadata)
    titles = {"Title"} | {
        get_attribute(node, "name") for node in content.iter() if get_attribute(node, "parent-style-name") == "Title"
    }
    for node in content.iter():
        if _name(node) == "p" and get_attribute(node, "style-name") in titles:  # a heading above all others
            node.tag = "h"
            node.set("outline-level", "0")
    body = [node for node in content if _name(node) == "body"]
    margins = [
        {"elements": (), "header": {"content": _read_elements(node)}}
        for node in styles.iter()
        if _name(node) in _MARGINS
    ]
    return build_document([*margins, {"elements": _read_elements(body)}], title, metadata)


def _parse(part: bytes) -> Element:
    parser = XMLParser(target=_Tree())  # noqa: S314  # see `_Tree`
    parser.feed(part)
    tree: Element = parser.close()
    return tree


def _name(node: Element) -> str:
    return node.tag.rpartition("}")[2]


def _read_slide(slide: Element) -> dict[str, Any]:
    elements, notes = list[dict[str, Any]](), list[dict[str, Any]]()
    for shape in slide:
        kind = get_attribute(shape, "class")
        if _name(shape) == "notes":
            notes += _read_elements(node for node in shape if get_attribute(node, "class") != "page-number")
        elif kind == "title":
            elements.append(_make_paragraph([{"type": "text", "text": " ".join(shape.itertext())}], 1))
        elif kind != "page-number":
            elements += _read_elements([shape])
    return {"elements": elements, "speaker_notes": notes}


def _read_elements(nodes: Iterable[Element]) -> list[dict[str, Any]]:
    return [element for node in nodes if _name(node) not in _LEFT_OUT for element in _read_node(node)]


def _read_node(node: Element) -> list[dict[str, Any]]:
    name = _name(node)
    if name in _READERS:
        return _READERS[name](node)
    if name in _BOXES:
        author = next((child.text for child in node if _name(child) == "creator"), None)
        return [{"type": _BOXES[name], "author": author, "content": _read_elements(node)}]
    if name in ("title", "desc"):
        return [{"type": "image", "alt_text": "".join(node.itertext())}]
    return _read_elements(node)


def _make_paragraph(runs: list[dict[str, Any]], level: int | None) -> dict[str, Any]:
    return {"type": "paragraph" if level is None else "heading", "level": level, "content": runs}


def _read_paragraph(node: Element) -> list[dict[str, Any]]:
    """Return a paragraph, or a heading, and what is anchored in it: pictures, text boxes, footnotes, comments."""
    runs, anchored = list[dict[str, Any]](), list[dict[str, Any]]()
    _add_runs(node, "", runs, anchored)
    return [_make_paragraph(runs, get_count(node, "outline-level") if _name(node) == "h" else None), *anchored]


def _add_runs(node: Element, address: str, runs: list[dict[str, Any]], anchored: list[dict[str, Any]]) -> None:
    runs.append({"type": "text", "text": _WHITE_SPACE.sub(" ", node.text or ""), "hyperlink": address})
    for child in node:
        name = _name(child)
        if name in _SPACES:
            runs.append({"type": "text", "text": _SPACES[name] * min(get_count(child, "c"), _MOST_SPACES)})
        elif name in ("note", "annotation") or (":drawing:" in child.tag and name != "a"):
            anchored += _read_elements([child])
        elif name not in _LEFT_OUT:
            _add_runs(child, get_attribute(child, "href") or address, runs, anchored)
        runs.append({"type": "text", "text": _WHITE_SPACE.sub(" ", child.tail or ""), "hyperlink": address})


def _read_list(node: Element) -> list[dict[str, Any]]:
    """Return a list; of one that numbers headings, its elements."""
    contents = [_read_elements(item) for item in node]
    if any(element["type"] == "heading" for content in contents for element in content):
        return [element for content in contents for element in content]
    items = [
        {
            "content": [element for element in content if element["type"] != "list"],
            "nested": {
                "items": [item for element in content if element["type"] == "list" for item in element["items"]]
            },
        }
        for content in contents
    ]
    return [{"type": "list", "items": items}]


def _read_table(node: Element) -> list[dict[str, Any]]:
    rows = list[dict[str, Any]]()
    for row in _find_rows(node):
        cells = list[dict[str, Any]]()
        for cell in (cell for cell in row if _name(cell) == "table-cell"):
            content = {
                "content": _read_elements(cell),
                "col_span": get_count(cell, "number-columns-spanned"),
                "row_span": get_count(cell, "number-rows-spanned"),
            }
            cells += [content] * min(get_count(cell, "number-columns-repeated"), MOST_COLUMNS)
        rows.append({"cells": cells})
    return [{"type": "table", "rows": rows}]


def _find_rows(table: Element) -> Iterator[Element]:
    for node in table:
        if _name(node) == "table-row":
            yield node
        elif _name(node) in ("table-header-rows", "table-rows", "table-row-group"):
            yield from _find_rows(node)


_BOXES = {"text-box": "text_box", "note": "footnote", "annotation": "endnote"}
_READERS = {"p": _read_paragraph, "h": _read_paragraph, "list": _read_list, "table": _read_table}
