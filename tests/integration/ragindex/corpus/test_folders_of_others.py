"""Folders that others filled: what leads out of them, and files that hang, crash or exhaust their reader."""

import io
import os
import socket
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docx
import pypdf
import pytest

from ragindex._util.workers import use_executor
from ragindex.corpus import read, reading_processes
from ragindex.corpus.formats import list_source_files
from ragindex.corpus.json_reader import Problems, read_bounded
from ragindex.corpus.local_files import read_folder
from ragindex.corpus.readers.process import ReadingLimits
from ragindex.errors import DataError, RagindexError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one good document that a process reads; beside it is what is not to be read."""
    (tmp_path / "private.md").write_text("private")
    (tmp_path / "private.jsonl").write_text('{"id": "a", "text": "private"}\n')
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "good.md").write_text("good")
    return docs


@pytest.fixture
def processes() -> Iterator[None]:
    """No process reads yet, and none stays."""
    reading_processes._end_idle()
    yield
    reading_processes._end_idle()


def read_with(folder: Path, **limits: Any) -> tuple[list[str], list[str]]:
    """The ids of the documents, and why other files were left out."""
    problems = Problems(skip_bad=True)
    (documents, _), _ = read_folder(folder, problems, limits=ReadingLimits(**limits))
    return [document.id for document in documents], [str(error).removeprefix(f"{folder}/") for error in problems.errors]


def test_only_regular_files_inside_the_folder_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "inner.md").symlink_to("good.md")
    (folder / "outer.md").symlink_to("../private.md")
    (folder / "sub").mkdir()
    (folder / "sub" / "up.md").symlink_to("../../private.md")
    (folder / "environ.txt").symlink_to("/proc/self/environ")
    (folder / "picture.png").symlink_to("../private.md")
    (folder / "zero.txt").symlink_to("/dev/zero")
    (folder / "corpus.jsonl").symlink_to("../private.jsonl")  # which would make the folder a data set
    os.mkfifo(folder / "pipe.csv")
    monkeypatch.chdir(folder)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.log")
        corpus = read(folder)
        assert set(list_source_files(folder)) - {folder / "zero.txt"} == {
            *(folder / name for name in ("good.md", "inner.md", "outer.md", "environ.txt", "sub/up.md")),
            *(folder / name for name in ("corpus.jsonl", "picture.png")),
        }
    assert [(document.id, document.text) for document in corpus.documents] == [
        ("good.md", "good"),
        ("inner.md", "good"),
    ]
    outside = (
        "passed over: links to files outside of the folder: corpus.jsonl, environ.txt, outer.md, zero.txt, sub/up.md"
    )
    special = "passed over: named pipes, devices and sockets: pipe.csv, socket.log"
    assert corpus.notes[:2] == (outside, special)
    assert corpus.unread["sub/up.md"] == "one of the links to files outside of the folder"
    assert corpus.ignored == {".png": 1}


def test_a_folder_of_links_alone_says_so(folder: Path) -> None:
    (folder / "good.md").unlink()
    (folder / "outer.md").symlink_to("../private.md")
    with pytest.raises(DataError, match=r"found no files; links to files outside of the folder: outer\.md\.$"):
        read(folder)


def test_a_folder_that_cannot_be_read_is_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests may run as root, who can read everything."""
    locked = folder / "lost+found"
    locked.mkdir()
    scandir, stat = os.scandir, os.stat

    def refuse(path: Any, real: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(path, str | Path) and Path(path).is_relative_to(locked) and (real is scandir or path != locked):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "scandir", lambda path: refuse(path, scandir))
    monkeypatch.setattr(os, "stat", lambda path, **options: refuse(path, stat, **options))
    assert read_with(folder) == (
        ["good.md"],
        ["lost+found: expected a file that can be read; found Permission denied."],
    )


def test_no_more_is_read_than_is_allowed_whatever_size_a_file_has(folder: Path) -> None:
    assert read_bounded(folder / "good.md", 4) == b"good"
    with pytest.raises(DataError, match="expected a file of at most 3e-06 MB; found one that grew while it was read"):
        read_bounded(folder / "good.md", 3)


def word_file(before_table: bytes) -> bytes:
    """A Word file with a table, and what stands before it."""
    document, written, packed = docx.Document(), io.BytesIO(), io.BytesIO()
    document.add_table(1, 2).cell(0, 0).text = "cell"
    document.save(written)
    with zipfile.ZipFile(written) as given, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as taken:
        for name in given.namelist():
            taken.writestr(name, given.read(name).replace(b"<w:tbl>", before_table + b"<w:tbl>", 1))
    return packed.getvalue()


def pdf_of_nested_forms(levels: int, times: int) -> bytes:
    """A PDF file whose page draws a form several times, which draws another several times, and so on."""
    writer = pypdf.PdfWriter()
    page = writer.add_blank_page(200, 200)
    inner: Any = None
    for level in range(levels + 1):
        drawn = pypdf.generic.DecodedStreamObject()
        drawn.set_data(b"/F Do " * times if inner is not None else b"0 0 m 1 1 l S")
        resources = pypdf.generic.DictionaryObject()
        if inner is not None:
            forms = pypdf.generic.DictionaryObject({pypdf.generic.NameObject("/F"): inner})
            resources[pypdf.generic.NameObject("/XObject")] = forms
        if level == levels:
            page[pypdf.generic.NameObject("/Contents")] = writer._add_object(drawn)
            page[pypdf.generic.NameObject("/Resources")] = resources
            break
        named = {"/Type": "/XObject", "/Subtype": "/Form"}
        drawn.update({pypdf.generic.NameObject(key): pypdf.generic.NameObject(value) for key, value in named.items()})
        box = pypdf.generic.ArrayObject(map(pypdf.generic.NumberObject, (0, 0, 200, 200)))
        drawn[pypdf.generic.NameObject("/BBox")] = box
        drawn[pypdf.generic.NameObject("/Resources")] = resources
        inner = writer._add_object(drawn)
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


