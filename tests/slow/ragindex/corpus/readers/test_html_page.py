"""HTML pages: random ones against a parser that builds the whole tree, and long ones within bounds."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import justhtml
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex.corpus.readers.html_page import read_page

APART = frozenset(  # a word ends before and after these
    (
        *("address", "article", "aside", "blockquote", "br", "button", "caption", "center", "dd", "details", "dialog"),
        *("dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4"),
        *("h5", "h6", "header", "hgroup", "hr", "input", "legend", "li", "listing", "main", "menu", "nav", "ol"),
        *("optgroup", "option", "p", "plaintext", "pre", "search", "section", "select", "summary", "table", "td"),
        *("textarea", "th", "tr", "ul", "xmp"),
    )
)
UNSHOWN = {"script", "style", "noscript", "template", "title", "iframe", "noembed", "noframes"}


# ---------------------------------------------------------------- against a parser that builds the tree


def words_of_tree(markup: str) -> list[str]:
    pieces: list[str] = []
    waiting = [justhtml.JustHTML(markup, sanitize=False).root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            pieces.append(node)
        elif node.name == "#text":
            pieces.append(node.data)
        elif node.name not in ("#comment", "!doctype"):
            ours = node.namespace in (None, "html")
            if node.name in (UNSHOWN if ours else ("script", "style", "title")):
                continue
            space = [" "] if ours and node.name in APART else []
            waiting += [*space, *reversed(node.children or ()), *space]
    return "".join(pieces).split()


def cuts(words: list[str]) -> set[int]:
    return {sum(map(len, words[:n])) for n in range(1, len(words) + 1)}


TAGS = (
    *("div", "p", "b", "i", "a", "span", "h1", "h2", "ul", "li", "table", "tr", "td", "br", "pre", "head", "body"),
    *("html", "title", "script", "style", "textarea", "svg", "math", "g", "text", "foreignObject", "desc", "mi"),
    *("mtext", "template", "noscript", "select", "option", "button", "form", "section", "dd", "iframe", "xmp", "hr"),
)
PIECES = (
    *("<!-- c -->", "<!--", "-->", "<!---->", "<!-->", "--!>", "<?pi?>", "<!doctype html>", "<![CDATA[x]]>", "\n"),
    *("&amp;", "&lt;", "&eacute", "&notit;", "&#65;", "&#x41", "< ", "</", "</>", "</ x>", '"', "'", "=", ">", "/>"),
    *('<x y=">">', "<p a='<b>'>", "<!x>"),
)
PIECE = st.one_of(
    st.integers(0, 99).map(lambda number: f"w{number}"),
    st.integers(0, 99).map(lambda number: f"w{number} "),
    st.builds("<{}{}>".format, st.sampled_from(TAGS), st.sampled_from(("", " a=b", ' a="x>y"', " c", "/"))),
    st.sampled_from(TAGS).map("</{}>".format),
    st.sampled_from(PIECES),
)


@settings(max_examples=examples(1500))
@given(st.lists(PIECE, max_size=14).map("".join))
def test_any_markup_shows_what_the_tree_of_html5_shows(markup: str) -> None:
    shown, expected = read_page(markup).text.split(), words_of_tree(markup)
    if "<table" in markup:  # text that is misplaced in a table comes before it in the tree
        assert Counter("".join(shown)) == Counter("".join(expected)), markup
        return
    assert "".join(shown) == "".join(expected), markup
    assert cuts(expected) <= cuts(shown), markup  # two words are never made one


# ---------------------------------------------------------------- bounded

SIZE = 200_000
REPEATED = (
    *("<!--", "<!--a-->", "<!--a--!>", "<!-- -", "<div>", "<b>", "<a>x", "<font size=1><p>x", "<b><i><p></b>x</i>"),
    *("<table>x", "<table><tr><td>x", "<table><b>x", '<p a="', "<", "<a ", "</", "<?", "<!", "<![CDATA[", "<title>"),
    *("<title>a</title>", "<script>", "<script>a</script>", "<script><!--<script></script>", "<textarea>", "&", "&#"),
    *("&notit;", "&amp", "<select><option>x", "<template>", "<svg><g>", "<svg><p>", "<math><mi>", "<body a=1>"),
    *("<li><b><div>", "</p>", "<h1>", "<h1></h1>", "</p a='", "<p =", "<!DOCTYPE a '", "</style a='", "<plaintext>"),
)
LONG = {
    "different formatting": "".join(f"<font a={number}><p>x" for number in range(SIZE // 20)),
    "misnested": "".join(f"<b a={number}><p>" for number in range(SIZE // 20)) + "</b>" * (SIZE // 8),
    "attributes": f"<p {' '.join(f'a{number}=b' for number in range(SIZE // 8))}>x",
    "one attribute": f'<p a="{"x" * SIZE}">x',
    "spaces in a tag": f"<p{' ' * SIZE}",
    "reference": f"&#{'9' * SIZE};",
    "entity": f"&{'a' * SIZE}",
    "end tags in SVG": "<svg>" + "<g>" * (SIZE // 6) + "</x>" * (SIZE // 8),
    "style without end": "<style>" + "</styl" * (SIZE // 6),
    "script without end": "<script>" + "<!--<script>" * (SIZE // 12),
}
CHILD = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (90, 90))
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
from ragindex.corpus import read
print(len(read(sys.argv[1], skip_bad=True).documents))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a limit on time and memory is set with the module resource")
def test_no_markup_takes_more_than_its_length_in_time_or_memory(tmp_path: Path) -> None:
    """In a child that has 90 seconds of processor time and 4 GiB for all pages, of which there are 11 MB."""
    for number, markup in enumerate([*(one * (SIZE // len(one)) for one in REPEATED), *LONG.values()]):
        (tmp_path / f"{number:03d}.html").write_text(f"word {markup}")
    done = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{len(REPEATED) + len(LONG)}\n"), done.stderr
