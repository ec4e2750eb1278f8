"""Chunker of sentences into noun phrases, verb groups, and the words and marks between them.

There is no dictionary of nouns: a word belongs to a noun phrase if it is not a function word and does not look like a
verb in its context.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from ragindex.english.mentions import Unit
from ragindex.english.verbs import NAME_UNITS, begins_verb, is_adverb, is_noun_like, lower_at, verb_group_end
from ragindex.english.words import (
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
_LEADING_WORDS = (DETERMINERS | POSSESSIVES | {"than"}) - {"no", "neither", "few"}


class Chunk(NamedTuple):
    """A chunk of a sentence.

    `text` is the chunk without its article, `full` with it. For a noun phrase, `name` is the name at its end ("" if it
    ends with a common noun), `described` the words before that name, `owner` the name before "'s", and `inner` the
    other names in it. For a verb group, `copula` is True if its last verb is a copula, and `bare` if it begins with
    neither an auxiliary nor a present-tense verb.
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


_FIXED_EXPRESSIONS: dict[tuple[str, ...], ChunkKind] = {
    ("as", "well", "as"): "and",
    ("as", "well"): "adverb",
    ("such", "as"): "preposition",
    ("because", "of"): "preposition",
    ("according", "to"): "preposition",
    ("due", "to"): "preposition",
}
_FIXED_FIRST_WORDS = frozenset(words[0] for words in _FIXED_EXPRESSIONS)
_FUNCTION_WORDS: tuple[tuple[frozenset[str], ChunkKind], ...] = (
    (CONJUNCTIONS, "and"),
    (RELATIVES, "relative"),
    (SUBORDINATORS, "subordinate"),
    (PREPOSITIONS, "preposition"),
)


def find_chunks(units: Sequence[Unit]) -> list[Chunk]:
    """Return the chunks of a sentence, in order."""
    bare = _remove_quotes(units)
    found: list[Chunk] = []
    position = 0
    while position < len(bare):
        chunk, position = _read_chunk(bare, position)
        found += [] if chunk is None else [chunk]
    return found


def _remove_quotes(units: Sequence[Unit]) -> list[Unit]:
    """Return the units without quotation marks; the unit after one gets the space before it."""
    found: list[Unit] = []
    space = ""
    for unit in units:
        if unit.text in _QUOTES:
            space = space or unit.space
        else:
            found.append(unit._replace(space=unit.space or space))
            space = ""
    return found


def _read_chunk(units: Sequence[Unit], position: int) -> tuple[Chunk | None, int]:
    """Return the chunk that begins at `position`, or None if it is empty, and its end."""
    unit = units[position]
    if unit.kind == "mark" and unit.text != "'s":
        return Chunk(_MARKS.get(unit.text, "stop"), unit.text), position + 1
    fixed = _match_fixed(units, position) if unit.lower in _FIXED_FIRST_WORDS else ()
    if fixed:
        return Chunk(_FIXED_EXPRESSIONS[fixed], " ".join(fixed)), position + len(fixed)
    if begins_verb(units, position):
        end = verb_group_end(units, position)
        return _build_verb_chunk(units[position:end]), end
    kind = _classify_function_word(units, position)
    if kind is not None:
        return Chunk(kind, unit.lower), position + 1
    end = _find_phrase_end(units, position)
    return _build_phrase_chunk(units[position:end]), end


def _match_fixed(units: Sequence[Unit], position: int) -> tuple[str, ...]:
    words = tuple(unit.lower for unit in units[position : position + 3])
    return next((some for some in (words, words[:2]) if some in _FIXED_EXPRESSIONS), ())


def _classify_function_word(units: Sequence[Unit], position: int) -> ChunkKind | None:
    """Return the kind of the function word at `position`, or None if a noun phrase begins there."""
    word = units[position].lower
    if units[position].kind != "word" or (word == "that" and lower_at(units, position - 1) in ("", "in", "of")):
        return None
    for words, kind in _FUNCTION_WORDS:
        if word in words:
            return kind
    if not is_adverb(word):
        return None
    verb_next = begins_verb(units, position + 1)
    if word in DEGREES:
        return "adverb" if verb_next else None
    return "adverb" if word in ADVERBS or verb_next or not is_noun_like(units, position + 1) else None


# ---------------------------------------------------------------- noun phrases


def _build_verb_chunk(units: Sequence[Unit]) -> Chunk:
    verbs = [unit.lower for unit in units if not is_adverb(unit.lower) and unit.lower != "not"]
    text = " ".join(unit.text if unit.start else unit.lower for unit in units)
    bare = verbs[0] not in AUXILIARIES and verbs[0] not in PRESENT_VERBS and verbs[0] not in PRESENT_PLURAL_VERBS
    return Chunk("verb", text, text, copula=verbs[-1] in COPULAS, bare=bare)


def _find_phrase_end(units: Sequence[Unit], position: int) -> int:
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
    """Return whether a unit continues the noun phrase before it."""
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


def _build_phrase_chunk(units: Sequence[Unit]) -> Chunk | None:
    """Return the chunk of a noun phrase, or None if it is empty."""
    full = _join_units(units)
    definite = units[0].lower in ("the", "this", "these", "those")
    owner, rest = _split_owner(units)
    while rest and rest[0].kind == "word" and rest[0].lower in _LEADING_WORDS:
        rest = rest[1:]
    if not rest:
        return Chunk("pronoun", full, full) if full else None
    named = rest[-1].kind in NAME_UNITS
    unknown = units[0].lower in POSSESSIVES and units[0].lower != "whose" and not named
    if unknown or (rest[0].kind == "word" and rest[0].lower in PRONOUNS):
        return Chunk("pronoun", _join_units(rest), full)
    names = tuple(unit.text for unit in rest if unit.kind in NAME_UNITS)
    if named:
        return Chunk(
            "name", _join_units(rest), full, rest[-1].text, _join_units(rest[:-1]), owner, names[:-1], definite
        )
    quantity = all(unit.kind in ("date", "number", "mark") for unit in rest)
    return Chunk("quantity" if quantity else "common", _join_units(rest), full, "", "", owner, names, definite)


def _split_owner(units: Sequence[Unit]) -> tuple[str, Sequence[Unit]]:
    """Return the name before the last "'s" of a phrase, and the units after it."""
    for position in range(len(units) - 1, 0, -1):
        if units[position].text == "'s":
            before = units[position - 1]
            return (before.text if before.kind in NAME_UNITS else ""), units[position + 1 :]
    return "", units


def _join_units(units: Sequence[Unit]) -> str:
    return "".join(unit.space + unit.text for unit in units).strip(" \"'") if units else ""


def is_demonym(name: str) -> bool:
    """Return whether a name is the adjective of a country or people, which links nothing: American, French."""
    return " " not in name and (name.endswith(DEMONYM_ENDINGS) or name.rpartition("-")[2] in DEMONYMS)
