"""The graph of phrases and passages (HippoRAG): what triples name, where they say it, and what sounds alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field
from scipy import sparse

from ragindex.interfaces import Change, Collection, Floats, Part, Site, Uses
from ragindex.language.rules import is_number
from ragindex.parts import kept_files
from ragindex.parts.columns import large_text
from ragindex.parts.encoded_names import distinct, keep
from ragindex.parts.near_pairs import Pairs, near_pairs
from ragindex.parts.passages import Passages
from ragindex.parts.sparse_graph import Integers, places
from ragindex.parts.triples import Triples
from ragindex.plugin import Plugin
from ragindex.registry import PartField

_WHAT = "phrase graph"
_TEXTS = ("phrases", "passages")
_NUMBERS = ("starts", "splits", "ends", "weights", "degrees", "phrase_degrees")
Weights: TypeAlias = npt.NDArray[np.float32]
Sums: TypeAlias = npt.NDArray[np.float64]


class PhraseGraph(Plugin):
    """Phrases are subjects and objects of `over` in folded case with single spaces; each is encoded once.

    Undirected edges: between the phrases of a triple (one for each record of it), between a phrase and every passage
    that holds it (1), and between synonyms: phrases with a cosine of at least `synonym_cosine` (which it weighs) of
    which one is among the `synonyms` nearest of the other. They are searched within cells, never all with all. Without
    `numbers`, dates, years, numbers and measures are no phrases.
    """

    version: ClassVar[int] = 1
    uses: ClassVar[Uses] = frozenset({"encoder", "seed"})
    over: PartField = Triples()
    synonym_cosine: float = Field(default=0.8, gt=0, le=1)
    synonyms: int = Field(default=20, ge=0)
    numbers: bool = True

    def inputs(self) -> tuple[Part[Any], ...]:
        """The triples, and the passages: those without triples are nodes too."""
        return (self.over, Passages())

    def key(self, phrase: str) -> str:
        """What the spellings of one phrase have in common; "" for what is no phrase."""
        key = " ".join(phrase.casefold().split())
        return key if self.numbers or not is_number(key) else ""

    def apply(self, change: Change, site: Site) -> None:
        """Nothing: the graph is made whole."""

    def finish(self, site: Site) -> None:
        """Encode the phrases that are new, forget those that no triple names any more, make the graph anew."""
        mentions = _mentions(site.inputs[0], self)
        passages = distinct(batch.column("id") for batch in site.inputs[1].scan(()))
        pairs = near_pairs(_encoded(mentions.phrases, site), self.synonym_cosine, self.synonyms, site.seed)
        graph = connected(passages, mentions, pairs)
        name = kept_files.save(_WHAT, site.folder, lambda partial: _write(graph, partial))
        kept_files.hold([name], site, "graphs")

    def open(self, site: Site) -> "Phrases":
        """The graph of the sync that the reader is pinned to, and the vectors of its phrases."""
        graph = _read(site.folder / kept_files.in_place(site.collection("graphs")))
        return Phrases(graph, site.collection("phrases"))


@dataclass(frozen=True, slots=True)
class Phrases:
    """What PhraseGraph opens to. The records of `vectors` are the phrases, by their keys."""

    graph: "WeightedGraph"
    vectors: Collection


# ---------------------------------------------------------------- the graph


@dataclass(frozen=True, slots=True)
class Links:
    """Rows of edges: node i has `ends[starts[i] : stops[i]]`, with `weights` that sum to `degrees[i]`."""

    starts: Integers
    stops: Integers
    ends: Integers
    weights: Weights
    degrees: Sums


@dataclass(frozen=True, slots=True)
class WeightedGraph:
    """Nodes are places: first the sorted keys of `phrases`, then the sorted ids of `passages`.

    The edges of node i lie at `starts[i]` to `starts[i + 1]`, both directions of each edge being there; those of a
    phrase that lead to passages begin at `splits[i]`. Read from memory-mapped files. Thread-safe.
    """

    phrases: pa.Array
    passages: pa.Array
    starts: Integers
    splits: Integers
    ends: Integers
    weights: Weights
    degrees: Sums
    phrase_degrees: Sums

    @property
    def whole(self) -> Links:
        """All edges."""
        return Links(self.starts[:-1], self.starts[1:], self.ends, self.weights, self.degrees)

    @property
    def among_phrases(self) -> Links:
        """The edges between phrases."""
        return Links(self.starts[: len(self.phrases)], self.splits, self.ends, self.weights, self.phrase_degrees)

    @property
    def held(self) -> Integers:
        """(phrases,): how many passages hold each phrase."""
        return self.starts[1 : len(self.phrases) + 1] - self.splits

    def matrix(self) -> "sparse.csr_matrix[Any]":
        """(nodes, nodes), symmetric; its rows and columns from `len(phrases)` on are the passages."""
        nodes = len(self.starts) - 1
        return sparse.csr_matrix((self.weights, self.ends, self.starts), shape=(nodes, nodes))

    def places(self, keys: Sequence[str]) -> Integers:
        """The place of each phrase, -1 for one that is not there."""
        return places(self.phrases, keys)


@dataclass(frozen=True, slots=True)
class Mentions:
    """The triples: of each the places among sorted `phrases` of its two sides (n, 2), -1 for none, and its passage."""

    phrases: pa.Array
    sides: Integers
    passage_ids: pa.Array


def connected(passages: pa.Array, mentions: Mentions, synonyms: Pairs) -> WeightedGraph:
    """The graph. A triple whose sides are the same phrase adds no edge to itself."""
    phrases = mentions.phrases
    count, nodes = len(phrases), len(phrases) + len(passages)
    subject, object = mentions.sides[:, 0], mentions.sides[:, 1]
    linked = (subject >= 0) & (object >= 0) & (subject != object)
    owners = pc.index_in(mentions.passage_ids, value_set=passages).fill_null(-1).to_numpy(zero_copy_only=False)
    holders, holding = _distinct(mentions.sides.ravel(), np.repeat(owners, 2))
    first = np.concatenate([subject[linked], holders, synonyms.first])
    second = np.concatenate([object[linked], holding + count, synonyms.second])
    weights = np.concatenate([np.ones(linked.sum() + len(holders)), synonyms.cosines])
    both = (np.concatenate([first, second]), np.concatenate([second, first]))
    rows = sparse.coo_matrix((np.tile(weights, 2), both), shape=(nodes, nodes)).tocsr()
    rows.sort_indices()
    within = rows[:count, :count]
    return WeightedGraph(
        phrases,
        passages,
        rows.indptr.astype(np.int64),
        rows.indptr[:count] + np.diff(within.indptr).astype(np.int64),
        rows.indices.astype(np.int32),
        rows.data.astype(np.float32),
        np.asarray(rows.sum(axis=1), np.float64).ravel(),
        np.asarray(within.sum(axis=1), np.float64).ravel(),
    )


def _distinct(first: Integers, second: Integers) -> tuple[Integers, Integers]:
    """Each pair once; those with a side that is not there are left out."""
    known = (first >= 0) & (second >= 0)
    width = int(second.max(initial=0)) + 1
    keys = np.unique(first[known].astype(np.int64) * width + second[known])
    return keys // width, keys % width


def _write(graph: WeightedGraph, folder: Path) -> None:
    for name in _TEXTS:
        kept_files.write_texts(folder / f"{name}.arrow", getattr(graph, name))
    for name in _NUMBERS:
        kept_files.write_numbers(folder / f"{name}.npy", getattr(graph, name))


def _read(folder: Path) -> WeightedGraph:
    with kept_files.reading(_WHAT, folder):
        texts = [kept_files.read_texts(folder / f"{name}.arrow") for name in _TEXTS]
        numbers = [kept_files.read_numbers(folder / f"{name}.npy") for name in _NUMBERS]
    return WeightedGraph(*texts, *numbers)


# ---------------------------------------------------------------- what it is made from


def _mentions(triples: Collection, part: PhraseGraph) -> Mentions:
    batches = list(triples.scan(("subject", "object", "passage_ids")))
    spelt = [large_text(batch.column(name) for batch in batches) for name in ("subject", "object")]
    passage_ids = large_text(batch.column("passage_ids").flatten() for batch in batches)
    encoded = pa.concat_arrays(spelt).dictionary_encode()
    keys = [part.key(phrase) for phrase in encoded.dictionary.to_pylist()]
    phrases = distinct([pa.array(sorted({*keys} - {""}), pa.large_string())])
    place = pc.index_in(pa.array(keys, pa.large_string()), value_set=phrases).fill_null(-1)
    sides = place.to_numpy(zero_copy_only=False)[encoded.indices.to_numpy()]
    return Mentions(phrases, np.ascontiguousarray(sides.reshape(2, -1).T), passage_ids)


def _encoded(phrases: pa.Array, site: Site) -> Floats:
    """(phrases, dimensions). The collection of phrases afterwards holds these and no others."""
    matrix = np.empty((len(phrases), site.encoder.dimensions), np.float32)
    keep(phrases, site, "phrases", "phrase_graph", matrix)
    return matrix
