"""Words and phrases of worlds, read from text files."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

import regex


def read_blocks(file: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each head with the lines of its block; empty lines and lines that begin with # are skipped."""
    head, lines = "", list[str]()
    for line in (Path(__file__).parent / file).read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            lines.append(line.strip())
        elif line and not line.startswith("#"):
            if head:
                yield head, lines
            head, lines = line, []
    yield head, lines


_LISTS = {
    head: tuple(part.strip() for part in text.split("|" if "|" in text else None))
    for head, lines in read_blocks("words.txt")
    for text in [" ".join(lines)]
}

WOMEN, MEN = _LISTS["women"], _LISTS["men"]
FIRST_NAMES = tuple(name for pair in zip(WOMEN, (*MEN, ""), strict=True) for name in pair if name)
"""Women's names at even places, men's at odd ones. Their number is a prime, which naming relies on."""

ONSETS, VOWELS, MIDDLES = _LISTS["onsets"], _LISTS["vowels"], _LISTS["middles"]
ENDINGS = {head.removesuffix(" endings"): words for head, words in _LISTS.items() if head.endswith(" endings")}
"""Endings by kind; each begins with a vowel, so that an invented name can be split in one way only."""

TOWN_SHAPES, REGION_SHAPES = _LISTS["town shapes"], _LISTS["region shapes"]
ADJECTIVES, NOUNS, PRIZES = _LISTS["adjectives"], _LISTS["nouns"], _LISTS["prizes"]
TITLE_ENDS = ("", *(f" {end}" for end in _LISTS["title ends"]))

PRODUCTS = tuple((ending, product) for ending, _, product in (line.partition(": ") for line in _LISTS["products"]))
"""Ending of a company's name, and its product. The first two are assigned by slot; the others are 23, a prime."""

TYPES = {creator: type_made for creator, _, type_made in (line.partition(": ") for line in _LISTS["creators"])}
CREATORS, PROFESSIONS = tuple(TYPES), _LISTS["professions"]
CURRENCIES, TRADES, SEAS = _LISTS["currencies"], _LISTS["trades"], _LISTS["seas"]


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
