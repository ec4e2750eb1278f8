"""Tables and code blocks in the texts of readers: hand-worked cases, and properties of generated documents."""

import json
import tempfile
from io import BytesIO
from pathlib import Path

import docx
import pptx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragindex
from examples import examples
from ragindex.corpus import chunk
from ragindex.corpus.readers import READERS, FileContent
from ragindex.types import Chunking, Document


def read_file(name: str, content: str | bytes) -> FileContent:
    raw = content if isinstance(content, bytes) else content.encode()
    return READERS[Path(name).suffix](raw, Path(name), None)


def blocks(name: str, content: str | bytes) -> list[str]:
    """The text of each block, after a check of what `Document` promises of blocks."""
    read = read_file(name, content)
    check_blocks(read)
    return [read.text[start:end] for start, end in read.blocks]


def check_blocks(read: FileContent) -> None:
    after = 0
    for start, end in read.blocks:
        assert after <= start < end <= len(read.text)
        assert read.text[start:end] == read.text[start:end].strip()
        after = end
    check_chunks(read)


def check_chunks(read: FileContent) -> None:
    """Passages by headings hold every block whole, and are what their offsets say."""
    document = Document("d", read.title, read.text, {}, read.sections, read.blocks)
    for size in (3, 40):
        passages = chunk(document, Chunking(size, 0, "headings"))
        for start, end in read.blocks:
            assert any(one.start <= start and end <= one.end for one in passages)
        assert all(read.text[one.start : one.end] == one.text for one in passages)
        assert "".join("".join(one.text for one in passages).split()) == "".join(read.text.split())


# ---------------------------------------------------------------- hand-worked cases


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n```sh\nls\n```\nb", ["```sh\nls\n```"]),
        ("````\n```\n````\n\n~~~ x\n```\n~~~~", ["````\n```\n````", "~~~ x\n```\n~~~~"]),
        ("a\n\n~~~\nb\n\n# c\n", ["~~~\nb\n\n# c"]),  # not closed
        ("``` is `inline` ```\n\n# a\n\ntext", []),
        ("1. Run:\n\n    ```\n    ls\n    ```\n\n    more\n", ["```\n    ls\n    ```"]),
        ("- ```\n  ls\n  ```\n- b", ["- ```\n  ls\n  ```"]),
        ("a\n\n    b\n\n      c\n\n\td\ne\n    f", ["b\n\n      c\n\n\td"]),
        ("- a\n\n    b\n\nc\n\n    d", ["d"]),  # b belongs to the item
        ("!!! note\n\n    b", []),
        ("a | b\n-|-\n1 | 2\n3\n\nc", ["a | b\n-|-\n1 | 2\n3"]),
        ("text\n| a | b\\|c |\n|:--|--:|\n# d", ["| a | b\\|c |\n|:--|--:|"]),
        ("| a | b | c |\n|---|---|\n", []),  # a header of other length
        ("a\n---\n\n| b\n", []),
    ],
)
def test_blocks_of_markdown(text: str, expected: list[str]) -> None:
    assert blocks("a.md", text) == expected


