"""SiReRAG's clusters of both trees, and their estimate against a run."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from made_language import answering
from made_trees import nodes, notes, opened, write
from openai_server import OpenAIServer

from ragindex.corpus import Corpus
from ragindex.estimate import estimate
from ragindex.index.index import Index
from ragindex.interfaces.llm import LLMSettings
from ragindex.parts.trees.aggregates import Aggregates
from ragindex.parts.trees.summary_tree import SummaryTree
from ragindex.parts.trees.tree_pool import TreePool
from ragindex.plugins import registry
from ragindex.types import Document
from ragindex_eval.data import worlds
from ragindex_retrievers.sirerag.method import SiReRAG

TOWNS = [
    Document("1", "", "ANN met BOB @1,0,0", {"year": 1}),
    Document("2", "", "BOB lives in ULM @0,1,0", {"year": 2}),
    Document("3", "", "EVE sleeps @0,0,1", {"year": 2}),
]
"""BOB and EVE have an aggregate; ANN and ULM are named once, where another is named too."""
SUMMARISED = SiReRAG(pool=TreePool(trees=(SummaryTree(stop_at=1), SummaryTree(over=Aggregates(), stop_at=1))))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with answering(monkeypatch, write) as running:
        yield running


def test_cross_tree_clusters_the_nodes_of_both_on_every_level(server: OpenAIServer, tmp_path: Path) -> None:
    """First passages and aggregates together; then the summaries of these, of the passages and of the aggregates."""
    crossed = SUMMARISED.model_copy(update={"pool": SUMMARISED.pool.model_copy(update={"cross_tree": True})})
    without = crossed.model_copy(update={"pool": crossed.pool.model_copy(update={"relatedness_summaries": False})})
    with_propositions = without.model_copy(update={"pool": without.pool.model_copy(update={"propositions": True})})
    workspace = opened(tmp_path, server, TOWNS)
    workspace.build(crossed, without, with_propositions)
    assert clusters(nodes(workspace, crossed.pool)) == [
        ("aggregates", 1, ["aggregate"] * 2),
        ("passages", 1, ["passage"] * 3),
        ("tree_pool", 1, ["aggregate"] * 2 + ["passage"] * 3),
        ("tree_pool", 2, ["summary"] * 3),
    ]
    assert "9 nodes: 4 of passages, 3 of aggregates, 2 of tree_pool." in notes(workspace, "tree_pool")
    fewer = [
        ("passages", 1, ["passage"] * 3),
        ("tree_pool", 1, ["aggregate"] * 2 + ["passage"] * 3),
    ]  # the aggregates repeat lines of the passages: both clusters show the same, and have one summary
    assert clusters(nodes(workspace, without.pool)) == clusters(nodes(workspace, with_propositions.pool)) == fewer
    assert len(nodes(workspace, with_propositions.pool)) == len(nodes(workspace, without.pool)) + 3


def clusters(tree_nodes: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, int, list[str]]]:
    """Of each summary the tree, the level and the kinds of its children."""
    rows = [row for row in tree_nodes.values() if row["children"]]
    return sorted(
        (row["tree"], int(row["level"]), sorted(tree_nodes[child]["kind"] for child in row["children"])) for row in rows
    )


def test_the_estimate_counts_cross_tree_summaries(tmp_path: Path) -> None:
    """Built by the rules with lsa it is what the estimate builds: one call a summary."""
    documents = tuple(worlds.make_documents(60))
    scheme = registry.scheme("sirerag(base=bm25, pool=tree_pool(cross_tree=true))")
    estimates = estimate(
        Corpus("world", "world", documents, 0, (), True), [scheme], registry.llm("openai:small"), LLMSettings()
    )
    with Index.open(tmp_path, encoder="lsa", chunking=None, create=True) as workspace:
        workspace.add(documents)
        workspace.build(scheme)
        summaries = clusters(nodes(workspace, scheme.pool))  # type: ignore[attr-defined]
    assert {entry.task: entry.calls for entry in estimates}["summary"] == len(summaries)
    assert {tree for tree, _, _ in summaries} == {"passages", "aggregates", "tree_pool"}
