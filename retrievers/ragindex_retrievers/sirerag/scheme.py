"""The SiReRAG scheme and its parameters (Zhang et al., ICLR 2025; readings S1 to S3 in docs/methods/sirerag.md)."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ragindex.interfaces import OpenIndex, Part, Retriever, Scheme
from ragindex.parts.text.passages import OVER_PASSAGES, PassagesField
from ragindex.parts.trees.tree_pool import TreePool
from ragindex.parts.trees.tree_search import Nodes, above
from ragindex.parts.vectors.base_field import FlatField, over
from ragindex.plugins import registry
from ragindex.plugins.registry import PartField, label, of_class
from ragindex_retrievers.sirerag.entity_boost import Lifted


class SiReRAG(Scheme):
    """Search in two trees of summaries: one over passages, one over what is said of each entity.

    The flat scheme `base` searches both, the second over aggregates of propositions per entity. `pool` defines the
    trees and which of their nodes are searched (the paper's ablations). `ranking=pool` returns the best nodes of any
    kind, as in the paper. `ranking=lifted` returns passages only: each is scored by its own score and that of the
    best aggregate or proposition that names it, among the `depth` best leaves, so that no summary takes the place of
    a passage.
    """

    version: ClassVar[int] = 1
    base: FlatField = Field(
        default_factory=lambda: registry.scheme("dense"), description="Flat scheme that searches the pool."
    )
    pool: Annotated[PartField, of_class(TreePool)] = Field(
        default=TreePool(), description="Trees, and which of their nodes are searched."
    )
    over: PassagesField = OVER_PASSAGES
    ranking: Literal["pool", "lifted"] = Field(
        default="pool",
        description="Rank all nodes of the pool (as in the paper), or passages, each with the best node that names it.",
    )
    depth: int = Field(default=200, ge=1, description="With ranking=lifted: leaves considered.")
    diversity: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="With ranking=pool: weight against results that share passages with better ones. 0: none.",
    )

    def depends_on_k(self, k: int) -> bool:
        """Return whether the ranking depends on k.

        The documents of a node are ordered among those of all k hits, and `diversity` chooses among four times k.
        `lifted` considers `depth` leaves, or k if that is more.
        """
        pooled = self.base.order_depends_on_filter or self.diversity > 0
        own = k > self.depth if self.ranking == "lifted" else pooled
        return own or super().depends_on_k(k)

    def parts(self) -> tuple[Part[Any], ...]:
        """Return the parts that the base needs to search the pool, and the pool."""
        return (*self._over().parts(), self.pool)

    def open(self, index: OpenIndex) -> Retriever:
        """Return a retriever that calls the base twice: for nodes, and for the order of their documents.

        With `ranking=lifted` it calls the base once.
        """
        base, nodes = self._over().open(index), index.open_part(self.pool)
        if self.ranking == "lifted":
            return Lifted(base, nodes, self.depth, label(self))
        return Nodes(base, nodes, above(nodes), label(self), self.diversity)

    def _over(self) -> Scheme:
        return over(self.base, self.pool)
