"""Documents under another id: they are reported as renamed, cost nothing again, and their old ids lead to them."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from command_line import ragindex
from till import PAID, billing, open_desk

import ragindex as library
from ragindex.encoders import cache_pruning
from ragindex.encoders.cache_pruning import VectorKind
from ragindex.encoders.lsa import LsaEncoder
from ragindex.encoders.vector_cache import CachedEncoder
from ragindex.index import changes
from ragindex.index.index import Index
from ragindex.index.renames import find_renames, read_renames
from ragindex.parts.vectors.vectors import Vectors
from ragindex.types import Document

LINES = [f"Line {number} of the guide to harbour {number * 7}." for number in range(40)]


def write_pages(folder: Path, names: Sequence[str]) -> None:
    folder.mkdir(exist_ok=True)
    for number, name in enumerate(names):
        text = "\n\n".join(LINES[number : number + 20])
        (folder / name).write_text(f"# Guide {number}\n\n{text}\n\nIsland {number} has a light of its own.\n")


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    write_pages(tmp_path / "pages", [f"page{number}.md" for number in range(12)])
    return tmp_path / "pages"


@pytest.mark.parametrize(
    ("changed", "renamed"),
    [(0, True), (2, True), (3, False)],  # of 20 lines
)
def test_nine_tenths_of_the_lines(changed: int, renamed: bool) -> None:
    old = Document("old", "Guide", "\n".join(LINES[:20]))
    new = Document("new", "Another title", "\n".join([*LINES[changed:20], *LINES[30 : 30 + changed]]))
    assert find_renames([old], [new]) == ({"old": "new"} if renamed else {})


def test_equal_and_similar_documents_are_paired_once() -> None:
    text = "\n".join(LINES[:20])
    near = "\n".join([*LINES[1:20], "Other."])
    gone = [Document("a/x", "", text), Document("a/y", "", text), Document("a/z", "", near)]
    new = [
        Document("b/y", "", text),
        Document("b/x", "", text),
        Document("b/w", "", "\n".join([*LINES[1:20], "More."])),
    ]
    assert find_renames(gone, new) == {"a/x": "b/x", "a/y": "b/y", "a/z": "b/w"}
    assert find_renames(gone, new[:1]) == {"a/y": "b/y"}
    assert find_renames(gone, []) == {}


def test_all_files_renamed_encode_nothing(pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their titles are part of them. One that loses a line of twenty is renamed too, and its passages are encoded."""
    with Index.open(tmp_path / "w", create=True) as index:
        index.replace(library.read(pages))
        index.build("hybrid", "raptor")
        before = index.retriever("hybrid").search("Which island has a light?", k=5)
        encoded, encode = list[str](), LsaEncoder.encode_documents

        def record(self: Any, texts: Sequence[str]) -> Any:
            encoded.extend(texts)
            return encode(self, texts)

        monkeypatch.setattr(LsaEncoder, "encode_documents", record)
        for path in sorted(pages.iterdir()):
            path.rename(path.with_name(f"moved-{path.name}"))
        changed = index.replace(library.read(pages))
        assert changed.renamed == tuple(sorted((f"page{n}.md", f"moved-page{n}.md") for n in range(12)))
        assert (changed.added, changed.changed, changed.removed, changed.unchanged) == (0, 0, 0, 0)
        assert (changed.new, changed.gone) == ((), ())
        index.build()
        assert encoded == []
        after = index.retriever("hybrid").search("Which island has a light?", k=5)
        assert [hit.text for hit in after] == [hit.text for hit in before]
        assert index.retriever("bm25").search("harbour", where={"doc_ids": "page3.md"}).hits == ()
        assert len(index.retriever("bm25").search("harbour", where={"doc_ids": "moved-page3.md"})) > 0
        moved = pages / "moved-page3.md"
        moved.rename(pages / "last.md").write_text((pages / "last.md").read_text().replace(LINES[4], ""))
        changed = index.replace(library.read(pages))
        assert changed.renamed == (("moved-page3.md", "last.md"),)
        assert changed.unchanged == 11


