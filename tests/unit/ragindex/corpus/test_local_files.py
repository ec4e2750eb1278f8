"""Documents of one's own: text, Markdown and HTML files."""

import os
import shlex
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from ragindex._util.distribution import require_module
from ragindex.corpus import read
from ragindex.corpus.readers import DOCUMENT_SUFFIXES, READERS, FileContent
from ragindex.errors import DataError, LeftOutWarning, UsageError
from ragindex.types import Document, Section

NOON = 1_000_000_000  # 2001-09-09


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    os.utime(path, (NOON, NOON))
    return path


def test_a_folder_is_read_in_order_with_relative_ids(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "b.txt", "Plain\r\ntext\rhere")
    write(tmp_path / "docs" / "a" / "z.md", "# The *Title* #\n\nBody")
    write(tmp_path / "docs" / "a" / "Y.HTM", "<p>Hello</p>")
    write(tmp_path / "docs" / ".git" / "notes.txt", "hidden")
    write(tmp_path / "docs" / ".hidden.md", "hidden")
    write(tmp_path / "docs" / "photo.png", b"\x89PNG")
    write(tmp_path / "docs" / "a" / "photo.PNG", b"\x89PNG")
    write(tmp_path / "docs" / "gradlew", "all:")
    corpus = read(tmp_path / "docs")
    assert (corpus.name, corpus.format, corpus.undivided, corpus.repeats) == ("docs", "folder", False, 0)
    assert corpus.ignored == {".png": 2, "": 1}
    day = {"modified": "2001-09-09"}
    assert corpus.documents == (
        Document("b.txt", "b", "Plain\ntext\nhere", {"source": "b.txt", **day}),
        Document("a/Y.HTM", "Y", "Hello", {"source": "a/Y.HTM", **day}),
        Document(
            "a/z.md", "The Title", "# The *Title* #\n\nBody", {"source": "a/z.md", **day}, (Section(0, ("The Title",)),)
        ),
    )


def test_the_same_text_in_two_files_is_two_documents(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "same")
    write(tmp_path / "b.txt", "same")
    corpus = read(tmp_path)
    assert [document.id for document in corpus.documents] == ["a.txt", "b.txt"]
    assert corpus.repeats == 0


def test_a_single_file(tmp_path: Path) -> None:
    corpus = read(write(tmp_path / "note.txt", "\ufeffwith a mark"))
    assert (corpus.name, corpus.format, corpus.undivided) == ("note", "folder", False)
    assert corpus.documents == (
        Document("note.txt", "note", "with a mark", {"source": "note.txt", "modified": "2001-09-09"}),
    )


def test_without_its_library_a_file_is_left_out_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_letter(raw: bytes, path: Path, encoding: str | None) -> FileContent:
        require_module("no_such_module", "umap-learn", f"Reading {path.name}")
        raise AssertionError

    monkeypatch.setitem(cast(dict[str, Any], READERS), ".docx", read_letter)
    write(tmp_path / "letter.docx", "x")
    write(tmp_path / "note.txt", "text")
    with pytest.warns(LeftOutWarning, match=r"1 file that cannot be read is left out of .*letter\.docx: expected"):
        corpus = read(tmp_path)
    assert repr(corpus) == f"Corpus({tmp_path.name!r}, folder: 1 document; left out: 1 (see skipped))"
    assert [document.id for document in corpus.documents] == ["note.txt"]
    (message,) = map(str, corpus.skipped)
    assert message.startswith(f"{tmp_path / 'letter.docx'}: expected an installed reader of .docx files; found none: ")
    assert message.endswith("Run: pip install 'umap-learn>=0.5.7'")
    with pytest.raises(DataError, match="Run: pip install"):
        read(tmp_path, skip_bad=False)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "bad.txt",
            b"fine\nna\xefve\0",
            "bad.txt: expected a text; found binary data: 9% of the bytes are control characters.",
        ),
        (
            "bad.md",
            "text".encode("utf-16") + b"x",
            "bad.md: expected a text in the encoding utf-16; found the byte 0x78 at position 10.",
        ),
        (
            "bad.html",
            "<p>\nWir gehen heute über die große Straße, weil das Wetter schön ist.</p>".encode("cp850"),
            "bad.html, line 2: expected text in UTF-8; found the byte 0x81, and no other encoding is likely. "
            "Save it as UTF-8, or give this file alone, with its encoding: ragindex index FILE --encoding NAME.",
        ),
        ("bad.txt", b"", "bad.txt: expected a file with text in it; found none."),
        ("bad.md", b"\xef\xbb\xbf \n", "bad.md: expected a file with text in it; found none."),
        ("bad.html", b"<script>only</script>", "bad.html: expected a file with text in it; found none."),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    write(tmp_path / "docs" / name, content)
    write(tmp_path / "docs" / "good.txt", "good")
    with pytest.raises(DataError) as caught:
        read(tmp_path / "docs", skip_bad=False)
    assert str(caught.value).endswith(message.replace("FILE", shlex.quote(str(tmp_path / "docs" / name))))
    with pytest.warns(LeftOutWarning, match="1 file that cannot be read is left out of"):
        warned = read(tmp_path / "docs")
    for corpus in (warned, read(tmp_path / "docs", skip_bad=True)):  # the second without a warning
        assert [document.id for document in corpus.documents] == ["good.txt"]
        assert tuple(map(str, corpus.skipped)) == (str(caught.value),)


