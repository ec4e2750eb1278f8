"""RAPTOR: a tree of summaries over passages, searched flat or from its roots down (Sarthi et al., ICLR 2024)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ragindex._util.kept_results import KeptResults
from ragindex.encoders.vector_cache import share_question_vectors
from ragindex.filters import All, Filter, Ids
from ragindex.interfaces import OpenIndex, Part, Retriever, Scheme
from ragindex.parts.text.passages import OVER_PASSAGES, PassagesField
from ragindex.parts.trees.summary_tree import SummaryTree
from ragindex.parts.trees.tree_search import Nodes, above
from ragindex.parts.vectors.base_field import FlatField, over
from ragindex.plugins import registry
from ragindex.plugins.registry import PartField, label, of_class
from ragindex.retrieval.hits import PassingRecords, check_queries
from ragindex.retrieval.stages import record_ranking
from ragindex.types import Hit, Query, Retrieval, Step

_EVERYTHING = All(())
_KEPT_ROOTS = 4


class Raptor(Scheme):
    """Search in a tree of summaries over the passages.

    The flat scheme `base` searches all nodes of `tree` (`mode=collapsed`), or from the roots down (`mode=traversal`).
    The traversal takes the `per_level` best roots, then the `per_level` best of their children, and so on to
    the leaves. Its result is the k best of all nodes that were taken.
    """

    version: ClassVar[int] = 1
    base: FlatField = Field(
        default_factory=lambda: registry.scheme("dense"), description="Flat scheme that searches the nodes."
    )
    tree: Annotated[PartField, of_class(SummaryTree)] = Field(default=SummaryTree(), description="Tree of summaries.")
    over: PassagesField = OVER_PASSAGES
    mode: Literal["collapsed", "traversal"] = Field(
        default="collapsed", description="Search all nodes at once, or from the roots down."
    )
    per_level: int = Field(default=10, ge=1, description="With mode=traversal: nodes followed per level.")
    diversity: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="With mode=collapsed: weight against results that share passages with better ones. 0: none.",
    )

    def depends_on_k(self, k: int) -> bool:
        """Return True if the results depend on k.

        They do with `diversity`, which chooses among four times k. They do if the base's order depends on a
        filter, because a summary's documents are ordered among those of all k hits. In collapsed mode they also do
        if the base depends on k; the traversal never asks the base for k.
        """
        collapsed = self.mode == "collapsed"
        chosen = collapsed and (self.diversity > 0 or super().depends_on_k(k))
        return self.base.order_depends_on_filter or chosen

    def _parts(self) -> tuple[Part[Any], ...]:
        """Return the parts that the base needs to search the tree, and the tree."""
        return (*self._over().parts(), self.tree)

    def _open(self, index: OpenIndex) -> Retriever:
        """Open a retriever: two searches per question if collapsed, else one per level and one more."""
        collection = index.open_part(self.tree)
        nodes = Nodes(self._over().open(index), collection, above(collection), label(self), self.diversity)
        return nodes if self.mode == "collapsed" else Traversal(nodes, PassingRecords(collection), self.per_level)

    def _over(self) -> Scheme:
        return over(self.base, self.tree)


@dataclass(frozen=True, slots=True)
class Traversal:
    """The open retriever of Raptor with `mode=traversal`.

    With a filter, it walks over the nodes that pass: from those that no other one of them is above, which may be
    leaves.
    """

    nodes: Nodes
    passing: PassingRecords
    per_level: int
    roots: KeptResults[Filter, tuple[str, ...]] = field(default_factory=lambda: KeptResults(_KEPT_ROOTS))

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Answer the questions one after the other."""
        check_queries(queries, k)
        with share_question_vectors():
            return self.nodes.explained(queries, [self._retrieve_one(query, k) for query in queries])

    def _retrieve_one(self, query: Query, k: int) -> Retrieval:
        """Walk down the tree for one question."""
        where = query.filter or _EVERYTHING
        met: dict[str, Hit] = {}
        steps = list[Step]()
        level = list(self.roots.find(where, lambda: self._find_roots(where)))
        while level:
            narrowed = replace(query, filter=Ids(tuple(level)))
            (retrieval,) = self.nodes.base.retrieve([narrowed], self.per_level)
            steps += (replace(step, iteration=len(steps) + 1) for step in retrieval.trace)
            met |= {hit.id: hit for hit in retrieval.hits}
            below = (id for hit in retrieval.hits for id in self.nodes.above.children.get(hit.id, ()))
            level = [id for id in dict.fromkeys(below) if id not in met]
        ranked = sorted(met.values(), key=lambda hit: (-hit.score, hit.id))
        record_ranking("tree", ranked, k)
        return Retrieval(tuple(ranked[:k]), tuple(steps))

    def _find_roots(self, where: Filter) -> tuple[str, ...]:
        """Return the nodes that pass and are not a child of another one that does, sorted."""
        passing, children = self.passing.find(where), self.nodes.above.children
        below = {child for id in passing for child in children.get(id, ())}
        return tuple(sorted(passing - below))
