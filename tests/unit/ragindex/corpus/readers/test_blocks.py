"""Tables and code blocks in the texts of readers: hand-worked cases, and properties of any text."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragindex
from examples import examples
from ragindex.corpus.readers import READERS, FileContent


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


def test_a_cell_of_a_notebook_with_a_fence_inside_is_one_block() -> None:
    cells = [{"cell_type": "code", "source": '"""\n```\nx\n```\n"""'}, {"cell_type": "markdown", "source": "# A"}]
    assert blocks("a.ipynb", json.dumps({"cells": cells})) == ['````\n"""\n```\nx\n```\n"""\n````']


@pytest.mark.parametrize("name", ["a.txt", "a.py"])
def test_other_files_have_no_blocks(name: str) -> None:
    assert blocks(name, "a|b\n-|-\n```\n\n    c\n```\n") == []


def test_a_folder_gives_documents_with_blocks(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("See:\n\n```\nls\n```\n")
    (document,) = ragindex.read(str(tmp_path)).documents
    assert document.blocks == ((6, 16),)


# ---------------------------------------------------------------- properties

FORMATS_OF_THEIR_OWN = (
    *(".pdf", ".docx", ".pptx", ".xlsx", ".epub", ".ipynb", ".json", ".jsonl", ".csv", ".tsv", ".msg"),
    *(".mbox", ".odt", ".odp", ".mht", ".fb2"),
)
_OTHERS = {READERS[suffix] for suffix in FORMATS_OF_THEIR_OWN}
READERS_OF_TEXT = {reader: suffix for suffix, reader in READERS.items() if reader not in _OTHERS}


@pytest.mark.parametrize("suffix", READERS_OF_TEXT.values())
@settings(max_examples=examples(40))
@given(text=st.text('`~|-:=+> \n\tab.,"<pretablh/>#*1é東', max_size=80))
def test_offsets_are_exact_for_every_reader_of_text(suffix: str, text: str) -> None:
    check_blocks(read_file(f"a{suffix}", f"Word\n{text}"))
