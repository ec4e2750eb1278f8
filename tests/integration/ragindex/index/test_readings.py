"""A source keeps the options that it was read with: later runs use them, and an update reads it in the same way."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from command_line import write

from ragindex import read
from ragindex.corpus import Corpus, local_files
from ragindex.corpus.local_files import read_raw
from ragindex.corpus.readers.content import FileContent
from ragindex.errors import NewerFormatError, UsageError
from ragindex.index.index import Index
from ragindex.index.manifest import DocumentSource, Manifest, SourceReading
from ragindex.types import Document

TEXTS = {
    "a.md": "# A\n\nThe harbour.",
    "b.txt": "The pier.",
    "drafts/c.md": "# C\n\nThe tide.",
    "faq.csv": "id,question,answer\nF1,When?,At noon.\n",
}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    write(tmp_path / "docs", TEXTS)
    return tmp_path / "docs"


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index.open(tmp_path / "index", create=True)


def ids(index: Index) -> list[str]:
    return sorted(document.id for document in index.documents)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["a.md", "b.txt", "drafts/c.md", "faq.csv"]),
        ({"include": ["*.md"]}, ["a.md", "drafts/c.md"]),
        ({"exclude": ["drafts/*", "*.csv"]}, ["a.md", "b.txt"]),
        ({"rows": "text=answer", "include": ["*.csv"]}, ["faq.csv/F1"]),
        ({"encoding": "cp1252", "max_file_mb": 0.5}, ["a.md", "b.txt", "drafts/c.md", "faq.csv"]),
    ],
)
def test_an_update_reads_a_source_as_before(
    docs: Path, index: Index, options: dict[str, object], expected: list[str]
) -> None:
    index.replace(read(docs, **options))  # type: ignore[arg-type]
    assert ids(index) == expected
    (docs / "new.md").write_text("# New\n\nThe ferry.", encoding="utf-8")
    report = index.update()
    is_added = not options.get("include") or "*.md" in options["include"]  # type: ignore[operator]
    assert ids(index) == sorted([*expected, *(["new.md"] if is_added else [])])
    assert (report.changes.added, report.changes.changed, report.changes.removed) == (is_added, 0, 0)


@contextmanager
def record_reads() -> Iterator[list[str]]:
    """Yield a list of the files that are parsed in the block."""
    names = list[str]()

    def note(raw: bytes, file: Path, *others: Any) -> FileContent:
        names.append(file.name)
        return read_raw(raw, file, *others)

    with patch.object(local_files, "read_raw", note):
        yield names


def test_files_with_known_bytes_are_not_parsed(docs: Path, index: Index) -> None:
    """Their dates do not matter, and those that have no documents are read each time: they may be readable now."""
    (docs / "blank.md").write_text(" ", encoding="utf-8")
    index.replace(read(docs, skip_bad=True))
    before = sorted(index.documents, key=lambda document: document.id)
    with record_reads() as names:
        report = index.update(dry_run=True)
        assert (report.changes.unchanged, report.changes.removed) == (4, 0)
        os.utime(docs / "a.md", (1, 1))
        (docs / "b.txt").rename(docs / "other.txt").rename(docs / "b.txt")
        assert index.update().changes.unchanged == 4
        assert names == ["blank.md", "blank.md"]
    assert sorted(index.documents, key=lambda document: document.id) == before
    (docs / "a.md").write_text("# A\n\nThe harbow.", encoding="utf-8")  # as long as before
    (docs / "drafts" / "c.md").rename(docs / "d.md")
    with record_reads() as names:
        report = index.update()
    assert sorted(names) == ["a.md", "blank.md", "d.md"]
    assert (report.changes.changed, report.changes.renamed) == (1, (("drafts/c.md", "d.md"),))
    assert report.changes.unchanged == 2


@pytest.mark.parametrize("cause", ["readers", "options", "removal"])
def test_known_files_are_read_again_where_documents_may_differ(
    cause: str, docs: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By other readers, with other options, and where a document is missing."""
    index.replace(read(docs, rows="text=answer"))
    expected = ["a.md", "b.txt", "c.md", "faq.csv"]
    if cause == "readers":
        monkeypatch.setattr("ragindex.index.readings.readers_version", lambda: "other")
    elif cause == "options":
        index.add(read(docs / "drafts", encoding="cp1252"))
    else:
        index.remove(["faq.csv/F1"])
    with record_reads() as names:
        index.update()
    assert sorted(names) == expected
    assert ids(index) == ["a.md", "b.txt", "drafts/c.md", "faq.csv/F1"]
    monkeypatch.undo()
    with record_reads() as names:
        index.update()
    assert names == []


