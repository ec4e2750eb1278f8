"""Detection of verbs in a sentence, by word form and context."""

from collections.abc import Sequence

from ragindex.english.mentions import Unit
from ragindex.english.words import (
    ADVERBS,
    ARTICLES,
    AUXILIARIES,
    COPULAS,
    DEGREES,
    DETERMINERS,
    ENGLISH_FUNCTION_WORDS,
    LIVING,
    MODALS,
    NEGATING,
    NOT_ADVERBS,
    NOT_PARTICIPLES,
    NOT_PAST,
    PAST_VERBS,
    POSSESSIVES,
    PREPOSITIONS,
    PRESENT_PLURAL_VERBS,
    PRESENT_VERBS,
    PRONOUNS,
    RELATIVES,
)

NAME_UNITS = frozenset(("name", "title", "subject"))
"""The kinds of unit that are names."""


def lower_at(units: Sequence[Unit], position: int) -> str:
    """Return the word at `position` in lower case, or "" outside the sentence."""
    return units[position].lower if 0 <= position < len(units) else ""


def begins_verb(units: Sequence[Unit], position: int) -> bool:
    """Return whether a verb group begins here: a verb, or an adverb that negates it."""
    if lower_at(units, position) in NEGATING:
        position += 1
    if position >= len(units) or units[position].kind != "word":
        return False
    before, word = lower_at(units, position - 1), units[position].lower
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
    before, word, after = units[position - 1], units[position].lower, lower_at(units, position + 1)
    if word in PRESENT_VERBS:
        return before.lower not in PREPOSITIONS and not _is_adjective(units, position)
    if word.endswith("s") and before.kind in NAME_UNITS and not word.endswith("ss"):
        return after in DETERMINERS or after in POSSESSIVES
    if word not in PRESENT_PLURAL_VERBS:
        return False
    joined = before.kind in NAME_UNITS and lower_at(units, position - 2) == "and"
    return joined or before.lower.endswith("s") or before.lower in PRONOUNS or before.lower in RELATIVES


def _is_past(word: str) -> bool:
    """Return whether a word can be a past form or past participle: "co-founded" can, "so-called" cannot."""
    base = word.removeprefix("co-").removeprefix("re-")
    return base in PAST_VERBS or (base.endswith("ed") and len(base) > 3 and base.isalpha() and base not in NOT_PAST)


def _is_infinitive(units: Sequence[Unit], position: int) -> bool:
    """Return whether "to" precedes a verb instead of a noun: "to become", not "to the", "to Paris", "to members"."""
    after = units[position + 1] if position + 1 < len(units) else None
    plain = (
        after is not None
        and after.kind == "word"
        and after.text.islower()
        and after.lower not in ENGLISH_FUNCTION_WORDS
    )
    return plain and (
        lower_at(units, position + 2) in ENGLISH_FUNCTION_WORDS or after.lower in ("be", "have") if after else False
    )


def _is_adjective(units: Sequence[Unit], position: int) -> bool:
    """Return whether a verb form describes the noun after it: "the newly formed band", "of related fields"."""
    before = lower_at(units, position - 1)
    if not is_noun_like(units, position + 1):
        return False
    if before.endswith("ly") or before in DEGREES:
        return any(lower_at(units, place) in DETERMINERS for place in range(position - 4, position - 1))
    return before in PREPOSITIONS and units[position + 1].kind == "word"


def is_noun_like(units: Sequence[Unit], position: int) -> bool:
    """Return whether `position` has a name or a content word: a noun, an adjective or a verb."""
    if not 0 <= position < len(units):
        return False
    unit = units[position]
    if unit.kind in NAME_UNITS:
        return True
    return unit.kind == "word" and not (
        unit.lower in ENGLISH_FUNCTION_WORDS or unit.lower in AUXILIARIES or is_adverb(unit.lower)
    )


def _is_participle(units: Sequence[Unit], position: int) -> bool:
    """Return whether a word in -ing is a verb here: before an object, or before a preposition after a name or mark."""
    word, after = units[position].lower, units[position + 1] if position + 1 < len(units) else None
    if word in NOT_PARTICIPLES or after is None or len(word) < 5:
        return False
    before = units[position - 1] if position else None
    if after.lower in ARTICLES or after.lower in POSSESSIVES or after.kind in NAME_UNITS or after.kind == "number":
        return before is not None
    if before is not None and before.text == "," and is_noun_like(units, position + 1):
        return True
    loose = before is not None and (word in LIVING or before.kind in NAME_UNITS or before.text in (",", ")"))
    return loose and after.lower in PREPOSITIONS


def verb_group_end(units: Sequence[Unit], position: int) -> int:
    """Return the end of the verb group at `position`: auxiliaries, adverbs, the verb, and infinitives after it."""
    position += lower_at(units, position) in NEGATING
    end, last = position + 1, lower_at(units, position)
    while end < min(len(units), position + 8) and units[end].kind == "word":
        word = units[end].lower
        if word == "not" or (is_adverb(word) and _continues_group(units, end + 1, last)):
            end += 1
        elif _continues_group(units, end, last):
            last, end = word, end + 1
        else:
            break
    while (
        end < len(units)
        and units[end].kind == "word"
        and is_adverb(units[end].lower)
        and not is_noun_like(units, end + 1)
    ):
        end += 1
    return end


def is_adverb(word: str) -> bool:
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
