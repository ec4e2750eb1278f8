"""Reader of reStructuredText: headings, header fields, and the visible text of roles, hyperlinks and directives.

docutils, its parser, takes 19 seconds a megabyte, does not know the directives and roles of Sphinx, whose text is lost,
raises KeyError on 2 % of Ansible's files and says of no element where it stands.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path

import regex

from ragindex.corpus.readers.content import (
    Blocks,
    FileContent,
    clean_text,
    find_heading_paths,
    is_relative,
    link_metadata,
)
from ragindex.corpus.readers.front_matter import make_metadata
from ragindex.corpus.readers.text_encodings import decode_text, name_encoding

_UNDERLINE = regex.compile(r"([!-/:-@\[-`{-~])\1+[ \t]*")  # a line of one repeated mark
_SHORTEST_UNDERLINE = 4  # docutils takes shorter ones only below titles as short
_LONGEST_HEADING, _LONGEST_FIELD = 200, 1_000  # characters that are kept
_HEADER = regex.compile(r"(?:^[A-Z][\w-]*+:(?:[ \t][^\n]*+)?\n(?:[ \t]++\S[^\n]*+\n)*+)++", regex.MULTILINE)
_DOCINFO = regex.compile(r"\s*+(?:^:[A-Za-z][\w -]*+:(?:[ \t][^\n]*+)?\n(?:[ \t]++\S[^\n]*+\n)*+)++", regex.MULTILINE)
_FIELD = regex.compile(r"^:?([A-Za-z][\w -]*+):((?:[ \t][^\n]*+)?(?:\n[ \t]++\S[^\n]*+)*+)", regex.MULTILINE)
_NO_TEXT_LINE = regex.compile(r"(?:\.\.|[ \t:|])[^\n]*|([!-/:-@\[-`{-~])\1*")  # directive, field, picture, overline
_HIDDEN = regex.compile(  # targets and comments
    r"""^([ \t]*+)\.\. (?:
          [ \t]++_[^\n]++(?:\n|\Z)
        | [ \t]*+(?=\n[ \t]*+(?:\n|\Z)|\Z)
        | (?:[ \t]*+(?=\n) | [ \t]++(?!\[|_|\||[\w:+.-]+::)[^\n]++) (?:\n(?:[ \t]*+\n)*+\1[ \t]++\S[^\n]*+)*+ )""",
    regex.MULTILINE | regex.VERBOSE,
)
_DIRECTIVE = regex.compile(
    r"""^(?<indent>[ \t]*+)\.\.[ ]++(?<name>[\w:+.-]++)(?<=::)[ \t]*+(?<argument>[^\n]*+)
        (?<options>(?:\n(?P=indent)[ \t]++:[\w-]++:(?:[ \t][^\n]*+)?)*+)""",
    regex.MULTILINE | regex.VERBOSE,
)
_TOC = regex.compile(
    r"^([ \t]*+)\.\.[ ]++toctree::[^\n]*+(?:\n\1[ \t]++:[^\n]*+)*+((?:\n(?:[ \t]*+(?=\n)|\1[ \t]++\S[^\n]*+))*+)",
    regex.MULTILINE,
)
_ALTERNATIVE = regex.compile(r":alt:[ \t]*+([^\n]*+)")
_NAMES = {
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version",
    "seealso": "See also",
    **{name: name.capitalize() for name in ("attention", "caution", "danger", "error", "hint", "important", "note")},
    **{name: name.capitalize() for name in ("tip", "todo", "warning")},
}
"""What is shown of directives; of others it is their argument."""
_TABLES = ("+", "=", ".. table::", ".. csv-table::", ".. list-table::")
"""What blocks that are tables begin with."""
_NOT_SHOWN = frozenset(
    (
        *("automodule", "autoclass", "code", "code-block", "contents", "currentmodule", "default-role", "highlight"),
        *("include", "index", "literalinclude", "meta", "module", "py:currentmodule", "py:module", "raw", "role"),
        *("rst-class", "sectnum", "sourcecode", "target-notes"),
    )
)
_INLINE = regex.compile(
    r"``(?s:.{1,1000}?)``|(?<![\w`])(?::(?<role>[\w:+.-]++)(?<=:))?`(?<text>[^`]{1,1000}+)`(?<link>__?)?"
)
_TITLED = regex.compile(r"([^<>]*[^<>\s])\s*+<([^<>]++)>")
_LITERAL_ROLES = frozenset(("code", "command", "file", "guilabel", "kbd", "literal", "math", "menuselection", "samp"))

_OPENING = regex.compile(
    r"""^[ \t]*+(?:
        (?<directive>\.\.[ ]++(?:code|code-block|sourcecode|parsed-literal|doctest|testcode|testoutput|prompt
            |table|csv-table|list-table)::(?=[ \t\n]|\Z))
      | (?<grid>\+(?:[-=]+\+)+[ \t]*$)
      | (?<simple>=+(?:[ ]+=+)+[ \t]*$)
      | (?<doctest>>>>[ ])
      | (?!\.\.[ ])(?<literal>[^\n]*(?<!:)::[ \t]*$) )""",
    regex.MULTILINE | regex.VERBOSE,
)
_ITEM = regex.compile(r"(?:(?:[-*+•]|\(?(?:\d+|#|\w)[.)])\s+)*")
_SIMPLE_BORDER = regex.compile(r"\s*=+(?: +=+)+\s*")

_Links = dict[tuple[str, str], None]


def read_restructured_text(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read reStructuredText. The level of a heading is the place of its underline's mark, in order of appearance.

    Roles, hyperlinks and directives become their visible text, and comments and targets are no text. The fields of an
    RFC 2822 header, as PEPs have it, and of a docinfo list are metadata, and remain text.
    """
    decoded, detected = decode_text(raw, path, encoding)
    source = clean_text(decoded)
    fields, title = _read_fields(source), _find_title(source)
    text, links = _show_markup(source)
    name = fields.get("title", "")
    if name and "pep" in fields:
        name = f"PEP {fields['pep']} – {name}"
    return FileContent(
        name or title,
        text,
        find_heading_paths([*_find_headings(text)]),
        {**make_metadata(fields), **link_metadata(links), **name_encoding(detected)},
        _find_blocks(text),
    )


def _find_headings(text: str) -> Iterator[tuple[int, int, str]]:
    lines, start, marks = text.split("\n"), 0, list[str]()
    for place, line in enumerate(lines):
        under = lines[place + 1] if place + 1 < len(lines) else ""
        over = lines[place - 1] if place else ""
        titled = bool(line.strip()) and not _UNDERLINE.fullmatch(line) and _UNDERLINE.fullmatch(under)
        if titled and len(under.rstrip()) >= min(_SHORTEST_UNDERLINE, len(line.rstrip())):
            mark = under[0] + ("o" if over.rstrip() == under.rstrip() else "")
            if mark not in marks:
                marks.append(mark)
            yield start, marks.index(mark) + 1, line.strip()[:_LONGEST_HEADING].strip()
        start += len(line) + 1


def _find_title(source: str) -> str:
    """Return the first heading if only directives, comments, fields and pictures stand above it."""
    start, _, heading = next(_find_headings(source), (0, 0, ""))
    above = source[:start].split("\n")
    return _show_markup(heading)[0] if all(not line or _NO_TEXT_LINE.fullmatch(line) for line in above) else ""


def _read_fields(source: str) -> dict[str, str]:
    """Return the fields of the header that a text begins with, or of the list at its start or below its title."""
    source = source.rstrip("\n") + "\n"
    header = _HEADER.match(source)
    if header is None or "\nTitle:" not in f"\n{header[0]}":
        start, _, heading = next(_find_headings(source), (0, 0, ""))
        below = source.find("\n", start + len(heading) + 1) + 1
        header = _DOCINFO.match(source) or (_DOCINFO.match(source, below) if heading and below else None)
    fields = _FIELD.findall(header[0]) if header else ()
    return {name.lower(): " ".join(value.split())[:_LONGEST_FIELD] for name, value in fields if value.strip()}


def _show_markup(source: str) -> tuple[str, _Links]:
    """Return a text with the visible text of its markup outside of code, and its hyperlinks to other files."""
    links, pieces, above = _Links(), list[str](), 0
    for start, end in (*_find_blocks(source), (len(source), len(source))):
        piece = _TOC.sub(lambda match: _show_contents(match, links), _HIDDEN.sub("", source[above:start]))
        pieces.append(_show_inlines(_DIRECTIVE.sub(_show_directive, piece), links))
        block = source[start:end]
        pieces.append(_show_inlines(block, links) if block.startswith(_TABLES) else block)
        above = end
    return "".join(pieces), links


def _show_directive(match: regex.Match[str]) -> str:
    name, argument = match["name"].removesuffix("::"), match["argument"].strip()
    if name.lower() in ("image", "figure"):
        alternative = _ALTERNATIVE.search(match["options"])
        argument = alternative[1].strip() if alternative else ""
    elif shown := _NAMES.get(name.lower()):
        argument = f"{shown}{'' if name.startswith(('version', 'deprecated')) else ':'} {argument}"
    elif name in _NOT_SHOWN:
        argument = ""
    return match["indent"] + argument.rstrip() if argument else ""


def _show_contents(match: regex.Match[str], links: _Links) -> str:
    """Return the entries of a table of contents, a line each."""
    entries = list[str]()
    for entry in filter(None, map(str.strip, match[2].split("\n"))):
        entry_text, target = _split_target(entry)
        _add_link(links, entry_text, _name_file(target))
        entries.append(f"{match[1]}{entry_text}")
    return "\n".join(entries) + match[2][len(match[2].rstrip()) :]


def _show_inlines(text: str, links: _Links) -> str:
    return str(_INLINE.sub(lambda match: _show_inline(match, links), text))


def _show_inline(match: regex.Match[str], links: _Links) -> str:
    role, text = (match["role"] or "").rstrip(":").rpartition(":")[2].lower(), match["text"]
    if text is None or not (role or match["link"]):  # code, or interpreted text without a role
        return match[0]
    if role in _LITERAL_ROLES:
        return text
    link_text, target = _split_target(text)
    if role in ("pep", "rfc"):
        number = target.partition("#")[0]
        link_text = link_text if link_text != target else f"{role.upper()} {target}"
        target = f"pep-{number.zfill(4)}.rst" if role == "pep" and number.isdecimal() else ""
    elif role == "doc":
        target = _name_file(target)
    elif role:
        link_text = link_text.removeprefix("!") if not link_text.startswith("~") else link_text[1:].rpartition(".")[2]
        target = ""
    _add_link(links, link_text, target if target != link_text or role else "")
    return link_text


def _split_target(text: str) -> tuple[str, str]:
    """Return what is shown of `text <target>`, and the target; both are the text if it names none."""
    titled = _TITLED.fullmatch(text.strip())
    return (titled[1].strip(), titled[2].strip()) if titled else (text, text.strip())


def _name_file(target: str) -> str:
    return target if target.endswith(".rst") else f"{target}.rst"


def _add_link(links: _Links, link_text: str, target: str) -> None:
    if target and not target.endswith("_") and is_relative(target):  # a name and _ is that of a target elsewhere
        links[" ".join(link_text.split()), target] = None


# ---------------------------------------------------------------- tables and code


def _find_blocks(text: str) -> Blocks:
    """Return the start and end of literal blocks, code and table directives, doctests, and grid and simple tables."""
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    blocks, at = list[tuple[int, int]](), 0
    while (opening := _OPENING.search(text, at)) is not None:
        at = opening.end()
        first, end = _find_lines(opening.lastgroup or "", lines, bisect_right(starts, opening.start()) - 1)
        inside = text[starts[first] : starts[end]]
        if inside.strip():
            at = starts[first] + len(inside.rstrip())
            blocks.append((starts[first] + len(inside) - len(inside.lstrip()), at))
    return tuple(blocks)


def _find_lines(kind: str, lines: Sequence[str], place: int) -> tuple[int, int]:
    """Return the first line of the block that the line at `place` opens, and the line after it; equal if none."""
    if kind == "grid":
        below = _skip(lines, place, lambda line: line.lstrip().startswith(("+", "|")))
        end = next(number for number in range(below, place, -1) if lines[number - 1].lstrip().startswith("+"))
        return place, end if end - place > 2 else place
    if kind == "doctest":
        return place, _skip(lines, place, lambda line: bool(line.strip()))
    if kind == "simple":
        borders = list(_find_borders(lines, place + 1))
        return place, borders[-1] + 1 if borders else place
    item = _ITEM.match(lines[place].strip()) if kind == "literal" else None
    indent = _indent(lines[place]) + (len(item[0]) if item else 0)
    content = _skip(lines, place + 1, lambda line: not line.strip())
    end = _skip(lines, content, lambda line: not line.strip() or _indent(line) > indent)
    if content == end or kind == "directive":
        return place, end if content < end else place
    return content, end if content > place + 1 else content


def _find_borders(lines: Sequence[str], start: int) -> Iterator[int]:
    """Yield the borders of a simple table below its first: the second ends it, or the first with a blank line below."""
    borders = (number for number in range(start, len(lines)) if _SIMPLE_BORDER.fullmatch(lines[number]))
    for border in islice(borders, 2):
        yield border
        if border + 1 == len(lines) or not lines[border + 1].strip():
            return


def _skip(lines: Sequence[str], start: int, belongs: Callable[[str], bool]) -> int:
    """Return the first line from `start` on that does not belong to the block."""
    return next((number for number in range(start, len(lines)) if not belongs(lines[number])), len(lines))


def _indent(line: str) -> int:
    spread = line.expandtabs()
    return len(spread) - len(spread.lstrip())
