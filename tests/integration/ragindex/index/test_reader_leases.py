"""Finished states that somebody reads stay, whoever reads them and however they end; all others go."""

import os
import shutil
from datetime import datetime
from pathlib import Path

import pytest
from command_line import ragindex
from leased import FIVE, copy_template, ids, measure, more, opened, states, write_texts

from ragindex.errors import LeftoverWarning
from ragindex.index import leases, state
from ragindex.index.index import Index
from ragindex.index.leases import ReaderState
from ragindex.stores.lancedb import files
from ragindex.types import Document
from ragindex_baselines.bm25 import BM25
from ragindex_baselines.dense import Dense

pytestmark = pytest.mark.filterwarnings("ignore::ragindex.errors.StaleWarning")


def test_holder_of_the_lease_cleans_up(tmp_path: Path) -> None:
    """As an update of sources does, which holds it for all its steps."""
    writer, reader = copy_template(tmp_path), opened(tmp_path)
    more(writer, 1)
    reader.close()
    assert states(writer) == 2
    with writer.writer("steps"):
        writer.build(BM25())  # there is nothing to do but this
    assert states(writer) == 1


def test_retriever_keeps_its_state(tmp_path: Path) -> None:
    writer = copy_template(tmp_path)
    retriever = BM25().open(writer)
    more(writer, 1, 2)
    assert ids(retriever) == FIVE
    writer.close()
    more(writer, 3)
    assert ids(retriever) == FIVE
    assert states(writer) == 2
    del retriever
    writer.build(BM25())
    assert states(writer) == 1


def test_each_state_goes_with_its_last_reader(tmp_path: Path) -> None:
    writer = copy_template(tmp_path)
    first = [opened(tmp_path), opened(tmp_path)]
    more(writer, 1)
    second = opened(tmp_path)
    more(writer, 2)
    assert states(writer) == 3
    first[0].close()
    writer.build(BM25())
    assert states(writer) == 3
    first[1].close()
    writer.build(BM25())
    assert states(writer) == 2
    assert len(ids(BM25().open(second))) == 6
    assert not writer.manifest.outdated
    assert writer.manifest.leftover
    second.close()
    writer.build(BM25())
    assert not writer.manifest.leftover


def test_overtaken_reader_reads_the_newer_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has read the manifest and has no lease yet when the state is removed: between the two, nothing is opened."""
    writer, take = copy_template(tmp_path), leases.take_lease
    overtaken: list[int] = []

    def late(folder: Path, read: ReaderState, *, read_only: bool = False) -> leases.ReaderLease:
        if not overtaken:
            overtaken.append(1)
            more(writer, 1)
        return take(folder, read)

    monkeypatch.setattr(state, "take_lease", late)
    reader = opened(tmp_path)
    assert overtaken
    assert len(ids(BM25().open(reader))) == 6
    more(writer, 2)
    assert len(ids(BM25().open(reader))) == 6


def test_documents_that_are_being_read_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of no finished sync, which no manifest names."""
    monkeypatch.setattr("ragindex.stores.lancedb.maintenance._DELETED", 0.0)  # every sync writes all records anew
    writer = copy_template(tmp_path)
    reader = opened(tmp_path)
    writer.add([Document("later", "Oak", "oak")])
    documents = iter(reader.documents)
    ids_read = [next(documents).id]
    writer.remove(["d1"])
    more(writer, 1, 2)
    assert sorted(ids_read + [document.id for document in documents]) == sorted([*FIVE, "later"])


def test_unread_fit_is_removed(tmp_path: Path) -> None:
    writer = opened(tmp_path)
    writer.add([Document(f"d{number}", "Slate", f"slate barge {number}") for number in range(12)])
    writer.build(Dense())
    reader, before = opened(tmp_path), writer.encoder_id
    writer.add([Document(f"n{number}", "Oak", f"oak fen {number}") for number in range(12)])
    writer.build()
    after = writer.encoder_id
    assert before != after

    def fits() -> set[str]:
        return {path.name for path in (tmp_path / "w" / "encoders").iterdir() if path.is_dir()}

    assert fits() == {before, after}
    assert len(ids(Dense().open(reader))) == 12
    reader.close()
    del reader
    writer.build()
    assert fits() == {after}
    assert not [
        name
        for name in writer.store.names()
        if name.startswith("vectors") and name.partition(".")[0] not in writer.manifest.parts
    ]


def test_reader_without_write_access_keeps_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, really = copy_template(tmp_path), os.open

    def refused(path: object, flags: int, *mode: int) -> int:
        if flags & os.O_CREAT and "readers" in str(path):
            raise PermissionError(13, "Permission denied")
        return really(path, flags, *mode)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(leases.os, "open", refused)
        reader = opened(tmp_path)
    more(writer, 1, 2)
    assert ids(BM25().open(reader)) == FIVE
    assert states(writer) > 2
    reader.close()
    del reader
    writer.build(BM25())
    assert states(writer) == 1