@pytest.mark.parametrize("renamed", [True, False])
def test_vectors_follow_their_texts_without_a_cache(
    renamed: bool, pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quick ones are pruned from the cache: those that the part stores are taken for other ids and other metadata."""
    monkeypatch.setitem(cache_pruning.VECTOR_KINDS, "quick", VectorKind("1 = 1", 0.0, 0))
    with Index.open(tmp_path / "w", create=True) as index:
        documents = list(library.read(pages).documents)
        index.replace(documents, source="pages")
        index.build("hybrid")
        vectors = read_vectors(index)
        moved = [replace(each, id=f"moved-{each.id}", metadata={"commit": "1f3a"}) for each in documents]
        edited = [replace(each, metadata={"commit": "1f3a"}) for each in documents]
        index.replace(moved if renamed else edited, source="pages")
        with patch.object(LsaEncoder, "encode_documents", side_effect=AssertionError("a text was encoded again")):
            index.build()
        stored = read_vectors(index)
        assert stored.keys() == vectors.keys()
        for text, vector in vectors.items():
            np.testing.assert_allclose(stored[text], vector, rtol=0, atol=1.2e-7)  # scaled to length one again
        assert len(index.retriever("dense").search("Which island has a light?", where={"meta.commit": "1f3a"})) > 0
        assert count_cached_vectors(index) == 0
        index.remove([document.id for document in index.documents][1:])  # and no passage is made
        with patch.object(CachedEncoder, "_add_rows", side_effect=AssertionError("vectors were read needlessly")):
            index.build()


def read_vectors(index: Index) -> dict[str, list[float]]:
    """Return the stored vector of each text."""
    records = index.open_part(Vectors())
    batches = records.scan(("text", "vector"))
    return {row["text"]: row["vector"] for batch in batches for row in batch.to_pylist()}


def count_cached_vectors(index: Index) -> int:
    with closing(sqlite3.connect(index.folder / "caches" / "vectors.sqlite")) as connection:
        (count,) = connection.execute("SELECT count(*) FROM vectors").fetchone()
    return int(count)


def test_old_ids_lead_to_the_newest_until_they_are_taken(pages: Path, tmp_path: Path) -> None:
    with Index.open(tmp_path / "w", create=True) as index:
        index.replace(library.read(pages))
        assert read_renames(index.folder) == {}
        (pages / "page1.md").rename(pages / "first.md")
        index.replace(library.read(pages))
        (pages / "first.md").rename(pages / "second.md")
        index.replace(library.read(pages))
        assert read_renames(index.folder) == {"page1.md": "second.md", "first.md": "second.md"}
        (pages / "page1.md").write_text("# Another page\n\nIt has taken the name of a page that was renamed.")
        assert index.add(library.read(pages / "page1.md")).added == 1
        assert read_renames(index.folder) == {"first.md": "second.md"}
        (pages / "second.md").rename(pages / "first.md")
        changed = index.replace(library.read(pages))
        assert changed.renamed == (("second.md", "first.md"),)
        assert read_renames(index.folder) == {"second.md": "first.md"}
        file = index.folder / "renames.json"
        file.write_bytes(file.read_bytes()[:-3])
        assert read_renames(index.folder) == {}


def test_update_of_several_sources_looks_for_renames_once(
    pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removals of all sources are announced before the first is written; that has found what was renamed."""
    write_pages(tmp_path / "notes", ["note.md", "other.md"])
    with Index.open(tmp_path / "w", create=True) as index:
        index.replace(library.read(pages))
        index.replace(library.read(tmp_path / "notes"), source="notes")
        index.build("bm25")
        (pages / "page3.md").rename(pages / "third.md")
        (tmp_path / "notes" / "note.md").rename(tmp_path / "notes" / "moved.md")
        searched = list[list[str]]()

        def find(gone: Sequence[Document], new: Sequence[Document]) -> dict[str, str]:
            searched.append([document.id for document in gone])
            return find_renames(gone, new)

        monkeypatch.setattr(changes, "find_renames", find)
        report = index.update()
        assert searched == [["page3.md"], ["notes/note.md"]]
        assert report.changes.renamed == (("page3.md", "third.md"), ("notes/note.md", "notes/moved.md"))
        assert read_renames(index.folder) == dict(report.changes.renamed)


def test_renamed_documents_are_not_paid_again(pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither their vectors nor what a model has answered about them, and no payment is announced."""
    with billing() as till:
        open_desk(till, tmp_path, monkeypatch)
        indexing = ("index", pages, "--index", "w", *PAID, "--methods", "dense,dense(over=topics)")
        assert ragindex(*indexing).code == 0
        assert {path for path, _, _ in till.receipts} == {"/v1/chat/completions", "/v1/embeddings"}
        till.empty()
        for path in sorted(pages.iterdir()):
            path.rename(path.with_name(f"moved-{path.name}"))
        done = ragindex(*indexing, "--json", "-")
        assert len(done.json["changed"]["renamed"]) == 12
        assert list(till.receipts) in ([], [("/v1/embeddings", 1, 0)])  # a word, for the length of the vectors
        assert "This may cost" not in done.err
