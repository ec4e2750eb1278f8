"""Search, ask and documents over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai_server import KEY, OpenAIServer, status
from served import DOCUMENTS, RunningServer, build_index, serving, wait_until

import ragindex
from ragindex.serve.keys import load_keyring

READ, WRITE = "read-key-0123456789abcdef", "write-key-0123456789abcdef"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = build_index(tmp_path_factory.mktemp("rest") / "docs", ("bm25", "hybrid"))
    with serving(f"docs={folder}", methods=("bm25", "hybrid")) as running:
        yield running


def test_the_default_method_is_not_parsed_for_a_search(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with server.client() as client:
        first = client.post("/search", json={"query": "lighthouse"}).json()
        monkeypatch.delattr("ragindex.plugins.registry.scheme")
        assert client.post("/search", json={"query": "lighthouse"}).json() == first


def test_other_methods_filters_and_traces(server: RunningServer) -> None:
    body = {"query": "lighthouse", "method": "hybrid", "where": {"meta.team": "blue"}, "trace": True}
    with server.client() as client:
        answer = client.post("/search", json=body).json()
    assert answer["method"] == "hybrid"
    assert {hit["doc_ids"][0] for hit in answer["hits"]} <= {"vault", "notes/bread"}
    assert answer["hits"][0]["doc_ids"] == ["vault"]
    assert answer["trace"]


def test_tokens_are_budgeted_in_whole_sentences(server: RunningServer) -> None:
    with server.client() as client:
        answer = client.post("/search", json={"query": "lighthouse Lindau", "k": 3, "max_tokens": 14}).json()
    assert [(hit["text"], hit["shortened"]) for hit in answer["hits"]] == [
        ("The lighthouse of Lindau was built in 1856.", True)
    ]
    assert answer["tokens"] <= 14
    assert (answer["truncated"], answer["left_out"]) == (True, 2)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 422, "invalid_body"),
        ({"query": " "}, 400, "query"),
        ({"query": "x" * 9000}, 400, "query"),
        ({"query": "x", "k": 101}, 400, "k"),
        ({"query": "x", "collection": "../etc"}, 404, "collection"),
        ({"query": "x", "method": "dense"}, 404, "method"),
        ({"query": "x", "where": {"title": "a"}}, 400, "invalid_request"),
        ({"query": "x", "where": {"meta.a": {"gte": 1, "lte": "b"}}}, 400, "invalid_request"),
        ({"query": "a\ud800"}, 422, "invalid_body"),
        ({"query": "x", "unknown": 1}, 422, "invalid_body"),
    ],
)
def test_wrong_requests_are_refused(server: RunningServer, body: object, status: int, code: str) -> None:
    with server.client() as client:
        response = client.post("/search", content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


def test_a_body_that_is_sent_as_a_form_is_told_how_to_send_it(server: RunningServer) -> None:
    body = '{"query": "When was the lighthouse of Lindau built?"}'
    with server.client() as client:
        form = client.post("/search", content=body, headers={"Content-Type": "application/x-www-form-urlencoded"})
        wrong = client.post("/search", json={"k": 3})
    message = "send JSON with the header Content-Type: application/json (curl: --json instead of -d)"
    assert (form.status_code, form.json()["error"]["message"].endswith(message)) == (422, True)
    assert wrong.json()["error"]["message"] == "body.query: Field required"


def test_health_readiness_metrics_and_openapi(server: RunningServer) -> None:
    with server.client() as client:
        assert client.get("/health").json() == {"status": "ok", "collections": {}}
        ready = client.get("/ready").json()
        assert (ready["status"], ready["collections"]["docs"]["searches"]) == ("ready", True)
        assert client.post("/search", json={"query": "lighthouse"}).status_code == 200
        assert 'ragindex_searches_total{collection="docs",method="bm25"}' in client.get("/metrics").text
        assert "/search" in client.get("/openapi.json").json()["paths"]
        assert client.get("/docs").status_code == 404


def test_documents_are_accepted_indexed_changed_and_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGINDEX_WRITE_KEY", WRITE)
    folder = build_index(tmp_path / "docs")
    with ragindex.open(folder) as index:
        index.add([ragindex.Document("theirs", "Theirs", "A text of another program.")], source="other")
        index.build()
    with (
        serving(f"docs={folder}", keys=load_keyring(None, ["docs"])) as running,
        running.client(WRITE) as writer,
        running.client() as reader,
    ):

        def titles(query: str) -> list[str]:
            return [hit["title"] for hit in reader.post("/search", json={"query": query}).json()["hits"]]

        def status(id: str) -> str:
            return str(writer.get(f"/documents/{id}").json().get("status"))

        document = {"id": "notes/old zoo", "title": "Zoo", "text": "The zoo keeps a zebra.", "metadata": {"a": 1}}
        taken = {"id": "theirs", "text": "taken over"}
        accepted = writer.post("/documents", json={"documents": [document, taken]})
        assert accepted.status_code == 202
        assert accepted.json()["documents"][0]["status"] in ("accepted", "indexed")
        wait_until(lambda: status("notes/old%20zoo") == "indexed")
        assert titles("zebra") == ["Zoo"]
        failed = writer.get("/documents/theirs").json()
        assert failed["status"] == "failed"
        assert "is already used by" in failed["reason"]
        response = writer.post("/search", json={"query": "zebra"})  # as anyone may, without a key
        assert [hit["title"] for hit in response.json()["hits"]] == ["Zoo"]
        assert writer.get("/documents/notes/old%20zoo").json()["text"] is None  # it may write, not read
        changed = {**document, "text": "The zoo keeps a giraffe."}
        writer.post("/documents", json={"documents": [changed]})
        wait_until(lambda: titles("giraffe") == ["Zoo"])
        assert titles("zebra") == []
        assert writer.delete("/documents/notes/old%20zoo").status_code == 202
        wait_until(lambda: status("notes/old%20zoo") == "deleted")
        assert titles("giraffe") == []
        assert writer.delete("/documents/notes/old%20zoo").status_code == 404
        assert reader.post("/documents", json={"documents": [document]}).status_code == 401
        refused = writer.post("/documents", json={"documents": [{"id": "a\nb", "text": "x"}]})
        message = (
            "Value error, must be an id without control characters, and has the control character '\\n' in 'a\\nb'"
        )
        assert refused.status_code == 422
        assert refused.json()["error"]["message"] == f"body.documents.0.id: {message}"


def test_a_document_that_cannot_be_encoded_fails_and_others_do_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGINDEX_WRITE_KEY", WRITE)
    monkeypatch.setenv("EMBEDDING_API_KEY", KEY)
    with OpenAIServer() as encoding:
        monkeypatch.setenv("EMBEDDING_BASE_URL", encoding.url)
        with ragindex.open(tmp_path, encoder="openai(model=small, price=0, retries=0)", create=True) as index:
            index.add(DOCUMENTS, source="served")
            index.build("bm25", "dense")
        encoding.choose = lambda received, earlier: (
            status(400, "no such words") if "poison" in str(received.body["input"]) else None
        )
        with (
            serving(f"docs={tmp_path}", keys=load_keyring(None, ["docs"])) as running,
            running.client(WRITE) as writer,
        ):

            def state(id: str) -> tuple[str, str]:
                answer = writer.get(f"/documents/{id}").json()
                return answer["status"], answer["reason"]

            texts = {"bad": "poison", "good": "A kestrel nests in the tower."}
            writer.post("/documents", json={"documents": [{"id": id, "text": text} for id, text in texts.items()]})
            wait_until(lambda: state("good") == ("indexed", ""))
            refused = f"openai:small at {encoding.url} failed with status 400: no such words."
            assert state("bad") == ("failed", f"vectors: {refused}")
            hits = writer.post("/search", json={"query": "poison kestrel"}).json()["hits"]
            assert {hit["id"] for hit in hits} == {"bad#0", "good#0"}
            encoding.choose = lambda received, earlier: status(500, "out of order")
            writer.post("/documents", json={"documents": [{"id": "later", "text": "A stork."}]})
            down = f"openai:small at {encoding.url} failed with status 500: out of order."
            wait_until(lambda: state("later")[1] != "")
            assert state("later") == ("accepted", down)
            assert writer.get("/ready").json()["collections"]["docs"]["sync_failure"] == down
