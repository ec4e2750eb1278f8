"""Changes that several clients send at once: what is checked when a change is accepted holds until it is written."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from served import build_index

import ragindex
from ragindex.errors import UsageError
from ragindex.filters import meta
from ragindex.serve.collections import open_collection
from ragindex.serve.config import RequestLimits, ServeSettings, parse_collections
from ragindex.serve.ingestion import Ingestion
from ragindex.serve.keys import AccessKey, Keyring
from ragindex.serve.refusals import RefusalError
from ragindex.serve.service import Service
from ragindex.serve.sync_process import sync_accepted
from ragindex.serve.telemetry import ServerMetrics
from ragindex.stores.lancedb import collection
from ragindex.types import Document

RED, BLUE = (AccessKey(team, frozenset({"read", "write"}), where=meta("team", team)) for team in ("red", "blue"))
ALL = AccessKey("all", frozenset({"read", "write"}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_index(tmp_path_factory.mktemp("ingestion") / "docs")


@pytest.fixture
def ingestion(folder: Path) -> Iterator[Ingestion]:
    settings = ServeSettings(parse_collections([f"docs={folder}"], ("bm25",)))
    served = open_collection(settings.collections[0], settings, None)
    yield Ingestion(served, ServerMetrics(), RequestLimits(pending=10, metadata_keys=6), lambda: Keyring((ALL,)))
    served.close()
    for path in folder.glob("accepted.sqlite*"):
        path.unlink()


def at_once(*works: Callable[[], object]) -> list[int]:
    """Run all at the same moment; return the statuses of the refusals."""
    start, refused = threading.Barrier(len(works)), list[int]()

    def run(work: Callable[[], object]) -> None:
        start.wait()
        try:
            work()
        except RefusalError as refusal:
            refused.append(refusal.status)

    with ThreadPoolExecutor(len(works)) as pool:
        list(pool.map(run, works))
    return refused


def post(ingestion: Ingestion, key: AccessKey, *ids: str) -> Callable[[], object]:
    documents = [Document(id, "", f"Text of {key.name}.", {"team": key.name}) for id in ids]
    return lambda: ingestion.accept_documents(key, documents)


def accepted(ingestion: Ingestion) -> list[str]:
    return [change.id for change in ingestion.spool.pending(100)]


def test_one_of_two_tenants_gets_a_new_id(ingestion: Ingestion) -> None:
    for number in range(5):
        refused = at_once(*(post(ingestion, key, f"new{number}") for key in (RED, BLUE)))
        assert refused == [409]
    assert accepted(ingestion) == [f"new{number}" for number in range(5)]
    for change in ingestion.spool.pending(100):
        owner, other = (RED, BLUE) if change.document.metadata == {"team": "red"} else (BLUE, RED)
        assert ingestion.find_document(owner, change.id)[1] is not None
        assert ingestion.find_document(other, change.id) == (None, None)


def test_a_document_is_deleted_once_and_by_its_tenant(ingestion: Ingestion) -> None:
    refused = at_once(*[lambda key=key: ingestion.accept_deletion(key, "lindau") for key in (RED, BLUE, RED, BLUE)])
    assert refused == [404] * 3
    assert accepted(ingestion) == ["lindau"]


def test_the_backlog_is_never_longer_than_its_limit(ingestion: Ingestion) -> None:
    works = [post(ingestion, ALL, f"a{number}", f"b{number}", f"c{number}") for number in range(8)]
    assert at_once(*works) == [503] * 5
    assert len(accepted(ingestion)) == 9


def test_each_key_has_its_share_of_metadata_keys(ingestion: Ingestion) -> None:
    """What deleted and replaced documents had is free again. Values that nothing can filter by do not count."""

    def send(key: AccessKey, id: str, *names: str) -> None:
        metadata = {"team": key.name, "empty": None, **dict.fromkeys(names, 1)}
        ingestion.accept_documents(key, [Document(id, "", "Text.", metadata)])

    send(RED, "first", "a", "b", "c")
    send(RED, "second", "a", "d", "e")
    with pytest.raises(RefusalError, match="With the document 'third', .* more than 6 metadata keys") as raised:
        send(RED, "third", "f")
    assert (raised.value.status, raised.value.code) == (403, "metadata_keys")
    send(BLUE, "other", "f", "g")
    send(RED, "third", "a")
    send(RED, "second", "d")
    send(RED, "third", "f")
    ingestion.accept_deletion(RED, "first")
    send(RED, "fourth", "g", "h", "i")
    with pytest.raises(RefusalError, match="'fifth'"):
        send(RED, "fifth", "j")
    more = replace(RED, metadata_keys=7)
    send(more, "fifth", "j")
    send(RED, "sixth", "j")  # a share that has shrunk takes no new key, and those of before
    with pytest.raises(RefusalError, match="more than 6"):
        send(RED, "seventh", "k")


def test_no_tenant_uses_up_the_metadata_keys_of_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a tenant gives up is free for another, also within one sync; shares are those of the keys of now."""
    monkeypatch.setattr(collection, "_MAX_KEYS", 40)
    first, later = Keyring((RED,)), Keyring((RED, BLUE))
    rings = [first, later, later]  # what each reading of the file of keys returns
    settings = ServeSettings(
        parse_collections([f"docs={folder}"], ("bm25",)), keys=first, limits=RequestLimits(metadata_keys=24)
    )
    service = Service(settings, lambda: rings.pop())
    service.reload_keys()
    ingestion = service.ingestions["docs"]

    def send(key: AccessKey, letter: str, count: int = 11) -> None:
        names = [f"{key.name}{letter}{number}" for number in range(count)]
        document = Document(f"keys of {key.name}", "", f"Text {letter}.", {"team": key.name, **dict.fromkeys(names, 1)})
        ingestion.accept_documents(key, [document])

    with ragindex.open(folder) as index:
        for key in (RED, BLUE):
            with pytest.raises(RefusalError, match="more than 12"):
                send(key, "a", 12)
        send(RED, "a")
        sync_accepted(index, ingestion.spool)
        for letter in "bcd":
            send(RED, letter)
            send(BLUE, letter)
            sync_accepted(index, ingestion.spool)
            states = ingestion.spool.states(["keys of red", "keys of blue"])
            assert [(state.status, state.reason) for state in states.values()] == [("indexed", "")] * 2
        assert len(index.retriever("bm25").search("text", where={"meta.blued10": 1})) == 1
        index.remove(["keys of red", "keys of blue"])
        index.build()
    service.close()
    for path in folder.glob("accepted.sqlite*"):
        path.unlink()


