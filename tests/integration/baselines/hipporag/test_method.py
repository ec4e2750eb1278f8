"""HippoRAG: its steps by hand and against igraph, both modes over documents whose triples are written down."""

import json
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from letters import Letters
from made_extractions import asking, imported, openie, spelt
from openai_server import KEY, OpenAIServer

from examples import examples
from ragindex.errors import LLMError, MissingPartError, StaleWarning, UsageError
from ragindex.filters import meta
from ragindex.index.index import Index
from ragindex.parts.text.passages import Passages
from ragindex.parts.vectors.similar_pairs import SimilarPairs
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.retrieval.fusion import normalize_scores
from ragindex.types import Document, Query, Triple
from ragindex_baselines.hipporag import spread_vectors, weighted_graph
from ragindex_baselines.hipporag.method import QUESTION_ENTITIES, FactRetriever, HippoRAG, name_entities_by_rule
from ragindex_baselines.hipporag.phrase_graph import PhraseGraph, PhraseMentions, connected
from ragindex_baselines.hipporag.spread_vectors import PassageSpread, SpreadVectors, spread
from ragindex_baselines.hipporag.weighted_graph import WeightedGraph, run_power_iteration
from ragindex_eval.data import worlds

FACTS, POWER = HippoRAG(mode="facts"), HippoRAG(mode="facts", walk="power")
ENTITIES, ENTITIES_BY_POWER = HippoRAG(), HippoRAG(walk="power")
SIZE = 100


def graph_of(
    phrases: int, passages: int, triples: Sequence[tuple[int, int, int]], synonyms: SimilarPairs
) -> WeightedGraph:
    """A graph of places: a triple is subject, object, passage."""
    names, ids = ([f"{kind}{n:03d}" for n in range(count)] for kind, count in (("e", phrases), ("p", passages)))
    sides = np.array([triple[:2] for triple in triples], np.int64).reshape(-1, 2)
    owners = np.array([triple[2] for triple in triples], np.int64)
    texts = [pa.array(each, pa.large_string()) for each in (names, ids)]
    return connected(texts[1], PhraseMentions(texts[0], sides, owners), synonyms)


def pairs(*weighted: tuple[int, int, float]) -> SimilarPairs:
    first, second, cosines = (np.array([pair[n] for pair in weighted]) for n in range(3))
    return SimilarPairs(first.astype(np.int64), second.astype(np.int64), cosines.astype(np.float32))


# ---------------------------------------------------------------- where a walk begins


def test_of_equally_near_phrases_the_name_itself_is_taken(tmp_path: Path) -> None:
    """Words of one document alone have one vector in lsa, so that rounding would choose between them."""
    documents = [
        spelt("1", "Zeta|owns|Alpha"),
        spelt("2", "Beta|likes|Gamma", "Gamma|likes|tea"),
        spelt("3", "tea|comes from|Delta"),
        spelt("4", "Delta|knows|Beta"),
        spelt("5", "Omega|knows|Theta"),
        spelt("6", "Kappa|knows|Delta"),
    ]
    workspace = imported(tmp_path / "w", openie(tmp_path / "f.json", documents), documents)
    workspace.build(ENTITIES)
    retriever = ENTITIES.open(workspace)
    for question, phrase in (("Who is Zeta?", "zeta"), ("What is Alpha?", "alpha")):
        (retrieval,) = retriever.retrieve([Query("q", question)], 1)
        assert [step.ids for step in retrieval.trace if step.index == "phrases"] == [(phrase,)]
        assert [hit.id for hit in retrieval.hits] == ["1"]


def test_seeds_of_facts() -> None:
    sides = np.array([[0, 1], [1, 2], [3, 3], [-1, 4], [0, 4]])
    cosines = np.array([0.8, 0.6, 0.5, 0.4, -0.1])
    nodes, mass = weighted_graph.fact_seeds(sides, cosines, np.array([2, 1, 4, 1, 10]))
    assert nodes.tolist() == [0, 1, 2, 3, 4]
    assert mass.tolist() == pytest.approx([0.8 / 2, 0.7, 0.6 / 4, 0.5, 0.04])
    nothing, none = weighted_graph.fact_seeds(np.empty((0, 2), np.int64), np.empty(0), np.array([], np.int64))
    assert (nothing.tolist(), none.tolist()) == ([], [])


def test_seeds_of_entities() -> None:
    nodes, mass = weighted_graph.entity_seeds(np.array([3, 1, 3, -1]), np.array([5, 2, 5, 4]))
    assert (nodes.tolist(), mass.tolist()) == ([1, 3], [0.5, 0.25])


