"""The graph of phrases and passages, and personalised PageRank over the whole of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse

from ragindex.parts.support.arrays import Doubles
from ragindex.parts.triples.sparse_graph import AnyIntegers, places

Weights: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Links:
    """Rows of edges: node i has `ends[starts[i] : stops[i]]`, with `weights` that sum to `degrees[i]`."""

    starts: AnyIntegers
    stops: AnyIntegers
    ends: AnyIntegers
    weights: Weights
    degrees: Doubles


@dataclass(frozen=True, slots=True)
class WeightedGraph:
    """Nodes are places: first the sorted keys of `phrases`, then the sorted ids of `passages`.

    The edges of node i lie at `starts[i]` to `starts[i + 1]`, both directions of each edge being there; those of a
    phrase that lead to passages begin at `splits[i]`. Read from memory-mapped files. Thread-safe.
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
    def whole(self) -> Links:
        """All edges."""
        return Links(self.starts[:-1], self.starts[1:], self.ends, self.weights, self.degrees)

    @property
    def among_phrases(self) -> Links:
        """The edges between phrases."""
        return Links(self.starts[: len(self.phrases)], self.splits, self.ends, self.weights, self.phrase_degrees)

    @property
    def held(self) -> AnyIntegers:
        """(phrases,): how many passages hold each phrase."""
        return self.starts[1 : len(self.phrases) + 1] - self.splits

    def matrix(self) -> "sparse.csr_matrix[Any]":
        """(nodes, nodes), symmetric; its rows and columns from `len(phrases)` on are the passages."""
        nodes = len(self.starts) - 1
        return sparse.csr_matrix((self.weights, self.ends, self.starts), shape=(nodes, nodes))

    def places(self, keys: Sequence[str]) -> AnyIntegers:
        """The place of each phrase, -1 for one that is not there."""
        return places(self.phrases, keys)


def run_power_iteration(
    matrix: Any, degrees: Doubles, reset: npt.NDArray[Any], damping: float, tolerance: float
) -> npt.NDArray[Any]:
    """The values of walks over the whole graph, like `reset`: (n,), or (n, walks), one a column.

    By power iteration, until what still flows is at most `tolerance` of what there was: no value is too small by more
    than that times the sum of its `reset`. `matrix` (n, n) holds the weights of the edges, `degrees` their sums.
    Four arrays like `reset` at most are held at a time, itself included.
    """
    share = np.divide(damping, degrees, out=np.zeros(len(degrees)), where=degrees > 0).astype(reset.dtype)
    share = share if reset.ndim == 1 else share[:, None]
    flow, values, left = share * reset, (1 - damping) * reset, 1.0
    while left > tolerance:
        flow, left = matrix @ flow, left * damping
        values += (1 - damping) * flow
        flow *= share
    return values