SLOW = "expected a file that can be read within 1 seconds; found one that takes longer."


@pytest.mark.parametrize(
    ("name", "content", "limits", "reason"),
    [
        ("headings.md", b"# a\n" * 400_000, {"seconds": 1.0}, SLOW),
        ("forms.pdf", pdf_of_nested_forms(10, 10), {"seconds": 1.0}, SLOW),
        (
            "packed.docx",
            word_file(b"<w:p><w:r><w:t>x</w:t></w:r></w:p>" * 150_000),
            {"memory": 150_000_000},
            "expected a file that can be read with 0.15 GB of memory; found one that needs more, or that crashes its "
            "reader.",
        ),
        (
            "long.md",
            b"word " * 200,
            {"characters": 999},
            "expected a file with at most 999 characters of text; found 1,000.",
        ),
    ],
    ids=lambda given: given if isinstance(given, str) and given.endswith(("md", "docx")) else "",
)
def test_a_file_that_takes_too_much_is_left_out_with_the_limit(
    folder: Path, name: str, content: bytes, limits: dict[str, Any], reason: str
) -> None:
    (folder / name).write_bytes(content)
    (folder / "zz.md").write_text("read after it")
    assert read_with(folder, **limits) == (["good.md", "zz.md"], [f"{name}: {reason}"])


_READERS_THAT_FAIL = """
import os
from ragindex.corpus import readers
from ragindex.corpus.readers.content import FileContent

def read(raw, path, encoding):
    print("on standard output", flush=True)
    if b"crash" in raw:
        os.kill(os.getpid(), 11)
    if b"fail" in raw:
        raise IndexError("no such part")
    return FileContent("\\ud800", raw.decode())

readers.READERS[".md"] = read
answer_requests()
"""


@pytest.mark.usefixtures("processes")
def test_a_file_that_crashes_its_reader_is_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = reading_processes._PROGRAM.replace("answer_requests()\n", _READERS_THAT_FAIL)
    monkeypatch.setattr(reading_processes, "_PROGRAM", program)
    (folder / "a.md").write_text("crash")
    (folder / "b.md").write_text("fail")
    (folder / "h.md").write_text("crash")
    expected = "expected a file that its reader can read; found one"
    assert read_with(folder) == (
        ["good.md"],
        [
            f"a.md: {expected} that crashes it (SIGSEGV).",
            f"b.md: {expected} on which it fails (IndexError: no such part).",
            f"h.md: {expected} that crashes it (SIGSEGV).",
        ],
    )


@pytest.mark.usefixtures("processes")
def test_a_process_that_does_not_start_is_one_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_processes, "_PROGRAM", "raise SystemExit(5)")
    with pytest.raises(RagindexError, match=r"did not start \(exit code 5\)\. Check that memory is free"):
        read(folder)


@pytest.mark.usefixtures("processes")
def test_nothing_is_imported_from_the_folder_that_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("yaml", "regex", "json"):
        (folder / f"{name}.py").write_text(f"open('imported', 'w')  # {name}")
    monkeypatch.chdir(folder)
    assert [document.id for document in read(".").documents] == ["good.md", "json.py", "regex.py", "yaml.py"]
    assert not (folder / "imported").exists()


def test_files_are_read_by_an_executor_as_by_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for small and large ones, and for all where a password is set, which is not sent."""
    monkeypatch.setattr(reading_processes, "_ALONE_SECONDS", 0.0)
    monkeypatch.setattr(reading_processes, "_SENT_BYTES", range(10, 1000))
    for number in range(6):
        (tmp_path / f"{number}.md").write_text(f"# Page {number}\n\nIts text.", encoding="utf-8")
    (tmp_path / "large.md").write_text("A long text. " * 100, encoding="utf-8")
    (tmp_path / "empty.html").write_text("", encoding="utf-8")
    alone, problems, sent = Problems(skip_bad=True), Problems(skip_bad=True), list[str]()
    corpus = read_folder(tmp_path, alone)
    with ThreadPoolExecutor(2) as pool, use_executor(pool):
        submit = pool.submit
        monkeypatch.setattr(pool, "submit", lambda *given: sent.append(given[2][0][1].name) or submit(*given))
        assert read_folder(tmp_path, problems) == corpus
        assert sorted(sent) == [f"{number}.md" for number in range(6)]
        monkeypatch.setenv("RAGINDEX_PDF_PASSWORD", "secret")
        assert read_folder(tmp_path, Problems(skip_bad=True)) == corpus
    assert len(sent) == 6
    assert problems.left_out == alone.left_out


def test_a_password_that_is_set_later_reaches_the_process_that_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = pypdf.PdfWriter()
    writer.add_blank_page(100, 100)
    writer.encrypt("secret")
    writer.write(folder / "locked.pdf")
    reason = (
        "locked.pdf: expected a PDF file; found an encrypted one; set the environment variable RAGINDEX_PDF_PASSWORD"
    )
    assert read_with(folder)[1][0].startswith(reason)
    monkeypatch.setenv("RAGINDEX_PDF_PASSWORD", "secret")
    assert read_with(folder)[1] == ["locked.pdf: expected a file with text in it; found none."]  # it is open, and blank
    monkeypatch.delenv("RAGINDEX_PDF_PASSWORD")
    assert read_with(folder)[1][0].startswith(reason)
