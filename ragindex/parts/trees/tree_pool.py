"""The nodes of several trees in one collection, for flat search (SiReRAG)."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import Field, ValidationInfo, field_validator

from ragindex.filters import Filter, Terms
from ragindex.interfaces import BuildContext, Collection, Part, ReadContext, SearchKind
from ragindex.parts.records import TEXTS, replace_records
from ragindex.parts.text.propositions import Propositions
from ragindex.parts.trees.aggregates import Aggregates
from ragindex.parts.trees.summary_tree import SUMMARY_KIND, SummaryTree, node_schema
from ragindex.parts.vectors.vectors import vectors_of
from ragindex.plugins.registry import PartField, name_of, of_class
from ragindex.retrieval.hits import HIT_FIELDS


@dataclass(frozen=True, slots=True)
class Source:
    """A source of nodes: a part with vectors, the tree name its nodes get, and a filter that selects nodes."""

    part: Part[Any]
    name: str
    where: Filter | None = None


class TreePool(Part[Collection]):
    """All nodes of `trees`, without duplicates: by default the tree over passages and the tree over aggregates.

    SiReRAG has three ablations of the pool. (A), `relatedness_summaries=false`, keeps only the leaves of the
    trees over aggregates. (B), `propositions=true`, adds all single propositions. (C), (B) with
    `aggregates=false`, drops the leaves of the trees over aggregates. (D) combines (A) and (C). Nodes that
    are not in the pool are not built for it: (A) and (D) pay for no summary of aggregates. The `children` of
    a summary may be outside the pool. `cross_tree` adds summaries across trees: on every level, the nodes of
    all trees are clustered together, with the parameters of the first tree, and the summaries of these
    clusters join the next level.
    """

    version: ClassVar[int] = 1
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset({"text", "vectors"})
    has_vectors: ClassVar[bool] = True
    aggregates: bool = Field(
        default=True, description="Include the leaves of the trees over aggregates; false is ablation (C)."
    )
    relatedness_summaries: bool = Field(
        default=True, description="Include the summaries of the trees over aggregates; false is ablation (A)."
    )
    propositions: bool = Field(default=False, description="Include all single propositions; true is ablation (B).")
    cross_tree: bool = Field(
        default=False,
        description="Cluster the nodes of all trees together on every level, and summarise these clusters too.",
    )
    trees: tuple[Annotated[PartField, of_class(SummaryTree)], ...] = Field(
        default=(SummaryTree(), SummaryTree(over=Aggregates())),
        min_length=1,
        description="Trees whose nodes are searched: by default one over passages and one over aggregates.",
    )

    @field_validator("trees")
    @classmethod
    def _hold_something(cls, trees: tuple[SummaryTree, ...], given: ValidationInfo) -> tuple[SummaryTree, ...]:
        related = [tree for tree in trees if isinstance(tree.over, Aggregates)]
        aggregates, summaries = given.data.get("aggregates"), given.data.get("relatedness_summaries")
        if not related and not (aggregates and summaries):
            raise ValueError("trees of which one is over aggregates, where those or their summaries are left out")
        if len(related) == len(trees) and not (aggregates or summaries):
            raise ValueError("trees of which one is not over aggregates, where nothing of these is left")
        return trees

    def sources(self) -> tuple[Source, ...]:
        """Return the sources of the pool's nodes, in order."""
        sources = [source for tree in self.trees for source in self._of_tree(tree)]
        if self.propositions:
            of = next((tree.over.of for tree in self.trees if isinstance(tree.over, Aggregates)), Propositions())
            sources.append(Source(vectors_of(of), name_of(of)))
        if self.cross_tree:
            apart = self.model_copy(update={"cross_tree": False, "propositions": False})
            together = self.trees[0].model_copy(update={"over": apart, "dual": None, "hierarchical": False})
            sources.append(Source(together, together.tree))
        return tuple(sources)

    def _of_tree(self, tree: SummaryTree) -> Iterator[Source]:
        if not isinstance(tree.over, Aggregates) or (self.aggregates and self.relatedness_summaries):
            yield Source(tree, tree.tree)
        elif self.aggregates:
            yield Source(vectors_of(tree.over), tree.tree)
        elif self.relatedness_summaries:
            yield Source(tree, tree.tree, Terms("kind", (SUMMARY_KIND,)))

    def inputs(self) -> tuple[Part[Any], ...]:
        """Return the parts of the sources: whole trees, or only the parts of a tree that are wanted."""
        return tuple(source.part for source in self.sources())

    def finish(self, context: BuildContext) -> None:
        """Copy the nodes; only changed ones are written."""
        records = context.collection("records", node_schema(context.language, context.inputs[0].schema.dimensions))
        replace_records(records, self._batches(context))
        counts = Counter(name for batch in records.scan(("tree",)) for name in batch.column("tree").to_pylist())
        names = dict.fromkeys([*(source.name for source in self.sources()), *sorted(counts)])
        kinds = ", ".join(f"{counts[name]:,} of {name}" for name in names)
        context.note(f"{records.count():,} nodes: {kinds}.", detail=True)

    def open(self, context: ReadContext) -> Collection:
        """Return the collection: the fields of hits, `level`, `children` and `tree`.

        `tree` is passages, aggregates, propositions, or tree_pool for summaries across trees.
        """
        return context.collection("records")

    def _batches(self, context: BuildContext) -> Iterator[pa.RecordBatch]:
        earlier: set[str] = set()
        for source, records in zip(self.sources(), context.inputs, strict=True):
            fields = [name for name in records.fields() if name in _COPIED_FIELDS or name.startswith("meta.")]
            for batch in records.scan((*fields, "vector"), source.where):
                ids = batch.column("id").to_pylist()
                fresh = batch.filter(pa.array([id not in earlier for id in ids], pa.bool_()))
                earlier.update(ids)
                if len(fresh):
                    yield _add_node_fields(fresh, source.name)


_COPIED_FIELDS = frozenset({*HIT_FIELDS, "level", "children", "tree"})


def _add_node_fields(batch: pa.RecordBatch, tree: str) -> pa.RecordBatch:
    """Add the fields of leaves to records that are not tree nodes."""
    missing = {
        "level": pa.array([0.0] * len(batch), pa.float64()),
        "children": pa.array([[]] * len(batch), TEXTS),
        "tree": pa.array([tree] * len(batch), pa.string()),
    }
    for name, column in missing.items():
        if name not in batch.schema.names:
            batch = batch.append_column(name, column)
    return batch
