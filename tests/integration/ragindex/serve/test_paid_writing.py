"""What documents that clients post may cost: the key pays, within its cap, the server's and that of the day."""

import os
import signal
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from openai_server import slow
from served import DOCUMENTS, RunningServer, serving
from served import wait_until as wait_for
from till import Till, billing, open_desk

import ragindex
from ragindex.accounting.spending_log import DaySum
from ragindex.serve.keys import load_keyring

WRITER, OTHER = "writer-0123456789abcdef", "other-0123456789abcdef"
ENCODER = "openai(model=vectors, dimensions=48, batch_size=1)"
KEYS = """
[[keys]]
name = "writer"
rights = ["read", "write"]
variable = "WRITER_SECRET"
{budget}

[[keys]]
name = "other"
rights = ["read", "write"]
variable = "OTHER_SECRET"
"""
TOKEN = 0.0005  # dollars
SIGNS = "abcdefghijklmnopqrstuvwxyz0123456789"


wait_until = partial(wait_for, seconds=240)  # sync processes are started, which takes long on a busy machine


def text(number: int, words: int) -> str:
    return " ".join(f"{SIGNS[number]}{SIGNS[place % 26]}" for place in range(words))


SHORT = {f"short{number}": text(number, 10) for number in range(30)}
LONG = {f"long{number}": text(number, 200) for number in range(6)}
"""Each costs 0.1 dollars, far more than a passage of the index has cost."""


@pytest.fixture
def till() -> Iterator[Till]:
    with billing() as running:
        yield running


