"""Vectors of the names in triples: one per entity and one per predicate."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from ragindex.interfaces import BuildContext, Collection, Part, ReadContext, SearchKind, Uses
from ragindex.parts.triples.triples import Triples
from ragindex.parts.vectors.encoded_names import find_distinct, store_name_vectors
from ragindex.plugins.registry import PartField, of_class

_PART = "name_vectors"


@dataclass(frozen=True, slots=True)
class NameCollections:
    """Collections that NameVectors opens to, with `vector` as the only field.

    Ids in `entities` are the keys (`Triples.key`) of subjects and objects; ids in `predicates` are predicates
    as written.
    """

    entities: Collection
    predicates: Collection


class NameVectors(Part[NameCollections]):
    """Vectors of the entities and predicates of `over` (GRIEVER).

    They are encoded as documents at index time, so that no search encodes names.
    """

    version: ClassVar[int] = 1
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset()
    uses: ClassVar[Uses] = frozenset({"encoder"})
    over: Annotated[PartField, of_class(Triples)] = Field(
        default=Triples(), description="Triples whose entities and predicates are encoded."
    )

    def inputs(self) -> tuple[Part[Any], ...]:
        """Return the triples."""
        return (self.over,)

    def finish(self, context: BuildContext) -> None:
        """Encode new names, and delete those that no triple contains any more."""
        batches = list(context.inputs[0].scan(("subject_key", "object_key", "predicate")))
        sides = [batch.column(side).flatten() for side in ("subject_key", "object_key") for batch in batches]
        store_name_vectors(find_distinct(sides), context, "entities", _PART)
        store_name_vectors(find_distinct(batch.column("predicate") for batch in batches), context, "predicates", _PART)

    def open(self, context: ReadContext) -> NameCollections:
        """Return the collections of entity and predicate vectors."""
        return NameCollections(context.collection("entities"), context.collection("predicates"))
