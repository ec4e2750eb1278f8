"""HTML pages: what is read of them, by kinds that were found in pages of generators, mails and books."""

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragindex.corpus import read
from ragindex.corpus.readers import READERS, FileContent
from ragindex.errors import DataError
from ragindex.retrieval.formatting import hit_to_json
from ragindex.types import Hit


def read_page(markup: str, name: str = "a.html") -> FileContent:
    return READERS[Path(name).suffix](markup.encode(), Path(name), None)


def blocks(content: FileContent) -> list[str]:
    return [content.text[start:end] for start, end in content.blocks]


# ---------------------------------------------------------------- text


@pytest.mark.parametrize(
    ("markup", "title", "text"),
    [
        ("<title>x</title><p>body", "x", "body"),
        ("<!doctype html><html><head><meta charset=utf-8><title>x</title><p>one<p>two", "x", "one\n\ntwo"),
        ("<TITLE>a &amp;\n b &#65;</TITLE><BODY>c", "a & b A", "c"),
        (f"<title>a &#{'9' * 9000}; b</title>c", "a b", "c"),  # names no character
        ("<title></title><h1> </h1><h1>The <i>he</i>ad</h1>c", "The head", "The head\n\nc"),
        ("<p>text<h1>Late</h1>", "", "text\n\nLate"),
        ("<title>of the page</title><svg><title>of a picture</title><text>drawn</text></svg>", "of the page", "drawn"),
        ("<svg><title>of a picture</title></svg>c", "", "c"),
        ("<template><p>no</template><noscript>no</noscript><iframe>no</iframe><style>p{}</style>c", "", "c"),
        ("a<script>if (a<b) '</p>'</script>b<!-- c -->d<!-->e", "", "abde"),
        ("<svg><style/><title/></svg>c", "", "c"),
        ("<math><mi>x</mi><mo>=</mo><mn>1</mn></math>, H<sub>2</sub>O, <b>bo</b>ld", "", "x=1, H2O, bold"),
        ("<textarea> <b>as it\nis</b></textarea>", "", "<b>as it\nis</b>"),
        ("a < b <3, &notit; &#x42 &copy", "", "a < b <3, ¬it; B ©"),
        ("one</br>two<br/>three", "", "one\ntwo\nthree"),
        ("Donau&shy;dampf wrapped\n  in the <b>\n\n source</b>", "", "Donaudampf wrapped in the source"),
        ("<p># a<br>+ b<p>1. c * d _e_ `f` [g](h) \\i \\* \\\\ <code>\\* x_y</code> | ~ &amp;lt; <b>#</b>", "", None),
        ("<h1>Set up<p>" + "not of it " * 40, "", "Set up " + "not of it " * 39 + "not of it"),  # never closed
        ("<ul><li>one<ul><li>deep</ul><li>two</ul><ol><li>x</ol>", "", "- one\n  * deep\n- two\n\n1. x"),
        ("<dl><dt>-n</dt><dd>Dry run.</dd></dl><blockquote><p>Said</blockquote>", "", "-n\n\nDry run.\n\nSaid"),
        ("<img alt='a dog' src='data:image/png;base64,AAAA'><img src=x.png>", "", "a dog"),
        ("<a href='https://a.example/'>Shown</a> <a href=x title='Run code'></a>", "", "Shown"),
        ("<details><summary>Sum</summary>inside</details>", "", "Sum\n\ninside"),
        ("<div role=tabpanel hidden>yarn</div><div style='display:none'>Refunds</div>", "", "yarn\n\nRefunds"),
        (
            "<h1>a</h1><h2>b</h2>" + "<font size=1><p>c" * 1500,
            "a",
            "a\n\nb" + "\n\nc" * 1500,
        ),  # formatting is not nested
    ],
)
def test_text_of_a_page(markup: str, title: str, text: str | None) -> None:
    content = read_page(markup)
    literal = "# a\n+ b\n\n1. c * d _e_ `f` [g](h) \\i \\* \\\\ \\* x_y | ~ &lt; #"
    assert (content.title, content.text, content.notes) == (title, literal if text is None else text, ())


def test_xhtml_has_empty_elements() -> None:
    page = '<?xml version="1.0"?><html><head><script src="a"/><title/></head><body><p/><a id="b"/>x<![CDATA[<]]></body>'
    assert read_page(page, "a.xhtml").text == read_page(page).text == "x<"


@given(st.text(alphabet="ab 1\\`*_{}[]()#+-.!|~>=:&;^$%@,'\"/?", min_size=1))
def test_characters_of_markdown_stay_as_they_are(text: str) -> None:
    shown = text.replace("&", "&amp;").replace(">", "&gt;")
    assert read_page(f"<p>{shown}</p><p><code>{shown}</code></p>").text.split() == text.split() * 2


TAGS = (
    *("div", "p", "b", "a", "span", "ul", "li", "table", "tr", "td", "br", "pre", "form", "button", "section", "dd"),
    *("h1", "blockquote", "font", "th", "caption", "article"),
)


