"""Aggregates of propositions, the tree over them, and the pool of two trees: by hand, and with a model behind HTTP."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_language import answering
from made_trees import at, nodes, notes, opened, summaries, task_of, write
from openai_server import OpenAIServer, chat

from ragindex.errors import UsageError
from ragindex.filters import meta
from ragindex.index.index import Index
from ragindex.parts.text.propositions import Propositions
from ragindex.parts.trees.aggregates import Aggregates
from ragindex.parts.trees.summary_tree import SummaryTree
from ragindex.parts.trees.tree_pool import TreePool
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.types import Document, Query
from ragindex_baselines.bm25 import BM25
from ragindex_baselines.dense import Dense

TOWNS = [
    Document("1", "", "ANN met BOB\nANN sings", {"year": 1}),
    Document("2", "", "BOB lives in ULM\nCID met DAN", {"year": 2}),
    Document("3", "", "EVE sleeps\nit rains\nAnn is not ANN", {"year": 3}),
]


@pytest.fixture(scope="module")
def written() -> Iterator[OpenAIServer]:
    with pytest.MonkeyPatch.context() as patch, answering(patch, write) as running:
        yield running


@pytest.fixture
def server(written: OpenAIServer) -> Iterator[OpenAIServer]:
    written.requests.clear()
    yield written
    written.write, written.choose = write, lambda received, earlier: None


def texts(workspace: Index, part: Any) -> dict[tuple[str, ...], str]:
    """The texts of aggregates by their entities."""
    return {tuple(row["entities"]): row["text"] for row in nodes(workspace, part).values()}


# ---------------------------------------------------------------- by hand


def test_aggregates_by_hand(server: OpenAIServer, tmp_path: Path) -> None:
    workspace = opened(tmp_path, server, TOWNS)
    dropped, with_singles = Aggregates(singles="drop"), Aggregates(singles="keep")
    apart = Aggregates(singles="keep", dedupe=False)
    workspace.build(Aggregates(), dropped, with_singles, apart)
    nodes_by_id = nodes(workspace, Aggregates())
    assert texts(workspace, Aggregates()) == {
        ("ANN",): "ANN met BOB\nANN sings\nAnn is not ANN",
        ("BOB",): "ANN met BOB\nBOB lives in ULM",
        ("EVE",): "EVE sleeps",  # alone, but nobody else is named there
    }
    (ann,) = (row for row in nodes_by_id.values() if row["entities"] == ["ANN"])
    assert ann == {
        "kind": "aggregate",
        "title": "",
        "text": "ANN met BOB\nANN sings\nAnn is not ANN",
        "metadata": '{"1": {"year": 1}, "3": {"year": 3}}',
        "passage_ids": ["1", "3"],
        "doc_ids": ["1", "3"],
        "meta.year": ["1", "3"],
        "entities": ["ANN"],
        "propositions": 3.0,
    }
    assert notes(workspace, "aggregates")[:2] == [
        "3 aggregates of 3 among 6 entities, of 7 propositions. 1 name no entity, 1 more are in no aggregate.",
        "Propositions of an entity: 1.50 on average, 3 at most, 1 at least.",
    ]
    assert sorted(texts(workspace, dropped)) == [("ANN",), ("BOB",)]
    assert texts(workspace, with_singles)[("CID", "DAN")] == "CID met DAN"  # the same proposition of both
    assert texts(workspace, with_singles)[("ULM",)] == "BOB lives in ULM"
    assert sorted(texts(workspace, with_singles)) == [("ANN",), ("BOB",), ("CID", "DAN"), ("EVE",), ("ULM",)]
    assert sorted(texts(workspace, apart)) == [("ANN",), ("BOB",), ("CID",), ("DAN",), ("EVE",), ("ULM",)]


def test_what_counts_as_one_entity(server: OpenAIServer, tmp_path: Path) -> None:
    server.write = lambda body: write(body).replace('"ANN"', '"Ann"') if "reads" in str(body) else write(body)
    workspace = opened(tmp_path, server, [Document("1", "", "ANN sings"), Document("2", "", "ANN reads")])
    folded = Aggregates(entity_key="casefold")
    workspace.build(Aggregates(), folded)
    assert texts(workspace, Aggregates()) == {("ANN",): "ANN sings", ("Ann",): "ANN reads"}
    assert texts(workspace, folded) == {("ANN",): "ANN sings\nANN reads"}
    assert (Aggregates().key("Ann  Lee"), folded.key("Straße  am\nSee")) == ("Ann  Lee", "strasse am see")


def test_documents_stay_together_in_their_order_and_lines_are_said_once(server: OpenAIServer, tmp_path: Path) -> None:
    documents = [Document(id, "", text) for id, text in (("b", "ANN b1\nANN same"), ("a", "ANN a1\nANN same\nANN a2"))]
    workspace = opened(tmp_path, server, documents)
    every = Aggregates(dedupe=False)
    workspace.build(Aggregates(), every)
    assert texts(workspace, Aggregates()) == {("ANN",): "ANN a1\nANN same\nANN a2\nANN b1"}
    assert texts(workspace, every) == {("ANN",): "ANN a1\nANN same\nANN a2\nANN b1\nANN same"}
    (row,) = nodes(workspace, Aggregates()).values()
    assert (row["passage_ids"], row["propositions"]) == (["a", "b"], 5.0)


def test_an_entity_found_in_every_passage(server: OpenAIServer, tmp_path: Path) -> None:
    documents = [
        Document(f"{n:03d}", "", f"HUB is near PLACE{n:03d}A for reason {n:03d}\nHUB rests") for n in range(40)
    ]
    workspace = opened(tmp_path, server, documents)
    bounded = Aggregates(tokens=65)
    workspace.build(bounded)
    records = sorted(nodes(workspace, bounded).values(), key=lambda row: row["passage_ids"])
    lines = [line for row in records for line in row["text"].split("\n")]
    assert sorted(lines) == sorted({*(f"HUB is near PLACE{n:03d}A for reason {n:03d}" for n in range(40)), "HUB rests"})
    assert {tuple(row["entities"]) for row in records} == {("HUB",)}
    assert max(len(row["text"]) for row in records) <= 260  # four characters a token
    assert len(records) == 7
    sizes = [len(row["passage_ids"]) for row in records]
    assert sizes == [40, 6, 6, 6, 6, 6, 4]  # all of them state once that it rests
    workspace.build(SummaryTree(over=bounded, stop_at=2, dimensions=2))
    assert len(nodes(workspace, SummaryTree(over=bounded, stop_at=2, dimensions=2))) == 7  # they have no direction


def test_no_propositions(server: OpenAIServer, tmp_path: Path) -> None:
    workspace = opened(tmp_path, server, [Document("1", "", "it rains"), Document("2", "", "")])
    workspace.build(Aggregates(), SummaryTree(over=Aggregates()))
    assert nodes(workspace, Aggregates()) == nodes(workspace, SummaryTree(over=Aggregates())) == {}


# ---------------------------------------------------------------- two trees, one pool

PLACED = [at("p1", 1, 0, 0), at("p2", 1, 0.1, 0), at("p3", 0, 0, 1), at("p4", 0, 0.1, 1)]
SAID = [
    Document(
        leaf.id,
        "",
        f"{leaf.text}\nANN {leaf.id} {leaf.text.split()[1]}\nBOB {leaf.id} {leaf.text.split()[1]}\nso it is @0,1,0",
    )
    for leaf in PLACED
]
SMALL = {"stop_at": 1, "dimensions": 3}
POOL = TreePool(trees=(SummaryTree(**SMALL), SummaryTree(over=Aggregates(), **SMALL)))


def counted(workspace: Index, pool: TreePool) -> dict[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = {}
    for row in nodes(workspace, pool).values():
        key = (row["tree"], row["kind"])
        counts[key] = counts.get(key, 0) + 1
    return counts


FLAT = [registry.scheme(f"{name}(over={registry.label(POOL)})") for name in ("bm25", "dense", "hybrid", "composed")]


@pytest.fixture(scope="module")
def pooled(written: OpenAIServer, tmp_path_factory: pytest.TempPathFactory) -> Index:
    marked = [replace(text, metadata={"page": number}) for number, text in enumerate(SAID)]
    workspace = opened(tmp_path_factory.mktemp("pool"), written, marked)
    workspace.build(*FLAT)
    return workspace


def test_the_pool_holds_both_trees(pooled: Index) -> None:
    workspace = pooled
    assert counted(workspace, POOL) == {
        ("passages", "passage"): 4,
        ("passages", "summary"): 1,
        ("aggregates", "aggregate"): 2,
        ("aggregates", "summary"): 1,
    }
    pool = nodes(workspace, POOL)
    for tree in POOL.trees:
        assert nodes(workspace, tree).items() <= pool.items()
    aggregates = nodes(workspace, Aggregates())
    assert sorted(row["text"].split()[0] for row in aggregates.values()) == ["ANN", "BOB"]
    for id, row in aggregates.items():
        assert pool[id]["passage_ids"] == row["passage_ids"] == ["p1", "p2", "p3", "p4"]
        assert pool[id]["level"] == 0
    assert notes(workspace, "tree_pool") == ["8 nodes: 5 of passages, 3 of aggregates."]


def test_every_flat_scheme_searches_the_pool(pooled: Index) -> None:
    assert [record.name for record in pooled.manifest.parts.values()].count("vectors") == 0
    query = Query("q", "ANN @0,0.2,1")
    for scheme in FLAT:
        (retrieval,) = scheme.open(pooled).retrieve([query], 8)
        assert retrieval.hits
        assert {hit.kind for hit in retrieval.hits} <= {"passage", "aggregate", "summary"}
        assert all(hit.passage_ids and hit.doc_ids for hit in retrieval.hits)
    (near,) = FLAT[1].open(pooled).retrieve([query], 8)
    assert len(near.hits) == 8
    assert all(hit.source == registry.label(FLAT[1]) for hit in near.hits)


def test_ablations(server: OpenAIServer, tmp_path: Path) -> None:
    workspace = opened(tmp_path, server, SAID)
    trees = POOL.trees
    a = TreePool(trees=trees, relatedness_summaries=False)
    workspace.build(a)
    assert len(summaries(server)) == 1  # none for the tree that is not in the pool
    b = TreePool(trees=trees, propositions=True)
    c = TreePool(trees=trees, propositions=True, aggregates=False)
    d = TreePool(trees=trees, propositions=True, aggregates=False, relatedness_summaries=False)
    workspace.build(b, c, d)
    similarity = {("passages", "passage"): 4, ("passages", "summary"): 1}
    single = {("propositions", "proposition"): 16}
    assert counted(workspace, a) == {**similarity, ("aggregates", "aggregate"): 2}
    both = {("aggregates", "aggregate"): 2, ("aggregates", "summary"): 1}
    assert counted(workspace, b) == {**similarity, **both, **single}
    assert counted(workspace, c) == {**similarity, ("aggregates", "summary"): 1, **single}
    assert counted(workspace, d) == {**similarity, **single}
    leaf = nodes(workspace, d)["p1#p0001"]
    assert (leaf["level"], leaf["children"], leaf["tree"]) == (0.0, [], "propositions")
    (retrieval,) = Dense(over=d).open(workspace).retrieve([Query("q", "@0,1,0")], 1)
    assert retrieval.hits[0].text == "so it is @0,1,0"


def test_a_passage_without_propositions_is_still_in_the_pool(server: OpenAIServer, tmp_path: Path) -> None:
    server.choose = lambda received, earlier: (
        chat(content="No.") if task_of(received.body) == "entities" and "p4 @" in str(received.body) else None
    )
    workspace = opened(tmp_path, server, SAID)
    workspace.build(POOL)
    nodes_by_id = nodes(workspace, POOL)
    assert {"p1", "p2", "p3", "p4"} < set(nodes_by_id)
    assert [row["passage_ids"] for row in nodes_by_id.values() if row["kind"] == "aggregate"] == [
        ["p1", "p2", "p3"]
    ] * 2


def test_filters_reach_the_pool(pooled: Index) -> None:
    workspace = pooled
    (retrieval,) = Dense(over=POOL).open(workspace).retrieve([Query("q", "@0,1,0", meta("page", 2))], 9)
    assert [hit.id for hit in retrieval.hits] == ["p3"]
    (retrieval,) = BM25(over=POOL).open(workspace).retrieve([Query("q", "ANN", meta("page", 0, 1, 2, 3))], 9)
    assert sorted({hit.kind for hit in retrieval.hits}) == ["aggregate", "passage", "summary"]


def test_what_can_stand_where() -> None:
    assert TreePool().inputs() == (SummaryTree(), SummaryTree(over=Aggregates()))
    assert TreePool(relatedness_summaries=False).inputs() == (SummaryTree(), Aggregates())
    assert TreePool(propositions=True, aggregates=False, relatedness_summaries=False).inputs() == (
        SummaryTree(),
        Vectors(of=Propositions()),
    )
    refused = {
        "tree_pool(trees=[passages])": "summary_tree",
        "tree_pool(trees=[])": "at least 1",
        "tree_pool(trees=[summary_tree], aggregates=false)": "one is over aggregates",
        "tree_pool(trees=[summary_tree(over=aggregates)], aggregates=false, relatedness_summaries=false)": "not over",
        "aggregates(of=passages)": "propositions",
        "aggregates(tokens=1)": "tokens",
        "vectors(of=tree_pool)": "without vectors of its own",
    }
    for written, why in refused.items():
        with pytest.raises(UsageError, match=why):
            registry.part(written)
    assert registry.part(registry.label(POOL)) == POOL


def test_the_rules_name_entities_too(tmp_path: Path) -> None:
    workspace = Index.open(tmp_path, chunking=None, create=True)
    workspace.add([Document("a", "Ada Miller", "Ada Miller was a glass painter. She was born in Lindau.")])
    workspace.build(Aggregates())
    text = "Ada Miller was a glass painter.\nAda Miller was born in Lindau."
    assert texts(workspace, Aggregates()) == {("Ada Miller",): text}