def test_a_broken_link_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "gone.md").symlink_to(tmp_path / "nowhere.md")
    with pytest.raises(DataError, match=r"gone\.md: expected a file that can be read; found No such file"):
        read(tmp_path)


@pytest.mark.skipif(sys.platform == "darwin", reason="file names are Unicode there")
def test_a_file_name_that_is_not_unicode_is_one_error(tmp_path: Path) -> None:
    with open(os.path.join(os.fsencode(tmp_path), b"na\xefve.txt"), "wb") as file:
        file.write(b"text")
    with pytest.raises(DataError, match="expected a file name that UTF-8 can hold; found a lone surrogate"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("files", "listed"),
    [
        ({}, "no files"),
        ({"a.toc": "[]", "b.toc": "[]", "c.dwg": "x"}, "only 2 .toc, 1 .dwg"),
        ({".hidden.md": "x"}, "no files"),
    ],
)
def test_a_folder_without_documents_lists_what_is_there(tmp_path: Path, files: dict[str, Any], listed: str) -> None:
    for name, content in files.items():
        write(tmp_path / name, content)
    with pytest.raises(DataError) as caught:
        read(tmp_path)
    expected = f"a folder with files ending in {', '.join(DOCUMENT_SUFFIXES)}, or in a suffix of source code"
    assert str(caught.value) == f"{tmp_path}: expected {expected}; found {listed}."