def test_a_fence_in_a_list_item_hides_no_headings() -> None:
    read = read_file("a.md", "- ```\n  ls\n  ```\n\n# A\n\n- ```\n  # no heading\n  ```\n")
    assert [section.headings for section in read.sections] == [("A",)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("So::\n\n  a\n\n   b\nc", ["a\n\n   b"]),
        ("So:\n\n::\n\n  a\n", ["a"]),
        ("So::\nno\n\nand::\n\nno", []),
        ("- so::\n\n    a\n\n  text", ["a"]),
        (".. note::\n\n   text", []),
        (".. code-block:: c\n   :linenos:\n\n   x;\n\ny", [".. code-block:: c\n   :linenos:\n\n   x;"]),
        (".. code:: c\n\ny", []),
        ("a\n\n+--+\n|b |\n+==+\n|c |\n+--+\n| text", ["+--+\n|b |\n+==+\n|c |\n+--+"]),
        ("==  ==\na   b\n==  ==\n1   2\n\n3   4\n==  ==\n\nc", ["==  ==\na   b\n==  ==\n1   2\n\n3   4\n==  =="]),
        ("==  ==\n1   2\n==  ==\n\n==  ==\n", ["==  ==\n1   2\n==  =="]),
        ("a\n\n>>> 1 + 1\n2\n\nb", [">>> 1 + 1\n2"]),
    ],
)
def test_blocks_of_restructured_text(text: str, expected: list[str]) -> None:
    assert blocks("a.rst", text) == expected


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("some text<pre>\n  a\n\n\n b </pre>text", ["a\n\nb"]),
        ("some text<table><tr><td>a<td>b<tr><td><pre>c</pre></table>text", ["a b\n\nc"]),  # the outermost
        ("<table><tr><td><h1>T</h1>text<pre>c</pre></table>", ["c"]),  # a layout, for it holds a heading
        ("a<table><tr><td>most of the page<pre>c</pre></table>", ["c"]),  # a layout: more than half, and no header
        ("a<table><tr><th>most of<td>the page</table>", ["most of the page"]),
        ("long text<table><tr><td>a", ["a"]),
        ("text<pre> </pre><table></table></table></pre>", []),
        ("text<nav><pre>hidden</pre></nav><template><pre>x</pre></template>", []),
        ("text<pre>a</table>b</pre>c", ["ab"]),
        ("<h2>A</h2>text<pre>b</pre><h2>C</h2>", ["b"]),
    ],
)
def test_blocks_of_html(markup: str, expected: list[str]) -> None:
    assert blocks("a.html", markup) == expected


def test_a_cell_of_a_notebook_with_a_fence_inside_is_one_block() -> None:
    cells = [{"cell_type": "code", "source": '"""\n```\nx\n```\n"""'}, {"cell_type": "markdown", "source": "# A"}]
    assert blocks("a.ipynb", json.dumps({"cells": cells})) == ['````\n"""\n```\nx\n```\n"""\n````']


@pytest.mark.parametrize("name", ["a.txt", "a.py", "a.csv"])
def test_other_files_have_no_blocks(name: str) -> None:
    assert blocks(name, "a|b\n-|-\n```\n\n    c\n```\n") == []


