"""Summary trees: node by node by hand, corpora that are unkind, failures, and changes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_language import PRICES, answering
from made_trees import (
    Compass,
    around,
    at,
    drawn,
    failed,
    named,
    nodes,
    notes,
    opened,
    place,
    shown,
    summaries,
    write,
)
from openai_server import OpenAIServer, Received, chat

from ragindex.accounting import ledger
from ragindex.corpus import Corpus
from ragindex.english import summarise
from ragindex.errors import UsageError
from ragindex.estimate import estimate
from ragindex.filters import meta
from ragindex.index.index import Index
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.parts.text.passages import Passages
from ragindex.parts.trees.summary_tree import SUMMARY, SummaryTree
from ragindex.parts.vectors.vectors import Vectors, vectors_of
from ragindex.plugins import registry
from ragindex.testing import DOCUMENTS
from ragindex.types import Document, Query
from ragindex_baselines.bm25 import BM25
from ragindex_baselines.dense import Dense

FLAT = SummaryTree(dimensions=2, stop_at=2)
BRIDGED = [*around("a", 0, 0.5, 8), *around("b", 1, 0.5, 8), *around("c", 2, 0.1, 3), at("m", 1, 1, 0)]
"""Three rings around the axes; m is between the first two, and in both clusters."""
A, B, C = ([f"{letter}{number}" for number in range(1, count + 1)] for letter, count in (("a", 8), ("b", 8), ("c", 3)))


def joined(names: list[str]) -> str:
    return f"({' '.join(names)})"


LEVEL = {joined(names): names for names in ([*A, "m"], [*B, "m"], C)}
BRIDGED_TREE = {**LEVEL, joined(list(LEVEL)): list(LEVEL)}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with answering(monkeypatch, write) as running:
        yield running


# ---------------------------------------------------------------- by hand


def test_the_tree_node_by_node(server: OpenAIServer, tmp_path: Path) -> None:
    workspace = opened(tmp_path, server, BRIDGED)
    workspace.build(FLAT)
    assert drawn(workspace, FLAT) == BRIDGED_TREE
    first, second, third, _ = BRIDGED_TREE
    nodes_by_id = nodes(workspace, FLAT)
    levels = {named(row["text"]): row["level"] for row in nodes_by_id.values()}
    assert [levels[name] for name in ("a1", first, joined([first, second, third]))] == [0, 1, 2]
    assert {row["tree"] for row in nodes_by_id.values()} == {"passages"}
    leaf = nodes_by_id["m"]
    assert leaf == {
        "kind": "passage",
        "title": "",
        "text": "m @1.000,1.000,0.000",
        "metadata": '{"m": {"letter": "m"}}',
        "passage_ids": ["m"],
        "doc_ids": ["m"],
        "meta.letter": ["m"],
        "level": 0.0,
        "children": [],
        "tree": "passages",
    }
    (summary,) = (row for row in nodes_by_id.values() if named(row["text"]) == third)
    x, y, z = place(summary["text"])
    assert (round(x, 2), round(y, 2), round(z, 2)) == (0, 0, 1)
    assert summary == {
        "kind": "summary",
        "title": "",
        "text": summary["text"],
        "metadata": '{"c1": {"letter": "c"}, "c2": {"letter": "c"}, "c3": {"letter": "c"}}',
        "passage_ids": C,
        "doc_ids": C,
        "meta.letter": ["c", "c", "c"],
        "level": 1.0,
        "children": C,
        "tree": "passages",
    }
    (root,) = (row for row in nodes_by_id.values() if row["level"] == 2)
    assert root["passage_ids"] == [*A, *B, *C, "m"]
    assert summaries(server)[-1] == [first, second, third]
    assert notes(workspace, "summary_tree") == ["20 leaves; 3, 1 on the levels above."]


def test_a_cluster_of_one_makes_no_node_and_goes_up(server: OpenAIServer, tmp_path: Path) -> None:
    documents = [*around("a", 0, 0.2, 6), *around("b", 1, 0.2, 6), *around("c", 2, 0.1, 4), at("m", 1, 1, 0)]
    tree = SummaryTree(dimensions=3, stop_at=3)
    workspace = opened(tmp_path, server, documents)
    workspace.build(tree)
    rings = [
        [f"{letter}{number}" for number in range(1, count + 1)] for letter, count in (("a", 6), ("b", 6), ("c", 4))
    ]
    root = [joined(ring) for ring in rings] + ["m"]
    assert drawn(workspace, tree) == {**{joined(ring): ring for ring in rings}, joined(root): root}
    assert summaries(server)[-1] == root
    (level,) = (
        row["level"] for row in nodes(workspace, tree).values() if row["passage_ids"][-1:] == ["m"] and row["children"]
    )
    assert level == 2


def test_texts_without_words_are_leaves_and_nothing_else(server: OpenAIServer, tmp_path: Path) -> None:
    blank = [Document("x", "", " \n"), Document("y", "", ""), Document("z", "", "no direction")]
    workspace = opened(tmp_path, server, [*BRIDGED, *blank])
    workspace.build(FLAT)
    assert {"x", "y", "z"} < set(nodes(workspace, FLAT))
    assert not {"x", "y", "z"} & {child for row in nodes(workspace, FLAT).values() for child in row["children"]}


def test_only_leaves(server: OpenAIServer, tmp_path: Path) -> None:
    workspace = opened(tmp_path, server, BRIDGED)
    workspace.build(SummaryTree(levels=1, stop_at=1))
    assert sorted(nodes(workspace, SummaryTree(levels=1, stop_at=1))) == sorted(document.id for document in BRIDGED)
    assert server.requests == []


def test_passages_of_a_document_stand_in_its_order(server: OpenAIServer, tmp_path: Path) -> None:
    from ragindex.corpus import Chunking

    text = "\n\n".join(f"t{number} @0,0.{number:02d},1" for number in range(12))
    plugin = OpenAICompatibleChat(model="small", base_url=server.url, retries=0)
    cut = Index.open(tmp_path, llm=plugin, chunking=Chunking(14, 0), encoder=Compass(), create=True)
    cut.add([Document("d", "", text), Document("c", "", "first @0,0,1")])
    tree = SummaryTree(stop_at=2, dimensions=12)  # so few are one cluster
    cut.build(tree)
    assert summaries(server) == [["first", *(f"t{number}" for number in range(12))]]  # t2 before t10
    (row,) = (row for row in nodes(cut, tree).values() if row["level"] == 1)
    assert row["passage_ids"] == ["c#0", *(f"d#{number}" for number in range(12))]
    assert row["doc_ids"] == ["c", "d"]


# ---------------------------------------------------------------- tokens


def test_texts_over_the_limit_are_cut_and_counted(server: OpenAIServer, tmp_path: Path) -> None:
    long = Document("long", "", "@0,0,1 " + "word " * 2000)
    workspace = opened(tmp_path, server, [long, Document("short", "", "short @0,0.1,1")])
    tree = SummaryTree(stop_at=1, cluster_tokens=100)
    workspace.build(tree)
    (body,) = (request.body for request in server.requests)
    first, second = shown(body)
    assert second == "short @0,0.1,1"
    assert first == ("@0,0,1 " + "word " * 75).strip()  # 95 of 100 tokens, of four characters each
    assert "1 clusters were too long: the model saw the beginnings of their longest texts." in notes(
        workspace, "summary_tree"
    )


def test_a_cluster_over_the_limit_is_clustered_again(server: OpenAIServer, tmp_path: Path) -> None:
    workspace = opened(
        tmp_path, server, [Document(f"d{n:02d}", "", f"@0,0.{n:02d},1 " + "word " * 60) for n in range(12)]
    )
    tree = SummaryTree(stop_at=11, levels=2, cluster_tokens=350)
    workspace.build(tree)
    parents = [row for row in nodes(workspace, tree).values() if row["children"]]
    assert sorted({child for row in parents for child in row["children"]}) == [f"d{n:02d}" for n in range(12)]
    assert max(len(row["children"]) for row in parents) <= 4  # of some eighty tokens each
    assert notes(workspace, "summary_tree") == [f"12 leaves; {len(parents)} on the levels above."]


def test_a_summary_that_is_longer_than_asked_for_is_cut(server: OpenAIServer, tmp_path: Path) -> None:
    server.write = lambda body: json.dumps({"summary": "@0,0,1 " + "word " * 500})
    workspace = opened(tmp_path, server, [at("a", 0, 0, 1), at("b", 0, 0.1, 1)])
    short, free = SummaryTree(stop_at=1, summary_tokens=100), SummaryTree(stop_at=1)
    workspace.build(short, free)
    (row,) = (row for row in nodes(workspace, short).values() if row["children"])
    assert row["text"] == ("@0,0,1 " + "word " * 78).strip()
    assert "1 summaries were longer than asked for and were cut." in notes(workspace, "summary_tree")
    contents = [request.body["messages"][0]["content"] for request in server.requests]
    assert sorted("at most 75 words" in text for text in contents) == [False, True]
    (row,) = (row for row in nodes(workspace, free).values() if row["children"])
    assert len(row["text"].split()) == 501


def test_failed_summary_is_counted_and_retried_on_request(server: OpenAIServer, tmp_path: Path) -> None:
    def choose(received: Received, earlier: int) -> Any:
        return chat(content='{"summary": " "}') if "c1 @" in json.dumps(received.body) else None

    server.choose = choose
    workspace = opened(tmp_path, server, BRIDGED)
    workspace.build(FLAT)
    first, second = joined([*A, "m"]), joined([*B, "m"])
    assert sorted(drawn(workspace, FLAT)) == sorted([first, second])  # two are enough to stop
    (id,) = failed(workspace, "summary_tree")
    assert notes(workspace, "summary_tree") == [
        "20 leaves; 2 on the levels above.",
        "1 summaries failed: their clusters have no node.",
    ]
    before = len(server.requests)
    server.choose = lambda received, earlier: None
    workspace.build(FLAT)
    assert len(server.requests) == before  # it is set aside
    workspace.build(FLAT, retry_failed=True)
    assert len(server.requests) == before + 2  # the one that failed, and the level above
    assert failed(workspace, "summary_tree") == []
    nodes_by_id = nodes(workspace, FLAT)
    assert named(nodes_by_id[id]["text"]) == joined(C)
    assert len(drawn(workspace, FLAT)) == 4


# ---------------------------------------------------------------- changes


def test_only_what_changed_is_asked_again(server: OpenAIServer, tmp_path: Path) -> None:
    workspace = opened(tmp_path, server, BRIDGED)
    workspace.build(FLAT)
    before = nodes(workspace, FLAT)
    request_count = len(server.requests)
    workspace.add([at("c4", 0.05, 0.05, 1)])
    workspace.build()
    first, second, _ = LEVEL
    assert summaries(server)[request_count] == ["c1", "c2", "c4"]  # c3 stands alone now
    assert sorted(summaries(server)[request_count + 1 :]) == [[first, second], ["(c1 c2 c4)", "c3"]]
    grown = len(server.requests)
    workspace.remove(["c4"])
    workspace.build()
    assert nodes(workspace, FLAT) == before
    assert len(server.requests) == grown  # the answers were kept


def test_the_rules_summarise_24_documents(tmp_path: Path) -> None:
    workspace = Index.open(tmp_path, encoder="lsa", chunking=None, create=True)
    workspace.add(DOCUMENTS)
    workspace.build(SummaryTree())
    nodes_by_id = nodes(workspace, SummaryTree())
    parents = [row for row in nodes_by_id.values() if row["kind"] == "summary"]
    assert len(parents) > 1
    for row in parents:
        texts = [f"{nodes_by_id[child]['title']}\n{nodes_by_id[child]['text']}" for child in row["children"]]
        assert row["text"] == summarise(texts, 100, "english")
    assert "Summaries were made by rules, not by a language model." in notes(workspace, "summary_tree")


def test_an_estimate_counts_every_level() -> None:
    corpus = Corpus("checks", "made", DOCUMENTS, 0, (), True)
    plugin, setting = OpenAICompatibleChat(model="small"), LLMSettings(prices=PRICES)
    (estimated,) = estimate(corpus, [Dense(over=SummaryTree(stop_at=2))], plugin, setting)
    assert estimated.task == "summary"
    assert estimated.calls >= 2
    assert estimated.input_tokens > 100 * estimated.calls
    assert estimate(corpus, [Dense(over=SummaryTree(levels=1))], plugin, setting) == []


def test_what_can_stand_where() -> None:
    assert vectors_of(SummaryTree()) == SummaryTree()
    assert vectors_of(Passages()) == Vectors()
    assert vectors_of(Vectors()) == Vectors()
    with pytest.raises(UsageError, match="'of' parameter of vectors must be a part without vectors of its own"):
        registry.part("vectors(of=summary_tree)")
    for wrong in ("cluster_tokens=5", "threshold=1", "reduction=tsne", "levels=0", "summary_tokens=1"):
        with pytest.raises(UsageError, match=wrong.partition("=")[0]):
            registry.part(f"summary_tree({wrong})")
    written = "summary_tree(levels=5, summary_tokens=100, reduction=umap)"
    assert registry.label(registry.part(written)) == written


def test_leaves_need_the_fields_of_hits(server: OpenAIServer, tmp_path: Path) -> None:
    workspace = opened(tmp_path, server, BRIDGED[:5])
    with pytest.raises(
        UsageError, match="summary_tree needs records with kind, .*; kind, metadata, text, title is missing"
    ):
        workspace.build(SummaryTree(over=registry.part("extractions")))


def test_a_summary_is_found_by_vector_by_text_and_by_filter(server: OpenAIServer, tmp_path: Path) -> None:
    workspace = opened(tmp_path, server, BRIDGED)
    workspace.build(Dense(over=FLAT), BM25(over=FLAT))
    up = Dense(over=FLAT).open(workspace).retrieve([Query("q", "@0,0,1")], 4)[0].hits
    assert up[0].kind == "summary"  # the middle of the ring
    assert (up[0].passage_ids, up[0].doc_ids) == (tuple(C), tuple(C))
    assert sorted(hit.id for hit in up[1:]) == C
    by_text = BM25(over=FLAT).open(workspace).retrieve([Query("q", "c2")], 9)[0].hits
    assert [hit.kind for hit in by_text] == ["passage", "summary", "summary"]
    only_b = Dense(over=FLAT).open(workspace).retrieve([Query("q", "@0,1,0", meta("letter", "b"))], 99)[0].hits
    assert sorted(hit.id for hit in only_b) == B  # the summary over them holds m too
    both = Dense(over=FLAT).open(workspace).retrieve([Query("q", "@0,1,0", meta("letter", "b", "m"))], 99)[0].hits
    assert sorted(hit.kind for hit in both) == [*["passage"] * 9, "summary"]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [('{"summary": "  "}', "malformed"), ("", "empty")],
)
def test_an_answer_that_cannot_be_used_is_asked_for_again_and_counted(
    answer: str, kind: str, server: OpenAIServer, tmp_path: Path
) -> None:
    def choose(received: Received, earlier: int) -> Any:
        again = "cannot be used" in json.dumps(received.body)
        return chat(content=answer) if shown(received.body)[0].startswith("c1") and not again else None

    server.choose = choose
    workspace = opened(tmp_path, server, BRIDGED)
    with ledger.record_calls() as tally:
        workspace.build(FLAT)
    counted = tally.stages[SUMMARY.name]
    assert (counted["asked again"], counted[kind], counted["failed"]) == (1, 1, 0)
    assert len(server.requests) == 5
    assert drawn(workspace, FLAT) == BRIDGED_TREE
    assert failed(workspace, "summary_tree") == []


def test_another_seed_language_or_parameter_is_another_part(server: OpenAIServer, tmp_path: Path) -> None:
    workspace = opened(tmp_path, server, BRIDGED)
    workspace.build(FLAT, FLAT.model_copy(update={"threshold": 0.5}))
    assert len([1 for record in workspace.manifest.parts.values() if record.name == "summary_tree"]) == 2
    first, other = (set(nodes(workspace, tree)) for tree in (FLAT, FLAT.model_copy(update={"threshold": 0.5})))
    assert first & other == {document.id for document in BRIDGED}  # summaries are named by the tree too
