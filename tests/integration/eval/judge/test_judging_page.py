"""The page: which requests it answers, and a session in it."""

import os
import signal
import threading
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ragindex.corpus.judgements import question_id, read_judgements
from ragindex_eval.judge.page import JudgingPage, judge_on_page
from ragindex_eval.judge.pool import Pool, PooledDocument, PooledQuestion, PoolSource
from ragindex_eval.judge.session import JudgingSession

HOST = "127.0.0.1:4711"
HOSTILE = "<script>alert(1)</script>"
ID = question_id("why?")


@pytest.fixture
def page(tmp_path: Path) -> JudgingPage:
    documents = tuple(PooledDocument(id, HOSTILE, (f"text of {id}",)) for id in "xy")
    question = PooledQuestion(ID, "why?", documents, {"a": ("x", "y")})
    pool = Pool(PoolSource(("a",), "lsa", 2, (2,), 0, "d", "q"), (question,))
    return JudgingPage(JudgingSession(pool, tmp_path / "out", 1), (tmp_path / "stopped").touch, HOST)


@pytest.fixture
def client(page: JudgingPage) -> TestClient:
    return TestClient(page.make_app(), base_url=f"http://{HOST}")


def test_a_session(page: JudgingPage, client: TestClient, tmp_path: Path) -> None:
    at = f"/{page.token}"
    first = client.get(f"{at}/item").json()
    assert (first["judged"], first["total"], first["questions"]) == (0, 2, 1)
    assert first["item"] == {
        "question": "why?",
        "question_id": ID,
        "question_place": 1,
        "document_id": "x",
        "document_place": 1,
        "documents": 2,
        "title": HOSTILE,
        "passages": ["text of x"],
        "grade": None,
    }
    second = client.post(f"{at}/answer", json={"question": ID, "document": "x", "grade": 2}).json()
    assert (second["judged"], second["item"]["document_id"]) == (1, "y")
    assert read_judgements(tmp_path / "out")[ID].grades == {"x": 2}
    back = client.post(f"{at}/undo", json={}).json()
    assert (back["item"]["document_id"], back["item"]["grade"]) == ("x", 2)
    client.post(f"{at}/answer", json={"question": ID, "document": "x", "grade": 1})
    done = client.post(f"{at}/answer", json={"question": ID, "document": "y", "grade": 0}).json()
    assert (done["judged"], done["item"]) == (2, None)
    assert read_judgements(tmp_path / "out")[ID].grades == {"x": 1, "y": 0}
    assert client.post(f"{at}/stop", json={}).json() == {"stopped": True}
    assert (tmp_path / "stopped").exists()


def test_an_answer_to_another_document_than_the_one_that_is_judged_is_not_saved(
    page: JudgingPage, client: TestClient, tmp_path: Path
) -> None:
    answer = client.post(f"/{page.token}/answer", json={"question": ID, "document": "y", "grade": 2})
    assert answer.status_code == 409
    assert answer.json()["error"] == "Another document is judged now. Here it is; the answer before was not saved."
    assert answer.json()["item"]["document_id"] == "x"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"grade": true}', b'{"grade": 3}', b"\xff", b'{"a": "' + b"x" * 10_000 + b'"}']
)
def test_bad_requests_are_refused(page: JudgingPage, client: TestClient, tmp_path: Path, content: bytes) -> None:
    assert client.post(f"/{page.token}/answer", content=content).status_code == 409
    assert not (tmp_path / "out").exists()


def test_only_the_token_opens_the_page(page: JudgingPage, client: TestClient) -> None:
    for path in ("/", "/wrong/", f"/{page.token[:-1]}/", f"/{page.token}x/item", "/é/item"):
        assert client.get(path).status_code == 404, path
    assert client.post("/wrong/stop", json={}).status_code == 404
    assert client.get(f"/{page.token}/stop").status_code == 405


def test_another_name_for_this_machine_is_refused(page: JudgingPage, client: TestClient) -> None:
    for host in ("evil.example", "localhost:4711", "127.0.0.1"):
        assert client.get(f"/{page.token}/item", headers={"Host": host}).status_code == 421


def test_the_page_runs_nothing_but_its_own_script(page: JudgingPage, client: TestClient) -> None:
    answers = [client.get(f"/{page.token}/") for _ in range(2)]
    nonces = [item.headers["content-security-policy"].partition("'nonce-")[2].partition("'")[0] for item in answers]
    assert len(set(nonces)) == 2
    for answer, nonce in zip(answers, nonces, strict=True):
        assert answer.headers["content-security-policy"] == (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        assert answer.text.count(f'nonce="{nonce}"') == 2
        assert "innerHTML" not in answer.text
        assert "why?" not in answer.text, "texts come as JSON"
        assert (answer.headers["cache-control"], answer.headers["referrer-policy"]) == ("no-store", "no-referrer")


def test_ctrl_c_ends_the_page_and_not_the_command(page: JudgingPage) -> None:
    """The program goes on after it, to show what was judged."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in jobs that a shell runs behind
    interrupt = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    try:
        judge_on_page(page.session, lambda _: interrupt.start())
    finally:
        signal.signal(signal.SIGINT, before)
    assert page.session.judged == 0
