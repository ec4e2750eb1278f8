"""What goes wrong between us and a server: who says what, and which command comes next. Keys are never repeated."""

import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from elasticsearch_stand_in import INFO, Answer, StandIn, authority, certificate_of, failed

from ragindex._util.http import RequestProblem, RequestProblemError
from ragindex.errors import StoreError, UsageError
from ragindex.plugins import registry
from ragindex.stores.elasticsearch import bulk, responses
from ragindex.stores.elasticsearch import client as elastic_client
from ragindex.stores.elasticsearch.bulk import Action
from ragindex.stores.elasticsearch.client import Server

pytest.importorskip("elasticsearch", reason="the extra elasticsearch is not installed")
SECRET = "s3cret-of-the-tests"


Standing = Callable[..., StandIn]


@pytest.fixture
def standing() -> Iterator[Standing]:
    stand_ins: list[StandIn] = []

    def stand(answer: Callable[[str, str, str], Answer], **how: Any) -> StandIn:
        stand_ins.append(StandIn(answer, **how))
        return stand_ins[-1]

    yield stand
    for stand_in in stand_ins:
        stand_in.stop()


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URL", "API_KEY", "API_KEY_FILE", "USER", "PASSWORD", "PASSWORD_FILE", "CA_FILE"):
        monkeypatch.delenv(f"ELASTICSEARCH_{name}", raising=False)


def opened(url: str, folder: Path, **parameters: Any) -> Any:
    return registry.store({"name": "elasticsearch", "params": {"url": url, **parameters}}).open(folder)


# ---------------------------------------------------------------- addresses and keys


@pytest.mark.parametrize("url", [f"http://me:{SECRET}@h:9200", f"http://a:9200,https://me:{SECRET}@h"])
def test_a_password_in_an_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(
        UsageError, match="not contain a user, password, key or token: .* Set ELASTICSEARCH_API_KEY"
    ) as error:
        registry.store({"name": "elasticsearch", "params": {"url": url}})
    assert SECRET not in str(error.value)
    with pytest.raises(UsageError, match="must begin with http:// or https://") as error:
        registry.store(f"elasticsearch:me:{SECRET}@h")
    assert SECRET not in str(error.value)


def test_an_address_is_needed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs an address: elasticsearch:http://HOST:9200, or set ELASTICSEARCH_URL"):
        registry.store("elasticsearch").open(tmp_path)
    assert registry.label(registry.store("elasticsearch:http://h:9200")) == "elasticsearch:http://h:9200"


