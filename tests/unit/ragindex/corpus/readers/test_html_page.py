"""HTML pages: what HTML5 shows of them, by hand."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex.corpus import read
from ragindex.corpus.readers.html_page import read_page
from ragindex.errors import DataError
from ragindex.retrieval.hit_json import hit_to_json
from ragindex.types import Hit

# ---------------------------------------------------------------- by hand, from the specification


@pytest.mark.parametrize(
    ("markup", "title", "text"),
    [
        ("<title>x</title><p>body", "x", "body"),
        ("<head><title>x</title><body>body", "x", "body"),
        ("<!doctype html><html><head><meta charset=utf-8><title>x</title><p>one<p>two", "x", "one\n\ntwo"),
        ("<!DOCTYPE html>\n<title>x</title>\nbody <b>bo</b>ld", "x", "body bold"),
        ("<head><title>x</title></head>body</body></html>after", "x", "bodyafter"),
        ("<head><style>p{}</style><link rel=a>text", "", "text"),
        ("<TITLE>a &amp;\n b</TITLE><BODY>c", "a & b", "c"),
        ("<title></title><h1> </h1><h1>The <i>he</i>ad</h1>c", "The head", "The head\n\nc"),
        ("<h1>Head<p>not of it", "Head", "Head\n\nnot of it"),
        ("<h1>Two<br>lines</h2>c", "Two lines", "Two\nlines\n\nc"),
        ("<title>of the page</title><svg><title>of a picture</title><text>drawn</text></svg>", "of the page", "drawn"),
        ("<svg><title>of a picture</title></svg><title>of the page</title>c", "of the page", "c"),
        ("<template><title>no</title><p>no</template>c", "", "c"),
        ("<svg><style/><script/><title/></svg>c", "", "c"),
        ("<svg><style>a</style><p>out", "", "out"),
        ("<svg><foreignObject><p>in</p><script>no</script></foreignObject></svg>c", "", "in\n\nc"),
        ("<svg><![CDATA[a < b]]></svg>", "", "a < b"),
        ("a<![CDATA[b]]>c", "", "ac"),
        ("<math><mi>x</mi><mo>=</mo><mn>1</mn></math>", "", "x=1"),
        ("<script>if (a</script >b", "", "b"),
        ("<script><!-- <script>a</script> --></script>b", "", "b"),
        ("<script><!-- a</script>b", "", "b"),
        ("<script><!--></script>b", "", "b"),
        ("<style></styles></style>b", "", "b"),
        ("<textarea> <b>as it\nis</b></textarea>b", "", "<b>as it\nis</b> b"),
        ("<xmp><b>&amp;</xmp>b", "", "<b>&amp;\n\nb"),
        ("a<plaintext><b>c", "", "a\n\n<b>c"),
        ("a<!-->b<!--->c<!---->d<!-- > --!>e<!x>f<?y>g</>h</ z>i", "", "abcdefghi"),
        ("a < b <3 </", "", "a < b <3 </"),
        ("<p a='>' b=\">\" c=> d e='\"'/>x", "", "d e='\"'/>x"),
        ("<p a='\">b</p>c'>x", "", "x"),
        ('<p a"b>x', "", "x"),
        ("&notit; &amp &#65; &#x42 &#0; &#x110000; &copy", "", "¬it; & A B � � ©"),
        (f"&#{'0' * 9000}65; &#{'9' * 9000}; &#x{'f' * 9000};", "", "A � �"),
        ("a\0b", "", "ab"),
        ("a</p>b</br>c</div>d", "", "a\n\nb\ncd"),
        ("<p>a<div>b</div>c", "", "a\n\nb\nc"),
        ("<table><tr><td>a<td>b<tr><td>c</table>d", "", "a b\nc\n\nd"),
        (
            '<?xml version="1.0"?><html><head><script src="a"/><title/></head><body>x<![CDATA[<]]></body></html>',
            "",
            "x<",
        ),
    ],
)
def test_what_a_page_shows(markup: str, title: str, text: str) -> None:
    found = read_page(markup)
    assert (found.title, found.text) == (title, text)


@pytest.mark.parametrize(
    ("markup", "hyperlinks"),
    [
        ("<a href=b.html#s>the <b>big</b>\n manual</a>.", [("the big manual", "b.html#s")]),
        ("<A CLASS='x'\nHREF = 'a&amp;b'>x</A><a href=\"c\">y<a href=d>z", [("x", "a&b"), ("y", "c"), ("z", "d")]),
        ("<a name=q>x</a> <a href=e></a> <a href=''>y</a> <a data-href=f>z</a>", []),
        ("<template><a href=a>x</a></template><script><a href=b>y</a></script><!-- <a href=c>z</a> -->", []),
    ],
)
def test_hyperlinks_of_a_page(markup: str, hyperlinks: list[tuple[str, str]]) -> None:
    assert list(read_page(f"<p>Text.{markup}</p>").hyperlinks) == hyperlinks


def test_hyperlinks_to_other_files_are_metadata(tmp_path: Path) -> None:
    page = (
        "<p>See <a href='b.html'>B</a>, <a href='b.html'>B</a>, <a href='#c'>C</a>, <a href='https://d.example/'>D</a>"
    )
    (tmp_path / "a.html").write_text(page)
    (document,) = read(tmp_path).documents
    assert document.metadata["hyperlinks"] == [["B", "b.html"]]
    given = {"a.html": document.metadata}
    hit = Hit("a.html#0", "passage", ("a.html#0",), ("a.html",), "a", "See B.", 1.0, "bm25", given)
    assert hit_to_json(hit)["metadata"] == {"a.html": {"source": "a.html", "modified": document.metadata["modified"]}}


@pytest.mark.parametrize(
    ("markup", "reason"),
    [
        ("<title>only", "a page with text in its body; found none, for <title> in line 1 is never closed"),
        ("<title>x</title>\n<script>a", "found none, for <script> in line 2 is never closed"),
        ("<title>x</title><!-- a", "found none, for <!-- in line 1 is never closed"),
        ("<title>x</title>\n\n<P class='a>text</p>", "found none, for <P in line 3 is never closed"),
        ("<title>x</title><body> <img src=a>&nbsp;</body>", "expected a file with text in it; found none"),
        ("<title>x</title><script>a</script>", "expected a file with text in it; found none"),
    ],
)
def test_a_page_without_text_in_its_body_is_refused_with_the_reason(tmp_path: Path, markup: str, reason: str) -> None:
    (tmp_path / "x.html").write_text(markup)
    with pytest.raises(DataError) as caught:
        read(tmp_path)
    assert str(caught.value).endswith(f"{reason}.")


# ---------------------------------------------------------------- tags that are left open

TAGS = (
    *("div", "p", "b", "a", "span", "h1", "ul", "li", "table", "tr", "td", "br", "pre", "head", "body", "html", "form"),
    *("g", "text", "foreignObject", "mi", "mtext", "select", "option", "button", "section", "dd", "hr"),
)


@settings(max_examples=examples(100))
@given(st.lists(st.one_of(st.sampled_from(TAGS), st.sampled_from([f"/{tag}" for tag in TAGS])), max_size=40))
def test_no_word_of_a_body_is_lost_however_tags_are_left_open(tags: list[str]) -> None:
    markup = "<title>x</title>" + "".join(f"<{tag}> w{number} " for number, tag in enumerate(tags)) + "end"
    assert read_page(markup).text.split() == [*(f"w{number}" for number in range(len(tags))), "end"]
