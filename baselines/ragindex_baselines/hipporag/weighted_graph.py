"""The weighted graph of phrases and passages, and personalised PageRank by power iteration."""

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
    def whole(self) -> EdgeRows:
        """Return all edges."""
        return EdgeRows(self.starts[:-1], self.starts[1:], self.ends, self.weights, self.degrees)

    @property
    def among_phrases(self) -> EdgeRows:
        """Return the edges between phrases."""
        return EdgeRows(self.starts[: len(self.phrases)], self.splits, self.ends, self.weights, self.phrase_degrees)

    @property
    def held(self) -> AnyIntegers:
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
        found = self.places(keys)
        inside: npt.NDArray[np.bool_] = (found >= 0) & (self.held[found] > 0)
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
