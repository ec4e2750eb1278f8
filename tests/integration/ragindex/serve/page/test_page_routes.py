"""The page: what its HTML and headers hold, and who may judge."""

import json
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from served import DOCUMENTS, RunningServer, build_index, serving

import ragindex
from ragindex.corpus.judgements import JudgedQuestion, add_judgement, question_id, read_judgements
from ragindex.index.renames import record_renames
from ragindex.serve.keys import load_keyring

READ, JUDGE, BOTH = "read-key-0123456789abcdef", "judge-key-0123456789abcdef", "both-key-0123456789abcdef"
ATTACK = "</p></article><script>stolen()</script><img src=x onerror=stolen()><svg onload=stolen()> \u202e lighthouse"
HOSTILE = [
    ragindex.Document('a" onclick="stolen()', ATTACK, ATTACK, {"url": "javascript:stolen()", "team": ATTACK}),
    ragindex.Document("safe", "Harbour", "The lighthouse & <b>harbour</b>.", {"url": "https://example.org/?a=1&b='2'"}),
]
QUESTION = "When was the lighthouse built?"


class Elements(HTMLParser):
    """The elements of a page, with their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = build_index(tmp_path_factory.mktemp("page") / "docs", ("bm25", "hybrid"))
    with serving(f"docs={folder}", methods=("bm25", "hybrid")) as running:
        yield running


@pytest.fixture(scope="module")
def guarded_server(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with a key to read, a key to judge, and one that may do both with the documents of the red team."""
    folder = tmp_path_factory.mktemp("guarded")
    keys = folder / "keys.toml"
    keys.write_text(
        '[[keys]]\nname = "both"\nrights = ["read", "judge"]\nvariable = "BOTH_KEY"\nfilter = { "meta.team" = "red" }\n'
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, secret in (("RAGINDEX_READ_KEY", READ), ("RAGINDEX_JUDGE_KEY", JUDGE), ("BOTH_KEY", BOTH)):
            patch.setenv(name, secret)
        keyring = load_keyring(keys, ["docs"])
    with serving(f"docs={copy_index(server, folder)}", keys=keyring) as running:
        yield running


@pytest.fixture
def guarded(guarded_server: RunningServer) -> Iterator[RunningServer]:
    """Without judgements."""
    yield guarded_server
    shutil.rmtree(guarded_server.service.collections["docs"].spec.folder / "judgements", ignore_errors=True)


def copy_index(server: RunningServer, folder: Path) -> Path:
    return Path(shutil.copytree(server.service.collections["docs"].spec.folder, folder / "docs"))


def judge(server: RunningServer, key: str | None, origin: str | None, **body: Any) -> Any:
    headers = {} if origin is None else {"Origin": origin}
    with server.client(key) as client:
        given = {"query": QUESTION, "document": "lindau", "grade": 2, **body}
        return client.post("/page/judgements", json=given, headers=headers)


def read_judged(client: Any, question: str) -> Any:
    return client.post(
        "/page/judged", json={"query": question}, headers={"Origin": str(client.base_url).rstrip("/")}
    ).json()


def test_the_policy_allows_only_what_has_the_nonce_of_this_response(server: RunningServer) -> None:
    with server.client() as client:
        pages = [client.get("/") for _ in range(2)]
    nonces = []
    for page in pages:
        policy = page.headers["content-security-policy"]
        (nonce,) = set(re.findall(r"'nonce-([\w-]{24})'", policy))
        nonces.append(nonce)
        assert policy == (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; "
            "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        elements = Elements(page.text).tags
        assert [attributes for tag, attributes in elements if tag in ("script", "style")] == [{"nonce": nonce}] * 2
        assert (page.headers["cache-control"], page.headers["referrer-policy"]) == ("no-store", "no-referrer")
        assert page.headers["x-content-type-options"] == "nosniff"
    assert nonces[0] != nonces[1]


def test_the_page_has_no_inline_handlers_or_styles_and_fetches_nothing(server: RunningServer) -> None:
    with server.client() as client:
        page = client.get("/").text
        piece = client.post("/page/search", json={"query": QUESTION, "method": "hybrid"}).text
    for html in (page, piece):
        for tag, attributes in Elements(html).tags:
            assert not [name for name in attributes if name.startswith("on") or name in ("style", "src", "srcdoc")]
            assert tag not in ("img", "iframe", "object", "base")
    linked = [attributes.get("href") for tag, attributes in Elements(page).tags if "href" in attributes]
    assert linked == ["data:,"]
    assert "http:" not in page
    assert "https:" not in page
    assert "docs" not in page  # nothing of the indexes


def test_a_piece_has_the_hits_with_the_words_that_matched(server: RunningServer) -> None:
    with server.client() as client:
        answer = client.post("/page/search", json={"query": QUESTION, "method": "hybrid", "k": 3})
    hits = server.service.collections["docs"].state.retrievers["hybrid"].search(QUESTION, k=3)
    elements = Elements(answer.text).tags
    shown = [
        attributes["data-document"] for tag, attributes in elements if tag == "li" and "data-document" in attributes
    ]
    assert shown == [hit.doc_ids[0] for hit in hits]
    assert shown[0] == "lindau"
    marked = "The <mark>lighthouse</mark> of Lindau was <mark>built</mark> in 1856. It stands at the harbour of Lindau."
    assert marked in answer.text
    assert '<a href="https://example.org/lindau" target="_blank" rel="noopener noreferrer">' in answer.text
    assert answer.headers["content-security-policy"].startswith("default-src 'none';")
    assert re.search(r"<b>[\d.]+ ms</b> · about \d+ tokens in hits", answer.text)


def test_the_lists_that_a_method_fuses_are_drawn(server: RunningServer) -> None:
    with server.client() as client:
        html = client.post("/page/search", json={"query": QUESTION, "method": "hybrid", "k": 2}).text
        plain = client.post("/page/search", json={"query": QUESTION, "method": "bm25", "k": 2}).text
    assert re.findall(r"<title>([^<]*)</title><path", html)[0] == "text –1→ Lindau"
    assert "<svg" not in plain


def test_hostile_documents_are_text(tmp_path: Path) -> None:
    folder = build_index(tmp_path / "docs", ("bm25", "hybrid"), HOSTILE)
    with serving(f"docs={folder}", methods=("bm25", "hybrid")) as running, running.client() as client:
        html = client.post("/page/search", json={"query": "lighthouse <script>", "method": "hybrid"}).text
    elements = Elements(html).tags
    assert {tag for tag, _ in elements} <= {
        *("article", "h2", "h3", "p", "b", "ol", "li", "span", "bdi", "mark", "div", "button", "details", "summary"),
        *("a", "figure", "figcaption", "strong", "svg", "g", "title", "path", "text", "rect"),
    }
    assert not [name for _, attributes in elements for name in attributes if name.startswith("on")]
    assert [attributes["href"] for tag, attributes in elements if tag == "a"] == ["https://example.org/?a=1&b='2'"]
    assert "javascript:" not in html
    ids = [attributes["data-document"] for tag, attributes in elements if tag == "li" and "data-document" in attributes]
    assert sorted(map(str, ids)) == sorted(document.id for document in HOSTILE)


def test_grades_follow_renamed_documents(guarded: RunningServer) -> None:
    """A document is shown with the grade of its earlier id, until it is judged under its own."""
    folder = guarded.service.collections["docs"].spec.folder
    add_judgement(folder / "judgements", QUESTION, "harbour", 1)
    record_renames(folder, {"harbour": "ferry"}, set())
    try:
        with guarded.client(JUDGE) as client:
            assert read_judged(client, QUESTION) == {"grades": {"ferry": 1}}
            assert judge(guarded, JUDGE, guarded.url, document="ferry", grade=2).status_code == 201
            assert read_judged(client, QUESTION) == {"grades": {"ferry": 2}}
    finally:
        (folder / "renames.json").unlink()


def test_a_judgement_is_saved_as_compare_reads_it(guarded: RunningServer, tmp_path: Path) -> None:
    folder = guarded.service.collections["docs"].spec.folder
    for document, grade in (("lindau", 1), ("lindau", 2), ("ferry", 0)):
        answer = judge(guarded, JUDGE, guarded.url, document=document, grade=grade)
        assert answer.status_code == 201
        assert answer.json() == {"question": question_id(QUESTION), "document": document, "grade": grade}
    judged = JudgedQuestion(QUESTION, {"lindau": 2, "ferry": 0})
    assert read_judgements(folder / "judgements") == {question_id(QUESTION): judged}
    with guarded.client(JUDGE) as client:
        assert read_judged(client, QUESTION) == {"grades": {"lindau": 2, "ferry": 0}}
        assert read_judged(client, "Another?") == {"grades": {}}

    data = tmp_path / "corpus.jsonl"
    lines = [json.dumps({"_id": passage.id, "title": passage.title, "text": passage.text}) for passage in DOCUMENTS]
    data.write_text("\n".join(lines))
    result = ragindex.compare(data, ["bm25"], questions=folder / "judgements", index=tmp_path / "compared")
    assert result["bm25"]["R@5"] == 1.0


@pytest.mark.parametrize(
    ("key", "origin", "status", "code"),
    [
        (None, "own", 401, "invalid_api_key"),
        ("wrong-key-0123456789abcdef", "own", 401, "invalid_api_key"),
        (READ, "own", 403, "right"),
        (JUDGE, None, 403, "origin"),
        (JUDGE, "http://evil.example", 403, "origin"),
        (JUDGE, "null", 403, "origin"),
    ],
)
def test_judging_needs_its_right_and_the_own_origin(
    guarded: RunningServer, key: str | None, origin: str | None, status: int, code: str
) -> None:
    answer = judge(guarded, key, guarded.url if origin == "own" else origin)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert not (guarded.service.collections["docs"].spec.folder / "judgements").exists()


def test_an_allowed_origin_may_ask_but_not_judge(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGINDEX_JUDGE_KEY", JUDGE)
    allowed = "https://app.example"
    folder = copy_index(server, tmp_path)
    with serving(f"docs={folder}", keys=load_keyring(None, ["docs"]), allowed_origins=(allowed,)) as running:
        with running.client() as client:
            response = client.post("/page/search", json={"query": QUESTION}, headers={"Origin": allowed})
        assert response.status_code == 200
        assert judge(running, JUDGE, allowed).json()["error"]["code"] == "origin"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"document": "gone"}, 404, "document"),
        ({"document": "../etc"}, 404, "document"),
        ({"document": ""}, 422, "invalid_body"),
        ({"document": "a\0"}, 422, "invalid_body"),
        ({"grade": 3}, 422, "invalid_body"),
        ({"grade": "2"}, 422, "invalid_body"),
        ({"grade": True}, 422, "invalid_body"),
        ({"query": "  "}, 400, "invalid_request"),
        ({"query": "x" * 9000}, 400, "invalid_request"),
        ({"collection": "other"}, 404, "collection"),
        ({"more": 1}, 422, "invalid_body"),
    ],
)
def test_fields_of_a_judgement_are_validated(
    guarded: RunningServer, body: dict[str, Any], status: int, code: str
) -> None:
    answer = judge(guarded, JUDGE, guarded.url, **body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert not (guarded.service.collections["docs"].spec.folder / "judgements").exists()


def test_a_key_with_a_filter_judges_and_sees_only_what_passes(guarded: RunningServer) -> None:
    assert judge(guarded, BOTH, guarded.url).status_code == 201
    assert judge(guarded, BOTH, guarded.url, document="vault").status_code == 404
    assert judge(guarded, JUDGE, guarded.url, document="vault", grade=1).status_code == 201
    with guarded.client(BOTH) as client:
        assert read_judged(client, QUESTION) == {"grades": {"lindau": 2}}
        html = client.post("/page/search", json={"query": QUESTION}).text
    assert "secret map" not in html
    assert 'class="steps"' not in html  # steps can name what the filter keeps out


def test_keys_decide_what_the_page_is_told(guarded: RunningServer) -> None:
    with guarded.client() as client:
        assert client.get("/").status_code == 200
        assert client.get("/page/collections").status_code == 401
        assert client.post("/page/search", json={"query": QUESTION}).status_code == 401
    with guarded.client(JUDGE) as client:
        assert client.get("/page/collections").json() == {"collections": [], "rights": ["judge"]}
        assert client.post("/page/search", json={"query": QUESTION}).status_code == 403
    with guarded.client(READ) as client:
        collections = [{"name": "docs", "methods": ["bm25"], "documents": 4}]
        assert client.get("/page/collections").json() == {"collections": collections, "rights": ["read"]}


def test_a_read_only_server_keeps_no_judgements(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGINDEX_JUDGE_KEY", JUDGE)
    folder = copy_index(server, tmp_path)
    add_judgement(folder / "judgements", QUESTION, "ferry", 1)
    with serving(f"docs={folder}", keys=load_keyring(None, ["docs"]), read_only=True) as running:
        assert judge(running, JUDGE, running.url).json()["error"]["code"] == "read_only"
        with running.client(JUDGE) as client:
            assert read_judged(client, QUESTION) == {"grades": {"ferry": 1}}
