"""Functions, and retrievers of other libraries, as methods of a comparison.

A function gets the question and k, and returns the ids of documents, best first, or pairs of id and score. So does an
object with `invoke` (LangChain), `retrieve` (LlamaIndex) or `run` (Haystack), whose documents name their id. What is
awaited runs on an event loop of its own. Nothing is known of what a function depends on: it is asked anew each time.
"""

import inspect
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, PrivateAttr

from ragindex.errors import QuestionError, UsageError
from ragindex.interfaces import OpenIndex, Part, Scheme
from ragindex.retrieval.trace import UNKNOWN_DOCUMENTS
from ragindex.types import Document, Hit, Query, Retrieval, Step

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

_ASKED_BY = ("invoke", "retrieve", "run")
_ID_KEYS = ("doc_id", "document_id", "id", "source", "file_path", "file_name")
"""Keys of metadata under which libraries keep the id of a document."""


def is_function(written: object) -> bool:
    """Return whether a method is a function, or an object that is asked like one, and no method of ours."""
    if isinstance(written, str | Mapping | Scheme | type):
        return False
    return callable(written) or any(callable(getattr(written, name, None)) for name in _ASKED_BY)


class FunctionMethod(Scheme):
    """A function that is asked for documents. What it took to build, and what it pays, is unknown."""

    version: ClassVar[int] = 1
    name: str = Field(description="Name of the function, or of the class of the object.")
    _function: Any = PrivateAttr(default=None)

    @classmethod
    def of(cls, function: Any) -> "FunctionMethod":
        """Return the method of a function or object."""
        method = cls(name=str(getattr(function, "__name__", type(function).__name__)).strip("<>"))
        method._function = function
        return method

    def depends_on_k(self, k: int) -> bool:
        """Return True: nothing is known about the function, and hits of unknown documents leave fewer than k."""
        return True

    def _parts(self) -> tuple[Part[Any], ...]:
        return ()

    def _open(self, index: OpenIndex) -> "FunctionRetriever":
        from ragindex.index.index import Index  # takes a quarter of a second, and settings import this module

        if self._function is None or not isinstance(index, Index):
            raise UsageError(f"{self.name} is a function: it is compared in Python, and cannot be built or exported.")
        return FunctionRetriever(self.name, self._function, {document.id: document for document in index.documents})


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A document that a function has found: the ids that it may have, its score, and its text, "" if unknown."""

    ids: tuple[str, ...]
    score: float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class FunctionRetriever:
    """The retriever of a function, with the documents of the corpus by id."""

    name: str
    function: Any
    documents: Mapping[str, Document]

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Ask one question after the other. Raises QuestionError if the function fails on one."""
        return [self._ask(query, k) for query in queries]

    def _ask(self, query: Query, k: int) -> Retrieval:
        start = time.perf_counter()
        try:
            results = list(_read_documents(_call(self.function, query.text, k)))
        except Exception as error:  # a function may raise anything
            raise QuestionError(f"{self.name} raised {type(error).__name__}: {error}") from error
        milliseconds = (time.perf_counter() - start) * 1e3
        known = [(self._find_document(document), document) for document in results]
        hits = self._make_hits([(owner, document) for owner, document in known if owner is not None][:k])
        step = Step(1, self.name, query.text, tuple(hit.id for hit in hits), ms=milliseconds)
        unknown = tuple(document.ids[0] for owner, document in known if owner is None)
        if not unknown:
            return Retrieval(hits, (step,))
        note = f"{len(unknown)} of {len(results)} hits are of no document of the corpus"
        return Retrieval(hits, (step, Step(1, UNKNOWN_DOCUMENTS, query.text, unknown, note=note)))

    def _find_document(self, result: FoundDocument) -> Document | None:
        return next((self.documents[id] for id in result.ids if id in self.documents), None)

    def _make_hits(self, matched: Sequence[tuple[Document, FoundDocument]]) -> tuple[Hit, ...]:
        """Return a hit for each; further hits of a document have numbers. Without scores they fall with the rank."""
        scored = all(result.score is not None for _, result in matched)
        hits, counts = list[Hit](), dict[str, int]()
        for rank, (document, result) in enumerate(matched, start=1):
            count = counts[document.id] = counts.get(document.id, 0) + 1
            score = float(result.score) if scored and result.score is not None else 1.0 / rank
            id = document.id if count == 1 else f"{document.id}#{count}"
            text = result.text or document.text
            hits.append(Hit(id, "document", (), (document.id,), document.title, text, score, self.name))
        return tuple(hits)


def _call(function: Any, question: str, k: int) -> Any:
    """Return what a function, or an object of a library, finds for a question."""
    asking = next((method for name in _ASKED_BY if callable(method := getattr(function, name, None))), None)
    if asking is None:
        result = function(question, k)
    else:
        result = asking(query=question) if asking.__name__ == "run" else asking(question)
    if inspect.iscoroutine(result):
        import asyncio  # only what waits needs it

        result = asyncio.run_coroutine_threadsafe(_started(result), _event_loop()).result()
    return result["documents"] if isinstance(result, Mapping) and "documents" in result else result


async def _started(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return await coroutine


@cache
def _event_loop() -> "AbstractEventLoop":
    """Return a running event loop: one of the caller, as in a notebook, cannot wait for itself."""
    import asyncio

    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="ragindex-functions", daemon=True).start()
    return loop


def _read_documents(result: Any) -> Iterator[FoundDocument]:
    """Yield the documents of a result: ids, pairs of id and score, or documents of a library."""
    for item in result:
        if isinstance(item, str):
            yield FoundDocument((item,))
        elif isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[0], str):
            yield FoundDocument((item[0],), float(item[1]))
        else:
            yield _read_library_document(item)


def _read_library_document(item: Any) -> FoundDocument:
    """Return a document of LangChain, LlamaIndex or Haystack."""
    document = getattr(item, "node", item)
    metadata = getattr(document, "metadata", None) or getattr(document, "meta", None) or {}
    named = [metadata.get(key) for key in _ID_KEYS]
    own = [getattr(document, name, None) for name in ("ref_doc_id", "id", "id_", "node_id")]
    ids = tuple(str(id) for id in (*named, *own) if id)
    if not ids:
        raise ValueError(f"a hit must be an id, a pair of id and score, or a document with an id. Got {item!r:.80}")
    texts = (getattr(document, name, None) for name in ("page_content", "content", "text"))
    score = getattr(item, "score", None)
    return FoundDocument(ids, None if score is None else float(score), next((text for text in texts if text), ""))
