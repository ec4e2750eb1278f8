"""Coverage of gold documents by the clusters of summary trees (SiReRAG, section 3), and the sizes of the node pools.

The gold documents of a question are a gold cluster, and a grouping predicts clusters of documents. Both are split into
pairs of documents: a gold pair is covered if some predicted cluster holds both of its documents. Table 1 of the paper
takes as gold clusters the supporting documents ("supporting only"), and all candidates of a question, distractors too
("all").
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import comb
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from ragindex.filters import All, Range, Terms
from ragindex.index.index import Index
from ragindex.interfaces import Collection, Part, Scheme
from ragindex.parts.text.topics import Topics
from ragindex.parts.trees import tree_nodes
from ragindex.parts.trees.aggregates import Aggregates
from ragindex.parts.trees.soft_clusters import Clustering, soft_clusters
from ragindex.parts.trees.summary_tree import SUMMARY_KIND, SummaryTree
from ragindex.parts.trees.tree_pool import TreePool
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins.registry import label
from ragindex_eval.metrics.retrieval import NO_EQUIVALENTS
from ragindex_eval.results.records import Coverage, Grouping

DocumentPair: TypeAlias = tuple[str, str]


def measure_coverage(
    index: Index,
    schemes: Mapping[str, Scheme],
    gold: Iterable[Iterable[str]],
    same: Mapping[str, str] = NO_EQUIVALENTS,
    candidates: Iterable[Iterable[str]] = (),
) -> Coverage | None:
    """Measure the coverage of the methods in `schemes` (by label) that search trees. Return None if none does.

    `gold` holds the gold documents of each question, `candidates` all that the benchmark lists with it. `same` maps
    documents of equal text to the one that represents them (`gold_classes.same`). The groupings are the first level of
    summaries of each tree, the documents about the same entity if the tree is over aggregates, and, for methods that
    search topic vectors, clusters of these vectors made as a tree clusters its leaves.
    """
    trees, pools = _find_trees(schemes), _measure_pools(index, schemes)
    if not pools:
        return None
    clusters: dict[str, list[list[str]]] = {}
    for tree in trees:
        clusters[f"{label(tree)}, level 1"] = _read_summarized(index.open_part(tree), tree.tree)
        if isinstance(tree.over, Aggregates):
            clusters[label(tree.over)] = [
                ids
                for batch in index.open_part(tree.over).scan(("doc_ids",))
                for ids in batch.column("doc_ids").to_pylist()
            ]
    for topics in {part: None for scheme in schemes.values() for part in scheme.parts() if _is_topic_vectors(part)}:
        clusters[label(topics.of)] = _cluster_topics(index, topics)
    needed, listed = ([sorted({same.get(id, id) for id in ids}) for ids in groups] for groups in (gold, candidates))
    needed = [ids for ids in needed if len(ids) > 1]
    return count_coverage(clusters, needed, pools, index.counts().documents, same, listed)


def count_coverage(
    clusters: Mapping[str, Sequence[Sequence[str]]],
    gold: Sequence[Sequence[str]],
    pools: Mapping[str, int],
    documents: int,
    same: Mapping[str, str] = NO_EQUIVALENTS,
    candidates: Sequence[Sequence[str]] = (),
) -> Coverage:
    """Count the gold pairs that share a cluster, for each grouping.

    `documents` is the number of documents in the index. `gold` and `candidates` hold distinct documents for each
    question, already mapped by `same`. Run time grows with gold pairs and cluster memberships, not with pairs of
    clusters.
    """
    pairs, listed = _split_pairs(gold), _split_pairs(candidates)
    covered = {name: _find_covered_pairs(some, pairs, same) for name, some in clusters.items()}
    groupings = tuple(
        Grouping(
            name,
            len(some),
            sum(map(len, some)) / max(1, len(some)),
            min(1.0, sum(comb(len(cluster), 2) for cluster in some) / max(1, comb(documents, 2))),
            len(covered[name]),
            {other: len(covered[name] & pairs_of_other) for other, pairs_of_other in covered.items() if other != name},
            len(_find_covered_pairs(some, listed, same)),
        )
        for name, some in clusters.items()
    )
    return Coverage(len(gold), len(pairs), groupings, dict(pools), len(listed))


def _split_pairs(groups: Iterable[Iterable[str]]) -> set[DocumentPair]:
    return {pair for ids in groups for pair in combinations(sorted(ids), 2)}


def _find_covered_pairs(
    clusters: Sequence[Sequence[str]], pairs: Iterable[DocumentPair], same: Mapping[str, str]
) -> set[DocumentPair]:
    of: dict[str, set[int]] = {}
    for number, cluster in enumerate(clusters):
        for id in cluster:
            of.setdefault(same.get(id, id), set()).add(number)
    return {(first, second) for first, second in pairs if not of.get(first, set()).isdisjoint(of.get(second, set()))}


def _read_summarized(nodes: Collection, tree: str) -> list[list[str]]:
    """Return the documents under each first-level summary of one tree."""
    where = All((Terms("kind", (SUMMARY_KIND,)), Range("level", 1, 1)))
    rows = [row for batch in nodes.scan(("doc_ids", "tree"), where) for row in batch.to_pylist()]
    return [row["doc_ids"] for row in rows if row["tree"] == tree]


def _cluster_topics(index: Index, part: Vectors) -> list[list[str]]:
    """Cluster topic vectors, and return the documents of each cluster of at least two records.

    Nothing is summarized, so the clusters need no size limit.
    """
    nodes = tree_nodes.read_leaves(index.open_part(part), "coverage")
    if not nodes:
        return []
    vectors = np.stack([node.vector for node in nodes])
    clusters = soft_clusters(vectors, [0.0] * len(nodes), np.inf, Clustering(seed=index.seed))
    return [sorted({id for row in rows for id in nodes[row].doc_ids}) for rows in clusters if len(rows) > 1]


def _is_topic_vectors(part: Part[Any]) -> TypeGuard[Vectors]:
    return isinstance(part, Vectors) and isinstance(part.of, Topics)


def _find_trees(schemes: Mapping[str, Scheme]) -> list[SummaryTree]:
    trees: dict[SummaryTree, None] = {}
    for scheme in schemes.values():
        for part in scheme.parts():
            inside = part.inputs() if isinstance(part, TreePool) else (part,)
            trees |= dict.fromkeys(inner for inner in inside if isinstance(inner, SummaryTree))
    return list(trees)


def _measure_pools(index: Index, schemes: Mapping[str, Scheme]) -> dict[str, int]:
    pools: dict[str, int] = {}
    for name, scheme in schemes.items():
        parts: list[Part[Any]] = [part for part in scheme.parts() if isinstance(part, TreePool | SummaryTree)]
        if parts:
            pools[name] = max(index.open_part(part).count() for part in parts)
    return pools
