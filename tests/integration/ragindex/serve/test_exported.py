"""Exported retrievers, served: folders and packed files, beside indexes, as they were exported."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai_server import KEY, OpenAIServer
from served import DOCUMENTS, RunningServer, build_index, serving

import ragindex
from ragindex.corpus.judgements import read_judgements
from ragindex.errors import UsageError, WorkspaceError
from ragindex.serve.config import parse_collections
from ragindex.serve.keys import load_keyring

WRITE, JUDGE = "write-key-0123456789abcdef", "judge-key-0123456789abcdef"
QUESTION = "When was the lighthouse built?"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An index, and two methods exported from it: `folder`, which refers to it, and `packed.ragindex`."""
    desk = tmp_path_factory.mktemp("desk")
    build_index(desk / "index", ("bm25", "hybrid"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGINDEX_CACHE", str(desk / "cache"))
        with ragindex.open(desk / "index", read_only=True) as index:
            index.export("bm25", desk / "folder")
            index.export("hybrid", desk / "packed", pack=True)
        yield desk


@pytest.fixture(scope="module")
def server(desk: Path) -> Iterator[RunningServer]:
    shutil.copytree(desk / "index", desk / "other")
    places = (f"live={desk}/other", f"{desk}/folder", f"{desk}/packed.ragindex")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGINDEX_WRITE_KEY", WRITE)
        keyring = load_keyring(None, ["live", "folder", "packed"])
    with serving(*places, keys=keyring) as running:
        yield running


def test_each_is_a_collection_with_its_own_method(server: RunningServer, desk: Path) -> None:
    with server.client() as client:
        assert client.get("/ready").json()["collections"]["packed"]["methods"] == ["hybrid"]
        for name, path in (("folder", "folder"), ("packed", "packed.ragindex")):
            body = client.post("/search", json={"query": QUESTION, "collection": name, "k": 2}).json()
            with ragindex.load(desk / path) as retriever:
                expected = [(hit.id, hit.score, hit.text) for hit in retriever.search(QUESTION, k=2)]
                assert body["method"] == retriever.method
            assert [(hit["id"], hit["score"], hit["text"]) for hit in body["hits"]] == expected
            assert body["hits"][0]["positions"][0]["end"] == 79
            store = client.post(f"/v1/vector_stores/{name}/search", json={"query": QUESTION}).json()
            assert store["data"][0]["file_id"] == "lindau"
            answer = client.post("/ask", json={"query": QUESTION, "collection": name}).json()
            assert answer["citations"][0]["doc_ids"] == ["lindau"]
        filtered = client.post(
            "/search", json={"query": QUESTION, "collection": "packed", "where": {"meta.team": "blue"}}
        )
        assert {hit["doc_ids"][0] for hit in filtered.json()["hits"]} == {"vault", "notes/bread"}


@pytest.mark.parametrize("name", ["folder", "packed"])
def test_they_accept_no_documents_and_show_theirs(server: RunningServer, name: str) -> None:
    with server.client(WRITE) as writer, server.client() as reader:
        post = {"collection": name, "documents": [{"id": "new", "text": "new"}]}
        for refused in (
            writer.post("/documents", json=post),
            writer.delete("/documents/lindau", params={"collection": name}),
        ):
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "read_only")
        shown = reader.get("/documents/lindau", params={"collection": name}).json()
        assert (shown["title"], shown["status"]) == ("Lindau", "indexed")
        assert reader.get("/documents/none", params={"collection": name}).status_code == 404
        accepted = writer.post("/documents", json={"documents": [{"id": "new", "text": "new"}]})
        assert accepted.json()["collection"] == "live"


def test_they_answer_as_exported_while_their_index_goes_on(tmp_path: Path) -> None:
    with ragindex.open(build_index(tmp_path / "index"), read_only=True) as index:
        index.export("bm25", tmp_path / "folder")
    with serving(f"{tmp_path}/folder") as server, server.client() as client:
        with ragindex.open(tmp_path / "index") as index:
            index.add([ragindex.Document("new", "New", "A kangaroo by the lighthouse.")], source="other")
            index.build()
        assert server.service.refresh("folder") is False
        assert client.post("/search", json={"query": "kangaroo"}).json()["hits"] == []
        assert client.get("/ready").json()["collections"]["folder"]["newest"] is True
    with pytest.raises(WorkspaceError, match="its documents have changed since"), serving(f"{tmp_path}/folder"):
        raise AssertionError("the server has started")


def test_judgements_of_what_they_find_are_kept(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGINDEX_JUDGE_KEY", JUDGE)
    places = (f"{desk}/folder", f"{desk}/packed.ragindex")
    with serving(*places, keys=load_keyring(None, ["folder", "packed"])) as server, server.client(JUDGE) as client:
        for name, folder in (("folder", "folder/judgements"), ("packed", "packed.ragindex.judgements")):
            given = {"query": QUESTION, "collection": name, "document": "lindau", "grade": 2}
            assert client.post("/page/judgements", json=given, headers={"Origin": server.url}).status_code == 201
            (judged,) = read_judgements(desk / folder).values()
            assert (judged.text, judged.grades) == (QUESTION, {"lindau": 2})


def test_methods_are_those_of_the_export(desk: Path) -> None:
    places = [f"live={desk}/index", f"{desk}/folder", f"{desk}/packed.ragindex"]
    specs = parse_collections(places, ["hybrid", "live=bm25"])
    assert [(spec.name, spec.methods, spec.exported) for spec in specs] == [
        ("live", ("hybrid", "bm25"), False),
        ("folder", (), True),
        ("packed", (), True),
    ]
    with pytest.raises(UsageError, match="leave out folder=bm25"):
        parse_collections(places, ["folder=bm25"])


def test_hosts_are_contacted_only_if_they_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer() as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.url)
        with ragindex.open(tmp_path / "index", encoder="openai:small", create=True) as index:
            index.add(DOCUMENTS)
            index.build("dense")
            index.export("dense", tmp_path / "folder")
        model.requests.clear()
        host = model.url.removeprefix("http://").removesuffix("/v1")
        with pytest.raises(UsageError, match=f"sends requests to {host}"), serving(f"{tmp_path}/folder"):
            raise AssertionError("the server has started")
        assert model.requests == []
        with serving(f"{tmp_path}/folder", retriever_hosts=(host,)) as server, server.client() as client:
            assert client.get("/ready").status_code == 200
            assert model.requests == [], "checks cost nothing"
            assert client.post("/search", json={"query": "lighthouse Lindau harbour"}).json()["hits"]
        assert model.requests != []


def test_read_only_writes_nothing_beside_the_index(desk: Path) -> None:
    def files() -> dict[str, int]:
        paths = [path for name in ("index", "folder") for path in (desk / name).rglob("*") if path.is_file()]
        return {str(path): path.stat().st_mtime_ns for path in paths if path.parent.name != "readers"}  # leases

    before = files()
    with serving(f"{desk}/folder", read_only=True) as server, server.client() as client:
        assert client.post("/search", json={"query": QUESTION}).json()["hits"][0]["doc_ids"] == ["lindau"]
    assert files() == before
