"""Readers of single files: text, title and sections."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragindex.corpus.readers import READERS, FileContent
from ragindex.corpus.readers.html_page import read_page
from ragindex.corpus.readers.markdown import find_markdown_headings
from ragindex.errors import DataError


def read_file(name: str, content: str | bytes) -> FileContent:
    raw = content if isinstance(content, bytes) else content.encode()
    return READERS[Path(name).suffix](raw, Path(name), None)


def sections(read: FileContent) -> list[tuple[str, tuple[str, ...], int | None]]:
    """The first line of each section, its headings and its page."""
    return [(read.text[one.start :].partition("\n")[0], one.headings, one.page) for one in read.sections]


# ---------------------------------------------------------------- Markdown and its relatives


def test_sections_of_markdown() -> None:
    text = (
        "# Guide {#guide}\n\nIntro\n\n## Set [up](u.md) ##\n\n```\n# comment\n```\n\n### Deep\n\nUse\n---\n\nEnd {#not}"
    )
    read = read_file("a.md", text)
    assert read.title == "Guide"
    assert sections(read) == [
        ("# Guide", ("Guide",), None),
        ("## Set [up](u.md) ##", ("Guide", "Set up"), None),
        ("### Deep", ("Guide", "Set up", "Deep"), None),
        ("Use", ("Guide", "Use"), None),
    ]
    assert "{#guide}" not in read.text
    assert read.text.endswith("End {#not}")  # an anchor belongs to a heading


def test_comments_of_markdown_are_no_text_but_in_code() -> None:
    text = "<!-- a\n# b -->\n# Title\n\n`<!-- c -->`\n\n```\n<!-- d -->\n```\nend<!-- e --> <!-- open"
    read = read_file("a.md", text)
    assert (read.title, read.text) == (
        "Title",
        "\n# Title\n\n`<!-- c -->`\n\n```\n<!-- d -->\n```\nend <!-- open",
    )


@given(st.text(alphabet="#=-`~ ab\n{}", max_size=80))
def test_headings_of_any_text_start_where_they_are(text: str) -> None:
    for start, level, heading in find_markdown_headings(text):
        line = text[start:].partition("\n")[0]
        assert heading.strip() == heading
        assert heading in line
        assert 1 <= level <= 6


def test_sections_of_restructured_text() -> None:
    text = "=====\nTitle\n=====\n\nPart\n====\n\nChapter\n-------\n\n====  ====\na     b\n====  ====\n\nNext\n====\n"
    read = read_file("a.rst", text)
    assert (read.title, sections(read)) == (
        "Title",
        [
            ("Title", ("Title",), None),
            ("Part", ("Title", "Part"), None),
            ("Chapter", ("Title", "Part", "Chapter"), None),
            ("Next", ("Title", "Next"), None),
        ],
    )


def test_a_notebook() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Fit\n", "We fit it."]},
        {"cell_type": "code", "source": "# set up\nfit()", "outputs": [{"text": "noise"}]},
        {"cell_type": "markdown", "source": "## Result"},
        {"cell_type": "code", "source": []},
        "no cell",
    ]
    read = read_file("a.ipynb", json.dumps({"cells": cells}))
    assert read.text == "# Fit\nWe fit it.\n\n```\n# set up\nfit()\n```\n\n## Result"
    assert sections(read) == [("# Fit", ("Fit",), None), ("## Result", ("Fit", "Result"), None)]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"cells": 3}', "[" * 100_000])
def test_what_is_no_notebook_is_one_error(content: str) -> None:
    with pytest.raises(DataError, match=r"a\.ipynb: expected a notebook"):
        read_file("a.ipynb", content)


# ---------------------------------------------------------------- HTML


def test_sections_of_html() -> None:
    page = "<h1> The\n <b>Guide</b></h1>Intro<h2>Set&shy;up<br>now</h2><pre>  x</pre><h3></h3><p>End<h2>Use</h2>it"
    read = read_file("a.html", page)
    assert read.text == "The Guide\n\nIntro\n\nSetup\nnow\n\nx\n\nEnd\n\nUse\n\nit"
    assert sections(read) == [
        ("The Guide", ("The Guide",), None),
        ("Setup", ("The Guide", "Setup now"), None),
        ("Use", ("The Guide", "Use"), None),
    ]


@pytest.mark.parametrize(
    ("heading", "text"),
    [("<a>§</a>Examples", "Examples"), ("Set up <a>¶</a>", "Set up"), ("From C#", "From C#"), ("§", "§")],
)
def test_signs_of_links_to_a_heading_are_no_part_of_it(heading: str, text: str) -> None:
    assert [found for _, _, found in read_page(f"<h2>{heading}</h2>").headings] == [text]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<nav><ul><li><a href=a.html>A</a></ul></nav><p>text", "text"),
        ("<div role='navigation search'><div>in</div> a</div>text", "text"),
        ('<div class="page toc wide"><div>1</div></div>text<div class="octopus">x</div>', "text\nx"),
        ("<h1>Set up<a class='headerlink' href='#x'>¶</a></h1>", "Set up"),
        ("<div hidden>a</div><div hidden=until-found>b</div><span style='color:red; display : none'>c</span>d", "b\nd"),
        ("<main><footer>note</footer></main><footer>© 2026</footer>", "note"),
        ("<article>text<div class=footer>note</div></article><div id='footer wide'>Last updated</div>", "text\nnote"),
        ("<div id=mw-panel>menu</div>text<span class='mw-editsection'>[edit]</span><div id=catlinks>A</div>", "text"),
        ("<div id=dokuwiki__aside>menu</div><div id=dw__toc>1</div>text<div class=docInfo>x</div>", "text\nx"),
        ("<div class='md-sidebar md-sidebar--primary'>menu</div><div class=related>next</div>text", "text"),
        ("<header><h1>Kept</h1></header>", "Kept"),
        ("<nav>only navigation</nav>", "only navigation"),
        ("<nav>never closed <p>text", "never closed\n\ntext"),
        ("<template><nav></template>text", "text"),
        ("<p>menu<main><h1>The chapter</h1>is long enough</main>help", "The chapter\n\nis long enough"),
        ("<p>a long introduction<main>short</main>", "a long introduction\n\nshort"),
        ("<p>menu<main>text", "text"),
        ("<p>menu<main></main><p>text", "menu\n\ntext"),
        ("<svg><nav></svg>text", "text"),
    ],
)
def test_navigation_and_hidden_elements_are_no_text(markup: str, text: str) -> None:
    assert read_page(markup).text == text


def test_hyperlinks_of_navigation_are_left_out() -> None:
    page = read_page("<nav><a href=n.html>Next</a></nav><a href=a.html>A<div class=toc><a href=t.html>T</a></div></a>")
    assert page.hyperlinks == (("A", "a.html"),)


@given(st.text(alphabet="<>/hnav123 divclass='toc\0p", max_size=120))
def test_headings_of_any_page_start_where_they_are(markup: str) -> None:
    page = read_page(markup)
    assert "\0" not in page.text
    for start, level, heading in page.headings:
        assert page.text[start : start + 1] == heading[:1]
        assert 1 <= level <= 6


# ---------------------------------------------------------------- tables and code


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_rows_of_a_table_are_paragraphs(mark: str) -> None:
    rows = [["Name", "Place", "Note"], ["Ann", "Ely", '"a, b; c"'], ["", "", ""], ["Bob", "", "x"]]
    read = read_file("a.csv", "\r\n".join(mark.join(row) for row in rows) + "\r\n\r\n")
    assert read.text == "Name: Ann\nPlace: Ely\nNote: a, b; c\n\nName: Bob\nNote: x"


def test_a_long_cell_and_a_broken_table() -> None:
    assert read_file("a.tsv", "a\tb\n1\t" + "x" * 200_000).text == "a: 1\nb: " + "x" * 200_000
    with pytest.raises(DataError, match=r"a\.csv, line 2: expected comma-separated values; found"):
        read_file("a.csv", 'a,b\n1,"open')


def test_json_lines_in_a_folder() -> None:
    rows = '{"name": "Ann", "age": 7, "none": null}\n{"tags": ["x", "é"]}\n'
    assert read_file("a.jsonl", rows).text == 'name: Ann\nage: 7\n\ntags: ["x", "é"]'
    with pytest.raises(DataError, match=r"a\.jsonl, line 1"):
        read_file("a.jsonl", "{\n")


def test_source_code_is_named_with_its_suffix() -> None:
    assert read_file("src/main.rs", "fn main() {}\r\n") == FileContent("main.rs", "fn main() {}\n")


def test_soft_hyphens_join_words() -> None:
    assert read_file("a.txt", "Donau\u00addampf\u00adschiff").text == "Donaudampfschiff"
