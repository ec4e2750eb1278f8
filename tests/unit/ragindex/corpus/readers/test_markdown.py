"""Readers of Markdown, notebooks, reStructuredText, AsciiDoc, Org and TeX: tables of kinds, and properties."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st

from ragindex import read
from ragindex.corpus.readers import READERS, FileContent
from ragindex.corpus.readers.front_matter import split_front_matter
from ragindex.corpus.readers.markdown import parse_markdown
from ragindex.errors import DataError

BYTES = "data:image/png;base64," + "iVBORw0KGgo" * 9


def read_file(name: str, content: str) -> FileContent:
    return READERS[Path(name).suffix](content.encode(), Path(name), None)


def sections(content: FileContent) -> list[tuple[str, tuple[str, ...]]]:
    """The first line of each section, and its headings."""
    return [(content.text[section.start :].partition("\n")[0], section.headings) for section in content.sections]


# ---------------------------------------------------------------- Markdown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# A\n\n## B ##\n\nC *d*\n---\n\n# `e` [f](g.md)", [(0, 1, "A"), (5, 2, "B"), (14, 2, "C d"), (25, 1, "e f")]),
        ("```\n# a\n```\n    # b\n\n> # c\n\n- # d\n\n#e\n\n\\# f", []),  # code, quotation, list, text
        ("- ```\n  a\n  ```\n\n# B", [(17, 1, "B")]),
        ("two\nlines\n===\n\n### D\n---", [(0, 1, "two lines"), (15, 3, "D")]),
        ('text\n\n<h1 align="center">A <b>b</b></h1>\n\n# <a id="c"></a>C', [(6, 1, "A b"), (42, 1, "C")]),
        ("#\n\n# " + "x" * 300, [(3, 1, "x" * 200)]),
    ],
)
def test_headings(text: str, expected: list[tuple[int, int, str]]) -> None:
    assert list(parse_markdown(text).headings) == expected


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("\n\n## A\n\n# B", "A"),
        ("Set out\n=======\n\n# Later", "Set out"),
        ("   # Indented", "Indented"),
        ("    # Code\n#Not a heading\n####### Seven", ""),
        ("#\n# \n# Third", "Third"),
        ('[![build](a.svg)](ci)\n<p align="center">\n<img src=a>\n</p>\n\n# B', "B"),
        ("text\n\n# A", ""),
        ("    code\n\n# A", ""),
        ("<h1>A</h1>\ntext", "A"),
        ("<p>text</p><h1>A</h1>", ""),
        ("---\ntitle: F\n---\n# A", "F"),
        ("---\ntitle: 3.10\n---\n# A", "3.10"),  # as it is written
        ("---\ntitle: [x]\n---\n# A", "A"),
        ("+++\ntitle = 'F'\n+++\n# A", "F"),
        ('{\n "title": 7\n}\n# A', "7"),
        ("---\ntitle: [\n---\n# A", ""),
    ],
)
def test_title(text: str, title: str) -> None:
    assert read_file("a.md", text).title == title


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# A {#b}\n\nC {#d}\n---\n\nend {#e}", "# A\n\nC\n---\n\nend {#e}"),
        ("# A {: #b } ##\n", "# A ##\n"),
        (
            "<!-- a\n# b -->\n# C\n\n`<!-- d -->`\n\n```\n<!-- e -->\n```\nf<!-- g -->",
            "\n# C\n\n`<!-- d -->`\n\n```\n<!-- e -->\n```\nf",
        ),
        ("<!-- ```\n-->a\n\n    <!--\n\nb <!-- c\n\n- ```\n  --> d\n  ```\ne", "a\n\n    <!--\n\nb  d\n  ```\ne"),
        ("a <!-- open", "a <!-- open"),
        (
            "<script a='m'>\nlet a = '# b';\n\n# c\n</SCRIPT>\n# D\n\n`<script>` e\n\n```\n<style>f</style>\n```\ng",
            "\n# D\n\n`<script>` e\n\n```\n<style>f</style>\n```\ng",
        ),
        ("a<style>p { top: 0 }</style> b <scripted>c</scripted>", "a b <scripted>c</scripted>"),
        ("a <script> b\n\n<STYLE>c</style>d", "a <script> b\n\nd"),  # one is never closed
        (f"a ![b\nc]({BYTES} 'd') e", "a b\nc e"),
        (f"[![b]({BYTES})](c.md)", "[b](c.md)"),
        (f"a ![][Image1] ![c][x] ![d]\n\n[image1]: <{BYTES}>\n[d]: {BYTES}\nend", "a  ![c][x] d\n\nend"),
        (f"<img alt='b &amp; c' src='{BYTES}'/> <img src={BYTES}> <img src=d.png>", "b & c  <img src=d.png>"),
        (
            f"```\n![b]({BYTES})\n```\n`![c](data:image/gif,d)`",
            "```\n![b](data:image/png;base64,)\n```\n`![c](data:image/gif,d)`",
        ),
        (
            f"[font]({BYTES.replace('image/png', 'font/woff;charset=utf-8')})",
            "[font](data:font/woff;charset=utf-8;base64,)",
        ),
    ],
)
def test_what_is_no_text_is_left_out(text: str, expected: str) -> None:
    assert read_file("a.md", text).text == expected


@pytest.mark.parametrize(
    ("text", "links", "hyperlinks"),
    [
        ("[a *b*](c.md#d) [e](https://f) [g](#h) [](i.md) [j](mailto:k)", [("a b", "c.md#d")], []),
        ("[a][b], [b] and [x]\n\n[b]: c/d.md", [("a", "c/d.md"), ("b", "c/d.md")], [["a", "c/d.md"], ["b", "c/d.md"]]),
        ("| [a](b.md) |\n|-|\n| `[c](d.md)` |\n\n![e](f.png) [![g](h.png)](i.md)", [("a", "b.md"), ("g", "i.md")], []),
        ("[a](http://[b)", [], []),
    ],
)
def test_links(text: str, links: list[tuple[str, str]], hyperlinks: list[list[str]]) -> None:
    """Metadata has those whose address does not stand beside the text."""
    assert list(parse_markdown(text).links) == links
    assert read_file("a.md", text).metadata.get("hyperlinks", []) == hyperlinks


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("!!! note\n    a\n\n    b\n\n    ```\n    c\n    ```\n", ["```\n    c\n    ```"]),
        (
            '=== "Tab"\n\n    ???+ tip\n\n        a\n\n        | b |\n        |---|\n\nc\n\n    d',
            ["| b |\n        |---|", "d"],
        ),
        ("Term\n:   text\n\n    more", []),
        ("> ```\n> a\n> ```", ["> ```\n> a\n> ```"]),
    ],
)
def test_blocks_in_notes_tabs_and_quotations(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in parse_markdown(text).blocks] == expected


@example("\t\x0b")
@given(st.text(alphabet="#=-`~>|[]() ab\n{}<h1/!\t:?\x0b\u2028", max_size=80))
def test_what_is_found_in_any_text_stands_where_it_is_said(text: str) -> None:
    structure = parse_markdown(text)
    after = 0
    for start, end in structure.blocks:
        assert after <= start < end <= len(text)
        assert text[start:end] == text[start:end].strip()
        after = end
    for start, level, heading in structure.headings:
        assert heading == " ".join(heading.split())
        assert heading.split()[0][0] in text[start:].partition("\n")[0]
        assert 1 <= level <= 6
    assert [place for place, _, _ in structure.headings] == sorted(place for place, _, _ in structure.headings)


@pytest.mark.parametrize(
    "opening",
    [
        ">",
        "- ",
        "[",
        "![",
        "<!--",
        "<script>",
        "<style><script>",
        "# a\n",
        "    " * 400 + "!!! a\n\n",
        "`<h1>",
        "[a]: data:",
    ],
)
def test_markup_that_is_repeated_or_nested_is_text(opening: str) -> None:
    text = f"Ely {opening * (2_000 // len(opening) + 1)}"
    assert read_file("a.md", text).text == text


# ---------------------------------------------------------------- front matter


@pytest.mark.parametrize(
    ("text", "metadata"),
    [
        (
            "---\ndate: 2024-05-01\ntags: [a, 2, {x: y}]\nnested: {a: b}\ndraft: no\nsource: s\nmodified: 3\n---\n",
            {"date": "2024-05-01", "tags": ["a", 2], "draft": False, "author_source": "s", "author_modified": 3},
        ),
        (
            "+++\ndate = 2024-05-01\nat = 07:30:00\ntags = ['a']\n[nested]\na = 1\n+++\n",
            {"date": "2024-05-01", "at": "07:30:00", "tags": ["a"]},
        ),
        ('{"title": "T", "author": "A", "none": null}\n', {"author": "A"}),
        (
            '---\na: .nan\nb: "\\uD800"\nc: 0x' + "f" * 5_000 + "\nd: 7\nhyperlinks: x\ntext_encoding: y\n---\n",
            {"d": 7},
        ),
    ],
)
def test_front_matter_is_metadata(text: str, metadata: dict[str, Any]) -> None:
    content = read_file("a.md", f"{text}\nBody")
    assert (content.text, content.metadata, content.notes) == ("Body", metadata, ())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("---\n\nA rule\n---\nBody", ""),
        ("---\n[1, 2]\n---\nBody", ""),
        ("---\na: b\nBody", ""),
        ("--- \n---\n", ""),
        ("text\n---\na: b\n---\n", ""),
        ("{% include x %}\n", ""),
        ("---\na: [\n---\nBody", "flow node"),
        ("---\ntitle: A: b\n---\nBody", "mapping values"),
        ("---\nday: 2024-13-45\n---\nBody", "month"),
        (f"---\na: {'x' * 20_000}\n---\nBody", "more than 20,000 characters"),
        ("+++\na = \n+++\nBody", "Invalid value"),
        ('{"a" 1}\n', "':' delimiter"),
        ('{"a": ' + "[" * 19_000, "deep"),  # Python 3.13 reads 9,000
    ],
)
def test_what_cannot_be_read_stays_text_with_a_note(text: str, reason: str) -> None:
    front = split_front_matter(text)
    assert (front.title, front.metadata, front.text) == ("", {}, text)
    assert len(front.notes) == bool(reason)
    assert reason in " ".join(front.notes)


@given(st.text(st.sampled_from("-:ab \n[]{}&*!'\"#|>.,0"), max_size=60), st.sampled_from(["---", "+++"]))
def test_any_front_matter(text: str, mark: str) -> None:
    front = split_front_matter(f"{mark}\n{text}\n{mark}\nBody")
    assert front.text.endswith("Body")
    assert all(isinstance(key, str) for key in front.metadata)


def test_a_folder_keeps_its_own_fields_and_notes_what_was_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("---\nsource: wiki\ntitle: 2024\n---\nBody")
    (tmp_path / "b.md").write_text("---\na: [\n---\nBody")
    corpus = read(tmp_path)
    first, second = corpus.documents
    assert (first.title, first.metadata["source"], first.metadata["author_source"]) == ("2024", "a.md", "wiki")
    assert second.title == "b"
    assert any(note.startswith("b.md: its front matter cannot be read") for note in corpus.notes)


# ---------------------------------------------------------------- notebooks


def test_a_notebook() -> None:
    cells = [
        {
            "cell_type": "markdown",
            "source": ["# Fit {#fit}\n", f"We fit it. ![a plot]({BYTES})"],
            "attachments": {"a": BYTES},
        },
        {"cell_type": "code", "source": "# set up\nfit()", "outputs": [{"text": "noise", "data": BYTES}]},
        {"cell_type": "markdown", "source": "## Result"},
        {"cell_type": "code", "source": []},
        "no cell",
    ]
    content = read_file("a.ipynb", json.dumps({"cells": cells, "metadata": {"title": "Tides"}}))
    assert content.text == "# Fit\nWe fit it. a plot\n\n```\n# set up\nfit()\n```\n\n## Result"
    assert (content.title, sections(content)) == ("Tides", [("# Fit", ("Fit",)), ("## Result", ("Fit", "Result"))])


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"cells": 3}', "[" * 100_000])
def test_what_is_no_notebook_is_one_error(content: str) -> None:
    with pytest.raises(DataError, match=r"a\.ipynb: expected a notebook"):
        read_file("a.ipynb", content)


# ---------------------------------------------------------------- reStructuredText


def test_sections_of_restructured_text() -> None:
    table = "==  ==\na   b\n==  ==\n"
    text = f"=====\nTitle\n=====\n\nPart\n====\n\nThe :mod:`a` `b <c>`_\n--------------------\n\n{table}\nNext\n====\n"
    content = read_file("a.rst", text)
    assert content.title == "Title"
    assert sections(content) == [
        ("Title", ("Title",)),
        ("Part", ("Title", "Part")),
        ("The a b", ("Title", "Part", "The a b")),
        ("Next", ("Title", "Next")),
    ]


@pytest.mark.parametrize(
    ("text", "title", "metadata"),
    [
        (
            "PEP: 8\nTitle: Style\n Guide\nAuthor: A B,\n        C\nResolution:\n\nIntro\n=====\n",
            "PEP 8 – Style Guide",
            {"pep": "8", "author": "A B, C"},
        ),
        ("Title: Guide\nSource: wiki\n\ntext", "Guide", {"author_source": "wiki"}),
        ("Note: this\n\nA\n=\n", "", {}),  # no header without a title
        ("Guide\n=====\n\n:Author: A\n:Date: 2020\n\ntext", "Guide", {"author": "A", "date": "2020"}),
        (":orphan:\n\n.. _label:\n\n.. image:: a.svg\n   :alt: Badge\n\n=====\nGuide\n=====\n", "Guide", {}),
        ("text\n\nA\n=\n", "", {}),
        ("A :ref:`b <c>`\n==============\n", "A b", {}),
    ],
)
def test_title_and_fields_of_restructured_text(text: str, title: str, metadata: dict[str, str]) -> None:
    content = read_file("a.rst", text)
    assert (content.title, content.metadata) == (title, metadata)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":ref:`the guide <guide>` :ref:`guide` :py:class:`~a.B` :mod:`!c`", "the guide guide B c"),
        (":kbd:`Ctrl <` ``:ref:`a` `` `plain` *em* a:b:`c`", "Ctrl < ``:ref:`a` `` `plain` *em* a:b:`c`"),
        (":pep:`8` :pep:`text <7#part>` :rfc:`2822`", "PEP 8 text RFC 2822"),
        ("`a\nb <https://c>`__ and `d`_", "a\nb and d"),
        (
            "a\n\n.. _b: https://c\n\n.. comment\n   more\n\n   still\n\nd\n\n..\n\n   kept",
            "a\n\n\n\n\nd\n\n\n\n   kept",
        ),
        ("..\n   hidden\nend [1]_\n\n.. [1] kept", "\nend [1]_\n\n.. [1] kept"),
        (
            ".. note:: a\n\n.. versionadded:: 3.8\n   b\n\n.. py:function:: f(x)\n   :noindex:\n\n   c",
            "Note: a\n\nNew in version 3.8\n   b\n\nf(x)\n\n   c",
        ),
        (".. image:: a.png\n   :width: 3\n   :alt: A pump\n\n.. contents::\n   :local:\n\nb", "A pump\n\n\n\nb"),
        (
            "So::\n\n  :ref:`a`\n  .. note:: b\n\n.. code-block:: rst\n\n   .. _a:\n",
            "So::\n\n  :ref:`a`\n  .. note:: b\n\n.. code-block:: rst\n\n   .. _a:\n",
        ),
        ("==  ==\n..  :a:`b`\n==  ==\n1   2\n==  ==\n", "==  ==\n..  b\n==  ==\n1   2\n==  ==\n"),
    ],
)
def test_markup_of_restructured_text_is_its_visible_text(text: str, expected: str) -> None:
    assert read_file("a.rst", text).text == expected


def test_links_of_restructured_text() -> None:
    text = """