def test_a_part_of_a_folder_keeps_options_of_its_own(docs: Path, index: Index) -> None:
    index.replace(read(docs, exclude=["drafts/*"]))
    index.add(read(docs / "drafts" / "c.md"))  # excluded, and named
    index.update()
    assert "drafts/c.md" in ids(index)
    index.replace(read(docs / "drafts", include=["*.txt", "c.md"]))
    (docs / "drafts" / "d.md").write_text("# D", encoding="utf-8")
    assert index.update().changes.added == 0
    reading = index.manifest.sources["docs"].reading
    assert reading.parts == {"": {"exclude": ["drafts/*"]}, "drafts": {"include": ["*.txt", "c.md"]}}


def test_only_the_named_file_of_a_folder_is_read_again(docs: Path, index: Index) -> None:
    index.add(read(docs / "a.md"))
    (docs / "a.md").write_text("# A\n\nThe new harbour.", encoding="utf-8")
    assert index.update().changes.changed == 1
    assert ids(index) == ["a.md"]
    (docs / "a.md").unlink()
    assert index.update().changes.gone == ("a.md",)


def test_a_data_set_is_read_again(tmp_path: Path, index: Index) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"id": "x", "text": "one"}\n{"text": 3}\n', encoding="utf-8")
    index.replace(read(tmp_path / "corpus.jsonl", skip_bad=True))
    (tmp_path / "corpus.jsonl").write_text('{"id": "y", "text": "two"}\n{"text": 3}\n', encoding="utf-8")
    report = index.update()
    assert (report.changes.new, report.changes.gone, report.sources[0].left_out != ()) == (("y",), ("x",), True)


def test_options_of_a_later_version_are_refused() -> None:
    with pytest.raises(NewerFormatError, match="version 2"):
        SourceReading.model_validate({"version": 2, "unknown": 1})
    older = {"root": "/docs", "format": "folder"}
    assert DocumentSource.model_validate(older).reading is None


def test_secrets_are_not_stored(docs: Path, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-quite-secret-7")
    with pytest.raises(UsageError, match="--exclude holds a secret"):
        index.replace(read(docs, exclude=["*sk-quite-secret-7*"]))
    assert "quite-secret" not in json.dumps(Manifest.model_dump(index.manifest, mode="json"))
    assert index.manifest.sources == {}


def test_many_removals_need_permission(docs: Path, index: Index) -> None:
    for number in range(8):
        (docs / f"n{number}.md").write_text(f"# N{number}", encoding="utf-8")
    index.replace(read(docs))
    for number in range(6):
        (docs / f"n{number}.md").unlink()
    before = ids(index)
    with pytest.raises(
        UsageError, match=r"6 of 12 documents of the source 'docs' .*index\.update\(allow_removals=True\)"
    ):
        index.update()
    assert ids(index) == before
    assert index.update(allow_removals=True).changes.removed == 6


def test_a_dry_run_reports_what_the_update_does(docs: Path, index: Index) -> None:
    index.replace(read(docs))
    index.build("bm25")
    (docs / "a.md").write_text("# A\n\nChanged.", encoding="utf-8")
    (docs / "b.txt").unlink()
    (docs / "new.md").write_text("# New", encoding="utf-8")
    version = index.manifest
    preview = index.update(dry_run=True)
    changes = preview.changes
    assert (changes.new, changes.replaced, changes.gone) == (("new.md",), ("a.md",), ("b.txt",))
    assert index.manifest == version
    assert not index.corpus_moved()
    report = index.update()
    assert report.changes == preview.changes
    assert (report.parts, report.methods) == (("passages",), ("bm25",))  # and no `ircot`, which only asks it
    assert report.seconds > 0
    assert report.spent["money"] == 0
    assert index.update().parts == ()


def test_reading_again_needs_no_place_in_a_corpus_of_a_program(index: Index) -> None:
    index.add(Corpus("made", "program", (Document("a", "A", "A text."),), 0, (), False))
    assert index.update().sources == ()
