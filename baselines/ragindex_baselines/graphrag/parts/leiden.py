"""Communities of a weighted graph: the Leiden algorithm, applied again to communities that are too large."""

import graspologic_native
import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ragindex.parts.records import Integers

_SEED_LIMIT = 1 << 63


def communities(
    pairs: Integers, weights: npt.NDArray[np.float64], *, max_size: int, level: int, largest_component: bool, seed: int
) -> list[tuple[int, ...]]:
    """Return disjoint sets of nodes, each sorted, in order of their first nodes.

    `pairs` (n, 2) are the edges: sorted, without duplicates and self-loops. Communities of more than
    `max_size` nodes are split again, at most `level` times; one that the algorithm cannot split (a clique, a
    star) stays as it is. With `largest_component`, only nodes of the largest connected component are in a
    community (of equally large components, the one with the least node). Source: Traag, Waltman and van Eck
    2019, in graspologic's hierarchical form. The work of each split is linear in the edges; the same input
    and seed give the same result.
    """
    if largest_component and len(pairs):
        kept = _find_largest_component(pairs)
        pairs, weights = pairs[kept], weights[kept]
    if not len(pairs):
        return []
    edges = [(str(low), str(high), each) for (low, high), each in zip(pairs.tolist(), weights.tolist(), strict=True)]
    found = graspologic_native.hierarchical_leiden(edges, max_cluster_size=max_size, seed=seed % _SEED_LIMIT)
    deepest: dict[int, tuple[int, int]] = {}
    for one in found:
        if one.level <= level:
            node = int(one.node)
            deepest[node] = max(deepest.get(node, (-1, -1)), (one.level, one.cluster))
    members: dict[tuple[int, int], list[int]] = {}
    for node in sorted(deepest):
        members.setdefault(deepest[node], []).append(node)
    return [tuple(nodes) for nodes in members.values()]


def _find_largest_component(pairs: Integers) -> npt.NDArray[np.bool_]:
    nodes, places = np.unique(pairs, return_inverse=True)
    low, high = places.reshape(pairs.shape).T
    joined = coo_array((np.ones(len(pairs), np.int8), (low, high)), shape=(len(nodes), len(nodes)))
    _, component = connected_components(joined, directed=False)
    largest = np.bincount(component).argmax()  # components are numbered by their least node
    in_it: npt.NDArray[np.bool_] = component[low] == largest
    return in_it
