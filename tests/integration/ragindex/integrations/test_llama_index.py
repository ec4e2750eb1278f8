"""The retriever for LlamaIndex: nodes, async, filters, query engines, errors."""

import threading
from pathlib import Path

import pytest
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters
from made_library import QUESTION

import ragindex
from ragindex.errors import MissingPartError, UsageError
from ragindex.integrations.llama_index import LlamaIndexRetriever


def sources(nodes: list[NodeWithScore]) -> list[str]:
    return [node.metadata["source"] for node in nodes]


async def test_it_finds_what_the_method_finds(library: Path, opened: ragindex.IndexRetriever) -> None:
    retriever = LlamaIndexRetriever.from_index(library, "bm25", similarity_top_k=3)
    expected = [(hit.id, hit.text, hit.score) for hit in opened.search(QUESTION, 3)]
    for nodes in (retriever.retrieve(QUESTION), await retriever.aretrieve(QueryBundle(QUESTION))):
        assert [(node.node_id, node.text, node.score) for node in nodes] == expected


def test_a_node_has_its_source_and_place(opened: ragindex.IndexRetriever) -> None:
    (retrieval,) = LlamaIndexRetriever(opened, similarity_top_k=1).retrieve(QUESTION)
    node = retrieval.node
    text = "The lighthouse was built of slate in 1931."
    assert isinstance(node, TextNode)
    assert (node.ref_doc_id, node.start_char_idx, node.end_char_idx) == ("light", 0, len(text))
    assert node.metadata["score"] == "A+"  # the document's own
    assert node.metadata["ragindex"]["positions"] == [
        {"doc_id": "light", "start": 0, "end": len(text), "page": 3, "headings": ["Lighthouse", "History"]}
    ]
    shown = node.get_content(MetadataMode.LLM)
    assert node.get_content(MetadataMode.EMBED) == shown
    head, _, body = shown.partition("\n\n")
    lines = ["kind: tower", "open: True", "opened: 1931-05-01", "score: A+", "source: light", "title: Lighthouse"]
    assert (sorted(head.splitlines()), body) == ([*lines, "year: 1931"], text)


async def test_filters(opened: ragindex.IndexRetriever) -> None:
    later = MetadataFilter(key="year", value=1850, operator=FilterOperator.GT)
    retriever = LlamaIndexRetriever(opened, 4, MetadataFilters(filters=[later]))
    assert sources(retriever.retrieve(QUESTION)) == sources(await retriever.aretrieve(QUESTION)) == ["light"]
    assert len(LlamaIndexRetriever(opened, 4).retrieve(QUESTION)) == 4


async def test_async_searches_in_another_thread(opened: ragindex.IndexRetriever, searching: list[int]) -> None:
    await LlamaIndexRetriever(opened).aretrieve(QUESTION)
    assert searching
    assert threading.get_ident() not in searching


async def test_a_query_engine_reads_the_nodes(opened: ragindex.IndexRetriever) -> None:
    reader = get_response_synthesizer(llm=MockLLM())  # answers with its prompt
    engine = RetrieverQueryEngine(LlamaIndexRetriever(opened, 2), reader)
    for answer in (engine.query(QUESTION), await engine.aquery(QUESTION)):
        assert [node.node_id for node in answer.source_nodes] == [hit.id for hit in opened.search(QUESTION, 2)]
        assert "The lighthouse was built of slate in 1931." in str(answer)
        assert "passage_ids" not in str(answer)


async def test_errors_are_those_of_ragindex(library: Path, opened: ragindex.IndexRetriever) -> None:
    with pytest.raises(UsageError, match="is empty"):
        LlamaIndexRetriever(opened).retrieve(" ")
    with pytest.raises(UsageError, match="is empty"):
        await LlamaIndexRetriever(opened).aretrieve(" ")
    with pytest.raises(UsageError, match="'k' parameter"):
        LlamaIndexRetriever(opened, 0).retrieve(QUESTION)
    with pytest.raises(MissingPartError, match="ragindex index --index .* --methods dense"):
        LlamaIndexRetriever.from_index(library, "dense")