def test_a_folder_gives_documents_with_blocks(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("See:\n\n```\nls\n```\n")
    (document,) = ragindex.read(str(tmp_path)).documents
    assert document.blocks == ((6, 16),)


# ---------------------------------------------------------------- properties

WORDS = st.lists(st.text("abcé7", min_size=1, max_size=6), min_size=1, max_size=5).map(" ".join)
ROWS = st.lists(st.tuples(st.text("abc", min_size=1, max_size=5), st.text("xyz", min_size=1, max_size=5)), min_size=2)
PIECES = st.lists(
    st.one_of(
        st.tuples(st.just("paragraph"), WORDS),
        st.tuples(st.just("heading"), WORDS),
        st.tuples(st.just("code"), st.lists(WORDS, min_size=1, max_size=4)),
        st.tuples(st.just("table"), ROWS),
    ),
    max_size=8,
)


def write_markdown(kind: str, content: list) -> tuple[str, str | None]:  # type: ignore[type-arg]
    """A piece in the format, and its text if it is a block."""
    if kind == "code":
        code = "\n".join(["~~~~", *content, "~~~~"])
        return code, code
    if kind == "table":
        rows = [f"| {a} | {b} |" for a, b in content]
        table = "\n".join([rows[0], "|---|:-:|", *rows[1:]])
        return table, table
    return f"{'# ' if kind == 'heading' else ''}{content}", None


def write_rst(kind: str, content: list) -> tuple[str, str | None]:  # type: ignore[type-arg]
    if kind == "code":
        lines = "\n".join(f"   {line}" for line in content)
        return f"See::\n\n{lines}", lines.strip()
    if kind == "table":
        table = "\n".join(["=====  =====", *(f"{a:5}  {b}" for a, b in content), "=====  ====="])
        return table, table
    return f"{content}\n{'=' * 40}" if kind == "heading" else str(content), None


def write_html(kind: str, content: list) -> tuple[str, str | None]:  # type: ignore[type-arg]
    if kind == "code":
        return f"<pre>\n{chr(10).join(content)}\n</pre>", "\n".join(content)
    if kind == "table":
        rows = "".join(f"<tr><th>{a}</th>\n<td>{b}</td></tr>\n" for a, b in content)
        return f"<table>{rows}</table>", "\n".join(f"{a} {b}" for a, b in content)
    tag = "h2" if kind == "heading" else "p"
    return f"<{tag}>{content}</{tag}>", None


@pytest.mark.parametrize(
    ("name", "write"),
    [("a.md", write_markdown), ("a.ipynb", write_markdown), ("a.rst", write_rst), ("a.html", write_html)],
)
@settings(max_examples=examples(30))
@given(pieces=PIECES)
def test_blocks_hold_the_lines_of_tables_and_code(name: str, write, pieces) -> None:  # type: ignore[no-untyped-def]
    written = [write(*piece) for piece in pieces]
    content = "\n\n".join(text for text, _ in written)
    if name == "a.ipynb":
        content = json.dumps({"cells": [{"cell_type": "markdown", "source": text} for text, _ in written]})
    assert blocks(name, content) == [block for _, block in written if block is not None]


@settings(max_examples=examples(6))
@given(pieces=PIECES)
def test_blocks_of_office_files_are_their_tables(pieces) -> None:  # type: ignore[no-untyped-def]
    word, slides, expected = docx.Document(), pptx.Presentation(), []
    for kind, content in pieces:
        slide = slides.slides.add_slide(slides.slide_layouts[5])
        if kind != "table":
            word.add_heading(str(content), 1) if kind == "heading" else word.add_paragraph(str(content))
            slide.shapes.title.text_frame.text = str(content)
            continue
        tables = word.add_table(len(content), 2), slide.shapes.add_table(len(content), 2, 0, 0, 9, 9).table
        for row, cells in enumerate(content):
            for column, text in enumerate(cells):
                for table in tables:
                    table.cell(row, column).text = text
        expected.append("\n".join(f"{a} | {b}" for a, b in content))
    for name, made in (("a.docx", word), ("a.pptx", slides)):
        made.save(out := BytesIO())
        assert blocks(name, out.getvalue()) == expected


FORMATS_OF_THEIR_OWN = (".pdf", ".docx", ".pptx", ".ipynb", ".jsonl", ".csv", ".tsv")
READERS_OF_TEXT = {reader: suffix for suffix, reader in READERS.items() if suffix not in FORMATS_OF_THEIR_OWN}


@pytest.mark.parametrize("suffix", READERS_OF_TEXT.values())
@settings(max_examples=examples(40))
@given(text=st.text('`~|-:=+> \n\tab.,"<pretablh/>#*1é東', max_size=80))
def test_offsets_are_exact_for_every_reader_of_text(suffix: str, text: str) -> None:
    check_blocks(read_file(f"a{suffix}", f"Word\n{text}"))


@settings(max_examples=examples(15))
@given(rows=ROWS)
def test_offsets_are_exact_in_tables_and_json_lines(rows: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for suffix, line in ((".csv", "{},{}"), (".tsv", "{}\t{}"), (".jsonl", '{{"text": "{} {}"}}')):
            path = Path(folder, f"a{suffix}")
            path.write_text("\n".join(line.format(*row) for row in rows))
            check_blocks(READERS[suffix](path.read_bytes(), path, None))