@pytest.mark.parametrize(
    ("settings", "header"),
    [
        ({"API_KEY": SECRET}, f"ApiKey {SECRET}"),
        ({"USER": "me", "PASSWORD": SECRET}, "Basic bWU6czNjcmV0LW9mLXRoZS10ZXN0cw=="),
        ({}, "Basic bWU6czNjcmV0LW9mLXRoZS10ZXN0cw=="),  # in ELASTICSEARCH_URL
    ],
)
def test_keys_go_into_a_header_and_nowhere_else(
    settings: dict[str, str], header: str, standing: Standing, tmp_path: Path, monkeypatch: Any, caplog: Any
) -> None:
    caplog.set_level(logging.INFO)
    fine = standing(lambda path, _, key: (200, INFO) if path == "/" else failed("odd", f"no {SECRET} {key}", 400))
    for name, value in settings.items():
        monkeypatch.setenv(f"ELASTICSEARCH_{name}", value)
    address = fine.url if settings else fine.url.replace("//", f"//me:{SECRET}@")
    monkeypatch.setenv("ELASTICSEARCH_URL", address)
    store = registry.store("elasticsearch").open(tmp_path)
    assert fine.heard == [("/", header)]
    with pytest.raises(StoreError, match="could not list its collections: status 400: no …") as error:
        store.names()
    seen = [str(error.value), repr(store), repr(store.server), repr(store.settings), caplog.text]
    seen += [repr(error.value.__cause__), repr(error.value.__context__)]
    seen += [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert [text for text in seen if SECRET in text or header.split()[1] in text] == []


def test_incomplete_credentials(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("ELASTICSEARCH_USER", "me")
    with pytest.raises(UsageError, match="ELASTICSEARCH_USER is set, ELASTICSEARCH_PASSWORD is not"):
        opened("http://127.0.0.1:1", tmp_path)
    monkeypatch.delenv("ELASTICSEARCH_USER")
    monkeypatch.setenv("ELASTICSEARCH_CA_FILE", str(tmp_path / "none.pem"))
    with pytest.raises(UsageError, match=r"ELASTICSEARCH_CA_FILE names .*none\.pem, which cannot be read"):
        opened("https://127.0.0.1:1", tmp_path)


# ---------------------------------------------------------------- no server, another server


def test_a_server_that_is_away(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        expected = (
            rf"The store at {url} could not be opened: .*See that the server runs .*run the same command to resume"
        )
        with pytest.raises(StoreError, match=f"(?s){expected}"):
            opened(url, tmp_path)


def test_a_server_too_old_and_something_else(standing: Standing, tmp_path: Path) -> None:
    old = standing(lambda *_: (200, {"version": {"number": "7.17.9"}}))
    with pytest.raises(StoreError, match=r"is Elasticsearch 7\.17\.9; 8\.18 or later is needed"):
        opened(old.url, tmp_path)
    other = standing(lambda *_: (200, {"version": {"number": "2.11.0"}}), product="another")
    with pytest.raises(StoreError, match=r"does not answer like Elasticsearch\. The address is not Elasticsearch's"):
        opened(other.url, tmp_path)


def test_unknown_client(standing: Standing, tmp_path: Path, monkeypatch: Any) -> None:
    """A client asks in a way that the server refuses, or is of a line that nothing is known of."""
    import elasticsearch

    refusing = standing(lambda *_: failed("media_type_header_exception", "Accept version must be 8 or 7", 400))
    with pytest.raises(StoreError, match=r"must be 8 or 7\. The server must be 8 .* Run: pip install 'elasticsearch<"):
        opened(refusing.url, tmp_path)
    monkeypatch.setattr(elasticsearch, "__version__", (10, 0, 1))
    with pytest.raises(UsageError, match=r"elasticsearch 8 or 9, .*got 10\.0\.1\. Run: pip install 'elastic"):
        opened(refusing.url, tmp_path)


def test_requests_are_of_line_8(monkeypatch: Any) -> None:
    """A client 9 asks for answers of line 9, which a server 8 refuses."""
    sent = []

    def send(_: Any, method: str, target: str, *, headers: Any, **__: Any) -> Any:
        sent.append({name.lower(): value for name, value in headers.items()}["accept"])
        raise RequestProblemError(RequestProblem("enough"))

    monkeypatch.setattr("elastic_transport.Transport.perform_request", send)
    client = elastic_client.create_client(["http://127.0.0.1:9"])
    with pytest.raises(RequestProblemError):
        client.options(headers={"accept": "application/vnd.elasticsearch+json; compatible-with=9"}).info()
    assert sent == ["application/vnd.elasticsearch+json; compatible-with=8"]


# ---------------------------------------------------------------- TLS


@pytest.fixture
def secured(standing: Standing, tmp_path: Path, monkeypatch: Any) -> StandIn:
    """Lets in who has the key SECRET, over TLS; the authority that has signed its certificate is in ours.pem."""
    monkeypatch.setenv("ELASTICSEARCH_API_KEY", SECRET)
    monkeypatch.setenv("ELASTICSEARCH_CA_FILE", str(tmp_path / "ours.pem"))
    certificate = certificate_of(authority(tmp_path, "ours"), "127.0.0.1")

    def answer(_: str, __: str, key: str) -> Answer:
        right = key == f"ApiKey {SECRET}"
        return (200, INFO) if right else failed("security_exception", f"unable to authenticate with {key}", 401)

    return standing(answer, certificate=certificate)


def refused(url: str, folder: Path) -> str:
    """What a user reads; no message has a key."""
    with pytest.raises((StoreError, UsageError)) as error:
        opened(url, folder)
    message = [str(error.value), repr(error.value.__cause__), repr(error.value.__context__)]
    assert [text for text in message if SECRET in text or "another-key" in text] == []
    return message[0]


def test_the_right_key_over_tls_is_let_in(secured: StandIn, tmp_path: Path) -> None:
    opened(secured.url, tmp_path)
    assert secured.heard == [("/", f"ApiKey {SECRET}")]


def test_a_wrong_key_over_tls(secured: StandIn, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("ELASTICSEARCH_API_KEY", "another-key")
    message = refused(secured.url, tmp_path)
    assert message == (
        f"The store at {secured.url} could not be opened: status 401: unable to authenticate with ApiKey …. "
        "Set ELASTICSEARCH_API_KEY, or ELASTICSEARCH_USER and ELASTICSEARCH_PASSWORD, to what the server accepts."
    )
    assert len(secured.heard) == 1


@pytest.mark.parametrize("file", ["theirs.pem", "junk.pem", None])
def test_an_authority_that_has_not_signed_the_servers(
    file: str | None, secured: StandIn, tmp_path: Path, monkeypatch: Any
) -> None:
    authority(tmp_path, "theirs")
    (tmp_path / "junk.pem").write_text("no certificate")
    monkeypatch.delenv("ELASTICSEARCH_CA_FILE")
    if file:
        monkeypatch.setenv("ELASTICSEARCH_CA_FILE", str(tmp_path / file))
    message = refused(secured.url, tmp_path)
    assert "ELASTICSEARCH_CA_FILE must name the certificate of the authority that has signed the server's" in message
    assert secured.heard == []  # the key was not sent to somebody else


def test_a_certificate_of_another_host(standing: Standing, secured: StandIn, tmp_path: Path) -> None:
    signer = authority(tmp_path, "ours")
    other = standing(lambda *_: (200, INFO), certificate=certificate_of(signer, "other.example"))
    assert "The certificate is for another host" in refused(other.url, tmp_path)
    assert other.heard == []


def test_tls_on_one_side_only(standing: Standing, secured: StandIn, tmp_path: Path, monkeypatch: Any) -> None:
    plain = standing(lambda *_: (200, INFO))
    assert "answers without TLS. Use http://" in refused(f"https://{plain.place}", tmp_path)
    assert "is not encrypted. Use https://, or unset " in refused(plain.url, tmp_path)
    monkeypatch.delenv("ELASTICSEARCH_CA_FILE")
    assert "closed the connection, as one with TLS does. Use https://" in refused(f"http://{secured.place}", tmp_path)
    assert (plain.heard, secured.heard) == ([], [])


# ---------------------------------------------------------------- a server under load


def test_rejected_writes_are_sent_again(standing: Standing, monkeypatch: Any) -> None:
    monkeypatch.setattr(bulk.time, "sleep", lambda _: None)
    batches: list[list[str]] = []

    def answer(_: str, body: str, __: str) -> Answer:
        ids = [json.loads(line)["index"]["_id"] for line in body.splitlines()[::2]]
        batches.append(ids)
        if len(batches) == 1:
            return failed("es_rejected_execution_exception", "the whole queue is full", 429)
        full = {"status": 429, "error": {"type": "es_rejected_execution_exception", "reason": "queue"}}
        items = [{"index": full if id in ("b", "c") and len(batches) == 2 else {"status": 201}} for id in ids]
        return 200, {"errors": len(batches) == 2, "items": items}

    bulk.send(_server(standing(answer).url), "things", [Action(id, b"{}") for id in "abcd"], "things")
    assert batches == [["a", "b", "c", "d"], ["a", "b", "c", "d"], ["b", "c"]]


def test_concurrent_writes(standing: Standing, monkeypatch: Any) -> None:
    monkeypatch.setattr(bulk, "_MOST", 1)
    three, counting = threading.Barrier(3, timeout=20), threading.Lock()
    now: list[int] = []
    most: list[int] = []
    heard: list[str] = []

    def answer(_: str, body: str, __: str) -> Answer:
        (id,) = [json.loads(line)["index"]["_id"] for line in body.splitlines()[::2]]
        with counting:
            heard.append(id)
            now.append(1)
            most.append(len(now))
        three.wait()
        with counting:
            now.pop()
        refusal = {"status": 400, "error": {"type": "odd", "reason": f"not {id}"}}
        items = [{"index": refusal if id == "d" else {"status": 201}}]
        return 200, {"errors": id == "d", "items": items}

    url = standing(answer).url
    bulk.send(_server(url), "things", [Action(id, b"{}") for id in "abcefg"], "things", 3)
    assert (sorted(heard), max(most)) == (list("abcefg"), 3)
    monkeypatch.setattr(three, "wait", lambda: None)  # from here on nobody waits for others
    heard.clear()
    with pytest.raises(StoreError, match="could not write 1 of 1 records to the collection things: .*'d': not d"):
        bulk.send(_server(url), "things", [Action(id, b"{}") for id in "dxyzuvw"], "things", 2)
    assert sorted(heard) == ["d", "x"]


def test_a_queue_that_stays_full(standing: Standing, monkeypatch: Any) -> None:
    monkeypatch.setattr(bulk.time, "sleep", lambda _: None)
    full = {"status": 429, "error": {"type": "es_rejected_execution_exception", "reason": "queue"}}
    busy = standing(lambda *_: (200, {"errors": True, "items": [{"index": full}]}))
    with pytest.raises(StoreError, match="could not write 1 of 1 records .* tried several times"):
        bulk.send(_server(busy.url), "things", [Action("a", b"{}")], "things")
    assert len(busy.heard) == 3


def test_retries(standing: Standing, monkeypatch: Any) -> None:
    waited: list[float] = []
    monkeypatch.setattr("ragindex._util.http.time.sleep", waited.append)
    answers = iter([failed("odd", "wait", 503), failed("odd", "wait", 429), (200, INFO), failed("odd", "never", 400)])
    server = _server(standing(lambda *_: next(answers)).url)
    assert server.ask("look", lambda client: client.info())["version"] == INFO["version"]
    assert len(waited) == 2
    with pytest.raises(RequestProblemError) as error:
        server.try_to(lambda client: client.info())
    assert error.value.problem == RequestProblem("never", 400, "odd")


def _server(url: str) -> Server:
    return Server(url, elastic_client.create_client([url], max_retries=0), (), retries=2)


def test_the_reasons_of_a_server_are_short() -> None:
    body = {"error": {"type": "search", "reason": "all failed", "failed_shards": [{"reason": {"reason": "boom"}}]}}
    assert responses.parse_error(body) == ("search", "all failed: boom")
    assert responses.parse_error({"error": "plain"}) == ("", "plain")
    assert responses.parse_error("<html>") == ("", "")
    assert len(Server("http://h", None, ("k",)).short("k" * 5000)) == 400


class Interrupting(set[object]):
    """A set that runs a function when it is asked for a member: in the middle of the choice of a node."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        super().__init__()
        self.interrupt = interrupt

    def __contains__(self, member: object) -> bool:
        self.interrupt()
        return False


def test_a_node_may_die_while_another_is_chosen() -> None:
    with elastic_client.create_client(["http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:3"]) as client:
        pool = client.transport.node_pool
        threads: list[threading.Thread] = []

        def mark_one_dead() -> None:
            if not threads:
                threads.append(threading.Thread(target=pool.mark_dead, args=(pool.all()[1],)))
                threads[0].start()
                threads[0].join(0.2)  # with a lock it waits until the node is chosen

        pool._removed_nodes = Interrupting(mark_one_dead)
        assert pool.get() in pool.all()
        threads[0].join()
        assert len(pool._alive_nodes) == 2
        pool.mark_live(pool.all()[1])
        assert len(pool._alive_nodes) == 3


def test_a_server_behind_tls_that_goes_away(secured: StandIn, tmp_path: Path) -> None:
    opened(secured.url, tmp_path)
    secured.stop()
    assert "See that the server runs and can be reached, then run the same command to resume" in refused(
        secured.url, tmp_path
    )
