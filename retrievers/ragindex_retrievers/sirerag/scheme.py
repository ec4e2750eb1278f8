"""SiReRAG's scheme and its parameters (Zhang et al., ICLR 2025; readings S1 to S3 in docs/methods/sirerag.md)."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ragindex.interfaces import OpenIndex, Part, Retriever, Scheme
from ragindex.parts.trees.tree_pool import TreePool
from ragindex.parts.trees.tree_search import Nodes, above
from ragindex.parts.vectors.base_field import FlatField, over
from ragindex.plugins import registry
from ragindex.plugins.registry import PartField, label, of_class
from ragindex_retrievers.sirerag.entity_boost import Lifted


class SiReRAG(Scheme):
    """A flat scheme `base` over the pool of a tree over passages and a tree over what is said of each entity.

    `pool` holds the trees, and which of their nodes are searched: the ablations. `ranking`: the best nodes of the pool,
    whatever they are (`pool`, as in the paper), or passages, each by its own score and that of the best aggregate or
    proposition that names it (`lifted`), among the `depth` best leaves: summaries take no passage's place.
    """

    version: ClassVar[int] = 1
    base: FlatField = Field(
        default_factory=lambda: registry.scheme("dense"), description="Flat scheme that searches the pool."
    )
    pool: Annotated[PartField, of_class(TreePool)] = Field(
        default=TreePool(), description="Trees, and which of their nodes are searched."
    )
    ranking: Literal["pool", "lifted"] = Field(
        default="pool",
        description="Rank all nodes of the pool (as in the paper), or passages, each with the best node that names it.",
    )
    depth: int = Field(default=200, ge=1, description="With ranking=lifted: leaves considered.")

    def depends_on_k(self, k: int) -> bool:
        """A node's documents are ordered among those of all k hits; `lifted` considers `depth` leaves, or k if more."""
        own = k > self.depth if self.ranking == "lifted" else self.base.order_depends_on_filter
        return own or super().depends_on_k(k)

    def parts(self) -> tuple[Part[Any], ...]:
        """What the base needs to search the pool."""
        return (*self._over().parts(), self.pool)

    def open(self, index: OpenIndex) -> Retriever:
        """One search of the base for the nodes and one for the order of their documents; for `lifted`, one."""
        base, nodes = self._over().open(index), index.open_part(self.pool)
        if self.ranking == "lifted":
            return Lifted(base, nodes, self.depth, label(self))
        return Nodes(base, nodes, above(nodes), label(self))

    def _over(self) -> Scheme:
        return over(self.base, self.pool)
