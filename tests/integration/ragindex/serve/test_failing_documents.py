"""A document that a sync fails on fails alone, by name, and the others are indexed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from served import build_index

import ragindex
from ragindex.errors import StoreError
from ragindex.parts.text import passages
from ragindex.retrieval.hits import build_document_fields
from ragindex.serve.spool import Spool, open_spool
from ragindex.serve.sync_process import sync_accepted
from ragindex.stores.lancedb import collection

POISON = "poison"


def accept(spool: Spool, changes: Sequence[tuple[str, ragindex.Document | None]], owner: str = "") -> None:
    with spool.writing() as transaction:
        transaction.accept(changes, owner)


def post(spool: Spool, *documents: ragindex.Document) -> None:
    accept(spool, [(document.id, document) for document in documents])


def states(spool: Spool, *ids: str) -> list[str]:
    return [state.status for state in spool.states(ids).values()]


def with_keys(name: str, count: int) -> ragindex.Document:
    return ragindex.Document(name, "", f"text of {name}", {f"{name}-{number}": "x" for number in range(count)})


def test_keys_beyond_the_limit_fail_their_documents_and_are_free_again_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build_index(tmp_path / "desk")
    monkeypatch.setattr(collection, "_MAX_KEYS", 25)
    spool = open_spool(folder)
    names = [f"d{number}" for number in range(3)]
    with ragindex.open(folder) as index:
        post(spool, *(with_keys(name, 9) for name in names), ragindex.Document("plain", "", "a plain one"))
        sync_accepted(index, spool)
        known = spool.states([*names, "plain"])
        failed = [id for id, state in known.items() if state.status == "failed"]
        assert 1 <= len(failed) <= 2
        assert known["plain"].status == "indexed"
        assert "at most 25 metadata keys" in known[failed[0]].reason
        assert {document.id for document in index.read([*names, "plain"])} == {*names, "plain"} - set(failed)
        accept(spool, [(name, None) for name in names if name not in failed])
        sync_accepted(index, spool)
        post(spool, with_keys(failed[0], 9))
        sync_accepted(index, spool)
        assert states(spool, failed[0]) == ["indexed"]
        hits = index.retriever("bm25").search(failed[0], where={f"meta.{failed[0]}-8": "x"})
        assert [hit.doc_ids for hit in hits] == [(failed[0],)]


@pytest.mark.parametrize("error", [MemoryError(), StoreError("the engine failed")])
def test_whatever_a_document_causes_fails_it_alone(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build_index(tmp_path / "desk")

    def fail(doc_ids: Any, metadata: Any) -> Any:
        if any(POISON in text for text in metadata.values()):
            raise error
        return build_document_fields(doc_ids, metadata)

    monkeypatch.setattr(passages, "build_document_fields", fail)
    spool = open_spool(folder)
    with ragindex.open(folder) as index:
        post(
            spool,
            *(ragindex.Document(f"good{number}", "", f"a good text {number}") for number in range(5)),
            ragindex.Document("lindau", "Lindau", "another text", {POISON: 1}),
            ragindex.Document("new", "", "a text", {POISON: 1}),
        )
        sync_accepted(index, spool)
        assert spool.count_pending() == 0
        assert states(spool, "lindau", "new") == ["failed", "failed"]
        assert spool.states(["new"])["new"].reason == (str(error) or "MemoryError")
        assert states(spool, *(f"good{number}" for number in range(5))) == ["indexed"] * 5
        assert [document.text[:14] for document in index.read(["lindau", "new"])] == [
            "The lighthouse"
        ]  # as it was before
        assert index.retriever("bm25").search("lighthouse of Lindau", k=1)[0].doc_ids == ("lindau",)


def test_a_full_disk_is_no_fault_of_a_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = build_index(tmp_path / "desk")

    def fail(doc_ids: Any, metadata: Any) -> Any:
        raise StoreError("The store could not write: No space left on device (os error 28).")

    monkeypatch.setattr(passages, "build_document_fields", fail)
    spool = open_spool(folder)
    with ragindex.open(folder) as index:
        post(spool, ragindex.Document("new", "", "a text"))
        with pytest.raises(StoreError, match="No space"):
            sync_accepted(index, spool)
    assert states(spool, "new") == ["accepted"]


def test_each_key_has_its_turn(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    accept(spool, [(f"a{number}", None) for number in range(50)], "a")
    accept(spool, [("shared", ragindex.Document("shared", "", "first"))], "a")
    accept(spool, [("b0", None), ("shared", ragindex.Document("shared", "", "second"))], "b")
    turns = spool.pending(4)
    assert [turn.id for turn in turns] == ["a0", "a1", "b0", "shared"]
    assert (spool.count_pending(), spool.count_pending("a"), spool.count_pending("b")) == (53, 51, 2)
    spool.finish(turns, {})
    assert spool.states(["shared"])["shared"].status == "indexed"
    assert "shared" not in {change.id for change in spool.pending(100)}  # the earlier change of it never comes back
    assert [change.sequence for change in spool.pending(100)] == list(range(3, 51))
