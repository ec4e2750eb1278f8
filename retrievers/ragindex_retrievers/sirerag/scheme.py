"""SiReRAG's scheme and its parameters (Zhang et al., ICLR 2025; readings S1 to S3 in docs/methods/sirerag.md)."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ragindex.interfaces import IndexingScheme, OpenIndex, Part, Retriever
from ragindex.parts.trees.tree_pool import TreePool
from ragindex.parts.trees.tree_search import Nodes, above, reads_k
from ragindex.parts.vectors.base_field import FlatField, over
from ragindex.plugins import registry
from ragindex.plugins.base import Plugin
from ragindex.plugins.registry import PartField, label, of_class
from ragindex_retrievers.sirerag.entity_boost import Lifted


class SiReRAG(Plugin):
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

    @property
    def reads_k(self) -> bool | None:
        """See `tree_search.reads_k`."""
        return reads_k(self.base) if self.ranking == "pool" else None

    @property
    def reads_k_above(self) -> int | None:
        """`lifted` looks among `depth` nodes; where k is larger, among k."""
        return self.depth if self.ranking == "lifted" else None

    def parts(self) -> tuple[Part[Any], ...]:
        """What the base needs to search the pool."""
        return (*self._over().parts(), self.pool)

    def open(self, workspace: OpenIndex) -> Retriever:
        """One search of the base for the nodes and one for the order of their documents; for `lifted`, one."""
        base, nodes = self._over().open(workspace), workspace.open_part(self.pool)
        if self.ranking == "lifted":
            return Lifted(base, nodes, self.depth, label(self))
        return Nodes(base, nodes, above(nodes), label(self))

    def _over(self) -> IndexingScheme:
        return over(self.base, self.pool)
