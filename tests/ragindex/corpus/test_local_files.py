"""Documents of one's own: text, Markdown, HTML and PDF files."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ragindex.corpus import read
from ragindex.errors import DataError, MissingExtraError
from ragindex.types import Document

NOON = 1_000_000_000  # 2001-09-09


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    os.utime(path, (NOON, NOON))
    return path


def only(path: Path) -> Document:
    (document,) = read(path).documents
    return document


def pdf(*pages: str, title: str | None = None) -> bytes:
    """A PDF file with one line of text a page."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, page in enumerate(pages):
        drawn = f"BT /F1 12 Tf 72 720 Td ({page}) Tj ET"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    info = ""
    if title is not None:
        objects.append(f"<< /Title ({title}) >>")
        info = f" /Info {len(objects)} 0 R"
    found, offsets = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(found))
        found += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    end = f"trailer << /Size {len(objects) + 1} /Root 1 0 R{info} >>\nstartxref\n{len(found)}\n%%EOF"
    return f"{found}xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{end}".encode()


def test_a_folder_is_read_in_order_with_relative_ids(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "b.txt", "Plain\r\ntext\rhere")
    write(tmp_path / "docs" / "a" / "z.md", "# The *Title* #\n\nBody")
    write(tmp_path / "docs" / "a" / "Y.HTM", "<p>Hello</p>")
    write(tmp_path / "docs" / ".git" / "notes.txt", "hidden")
    write(tmp_path / "docs" / ".hidden.md", "hidden")
    write(tmp_path / "docs" / "photo.png", b"\x89PNG")
    write(tmp_path / "docs" / "a" / "photo.PNG", b"\x89PNG")
    write(tmp_path / "docs" / "Makefile", "all:")
    corpus = read(tmp_path / "docs")
    assert (corpus.name, corpus.format, corpus.whole, corpus.repeats) == ("docs", "folder", False, 0)
    assert corpus.ignored == {".png": 2, "Makefile": 1}
    day = {"modified": "2001-09-09"}
    assert corpus.documents == (
        Document("b.txt", "b", "Plain\ntext\nhere", {"source": "b.txt", **day}),
        Document("a/Y.HTM", "Y", "Hello", {"source": "a/Y.HTM", **day}),
        Document("a/z.md", "The *Title*", "# The *Title* #\n\nBody", {"source": "a/z.md", **day}),
    )


def test_the_same_text_in_two_files_is_two_documents(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "same")
    write(tmp_path / "b.txt", "same")
    corpus = read(tmp_path)
    assert [document.id for document in corpus.documents] == ["a.txt", "b.txt"]
    assert corpus.repeats == 0


def test_a_single_file(tmp_path: Path) -> None:
    corpus = read(write(tmp_path / "note.txt", "\ufeffwith a mark"))
    assert (corpus.name, corpus.format, corpus.whole) == ("note", "folder", False)
    assert corpus.documents == (
        Document("note.txt", "note", "with a mark", {"source": "note.txt", "modified": "2001-09-09"}),
    )


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("intro\n\n## Second level\n# First", "Second level"),
        ("Set out\n=======\n\n# Later", "Set out"),
        ("```\n# a comment\n```\n# Real", "Real"),
        ("~~~\n```\n# a comment\n~~~\n# Real", "Real"),
        ("   # Indented", "Indented"),
        ("    # Code\n#Not a heading\n####### Seven", "stem"),
        ("#\n# \n# Third", "Third"),
        ("no heading", "stem"),
    ],
)
def test_the_title_of_markdown(tmp_path: Path, text: str, title: str) -> None:
    document = only(write(tmp_path / "stem.md", text))
    assert (document.title, document.text) == (title, text)


