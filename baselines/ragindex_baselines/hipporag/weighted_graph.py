"""The weighted graph of phrases and passages, and walks over it: their seeds, and the scores of passages.

A walk is personalised PageRank (Page et al. 1999; Haveliwala 2002), by local push or by power iteration. From a node it
follows, with probability `damping`, an edge drawn by weight; otherwise it returns to a seed. At a node without edges,
the share that would follow an edge is lost. In igraph it returns to the seeds instead, which multiplies all values by
the same number and changes no ranking. Reset weights are used as given, not normalised to a sum of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse

from ragindex.parts.records import Doubles
from ragindex.parts.triples.sparse_graph import AnyIntegers, places

Weights: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EdgeRows:
    """Sparse rows of edges: node i has `ends[starts[i] : stops[i]]`, with `weights` that sum to `degrees[i]`."""

    starts: AnyIntegers
    stops: AnyIntegers
    ends: AnyIntegers
    weights: Weights
    degrees: Doubles


@dataclass(frozen=True, slots=True)
class WeightedGraph:
    """The graph. Its nodes are places: first the sorted keys of `phrases`, then the sorted ids of `passages`.

    The edges of node i are at `starts[i]` to `starts[i + 1]`, and each edge is stored in both directions. A
    phrase's edges to passages start at `splits[i]`. The arrays are read from memory-mapped files.
    Thread-safe.
    """

    phrases: pa.Array
    passages: pa.Array
    starts: AnyIntegers
    splits: AnyIntegers
    ends: AnyIntegers
    weights: Weights
    degrees: Doubles
    phrase_degrees: Doubles

    @property
    def all_edges(self) -> EdgeRows:
        """Return all edges."""
        return EdgeRows(self.starts[:-1], self.starts[1:], self.ends, self.weights, self.degrees)

    @property
    def among_phrases(self) -> EdgeRows:
        """Return the edges between phrases."""
        return EdgeRows(self.starts[: len(self.phrases)], self.splits, self.ends, self.weights, self.phrase_degrees)

    @property
    def passage_counts(self) -> AnyIntegers:
        """Return the number of passages that contain each phrase, (phrases,)."""
        return self.starts[1 : len(self.phrases) + 1] - self.splits

    def matrix(self) -> "sparse.csr_matrix[Any]":
        """Return the symmetric adjacency matrix (nodes, nodes); passages start at `len(phrases)`."""
        nodes = len(self.starts) - 1
        return sparse.csr_matrix((self.weights, self.ends, self.starts), shape=(nodes, nodes))

    def places(self, keys: Sequence[str]) -> AnyIntegers:
        """Return the place of each phrase, -1 if it is not in the graph."""
        return places(self.phrases, keys)

    def contains(self, keys: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return for each phrase whether a passage of the graph contains it."""
        nodes = self.places(keys)
        inside: npt.NDArray[np.bool_] = (nodes >= 0) & (self.passage_counts[nodes] > 0)
        return inside


def run_power_iteration(
    matrix: Any, degrees: Doubles, reset: npt.NDArray[Any], damping: float, tolerance: float
) -> npt.NDArray[Any]:
    """Return the PageRank values of walks over the whole graph, in the shape of `reset`: (n,), or (n, walks).

    The iteration ends when the mass that still flows is at most `tolerance` of the initial mass, so each
    value is too small by at most `tolerance` times the sum of its `reset`. `matrix` (n, n) holds the weights
    of the edges, `degrees` their sums. At most four arrays of the size of `reset`, itself included, are in
    memory at a time.
    """
    share = np.divide(damping, degrees, out=np.zeros(len(degrees)), where=degrees > 0).astype(reset.dtype)
    share = share if reset.ndim == 1 else share[:, None]
    flow, values, left = share * reset, (1 - damping) * reset, 1.0
    while left > tolerance:
        flow, left = matrix @ flow, left * damping
        values += (1 - damping) * flow
        flow *= share
    return values


# ---------------------------------------------------------------- seeds


