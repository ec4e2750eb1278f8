"""The graph of phrases and passages (HippoRAG), joined by triples, occurrence and synonymy."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field
from scipy import sparse

from ragindex.english import is_number
from ragindex.index import versioned_files
from ragindex.interfaces import BuildContext, Collection, Part, ReadContext, SearchKind, Uses
from ragindex.parts.records import Doubles, large_text
from ragindex.parts.text.passages import Passages
from ragindex.parts.triples.sparse_graph import AnyIntegers
from ragindex.parts.triples.triples import Triples
from ragindex.parts.vectors.encoded_names import Coder, Codes, among, find_distinct, store_name_vectors, translate_codes
from ragindex.parts.vectors.similar_pairs import SimilarPairs, near_pairs
from ragindex.plugins.registry import PartField
from ragindex_baselines.hipporag.weighted_graph import WeightedGraph, Weights

_DATA_NAME = "phrase graph"
_TEXTS = ("phrases", "passages")
_NUMBERS = ("starts", "splits", "ends", "weights", "degrees", "phrase_degrees")
_MENTIONS, _SYNONYMS = ("sides", "owners"), ("first", "second", "cosines")
_BLOCK = 1 << 21
"""Edges that are sorted into rows at once."""
_SPELT = 8192


class PhraseGraph(Part["Phrases"]):
    """A graph of phrases and passages. Phrases are subjects and objects of `over`, in folded case with single spaces.

    Each phrase is encoded once. Undirected edges join the two phrases of a triple (weight 1 for each of its
    records), a phrase and every passage that contains it (weight 1), and synonyms (weighted by their cosine).
    Synonyms are phrases with a cosine of at least `synonym_cosine`, one of them among the `synonyms` nearest
    of the other; they are searched within cells, not all with all. With `numbers=false`, dates, years,
    numbers and measures are not phrases.
    """

    version: ClassVar[int] = 2
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset()
    uses: ClassVar[Uses] = frozenset({"encoder", "seed"})
    over: PartField = Field(default=Triples(), description="Triples whose subjects and objects are the phrases.")
    synonym_cosine: float = Field(
        default=0.8, gt=0, le=1, description="Cosine from which two phrases are synonyms (τ in the paper)."
    )
    synonyms: int = Field(default=20, ge=0, description="Synonyms per phrase at most.")
    numbers: bool = Field(default=True, description="Let dates, years, numbers and measures be phrases.")

    def inputs(self) -> tuple[Part[Any], ...]:
        """Return the triples and the passages: passages without triples are nodes too."""
        return (self.over, Passages())

    def key(self, phrase: str) -> str:
        """Return the key that all spellings of a phrase share, "" for text that is not a phrase."""
        key = " ".join(phrase.casefold().split())
        return key if self.numbers or not is_number(key) else ""

    def finish(self, context: BuildContext) -> None:
        """Encode new phrases, delete those that no triple names any more, and rebuild the graph."""
        passages = find_distinct(batch.column("id") for batch in context.inputs[1].scan(()))
        mentions = _read_mentions(context.inputs[0], passages, self)
        synonyms = _find_synonyms(mentions.phrases, context, self)
        graph = connected(passages, mentions, synonyms)
        name = versioned_files.save_version(
            _DATA_NAME, context.folder, lambda partial: _write(graph, mentions, synonyms, partial)
        )
        versioned_files.record_versions([name], context, "graphs")

    def open(self, context: ReadContext) -> "Phrases":
        """Open the graph of the sync that the reader is pinned to, and the vectors of its phrases."""
        folder = context.folder / versioned_files.current_version(context.collection("graphs"))
        return Phrases(*_read(folder), context.collection("phrases"))


@dataclass(frozen=True, slots=True)
class Phrases:
    """An open PhraseGraph, and the `mentions` and `synonyms` that the graph is made of.

    The records of `vectors` are the phrases; their ids are the keys.
    """

    graph: WeightedGraph
    mentions: "PhraseMentions"
    synonyms: SimilarPairs
    vectors: Collection

    def build_subgraph(self, passing: npt.NDArray[np.bool_]) -> WeightedGraph:
        """Build the graph of some passages alone, with the places of the whole one, in O(n log n) of their triples.

        `passing` (passages,) says which they are. Phrases that only others contain have no edges, and no passages.
        """
        owners = self.mentions.owners
        rows = np.flatnonzero((owners >= 0) & passing[owners])
        mentions = PhraseMentions(self.mentions.phrases, self.mentions.sides[rows], owners[rows])
        present = np.zeros(len(mentions.phrases) + 1, np.bool_)  # the last stands for sides that are no phrases
        present[mentions.sides.ravel()] = True
        alike = self.synonyms
        both = present[alike.first] & present[alike.second]
        synonyms = SimilarPairs(alike.first[both], alike.second[both], alike.cosines[both])
        return connected(self.graph.passages, mentions, synonyms)


# ---------------------------------------------------------------- the graph


@dataclass(frozen=True, slots=True)
class PhraseMentions:
    """The triples as places: `sides` (n, 2) among the sorted `phrases`, and `owners` (n,) among the passages.

    -1 stands for a side that is not a phrase, and for an unknown passage.
    """

    phrases: pa.Array
    sides: AnyIntegers
    owners: AnyIntegers


def connected(passages: pa.Array, mentions: PhraseMentions, synonyms: SimilarPairs) -> WeightedGraph:
    """Build the graph. A triple with the same phrase on both sides adds no edge between phrases."""
    edges = _collect_edges(mentions, synonyms)
    count, nodes = len(mentions.phrases), len(mentions.phrases) + len(passages)
    lengths, degrees = np.empty(nodes, np.int64), np.empty(nodes, np.float64)
    splits, phrase_degrees = np.empty(count, np.int64), np.empty(count, np.float64)
    # an upper bound, because repeated edges are merged; the rest is never written to, so it takes no memory
    capacity = 2 * len(edges.first)
    ends, weights, at = np.empty(capacity, np.int32), np.empty(capacity, np.float32), 0
    for start, stop in _iterate_blocks(edges, nodes):
        rows = _build_rows(edges, start, stop, nodes)
        lengths[start:stop], degrees[start:stop] = np.diff(rows.indptr), _sum_rows(rows)
        ends[at : at + rows.nnz], weights[at : at + rows.nnz] = rows.indices, rows.data
        at += rows.nnz
        if start < count:
            within = rows[: count - start, :count]
            splits[start:stop], phrase_degrees[start:stop] = np.diff(within.indptr), _sum_rows(within)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    splits += starts[:count]
    return WeightedGraph(mentions.phrases, passages, starts, splits, ends[:at], weights[:at], degrees, phrase_degrees)


@dataclass(frozen=True, slots=True)
class _Edges:
    """Undirected edges between nodes, possibly repeated. Weights are 1, and `cosines` for the last edges."""

    first: Codes
    second: Codes
    cosines: Weights

    def leaving(self, nodes: Codes, others: Codes, start: int, stop: int) -> tuple[Codes, Codes, Doubles]:
        """Return the edges that leave the nodes from `start` to `stop`.

        The three arrays are the sources, counted from `start`, the targets, and the weights.
        """
        edges = np.flatnonzero((nodes >= start) & (nodes < stop))
        weights, alike = np.ones(len(edges)), edges - (len(nodes) - len(self.cosines))
        weights[alike >= 0] = self.cosines[alike[alike >= 0]]
        return nodes[edges] - np.int32(start), others[edges], weights


def _collect_edges(mentions: PhraseMentions, synonyms: SimilarPairs) -> _Edges:
    """Return the edges of triples, of phrases and their passages, and of synonyms."""
    subject, object = mentions.sides[:, 0], mentions.sides[:, 1]
    linked = (subject >= 0) & (object >= 0) & (subject != object)
    holders, holding = _deduplicate_pairs(mentions.sides.ravel(), np.repeat(mentions.owners, 2))
    holding += np.int32(len(mentions.phrases))
    first = np.concatenate([subject[linked], holders, synonyms.first], dtype=np.int32, casting="same_kind")
    second = np.concatenate([object[linked], holding, synonyms.second], dtype=np.int32, casting="same_kind")
    return _Edges(first, second, synonyms.cosines)


def _deduplicate_pairs(first: AnyIntegers, second: AnyIntegers) -> tuple[Codes, Codes]:
    """Return the distinct pairs, sorted; pairs with a missing side are left out."""
    known = (first >= 0) & (second >= 0)
    width = int(second.max(initial=0)) + 1
    keys = first[known].astype(np.int64)
    keys *= width
    keys += second[known]
    keys.sort()
    keys = keys[np.diff(keys, prepend=-1) > 0]
    return (keys // width).astype(np.int32), (keys % width).astype(np.int32)


def _iterate_blocks(edges: _Edges, nodes: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of nodes with about _BLOCK edges each."""
    ends = np.cumsum(np.bincount(edges.first, minlength=nodes) + np.bincount(edges.second, minlength=nodes))
    marks = np.searchsorted(ends, np.arange(_BLOCK, 2 * len(edges.first), _BLOCK), "right")
    yield from pairwise(np.unique([0, *marks.tolist(), nodes]).tolist())