def test_sums_of_phrases() -> None:
    graph = graph_of(3, 4, [(0, 1, 0), (0, 2, 1), (0, 1, 0), (2, 2, 2)], pairs())
    assert weighted_graph.phrase_sums(graph, np.array([0.5, 0.25, 0.125])).tolist() == [0.75, 0.625, 0.125, 0]
    assert weighted_graph.phrase_sums(graph, np.array([0, 0.25, 0])).tolist() == [0.25, 0, 0, 0]


def test_the_best_first() -> None:
    places, values = weighted_graph.sort_best_first(np.array([4, 7, 2, 9]), np.array([0.5, 0.0, 0.5, 0.75]))
    assert (places.tolist(), values.tolist()) == ([9, 2, 4], [0.75, 0.5, 0.5])
    places, values = weighted_graph.sort_best_first(np.array([4, 7, 2, 9]), np.array([0.5, 0.25, 0.5, 0.75]), 2)
    assert (places.tolist(), values.tolist()) == ([9, 2, 4], [0.75, 0.5, 0.5])  # equal to the second
    assert sorted(weighted_graph.most(np.array([0, 0.3, 0.1, 0.2]), 2).tolist()) == [1, 3]
    assert weighted_graph.most(np.array([0, 0.3, 0.1, 0.2]), 9).tolist() == [1, 2, 3]


def by_igraph(graph: WeightedGraph, reset: np.ndarray, damping: float) -> np.ndarray:
    import igraph  # it imports Matplotlib: only where it is used

    edges = graph.matrix().tocoo()
    once = edges.row < edges.col
    peer = igraph.Graph(edges.shape[0], np.stack([edges.row[once], edges.col[once]], axis=1).tolist())
    values = peer.personalized_pagerank(
        directed=False, damping=damping, reset=reset.tolist(), weights=edges.data[once].tolist()
    )
    return np.array(values)


@st.composite
def graphs(draw: st.DrawFn) -> WeightedGraph:
    """With passages and phrases that nothing leads to, loops, repeated triples and synonyms."""
    phrases, passages = draw(st.integers(1, 12)), draw(st.integers(1, 8))
    place = st.integers(0, phrases - 1)
    triples = draw(st.lists(st.tuples(place, place, st.integers(0, passages - 1)), max_size=25))
    alike = draw(st.sets(st.tuples(place, place).filter(lambda pair: pair[0] < pair[1]), max_size=6))
    return graph_of(phrases, passages, triples, pairs(*((a, b, 0.875) for a, b in sorted(alike))))


@settings(max_examples=examples(50))
@given(graphs(), st.integers(0, 999), st.sampled_from([0.0, 0.5, 0.85]))
def test_both_walks_are_igraphs(graph: WeightedGraph, seed: int, damping: float) -> None:
    rng = np.random.default_rng(seed)
    nodes = np.sort(rng.choice(len(graph.degrees), min(3, len(graph.degrees)), replace=False))
    mass = rng.random(len(nodes)) + 0.1
    reset = np.zeros(len(graph.degrees))
    reset[nodes] = mass
    powered = run_power_iteration(graph.matrix(), graph.degrees, reset, damping, 1e-12)
    assert powered / powered.sum() == pytest.approx(by_igraph(graph, reset, damping), abs=1e-6)
    for tolerance in (1e-2, 1e-4, 1e-8):
        short = powered - weighted_graph.push(graph.all_edges, nodes, mass, damping, tolerance)
        assert (short >= -1e-9).all()
        assert (short <= tolerance * mass.sum() * graph.degrees + 1e-9).all()


def test_a_walk_stays_near_its_seeds() -> None:
    """A chain of 20,000 phrases: what is far away is never looked at."""
    n = 20_000
    graph = graph_of(n, 1, [(a, a + 1, 0) for a in range(n - 1)], pairs())
    values = weighted_graph.push(graph.among_phrases, np.array([7]), np.array([1.0]), 0.5, 1e-6)
    assert np.flatnonzero(values).tolist() == list(range(np.flatnonzero(values)[-1] + 1))
    assert 10 < np.flatnonzero(values)[-1] < 40
    assert values.sum() == pytest.approx(1, abs=1e-4)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Index:
    folder, size = tmp_path_factory.mktemp("world"), SIZE
    documents = list(worlds.make_documents(size))
    stated: dict[str, list[Any]] = {document.id: [] for document in documents}
    for id, statement in worlds.make_triples(size):
        stated[id].append([statement.subject, statement.predicate, statement.object])
    docs = [
        {"title": d.title, "text": d.text, "extracted_entities": [], "extracted_triples": stated[d.id]}
        for d in documents
    ]
    (folder / "f.json").write_text(json.dumps({"docs": docs}))
    workspace = imported(folder / "w", folder / "f.json", documents, encoder="lsa:32")
    workspace.build(FACTS, POWER, ENTITIES, ENTITIES_BY_POWER)
    return workspace