:doc:`intro` :doc:`the end </b/end>` :pep:`8` `a <c.html>`_ `b <https://d>`_ `e <f_>`_

.. toctree::
   :maxdepth: 1

   first
   Second <g/second.rst>

end
"""
    content = read_file("a.rst", text)
    assert content.text.endswith("\nfirst\nSecond\n\nend\n")
    assert sorted(content.metadata["hyperlinks"]) == [
        ["PEP 8", "pep-0008.rst"],
        ["Second", "g/second.rst"],
        ["a", "c.html"],
        ["first", "first.rst"],
        ["intro", "intro.rst"],
        ["the end", "/b/end.rst"],
    ]


def test_all_words_of_restructured_text_are_kept() -> None:
    generator = random.Random(1)
    words = [f"w{number}" for number in range(200)]
    forms = (
        *("{}", ":ref:`{}`", ":x:`{} <y>`", "`{} <x.rst>`_", "`{}`_", "``{}``", "**{}**", "\n\n- {}\n"),
        *("\n\n.. note:: {}\n\n", "\n\n.. foo:: {}\n\n   ", "\n\n{}\n======\n\n", "::\n\n   {}\n\n"),
    )
    content = read_file("a.rst", " ".join(generator.choice(forms).format(word) for word in words))
    assert regex.findall(r"w\d+", content.text) == words


# ---------------------------------------------------------------- other markup


@pytest.mark.parametrize(
    ("name", "text", "title", "headings", "blocks"),
    [
        (
            "a.adoc",
            "= Guide\n:author: x\n\n== Part\n\n----\n== no\n----\n\n=== Sub\n|===\n|a\n|===\n",
            "Guide",
            [("= Guide", ("Guide",)), ("== Part", ("Guide", "Part")), ("=== Sub", ("Guide", "Part", "Sub"))],
            ["----\n== no\n----", "|===\n|a\n|==="],
        ),
        (
            "a.org",
            "#+TITLE: Guide\n* Part\n** Sub\n#+begin_src c\n* no\n#+END_SRC\n| a |\n| b |\n*bold*\n",
            "Guide",
            [("* Part", ("Part",)), ("** Sub", ("Part", "Sub"))],
            ["#+begin_src c\n* no\n#+END_SRC", "| a |\n| b |"],
        ),
        (
            "a.tex",
            "\\title{The {\\em}\n Guide}\n%\\section{no}\n\\section*{Part}\n"
            "\\begin{verbatim}\n\\section{no}\n\\end{verbatim}\n"
            "\\subsection[x]{Sub}\n\\begin{tabular*}{l}open",
            "The {\\em} Guide",
            [("\\section*{Part}", ("Part",)), ("\\subsection[x]{Sub}", ("Part", "Sub"))],
            ["\\begin{verbatim}\n\\section{no}\n\\end{verbatim}"],
        ),
        ("a.org", "text\n* Part\n#+begin_src\nopen", "", [("* Part", ("Part",))], []),
        ("a.qmd", "---\ntitle: Guide\n---\n# Part\n", "Guide", [("# Part", ("Part",))], []),
    ],
)
def test_headings_and_blocks_of_other_markup(
    name: str, text: str, title: str, headings: list[tuple[str, tuple[str, ...]]], blocks: list[str]
) -> None:
    content = read_file(name, text)
    assert (content.title, sections(content)) == (title, headings)
    assert [content.text[start:end] for start, end in content.blocks] == blocks