def _build_rows(edges: _Edges, start: int, stop: int, nodes: int) -> "sparse.csr_matrix[Any]":
    """Return the edges of the nodes from `start` to `stop`, in both directions, (stop - start, nodes)."""
    forth = edges.leaving(edges.first, edges.second, start, stop)
    back = edges.leaving(edges.second, edges.first, start, stop)
    row, column, weights = (np.concatenate([forth[n], back[n]]) for n in range(3))
    rows = sparse.coo_matrix((weights, (row, column)), shape=(stop - start, nodes)).tocsr()
    rows.sort_indices()
    return rows


def _sum_rows(rows: "sparse.csr_matrix[Any]") -> Doubles:
    return np.asarray(rows.sum(axis=1), np.float64).ravel()


def _write(graph: WeightedGraph, mentions: PhraseMentions, synonyms: SimilarPairs, folder: Path) -> None:
    for name in _TEXTS:
        versioned_files.write_texts(folder / f"{name}.arrow", getattr(graph, name))
    for name in _NUMBERS:
        versioned_files.write_numbers(folder / f"{name}.npy", getattr(graph, name))
    for name in _MENTIONS:
        versioned_files.write_numbers(folder / f"mentions.{name}.npy", getattr(mentions, name))
    for name in _SYNONYMS:
        versioned_files.write_numbers(folder / f"synonyms.{name}.npy", getattr(synonyms, name))


