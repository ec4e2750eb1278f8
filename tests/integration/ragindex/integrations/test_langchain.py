"""The retriever for LangChain: the framework's own suite, async, metadata, chains, errors."""

import threading
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from langchain_tests.integration_tests import RetrieversIntegrationTests
from made_library import QUESTION

import ragindex
from ragindex.errors import MissingPartError, UsageError
from ragindex.integrations.langchain import LangChainRetriever


class TestStandard(RetrieversIntegrationTests):
    """LangChain's own suite, unchanged."""

    @pytest.fixture(autouse=True)
    def _open(self, opened: ragindex.IndexRetriever) -> None:
        self.opened = opened

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return LangChainRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"retriever": self.opened}

    @property
    def retriever_query_example(self) -> str:
        return QUESTION


def sources(documents: list[Document]) -> list[str]:
    return [document.metadata["source"] for document in documents]


async def test_it_finds_what_the_method_finds(library: Path, opened: ragindex.IndexRetriever) -> None:
    retriever = LangChainRetriever.from_index(library, "bm25", k=3)
    hits = opened.search(QUESTION, 3)
    expected = [(hit.id, hit.text, hit.score) for hit in hits]
    many = retriever.batch([QUESTION, "Who ground corn?"])
    for documents in (retriever.invoke(QUESTION), await retriever.ainvoke(QUESTION), many[0]):
        scored = [
            (document.id, document.page_content, document.metadata["ragindex"]["score"]) for document in documents
        ]
        assert scored == expected
    assert sources(many[1])[0] == "mill"


def test_the_metadata_is_that_of_the_document_and_a_citation(opened: ragindex.IndexRetriever) -> None:
    retriever = LangChainRetriever(retriever=opened, k=4)
    by_source = {document.metadata["source"]: document for document in retriever.invoke(QUESTION)}
    light, pier = by_source["light"], by_source["pier"]
    score = light.metadata["ragindex"]["score"]
    text = "The lighthouse was built of slate in 1931."
    assert (light.id, light.page_content) == ("light#0", text)
    assert light.metadata == {
        "title": "Lighthouse",
        "source": "light",
        "score": "A+",  # the document's own
        "year": 1931,
        "kind": "tower",
        "opened": "1931-05-01",
        "open": True,
        "ragindex": {
            "id": "light#0",
            "kind": "passage",
            "title": "Lighthouse",
            "score": score,
            "method": "bm25",
            "doc_ids": ["light"],
            "passage_ids": ["light#0"],
            "positions": [
                {"doc_id": "light", "start": 0, "end": len(text), "page": 3, "headings": ["Lighthouse", "History"]}
            ],
            "metadata": {"light": {"year": 1931, "kind": "tower", "opened": "1931-05-01", "score": "A+", "open": True}},
        },
    }
    assert pier.metadata["score"] == pier.metadata["ragindex"]["score"] < score
    assert pier.metadata["tags"] == ["wood", "long"]


async def test_filters_of_retriever_and_call_both_hold(opened: ragindex.IndexRetriever) -> None:
    retriever = LangChainRetriever(retriever=opened, k=4, filter={"year": 1850})
    assert sorted(sources(retriever.invoke(QUESTION))) == ["harbour", "mill"]
    assert sources(retriever.invoke(QUESTION, filter={"kind": "mill"})) == ["mill"]
    assert sources(await retriever.ainvoke(QUESTION, filter={"kind": "mill"})) == ["mill"]
    assert retriever.invoke(QUESTION, filter={"year": 1931}) == []
    assert len(retriever.invoke(QUESTION, k=1)) == len(await retriever.ainvoke(QUESTION, k=1)) == 1


async def test_async_searches_in_another_thread(opened: ragindex.IndexRetriever, searching: list[int]) -> None:
    await LangChainRetriever(retriever=opened).ainvoke(QUESTION)
    assert searching
    assert threading.get_ident() not in searching


class _Events(BaseCallbackHandler):
    def __init__(self) -> None:
        self.names: list[str] = []

    def on_retriever_start(self, serialized: Any, query: str, **_: Any) -> None:
        self.names.append(f"start {query}")

    def on_retriever_end(self, documents: Any, **_: Any) -> None:
        self.names.append(f"end {len(documents)}")

    def on_retriever_error(self, error: BaseException, **_: Any) -> None:
        self.names.append(f"error {type(error).__name__}")


def test_it_works_in_a_chain_with_callbacks(opened: ragindex.IndexRetriever) -> None:
    events = _Events()
    retriever = LangChainRetriever(retriever=opened, k=1)
    chain = {"context": retriever | sources, "question": RunnablePassthrough()}
    output = (RunnablePassthrough() | chain).invoke(QUESTION, {"callbacks": [events]})
    assert output == {"context": ["light"], "question": QUESTION}
    assert events.names == [f"start {QUESTION}", "end 1"]


async def test_errors_are_those_of_ragindex(library: Path, opened: ragindex.IndexRetriever) -> None:
    events = _Events()
    retriever = LangChainRetriever(retriever=opened)
    with pytest.raises(UsageError, match="is empty"):
        retriever.invoke(" ", {"callbacks": [events]})
    with pytest.raises(UsageError, match="is empty"):
        await retriever.ainvoke(" ")
    assert events.names == ["start  ", "error UsageError"]
    with pytest.raises(TypeError, match="top_k"):
        retriever.invoke(QUESTION, top_k=3)
    with pytest.raises(UsageError, match=r"no operator '\$regex' in filters"):
        LangChainRetriever(retriever=opened, filter={"kind": {"$regex": "t.*"}})
    with pytest.raises(MissingPartError, match="ragindex index --index .* --methods dense"):
        LangChainRetriever.from_index(library, "dense")