@pytest.mark.parametrize(
    ("markup", "title", "text"),
    [
        (
            "<html><head><title> My\n page </title><style>b{}</style></head><body><h1>Head</h1>Text</body></html>",
            "My page",
            "Head\n\nText",
        ),
        (
            "<h1>Head<b>line</b></h1><p>One <b>bold</b>word,\n   wrapped.<p>Two<br>lines",
            "Headline",
            "Headline\n\nOne boldword, wrapped.\n\nTwo\nlines",
        ),
        (
            "<script>alert(1)</script>a<noscript>b</noscript><!-- c --><template>d</template> &lt;b&gt; &eacute;",
            "stem",
            "a <b> é",
        ),
        ("<table><tr><td>1</td><td>2</td></tr><tr><th>3</th></tr></table>", "stem", "1 2\n3"),
        ("<pre>a\n  b</pre>", "stem", "a\nb"),
        (
            '<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml"><body>x</body></html>',
            "stem",
            "x",
        ),
        ("/a/file/name.html", "stem", "/a/file/name.html"),
        ("<ul><li>1</li><li>2</li></ul><div>a</div><div>b</div>", "stem", "1\n2\n\na\nb"),
        ("<div>" * 20_000 + "deep", "stem", "deep"),
        ("<!doctype html><title>Valid</title><p>body", "Valid", "body"),
        ("<html><head><title>Valid</title><body><p>body", "Valid", "body"),
        ("<head><meta charset=utf-8><title>Valid</title>body", "Valid", "body"),
    ],
)
def test_html(tmp_path: Path, markup: str, title: str, text: str) -> None:
    document = only(write(tmp_path / "stem.html", markup))
    assert (document.title, document.text) == (title, text)


def test_pdf(tmp_path: Path) -> None:
    pytest.importorskip("pypdf")
    write(tmp_path / "with.pdf", pdf("First page", "Second page", title="A paper"))
    write(tmp_path / "without.pdf", pdf("Only page"))
    assert read(tmp_path).documents == (
        Document(
            "with.pdf",
            "A paper",
            "First page\n\nSecond page",
            {"source": "with.pdf", "modified": "2001-09-09", "pages": 2},
        ),
        Document(
            "without.pdf", "without", "Only page", {"source": "without.pdf", "modified": "2001-09-09", "pages": 1}
        ),
    )


@pytest.mark.parametrize("content", [b"", b"not a PDF", b"%PDF-1.4\n%%EOF", pdf("x")[:200]])
def test_a_broken_pdf_is_one_error(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("pypdf")
    with pytest.raises(DataError, match=r"broken\.pdf: expected a PDF file; found "):
        read(write(tmp_path / "broken.pdf", content))


def test_a_pdf_of_pictures_is_one_error(tmp_path: Path) -> None:
    pytest.importorskip("pypdf")
    with pytest.raises(DataError, match=r"scan\.pdf: expected a file with text in it; found none"):
        read(write(tmp_path / "scan.pdf", pdf("", title="Scanned")))


def test_without_the_extra_a_pdf_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    write(tmp_path / "paper.pdf", pdf("x"))
    for skip_bad in (False, True):
        with pytest.raises(MissingExtraError, match=r"Reading paper.pdf needs .*Run: pip install 'pypdf>=5'"):
            read(tmp_path, skip_bad=skip_bad)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bad.txt", b"fine\nna\xefve\0", "bad.txt, line 2: expected text in UTF-8; found the byte 0xef."),
        ("bad.md", "text".encode("utf-16") + b"x", "bad.md, line 1: expected text in UTF-8; found UTF-16."),
        ("bad.html", b"<p>caf\xe9\0</p>", "bad.html, line 1: expected text in UTF-8; found the byte 0xe9."),
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
    assert str(caught.value).endswith(message)
    for corpus in (read(tmp_path / "docs"), read(tmp_path / "docs", skip_bad=True)):
        assert [document.id for document in corpus.documents] == ["good.txt"]
        assert corpus.skipped == (str(caught.value),)


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
    ("files", "found"),
    [
        ({}, "no files"),
        ({"a.json": "[]", "b.json": "[]", "c.docx": "x"}, "only 2 .json, 1 .docx"),
        ({".hidden.md": "x"}, "no files"),
    ],
)
def test_a_folder_without_documents_lists_what_is_there(tmp_path: Path, files: dict[str, Any], found: str) -> None:
    for name, content in files.items():
        write(tmp_path / name, content)
    with pytest.raises(DataError) as caught:
        read(tmp_path)
    suffixes = ".txt, .md, .markdown, .rst, .html, .htm, .pdf"
    assert str(caught.value) == f"{tmp_path}: expected a folder with files ending in {suffixes}; found {found}."


def test_a_suffix_that_no_reader_takes(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected a folder, or a file ending in \.jsonl, \.json, .*found x\.docx"):
        read(write(tmp_path / "x.docx", "x"))


def test_when_everything_is_skipped_the_corpus_is_empty(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "")
    with pytest.raises(DataError, match=r"expected at least one document; found none that can be read; .*a\.txt"):
        read(tmp_path, skip_bad=True)
