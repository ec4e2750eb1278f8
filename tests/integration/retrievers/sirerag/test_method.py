"""SiReRAG over trees that can be worked out by hand: what the pool gives, what is lifted, what a reader sees of it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from made_language import PRICES, QUICK, answering
from made_trees import Compass, CompassEncoder, around, at, drawn, nodes, opened, task_of, write
from openai_server import OpenAIServer

from ragindex.errors import UsageError
from ragindex.filters import meta
from ragindex.index.index import Index
from ragindex.interfaces import Floats
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm import answer_question
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.parts.text.propositions import Propositions
from ragindex.parts.trees.aggregates import Aggregates
from ragindex.parts.trees.summary_tree import SummaryTree, write_sentences
from ragindex.parts.trees.tasks import ABSTRACTNESS
from ragindex.parts.trees.tree_pool import TreePool
from ragindex.parts.trees.tree_search import WAYS
from ragindex.plugins import registry
from ragindex.testing import DOCUMENTS, QUESTIONS
from ragindex.types import Document, Hit, Query, Retrieval, Triple
from ragindex_baselines.dense import Dense
from ragindex_retrievers.sirerag.method import LiftedScore, SiReRAG, lift_scores

TOWNS = [
    Document("1", "", "ANN met BOB @1,0,0", {"year": 1}),
    Document("2", "", "BOB lives in ULM @0,1,0", {"year": 2}),
    Document("3", "", "EVE sleeps @0,0,1", {"year": 2}),
]
"""BOB and EVE have an aggregate; ANN and ULM are named once, where another is named too."""
LEAVES = SiReRAG()
LIFTED = SiReRAG(ranking="lifted")
SUMMARISED = SiReRAG(pool=TreePool(trees=(SummaryTree(stop_at=1), SummaryTree(over=Aggregates(), stop_at=1))))


SUMMARISED_LIFTED = SUMMARISED.model_copy(update={"ranking": "lifted"})
BASES = ("bm25", "hybrid", "composed", "colbert")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with answering(monkeypatch, write) as running:
        yield running


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with pytest.MonkeyPatch.context() as patch, answering(patch, write) as running:
        folder = opened(tmp_path_factory.mktemp("sirerag"), running, TOWNS)
        folder.build(LEAVES, LIFTED, SUMMARISED, SUMMARISED_LIFTED)
        yield folder


@pytest.fixture(scope="module")
def by_rules(tmp_path_factory: pytest.TempPathFactory) -> Index:
    folder = Index.open(tmp_path_factory.mktemp("rules"), encoder="lsa", chunking=None, create=True)
    folder.add(DOCUMENTS)
    folder.build(*[registry.scheme(f"sirerag(base={base})") for base in (*BASES, "dense")])
    return folder


def ask(workspace: Index, scheme: Any, text: str, k: int = 9, where: Any = None) -> Retrieval:
    return scheme.open(workspace).retrieve([Query("q", text, where)], k)[0]  # type: ignore[no-any-return]


def list_scores(retrieval: Retrieval) -> list[tuple[str, float]]:
    """Passages by their ids, other nodes by their kind and what they name."""
    named = ((hit.kind, "+".join(sorted(hit.passage_ids)), hit.score) for hit in retrieval.hits)
    return [(ids if kind == "passage" else f"{kind} {ids}", round(score, 4)) for kind, ids, score in named]


# ---------------------------------------------------------------- the pool


def test_the_best_nodes_of_both_trees(workspace: Index) -> None:
    assert list_scores(ask(workspace, LEAVES, "@1,1,0", 3)) == [("aggregate 1+2", 1.0), ("1", 0.7071), ("2", 0.7071)]
    retrieval = ask(workspace, LEAVES, "@0.2,1,0", 3)
    assert list_scores(retrieval) == [("2", 0.9806), ("aggregate 1+2", 0.8321), ("1", 0.1961)]
    bob = retrieval.hits[1]
    assert bob.doc_ids == ("2", "1")  # the nearest first
    assert bob.metadata == {"1": {"year": 1}, "2": {"year": 2}}
    assert {hit.source for hit in retrieval.hits} == {"sirerag"}
    step = retrieval.trace[-1]
    assert (step.index, step.paths) == (WAYS, ((Triple(f"aggregate {bob.id}", "is made of", "2"),),))


def test_every_document_of_a_hit_passes_the_filter(workspace: Index) -> None:
    assert list_scores(ask(workspace, LEAVES, "@1,1,0", 9, meta("year", 2)))[0] == ("2", 0.7071)
    assert list_scores(ask(workspace, LIFTED, "@1,1,0", 9, meta("year", 2)))[0] == ("2", 0.7071)  # BOB may lift nothing


def test_the_way_from_a_summary_to_its_passages(workspace: Index) -> None:
    """A summary of aggregates is of these, and they of propositions of the passage; one of passages, of passages."""
    retrieval = ask(workspace, SUMMARISED, "@1.1,1,1.2", 2)
    assert [(hit.kind, sorted(hit.passage_ids)) for hit in retrieval.hits] == [("summary", ["1", "2", "3"])] * 2
    assert [hit.doc_ids for hit in retrieval.hits] == [("3", "1", "2")] * 2
    tree_nodes = nodes(workspace, SUMMARISED.pool)
    paths = {path[0].subject.removeprefix("summary "): path for path in retrieval.trace[-1].paths}
    for hit in retrieval.hits:
        names = [node.object for node in paths[hit.id]]
        if tree_nodes[hit.id]["tree"] == "passages":
            assert names == ["3"]
        else:
            (eve,) = (id for id in tree_nodes[hit.id]["children"] if tree_nodes[id]["passage_ids"] == ["3"])
            assert names == [f"aggregate {eve}", "3"]
    assert {tree_nodes[hit.id]["tree"] for hit in retrieval.hits} == {"passages", "aggregates"}


# ---------------------------------------------------------------- lifted


def test_passages_are_lifted_by_what_is_said_of_an_entity(workspace: Index) -> None:
    assert list_scores(ask(workspace, LIFTED, "@1,1,0")) == [("1", 0.8536), ("2", 0.8536), ("3", 0.0)]
    retrieval = ask(workspace, LIFTED, "@0.2,1,0", 2)
    assert list_scores(retrieval) == [("2", 0.9806), ("1", 0.5141)]  # half of 0.1961 + 0.8321
    (path,) = retrieval.trace[-1].paths
    assert (path[0].subject.split()[0], path[0].object) == ("aggregate", "1")
    assert retrieval.hits[0].text == "BOB lives in ULM @0,1,0"


def test_summaries_lift_nothing(workspace: Index) -> None:
    assert list_scores(ask(workspace, SUMMARISED_LIFTED, "@1,1,1.5")) == list_scores(ask(workspace, LIFTED, "@1,1,1.5"))


def test_lifting_by_hand() -> None:
    def leaf(id: str, score: float, *passages: str) -> Hit:
        kind = "aggregate" if passages else "passage"
        return Hit(id, kind, passages or (id,), passages or (id,), "", "", score, "x")

    leaves = [leaf("x", 0.9, "a", "c"), leaf("a", 0.8), leaf("y", 0.6, "c", "b"), leaf("b", 0.5)]
    assert lift_scores(leaves) == {
        "a": LiftedScore(pytest.approx(0.85), "aggregate x"),
        "b": LiftedScore(pytest.approx(0.55), "aggregate y"),
        "c": LiftedScore(pytest.approx(0.7), "aggregate x"),  # not found itself: as the last, 0.5
    }
    assert lift_scores(leaves[1:2]) == {"a": LiftedScore(0.8)}
    assert lift_scores([leaf("a", 0.8), leaf("z", 0.3, "a")]) == {"a": LiftedScore(0.8)}
    assert lift_scores([]) == {}


def test_only_the_best_leaves_are_looked_at(workspace: Index) -> None:
    scheme = LIFTED.model_copy(update={"depth": 1})
    assert list_scores(ask(workspace, scheme, "@0.2,1,0", 1)) == [("2", 0.9806)]
    assert list_scores(ask(workspace, scheme, "@0.2,1,0", 2)) == [("2", 0.9806), ("1", 0.8321)]  # never fewer than k


# ---------------------------------------------------------------- bases, readers


@pytest.mark.parametrize("base", BASES)
def test_the_pool_is_searched_by_any_flat_scheme(base: str, by_rules: Index) -> None:
    scheme, plain = registry.scheme(f"sirerag(base={base})"), registry.scheme(f"{base}(over=tree_pool)")
    queries = [Query(f"q{n}", text) for n, text in enumerate(QUESTIONS)]
    ours, theirs = (method.open(by_rules).retrieve(queries, 6) for method in (scheme, plain))
    assert [[(hit.id, hit.score) for hit in our.hits] for our in ours] == [
        [(hit.id, hit.score) for hit in their.hits] for their in theirs
    ]


def test_under_self_ask(by_rules: Index) -> None:
    """Its candidates are the ten best nodes of the pool, for both calls."""
    over, alone = registry.scheme("self-ask(base=sirerag)"), registry.scheme("sirerag")
    queries = [Query(f"q{n}", text) for n, text in enumerate(QUESTIONS)]
    candidates = [retrieval.hits for retrieval in alone.open(by_rules).retrieve(queries, 10)]
    asking = over.open(by_rules).retrieve(queries, 10)
    assert [step.hits for step in asking] == [
        tuple(replace(hit, source="self-ask(base=sirerag)") for hit in hits) for hits in candidates
    ]
    assert any(hit.kind == "aggregate" for hits in candidates for hit in hits)


def test_a_long_summary_does_not_win_by_its_length(server: OpenAIServer, tmp_path: Path) -> None:
    """What a reader sees of the pool has as many tokens as what it sees of passages: the summary is cut."""

    def long(body: Mapping[str, Any]) -> str:
        is_summary = task_of(body) == "summary"
        return json.dumps({"summary": "@1,1,1 " + "word " * 2_000}) if is_summary else write(body)

    server.write = long
    workspace = opened(tmp_path, server, [*TOWNS, *(at(f"p{n}", 1, 1, n / 10) for n in range(20))])
    workspace.build(SUMMARISED, Dense())
    pool, flat = ask(workspace, SUMMARISED, "@1,1,1", 20), ask(workspace, Dense(), "@1,1,1", 20)
    first = pool.hits[0]
    assert (first.kind, len(first.text.split())) == ("summary", 2_001)
    seen, plain = (answer_question.build_context(method.hits, method.notes, tokens=100) for method in (pool, flat))
    assert (seen.tokens, len(seen.passages)) == (100, 1)
    assert seen.passages[0].text == ("@1,1,1 " + "word " * 77).strip()  # of some four characters a token
    assert (plain.tokens, len(plain.passages)) == (93, 12)  # no sentence of the next one fits


# ---------------------------------------------------------------- parameters


def test_what_can_stand_where() -> None:
    written = "sirerag(pool=tree_pool(relatedness_summaries=false), ranking=lifted)"
    assert registry.label(registry.scheme(written)) == written
    with pytest.raises(UsageError, match="'pool' parameter of sirerag must be tree_pool"):
        registry.scheme("sirerag(pool=summary_tree)")
    with pytest.raises(UsageError, match="'base' parameter of sirerag must be a method that searches one part `over`"):
        registry.scheme("sirerag(base=hipporag)")
    assert LEAVES.parts() == (TreePool(), TreePool())
    assert registry.scheme("sirerag(base=bm25)").parts() == (TreePool(), TreePool())


# ---------------------------------------------------------------- other trees


def test_dual_clustering_groups_by_entities_what_lies_apart(server: OpenAIServer, tmp_path: Path) -> None:
    """(E): two texts of different rings name X; the cluster of both is summarised beside those of the rings."""
    assert write_sentences([("1",), ("2", "3"), ("9",)], StoredNodes()) == [  # type: ignore[arg-type]
        "This text is about ANN, BOB.",
        "This text is about BOB, ULM, EVE.",
        "",
    ]
    plain = SummaryTree(stop_at=2, dimensions=2, levels=2)
    dual = plain.model_copy(update={"dual": Propositions()})
    named = [Document("a7", "", "a7 X @1,0.1,0"), Document("b7", "", "b7 X @0.1,1,0")]
    other = [Document(f"z{n}", "", f"z{n} QQ @0,0,-1 @0,0.0{n},0") for n in range(1, 6)]
    plugin = OpenAICompatibleChat(model="small", base_url=server.url, retries=0)
    setting = LLMSettings(prices=PRICES, clock=QUICK)
    with Index.open(
        tmp_path, llm=plugin, llm_settings=setting, chunking=None, encoder=Signs(), create=True
    ) as workspace:
        workspace.add([*around("a", 0, 0.2, 6), *around("b", 1, 0.2, 6), *named, *other])
        workspace.build(plain, dual)
        alike, both = (set(drawn(workspace, tree)) for tree in (plain, dual))
    assert both - alike == {"(a7 X b7 X)"}
    assert alike < both
    rings = ["(a1 a2 a3 a4 a5 a6 a7 X)", "(b1 b2 b3 b4 b5 b6 b7 X)", "(z1 QQ z2 QQ z3 QQ z4 QQ z5 QQ)"]
    assert sorted(alike) == rings


class Signs(Compass):
    """As Compass; a sentence about X points along the first axis, others along the last."""

    def open(self, setting: LLMSettings | None = None) -> CompassEncoder:
        return SignsEncoder()


class SignsEncoder(CompassEncoder):
    def encode_documents(self, texts: Sequence[str]) -> Floats:
        vectors = super().encode_documents(texts)
        for row, text in enumerate(texts):
            if text.startswith("This text is about"):
                vectors[row] = (1, 0, 0) if "X" in text else (0, 0, 1)
        return vectors


class StoredNodes:
    """Propositions of three passages, as a collection gives them."""

    def scan(self, fields: tuple[str, ...]) -> list[pa.RecordBatch]:
        rows = [("p2", "2", 0.0, ["BOB", "ULM"]), ("p1", "1", 1.0, ["BOB"]), ("p0", "1", 0.0, ["ANN", "BOB"])]
        rows.append(("p3", "3", 0.0, ["EVE"]))
        records = [
            {"id": id, "passage_ids": [passage], "position": position, "entities": names}
            for id, passage, position, names in rows
        ]
        return [pa.RecordBatch.from_pylist(records)]


def test_hierarchical_chunks_stand_beside_the_summaries_of_others(server: OpenAIServer, tmp_path: Path) -> None:
    """General texts are on level 1, and the first level above that they come into is the second."""

    def judged(body: Mapping[str, Any]) -> str:
        if task_of(body) != "abstractness":
            return write(body)
        general = "general" in str(body["messages"][-1]["content"])
        return json.dumps({"abstractness": "high" if general else "low"})

    server.write = judged
    tree = SummaryTree(stop_at=1, dimensions=3, levels=3, hierarchical=True)
    general = [Document("g1", "", "general @1,0,0.1"), Document("g2", "", "general too @0,1,0.1")]
    workspace = opened(tmp_path, server, [*around("a", 0, 0.2, 6), *around("b", 1, 0.2, 6), *general])
    workspace.build(tree)
    tree_nodes = nodes(workspace, tree)
    assert {id: row["level"] for id, row in tree_nodes.items() if row["kind"] == "passage"} == {
        **{f"{ring}{number}": 0.0 for ring in "ab" for number in range(1, 7)},
        "g1": 1.0,
        "g2": 1.0,
    }
    first = [row for row in tree_nodes.values() if row["kind"] == "summary" and row["level"] == 1]
    second = [row for row in tree_nodes.values() if row["level"] == 2]
    assert not {"g1", "g2"} & {child for row in first for child in row["children"]}
    assert {"g1", "g2"} <= {child for row in second for child in row["children"]}
    tasks = [task_of(request.body) for request in server.requests]
    assert tasks.count("abstractness") == 14
    assert tree.tasks()[1].name == "abstractness"


def test_general_texts_are_clustered_where_the_others_are_too_few_for_a_level(
    server: OpenAIServer, tmp_path: Path
) -> None:
    def judged(body: Mapping[str, Any]) -> str:
        if task_of(body) != "abstractness":
            return write(body)
        return json.dumps({"abstractness": "low" if "low" in str(body["messages"][-1]["content"]) else "high"})

    server.write = judged
    tree = SummaryTree(stop_at=2, dimensions=2, levels=3, hierarchical=True)
    low = [at("low1", 0, 0, 1), at("low2", 0, 0.1, 1)]
    workspace = opened(tmp_path, server, [*around("a", 0, 0.2, 8), *around("b", 1, 0.2, 8), *low])
    workspace.build(tree)
    summaries = [row for row in nodes(workspace, tree).values() if row["kind"] == "summary"]
    assert {row["level"] for row in summaries} == {2}
    assert {child[0] for row in summaries for child in row["children"]} >= {"a", "b"}


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("A lighthouse warns ships of rocks. It stands where many can see it.", "high"),
        ("The lighthouse of Lindau was built in 1856 by Eduard Ruber.", "low"),
        ("Towers and bridges are made of stone, says Ada.", "low"),
        ("Lindau\nShips know the light of Lindau, and the town of Lindau lives on it.", "high"),  # the topic, repeated
        ("Ulm Minster\nThe minster (begun in 1377) is a church in Ulm, Baden, by Ulrich Ensinger.", "high"),
        ("Ulm Minster\nIn 1890 Ulm saw August Beyer end it. The minster is a church of 1377, 161 m high.", "low"),
        ("Ulm Minster\nEnsinger was a mason of Ulm, born in 1350, says Felix Fabri of Bern in 1488.", "low"),
        ("", "low"),
    ],
)
def test_abstractness_by_rule(text: str, level: str) -> None:
    assert ABSTRACTNESS.rule is not None
    assert ABSTRACTNESS.rule({"text": text}).abstractness == level