def test_metadata_keys_are_set_apart_for_keys_with_a_number() -> None:
    ten, other = replace(RED, metadata_keys=10), replace(BLUE, metadata_keys=15, collections=frozenset({"other"}))
    keys = Keyring((ten, other, BLUE, ALL, AccessKey("reader", frozenset({"read"}))))
    assert [keys.share_metadata_keys(key, "docs", 24) for key in (ten, BLUE, ALL)] == [10, 7, 7]
    assert [keys.share_metadata_keys(key, "other", 30) for key in (ten, other, BLUE)] == [10, 15, 2]
    specs = parse_collections(["docs=a", "other=b"], ())
    ServeSettings(specs, keys=keys, limits=RequestLimits(metadata_keys=25))
    with pytest.raises(UsageError, match="may write into 'other' are 25 together, of 24 at most"):
        ServeSettings(specs, keys=keys, limits=RequestLimits(metadata_keys=24))


def test_prefix_of_ids_hides_which_others_exist(ingestion: Ingestion) -> None:
    """`vault` exists and `free` does not: a key with a prefix gets the same answer for both."""
    key = replace(RED, id_prefix="red/")
    for id in ("vault", "free", "red", "Red/a"):
        works: list[Callable[[], object]] = [post(ingestion, key, id), partial(ingestion.accept_deletion, key, id)]
        for work in works:
            with pytest.raises(RefusalError, match="ids begin with 'red/'") as raised:
                work()
            assert raised.value.status == 403
    post(ingestion, key, "red/a")()
    assert accepted(ingestion) == ["red/a"]
    with pytest.raises(
        RefusalError, match="The id 'vault' is that of a document that the key may not change"
    ) as raised:
        post(ingestion, RED, "vault")()
    assert (raised.value.status, raised.value.code) == (409, "id_taken")


def test_damaged_changes_are_reported(ingestion: Ingestion) -> None:
    assert ingestion.describe() == {"pending": 0, "damaged": 0, "sync_failure": ""}
    post(ingestion, ALL, "a", "b")()
    with ingestion.spool.writing() as changes:
        changes._connection.execute("UPDATE changes SET body = replace(body, 'Text', 'Test') WHERE id = 'a'")
    assert accepted(ingestion) == ["b"]
    assert ingestion.describe() == {"pending": 1, "damaged": 1, "sync_failure": ""}
    ingestion.spool.file.write_bytes(b"no database")
    description = ingestion.describe()
    assert (description["pending"], "ragindex repair" in str(description["sync_failure"])) == (None, True)


def test_cap_from_before_it_was_lifted_does_not_hold(ingestion: Ingestion) -> None:
    cap = {"event": "spend_cap", "owner": "all", "reason": "used up", "daily": False, "lifts": 0}
    ingestion.lift_caps()
    ingestion._note_cap(cap)
    assert ingestion.caps == {}
    ingestion._note_cap({**cap, "lifts": 1})
    with pytest.raises(RefusalError, match=r"Documents of this key wait for money. used up") as raised:
        post(ingestion, ALL, "new")()
    assert (raised.value.status, raised.value.code) == (402, "spend_cap")
    ingestion.lift_caps(["all"])
    post(ingestion, ALL, "new")()
    assert accepted(ingestion) == ["new"]
