"""A server over a damaged index: what is intact is searched, nothing is written, and no file is touched."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from damaged import HARMS
from served import build_index, serving

from ragindex.errors import StoreError
from ragindex.serve.keys import AccessKey, Keyring, _digest

pytestmark = pytest.mark.filterwarnings("ignore::ragindex._util.durable_files.RepairWarning")
KEY = "key-0123456789abcdef"
KEYS = Keyring((AccessKey("all", frozenset({"read", "write"}), digest=_digest(KEY)),))
POSTED = {"documents": [{"id": "new", "title": "", "text": "A new ferry."}]}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_index(tmp_path_factory.mktemp("damaged") / "docs", ("bm25", "dense"))


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "docs"))


def files_of(folder: Path, collection: str) -> list[Path]:
    paths = sorted(path for path in (folder / "store").rglob("*") if path.is_file())
    return [path for path in paths if collection in str(path.relative_to(folder))]


def contents(folder: Path) -> set[bytes]:
    return {path.read_bytes() for path in files_of(folder, "")}


def remove_documents(folder: Path) -> None:
    for path in files_of(folder, "documents"):
        path.unlink()


def flip_documents(folder: Path) -> None:
    for path in files_of(folder, "documents"):
        HARMS["flipped"](path)


def replace_documents(folder: Path) -> None:
    other = build_index(folder.parent / "other")
    remove_documents(folder)
    for path in files_of(other, "documents"):
        target = folder / path.relative_to(other)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


@pytest.mark.parametrize(
    "damage", [remove_documents, flip_documents, replace_documents], ids=lambda damage: damage.__name__
)
def test_damaged_documents_are_searched_and_not_written(damage: Callable[[Path], None], folder: Path) -> None:
    damage(folder)
    before = contents(folder)
    with serving(f"docs={folder}", methods=("bm25", "dense"), keys=KEYS) as server, server.client(KEY) as client:
        for method in ("bm25", "dense"):
            answer = client.post("/search", json={"query": "lighthouse of Lindau", "method": method})
            assert answer.status_code == 200, answer.text
            assert answer.json()["hits"][0]["doc_ids"] == ["lindau"]
        for refused in (client.post("/documents", json=POSTED), client.delete("/documents/lindau")):
            assert refused.status_code == 503, refused.text
            assert refused.json()["error"]["code"] == "damaged"
            message = refused.json()["error"]["message"]
            assert "the collection documents" in message
            assert "ragindex repair" in message
            assert str(folder) not in message
        ready = client.get("/ready")
        state = ready.json()["collections"]["docs"]
        assert (ready.status_code, state["searches"], state["writes"]) == (200, True, False)
        assert "ragindex repair" in state["writing_reason"]
    assert contents(folder) >= before


def test_method_with_damaged_parts_leaves_the_others(folder: Path) -> None:
    parts = [path for path in files_of(folder, "vectors")]
    assert parts
    for path in parts:
        path.unlink()
    with serving(f"docs={folder}", methods=("dense", "bm25")) as server, server.client() as client:
        for refused in ({}, {"method": "dense"}):
            answer = client.post("/search", json={"query": "lighthouse", **refused})
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "damaged")
            assert "ragindex repair" in answer.json()["error"]["message"]
        assert client.post("/search", json={"query": "lighthouse", "method": "bm25"}).status_code == 200
        ready = client.get("/ready")
        assert (ready.status_code, "dense" in ready.json()["collections"]["docs"]["reason"]) == (503, True)
    with pytest.raises(StoreError), serving(f"docs={folder}", methods=("dense",)):
        pass
