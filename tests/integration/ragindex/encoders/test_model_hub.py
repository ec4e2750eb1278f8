"""Models by name: the hub is asked once, and has a time limit; without it, the cache is used."""

import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub import constants

from ragindex.encoders import model_hub
from ragindex.errors import UsageError

REVISION = "0123456789abcdef0123456789abcdef01234567"


class Refusing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(403)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(autouse=True)
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    monkeypatch.delenv("SENTENCE_TRANSFORMERS_HOME", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(model_hub, "PATIENCE", 1.0)
    model_hub.find_problem.cache_clear()
    yield monkeypatch
    model_hub.find_problem.cache_clear()


@pytest.fixture
def silent(hub: pytest.MonkeyPatch) -> Iterator[str]:
    """A hub that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        hub.setattr(constants, "ENDPOINT", address)
        yield address


def cache_model(folder: Path) -> Path:
    repository = folder / "cache" / "models--somebody--model"
    snapshot = repository / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(REVISION)
    (snapshot / "modules.json").write_text("[]")
    return snapshot


def test_a_hub_that_cannot_be_reached_is_told_within_the_limit(silent: str) -> None:
    start = time.perf_counter()
    with pytest.raises(UsageError, match=f"neither a folder nor in the Hugging Face cache, .*{silent}"):
        model_hub.locate_model("somebody/model")
    with pytest.raises(UsageError, match="Give the path of a model's folder, or set HF_ENDPOINT"):
        model_hub.locate_model("somebody/other")  # the hub is not asked again
    assert time.perf_counter() - start < 20  # the hub never answers


def test_a_port_that_nobody_listens_on(hub: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    hub.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")
    assert str(model_hub.find_problem()).endswith("Connection refused")


def test_without_the_hub_the_cached_files_are_used(silent: str, tmp_path: Path) -> None:
    snapshot = cache_model(tmp_path)
    assert model_hub.locate_model("somebody/model") == str(snapshot)
    assert model_hub.locate_model("somebody/model", REVISION) == str(snapshot)
    with pytest.raises(UsageError):
        model_hub.locate_model("somebody/model", "f" * 40)


def test_an_answer_of_any_kind_is_one(hub: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        hub.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        assert model_hub.locate_model("somebody/model") == "somebody/model"
        server.shutdown()


def test_a_folder_and_an_offline_hub_are_not_asked_for(hub: pytest.MonkeyPatch, silent: str, tmp_path: Path) -> None:
    assert model_hub.locate_model(str(tmp_path)) == str(tmp_path)
    assert model_hub.locate_model("/no/such/folder") == "/no/such/folder"
    hub.setattr(constants, "HF_HUB_OFFLINE", True)
    assert model_hub.locate_model("somebody/model") == "somebody/model"
