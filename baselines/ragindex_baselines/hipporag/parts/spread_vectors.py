"""Vectors of passages after a walk over the phrase graph: what makes a walk from all passages at once cost little."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from ragindex.interfaces import BuildContext, Collection, Floats, Part, ReadContext
from ragindex.parts.support.arrays import Doubles
from ragindex.parts.text.passages import Passages
from ragindex.parts.triples.sparse_graph import AnyIntegers
from ragindex.parts.vectors.encoded_names import Coder
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins.registry import PartField
from ragindex.retrieval.fusion import ROUNDING, scores_differ
from ragindex.workspace import versioned_files
from ragindex_baselines.hipporag.parts.phrase_graph import PhraseGraph
from ragindex_baselines.hipporag.weighted_graph import WeightedGraph, run_power_iteration

_WHAT = "spread vectors"
_WALKS = 64
"""Dimensions walked with at once; fewer where there are many nodes."""
_BLOCK_BYTES = 1 << 28
"""What these may take in memory; one dimension is walked with however many nodes there are."""
_ROWS = 8192
_TOLERANCE = 1e-6


class SpreadVectors(Part["PassageSpread"]):
    """What a walk brings to each passage, when every passage resets it with its vector.

    A walk is linear in its reset weights, and a passage's weight is linear in the question: its cosine, less the lowest
    of all, over their range. So the walk from all passages is made once, here, for each dimension, and what it brings
    to a passage for a question is one product. (The same operator smooths features in APPNP, Klicpera et al. 2019.)
    """

    version: ClassVar[int] = 1
    graph: PartField = Field(default=PhraseGraph(), description="Graph that is walked.")
    damping: float = Field(
        default=0.5, ge=0, lt=1, description="Probability of following an edge instead of resetting."
    )

    def inputs(self) -> tuple[Part[Any], ...]:
        """The graph and the vectors of its passages."""
        return (self.graph, Vectors(of=Passages()))

    def finish(self, context: BuildContext) -> None:
        """Walk anew, from all passages. What is walked with lies in a file meanwhile, a dimension after the other."""
        graph, vectors = context.inputs[0].graph, context.inputs[1]
        shape = ((vectors.schema.dimensions or 0) + 1, max(vectors.count(), len(graph.passages)))
        with versioned_files.scratch_array(_WHAT, context.folder, shape) as columns:
            spread(graph, columns, _read_in(vectors, graph.passages, columns), self.damping)
            values = columns[:, : len(graph.passages)]
            name = versioned_files.save_version(
                _WHAT, context.folder, lambda partial: _write(graph.passages, values, partial)
            )
        versioned_files.record_versions([name], context, "folders")

    def open(self, context: ReadContext) -> "PassageSpread":
        """The vectors of the sync that the reader is pinned to."""
        return _read(context.folder / versioned_files.current_version(context.collection("folders")))


@dataclass(frozen=True, slots=True)
class PassageSpread:
    """Row i belongs to `passages[i]` (sorted ids): its spread vector, and what it has where every passage resets by 1.

    Passages whose vector is zero reset nothing. Read from memory-mapped files.
    """

    passages: pa.Array
    vectors: Floats
    ones: Floats

    def values(self, rows: Any, vector: Floats, low: float, high: float) -> Doubles:
        """What walks bring to the passages `rows` for a question, whose cosines with all passages are `low` to `high`.

        Where these do not differ, every passage resets by 1.
        """
        ones: Doubles = self.ones[rows].astype(np.float64)
        if not scores_differ(low, high):
            return ones
        # row by row, so that equal rows have equal products
        products: Doubles = np.einsum("ij,j->i", self.vectors[rows], vector, dtype=np.float64)
        above = products - low * ones
        return np.where(above > ROUNDING, above, 0.0) / (high - low)  # else the last passage is a hit on some engines


def _read_in(vectors: Collection, passages: pa.Array, columns: Floats) -> AnyIntegers:
    """Let column i of `columns` (dimensions + 1, …) hold the vector of record i, and 1 where that is not zero.

    Where the passage of each record stands among `passages`, -1 for nowhere.
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
    """Replace the rows of `columns`, which belong to the passages `places`, by what walks bring to each passage.

    A few rows at a time, for of all nodes there are many more than passages.
    """
    matrix, nodes, first, known = graph.matrix(), len(graph.degrees), len(graph.phrases), places >= 0
    walks = max(1, min(_WALKS, _BLOCK_BYTES // (4 * columns.itemsize * max(1, nodes))))
    for start in range(0, len(columns), walks):
        block = columns[start : start + walks]
        reset = np.zeros((nodes, len(block)), np.float32)
        reset[first + places[known]] = block[:, : len(places)][:, known].T
        block[:, : nodes - first] = run_power_iteration(matrix, graph.degrees, reset, damping, _TOLERANCE)[first:].T


def _write(passages: pa.Array, values: Floats, folder: Path) -> None:
    """The last row of `values` (dimensions + 1, passages) is what there is where every passage resets by 1."""
    blocks = (values[:-1, start : start + _ROWS].T for start in range(0, len(passages), _ROWS))
    versioned_files.write_texts(folder / "passages.arrow", passages)
    versioned_files.write_rows(folder / "vectors.npy", (len(passages), len(values) - 1), blocks)
    versioned_files.write_numbers(folder / "ones.npy", values[-1])


def _read(folder: Path) -> PassageSpread:
    with versioned_files.open_files(_WHAT, folder):
        passages = versioned_files.read_texts(folder / "passages.arrow")
        vectors, ones = (versioned_files.read_numbers(folder / f"{name}.npy") for name in ("vectors", "ones"))
    return PassageSpread(passages, vectors, ones)
