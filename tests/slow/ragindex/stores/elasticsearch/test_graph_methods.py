"""Methods, above all over graphs, on a real server: the answers are those over LanceDB, whatever fits the memory."""

from collections.abc import Iterator

import pytest
from elasticsearch_node.node import store as elasticsearch_store

from ragindex.index.index import Index
from ragindex.plugins import registry
from ragindex.testing import assert_same
from ragindex.types import Query
from ragindex_eval.data import worlds
from ragindex_retrievers.gear.triple_graph import StoreGraph, TripleGraph

CHUNKED = (
    "bm25(over=passages(by=characters, size=80, overlap=10))",
    "bm25(over=passages(by=sections, context=sentence))",
    "bm25(over=passages(by=sections, context=none))",
    "hybrid(over=passages(by=headings, size=30, context=headings))",
    "dense(over=passages(by=tokens, size=20, overlap=5))",
    "griever(over=passages(by=sections))",
    "gear(over=passages(by=sentences, size=30))",
    "sirerag(over=passages(size=25, overlap=5))",
    "colbert(over=passages(by=headings, size=30))",
    "parent(base=bm25(over=passages(size=20)))",
)
"""Each way to split documents, under a method of each kind."""
METHODS = (
    "bm25",
    "dense",
    "hybrid",
    "composed",
    "gear.naive",
    "gear.naive(graph=triple_graph(memory_gib=0))",
    "gear.naive(graph=triple_graph(memory_gib=0, numbers=false), scoring=composed)",
    "gear",
    "gear(graph=triple_graph(memory_gib=0), iterations=2)",
    "griever",
    "griever(shortlist=full, same_as=none)",
    "links",
    "links(hops=3, max_mentions=5)",
    "links(over=passages(size=25, overlap=5))",
    "hipporag(mode=facts, over=passages(by=sentences, size=30))",
    "evidence(bases=[bm25])",
    "hipporag",
    "hipporag(mode=facts)",
    "hipporag(mode=facts, walk=power)",
    *CHUNKED,
)
QUESTIONS = [Query(str(n), question.text) for n, question in enumerate(worlds.make_questions(60, per_kind=3))]


@pytest.fixture(scope="module")
def spaces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Index, Index]]:
    """The same world twice: in memory, and on Elasticsearch."""
    with elasticsearch_store() as written:
        opened_spaces = []
        for store in ("lancedb", written):
            folder = tmp_path_factory.mktemp("graphs")
            space = Index.open(folder / "w", store=store, chunking=None, create=True)
            space.add(worlds.make_documents(60))
            space.build(*[registry.scheme(method) for method in METHODS])
            opened_spaces.append(space)
        yield opened_spaces[0], opened_spaces[1]


@pytest.mark.parametrize("method", METHODS)
def test_method_answers_as_from_memory(method: str, spaces: tuple[Index, Index]) -> None:
    expected, retrievals = (registry.scheme(method).open(space).retrieve(QUESTIONS, 10) for space in spaces)
    assert len(retrievals) == len(QUESTIONS) >= 12
    assert all(retrieval.hits for retrieval in expected)
    assert_same(retrievals, expected, method)


def test_graph_without_memory(spaces: tuple[Index, Index]) -> None:
    """Every triple of the world, on either engine, from files and from the store."""
    opened = [space.open_part(TripleGraph(memory_gib=gib)) for space in spaces for gib in (1, 0)]
    assert [isinstance(graph, StoreGraph) for graph in opened] == [False, True, False, True]
    ids = sorted(id for batch in opened[1].triples.scan(()) for id in batch.column("id").to_pylist())
    assert len(ids) > 100
    for limit in (None, 3):
        expected = opened[0].neighbours(ids, limit)
        assert max(map(len, expected)) > 2
        assert [graph.neighbours(ids, limit) for graph in opened[1:]] == [expected] * 3
