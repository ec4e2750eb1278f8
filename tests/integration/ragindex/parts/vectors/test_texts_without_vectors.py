"""A text that the encoder has no vector for fails alone, in every part, and is encoded again at the next sync."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from openai_server import KEY, Fault, OpenAIServer, Received, status

import ragindex
from ragindex import Document
from ragindex.errors import ServiceError
from ragindex.index.notes import format_part_notes
from ragindex.plugins import registry

ENCODER = "openai(model=small, price=0, retries=0)"
TEXTS = {
    "hill": "Grey Anna is the highest hill of the north. Grey Anna lies beside the Sarn.",
    "sarn": "The Sarn is a river that carries barges with slate. The Sarn joins the Orla.",
    "orla": "The Orla is a short river with eleven gorges. Mona Reed was born beside the Orla.",
    "reed": "Mona Reed wrote a book about slate. Mona Reed lives in Nether Quill.",
    "quill": "Nether Quill is a town made of slate. Nether Quill lies beside the Orla.",
}
REFUSED = "openai:small at .* failed with status 400: no such words"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        monkeypatch.setenv("EMBEDDING_BASE_URL", running.url)
        monkeypatch.setenv("EMBEDDING_API_KEY", KEY)
        yield running


def refuse_hill(received: Received, earlier: int) -> Fault | None:
    refused = any("grey anna" in text.casefold() for text in received.body["input"])
    return status(400, "no such words") if refused else None


def refuse_all(code: int, received: Received, earlier: int) -> Fault:
    return status(code, "out of order")


def open_index(folder: Path, **settings: Any) -> ragindex.Index:
    return ragindex.open(folder, encoder=ENCODER, create=True, **settings)


def add(index: ragindex.Index) -> None:
    index.add([Document(id, id.title(), text) for id, text in TEXTS.items()])


def search(index: ragindex.Index, method: str) -> list[tuple[str, float]]:
    hits = index.retriever(method).search("a river beside the highest hill", k=20).hits
    return [(hit.id, pytest.approx(hit.score, abs=1e-5)) for hit in hits]


METHODS = {
    "dense": ("vectors", {"hill#0"}),
    "dense(over=passages(by=sentences, size=9))": ("vectors", {"hill#sentences9.0", "hill#sentences9.1"}),
    "raptor": ("summary_tree", None),
    "hipporag": ("phrase_graph", None),
    "graphrag": ("entity_vectors", None),
    "griever(ngrams=texts)": ("name_vectors", None),
}


def test_it_fails_alone_and_is_encoded_again(server: OpenAIServer, tmp_path: Path) -> None:
    server.choose = refuse_hill
    with open_index(tmp_path / "index") as index, open_index(tmp_path / "other") as other:
        add(index)
        index.build("bm25", *METHODS)
        for method, (part, failed) in METHODS.items():
            failures = index.failures(registry.scheme(method))
            assert part in failures
            assert failed is None or set(failures[part]) == failed
            assert search(index, method)
        assert search(index, "bm25")[0][0] == "hill#0"
        server.choose = lambda received, earlier: None
        index.build()
        add(other)
        other.build(*METHODS)
        for method in METHODS:
            assert index.failures(registry.scheme(method)) == {}
            assert search(index, method) == search(other, method), method


@pytest.mark.parametrize("store", ["lancedb", "lancedb(memory_gib=0)"])
def test_the_note_names_the_document_and_a_changed_text_is_no_longer_found(
    server: OpenAIServer, tmp_path: Path, store: str
) -> None:
    with open_index(tmp_path / "index", store=store) as index:
        add(index)
        index.add([Document("sarn", "Sarn", "The Sarn is dry.")])
        index.build("bm25", "dense")
        server.choose = refuse_hill
        index.add([Document("sarn", "Sarn", "The Sarn comes from Grey Anna.")])
        index.build()
        (note,) = (text for text in format_part_notes(index, [registry.scheme("dense")]) if "again" in text)
        assert note.startswith("vectors: 1 record could not be made and is tried again the next time: sarn: openai:")
        assert "sarn#0" not in [id for id, _ in search(index, "dense")]
        assert len(search(index, "dense")) == len(TEXTS) - 1
        index.remove(["sarn"])
        index.build()
        assert format_part_notes(index, [registry.scheme("dense")]) == []


def test_a_service_that_encodes_nothing_fails_no_text(server: OpenAIServer, tmp_path: Path) -> None:
    with open_index(tmp_path / "index") as index:
        add(index)
        for code in (400, 500, 503):
            server.choose = partial(refuse_all, code)
            with pytest.raises(ServiceError, match=f"failed with status {code}: out of order"):
                index.build("bm25", "dense")
        server.choose = lambda received, earlier: None
        index.build("bm25", "dense")
        assert index.failures(registry.scheme("dense")) == {}
        assert len(search(index, "dense")) == len(TEXTS)
