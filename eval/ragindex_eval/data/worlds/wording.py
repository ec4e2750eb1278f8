"""Questions of a world before they are written to a dataset, and the accepted forms of their answers."""

from typing import NamedTuple

from ragindex_eval.data.worlds.facts import World
from ragindex_eval.data.worlds.layout import Object, Ref
from ragindex_eval.data.worlds.prose import name_in_sentence


class WorldQuestion(NamedTuple):
    """A question of a world.

    `gold` are the entities whose documents lead to the answer, the start first. Questions with equal `identity`
    are the same.
    """

    text: str
    gold: tuple[Ref, ...]
    answer: Object
    identity: object


def accepted_answers(world: World, value: Object) -> tuple[str, ...]:
    """Return all accepted forms of an answer; the first is the form used in triples."""
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
