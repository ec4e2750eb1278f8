"""Filtered searches by every scheme, beside searches of an index of what passes, and beside what passes, on worlds."""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest
from openai_server import KEY, OpenAIServer
from search_server import default_scheme

from ragindex import filters
from ragindex.filters import All, Any, Filter, Not, Range, Terms, meta
from ragindex.index.index import Index
from ragindex.interfaces import Scheme
from ragindex.plugins import registry
from ragindex.retrieval.forbidden_documents import write_hit
from ragindex.testing import TOLERANCE
from ragindex.types import Document, Query
from ragindex_eval.data import worlds

SIZE = 60
QUESTIONS = tuple(Query(f"q{n}", question.text) for n, question in enumerate(worlds.make_questions(SIZE, per_kind=2)))
WITHOUT_STATISTICS = (
    "dense",
    "hipporag",
    "hipporag(walk=power)",
    "hipporag(mode=facts)",
    "hipporag(mode=facts, walk=power)",
    "gear.naive(base=dense)",
    "gear.naive(base=dense, graph=triple_graph(memory_gib=0))",
    "gear.sync(base=dense, link_base=dense)",
    "gear(base=dense, link_base=dense)",
    "ircot(base=dense)",
    "self-ask(base=dense, searches=true)",
    "parent(base=dense)",
    "rerank(base=dense)",
)
"""Methods of which no score depends on the rest of the corpus, if the encoder is not fitted to it."""
QUICK = ("dense", "hipporag(mode=facts)", "gear.naive(base=dense)", "rerank(base=dense)")
"""One of each way of searching; the others are slow."""


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An encoder that is fitted to nothing: it counts words."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer() as running:
        monkeypatch.setenv("EMBEDDING_BASE_URL", running.url)
        yield "openai:words"


def make_documents(rng: random.Random) -> list[Document]:
    """A world's documents, each with a word of its own, in random groups."""
    return [
        Document(
            source.id,
            source.title,
            f"{source.text} Mark {mark_of(source.id)}.",
            {"group": rng.choice("abc"), "number": n},
        )
        for n, source in enumerate(worlds.make_documents(SIZE))
    ]


def mark_of(id: str) -> str:
    return f"zq{random.Random(id).randrange(10**12):012d}"


def passes(document: Document, where: Filter) -> bool:
    return filters.passes(where, filters.document_fields(document.id, document.metadata))


def draw_filter(rng: random.Random, documents: Sequence[Document], depth: int = 2) -> Filter:
    kind = rng.randrange(7 if depth else 4)
    if kind == 0:
        return meta("group", *rng.sample("abc", rng.randint(1, 2)))
    if kind == 1:
        return Terms(
            "doc_ids", tuple(document.id for document in rng.sample(documents, rng.randint(1, len(documents))))
        )
    if kind == 2:
        return Range("meta.number", *sorted((rng.randrange(SIZE), rng.randrange(SIZE))))
    if kind == 3:
        return Not(Terms("doc_ids", tuple(document.id for document in rng.sample(documents, rng.randint(1, 9)))))
    parts = tuple(draw_filter(rng, documents, depth - 1) for _ in range(2))
    return Not(parts[0]) if kind == 4 else All(parts) if kind == 5 else Any(parts)


def build(folder: Path, encoder: str, documents: Sequence[Document], scheme: Scheme) -> Index:
    workspace = Index.open(folder, encoder=encoder, chunking=None, create=True)
    workspace.add(documents)
    workspace.build(scheme)
    return workspace


@pytest.fixture(scope="module")
def worlds_of_groups(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], tuple[list[Document], Index]]:
    """Return by seed the documents and the index that all methods share, and with it the parts that several need."""

    @cache
    def open_world(seed: int) -> tuple[list[Document], Index]:
        documents = make_documents(random.Random(seed))
        folder = tmp_path_factory.mktemp("groups")
        workspace = Index.open(folder, encoder="lsa:32", chunking=None, create=True)
        workspace.add(documents)
        return documents, workspace

    return open_world


@pytest.mark.parametrize(
    "written",
    [pytest.param(scheme, marks=() if scheme in QUICK else pytest.mark.slow) for scheme in WITHOUT_STATISTICS],
)
def test_a_filter_finds_what_an_index_of_what_passes_finds(written: str, words: str, tmp_path: Path) -> None:
    documents, scheme = make_documents(random.Random(written)), registry.scheme(written)
    where = meta("group", "a", "b")
    retriever = scheme.open(build(tmp_path / "whole", words, documents, scheme))
    passing = [document for document in documents if passes(document, where)]
    fresh = scheme.open(build(tmp_path / "fresh", words, passing, scheme))
    filtered = retriever.retrieve([Query(asked_query.id, asked_query.text, where) for asked_query in QUESTIONS], 10)
    for query, retrieval, other in zip(QUESTIONS, filtered, fresh.retrieve(QUESTIONS, 10), strict=True):
        assert [hit.id for hit in retrieval.hits] == [hit.id for hit in other.hits], query.text
        assert [hit.score for hit in retrieval.hits] == pytest.approx([hit.score for hit in other.hits], abs=TOLERANCE)
        assert retrieval.notes == other.notes


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "written",
    [
        *registry.plugin_names("schemes"),
        *("hipporag(mode=facts)", "raptor(mode=traversal)", "sirerag(ranking=lifted)", "bm25(over=aggregates)"),
    ],
)
def test_nothing_is_told_of_documents_that_a_random_filter_keeps_out(
    written: str, seed: int, worlds_of_groups: Callable[[int], tuple[list[Document], Index]]
) -> None:
    rng = random.Random(f"{written} {seed}")
    documents, workspace = worlds_of_groups(seed)
    scheme = default_scheme(written, documents)
    workspace.build(scheme)
    retriever = scheme.open(workspace)
    mark_count = 0
    for number in range(12):
        where, query = draw_filter(rng, documents), rng.choice(QUESTIONS)
        (retrieval,) = retriever.retrieve([Query(str(number), query.text, where)], 10)
        message = str(([write_hit(hit) for hit in retrieval.hits], retrieval.notes, retrieval.trace))
        for document in documents:
            if passes(document, where):
                mark_count += mark_of(document.id) in message
            else:
                assert mark_of(document.id) not in message, (where, document.id)
                assert not any(document.id in hit.doc_ids for hit in retrieval.hits)
    assert mark_count > 0
