"""Documents of files: those inside of files, as mails, and those of files that are read in another way."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import ragindex
from ragindex.corpus import local_files
from ragindex.corpus.readers.plain_text import read_text
from ragindex.index.notes import format_changes

NAMES = ("a.txt", "b.txt", "c.txt")
IMPROVED = (
    "3 documents changed (a.txt, b.txt, c.txt); "
    "2 changed because their files, which are the same, are read in another way"
)


def keep(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change nothing."""


def write_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "b.txt").write_text("b, written anew")


def touch_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.utime(folder / "b.txt", (0, 0))


def improve_reader(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read more of two files; of a third one it is the file that changed too."""
    readers = {**local_files.READERS, ".txt": lambda raw, path, encoding: read_text(raw + b" improved", path, encoding)}
    monkeypatch.setattr(local_files, "READERS", readers)
    monkeypatch.setattr(local_files, "is_taken_whole", lambda file: True)
    write_file(folder, monkeypatch)


@pytest.mark.parametrize(
    ("change", "prefix", "counts", "message"),
    [
        (keep, "", (0, 3, 0), "nothing changed in 3 documents"),
        (write_file, "", (1, 2, 0), "1 document changed (b.txt), 2 unchanged"),
        (touch_file, "", (0, 3, 0), "nothing changed in 3 documents"),
        (improve_reader, "", (3, 0, 2), IMPROVED),
        (improve_reader, "more/", (3, 0, 2), IMPROVED),
    ],
)
def test_an_update_says_how_many_documents_are_read_in_another_way(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path, pytest.MonkeyPatch], None],
    prefix: str,
    counts: tuple[int, int, int],
    message: str,
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for name in NAMES:
        (folder / name).write_text(f"text of {name}")
    with ragindex.open(tmp_path / "index", create=True) as index:
        if prefix:  # of a second source
            (tmp_path / "first").mkdir()
            (tmp_path / "first" / "d.txt").write_text("d")
            index.replace(ragindex.read(tmp_path / "first"))
        index.replace(ragindex.read(folder), source=prefix.removesuffix("/"))
        change(folder, monkeypatch)
        changed = index.replace(ragindex.read(folder))
    assert (changed.changed, changed.unchanged, changed.reread) == counts
    assert format_changes(changed).replace(prefix, "") == message
    with ragindex.open(tmp_path / "index") as index:
        again = index.replace(ragindex.read(folder))
    assert (again.changed, again.unchanged, again.reread) == (0, 3, 0)


def test_inner_documents_have_the_id_of_their_file(tmp_path: Path) -> None:
    mail = (
        "Subject: Tides\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n\nSee the list.\n--B\n"
        'Content-Type: text/csv; name="hours.csv"\n\nport,hour\nEly,7\n--B\n'
        'Content-Type: image/png; name="map.png"\n\nx\n--B--\n'
    )
    (tmp_path / "a.eml").write_text(mail)
    (tmp_path / "b.mbox").write_text(f"From x\nMessage-ID: <1@x>\n{mail}\nFrom x\nSubject: Ebb\n\nIt is low.\n")
    corpus = ragindex.read(tmp_path)
    assert [(document.id, document.title, document.metadata["source"]) for document in corpus.documents] == [
        ("a.eml", "Tides", "a.eml"),
        ("a.eml/hours.csv", "hours.csv", "a.eml"),
        ("b.mbox/1@x", "Tides", "b.mbox"),
        ("b.mbox/1@x/hours.csv", "hours.csv", "b.mbox"),
        ("b.mbox/2", "Ebb", "b.mbox"),
    ]
    assert corpus.notes[:2] == (
        "a.eml: attachments that no reader takes: map.png",
        "b.mbox: mail 1@x: attachments that no reader takes: map.png",
    )
    assert "Ely" in corpus.documents[1].text
