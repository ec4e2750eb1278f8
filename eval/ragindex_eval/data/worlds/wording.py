"""A question before it is written down, and the forms in which its answer is accepted."""

from typing import NamedTuple

from ragindex_eval.data.worlds.entities import Object
from ragindex_eval.data.worlds.facts import World
from ragindex_eval.data.worlds.layout import Ref
from ragindex_eval.data.worlds.prose import name_in_sentence


class WorldQuestion(NamedTuple):
    """`gold` are the entities whose documents lead to the answer, the start first; equal `identity`, same question."""

    text: str
    gold: tuple[Ref, ...]
    answer: Object
    identity: object


def accepted_answers(world: World, value: Object) -> tuple[str, ...]:
    """All accepted forms, the one of the triples first."""
    if isinstance(value, Ref):
        aliases = world.names.aliases(value)
        articles = [f"the {alias}" for alias in aliases if value.kind == "river"]
        return tuple(dict.fromkeys([world.names.name(value), name_in_sentence(world, value), *aliases, *articles]))
    bare, unit = value.replace(",", ""), value.partition(" ")[2]
    if not bare[0].isdigit():
        return tuple(dict.fromkeys([value, value.removeprefix("the ")]))
    longer = [value.replace(" km", " kilometres")] if unit == "km" else []
    number = [value.partition(" ")[0], bare.partition(" ")[0]] if unit else []
    return tuple(dict.fromkeys([value, bare, *longer, *number]))