def make_queries() -> list[Query]:
    return [Query(f"q{n}", question.text) for n, question in enumerate(worlds.make_questions(SIZE, per_kind=6))]


def test_facts_are_ranked_as_igraph_ranks_them(world: Index) -> None:
    graph = world.open_part(PhraseGraph()).graph
    resident = world.open_part(Vectors(of=Passages())).resident()
    order = np.argsort(resident.ids.to_pylist())
    queries, first = make_queries(), len(graph.phrases)
    retriever = FACTS.open(world)
    assert isinstance(retriever, FactRetriever)
    vectors = world.encoder.encode_queries([query.text for query in queries])
    answers = zip(vectors, retriever.facts(queries, vectors), retriever.retrieve(queries, 15), strict=True)
    for vector, facts, retrieval in answers:
        reset = np.zeros(len(graph.degrees))
        nodes, mass = retriever.seeds(facts, graph)
        reset[nodes] = mass
        cosines = (resident.vectors[order] @ vector).astype(np.float64)
        reset[first:] = 0.05 * normalize_scores(cosines)
        exact = by_igraph(graph, reset, 0.5)[first:]
        scores = np.array([hit.score for hit in retrieval.hits])
        ranking = [graph.passages.to_pylist().index(hit.id) for hit in retrieval.hits]
        ratio = scores.sum() / exact[ranking].sum()
        assert scores == pytest.approx(ratio * exact[ranking], rel=1e-3)
        assert sorted(exact[ranking]) == pytest.approx(sorted(exact)[-15:], rel=1e-3)


# ---------------------------------------------------------------- spread vectors


def solved(graph: WeightedGraph, reset: np.ndarray) -> np.ndarray:
    """The values at passages, by solving what a walk's values satisfy; each column of `reset` is one walk's."""
    matrix, first = graph.matrix().toarray().astype(np.float64), len(graph.phrases)
    going = np.divide(0.5 * matrix, graph.degrees, out=np.zeros_like(matrix), where=graph.degrees > 0)
    extended = np.concatenate([np.zeros((first, reset.shape[1])), reset])
    values: np.ndarray = np.linalg.solve(np.eye(len(matrix)) - going, 0.5 * extended)[first:]
    return values


