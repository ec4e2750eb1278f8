"""Vectors of what triples name: of every entity and of every predicate, each encoded once."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from ragindex.interfaces import BuildContext, Collection, Part, ReadContext, Uses
from ragindex.parts.triples.triples import Triples
from ragindex.parts.vectors.encoded_names import find_distinct, store_name_vectors
from ragindex.plugins.registry import PartField, of_class

_PART = "name_vectors"


@dataclass(frozen=True, slots=True)
class NameCollections:
    """What NameVectors opens to: records with no fields but `vector`.

    The ids of `entities` are the keys (`Triples.key`) of subjects and objects; those of `predicates` the predicates as
    written.
    """

    entities: Collection
    predicates: Collection


class NameVectors(Part[NameCollections]):
    """The vectors of the entities and predicates of `over`, as documents (GRIEVER): none is made while asking."""

    version: ClassVar[int] = 1
    uses: ClassVar[Uses] = frozenset({"encoder"})
    over: Annotated[PartField, of_class(Triples)] = Field(
        default=Triples(), description="Triples whose entities and predicates are encoded."
    )

    def inputs(self) -> tuple[Part[Any], ...]:
        """The triples."""
        return (self.over,)

    def finish(self, context: BuildContext) -> None:
        """Encode the names that are new, forget those that no triple has any more."""
        batches = list(context.inputs[0].scan(("subject_key", "object_key", "predicate")))
        sides = [batch.column(side).flatten() for side in ("subject_key", "object_key") for batch in batches]
        store_name_vectors(find_distinct(sides), context, "entities", _PART)
        store_name_vectors(find_distinct(batch.column("predicate") for batch in batches), context, "predicates", _PART)

    def open(self, context: ReadContext) -> NameCollections:
        """The two collections."""
        return NameCollections(context.collection("entities"), context.collection("predicates"))
