"""Readers of Word and PowerPoint files, of the present formats and the old ones, by office-oxide."""

import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, TypeAlias

import office_oxide
import regex

from ragindex.corpus.readers.archives import OLD_OFFICE, explain_damage, open_archive, read_parts
from ragindex.corpus.readers.content import ContentBuilder, FileContent, clean_title, is_relative
from ragindex.types import MetadataValue

_Kind: TypeAlias = Literal["doc", "docx", "ppt", "pptx"]
CORE_PROPERTIES = "docProps/core.xml"
"""The part of a file of Office that has its title."""
_STYLES, _TEXT = "word/styles.xml", "word/document.xml"
_TITLE_PROPERTY = regex.compile(rb"<(?:[\w.-]++:)?title(?:\s[^<>]*+)?>([^<]*+)<")
_TITLE_STYLE = regex.compile(rb'w:styleId="([^"]*+)"[^>]*+>\s*+<w:name w:val="title"', regex.IGNORECASE)
_WORDS = regex.compile(rb"<w:t(?:\s[^<>]*+)?>([^<]*+)</w:t>")
OfficeElement: TypeAlias = Mapping[str, Any]
"""A paragraph, heading, list, table, text box, picture, footnote or comment, or a section or slide of these."""
_NoteName: TypeAlias = tuple[str, int]
_NO_ALTERNATIVE_TEXT = regex.compile(
    r"(?:fig:)?\s*+.*\.(?:png|jpe?g|gif|bmp|tiff?|emf|wmf|svg)|Embedded .*|(?:Picture|Image|Graphic) \d+",
    regex.IGNORECASE | regex.DOTALL,
)
"""What stands for a picture's text where nobody wrote one: the name of its file, or the kind of object that it is."""
MOST_COLUMNS = 100
"""The most columns that a merged cell is taken to cover; Word allows 63, PowerPoint 75."""
_TRUNCATED = "— document truncated]"  # the library's mark where it leaves something out
_NOTES = ("footnote", "endnote")
_FIRST_LETTERS = {"lower_alpha": "a", "upper_alpha": "A"}
_MARGINS = tuple(f"{pages}{place}" for place in ("header", "footer") for pages in ("first_page_", "", "even_page_"))


