"""From the units of a sentence to its chunks: noun phrases, verb groups, and the words and marks between them.

There is no dictionary of nouns: a word that is no function word and does not look like a verb where it stands belongs
to a noun phrase.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from ragindex.llm.rules.mentions import Unit
from ragindex.llm.rules.verbs import NAME_UNITS, begins_verb, is_adverb, is_noun_like, lower_at, verb_group_end
from ragindex.llm.rules.words import (
    ADVERBS,
    AUXILIARIES,
    CONJUNCTIONS,
    COPULAS,
    DEGREES,
    DEMONYM_ENDINGS,
    DEMONYMS,
    DETERMINERS,
    ENGLISH_FUNCTION_WORDS,
    NUMBER_WORDS,
    POSSESSIVES,
    PREPOSITIONS,
    PRESENT_PLURAL_VERBS,
    PRESENT_VERBS,
    PRONOUNS,
    RELATIVES,
    SUBORDINATORS,
)

ChunkKind = Literal[
    "name", "common", "quantity", "pronoun", "verb", "preposition", "and", "relative", "subordinate", "comma", "open",
    "close", "stop", "adverb",
]  # fmt: skip
PHRASES = frozenset(("name", "common", "quantity", "pronoun"))

_LONGEST_PHRASE = 12
_MARKS: dict[str, ChunkKind] = {",": "comma", "(": "open", "[": "open", ")": "close", "]": "close"}
_QUOTES = frozenset("\"'《》「」«»『』")
_LED_BY = (DETERMINERS | POSSESSIVES | {"than"}) - {"no", "neither", "few"}


class Chunk(NamedTuple):
    """A part of a sentence.

    `text` is as written without the article, `full` with it. Of a noun phrase, `name` is the name it ends on ("" where
    it ends on a common noun), `described` the words before that name, `owner` the name before "'s", `inner` the other
    names in it. Of a verb group, `copula` tells "is" and `bare` a participle without an auxiliary.
    """

    kind: ChunkKind
    text: str
    full: str = ""
    name: str = ""
    described: str = ""
    owner: str = ""
    inner: tuple[str, ...] = ()
    definite: bool = False
    copula: bool = False
    bare: bool = False


_FIXED: dict[tuple[str, ...], ChunkKind] = {
    ("as", "well", "as"): "and",
    ("as", "well"): "adverb",
    ("such", "as"): "preposition",
    ("because", "of"): "preposition",
    ("according", "to"): "preposition",
    ("due", "to"): "preposition",
}
_FIRST_OF_FIXED = frozenset(words[0] for words in _FIXED)
_FUNCTIONS: tuple[tuple[frozenset[str], ChunkKind], ...] = (
    (CONJUNCTIONS, "and"),
    (RELATIVES, "relative"),
    (SUBORDINATORS, "subordinate"),
    (PREPOSITIONS, "preposition"),
)


def find_chunks(units: Sequence[Unit]) -> list[Chunk]:
    """The chunks of a sentence, in order."""
    bare = _without_quotes(units)
    found: list[Chunk] = []
    position = 0
    while position < len(bare):
        chunk, position = _chunk(bare, position)
        found += [] if chunk is None else [chunk]
    return found


def _without_quotes(units: Sequence[Unit]) -> list[Unit]:
    """The units without quotation marks; what follows one keeps its space."""
    found: list[Unit] = []
    space = ""
    for unit in units:
        if unit.text in _QUOTES:
            space = space or unit.space
        else:
            found.append(unit._replace(space=unit.space or space))
            space = ""
    return found


def _chunk(units: Sequence[Unit], position: int) -> tuple[Chunk | None, int]:
    """The chunk that begins at `position`, None where only an article is left of it, and where it ends."""
    unit = units[position]
    if unit.kind == "mark" and unit.text != "'s":
        return Chunk(_MARKS.get(unit.text, "stop"), unit.text), position + 1
    fixed = _fixed(units, position) if unit.lower in _FIRST_OF_FIXED else ()
    if fixed:
        return Chunk(_FIXED[fixed], " ".join(fixed)), position + len(fixed)
    if begins_verb(units, position):
        end = verb_group_end(units, position)
        return _verb_chunk(units[position:end]), end
    kind = _function(units, position)
    if kind is not None:
        return Chunk(kind, unit.lower), position + 1
    end = _phrase_end(units, position)
    return _phrase(units[position:end]), end


def _fixed(units: Sequence[Unit], position: int) -> tuple[str, ...]:
    words = tuple(unit.lower for unit in units[position : position + 3])
    return next((some for some in (words, words[:2]) if some in _FIXED), ())


def _function(units: Sequence[Unit], position: int) -> ChunkKind | None:
    """What kind of function word stands here; None where a noun phrase begins."""
    word = units[position].lower
    if units[position].kind != "word" or (word == "that" and lower_at(units, position - 1) in ("", "in", "of")):
        return None
    for words, kind in _FUNCTIONS:
        if word in words:
            return kind
    if not is_adverb(word):
        return None
    verb_next = begins_verb(units, position + 1)
    if word in DEGREES:
        return "adverb" if verb_next else None
    return "adverb" if word in ADVERBS or verb_next or not is_noun_like(units, position + 1) else None


# ---------------------------------------------------------------- noun phrases


def _verb_chunk(units: Sequence[Unit]) -> Chunk:
    verbs = [unit.lower for unit in units if not is_adverb(unit.lower) and unit.lower != "not"]
    text = " ".join(unit.text if unit.start else unit.lower for unit in units)
    bare = verbs[0] not in AUXILIARIES and verbs[0] not in PRESENT_VERBS and verbs[0] not in PRESENT_PLURAL_VERBS
    return Chunk("verb", text, text, copula=verbs[-1] in COPULAS, bare=bare)


def _phrase_end(units: Sequence[Unit], position: int) -> int:
    end = position + 1
    if (
        units[position].lower in PRONOUNS
        and units[position].kind == "word"
        and units[position].lower not in POSSESSIVES
    ):
        return end
    articled = units[position].lower in DETERMINERS or units[position].lower in POSSESSIVES
    while end < min(len(units), position + _LONGEST_PHRASE) and _belongs(units, end, articled):
        end += 1
    return end


def _belongs(units: Sequence[Unit], position: int, articled: bool) -> bool:
    """Whether a unit goes on with the noun phrase before it."""
    unit, before = units[position], units[position - 1]
    if unit.kind == "mark":
        return unit.text in ("'s", "%")
    if before.kind == "date" and before.text != "'s":
        return (articled or before.lower.endswith("century")) and unit.kind != "date" and is_noun_like(units, position)
    if unit.kind == "date":
        led = before.lower in DETERMINERS or before.lower in POSSESSIVES
        return before.kind == "word" and (led or (articled and is_noun_like(units, position + 1)))
    if unit.kind != "word":
        return before.kind != "number" or unit.kind != "number"
    return _word_belongs(units, position, articled)


def _word_belongs(units: Sequence[Unit], position: int, articled: bool) -> bool:
    word, before = units[position].lower, units[position - 1]
    if word in NUMBER_WORDS and before.kind in NAME_UNITS:
        return False
    if word in DETERMINERS:
        return before.lower in DETERMINERS
    if begins_verb(units, position + 1) and (word in DEGREES or is_adverb(word)):
        return False
    if is_adverb(word) and word not in DEGREES:
        return articled and is_noun_like(units, position + 1)
    return (word not in ENGLISH_FUNCTION_WORDS or word in DEGREES) and not begins_verb(units, position)


def _phrase(units: Sequence[Unit]) -> Chunk | None:
    """The chunk of a noun phrase; None where only articles are left."""
    full = _text(units)
    definite = units[0].lower in ("the", "this", "these", "those")
    owner, rest = _owner(units)
    while rest and rest[0].kind == "word" and rest[0].lower in _LED_BY:
        rest = rest[1:]
    if not rest:
        return Chunk("pronoun", full, full) if full else None
    named = rest[-1].kind in NAME_UNITS
    unknown = units[0].lower in POSSESSIVES and units[0].lower != "whose" and not named
    if unknown or (rest[0].kind == "word" and rest[0].lower in PRONOUNS):
        return Chunk("pronoun", _text(rest), full)
    names = tuple(unit.text for unit in rest if unit.kind in NAME_UNITS)
    if named:
        return Chunk("name", _text(rest), full, rest[-1].text, _text(rest[:-1]), owner, names[:-1], definite)
    quantity = all(unit.kind in ("date", "number", "mark") for unit in rest)
    return Chunk("quantity" if quantity else "common", _text(rest), full, "", "", owner, names, definite)


def _owner(units: Sequence[Unit]) -> tuple[str, Sequence[Unit]]:
    """The name before the last "'s" of a phrase, and what follows it."""
    for position in range(len(units) - 1, 0, -1):
        if units[position].text == "'s":
            before = units[position - 1]
            return (before.text if before.kind in NAME_UNITS else ""), units[position + 1 :]
    return "", units


def _text(units: Sequence[Unit]) -> str:
    return "".join(unit.space + unit.text for unit in units).strip(" \"'") if units else ""


def is_demonym(name: str) -> bool:
    """Whether a name is an adjective of a country or people, which links nothing: American, French."""
    return " " not in name and (name.endswith(DEMONYM_ENDINGS) or name.rpartition("-")[2] in DEMONYMS)
