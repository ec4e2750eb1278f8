"""A retriever behind HTTP, on the server of openai_server.py: documents by the words that they share with a question.

It speaks the two protocols of the method `http`, at /v1/search and /v1/vector_stores/vs_1/search.
"""

import re
import socket
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from threading import Event, Thread
from typing import Any

from openai_server import Answer, OpenAIServer

from ragindex import testing
from ragindex.interfaces import Scheme
from ragindex.plugins import registry
from ragindex.retrieval import forbidden_documents
from ragindex.types import Document

PLAIN, VECTOR_STORE = "/search", "/vector_stores/vs_1/search"


def searching(
    server: OpenAIServer, documents: Iterable[Document], path: str = "/v1", lowered: Container[str] = ()
) -> OpenAIServer:
    """The server, with both routes. The documents `lowered` get half their scores."""
    corpus = list(documents)
    counts = Counter(word for document in corpus for word in words(document))

    def rank(text: str, k: int) -> list[tuple[Document, float]]:
        matches = set(re.findall(r"\w+", text.casefold()))
        shared = [
            (document, sum(1 / counts[word] for word in sorted(matches & words(document)))) for document in corpus
        ]
        scored = [(document, score / 2 if document.id in lowered else score) for document, score in shared]
        return sorted(scored, key=lambda pair: (-pair[1], pair[0].id))[:k]

    def plain(body: Mapping[str, Any]) -> Answer:
        hits = rank(body["query"], body["k"])
        return Answer(200, {"hits": [{"id": document.id, "score": score} for document, score in hits]})

    def openai(body: Mapping[str, Any]) -> Answer:
        hits = rank(body["query"], body["max_num_results"])
        data = [
            {
                "file_id": f"file-{number}",
                "filename": document.id.rpartition("/")[2],
                "score": score,
                "attributes": {},
                "content": [{"type": "text", "text": document.text}],
            }
            for number, (document, score) in enumerate(hits)
        ]
        return Answer(200, {"object": "vector_store.search_results.page", "data": data, "has_more": False})

    server.routes |= {f"{path}{PLAIN}": plain, f"{path}{VECTOR_STORE}": openai}
    return server


def words(document: Document) -> set[str]:
    return set(re.findall(r"\w+", f"{document.title} {document.text}".casefold()))


@cache
def _contract_server() -> OpenAIServer:
    """A server without a key that runs until the process ends, over the documents of the contract's checks."""
    server = OpenAIServer(key=None)
    others = (*testing.ADDED, *forbidden_documents.make_corpus())  # not in the index of every check
    searching(server, (*testing.DOCUMENTS, *others), lowered={other.id for other in others})
    return server.__enter__()


def default_scheme(name: str, documents: Iterable[Document] = (), **params: Any) -> Scheme:
    """A registered scheme with its default parameters; `http` asks a server over `documents`, or the contract's."""
    if name != "http":
        return registry.scheme({"name": name, "params": params} if params else name)
    server, corpus = _contract_server(), list(documents)
    path = f"/{len(server.routes)}" if corpus else "/v1"
    if corpus:
        searching(server, corpus, path)
    url = f"{server.url.removesuffix('/v1')}{path}{PLAIN}"
    return registry.scheme({"name": name, "params": {"url": url, **params}})


@contextmanager
def dripping(first: bytes, drop: bytes) -> Iterator[str]:
    """The address of a server that sends `first`, then `drop` every 20 ms without end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ended = Event()

        def serve() -> None:
            client, _ = listening.accept()
            with client:
                client.sendall(first)
                while not ended.wait(0.02):
                    try:
                        client.sendall(drop)
                    except OSError:  # the client has had enough
                        return

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/search"
        ended.set()
        thread.join()