def read_word(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read a Word file, without deleted text. Raises DataError if it is damaged or encrypted."""
    with explain_damage("a Word file", raw, path, office_oxide.OfficeOxideError):
        properties, styles, text = read_parts(raw, CORE_PROPERTIES, _STYLES, _TEXT)
        written = _write_out_phonetic_guides(raw, text) if b"<w:ruby>" in text else raw
        document = _convert(written, "doc", "docx")
        titles = _find_title_paragraphs(styles, text)
        for element in (element for section in document["sections"] for element in section["elements"]):
            if element["type"] == "paragraph" and read_paragraph(element) in titles:
                element |= {"type": "heading", "level": 0}
        return build_document(document["sections"], *_read_properties(properties, document))


def read_slides(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read a PowerPoint file; `page` is the slide. Raises DataError if it is damaged or encrypted."""
    with explain_damage("a PowerPoint file", raw, path, office_oxide.OfficeOxideError):
        (properties,) = read_parts(raw, CORE_PROPERTIES)
        document = _convert(raw, "ppt", "pptx")
        return build_slides(document["sections"], *_read_properties(properties, document))


def _convert(raw: bytes, old: _Kind, present: _Kind) -> dict[str, Any]:
    kind = old if raw.startswith(OLD_OFFICE) else present
    document: dict[str, Any] = office_oxide.Document.from_bytes(raw, kind).to_ir()
    return document


def _read_properties(part: bytes, document: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Return title and other metadata. Where the properties have no title, the library gives the first heading."""
    properties, headings = document["metadata"], {section.get("title") for section in document["sections"]}
    title = properties.get("title", "")
    title = read_title_property(part) or ("" if title in headings else clean_title(title))
    return title, {key: properties[key] for key in ("author", "subject") if properties.get(key)}


def read_title_property(part: bytes) -> str:
    """Return the title in the part with a file's properties; empty if it has none that a person wrote."""
    match = _TITLE_PROPERTY.search(part)
    return clean_title(_decode(match[1])) if match else ""


def _find_title_paragraphs(styles: bytes, text: bytes) -> frozenset[str]:
    """Return the paragraphs of a .docx file in the style "Title", which office-oxide does not tell from others."""
    style = _TITLE_STYLE.search(styles)
    if style is None:
        return frozenset()
    mark = b'<w:pStyle w:val="%s"' % style[1]
    paragraphs = (part.rpartition(mark) for part in text.split(b"</w:p>"))
    return frozenset(
        " ".join(_decode(b"".join(_WORDS.findall(after))).split()) for _, marked, after in paragraphs if marked
    )


def _write_out_phonetic_guides(raw: bytes, text: bytes) -> bytes:
    """Return a .docx file with phonetic guides in brackets behind their words; office-oxide drops both."""
    before, *pieces = text.split(b"<w:ruby>")
    parts, target = [before], BytesIO()
    for piece in pieces:
        ruby, _, after = piece.partition(b"</w:ruby>")
        guide, _, base = (b"".join(_WORDS.findall(part)) for part in ruby.partition(b"<w:rubyBase>"))
        parts += [b"<w:t>%s(%s)</w:t>" % (base, guide), after]
    with open_archive(raw) as source, zipfile.ZipFile(target, "w") as archive:
        for part in source.infolist():
            archive.writestr(part.filename, b"".join(parts) if part.filename == _TEXT else source.read(part))
    return target.getvalue()


def _decode(xml: bytes) -> str:
    return unescape(xml.decode(errors="replace"))


def build_document(sections: Sequence[OfficeElement], title: str, metadata: Mapping[str, MetadataValue]) -> FileContent:
    """Return the content of a text document.

    Footnotes and comments follow the paragraph that refers to them. Each header and footer stands once, at the end.
    """
    elements = [element for section in sections for element in section["elements"]]
    all_notes = {_name_note(element): element for element in elements if element["type"] in _NOTES}
    references = _find_references([element for element in elements if element["type"] not in _NOTES])
    notes = {name: all_notes[name] for name in references if name in all_notes}
    builder, margins = ContentBuilder(), dict[str, None]()
    for section in sections:
        _add_elements(builder, section["elements"], notes)
        margins |= {_read_text(section[margin]["content"]): None for margin in _MARGINS if margin in section}
    for text in margins:
        builder.add_paragraph(text)
    return builder.build(title, metadata, _finish(builder, sections))


def build_slides(sections: Sequence[OfficeElement], title: str, metadata: Mapping[str, MetadataValue]) -> FileContent:
    """Return the content of slides, each with its comments and the speaker's notes."""
    builder, hidden, number = ContentBuilder(), list[str](), 0
    for section in sections:
        heading = next((element for element in section["elements"] if element["type"] == "heading"), None)
        if heading or section.get("title") != "Slide Master":  # what all slides show stands after the last one
            number += 1
            builder.start_page(number, read_paragraph(heading) if heading else "")
            hidden += [str(number)] if section.get("hidden") else []
        elements = [element for element in section["elements"] if element.get("placeholder_role") != "sldNum"]
        titled = [{**element, "level": 0} if element["type"] == "heading" else element for element in elements]
        _add_elements(builder, titled, {})
        _add_elements(builder, section.get("speaker_notes", ()), {})
    notes = [*note_hidden("slide", hidden), *_finish(builder, sections)]
    return builder.build(title, {**metadata, "pages": number}, notes)


def note_hidden(what: str, names: Sequence[str]) -> list[str]:
    """Return the note that hidden slides or sheets are read like others, if there are any."""
    verb = "s are" if len(names) > 1 else " is"
    return [f"{len(names)} hidden {what}{verb} read: {', '.join(names)}"] if names else []


def read_paragraph(element: OfficeElement) -> str:
    """Return the text of a paragraph or heading in one line."""
    return " ".join(_read_element(element).split())


def _finish(builder: ContentBuilder, sections: Sequence[OfficeElement]) -> list[str]:
    """Add the hyperlinks to other files, and return the note of what the library left out."""
    runs = [item for item in _find_objects(sections) if item.get("type") == "text"]
    for run in runs:
        address = run.get("hyperlink", "")
        if is_relative(address):
            builder.add_link(run["text"], address)
    return ["what is nested too deeply is left out"] if any(_TRUNCATED in run["text"] for run in runs) else []


def _add_elements(
    builder: ContentBuilder, elements: Sequence[OfficeElement], notes: Mapping[_NoteName, OfficeElement]
) -> None:
    """Add elements. Each of `notes` stands where it is referred to, and not at its own place."""
    for element in elements:
        if frame := _find_frame(element):
            _add_elements(builder, frame, notes)
            continue
        if element["type"] == "heading":
            builder.add_heading(_read_element(element), element["level"])
        elif element["type"] == "list":
            builder.add_paragraph("\n".join(_format_items(element, "")))
        elif element["type"] == "table":
            builder.add_table(_read_rows(element["rows"]))
        elif _name_note(element) not in notes:
            builder.add_paragraph(_read_element(element))
        references = dict.fromkeys(name for name in _find_references(element) if name in notes) if notes else ()
        for name in references:
            builder.add_paragraph(_read_element(notes[name]))


def _find_frame(element: OfficeElement) -> Sequence[OfficeElement]:
    """Return what is in a table of one cell, or in a text box with more than paragraphs; nothing for the rest."""
    content: Sequence[OfficeElement] = ()
    if element["type"] == "text_box" and any(inner["type"] != "paragraph" for inner in element["content"]):
        content = element["content"]
    elif len(element.get("rows", ())) == 1 == len(element["rows"][0]["cells"]):
        content = element["rows"][0]["cells"][0]["content"]
    return content


def _read_text(elements: Sequence[OfficeElement]) -> str:
    """Return the text of elements, a line or more for each."""
    return "\n".join(text for element in elements if (text := _read_element(element).strip()))


def _read_element(element: OfficeElement) -> str:
    match element["type"]:
        case "paragraph" | "heading":
            return "".join("\n" if run["type"] == "line_break" else run.get("text", "") for run in element["content"])
        case "image":
            alternative = element.get("alt_text") or ""
            return "" if _NO_ALTERNATIVE_TEXT.fullmatch(alternative) else alternative
        case "list":
            return "\n".join(
                text
                for item in element["items"]
                for text in (
                    _read_text(item["content"]),
                    _read_element({"type": "list", **item["nested"]}) if item.get("nested") else "",
                )
                if text
            )
        case "table":
            return "\n".join(_read_text(cell["content"]) for row in element["rows"] for cell in row["cells"])
    text = _read_text(element.get("content", ()))
    return f"Comment ({element['author']}): {text}" if element.get("author") else text


def _format_items(items: OfficeElement, indentation: str) -> Iterator[str]:
    """Yield the items of a list as lines of Markdown."""
    first = items.get("start_number") or 1
    for number, item in enumerate(items["items"], start=first):
        letter = _FIRST_LETTERS.get(items.get("style") or "")
        label = chr(ord(letter) + number - 1) if letter and number <= 26 else str(number)
        marker = f"{label}." if items.get("ordered") else "-"
        if text := _read_text(item["content"]):
            yield f"{indentation}{marker} " + text.replace("\n", f"\n{indentation}  ")
        if item.get("nested"):
            yield from _format_items(item["nested"], f"{indentation}  ")


def _read_rows(rows: Sequence[OfficeElement]) -> list[list[str]]:
    """Return the cells of a table, a merged one once, and without blank rows."""
    grid, covered = list[list[str]](), defaultdict[int, int](int)  # column: rows below that a merged cell covers
    for row in rows:
        cells = list[str]()
        for cell in [*row["cells"], None]:
            while covered[len(cells)]:
                covered[len(cells)] -= 1
                cells.append("")
            if cell is not None:
                width = min(cell["col_span"], MOST_COLUMNS)
                covered |= {column: cell["row_span"] - 1 for column in range(len(cells), len(cells) + width)}
                cells += [_read_text(cell["content"]), *[""] * (width - 1)]
        grid.append(cells)
    return [cells for cells in grid if any(cells)]


def _find_objects(value: Any) -> Iterator[OfficeElement]:
    """Yield all objects in a value in order."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting += reversed(value.values())
        elif isinstance(value, list):
            waiting += reversed(value)


def _name_note(element: OfficeElement) -> _NoteName:
    """Return the kind and number of a footnote or comment; the library gives comments as endnotes."""
    is_comment = "author" in element or str(element.get("marker")).casefold().startswith("comment")
    return "comment" if is_comment else element["type"], element.get("id", -1)


def _find_references(value: Any) -> Iterator[_NoteName]:
    """Yield the kinds and numbers of the footnotes and comments that runs of a text refer to."""
    for item in _find_objects(value):
        kind = str(item.get("type"))
        if kind.endswith("_ref"):
            yield kind.removesuffix("_ref"), item.get("note_id", item.get("comment_id", -1))
