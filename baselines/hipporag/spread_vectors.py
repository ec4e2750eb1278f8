"""Vectors of passages after a walk over the phrase graph: what makes a walk from all passages at once cost little."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from baselines.hipporag.steps import Values, power
from ragindex.interfaces import Change, Collection, Floats, Part, Site, Uses
from ragindex.parts import kept_files
from ragindex.parts.passages import Passages
from ragindex.parts.phrase_graph import PhraseGraph, WeightedGraph
from ragindex.parts.vectors import Vectors
from ragindex.plugin import Plugin
from ragindex.registry import PartField

_WHAT = "spread vectors"
_COLUMNS = 64
_TOLERANCE = 1e-6


class SpreadVectors(Plugin):
    """What a walk brings to each passage, when every passage resets it with its vector.

    A walk is linear in its reset weights, and a passage's weight is linear in the question: its cosine, less the lowest
    of all, over their range. So the walk from all passages is made once, here, for each dimension, and what it brings
    to a passage for a question is one product. (The same operator smooths features in APPNP, Klicpera et al. 2019.)
    """

    version: ClassVar[int] = 1
    uses: ClassVar[Uses] = frozenset()
    graph: PartField = PhraseGraph()
    damping: float = Field(default=0.5, ge=0, lt=1)

    def inputs(self) -> tuple[Part[Any], ...]:
        """The graph and the vectors of its passages."""
        return (self.graph, Vectors(of=Passages()))

    def apply(self, change: Change, site: Site) -> None:
        """Nothing: a change of one passage changes what a walk brings to others."""

    def finish(self, site: Site) -> None:
        """Walk anew, from all passages."""
        graph: WeightedGraph = site.inputs[0].graph
        reset = _rows(site.inputs[1], graph.passages)
        spread = Spread(graph.passages, *_spread(graph, reset, self.damping))
        name = kept_files.save(_WHAT, site.folder, lambda partial: _write(spread, partial))
        kept_files.hold([name], site, "folders")

    def open(self, site: Site) -> "Spread":
        """The vectors of the sync that the reader is pinned to."""
        return _read(site.folder / kept_files.in_place(site.collection("folders")))


@dataclass(frozen=True, slots=True)
class Spread:
    """Row i belongs to `passages[i]` (sorted ids): its spread vector, and what it has where every passage resets by 1.

    Passages whose vector is zero reset nothing. Read from memory-mapped files.
    """

    passages: pa.Array
    vectors: Floats
    ones: Floats

    def values(self, rows: Any, vector: Floats, low: float, high: float) -> Values:
        """What walks bring to the passages `rows` for a question, whose cosines with all passages are `low` to `high`.

        Where these are equal, every passage resets by 1.
        """
        ones: Values = self.ones[rows].astype(np.float64)
        if not high > low:
            return ones
        # row by row, so that equal rows have equal products
        products: Values = np.einsum("ij,j->i", self.vectors[rows], vector, dtype=np.float64)
        return (products - low * ones) / (high - low)


def _rows(vectors: Collection, passages: pa.Array) -> Floats:
    """(passages, dimensions): zero for a passage without a vector."""
    rows = np.zeros((len(passages), vectors.schema.dimensions or 0), np.float32)
    for batch in vectors.scan(("vector",)):
        place = pc.index_in(batch.column("id").cast(passages.type), value_set=passages)
        known = place.is_valid().to_numpy(zero_copy_only=False)
        values = batch.column("vector").flatten().to_numpy(zero_copy_only=False).reshape(len(batch), -1)
        rows[place.drop_null().to_numpy()] = values[known]
    return rows


def _spread(graph: WeightedGraph, reset: Floats, damping: float) -> tuple[Floats, Floats]:
    """A few dimensions at a time: of all nodes there are many more than passages."""
    matrix, first = graph.matrix(), len(graph.phrases)
    resets = np.concatenate([reset, reset.any(axis=1, keepdims=True).astype(np.float32)], axis=1)
    spread = np.empty_like(resets)
    for start in range(0, resets.shape[1], _COLUMNS):
        columns = resets[:, start : start + _COLUMNS]
        whole = np.concatenate([np.zeros((first, columns.shape[1]), np.float32), columns])
        spread[:, start : start + _COLUMNS] = power(matrix, graph.degrees, whole, damping, _TOLERANCE)[first:]
    return np.ascontiguousarray(spread[:, :-1]), np.ascontiguousarray(spread[:, -1])


def _write(spread: Spread, folder: Path) -> None:
    kept_files.write_texts(folder / "passages.arrow", spread.passages)
    kept_files.write_numbers(folder / "vectors.npy", spread.vectors)
    kept_files.write_numbers(folder / "ones.npy", spread.ones)


def _read(folder: Path) -> Spread:
    with kept_files.reading(_WHAT, folder):
        passages = kept_files.read_texts(folder / "passages.arrow")
        vectors, ones = (kept_files.read_numbers(folder / f"{name}.npy") for name in ("vectors", "ones"))
    return Spread(passages, vectors, ones)
