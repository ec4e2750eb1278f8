"""Chunker of sentences into noun phrases, verb groups, and the words and marks between them.

There is no dictionary of nouns: a word belongs to a noun phrase if it is not a function word and does not look like a
verb in its context.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from ragindex.english.mentions import Unit
from ragindex.english.words import (
    ADVERBS,
    ARTICLES,
    AUXILIARIES,
    CONJUNCTIONS,
    COPULAS,
    DEGREES,
    DEMONYM_ENDINGS,
    DEMONYMS,
    DETERMINERS,
    ENGLISH_FUNCTION_WORDS,
    LIVING,
    MODALS,
    NEGATING,
    NOT_ADVERBS,
    NOT_PARTICIPLES,
    NOT_PAST,
    NUMBER_WORDS,
    PAST_VERBS,
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
NAME_UNITS = frozenset(("name", "title", "subject"))
"""The kinds of unit that are names."""

PHRASES = frozenset(("name", "common", "quantity", "pronoun"))
"""The kinds of chunk that are noun phrases."""

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
_FUNCTION_WORDS: tuple[tuple[frozenset[str], ChunkKind], ...] = (
    (CONJUNCTIONS, "and"),
    (RELATIVES, "relative"),
    (SUBORDINATORS, "subordinate"),
    (PREPOSITIONS, "preposition"),
)


def find_chunks(units: Sequence[Unit]) -> list[Chunk]:
    """Return the chunks of a sentence, in order; quotation marks are left out."""
    unquoted: list[Unit] = []
    space = ""  # before a quotation mark, and so before the unit after it
    for unit in units:
        if unit.text in _QUOTES:
            space = space or unit.space
        else:
            unquoted.append(unit._replace(space=unit.space or space))
            space = ""
    chunks: list[Chunk] = []
    position = 0
    while position < len(unquoted):
        chunk, position = _read_chunk(unquoted, position)
        chunks.append(chunk)
    return chunks


def _read_chunk(units: Sequence[Unit], position: int) -> tuple[Chunk, int]:
    """Return the chunk that begins at `position`, and its end."""
    unit = units[position]
    if unit.kind == "mark" and unit.text != "'s":
        return Chunk(_MARKS.get(unit.text, "stop"), unit.text), position + 1
    words = tuple(unit.lower for unit in units[position : position + 3])
    for fixed in (words, words[:2]):
        if fixed in _FIXED_EXPRESSIONS:
            return Chunk(_FIXED_EXPRESSIONS[fixed], " ".join(fixed)), position + len(fixed)
    if _begins_verb(units, position):
        end = _find_verb_end(units, position)
        return _build_verb_chunk(units[position:end]), end
    kind = _classify_function_word(units, position)
    if kind is not None:
        return Chunk(kind, unit.lower), position + 1
    end = _find_phrase_end(units, position)
    return _build_phrase_chunk(units[position:end]), end


def _classify_function_word(units: Sequence[Unit], position: int) -> ChunkKind | None:
    """Return the kind of the function word at `position`, or None if a noun phrase begins there."""
    word = units[position].lower
    if units[position].kind != "word" or (word == "that" and _lower_at(units, position - 1) in ("", "in", "of")):
        return None
    for words, kind in _FUNCTION_WORDS:
        if word in words:
            return kind
    if not _is_adverb(word):
        return None
    verb_next = _begins_verb(units, position + 1)
    if word in DEGREES:
        return "adverb" if verb_next else None
    return "adverb" if word in ADVERBS or verb_next or not _is_noun_like(units, position + 1) else None


# ---------------------------------------------------------------- noun phrases


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
    if before.kind == "date":
        return (articled or before.lower.endswith("century")) and _is_noun_like(units, position)
    if unit.kind == "date":
        led = before.lower in DETERMINERS or before.lower in POSSESSIVES
        return before.kind == "word" and (led or (articled and _is_noun_like(units, position + 1)))
    if unit.kind != "word":
        return before.kind != "number" or unit.kind != "number"
    return _word_belongs(units, position, articled)


def _word_belongs(units: Sequence[Unit], position: int, articled: bool) -> bool:
    word, before = units[position].lower, units[position - 1]
    if word in NUMBER_WORDS and before.kind in NAME_UNITS:
        return False
    if word in DETERMINERS:
        return before.lower in DETERMINERS
    if _begins_verb(units, position + 1) and (word in DEGREES or _is_adverb(word)):
        return False
    if _is_adverb(word) and word not in DEGREES:
        return articled and _is_noun_like(units, position + 1)
    return (word not in ENGLISH_FUNCTION_WORDS or word in DEGREES) and not _begins_verb(units, position)


def _build_phrase_chunk(units: Sequence[Unit]) -> Chunk:
    full = _join_units(units)
    definite = units[0].lower in ("the", "this", "these", "those")
    owner, rest = "", units
    for position in range(len(units) - 1, 0, -1):
        if units[position].text == "'s":
            before = units[position - 1]
            owner, rest = before.text if before.kind in NAME_UNITS else "", units[position + 1 :]
            break
    while rest and rest[0].kind == "word" and rest[0].lower in _LEADING_WORDS:
        rest = rest[1:]
    if not rest:
        return Chunk("pronoun", full, full)
    is_name = rest[-1].kind in NAME_UNITS
    unknown = units[0].lower in POSSESSIVES and units[0].lower != "whose" and not is_name
    if unknown or (rest[0].kind == "word" and rest[0].lower in PRONOUNS):
        return Chunk("pronoun", _join_units(rest), full)
    names = tuple(unit.text for unit in rest if unit.kind in NAME_UNITS)
    if is_name:
        return Chunk(
            "name", _join_units(rest), full, rest[-1].text, _join_units(rest[:-1]), owner, names[:-1], definite
        )
    quantity = all(unit.kind in ("date", "number", "mark") for unit in rest)
    return Chunk("quantity" if quantity else "common", _join_units(rest), full, "", "", owner, names, definite)


def _join_units(units: Sequence[Unit]) -> str:
    return "".join(unit.space + unit.text for unit in units).strip(" \"'")


def is_demonym(name: str) -> bool:
    """Return whether a name is the adjective of a country or people, which links nothing: American, French."""
    return " " not in name and (name.endswith(DEMONYM_ENDINGS) or name.rpartition("-")[2] in DEMONYMS)


# ---------------------------------------------------------------- verbs


def _build_verb_chunk(units: Sequence[Unit]) -> Chunk:
    verbs = [unit.lower for unit in units if not _is_adverb(unit.lower)]
    text = " ".join(unit.text if unit.start else unit.lower for unit in units)
    bare = verbs[0] not in AUXILIARIES and verbs[0] not in PRESENT_VERBS and verbs[0] not in PRESENT_PLURAL_VERBS
    return Chunk("verb", text, text, copula=verbs[-1] in COPULAS, bare=bare)


def _lower_at(units: Sequence[Unit], position: int) -> str:
    """Return the word at `position` in lower case, or "" outside the sentence."""
    return units[position].lower if 0 <= position < len(units) else ""


def _begins_verb(units: Sequence[Unit], position: int) -> bool:
    """Return whether a verb group begins here: a verb, or an adverb that negates it."""
    if _lower_at(units, position) in NEGATING:
        position += 1
    if position >= len(units) or units[position].kind != "word":
        return False
    before, word = _lower_at(units, position - 1), units[position].lower
    if (before in DETERMINERS or before in POSSESSIVES or before == "'s") and before not in ("that", "which"):
        return word in AUXILIARIES and word not in MODALS and before in ("this", "these", "those", "all", "other")
    if word in AUXILIARIES or (word == "to" and _is_infinitive(units, position)):
        return True
    if _is_past(word):
        return not _is_adjective(units, position)
    return _is_present(units, position) or (word.endswith("ing") and _is_participle(units, position))


def _is_present(units: Sequence[Unit], position: int) -> bool:
    """Return whether a word is a present-tense verb: by the lists, or by its -s between a name and a determiner."""
    if position == 0:
        return False
    before, word, after = units[position - 1], units[position].lower, _lower_at(units, position + 1)
    if word in PRESENT_VERBS:
        return before.lower not in PREPOSITIONS and not _is_adjective(units, position)
    if word.endswith("s") and before.kind in NAME_UNITS and not word.endswith("ss"):
        return after in DETERMINERS or after in POSSESSIVES
    if word not in PRESENT_PLURAL_VERBS:
        return False
    joined = before.kind in NAME_UNITS and _lower_at(units, position - 2) == "and"
    return joined or before.lower.endswith("s") or before.lower in PRONOUNS or before.lower in RELATIVES


def _is_past(word: str) -> bool:
    """Return whether a word can be a past form or past participle: "co-founded" can, "so-called" cannot."""
    base = word.removeprefix("co-").removeprefix("re-")
    return base in PAST_VERBS or (base.endswith("ed") and len(base) > 3 and base.isalpha() and base not in NOT_PAST)


def _is_infinitive(units: Sequence[Unit], position: int) -> bool:
    """Return whether "to" precedes a verb instead of a noun: "to become", not "to the", "to Paris", "to members"."""
    if position + 1 >= len(units):
        return False
    after = units[position + 1]
    plain = after.kind == "word" and after.text.islower() and after.lower not in ENGLISH_FUNCTION_WORDS
    return plain and (_lower_at(units, position + 2) in ENGLISH_FUNCTION_WORDS or after.lower in ("be", "have"))


def _is_adjective(units: Sequence[Unit], position: int) -> bool:
    """Return whether a verb form describes the noun after it: "the newly formed band", "of related fields"."""
    before = _lower_at(units, position - 1)
    if not _is_noun_like(units, position + 1):
        return False
    if before.endswith("ly") or before in DEGREES:
        return any(_lower_at(units, place) in DETERMINERS for place in range(position - 4, position - 1))
    return before in PREPOSITIONS and units[position + 1].kind == "word"


def _is_noun_like(units: Sequence[Unit], position: int) -> bool:
    """Return whether `position` has a name or a content word: a noun, an adjective or a verb."""
    if not 0 <= position < len(units):
        return False
    unit = units[position]
    if unit.kind in NAME_UNITS:
        return True
    return unit.kind == "word" and not (
        unit.lower in ENGLISH_FUNCTION_WORDS or unit.lower in AUXILIARIES or _is_adverb(unit.lower)
    )


def _is_participle(units: Sequence[Unit], position: int) -> bool:
    """Return whether a word in -ing is a verb here: before an object, or before a preposition after a name or mark."""
    word, after = units[position].lower, units[position + 1] if position + 1 < len(units) else None
    if word in NOT_PARTICIPLES or after is None or len(word) < 5:
        return False
    before = units[position - 1] if position else None
    if after.lower in ARTICLES or after.lower in POSSESSIVES or after.kind in NAME_UNITS or after.kind == "number":
        return before is not None
    if before is not None and before.text == "," and _is_noun_like(units, position + 1):
        return True
    loose = before is not None and (word in LIVING or before.kind in NAME_UNITS or before.text in (",", ")"))
    return loose and after.lower in PREPOSITIONS


def _find_verb_end(units: Sequence[Unit], position: int) -> int:
    """Return the end of the verb group at `position`: auxiliaries, adverbs, the verb, and infinitives after it."""
    position += _lower_at(units, position) in NEGATING
    end, last = position + 1, _lower_at(units, position)
    while end < min(len(units), position + 8) and units[end].kind == "word":
        word = units[end].lower
        if word == "not" or (_is_adverb(word) and _continues_group(units, end + 1, last)):
            end += 1
        elif _continues_group(units, end, last):
            last, end = word, end + 1
        else:
            break
    while (
        end < len(units)
        and units[end].kind == "word"
        and _is_adverb(units[end].lower)
        and not _is_noun_like(units, end + 1)
    ):
        end += 1
    return end


def _is_adverb(word: str) -> bool:
    """Return whether a lower-case word is an adverb, by the list or by its ending."""
    return word in ADVERBS or (word.endswith("ly") and len(word) > 4 and word not in NOT_ADVERBS)


def _continues_group(units: Sequence[Unit], position: int, last: str) -> bool:
    """Return whether the word at `position` belongs to the verb group whose last verb is `last`."""
    if position >= len(units) or units[position].kind != "word":
        return False
    word = units[position].lower
    if last in MODALS or last in ("do", "does", "did", "to"):
        return word not in ENGLISH_FUNCTION_WORDS
    if word == "to":
        return _is_infinitive(units, position)
    if last not in AUXILIARIES:
        return False
    if _is_past(word) or word in ("been", "being", "become"):
        return True
    return last in COPULAS and word.endswith("ing") and word not in NOT_PARTICIPLES
