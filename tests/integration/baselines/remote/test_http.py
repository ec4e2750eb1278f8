"""The method `http` against real servers, of which some misbehave, and against `ragindex serve`."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from openai_server import KEY, Fault, OpenAIServer, drop, says, slow, status
from search_server import PLAIN, VECTOR_STORE, dripping, searching
from served import DOCUMENTS, build_index, serving

import ragindex
from ragindex._util.http import RequestProblemError
from ragindex.corpus import Corpus
from ragindex.errors import RequestError, ServiceError, UsageError
from ragindex.estimate import ReadingPlan, estimate_questions
from ragindex.filters import meta
from ragindex.index.index import Index
from ragindex.interfaces.llm import LLMSettings
from ragindex.plugins import registry
from ragindex.retrieval.trace import UNKNOWN_DOCUMENTS
from ragindex.types import Query, Retrieval
from ragindex_baselines.remote import client
from ragindex_baselines.remote.client import JsonAddress
from ragindex_eval.run.ask import batching_for

QUESTION = Query("q", "When was the lighthouse of Lindau built?")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_API_KEY", KEY)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield searching(running, DOCUMENTS)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    folder = Index.open(tmp_path_factory.mktemp("http") / "index", encoder="lsa", chunking=None, create=True)
    folder.add(DOCUMENTS)
    folder.build(registry.scheme("bm25"))
    return folder


def ask(index: Index, url: str, k: int = 3, query: Query = QUESTION, **params: Any) -> Retrieval:
    scheme = registry.scheme({"name": "http", "params": {"url": url, "key": "SEARCH_API_KEY", "retries": 0, **params}})
    (retrieval,) = scheme.open(index).retrieve([query], k)
    return retrieval


def found_by(retrieval: Retrieval) -> list[tuple[str, tuple[str, ...]]]:
    return [(hit.id, hit.doc_ids) for hit in retrieval.hits]


# ---------------------------------------------------------------- what is found


def test_hits_are_documents_of_the_corpus(server: OpenAIServer, index: Index) -> None:
    retrieval = ask(index, server.url.removesuffix("/v1") + "/v1" + PLAIN)
    assert found_by(retrieval) == [("lindau", ("lindau",)), ("ferry", ("ferry",)), ("vault", ("vault",))]
    first = retrieval.hits[0]
    assert (first.title, first.text) == ("Lindau", DOCUMENTS[0].text)
    assert first.metadata == {"lindau": DOCUMENTS[0].metadata}
    (request,) = server.requests
    assert request.body == {"query": QUESTION.text, "k": 3}
    assert request.headers["authorization"] == f"Bearer {KEY}"


def test_a_vector_store_names_files_by_the_last_part_of_their_paths(server: OpenAIServer, index: Index) -> None:
    query = Query("q", "How long does rye bread keep?")
    retrieval = ask(index, server.url + VECTOR_STORE, 2, query, protocol="openai")
    assert retrieval.hits[0].doc_ids == ("notes/bread",)
    assert (retrieval.hits[0].id, retrieval.hits[0].title) == ("file-0", "bread")
    assert server.requests[0].body == {"query": query.text, "max_num_results": 2}


@pytest.mark.parametrize("id", ["caf\u00e9", "cafe\u0301"])
def test_documents_are_matched_in_either_form_of_unicode(id: str, server: OpenAIServer, tmp_path: Path) -> None:
    index = Index.open(tmp_path / "index", encoder="lsa", chunking=None, create=True)
    index.add([replace(DOCUMENTS[0], id=id), replace(DOCUMENTS[1], id="deep/" + id)])
    index.build(registry.scheme("bm25"))
    for served in ("caf\u00e9", "cafe\u0301"):
        documents = [replace(DOCUMENTS[0], id=served)]
        retrieval = ask(index, searching(server, documents).url.removesuffix("/v1") + "/v1" + PLAIN, 1)
        assert [hit.doc_ids for hit in retrieval.hits] == [(id,)]


def test_a_key_goes_into_the_header_that_is_named(server: OpenAIServer, index: Index) -> None:
    server.key = None
    ask(index, server.url + PLAIN, header="X-API-Key")
    assert server.requests[0].headers["x-api-key"] == KEY
    assert "authorization" not in server.requests[0].headers


def test_connections_are_kept_and_replaced(server: OpenAIServer, index: Index) -> None:
    scheme = registry.scheme({"name": "http", "params": {"url": server.url + PLAIN, "key": "SEARCH_API_KEY"}})
    retriever = scheme.open(index)
    for fault in (None, drop, None, says("no JSON"), None):
        if fault is not None:
            server.faults.append(fault)
        if fault is None or fault is drop:  # a lost connection is tried again
            assert len(retriever.retrieve([QUESTION], 3)[0].hits) == 3
        else:
            with pytest.raises(RequestError):
                retriever.retrieve([QUESTION], 3)
    assert len(retriever.address._idle) == 1  # type: ignore[attr-defined]  # the client of http


def hits(*given: Any) -> Fault:
    return lambda answer: replace(answer, body={"hits": list(given)})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([{"id": "ferry"}, {"id": "lindau"}], [("ferry", 1.0), ("lindau", 0.5)]),  # no scores: 1 / rank
        ([{"id": "ferry", "score": 1}, {"id": "lindau", "score": 2}], [("ferry", 1.0), ("lindau", 0.5)]),
        ([{"id": "ferry", "score": 9}, {"id": "lindau", "score": 2.5}], [("ferry", 9.0), ("lindau", 2.5)]),
        ([{"id": "ferry", "score": 9}, {"id": "ferry", "score": 8}], [("ferry", 9.0), ("ferry (2)", 8.0)]),
        ([{"id": "ferry", "score": True}, {"id": "vault", "score": "high"}], [("ferry", 1.0), ("vault", 0.5)]),
        ([{"id": "ferry", "score": float("nan")}], [("ferry", 1.0)]),
        ([{"id": "part 7", "doc_ids": ["vault", "nowhere"]}], [("part 7", 1.0)]),
        ([{"id": "ferry"}] * 4, [("ferry", 1.0), ("ferry (2)", 0.5), ("ferry (3)", 1 / 3)]),  # of 4, 3 were asked for
        ([], []),
    ],
)
def test_scores_and_ids(
    given: list[Any], expected: list[tuple[str, float]], server: OpenAIServer, index: Index
) -> None:
    server.faults.append(hits(*given))
    assert [(hit.id, hit.score) for hit in ask(index, server.url + PLAIN).hits] == expected


def test_hits_of_unknown_documents_are_set_aside_and_told(server: OpenAIServer, index: Index) -> None:
    server.faults.append(hits({"id": "nowhere"}, {"id": "ferry"}, {"id": 17}))
    retrieval = ask(index, server.url + PLAIN)
    assert found_by(retrieval) == [("ferry", ("ferry",))]
    step = retrieval.trace[1]
    assert (step.index, step.ids) == (UNKNOWN_DOCUMENTS, ("nowhere", "17"))
    assert step.note == "2 of 3 hits are of no document of the corpus"


def test_texts_are_bounded(server: OpenAIServer, index: Index) -> None:
    server.faults.append(hits({"id": "ferry", "text": "x\0" * 90_000, "title": "\ud800" * 900}))
    (hit,) = ask(index, server.url + PLAIN).hits
    assert (hit.text, hit.title) == ("x" * 25_000, "?" * 500)


def test_a_filter_asks_for_more_and_keeps_what_passes(server: OpenAIServer, index: Index) -> None:
    retrieval = ask(index, server.url + PLAIN, 1, replace(QUESTION, filter=meta("team", "blue")), depth=20)
    assert found_by(retrieval) == [("vault", ("vault",))]
    assert server.requests[0].body == {"query": QUESTION.text, "k": 20}


# ---------------------------------------------------------------- servers that misbehave


LATE = 0.5
ONE_QUESTION: list[tuple[str, Fault, str]] = [
    ("error", status(500, "out of order"), "failed, status 500: .*out of order"),
    ("text", says("<html>hello"), "failed, status 200: expected JSON, got '<html>hello'"),
    ("deep", says("[" * 100_000), "failed, status 200: expected JSON"),
    ("shape", says('{"results": []}'), "expected an object with a list 'hits' of objects"),
    ("list", says("[]"), "expected an object with a list 'hits' of objects"),
    ("no id", hits({"text": "x"}), "expected an 'id' in every hit"),
    ("huge", says(json.dumps({"hits": [], "more": "x" * 3_000_000})), "more than 1,000,000 bytes were sent"),
    ("late", slow(LATE + 1), f"no whole answer within {LATE:g} seconds"),
    ("dropped", drop, "the connection was lost"),
    ("compressed", lambda answer: replace(answer, headers={"Content-Encoding": "gzip"}), "the answer is compressed"),
]


@pytest.mark.parametrize(("fault", "message"), [pytest.param(*rest, id=name) for name, *rest in ONE_QUESTION])
def test_what_goes_wrong_on_one_question(fault: Fault, message: str, server: OpenAIServer, index: Index) -> None:
    server.faults.append(fault)
    with pytest.raises(RequestError, match=message) as error:
        ask(index, server.url + PLAIN, timeout=LATE if "no whole answer" in message else 30, max_mb=1)
    assert f"POST {server.url}{PLAIN} failed" in str(error.value)
    assert KEY not in str(error.value)


@pytest.mark.parametrize(("timer", "sockets"), [(0.2, 30), (30, 0.2)], ids=["timer first", "socket first"])
def test_both_limits_of_time_say_the_same(
    timer: float, sockets: float, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FirstTimer(threading.Timer):
        def __init__(self, interval: float, function: Callable[[], None]) -> None:
            super().__init__(timer, function)

    address = JsonAddress(server.url + PLAIN, 0.5, 1_000_000, {"Authorization": f"Bearer {KEY}"})
    connection = address._connect()  # the connection that is used next, with a timeout of its own
    connection.sock.settimeout(sockets)
    address._idle.append(connection)
    monkeypatch.setattr(client, "Timer", FirstTimer)
    server.faults.append(slow(1.5))
    with pytest.raises(RequestProblemError, match="no whole answer within 0.5 seconds"):
        address.post({"query": QUESTION.text, "k": 3})


ALL_QUESTIONS: list[tuple[str, Fault, str]] = [
    ("key", status(401, f"{KEY} is wrong"), "status 401: .*… is wrong.*Check SEARCH_API_KEY"),
    ("path", status(404, "no such path"), "status 404"),
    ("wait", status(429, "later", retry_after="9999"), "status 429"),
]


@pytest.mark.parametrize(("fault", "message"), [pytest.param(*rest, id=name) for name, *rest in ALL_QUESTIONS])
def test_what_goes_wrong_on_all_questions(fault: Fault, message: str, server: OpenAIServer, index: Index) -> None:
    server.faults.append(fault)
    with pytest.raises(ServiceError, match=message) as error:
        ask(index, server.url + PLAIN)
    assert not isinstance(error.value, RequestError)
    assert KEY not in str(error.value)


@pytest.mark.parametrize("number", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(number: int, server: OpenAIServer, index: Index) -> None:
    with OpenAIServer(key=None) as other:
        searching(other, DOCUMENTS)
        server.faults.append(status(number, location=f"{other.url}{PLAIN}?token={KEY}"))
        with pytest.raises(ServiceError, match=f"status {number}: it redirects to '{other.url}{PLAIN}', and") as error:
            ask(index, server.url + PLAIN)
        assert other.requests == []
        assert KEY not in str(error.value)


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.0 200 OK\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b" "),
    ],
)
def test_a_server_that_sends_byte_by_byte_is_left(first: bytes, again: bytes, index: Index) -> None:
    """Such a server goes on without end."""
    with dripping(first, again) as url, pytest.raises(RequestError, match="no whole answer within 0.3 seconds|lost"):
        ask(index, url, timeout=0.3)


def test_an_answer_that_ends_too_early_is_a_lost_connection(index: Index) -> None:
    def serve() -> None:
        client, _ = listening.accept()
        with client:
            client.recv(65_536)
            client.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"hits": [{"id"')

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(RequestError, match="the connection was lost"):
            ask(index, f"http://127.0.0.1:{listening.getsockname()[1]}/search", timeout=5)
        thread.join()


def test_a_service_is_asked_question_by_question_and_an_estimate_asks_none(server: OpenAIServer, index: Index) -> None:
    scheme = registry.scheme({"name": "http", "params": {"url": server.url + PLAIN, "key": "SEARCH_API_KEY"}})
    assert batching_for(index, scheme).size == 1
    assert batching_for(index, registry.scheme("bm25")).size == 32
    data = Corpus("made", "jsonl", tuple(DOCUMENTS), 0, (), True)
    with pytest.raises(UsageError, match="service asks a service, and an estimate asks none. Leave it out"):
        llm = registry.llm("openai:small")
        estimate_questions(data, {"service": scheme}, llm, LLMSettings(), [QUESTION], reading=ReadingPlan(llm))
    assert server.requests == []


def test_a_failure_that_passes_is_asked_again(server: OpenAIServer, index: Index) -> None:
    server.faults.extend([status(503, retry_after="0"), drop])
    assert len(ask(index, server.url + PLAIN, retries=2).hits) == 3
    assert len(server.requests) == 3


def test_nothing_listens(index: Index) -> None:
    with OpenAIServer() as gone:
        url = gone.url + PLAIN
    with pytest.raises(ServiceError, match="failed, no connection: Connection refused"):
        ask(index, url)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"url": "ftp://host/search"}, "must begin with http:// or https://"),
        ({"url": "https://user:word@host/search"}, "must not contain a user, password, key or token"),
        ({"url": "https://host/search?x=1"}, "must not contain a user, password or query"),
        ({"url": "https:///search"}, "must be an address of ASCII characters with a host"),
        ({"url": "https://host:99999/search"}, "must be an address of ASCII characters with a host"),
        ({"url": "https://höst/search"}, "must be an address of ASCII characters with a host"),
        ({"url": "https://host/s", "key": KEY}, "key is the name of an environment variable"),
        ({"url": "https://host/s", "header": "X Key"}, "header is the name of an HTTP header"),
        ({}, "'url' parameter"),
    ],
)
def test_parameters(params: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        registry.scheme({"name": "http", "params": params})
    assert KEY not in str(error.value)


def test_a_key_that_is_not_set(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEARCH_API_KEY")
    with pytest.raises(UsageError, match="needs a key: set the environment variable SEARCH_API_KEY"):
        ask(index, "http://127.0.0.1:1/search")


# ---------------------------------------------------------------- comparisons


def write_questions(folder: Path) -> tuple[Path, Path]:
    documents, questions = folder / "documents", folder / "questions.csv"
    for document in DOCUMENTS:
        path = documents / f"{document.id}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {document.title}\n{document.text}\n")
    questions.write_text(
        "question,documents\nWhen was the lighthouse of Lindau built?,lindau.md\nHow long does rye bread keep?,"
        "notes/bread.md\nHow long does the ferry to Bregenz take?,ferry.md\n"
    )
    return documents, questions


def as_files(change: Callable[[str], str]) -> list[ragindex.Document]:
    return [replace(document, id=change(f"{document.id}.md")) for document in DOCUMENTS]


def test_a_service_is_compared_like_any_method(server: OpenAIServer, tmp_path: Path) -> None:
    searching(server, as_files(str))
    documents, questions = write_questions(tmp_path)
    service = f"http(url={server.url}{PLAIN}, key=SEARCH_API_KEY, price=2)"
    result = ragindex.compare(documents, ["bm25", service], questions=questions, index=tmp_path / "w", k=[1, 5])
    assert result[service]["R@1"] == 1.0
    (request,) = [method for method in result.comparison.methods if method.name == "http"]
    assert [answer.usage.money for answer in request.final] == pytest.approx([0.002] * 3)
    assert {received.body["k"] for received in server.requests} == {1, 5}


def test_ids_that_match_nothing_are_in_the_notes(server: OpenAIServer, tmp_path: Path) -> None:
    searching(server, as_files(lambda id: id if id == "ferry.md" else f"other/{id}"))
    documents, questions = write_questions(tmp_path)
    service = f"http(url={server.url}{PLAIN}, key=SEARCH_API_KEY)"
    result = ragindex.compare(documents, ["bm25", service], questions=questions, index=tmp_path / "w", k=[2])
    (note,) = [note for note in result.comparison.notes if "no document of the corpus" in note]
    assert note == (
        f"{service}: 3 hits on 3 of 3 questions name no document of the corpus, and count as misses: "
        "'other/lindau.md', 'other/notes/bread.md'"
    )


def test_ragindex_serve_answers_both_protocols(tmp_path: Path, index: Index) -> None:
    served = build_index(tmp_path / "served", ("bm25", "hybrid"))
    own = index.retriever(registry.scheme("bm25")).retrieve([QUESTION], 3)
    with serving(f"docs={served}", methods=("bm25",)) as running:
        plain = ask(index, f"{running.url}/search", key=None)
        openai = ask(index, f"{running.url}/v1/vector_stores/docs/search", key=None, protocol="openai")
    expected = [hit.doc_ids for hit in own[0].hits]
    assert [hit.doc_ids for hit in plain.hits] == expected
    assert [hit.doc_ids for hit in openai.hits] == expected
    assert [hit.score for hit in openai.hits] == pytest.approx([hit.score for hit in own[0].hits], abs=1e-5)