@example(["h1", "table", "caption"])
@example(["caption", "/td", "/caption"])
@example(["pre", "table", "caption"])
@example(["table", "caption", "caption"])
@given(st.lists(st.one_of(st.sampled_from(TAGS), st.sampled_from([f"/{tag}" for tag in TAGS])), max_size=30))
def test_no_word_is_lost_however_tags_are_left_open(tags: list[str]) -> None:
    content = read_page("".join(f"<{tag}> w{number} " for number, tag in enumerate(tags)) + "end")
    assert {f"w{number}" for number in range(len(tags))} | {"end"} <= set(content.text.split())
    assert not re.search("[\ufdd0-\ufdd3]", content.text)
    for section in content.sections:
        assert content.text.startswith(section.headings[-1], section.start)


# ---------------------------------------------------------------- headings, tables and code


@pytest.mark.parametrize(
    ("heading", "text"),
    [
        ('<a class="permalink" href="#n"><code>-n</code></a>', "-n"),  # mandoc
        ('Set up<a class="headerlink" href="#x" title="Link to this heading">¶</a>', "Set up"),
        ('<a class="doc-anchor" href="#x">§</a>Examples', "Examples"),
        ('<a href="#x"><span>#</span></a>Use', "Use"),
        ('Use<a class="hash-link" href="#x">\u200b</a>', "Use"),
        ("Use <span>🔗</span>", "Use"),
        ('<a name="x">The\n <b>Guide</b></a>', "The Guide"),
        ("Two<br>lines <img alt=sun>", "Two lines sun"),
        ("From C#", "From C#"),
        ("§ 5 Duties", "§ 5 Duties"),
        ('Notes<span class="mw-editsection">[edit]</span>', "Notes"),
        ("<div>in a block</div>", "in a block"),
        ("# * \\_ x", "# * \\_ x"),
    ],
)
def test_headings(heading: str, text: str) -> None:
    content = read_page(f"<h1>Top</h1>a<h3>{heading}</h3>b<h2>Next</h2>c<h2></h2>")
    assert [section.headings for section in content.sections] == [("Top",), ("Top", text), ("Top", "Next")]
    assert [content.text[section.start :].partition("\n")[0] for section in content.sections] == ["Top", text, "Next"]


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<pre>a:\n  b:\n\tc \\* d</pre>", ["a:\n  b:\n\tc \\* d"]),
        ("<pre><code class=language-py>\ndef f():\n    x &lt; <b>1</b>\n</code></pre>", ["def f():\n    x < 1"]),
        ("<ul><li>a<pre>b\n  c</pre><li><pre>d</pre></ul>", ["b\n  c", "d"]),
        ("<blockquote><pre>b\n  c</pre></blockquote>", ["b\n  c"]),
        ("<table><tr><th>a|b<th><tr><td><td>x<br>y</table>", [r"| a\|b |  |" + "\n| --- | --- |\n|  | x y |"]),
        ("<table><tr><td>a<td>*b*<tr><td>c<td><i>d</i></table>", ["| a | *b* |\n| --- | --- |\n| c | d |"]),
        ("<table><tr><th>a<th>b<tr><td>1<td><pre>x\ny</pre></table>", ["| a | b |\n| --- | --- |\n| 1 | x y |"]),
        ("<ul><li>z<table><tr><th>a<th>b</table></ul>", ["| a | b |\n| --- | --- |"]),
        ("<table><tr><td>only<tr><td>column</table>", []),
        ("<table><tr><td><h1>T</h1>text<pre>c\n  d</pre><td>e</table>", ["c\n  d"]),  # layout
        ("<table><tr><th><h3>a</h3><th>b<tr><td>1<td>2</table>", ["| a | b |\n| --- | --- |\n| 1 | 2 |"]),
        ("<table><caption><h2>C</h2></caption><tr><td>1<td>2</table>", ["| 1 | 2 |\n| --- | --- |"]),
        ("<table><tr><th>a<th>b<tr><td><h2>x</h2><td>y</table>", []),
        ("<table><tr><td>m<td><table><tr><td>1<td>2</table></table>", ["| 1 | 2 |\n| --- | --- |"]),
        (
            "<table><tr><td class=linenos><pre>1\n2</pre><td class=code><pre>def f():\n    x</pre></table>",
            ["def f():\n    x"],
        ),
        ("<pre> </pre><table></table><nav><pre>x</pre></nav><template><pre>x</pre></template>text", []),
    ],
)
def test_blocks(markup: str, expected: list[str]) -> None:
    assert blocks(read_page(markup)) == expected


def test_cells_of_a_layout_are_sections_of_the_page() -> None:
    page = "<table><caption>Cap</caption><tr><td><h1>T</h1><p>one<p>two<td>three<tr><td>four</table>five"
    assert read_page(page).text == "Cap\n\nT\n\none\n\ntwo\n\nthree\n\nfour\n\nfive"
    assert read_page("<table><caption>Cap</caption><tr><th>a<td>b</table>").text == "Cap\n\n| a | b |\n| --- | --- |"


