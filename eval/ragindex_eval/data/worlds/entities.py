"""What is known of one entity."""

from typing import NamedTuple, TypeAlias

from ragindex_eval.data.worlds.layout import Ref

Object: TypeAlias = Ref | str


class WorldFact(NamedTuple):
    """What is said of an entity: each predicate at most once."""

    predicate: str
    object: Object


class WorldEntity(NamedTuple):
    """An entity with all its facts."""

    ref: Ref
    facts: tuple[WorldFact, ...]

    def get(self, predicate: str) -> Object | None:
        """The object of a predicate."""
        return next((fact.object for fact in self.facts if fact.predicate == predicate), None)

    def text(self, predicate: str) -> str:
        """The object of a predicate that leads to no entity; "" where there is none."""
        found = self.get(predicate)
        return found if isinstance(found, str) else ""