@pytest.mark.parametrize("follows", [True, False])
def test_read_only_reader_keeps_the_state_that_it_reads_alone(follows: bool, tmp_path: Path) -> None:
    """All states stayed on disk while it lived, also those that it had never read."""
    folder = tmp_path / "w"
    with Index.open(folder, create=True) as writer:
        writer.add(write_texts(range(60), 0))
        writer.build("hybrid")
    reader = Index.open(folder, read_only=True)
    sizes = []
    for turn in range(1, 7):
        with Index.open(folder) as writer:
            writer.add(write_texts(range(turn, turn + 6), turn))
            writer.build()
        if follows:
            newest = reader.newest()
            reader.close()
            reader = newest
            assert reader.retriever("bm25").search("word7", k=1)
        sizes.append(measure(folder))
    with Index.open(tmp_path / "fresh", create=True) as fresh:
        fresh.add(list(reader.documents) if follows else list(Index.open(folder).documents))
        fresh.build("hybrid")
    assert max(sizes) <= 2.5 * measure(tmp_path / "fresh")  # the state before the last, and parts of the last
    reader.close()
    with Index.open(folder) as writer:
        writer.build()
    assert measure(folder) <= 1.5 * measure(tmp_path / "fresh")
    assert list((folder / "readers").iterdir()) == []


def test_read_only_reader_of_a_folder_without_leases_makes_none(tmp_path: Path) -> None:
    """It may be another user than the writer, who could write none into it."""
    copy_template(tmp_path).close()
    shutil.rmtree(tmp_path / "w" / "readers")
    with Index.open(tmp_path / "w", read_only=True) as reader:
        assert len(reader) == 5
        assert not (tmp_path / "w" / "readers").exists()


def test_readers_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of other processes, with what they read: the newest state, an earlier one, or what they do not name."""
    writer = copy_template(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(leases.os, "getpid", lambda: 4711)
        patch.setattr(leases, "current_command", lambda: "python")  # not that of an earlier test
        reader = opened(tmp_path)
    commands = (("parts", "--index", writer.folder), ("doctor", "--index", writer.folder))
    for command in commands:
        shown = " ".join(ragindex(*command).out.split())
        assert "process 4711 (python)" in shown
        assert "the newest state" in shown
        assert "stays on disk" not in shown
    more(writer, 1)
    (row,) = ragindex("parts", "--index", writer.folder, "--json", "-").json["readers"]
    assert (row["reader"], row["reads"]) == ("process 4711 (python)", "an earlier state")
    assert row["advice"] == "It stays on disk until the process opens the newest one, or ends."
    assert datetime.fromisoformat(row["since"]) <= datetime.now().astimezone()
    reader.close()
    del reader
    assert ragindex("parts", "--index", writer.folder, "--json", "-").json["readers"] == []
    lock = leases._lock_folder(writer.folder / "readers")
    with monkeypatch.context() as patch:
        patch.setattr(leases, "_find_lock_holders", lambda leases: [])  # as where the system does not list locks
        (row,) = ragindex("parts", "--index", writer.folder, "--json", "-").json["readers"]
    assert (row["reader"], row["since"]) == ("a process that is not known", None)
    assert row["advice"].startswith("Nothing is removed from the folder until it ends. If it may write into ")
    del lock


def test_warning_of_what_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = copy_template(tmp_path)

    def failing(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(files, "remove_other_versions", failing)
    with pytest.warns(LeftoverWarning, match="Unused files stay in .*Input/output error"):
        more(writer, 1)
    assert len(ids(BM25().open(opened(tmp_path)))) == 6


def test_leases_end_with_their_owners(tmp_path: Path) -> None:
    tmp_path.joinpath("readers").mkdir()
    first_state, other = ReaderState({"a": 1}), ReaderState({"a": 2}, frozenset({"p"}), frozenset({"e"}))
    first, second = leases.take_lease(tmp_path, first_state), leases.take_lease(tmp_path, other)
    assert sorted(leases.read_states(tmp_path) or [], key=lambda state: state.collections["a"]) == [first_state, other]
    assert leases.versions_read([first_state, other], "a") == {1, 2}
    del first
    assert leases.read_states(tmp_path) == [other]
    (tmp_path / "readers" / "1-dead.json").write_text("{}")
    assert leases.read_states(tmp_path) == [other]
    assert len(list((tmp_path / "readers").iterdir())) == 1
    del second
    assert leases.read_states(tmp_path) == []
    assert leases.read_states(tmp_path / "none") == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_that_ends_leaves_its_parents_lease(tmp_path: Path) -> None:
    lease = leases.take_lease(tmp_path, ReaderState({"a": 1}))
    child = os.fork()
    if child == 0:
        del lease
        os._exit(0)
    os.waitpid(child, 0)
    assert leases.read_states(tmp_path) == [ReaderState({"a": 1})]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_reads_on_after_its_parent_has_let_go(tmp_path: Path) -> None:
    lease = leases.take_lease(tmp_path, ReaderState({"a": 1}))
    there, here = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(here)
        os.read(there, 1)
        os._exit(0)
    os.close(there)
    del lease
    assert leases.read_states(tmp_path) == [ReaderState({"a": 1})]
    os.close(here)
    os.waitpid(child, 0)
    assert (leases.read_states(tmp_path), list((tmp_path / "readers").iterdir())) == ([], [])