def test_a_suffix_that_no_reader_takes(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected a folder, or a file ending in \.txt, .*found x\.dwg"):
        read(write(tmp_path / "x.dwg", "x"))


def test_when_everything_is_skipped_the_corpus_is_empty(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "")
    with pytest.raises(DataError, match=r"expected at least one document; found none that can be read; .*a\.txt"):
        read(tmp_path, skip_bad=True)


# ---------------------------------------------------------------- which files are read


def ids(path: Path, **selection: Any) -> list[str]:
    return [document.id for document in read(path, **selection).documents]


def test_patterns_choose_files_by_path_or_name(tmp_path: Path) -> None:
    for name in ("a.md", "b.log", "drafts/c.md", "drafts/old/d.md", "e.txt"):
        write(tmp_path / name, f"text of {name}")
    assert ids(tmp_path, include=["*.md"]) == ["a.md", "drafts/c.md", "drafts/old/d.md"]
    assert ids(tmp_path, include=["*.md"], exclude=["drafts/*"]) == ["a.md"]
    assert ids(tmp_path, exclude=["*.log", "d.md"]) == ["a.md", "e.txt", "drafts/c.md"]
    assert read(tmp_path, exclude=["*.log"]).notes == ("excluded: 1 file",)
    with pytest.raises(DataError, match=r"found no files \(5 files excluded\)"):
        read(tmp_path, include=["*.rst"])


def test_a_file_above_the_limit_is_left_out_and_told(tmp_path: Path) -> None:
    write(tmp_path / "small.txt", "x" * 1000)
    write(tmp_path / "large.txt", "x" * 1001)
    with pytest.warns(LeftOutWarning, match=r"large\.txt"):
        corpus = read(tmp_path, max_file_mb=0.001)
    assert [document.id for document in corpus.documents] == ["small.txt"]
    expected = "a file of at most 0.001 MB (or leave it out with --exclude)"
    reason = "0.001001 MB; to read it: --max-file-mb 1"
    assert tuple(map(str, corpus.skipped)) == (f"{tmp_path / 'large.txt'}: expected {expected}; found {reason}.",)
    with pytest.raises(UsageError, match="must be more than 0 megabytes. Got 0"):
        read(tmp_path, max_file_mb=0)


def test_an_encoding_that_is_given_is_not_guessed(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "Łódź".encode("cp1250"))
    write(tmp_path / "b.html", "<meta charset=utf-8><p>Łódź".encode("cp1250"))
    write(tmp_path / "c.md", "Łódź".encode("utf-16"))
    corpus = read(tmp_path, encoding="windows-1250")
    assert [(document.text, document.metadata["text_encoding"]) for document in corpus.documents] == [
        ("Łódź", "cp1250"),
        ("Łódź", "cp1250"),
        ("Łódź", "utf-16"),  # as its byte order mark says
    ]
    with pytest.raises(UsageError, match="Unknown encoding 'klingon'"):
        read(tmp_path, encoding="klingon")
    with pytest.raises(
        DataError, match=r"a\.txt: expected a text in the encoding ascii; found the byte 0xa3 at position 0"
    ):
        read(tmp_path / "a.txt", encoding="ascii")


def test_only_folders_have_files_to_select(tmp_path: Path) -> None:
    data = write(tmp_path / "corpus.jsonl", '{"id": "a", "text": "x"}')
    for path in (data, "world:100"):
        with pytest.raises(
            UsageError, match="--include, --exclude, --encoding, --max-file-mb, --ocr, --rows and --skip-"
        ):
            read(path, include=["*.md"])


def test_what_is_passed_over_is_told(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    write(docs / "a.md", "text")
    write(docs / "node_modules" / "x" / "README.md", "not mine")
    write(docs / "env" / "pyvenv.cfg", "home = /usr")
    write(docs / "env" / "lib.py", "x = 1")
    write(docs / "built" / "_static" / "style.css", "p {}")
    write(docs / "built" / "_sources" / "page.rst.txt", "a page as it was written")
    write(docs / "built" / "_static" / "theme.js", "let a = 1;")
    write(docs / "built" / "searchindex.js", "Search.setIndex({})")
    write(docs / "site" / "searchindex.js", "let c = 3;")
    write(docs / "built" / "search.html", "<h1>Search</h1><p>Here.")
    write(docs / "_sources" / "own.txt", "no folder of Sphinx")
    write(docs / "site" / "_static" / "own.js", "let b = 2;")
    write(docs / "package" / "__init__.py", "")
    write(docs / "README", "no suffix")
    write(docs / "LICENSE", "do as you like")
    write(docs / "package" / "setup.cfg", "[metadata]")
    write(docs / "q.csv", "Question; Documents; answer\nWho?;a.md;Ann\n")
    write(docs / "prices.csv", "item,price\nboat,4\n")
    write(tmp_path / "other" / "b.md", "elsewhere")
    (docs / "linked").symlink_to(tmp_path / "other")
    corpus = read(docs)
    assert [(document.id, document.text) for document in corpus.documents] == [
        ("LICENSE", "do as you like"),
        ("README", "no suffix"),
        ("a.md", "text"),
        ("prices.csv", "| item | price |\n| --- | --- |\n| boat | 4 |"),
        ("_sources/own.txt", "no folder of Sphinx"),
        ("built/search.html", "Search\n\nHere."),
        ("package/setup.cfg", "[metadata]"),
        ("site/searchindex.js", "let c = 3;"),
        ("site/_static/own.js", "let b = 2;"),
    ]
    assert corpus.skipped == ()
    assert corpus.notes == (
        "passed over: links to folders, which are not followed: linked",
        "passed over: generated files: env, node_modules, built/_sources, built/_static, built/searchindex.js",
        "passed over: empty files of source code: package/__init__.py",
        "passed over: files of questions: q.csv",
    )


def test_a_page_that_holds_other_pages_is_told(tmp_path: Path) -> None:
    pages = {name: " ".join(f"{name}{number}" for number in range(60)) for name in ("anchor", "buoy", "chart")}
    for name, text in pages.items():
        write(tmp_path / "docs" / f"{name}.md", text)
    write(tmp_path / "docs" / "all pages.md", "\n\n".join(pages.values()))
    assert read(tmp_path / "docs").notes[0] == (
        "all pages.md holds the texts of 3 other documents (anchor.md, buoy.md, chart.md), so that its passages take "
        "the places of theirs. To leave it out: --exclude 'all pages.md'"
    )


def test_a_long_document_and_near_duplicates_are_told(tmp_path: Path) -> None:
    words = " ".join(f"word{number}" for number in range(300))
    write(tmp_path / "a.txt", words)
    write(tmp_path / "b.txt", words.replace("word7 ", "seven "))
    write(tmp_path / "c.txt", " ".join(f"other{number}" for number in range(300)))
    write(tmp_path / "server log.txt", "line of a log\n" * 40_000)
    assert read(tmp_path).notes == (
        "server log.txt has 99% of all text. To leave it out: --exclude 'server log.txt'",
        "1 document is almost equal to another: b.txt ~ a.txt",
    )


def test_a_name_is_the_same_however_it_is_composed(tmp_path: Path) -> None:
    decomposed = "Cafe\u0301.txt"
    write(tmp_path / decomposed, "text")
    (document,) = read(tmp_path).documents
    assert (document.id, document.metadata["source"], read(tmp_path / decomposed).only) == ("Café.txt",) * 3
    write(tmp_path / "tea.txt", "text")
    for written in ("Café.txt", decomposed):
        for pattern in (written, written.replace("C", "?")):
            chosen, others = (read(tmp_path, **{way: [pattern]}) for way in ("include", "exclude"))
            assert [[read_document.id for read_document in each.documents] for each in (chosen, others)] == [
                ["Café.txt"],
                ["tea.txt"],
            ]


def test_a_file_whose_name_cannot_be_an_id_is_left_out(tmp_path: Path) -> None:
    for name in ("a.txt", "b\nc.txt", "d\x7f.txt"):
        write(tmp_path / name, "text")
    corpus = read(tmp_path, skip_bad=True)
    assert [document.id for document in corpus.documents] == ["a.txt"]
    assert [item.reason for item in corpus.skipped] == [
        f"expected a document id without control characters; found the control character {control}."
        for control in (r"'\n' in 'b\nc.txt'", r"'\x7f' in 'd\x7f.txt'")
    ]