@pytest.fixture
def folder(till: Till, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index whose passages have cost money."""
    open_desk(till, tmp_path, monkeypatch)
    monkeypatch.setenv("RAGINDEX_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("WRITER_SECRET", WRITER)
    monkeypatch.setenv("OTHER_SECRET", OTHER)
    with ragindex.open(tmp_path / "docs", encoder=ENCODER, chunking=None, create=True) as index:
        index.add(DOCUMENTS, source="served")
        index.build("dense")
    assert till.money > 0
    till.empty()
    return tmp_path / "docs"


def write_keys(folder: Path, budget: float | None) -> None:
    line = "" if budget is None else f"budget = {budget}"
    (folder.parent / "keys.toml").write_text(KEYS.format(budget=line))


def read_keys(folder: Path) -> Any:
    return load_keyring(folder.parent / "keys.toml", ["docs"])


def serve(folder: Path, cap: float | None, **settings: Any) -> Any:
    write_keys(folder, cap)
    return serving(f"docs={folder}", methods=("dense",), keys=read_keys(folder), **settings)


def post(server: RunningServer, texts: dict[str, str], key: str = WRITER) -> tuple[int, dict[str, Any]]:
    with server.client(key) as client:
        body = {"documents": [{"id": id, "text": text} for id, text in texts.items()]}
        response = client.post("/documents", json=body)
    return response.status_code, response.json()


def statuses(server: RunningServer, ids: Any, key: str = WRITER) -> dict[str, str]:
    with server.client(key) as client:
        return {id: client.get(f"/documents/{id}").json()["status"] for id in ids}


def wait_for_indexed(server: RunningServer, ids: Iterable[str]) -> None:
    """Wait until documents are indexed, without a request for each look: requests cost more than the sync."""
    spool = server.service.ingestions["docs"].spool
    wait_until(lambda: {state.status for state in spool.states(list(ids)).values()} == {"indexed"})


def wait_for_cap(server: RunningServer) -> None:
    wait_until(lambda: server.service.ingestions["docs"].caps)


def count(server: RunningServer, name: str, key: str) -> float:
    return server.service.metrics.registry.get_sample_value(f"ragindex_paid_{name}_total", {"key": key}) or 0.0


def test_post_that_would_pass_the_cap_is_refused(folder: Path, till: Till) -> None:
    with serve(folder, 0.05) as server:
        status, answer = post(server, SHORT)
        assert (status, answer["error"]["code"]) == (402, "spend_cap")
        assert "is likely to cost $0." in answer["error"]["message"]
        assert "$0.050000 are left" in answer["error"]["message"]
        assert post(server, {"short0": SHORT["short0"]})[0] == 202
        wait_for_indexed(server, ["short0"])
        assert statuses(server, ["short0"]) == {"short0": "indexed"}
        assert till.money == pytest.approx(10 * TOKEN)
        assert count(server, "dollars", "writer") == pytest.approx(till.money)
        assert post(server, SHORT, OTHER)[0] == 202  # it has no cap
        wait_for_indexed(server, SHORT)
        assert till.money == pytest.approx(300 * TOKEN)  # the one of before has not changed
        assert count(server, "dollars", "other") == pytest.approx(290 * TOKEN)


def test_accepted_documents_wait_and_go_on(folder: Path, till: Till) -> None:
    with serve(folder, 0.25) as server:
        server.service._read_keys = lambda: read_keys(folder)
        assert post(server, LONG)[0] == 202
        wait_for_cap(server)
        assert statuses(server, LONG) == {id: "indexed" if id in ("long0", "long1") else "spend_cap" for id in LONG}
        assert till.money == pytest.approx(0.2)
        assert count(server, "dollars", "writer") == pytest.approx(0.2)
        assert count(server, "tokens", "writer") == 400
        with server.client(WRITER) as client:
            reason = client.get("/documents/long5").json()["reason"]
            assert "The spend cap of this key is used up: $0.2000 of $0.2500 paid" in reason
            assert client.post("/search", json={"query": "ab ac ad"}).json()["hits"][0]["doc_ids"] == ["long0"]
        status, answer = post(server, {"more": "One more."})
        assert (status, answer["error"]["code"]) == (402, "spend_cap")
        assert post(server, {"free": "A text of another key."}, OTHER)[0] == 202
        wait_for_indexed(server, ["free"])
        assert set(statuses(server, LONG).values()) == {"indexed", "spend_cap"}
        with server.client(WRITER) as client:
            assert client.delete("/documents/long5").status_code == 202
        wait_until(lambda: server.service.ingestions["docs"].spool.count_pending() == 3)
        write_keys(folder, 9.0)
        server.service.reload_keys()
        wait_for_indexed(server, list(LONG)[:5])
        assert set(statuses(server, list(LONG)[:5]).values()) == {"indexed"}
        assert count(server, "dollars", "writer") + count(server, "dollars", "other") == pytest.approx(till.money)
        embedded = [request.body["input"][0] for request in till.server.requests]
        paid = [each for each in embedded if len(each) == len(LONG["long0"])]
        assert len(paid) == len(set(paid)) == 5  # nothing was paid twice, the deleted one never


def test_documents_that_wait_survive_a_restart(folder: Path, till: Till) -> None:
    with serve(folder, 0.15) as server:
        assert post(server, LONG)[0] == 202
        wait_for_cap(server)
        assert "spend_cap" in statuses(server, LONG).values()
    with serve(folder, None) as server:
        wait_for_indexed(server, LONG)
    assert till.money == pytest.approx(0.6)


def test_budget_of_server_covers_writing_and_searching(folder: Path, till: Till) -> None:
    with serve(folder, None, budget=0.25) as server:
        assert post(server, LONG, OTHER)[0] == 202
        wait_for_cap(server)
        assert till.money == pytest.approx(0.2)
        with server.client(OTHER) as client:
            assert "--budget" in client.get("/documents/long5").json()["reason"]
            refused = client.post("/search", json={"query": text(9, 150)})
            assert (refused.status_code, refused.json()["error"]["code"]) == (402, "spend_cap")
            assert "--budget" in refused.json()["error"]["message"]
            assert client.post("/search", json={"query": "ab ac ad"}).status_code == 200
        assert count(server, "dollars", "other") == pytest.approx(till.money)


def test_limit_of_the_day_holds_for_writing(folder: Path, till: Till, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGINDEX_DAILY_BUDGET", str(DaySum().read() + 0.25))
    with serve(folder, None) as server:
        many = {f"{id}-{number}": words for id, words in SHORT.items() for number in range(30)}
        assert post(server, many)[1]["error"]["code"] == "spend_cap"
        assert post(server, LONG)[0] == 202
        wait_for_cap(server)
        assert till.money == pytest.approx(0.2)
        with server.client(WRITER) as client:
            assert "RAGINDEX_DAILY_BUDGET" in client.get("/documents/long5").json()["reason"]


def find_sync() -> int | None:
    for name in os.listdir("/proc"):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            parent = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1]
        except (OSError, IndexError):
            continue
        if b"ragindex.serve.sync_process" in words and parent == str(os.getpid()):
            return int(name)
    return None


def test_killed_process_has_reported_what_it_paid(folder: Path, till: Till) -> None:
    till.server.choose = lambda received, earlier: slow(0.3)
    texts = {f"slow{number}": text(number, 20) for number in range(12)}
    with serve(folder, 9.0) as server:
        assert post(server, texts)[0] == 202
        wait_until(lambda: len(till.receipts) >= 4)
        process = find_sync()
        assert process is not None
        os.kill(process, signal.SIGKILL)
        wait_until(lambda: not till.server.in_flight)  # it is answered, to nobody
        paid, in_flight = till.money, 20 * TOKEN
        assert paid - in_flight - 1e-9 <= count(server, "dollars", "writer") <= paid + 1e-9
        till.server.choose = lambda received, earlier: None
        wait_for_indexed(server, texts)
        assert till.money <= 13 * in_flight + 1e-9
        assert count(server, "dollars", "writer") >= 12 * in_flight - 1e-9
        budget = server.service.settings.keys.keys[0].budget
        assert budget.spent == pytest.approx(count(server, "dollars", "writer"))
        assert budget.left == pytest.approx(9.0 - budget.spent)  # the killed process reserves nothing any more
