"""Readers of single files: text, title and sections."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragindex.corpus.readers import READERS, FileContent
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


# ---------------------------------------------------------------- tables and code


def test_source_code_is_named_with_its_suffix() -> None:
    assert read_file("src/main.rs", "fn main() {}\r\n") == FileContent("main.rs", "fn main() {}\n")


def test_soft_hyphens_join_words() -> None:
    assert read_file("a.txt", "Donau\u00addampf\u00adschiff").text == "Donaudampfschiff"
