"""GeAR without a model: spaces in memory and from the store, expansion by hand, parameters, and bad input."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from built_retriever import built_retriever
from made_extractions import imported, openie, spelt

from ragindex.errors import UsageError
from ragindex.index.index import Index
from ragindex.parts.triples.sparse_graph import sparse_graph
from ragindex.parts.triples.triples import Triples
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.testing import assert_same
from ragindex.types import Document, Query, Retrieval, Triple
from ragindex_retrievers.gear.method import ExpandingScheme, Gear, Naive, Sync
from ragindex_retrievers.gear.space import MemorySpace, StoreSpace, TriplesInMemory, triples_in_memory, unit
from ragindex_retrievers.gear.triple_graph import TripleGraph

NAMES = ["Rhine", "Alps", "Rotterdam", "Oslo", "1871", "glass", "Ada Miller", "Lindau", "harbour"]
PREDICATES = ["rises in", "reaches", "was born in", "has", "made"]


def scattered(count: int = 30) -> list[Document]:
    """Documents of three triples each, over few names: everything is joined to much."""
    rng = random.Random(7)
    lines = [
        [
            f"{rng.choice(NAMES)}|{rng.choice(PREDICATES)}|{rng.choice(NAMES)} {n % 4}".removesuffix(" 0")
            for _ in range(3)
        ]
        for n in range(count)
    ]
    documents = [spelt(f"d{n:02d}", *triples) for n, triples in enumerate(lines)]
    return [
        Document(source.id, source.title, source.text, {"half": "first" if n % 2 else "second"})
        for n, source in enumerate(documents)
    ]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Index:
    folder, documents = tmp_path_factory.mktemp("gear"), scattered()
    index = imported(folder / "w", openie(folder / "f.json", documents), documents)
    index.build(Naive(), Naive(graph=TripleGraph(memory_gib=0)))
    return index


def ask(workspace: Index, written: str | ExpandingScheme, k: int = 10, where: object = None) -> list[Retrieval]:
    texts = (
        "Where does the Rhine rise?",
        "Who made glass in Lindau?",
        "What has Oslo in 1871?",
        "harbour of Rotterdam",
    )
    queries = [Query(f"q{n}", text, where) for n, text in enumerate(texts)]  # type: ignore[arg-type]
    return built_retriever(workspace, written).retrieve(queries, k)


def test_memory_and_store_show_the_same(workspace: Index) -> None:
    graph, collection = workspace.open_part(TripleGraph()), workspace.open_part(Vectors(of=Triples()))
    vector = workspace.encoder.encode_queries(["Where does the Rhine reach Rotterdam?"])[0]
    triples = triples_in_memory(graph, collection)
    assert triples is not None
    memory = MemorySpace(triples, unit(vector))
    for other in (graph, workspace.open_part(TripleGraph(memory_gib=0))):
        store = StoreSpace(other, collection, unit(vector))
        passages = ["d03", "no such", "d00"]
        start, twin = memory.of_passages(passages), store.of_passages(passages)
        ids = [record.id for record in memory.records(start.tolist())]
        assert ids == ["d03#t0000", "d03#t0001", "d03#t0002", "d00#t0000", "d00#t0001", "d00#t0002"]
        assert memory.records(start.tolist()) == store.records(twin.tolist())
        assert memory.vectors(start) == pytest.approx(store.vectors(twin), abs=1e-7)
        for limit in (1, 4, 100):
            near = [memory.records(places.tolist()) for places in memory.around(start, limit)]
            assert near == [store.records(places.tolist()) for places in store.around(twin, limit)]
            assert max(map(len, near)) == min(limit, max(len(places) for places in memory.around(start, 1000)))
        assert memory.records(memory.of_ids(["d00#t0001", "x"]).tolist()) == store.records(
            store.of_ids(["d00#t0001", "x"]).tolist()
        )


@pytest.mark.parametrize("scoring", ["composed", "exact", "refined"])
def test_a_graph_that_does_not_fit_gives_the_same_answers(workspace: Index, scoring: str) -> None:
    in_memory = ask(workspace, f"gear.naive(scoring={scoring})")
    from_store = ask(workspace, f"gear.naive(scoring={scoring}, graph=triple_graph(memory_gib=0))")
    assert_same(in_memory, from_store, "from the store")
    assert [retrieval.trace[-1].paths for retrieval in in_memory] == [
        retrieval.trace[-1].paths for retrieval in from_store
    ]


A = spelt("a", "Rhine|rises in|Alps", "Rhine|reaches|Rotterdam")
B = spelt("b", "Alps|hold|Mont Blanc")
C = spelt("c", "Oslo|lies in|Norway")
D = spelt("d", "Rotterdam|has|harbour")
E = spelt("e", "Mont Blanc|was climbed by|Paccard")


def test_expansion_reaches_what_the_base_does_not(tmp_path: Path) -> None:
    documents = [A, B, C, D, E]
    workspace = imported(tmp_path / "w", openie(tmp_path / "f.json", documents), documents)
    query = [Query("q", "Where does the Rhine rise?")]
    base = built_retriever(workspace, "bm25").retrieve(query, 5)[0]
    assert [hit.id for hit in base.hits] == ["a"]
    retrieval = built_retriever(workspace, "gear.naive(base=bm25, scoring=composed)").retrieve(query, 5)[0]
    # Both triples of a are starts; each has two neighbours but the other: b over the Alps, d over Rotterdam. So the
    # chains' passages are a, then b and d, and the fusion with the base's list [a] puts a first: 2/61, 1/62, 1/63.
    assert {hit.id for hit in retrieval.hits} == {"a", "b", "d"}
    assert [hit.score for hit in retrieval.hits] == pytest.approx([2 / 61, 1 / 62, 1 / 63])
    step = retrieval.trace[-1]
    assert (step.index, step.iteration) == ("triple beams", 1)
    assert set(step.paths) == {
        (Triple("Rhine", "rises in", "Alps"), Triple("Alps", "hold", "Mont Blanc")),
        (Triple("Rhine", "reaches", "Rotterdam"), Triple("Rotterdam", "has", "harbour")),
    }
    assert list(step.scores) == sorted(step.scores, reverse=True)
    assert step.note == "2 triples to start from, 4 chains considered, 0 encoded"
    longer = built_retriever(workspace, "gear.naive(base=bm25, scoring=composed, beam_length=3)").retrieve(query, 5)[0]
    assert {hit.id for hit in longer.hits} == {"a", "b", "e"}  # the way over d ends there, and is lost
    scheme = registry.scheme("gear.naive(base=bm25, scoring=composed)")
    workspace.remove(["d"])
    workspace.build(scheme)
    assert [hit.id for hit in scheme.open(workspace).retrieve(query, 5)[0].hits] == ["a", "b"]


def test_links_search_the_triples_whatever_they_were_over() -> None:
    graph = TripleGraph(over=Triples(entity_key="casefold"), numbers=False)
    for written in ("bm25", "dense", "hybrid", "composed", "hybrid(over=propositions, depth=10)"):
        scheme = Sync(link_base=written, graph=graph)
        assert scheme.link().over == graph.over  # type: ignore[attr-defined]
        assert type(scheme.link()) is type(registry.scheme(written))
    assert registry.label(Sync(link_base="bm25")) == "gear.sync(link_base=bm25)"
    for written in ("bm25", "dense", "composed", "hybrid(rrf_k=20)"):
        assert Sync(base=written).link() == Sync(base="hybrid", link_base=written).link()
    assert Sync(base="gear.naive").link() == Sync(link_base="hybrid").link()
    assert registry.label(
        Gear(base="griever" if "griever" in registry.plugin_names("schemes") else "dense", iterations=2)
    )


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            "gear.sync(link_base=hybrid(bases=[bm25, dense]))",
            "The 'link_base' parameter of gear.sync must be a method that searches one part `over`",
        ),
        (
            "gear.sync(link_base=gear.naive)",
            "The 'link_base' parameter of gear.sync must be a method that searches one part `over`",
        ),
        ("gear.naive(graph=passages)", "a triple_graph over triples"),
        ("gear.naive(graph=triple_graph(over=propositions))", "a triple_graph over triples"),
        ("gear.naive(beam_width=0)", "greater than or equal to 1. Got 0 instead"),
        ("gear.naive(gamma=0)", "greater than 0"),
        ("gear.naive(visited=all)", "gear.naive has no parameter 'visited'"),
        ("gear(iterations=0)", "greater than or equal to 1"),
        ("gear.naive(scoring=fast)", "'exact', 'composed' or 'refined'"),
        ('gear.naive(graph=triple_graph(over=triples(template="{subject}")))', "a text with {subject}"),
    ],
)
def test_what_is_refused(written: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("{", r"\{").replace("}", r"\}")):
        registry.scheme(written)


def test_the_template_is_one_for_index_links_and_chains() -> None:
    triples = Triples(template="{object} ({predicate}) {subject}")
    assert triples.text(Triple("{object}", "p", "{subject}")) == "{subject} (p) {object}"
    assert Triples().text(Triple("a", "b", "c")) == "a b c"


def test_defaults_are_the_papers() -> None:
    naive = Naive()
    assert (naive.beam_width, naive.beam_length, naive.neighbours_per_beam) == (10, 2, 100)
    assert (registry.label(naive.base), naive.gamma, naive.diversity) == ("hybrid", None, True)
    assert (Gear().base_k, Gear().iterations, Gear().passage_link_k) == (10, 4, 10)


def test_passages_without_triples(tmp_path: Path) -> None:
    documents = [
        Document("a", "", "The Rhine rises in the Alps.", {}),
        Document("b", "", "Rotterdam has a harbour.", {}),
    ]
    workspace = imported(tmp_path / "w", openie(tmp_path / "f.json", [A, *documents]), documents)
    query = [Query("q", "Where does the Rhine rise?")]
    retrieval = built_retriever(workspace, "gear.naive(base=bm25)").retrieve(query, 5)[0]
    assert [(hit.id, hit.source) for hit in retrieval.hits] == [("a", "gear.naive(base=bm25)")]
    assert retrieval.trace[-1].note == "0 triples to start from, 0 chains considered, 0 encoded"
    assert built_retriever(workspace, "gear.sync(base=bm25)").retrieve(query, 5)[0].hits[0].id == "a"


def test_a_hub_of_a_hundred_thousand_triples() -> None:
    count, rng = 100_000, np.random.default_rng(5)
    ids = [f"t{number:06d}" for number in range(count)]
    sides = {"subject_key": ["hub"] * count, "object_key": [f"e{number}" for number in range(count)]}
    graph = sparse_graph(pa.table({"id": ids, **sides, "passage_id": ["p"] * count}))
    vectors = rng.normal(size=(count, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[1000:3000] = vectors[1000]  # equally near: ties go by place
    vectors[77] = 0
    question = unit(vectors[1000])
    rows = np.arange(count)[::-1]  # a triple's vector stands in another row than its place
    triples = TriplesInMemory(graph, vectors[::-1], rows, None)  # type: ignore[arg-type]
    space = MemorySpace(triples, unit(question.astype(np.float32)))
    near = space.around(np.array([1000, 5]), 100)
    assert near[0].tolist() == [*range(1001, 1101)]
    assert near[1].tolist() == [*range(1000, 1100)]
    wide = space.around(np.array([5]), 3000)[0].tolist()
    order = np.lexsort((np.arange(count), -np.round(vectors.astype(float) @ space.question, 9)))
    assert wide == [place for place in order.tolist() if place not in (5, 77)][:3000]
    assert max(map(len, space.near.values())) < 3100  # what is kept of the hub


def test_each_k_is_a_run_of_its_own(workspace: Index) -> None:
    assert Naive().depends_on_k(20)
    assert not Naive(base_k=15).depends_on_k(20)
    assert not Gear().depends_on_k(20)
    for k in (2, 5):
        of_k, fixed = (
            ask(workspace, "gear.naive(base=bm25)", k),
            ask(workspace, f"gear.naive(base=bm25, base_k={k})", k),
        )
        assert_same(of_k, fixed, f"k = {k}")
    few, many = ask(workspace, "gear.naive(base_k=4)", 3), ask(workspace, "gear.naive(base_k=4)", 9)
    assert [retrieval.hits for retrieval in few] == [retrieval.hits[:3] for retrieval in many]


def test_names_of_one_character_and_of_a_thousand(tmp_path: Path) -> None:
    long = "x" * 500 + " " + "y" * 499
    documents = [
        spelt("a", f"é|is|{long}"),
        spelt("b", f"{long}|has|Q"),
        spelt("c", "Q|of|é"),
        spelt("d", "\u200b|-|—"),
    ]
    workspace = imported(tmp_path / "w", openie(tmp_path / "f.json", documents), documents)
    retrieval = built_retriever(workspace, "gear.naive(base=bm25, scoring=composed)").retrieve(
        [Query("q", f"é {long}?")], 5
    )[0]
    assert {hit.id for hit in retrieval.hits} == {"a", "b", "c"}


def test_rings_and_repeats_end(tmp_path: Path) -> None:
    documents = [spelt(f"r{n}", f"e{n}|to|e{(n + 1) % 6}", f"e{n}|to|e{n}") for n in range(6)]
    workspace = imported(tmp_path / "w", openie(tmp_path / "f.json", documents), documents)
    written = "gear.naive(base=bm25, base_k=1, scoring=composed, beam_length=12)"
    retrieval = built_retriever(workspace, written).retrieve([Query("q", "e0 to e1")], 6)[0]
    chains = [[triple.subject for triple in path] for path in retrieval.trace[-1].paths]
    assert chains
    assert max(map(len, chains)) <= 12
    assert len({hit.id for hit in retrieval.hits}) == len(retrieval.hits)
