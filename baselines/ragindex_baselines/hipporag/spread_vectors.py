"""Passage vectors spread over the phrase graph: they make a walk from all passages at once cheap at query time."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from ragindex.index import versioned_files
from ragindex.interfaces import BuildContext, Collection, Floats, Part, ReadContext, SearchKind
from ragindex.parts.records import Doubles
from ragindex.parts.text.passages import Passages
from ragindex.parts.triples.sparse_graph import AnyIntegers
from ragindex.parts.vectors.encoded_names import Coder
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins.registry import PartField
from ragindex.retrieval.fusion import ROUNDING, scores_differ
from ragindex_baselines.hipporag.phrase_graph import PhraseGraph
from ragindex_baselines.hipporag.weighted_graph import WeightedGraph, run_power_iteration

_DATA_NAME = "spread vectors"
_WALKS = 64
"""Dimensions processed per walk; fewer if the graph has many nodes."""
_BLOCK_BYTES = 1 << 28
"""Limit on the memory of these dimensions in bytes; at least one dimension is processed, whatever the graph's size."""
_ROWS = 8192
_TOLERANCE = 1e-6


class SpreadVectors(Part["PassageSpread"]):
    """For each passage, the value of a walk that every passage resets with its own vector.

    A walk is linear in its reset weights, and the reset weight of a passage is linear in the question: its
    cosine minus the lowest of all, divided by their range. The walk from all passages is therefore computed
    once, here, for each dimension; its value at a passage for a question is a dot product. APPNP (Klicpera et
    al. 2019) smooths features with the same operator.
    """

    version: ClassVar[int] = 1
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset()
    graph: PartField = Field(default=PhraseGraph(), description="Graph that is walked.")
    damping: float = Field(
        default=0.5, ge=0, lt=1, description="Probability of following an edge instead of resetting."
    )

    def inputs(self) -> tuple[Part[Any], ...]:
        """Return the graph and the vectors of its passages."""
        return (self.graph, Vectors(of=Passages()))

    def finish(self, context: BuildContext) -> None:
        """Repeat the walk from all passages.

        Its input is in a scratch file meanwhile, one dimension after the other.
        """
        graph, vectors = context.inputs[0].graph, context.inputs[1]
        shape = ((vectors.schema.dimensions or 0) + 1, max(vectors.count(), len(graph.passages)))
        with versioned_files.scratch_array(_DATA_NAME, context.folder, shape) as columns:
            spread(graph, columns, _copy_vectors(vectors, graph.passages, columns), self.damping)
            values = columns[:, : len(graph.passages)]
            name = versioned_files.save_version(
                _DATA_NAME, context.folder, lambda partial: _write(graph.passages, values, partial)
            )
        versioned_files.record_versions([name], context, "folders")

    def open(self, context: ReadContext) -> "PassageSpread":
        """Open the vectors of the sync that the reader is pinned to."""
        folder = context.folder / versioned_files.current_version(context.collection("folders"))
        with versioned_files.open_files(_DATA_NAME, folder):
            passages = versioned_files.read_texts(folder / "passages.arrow")
            vectors = versioned_files.read_values(folder / "vectors.npy", (len(passages), -1))
            ones = versioned_files.read_values(folder / "ones.npy", (len(passages),))
        return PassageSpread(passages, vectors, ones)


@dataclass(frozen=True, slots=True)
class PassageSpread:
    """Open spread vectors. Row i belongs to `passages[i]` (sorted ids).

    `vectors` are the spread vectors; `ones` are the values of a walk that every passage resets by 1. Passages
    with a zero vector reset nothing. The arrays are read from memory-mapped files.
    """

    passages: pa.Array
    vectors: Floats
    ones: Floats

    def values(self, rows: Any, vector: Floats, low: float, high: float) -> Doubles:
        """Return the values of a question's walk at the passages `rows`.

        `low` and `high` are the lowest and highest cosine of the question with any passage. If they do not
        differ, every passage resets by 1.
        """
        ones: Doubles = self.ones[rows].astype(np.float64)
        if not scores_differ(low, high):
            return ones
        # einsum computes row by row, so equal rows have equal products
        products: Doubles = np.einsum("ij,j->i", self.vectors[rows], vector, dtype=np.float64)
        above = products - low * ones
        # without the cut at ROUNDING, the last passage would be a hit on some engines
        return np.where(above > ROUNDING, above, 0.0) / (high - low)


def _copy_vectors(vectors: Collection, passages: pa.Array, columns: Floats) -> AnyIntegers:
    """Copy the vector of record i into column i of `columns` (dimensions + 1, …), with 1 below it if it is not zero.

    Return the place of each record's passage in `passages`, -1 if it is missing.
    """
    ids, at = Coder(), 0
    for batch in vectors.scan(("vector",)):
        values = batch.column("vector").flatten().to_numpy(zero_copy_only=False).reshape(len(batch), -1)
        columns[:-1, at : at + len(batch)] = values.T
        columns[-1, at : at + len(batch)] = values.any(axis=1)
        ids.add(batch.column("id"))
        at += len(batch)
    return ids.among(passages)


def spread(graph: WeightedGraph, columns: Floats, places: AnyIntegers, damping: float) -> None:
    """Replace the rows of `columns`, which belong to the passages `places`, by the values of their walks.

    A few rows are walked at a time, because the graph has many more nodes than passages.
    """
    matrix, nodes, first, known = graph.matrix(), len(graph.degrees), len(graph.phrases), places >= 0
    walks = max(1, min(_WALKS, _BLOCK_BYTES // (4 * columns.itemsize * max(1, nodes))))
    for start in range(0, len(columns), walks):
        block = columns[start : start + walks]
        reset = np.zeros((nodes, len(block)), np.float32)
        reset[first + places[known]] = block[:, : len(places)][:, known].T
        block[:, : nodes - first] = run_power_iteration(matrix, graph.degrees, reset, damping, _TOLERANCE)[first:].T


def _write(passages: pa.Array, values: Floats, folder: Path) -> None:
    """Write the spread vectors. The last row of `values` (dimensions + 1, passages) becomes `ones`."""
    blocks = (values[:-1, start : start + _ROWS].T for start in range(0, len(passages), _ROWS))
    versioned_files.write_texts(folder / "passages.arrow", passages)
    versioned_files.write_rows(folder / "vectors.npy", (len(passages), len(values) - 1), blocks)
    versioned_files.write_numbers(folder / "ones.npy", values[-1])
