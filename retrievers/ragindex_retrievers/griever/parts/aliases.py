"""String evidence that two names stand for one thing, as pure functions, for names in English text.

It is about spelling only: `ragindex_retrievers.griever.parts.same_as` decides in which passages two names mean the
same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

import regex

from ragindex_retrievers.griever.parts.alias_names import Name, folded, is_numeral, name_words

_PART_OF = name_words("season phase part volume episode chapter book act series disc round leg group class")
_POSSESSIVE = regex.compile(r"['’]s\b")
_SMALL_WORDS = name_words("of the and")
_OPPOSITES = (("inter", "intra"), ("macro", "micro"), ("hyper", "hypo"), ("anterior", "posterior"), ("super", "supra"))
EvidenceScope: TypeAlias = Literal["agreeing", "together", "apart", "everywhere", "given"]
LAST_NAME = "last name"
"""Kind of evidence with extra conditions in `ragindex_retrievers.griever.parts.alias_pairs`."""
_SLIP_LENGTH, _TWO_SLIPS_LENGTH = 5, 10
"""Minimum letters of a word in which one letter, or two letters, may differ."""


@dataclass(frozen=True, slots=True)
class AliasEvidence:
    """Reason why two names may be aliases: its `kind`, a `detail`, and a `score` from 0 to 1 for how strong it is.

    `where` says in which passages it counts: those whose contexts agree (agreeing); those that name both
    (together); none if any passage names both (apart), since a text that writes "X" and "X (album)" means two
    things; all (everywhere); only those given with it (given).
    """

    kind: str
    score: float
    detail: str = ""
    where: EvidenceScope = "agreeing"

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


def likeness(name: Name, other: Name) -> AliasEvidence | None:
    """Return why two names that share a key may be aliases, or None.

    The first of three reasons counts: same words, acronym, name of a person.
    """
    if not (name.words and other.words) or _are_told_apart(name, other):
        return None
    return (
        _compare_words(name, other)
        or _compare_acronym(name, other)
        or _compare_acronym(other, name)
        or _compare_persons(name, other)
    )


def _are_told_apart(first: Name, second: Name) -> bool:
    """Return whether generation or form of state tell two names apart: father and son, kingdom and republic."""
    generations = {first.generation, second.generation} - {""}
    forms = [{left for left in name.left if left.endswith(" of")} for name in (first, second)]
    return len(generations) > 1 or (all(forms) and forms[0] != forms[1])


# ---------------------------------------------------------------- the same words


def _compare_words(name: Name, other: Name) -> AliasEvidence | None:
    if _differ_in_capitals(name.head, other.head):
        return None
    if name.full_key == other.full_key:
        qualifiers: tuple[str, ...] = ()
    elif name.key == other.key and (more := more_beside(name, other)) is not None:
        qualifiers = more
    else:
        return None
    small = tuple(sorted({*name.left} ^ {*other.left}))
    generation = (name.generation or other.generation,) if name.generation != other.generation else ()
    omitted = (*small, *generation, *qualifiers)
    if not omitted:
        return AliasEvidence("spelling", 1.0, where="everywhere" if _is_one_name(name.text, other.text) else "agreeing")
    names_kind = any(text.split()[-1].islower() for text in qualifiers)  # which of several things: "album", "1995 film"
    two_things = bool(generation) or names_kind
    score = 0.75 if two_things else 0.8 if qualifiers else 0.95
    return AliasEvidence("left out", score, ", ".join(omitted), "apart" if two_things else "agreeing")


def _is_one_name(first: str, other: str) -> bool:
    """Return whether both names are several words with capitals, which are one name however they are spelt."""
    return all(len(head.split()) > 1 and all(word[0].isupper() for word in head.split()) for head in (first, other))


def _differ_in_capitals(first: str, other: str) -> bool:
    """Return whether capitals tell two words apart: US is not us, and IT is not it."""
    return any(head.isupper() and len(head) > 1 for head in (first, other)) and (first.islower() or other.islower())


def more_beside(name: Name, other: Name) -> tuple[str, ...] | None:
    """Return the qualifiers that only one of the names has; None if their qualifiers differ otherwise."""
    few, many = sorted((name.beside, other.beside), key=len)
    more = many[len(few) :]
    if [folded(text) for text in few] != [folded(text) for text in many[: len(few)]]:
        return None
    return None if any(not _PART_OF.isdisjoint(folded(text)) for text in more) else more  # a season is not the series


# ---------------------------------------------------------------- acronyms and persons


def _compare_acronym(short: Name, long: Name) -> AliasEvidence | None:
    if not short.acronym:
        return None
    if short.acronym == long.stated:
        return AliasEvidence("acronym", 0.95, "stated in parentheses")
    if short.acronym not in (long.initials, long.all_initials):
        return None
    unsure = len(short.acronym) < 3 or long.person or short.acronym != long.initials
    return AliasEvidence("acronym", 0.85, where="together" if unsure else "agreeing")


def _compare_persons(first: Name, second: Name) -> AliasEvidence | None:
    short, long = sorted((first, second), key=lambda name: (len(name.parts), len(name.head), name.head))
    if not (long.person and short.parts and short.parts[-1] == long.parts[-1]) or (
        short.generation and not long.generation
    ):
        return None
    if short.last_name:
        return AliasEvidence(LAST_NAME, 0.7, where="given")
    given_names, names = short.parts[:-1], long.parts[:-1]
    if not (short.person and given_names and _contains_names(given_names, names)):
        return None
    if given_names[0] == names[0]:
        return AliasEvidence("middle name left out", 0.85, " ".join(names[1:]).title())
    return AliasEvidence("initials", 0.8, where="together") if given_names[0] == names[0][0] else None


def _contains_names(few: Sequence[str], many: Sequence[str]) -> bool:
    """Return whether the names `few` occur in `many` in order; an initial matches any name that begins with it."""
    rest = iter(many)
    return all(any(name == words or (len(name) == 1 and words[0] == name) for words in rest) for name in few)


# ---------------------------------------------------------------- names with near vectors


def alike(first: Name, second: Name) -> bool:
    """Return whether two names with different words are written alike: in another order, or with a spelling slip.

    Only small words may be left out; numbers and qualifiers must agree. Common nouns are never alike.
    """
    names = (first, second)
    if first.key == second.key or _are_told_apart(first, second) or first.generation != second.generation:
        return False
    if not all(name.words and name.head[0].isupper() for name in names):
        return False
    if [folded(text) for text in first.beside] != [folded(text) for text in second.beside]:
        return False
    bags = [
        sorted(word for word in folded(_POSSESSIVE.sub("", name.head)) if word not in _SMALL_WORDS) for name in names
    ]
    if bags[0] == bags[1]:
        return len(bags[0]) > 1
    same_length = len(first.words) == len(second.words)
    return same_length and all(a == b or slip(a, b) for a, b in zip(first.words, second.words, strict=True))


def slip(first: str, other: str) -> bool:
    """Return whether two words differ by one or two letters inside.

    Their ends must be equal: "Julia" and "Julian" are two names.
    """
    short, long = sorted((first, other), key=len)
    if len(short) < _SLIP_LENGTH or short[0] != long[0] or short[-1] != long[-1] or not (first + other).isalpha():
        return False
    if (is_numeral(first) and is_numeral(other)) or _are_opposites(first, other):
        return False
    return _count_changes(short, long) <= (2 if len(short) >= _TWO_SLIPS_LENGTH else 1)


def _are_opposites(first: str, other: str) -> bool:
    pairs = [*_OPPOSITES, *((b, a) for a, b in _OPPOSITES)]
    return any(first.startswith(a) and other.startswith(b) for a, b in pairs)


def _count_changes(first: str, other: str) -> int:
    """Return how many letters are inserted, deleted or replaced; two swapped neighbours count as one."""
    if len(first) == len(other):
        places = [place for place in range(len(first)) if first[place] != other[place]]
        if len(places) == 2 and places[1] == places[0] + 1 and sorted(first) == sorted(other):
            return 1
    steps = SequenceMatcher(None, first, other, autojunk=False).get_opcodes()
    return sum(max(i2 - i1, j2 - j1) for step, i1, i2, j1, j2 in steps if step != "equal")
