"""What trees group together of what questions need together (SiReRAG, section 3), and how large the pools are.

The documents that a question needs are a gold cluster; a grouping predicts clusters of documents. All are taken apart
into pairs: a gold pair is covered where some cluster holds both.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import comb
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from ragindex.filters import All, Range, Terms
from ragindex.interfaces import Collection, Part, Scheme
from ragindex.parts.text.topics import Topics
from ragindex.parts.trees import tree_nodes
from ragindex.parts.trees.aggregates import Aggregates
from ragindex.parts.trees.soft_clusters import Clustering, soft_clusters
from ragindex.parts.trees.summary_tree import SUMMARY_KIND, SummaryTree
from ragindex.parts.trees.tree_pool import TreePool
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins.registry import label
from ragindex.workspace.workspace import Workspace
from ragindex_eval.metrics.retrieval import NO_TWINS

DocumentPair: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Grouping:
    """What one way of grouping covers: `also` are its pairs that another covers too, by that one's name.

    `documents` are those of a cluster, in the mean. `chance` is the share of all pairs of documents that are in a
    cluster together, a pair once for each: what gold pairs drawn at random would be covered to, at most.
    """

    name: str
    clusters: int
    documents: float
    chance: float
    pairs: int
    also: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Coverage:
    """Over the distinct pairs of documents that a question needs together; `pools` are the nodes a method searches."""

    questions: int
    pairs: int
    groupings: tuple[Grouping, ...]
    pools: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        groupings = [{**asdict(one), "also": dict(one.also)} for one in self.groupings]
        return {"questions": self.questions, "pairs": self.pairs, "groupings": groupings, "pools": dict(self.pools)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Coverage":
        """Raises KeyError and TypeError for what is none."""
        groupings = tuple(Grouping(**one) for one in value["groupings"])
        return cls(value["questions"], value["pairs"], groupings, dict(value["pools"]))


def measure_coverage(
    workspace: Workspace,
    schemes: Mapping[str, Scheme],
    gold: Iterable[Iterable[str]],
    same: Mapping[str, str] = NO_TWINS,
) -> Coverage | None:
    """Of the methods, by label, that search trees; `gold` are the documents of each question. None where none does.

    `same` are documents of equal text, with the one that all of them count as (`gold_classes.same`).
    A tree groups by its first level of summaries; aggregates group the documents that say something of one entity.
    Where a method searches the vectors of topics, these are clustered as a tree clusters its leaves.
    """
    trees, pools = _trees(schemes), _pools(workspace, schemes)
    if not pools:
        return None
    clusters: dict[str, list[list[str]]] = {}
    for tree in trees:
        clusters[f"{label(tree)}, level 1"] = _summarised(workspace.open_part(tree), tree.tree)
        if isinstance(tree.over, Aggregates):
            clusters[label(tree.over)] = _documents(workspace.open_part(tree.over))
    for topics in {part: None for scheme in schemes.values() for part in scheme.parts() if _of_topics(part)}:
        clusters[label(topics.of)] = _alike(workspace, topics)
    needed = [sorted({same.get(id, id) for id in ids}) for ids in gold]
    return count_coverage(clusters, [ids for ids in needed if len(ids) > 1], pools, workspace.counts().documents, same)


def count_coverage(
    clusters: Mapping[str, Sequence[Sequence[str]]],
    gold: Sequence[Sequence[str]],
    pools: Mapping[str, int],
    documents: int,
    same: Mapping[str, str] = NO_TWINS,
) -> Coverage:
    """The gold pairs that share a cluster, by grouping, among so many documents; `gold` has none twice, as by `same`.

    Work grows with gold pairs and memberships, not with pairs of clusters.
    """
    pairs = {pair for ids in gold for pair in combinations(sorted(ids), 2)}
    covered = {name: _covered(some, pairs, same) for name, some in clusters.items()}
    groupings = tuple(
        Grouping(
            name,
            len(some),
            sum(map(len, some)) / max(1, len(some)),
            min(1.0, sum(comb(len(one), 2) for one in some) / max(1, comb(documents, 2))),
            len(covered[name]),
            {other: len(covered[name] & found) for other, found in covered.items() if other != name},
        )
        for name, some in clusters.items()
    )
    return Coverage(len(gold), len(pairs), groupings, dict(pools))


def _covered(
    clusters: Sequence[Sequence[str]], pairs: Iterable[DocumentPair], same: Mapping[str, str]
) -> set[DocumentPair]:
    of: dict[str, set[int]] = {}
    for number, cluster in enumerate(clusters):
        for id in cluster:
            of.setdefault(same.get(id, id), set()).add(number)
    return {(one, other) for one, other in pairs if not of.get(one, set()).isdisjoint(of.get(other, set()))}


def _documents(nodes: Collection) -> list[list[str]]:
    return [ids for batch in nodes.scan(("doc_ids",)) for ids in batch.column("doc_ids").to_pylist()]


def _summarised(nodes: Collection, tree: str) -> list[list[str]]:
    """Of each summary of a tree's own on its first level."""
    where = All((Terms("kind", (SUMMARY_KIND,)), Range("level", 1, 1)))
    rows = [row for batch in nodes.scan(("doc_ids", "tree"), where) for row in batch.to_pylist()]
    return [row["doc_ids"] for row in rows if row["tree"] == tree]


def _alike(workspace: Workspace, part: Vectors) -> list[list[str]]:
    """The documents of each cluster of two records and more. Nothing is summarised, so none is too heavy."""
    nodes = tree_nodes.leaves(workspace.open_part(part), workspace.encoder, "coverage")
    if not nodes:
        return []
    vectors = np.stack([node.vector for node in nodes])
    found = soft_clusters(vectors, [0.0] * len(nodes), np.inf, Clustering(seed=workspace.seed))
    return [sorted({id for row in rows for id in nodes[row].doc_ids}) for rows in found if len(rows) > 1]


def _of_topics(part: Part[Any]) -> TypeGuard[Vectors]:
    return isinstance(part, Vectors) and isinstance(part.of, Topics)


def _trees(schemes: Mapping[str, Scheme]) -> list[SummaryTree]:
    found: dict[SummaryTree, None] = {}
    for scheme in schemes.values():
        for part in scheme.parts():
            inside = part.inputs() if isinstance(part, TreePool) else (part,)
            found |= dict.fromkeys(one for one in inside if isinstance(one, SummaryTree))
    return list(found)


def _pools(workspace: Workspace, schemes: Mapping[str, Scheme]) -> dict[str, int]:
    pools: dict[str, int] = {}
    for name, scheme in schemes.items():
        parts: list[Part[Any]] = [part for part in scheme.parts() if isinstance(part, TreePool | SummaryTree)]
        if parts:
            pools[name] = max(workspace.open_part(part).count() for part in parts)
    return pools
