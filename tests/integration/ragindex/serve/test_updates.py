"""Updates of the sources of a collection over HTTP."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from served import RunningServer, serving, wait_until

import ragindex
from ragindex.serve.ingestion import SourceUpdates
from ragindex.serve.keys import load_keyring

OPERATOR, TENANT = "operator-key-0123456789abcdef", "tenant-key-0123456789abcdef"
KEYS = """
[[keys]]
name = "operator"
file = "operator.txt"
rights = ["read", "write"]

[[keys]]
name = "tenant"
file = "tenant.txt"
rights = ["read", "write"]
id_prefix = "tenant/"
"""


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(7):
        (docs / f"n{number}.md").write_text(f"# Note {number}\n\nThe ferry of pier {number}.", encoding="utf-8")
    (docs / "left-out.txt").write_text("not read", encoding="utf-8")
    return docs


@pytest.fixture
def server(docs: Path, tmp_path: Path) -> Iterator[RunningServer]:
    with ragindex.open(tmp_path / "index", encoder="lsa", create=True) as index:
        index.replace(ragindex.read(docs, include=["*.md"]))
        index.build("bm25")
    for name, text in {"keys.toml": KEYS, "operator.txt": OPERATOR, "tenant.txt": TENANT}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(0o600)
    with serving(f"docs={tmp_path / 'index'}", keys=load_keyring(tmp_path / "keys.toml", ["docs"])) as running:
        yield running


def test_an_update_reads_the_sources_again_and_is_done_once_searches_see_it(
    server: RunningServer, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end, searched_newest = SourceUpdates.end, list[bool]()

    def record_and_end(update: SourceUpdates, report: Any, reason: str) -> None:
        searched_newest.append(server.service.collections["docs"].is_newest())
        end(update, report, reason)

    monkeypatch.setattr(SourceUpdates, "end", record_and_end)
    with server.client(OPERATOR) as client, server.client(TENANT) as tenant:
        assert tenant.post("/update", json={}).status_code == 403  # a key of some documents
        assert tenant.get("/update").status_code == 403
        assert client.get("/update").json()["status"] == "none"
        (docs / "new.md").write_text("# New\n\nA lighthouse of slate.", encoding="utf-8")
        (docs / "n0.md").unlink()
        started = client.post("/update", json={})
        assert (started.status_code, started.json()["collection"]) == (202, "docs")
        wait_until(lambda: client.get("/update").json()["status"] == "done")
        assert searched_newest == [True]
        report = client.get("/update").json()["report"]
        (source,) = report["sources"]
        assert (source["added"], source["removed"], source["unchanged"]) == (["new.md"], ["n0.md"], 6)
        hits = client.post("/search", json={"query": "lighthouse of slate"}).json()["hits"]
        assert hits[0]["doc_ids"] == ["new.md"]


def test_many_removals_need_permission(server: RunningServer, docs: Path) -> None:
    for number in range(6):
        (docs / f"n{number}.md").unlink()
    with server.client(OPERATOR) as client:
        client.post("/update", json={})
        wait_until(lambda: client.get("/update").json()["status"] == "failed")
        assert "6 of 7 documents of the source 'docs' would be removed" in client.get("/update").json()["reason"]
        client.post("/update", json={"allow_removals": True})
        wait_until(lambda: client.get("/update").json()["status"] == "done")
        assert len(client.get("/update").json()["report"]["sources"][0]["removed"]) == 6
        assert client.post("/update", json={"unknown": 1}).status_code == 422