# ---------------------------------------------------------------- navigation and hyperlinks


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<nav><ul><li><a href=a.html>A</a></ul></nav><p>text", "text"),
        ("<div role='navigation search'><div>in</div> a</div>text", "text"),
        ("<div class='page TOC wide'><div>1</div></div>text", "text"),
        ("<ul class=breadcrumb><li>a</ul>text<div class='md-sidebar md-sidebar--primary'>menu</div>", "text"),
        ("<section id=toc><h2>TOC</h2>Total organic carbon</section>", "TOC\n\nTotal organic carbon"),
        ("<div class=section id=related><h2 class=toc>Related</h2>text</div>", "Related\n\ntext"),
        ("<footer>© 2026</footer><header><h1>Kept</h1></header>", "© 2026\n\nKept"),
        ("<nav>only navigation</nav>", "only navigation"),
        ("<nav>never closed <p>text", "never closed\n\ntext"),
    ],
)
def test_navigation_is_left_out(markup: str, text: str) -> None:
    assert read_page(markup).text == text


@pytest.mark.parametrize(
    ("markup", "hyperlinks"),
    [
        ("<a href=b.html#s>the <b>big</b>\n man_ual*</a>.", [["the big man_ual*", "b.html#s"]]),
        ("<A CLASS='x'\nHREF = 'a&amp;b'>x</A><a href=\"c\">y<a href=d>z", [["x", "a&b"], ["y", "c"], ["z", "d"]]),
        ("<td><a href=e>x</a><table><tr><td><a href=e>x</a><td>y</table>", [["x", "e"]]),
        ("<a name=q>x</a> <a href=e></a> <a href=''>y</a> <a data-href=f>z</a> <a href='https://[x'>w</a>", []),
        ("<template><a href=a>x</a></template><nav><a href=b>y</a></nav><!-- <a href=c>z</a> -->", []),
        ("<a href='#c'>C</a>, <a href='https://d.example/'>D</a>, <a href='mailto:e'>E</a>", []),
        ("<a href=f><h2>Head</h2></a>", [["Head", "f"]]),
    ],
)
def test_hyperlinks(markup: str, hyperlinks: list[list[str]]) -> None:
    content = read_page(f"<p>Text.{markup}</p>")
    assert content.metadata.get("hyperlinks", []) == hyperlinks


def test_hyperlinks_are_no_metadata_of_hits(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>See <a href='b.html'>B</a>.")
    (document,) = read(tmp_path).documents
    assert document.metadata["hyperlinks"] == [["B", "b.html"]]
    given = {"a.html": document.metadata}
    hit = Hit("a.html#0", "passage", ("a.html#0",), ("a.html",), "a", "See B.", 1.0, "bm25", given)
    assert hit_to_json(hit)["metadata"] == {"a.html": {"source": "a.html", "modified": document.metadata["modified"]}}


# ---------------------------------------------------------------- what is not read


@pytest.mark.parametrize(
    ("markup", "reason"),
    [
        ("<title>only", "a page with text in its body; found none, for <title> in line 1 is never closed"),
        ("<title>x</title>\n<script>a", "found none, for <script> in line 2 is never closed"),
        ("<title>x</title>\n\n<!-- a", "found none, for <!-- in line 3 is never closed"),
        ("<title>x</title><body> <img src=a>&nbsp;</body>", "expected a file with text in it; found none"),
        ("<title>x</title><script>a</script>", "expected a file with text in it; found none"),
    ],
)
def test_a_page_without_text_in_its_body_is_refused_with_the_reason(tmp_path: Path, markup: str, reason: str) -> None:
    (tmp_path / "x.html").write_text(markup)
    with pytest.raises(DataError) as caught:
        read(tmp_path)
    assert str(caught.value).endswith(f"{reason}.")


DEEP = "more than 1,000 elements stand inside of each other, so that only lines are read"


def unclosed(what: str) -> str:
    return f"{what} is never closed, so that the rest of the page is not read"


def lost(share: str) -> str:
    return f"{share} words are navigation or hidden by markup, and left out"


@pytest.mark.parametrize(
    ("markup", "text", "notes"),
    [
        ("text<p>\n<!-- a", "text", [unclosed("<!-- in line 2")]),
        ("text <div class=toc>" + "word " * 99, "text", [lost("99 of 100")]),
        ("text" + "<div>" * 10_000 + "x" + "</div>" * 10_000 + "<p>more", "text\n\nx\n\nmore", [DEEP]),
        ("text" + "<table><tr><td>" * 3_000 + "<h1>x</h1><pre>y\n  z", "text\n\nx\n\ny\n  z", [DEEP]),
        ("text" + "<!--" * 80_000, "text", [unclosed("<!-- in line 1")]),
        ("text" + "<b><i>" * 10_000, "text", []),
        ("text" + "<script></script>" * 10_000, "text", []),
        ('text<p a="' * 10_000, "text", [lost("29,999 of 30,000")]),
        ("text " + "<" * 50_000, "text " + "<" * 50_000, []),
    ],
)
def test_what_is_hidden_by_markup_is_noted(markup: str, text: str, notes: list[str]) -> None:
    content = read_page(markup)
    assert (content.text, list(content.notes)) == (text, notes)