@pytest.mark.parametrize(("walks", "rows"), [(5, 40), (64, 8192)])
def test_spread_vectors_against_a_solver(walks: int, rows: int, world: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    resident = world.open_part(Vectors(of=Passages())).resident()
    graph = world.open_part(PhraseGraph()).graph
    reset = resident.vectors[np.argsort(resident.ids.to_pylist())]
    shape = (reset.shape[1] + 1, SIZE + 3)  # three records belong to no passage
    monkeypatch.setattr(spread_vectors, "_BLOCK_BYTES", walks * 16 * len(graph.degrees))
    monkeypatch.setattr(spread_vectors, "_ROWS", rows)
    columns = np.zeros(shape, np.float32)
    order = np.random.default_rng(2).permutation(SIZE + 3)
    columns[:-1, :][:, order < SIZE] = reset[order[order < SIZE]].T
    columns[-1, order < SIZE] = 1
    columns[:, order >= SIZE] = 7
    spread(graph, columns, np.where(order < SIZE, order, -1), 0.5)
    expected = solved(graph, np.concatenate([reset, np.ones((SIZE, 1))], axis=1))
    vectors = columns[:, :SIZE].T
    assert vectors == pytest.approx(expected, abs=2e-6)


def test_spread_vectors_as_they_are_kept(world: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread_vectors, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(spread_vectors, "_ROWS", 7)
    other = SpreadVectors(damping=0.4999999)
    world.build(other)
    complete, blocks = (world.open_part(part) for part in (SpreadVectors(), other))
    assert isinstance(complete, PassageSpread)
    assert blocks.passages.to_pylist() == complete.passages.to_pylist()
    assert blocks.vectors == pytest.approx(complete.vectors, abs=1e-5)
    assert blocks.ones == pytest.approx(complete.ones, abs=1e-5)
    assert complete.vectors.shape == (SIZE, 32)
    folders = list((world.folder / "parts").glob("spread_vectors-*"))
    assert [len(list(folder.iterdir())) for folder in folders] == [1, 1]  # no scratch


def test_spreading_holds_a_few_dimensions_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n, dimensions = 5000, 256
    graph = graph_of(2, n, [(0, 1, passage) for passage in range(n)], pairs())
    columns = np.lib.format.open_memmap(tmp_path / "columns.npy", "w+", np.float32, (dimensions + 1, n))
    columns[:] = np.random.default_rng(0).random(columns.shape, np.float32)
    before = columns[:, 0].copy()
    monkeypatch.setattr(spread_vectors, "_BLOCK_BYTES", 8 * 16 * n)
    tracemalloc.start()  # counts what numpy takes, and no file
    spread(graph, columns, np.arange(n), 0.5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (columns[:, 0] > before / 2).all()  # half its own, and something of what comes back
    assert peak < columns.nbytes / 4


# ---------------------------------------------------------------- small corpora, by hand

A = spelt("A", "abc|rises in|xyz")
B = spelt("B", "xyz|meets|mno")
C = spelt("C", "pqr|is|uvw")
D = Document("D", "", "ghi", {"id": "D"})


def small(tmp_path: Path, *documents: Document, schemes: Sequence[HippoRAG] = (FACTS,)) -> Index:
    workspace = Index.open(tmp_path / "w", encoder=Letters(), chunking=None, create=True)
    workspace.import_part("extractions", openie(tmp_path / "f.json", documents))
    workspace.add(documents)
    workspace.build(*schemes)
    return workspace


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return small(tmp_path_factory.mktemp("letters"), A, B, C, D, schemes=(FACTS, ENTITIES))


def test_facts_by_hand(letters: Index) -> None:
    scheme = HippoRAG(mode="facts", facts=1, passage_weight=0)
    (retrieval,) = scheme.open(letters).retrieve([Query("q", "abc rises in xyz")], 5)
    facts, seeds, ranked = retrieval.trace
    assert (facts.ids, facts.triples) == (("A#t0000",), (Triple("abc", "rises in", "xyz"),))
    assert (seeds.ids, seeds.note) == (("abc", "xyz"), "1, 0.5")
    assert ranked.ids == tuple(hit.id for hit in retrieval.hits) == ("A", "B")
    # abc 1, xyz 1/2; abc - xyz, abc - A, xyz - A, xyz - mno, xyz - B, mno - B, all of weight 1
    links = {
        "abc": ["xyz", "A"],
        "xyz": ["abc", "A", "mno", "B"],
        "mno": ["xyz", "B"],
        "A": ["abc", "xyz"],
        "B": ["xyz", "mno"],
    }
    flow, values = {"abc": 1.0, "xyz": 0.5}, dict.fromkeys(links, 0.0)
    for _ in range(60):
        values = {node: value + 0.5 * flow.get(node, 0) for node, value in values.items()}
        flow = {n: sum(0.5 * flow.get(o, 0) / len(links[o]) for o in links[n]) for n in links}
    assert [hit.score for hit in retrieval.hits] == pytest.approx([values["A"], values["B"]], abs=1e-5)
    assert (retrieval.hits[0].doc_ids, retrieval.hits[0].metadata, retrieval.hits[0].kind) == (
        ("A",),
        {"A": {"id": "A"}},
        "passage",
    )


def test_without_any_triple_passages_are_ranked_by_cosine(tmp_path: Path) -> None:
    documents = [Document(id, "", text) for id, text in (("X", "abc"), ("Y", "abd"), ("Z", "xyz"), ("W", "abc"))]
    workspace = small(tmp_path, *documents)
    for scheme in (FACTS, POWER):
        (retrieval,) = scheme.open(workspace).retrieve([Query("q", "abc")], 9)
        assert [hit.id for hit in retrieval.hits] == [
            "W",
            "X",
            "Y",
        ]  # equal ones by id; Z, the farthest, resets nothing
        assert [hit.score for hit in retrieval.hits] == pytest.approx([0.025, 0.025, 0.025 * 2 / 3])
        assert (retrieval.trace[0].ids, retrieval.trace[1].ids) == ((), ())


def test_passages_that_are_all_equally_near(tmp_path: Path) -> None:
    retrievals, nothing = FACTS.open(small(tmp_path, D)).retrieve([Query("q", "ghi"), Query("none", "123")], 3)
    assert [(hit.id, hit.score) for hit in retrievals.hits] == [("D", pytest.approx(0.025))]
    assert nothing.hits == ()  # no letter, no vector


def test_facts_that_do_not_pass_the_filter_seed_nothing(letters: Index) -> None:
    (retrieval,) = FACTS.open(letters).retrieve([Query("q", "abc rises in xyz", meta("id", "C", "D"))], 5)
    assert {hit.id for hit in retrieval.hits} <= {"C", "D"}
    assert retrieval.trace[0].ids == ("C#t0000",)


def test_parts_of_different_corpora_are_refused(tmp_path: Path) -> None:
    workspace = small(tmp_path, A, B)
    workspace.add([C])
    workspace.build(PhraseGraph())
    with pytest.warns(StaleWarning), pytest.raises(MissingPartError, match="of different corpora. Run: ragindex index"):
        FACTS.open(workspace)


# ---------------------------------------------------------------- entities


def naming(*entities: str, seen: list[str]) -> Callable[[Mapping[str, Any]], str]:
    """Answers with these entities; notes what was asked."""

    def write(body: Mapping[str, Any]) -> str:
        seen.append(body["messages"][-1]["content"])
        return json.dumps({"entities": entities})

    return write


def test_a_model_says_what_a_question_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    seen: list[str] = []
    with OpenAIServer() as server:
        workspace = asking(tmp_path / "w", server, encoder=Letters())  # type: ignore[arg-type]
        workspace.import_part("extractions", openie(tmp_path / "f.json", [A, B, C, D]))
        workspace.add([A, B, C, D])
        workspace.build(ENTITIES)
        server.write = naming("ABC", " abc ", "", "uvvw", seen=seen)
        (retrieval,) = ENTITIES.open(workspace).retrieve([Query("q", "Where does abc rise?")], 4)
        assert seen == ["Where does abc rise?"]
        named, linked, reached, near = retrieval.trace
        assert (named.note, named.output_tokens > 0, named.input_tokens > 0) == ("abc, uvvw", True, True)
        assert (linked.ids, linked.note) == (("abc", "uvw"), "1, 1")
        assert (reached.ids, near.ids) == (("C", "A", "B"), ("D",))
        assert [hit.id for hit in retrieval.hits] == ["C", "A", "B", "D"]
        # among phrases: from abc 7/12 are its own, 4/12 go to xyz, 1/12 to mno; from uvw 8/12 are its own, 4/12 pqr's
        assert [hit.score for hit in retrieval.hits[:3]] == pytest.approx([1, 11 / 12, 5 / 12], abs=1e-5)
        server.write = lambda body: "I would rather not."
        with pytest.raises(LLMError, match="question-entities"):
            ENTITIES.open(workspace).retrieve([Query("q", "Where does xyz meet?")], 4)


def test_scores_of_entities_by_hand(letters: Index) -> None:
    (retrieval,) = ENTITIES.open(letters).retrieve([Query("q", "Is Pqr there?")], 4)
    # pqr - uvw: of 1, 2/3 stay with pqr and 1/3 with uvw; both are in C
    assert [(hit.id, hit.score) for hit in retrieval.hits[:1]] == [("C", pytest.approx(1, abs=1e-5))]
    assert retrieval.trace[-1].note == "The walk reached 1 passages; others follow by cosine."
    assert all(-2 <= hit.score <= 0 for hit in retrieval.hits[1:])
    assert {hit.id for hit in retrieval.hits[1:]} == {"A", "B", "D"}


def test_a_question_that_names_nothing_is_answered_by_cosine(letters: Index) -> None:
    (retrieval,) = ENTITIES.open(letters).retrieve([Query("q", "ghi?")], 2)
    assert (retrieval.hits[0].id, retrieval.hits[0].score) == ("D", pytest.approx(0, abs=1e-6))
    assert retrieval.trace[0].note == ""


def test_what_the_rules_find_named() -> None:
    text = 'In which of the 12 towns did Ada Miller of Lindau write "The Long Way" on 3 May 1871?'
    assert name_entities_by_rule({"question": text}).entities == ["Ada Miller of Lindau", "The Long Way", "3 May 1871"]
    assert name_entities_by_rule({"question": "what do gannets dive for?"}).entities == []


def test_a_model_is_asked_for_entities_alone() -> None:
    assert ENTITIES.tasks() == (QUESTION_ENTITIES,)
    assert FACTS.tasks() == ()
    common = (PhraseGraph(), Vectors(of=Passages()))
    assert ENTITIES.parts() == common
    assert POWER.parts() == (*common, Vectors(of=PhraseGraph().over))
    assert FACTS.parts() == (*common, Vectors(of=PhraseGraph().over), SpreadVectors())


def test_another_part_is_no_graph() -> None:
    with pytest.raises(UsageError, match="'graph' parameter of hipporag must be"):
        registry.scheme("hipporag(graph=passages)")
