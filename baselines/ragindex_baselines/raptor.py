"""RAPTOR: a tree of summaries over passages, searched flat or from its roots down (Sarthi et al., ICLR 2024)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ragindex.encoders.vector_cache import share_question_vectors
from ragindex.filters import Filter, Ids
from ragindex.interfaces import OpenIndex, Part, Retriever, Scheme
from ragindex.parts.text.passages import OVER_PASSAGES, PassagesField
from ragindex.parts.trees.summary_tree import SummaryTree
from ragindex.parts.trees.tree_search import Above, Nodes, above
from ragindex.parts.vectors.base_field import FlatField, over
from ragindex.plugins import registry
from ragindex.plugins.registry import PartField, label, of_class
from ragindex.retrieval.hits import check_queries
from ragindex.types import Hit, Query, Retrieval, Step


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

    def depends_on_k(self, k: int) -> bool:
        """Return True if the results depend on k.

        They do if the base's order depends on a filter, because a summary's documents are ordered among those
        of all k hits. In collapsed mode they also do if the base depends on k; the traversal never asks the
        base for k.
        """
        return self.base.order_depends_on_filter or (self.mode == "collapsed" and super().depends_on_k(k))

    def parts(self) -> tuple[Part[Any], ...]:
        """Return the parts that the base needs to search the tree, and the tree."""
        return (*self._over().parts(), self.tree)

    def open(self, index: OpenIndex) -> Retriever:
        """Open a retriever: two searches per question if collapsed, else one per level and one more."""
        collection = index.open_part(self.tree)
        nodes = Nodes(self._over().open(index), collection, above(collection), label(self))
        return nodes if self.mode == "collapsed" else Traversal(nodes, top(collection, nodes.above), self.per_level)

    def _over(self) -> Scheme:
        return over(self.base, self.tree)


def top(collection: Any, summaries: Above) -> tuple[str, ...]:
    """Return the ids of the roots, sorted: the nodes that are not a child of another, which may be leaves."""
    held = {child for children in summaries.children.values() for child in children}
    ids = (id for batch in collection.scan(()) for id in batch.column("id").to_pylist())
    return tuple(sorted(id for id in ids if id not in held))


@dataclass(frozen=True, slots=True)
class Traversal:
    """The open retriever of Raptor with `mode=traversal`."""

    nodes: Nodes
    roots: tuple[str, ...]
    per_level: int

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Answer the questions one after the other."""
        check_queries(queries, k)
        with share_question_vectors():
            return self.nodes.explained(queries, [self._one(query, k) for query in queries])

    def _one(self, query: Query, k: int) -> Retrieval:
        """Walk down the tree for one question.

        With a filter, the walk is limited to the nodes that pass and those above them; the hits are the nodes
        that pass.
        """
        passing = None if query.filter is None else self._passing(query.filter)
        walkable = None if passing is None else self._with_all_above(passing)
        met: dict[str, Hit] = {}
        steps = list[Step]()
        level = list(self.roots)
        while level:
            found = self._best(query, [id for id in level if walkable is None or id in walkable])
            steps += (replace(step, iteration=len(steps) + 1) for step in found.trace)
            met |= {hit.id: hit for hit in found.hits}
            below = (id for hit in found.hits for id in self.nodes.above.children.get(hit.id, ()))
            level = [id for id in dict.fromkeys(below) if id not in met]
        kept = [hit for id, hit in met.items() if passing is None or id in passing]
        return Retrieval(tuple(sorted(kept, key=lambda hit: (-hit.score, hit.id))[:k]), tuple(steps))

    def _best(self, query: Query, ids: Sequence[str]) -> Retrieval:
        return self.nodes.base.retrieve([replace(query, filter=Ids(tuple(ids)))], self.per_level)[0]

    def _passing(self, where: Filter) -> set[str]:
        return {id for batch in self.nodes.collection.scan((), where) for id in batch.column("id").to_pylist()}

    def _with_all_above(self, ids: set[str]) -> set[str]:
        """Return the nodes and all summaries above them."""
        found, grown = ids, set(ids)
        while grown:
            children = self.nodes.above.children
            grown = {id for id, held in children.items() if id not in found and not grown.isdisjoint(held)}
            found = found | grown
        return found
