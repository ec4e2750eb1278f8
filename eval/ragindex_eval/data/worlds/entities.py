"""Entities of a world and their facts."""

from typing import NamedTuple, TypeAlias

from ragindex_eval.data.worlds.layout import Ref

Object: TypeAlias = Ref | str


class WorldFact(NamedTuple):
    """A fact of an entity: a predicate, which an entity has at most once, and its object."""

    predicate: str
    object: Object


class WorldEntity(NamedTuple):
    """An entity with all its facts."""

    ref: Ref
    facts: tuple[WorldFact, ...]

    def get(self, predicate: str) -> Object | None:
        """Return the object of a predicate, or None."""
        return next((fact.object for fact in self.facts if fact.predicate == predicate), None)

    def text(self, predicate: str) -> str:
        """Return the object of a predicate if it is a text; "" if it is an entity or there is none."""
        value = self.get(predicate)
        return value if isinstance(value, str) else ""