def fact_seeds(sides: AnyIntegers, cosines: Doubles, passage_counts: AnyIntegers) -> tuple[AnyIntegers, Doubles]:
    """Return the phrases of the facts, sorted, and their reset weights.

    `sides` (n, 2) are the places of subjects and objects, negative if there is none; `passage_counts` is the number of
    passages that contain each phrase. The weight of a phrase is the cosine of its fact divided by the
    phrase's number of passages. For a phrase of several facts it is the mean of these.
    """
    both = sides.copy()
    both[both[:, 0] == both[:, 1], 1] = -1
    known = (both >= 0) & (cosines[:, None] > 0)
    nodes, facts = np.unique(both[known], return_inverse=True)
    total = _sum_by_place(facts, np.broadcast_to(cosines[:, None], both.shape)[known], len(nodes))
    return nodes, total / np.bincount(facts, minlength=len(nodes)) / passage_counts[nodes]


def entity_seeds(nodes: AnyIntegers, passage_counts: AnyIntegers) -> tuple[AnyIntegers, Doubles]:
    """Return the distinct phrases of a question's entities, and their reset weights.

    The weight of a phrase is its specificity: 1 / number of passages that contain it (`passage_counts`).
    """
    seeds = np.unique(nodes[nodes >= 0])
    return seeds, 1.0 / passage_counts[seeds]


# ---------------------------------------------------------------- the walk


def push(links: EdgeRows, nodes: AnyIntegers, mass: Doubles, damping: float, tolerance: float) -> Doubles:
    """Return the values (n,) of a walk from distinct `nodes` with reset weights `mass`, by local forward push.

    Source: Andersen, Chung and Lang, FOCS 2006; here, all nodes of a round are pushed at once. The residual
    of a node is pushed along its edges while it exceeds `tolerance` * sum(`mass`) times the degree of the
    node. In an undirected graph, each value is then too small by at most that product, and at most 1 /
    (`tolerance` * (1 - `damping`)) units of degree are pushed, however large the graph is.
    """
    estimate, residual = np.zeros(len(links.degrees)), np.zeros(len(links.degrees))
    place = np.empty(len(links.degrees), np.int64)
    residual[nodes] = mass
    least = tolerance * mass.sum()
    while len(nodes := _deduplicate(nodes[residual[nodes] > least * links.degrees[nodes]], place)):
        amount, degrees = residual[nodes], links.degrees[nodes]
        estimate[nodes] += (1 - damping) * amount
        residual[nodes] = 0
        edges, lengths = _list_edges(links.starts[nodes], links.stops[nodes])
        share = np.repeat(damping * amount / np.where(degrees > 0, degrees, 1), lengths)
        nodes = links.ends[edges]
        np.add.at(residual, nodes, links.weights[edges] * share)
    return estimate + (1 - damping) * residual


def _deduplicate(nodes: AnyIntegers, place: AnyIntegers) -> AnyIntegers:
    """Return the distinct nodes without sorting; `place` (n,) is a work array."""
    numbers = np.arange(len(nodes))
    place[nodes] = numbers
    distinct: AnyIntegers = nodes[place[nodes] == numbers]
    return distinct


def _list_edges(starts: AnyIntegers, stops: AnyIntegers) -> tuple[AnyIntegers, AnyIntegers]:
    """Return the positions from each start to its stop, concatenated, and the number of positions of each."""
    lengths = stops - starts
    return np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum()), lengths


# ---------------------------------------------------------------- passages


def phrase_sums(graph: WeightedGraph, values: Doubles) -> Doubles:
    """Return for each passage (passages,) the sum of its phrases' values; `values` has one per phrase."""
    reached = np.flatnonzero(values)
    edges, lengths = _list_edges(graph.splits[reached], graph.starts[reached + 1])
    holding = graph.ends[edges] - len(graph.phrases)
    return _sum_by_place(holding, np.repeat(values[reached], lengths), len(graph.passages))


def most(values: Doubles, count: int) -> AnyIntegers:
    """Return the places of the `count` greatest values above 0, unordered."""
    places = np.flatnonzero(values)
    if len(places) <= count:
        return places
    return places[np.argpartition(-values[places], count)[:count]]


def sort_best_first(places: AnyIntegers, values: Doubles, count: int | None = None) -> tuple[AnyIntegers, Doubles]:
    """Return the places with a value above 0 and the values, best first, equal ones by place; `count` or more."""
    rows = np.flatnonzero(values > 0)
    if count is not None and count < len(rows):
        rows = rows[values[rows] >= np.partition(values[rows], -count)[-count]]
    rows = rows[np.lexsort((places[rows], -values[rows]))]
    return places[rows], values[rows]


def _sum_by_place(places: AnyIntegers, weights: npt.NDArray[Any], count: int) -> Doubles:
    return np.asarray(np.bincount(places, weights, count), np.float64)