def _read(folder: Path) -> tuple[WeightedGraph, PhraseMentions, SimilarPairs]:
    read_places, read_values = versioned_files.read_places, versioned_files.read_values
    with versioned_files.open_files(_DATA_NAME, folder):
        texts = [versioned_files.read_texts(folder / f"{name}.arrow") for name in _TEXTS]
        phrases, passages = map(len, texts)
        nodes = phrases + passages
        ends = read_places(folder / "ends.npy", (-1,), nodes)
        starts = versioned_files.read_starts(folder / "starts.npy", nodes, len(ends))
        splits = read_places(folder / "splits.npy", (phrases,), len(ends) + 1)
        if (splits < starts[:phrases]).any() or (splits > starts[1 : phrases + 1]).any():
            raise ValueError("splits.npy must divide the rows of phrases")
        lengths = {"weights": len(ends), "degrees": nodes, "phrase_degrees": phrases}
        weights, degrees, phrase_degrees = (
            read_values(folder / f"{name}.npy", (length,)) for name, length in lengths.items()
        )
        sides = read_places(folder / "mentions.sides.npy", (-1, 2), phrases, least=-1)
        owners = read_places(folder / "mentions.owners.npy", (len(sides),), passages, least=-1)
        first, second = (read_places(folder / f"synonyms.{name}.npy", (-1,), phrases) for name in ("first", "second"))
        cosines = read_values(folder / "synonyms.cosines.npy", (len(first),))
        if len(second) != len(first):
            raise ValueError("synonyms.second.npy must be as long as synonyms.first.npy")
    return (
        WeightedGraph(texts[0], texts[1], starts, splits, ends, weights, degrees, phrase_degrees),
        PhraseMentions(texts[0], sides, owners),
        SimilarPairs(first, second, cosines),
    )


# ---------------------------------------------------------------- inputs


def _read_mentions(triples: Collection, passages: pa.Array, part: PhraseGraph) -> PhraseMentions:
    """Read the triples, keeping only integers and the distinct spellings."""
    phrase_coder, passage_coder = Coder(), Coder()
    for batch in triples.scan(("subject", "object", "passage_ids")):
        phrase_coder.add(batch.column("subject"))
        phrase_coder.add(batch.column("object"))
        passage_coder.add(batch.column("passage_ids").flatten())
    spelt, codes = phrase_coder.coded()
    phrases, place = _find_phrases(part, spelt)
    sides = np.stack([translate_codes(place, codes[side::2]) for side in (0, 1)], axis=1)
    return PhraseMentions(phrases, sides, passage_coder.among(passages))


def _find_phrases(part: PhraseGraph, spelt: pa.Array) -> tuple[pa.Array, Codes]:
    """Return the sorted phrases, and the place of each spelling among them, -1 if it is not a phrase."""
    blocks = (spelt.slice(start, _SPELT).to_pylist() for start in range(0, len(spelt), _SPELT))
    keys = large_text(pa.array([part.key(phrase) for phrase in block], pa.large_string()) for block in blocks)
    phrases = find_distinct([keys.filter(pc.not_equal(keys, ""))])
    return phrases, among(keys, phrases)


def _find_synonyms(phrases: pa.Array, context: BuildContext, part: PhraseGraph) -> SimilarPairs:
    """Update the collection of phrases, and return the pairs of synonyms.

    The vectors are in a scratch file meanwhile.
    """
    with versioned_files.scratch_array(
        _DATA_NAME, context.folder, (len(phrases), context.encoder.dimensions)
    ) as vectors:
        store_name_vectors(phrases, context, "phrases", "phrase_graph", vectors)
        return near_pairs(vectors, part.synonym_cosine, part.synonyms, context.seed)
