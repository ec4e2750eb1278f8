"""Wording of passages and questions, read from phrases.txt and prose.txt."""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple, TypeAlias

import regex

from ragindex_eval.data.worlds.blocks import read_blocks

Template: TypeAlias = tuple[str, ...]
"""Alternating texts and field names, starting with a text."""

_FIELD = regex.compile(r"\{([^{}]+)\}")


class Relation(NamedTuple):
    """Wording of one predicate of one kind of entity, in statements and questions.

    `say` is empty if the opening states it.
    """

    say: tuple[Template, ...]
    noun: tuple[str, ...]
    ask: tuple[str, ...]


@cache
def relations() -> Mapping[tuple[str, str], Relation]:
    """Return the wording of relations by kind and predicate."""
    by_relation: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}
    for head, lines in read_blocks("phrases.txt"):
        kind, _, predicate = head.partition(" | ")
        alternatives = (line.partition(": ") for line in lines)
        by_relation[kind, predicate] = {use: tuple(text.split(" | ")) for use, _, text in alternatives}
    return {
        key: Relation(tuple(map(template, uses.get("say", ()))), uses["noun"], uses["ask"])
        for key, uses in by_relation.items()
    }


@cache
def prose() -> Mapping[tuple[str, str], tuple[Template, ...]]:
    """Return templates by use (define, call, colour, aside, unlike) and kind."""
    templates: dict[tuple[str, str], tuple[Template, ...]] = {}
    for head, lines in read_blocks("prose.txt"):
        use, _, kind = head.partition(" ")
        kind, _, listed = kind.partition(": ")
        templates[use, kind] = tuple(map(template, listed.split(" | ") if listed else lines))
    return templates


def template(text: str) -> Template:
    """Split a text at its fields."""
    return tuple(str(piece) for piece in _FIELD.split(text))
