"""Coreference resolution: pronouns, definite descriptions and surnames are replaced by the names they refer to."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from ragindex.english.mentions import Unit
from ragindex.english.subjects import Subject, is_likely_person, may_be_person
from ragindex.english.words import (
    AUXILIARIES,
    ENGLISH_FUNCTION_WORDS,
    HONORIFICS,
    JUDGING,
    MALE_OR_FEMALE,
    PAST_VERBS,
    PLURAL,
    POSSESSIVE_PRONOUNS,
    SUBJECT_PRONOUNS,
)


def find_surnames(sentences: Iterable[Sequence[Unit]], subject: Subject) -> dict[str, str]:
    """Return the persons of a passage by unambiguous surname, except surnames that are words of the title."""
    found: dict[str, set[str]] = {}
    for sentence in sentences:
        for unit in sentence:
            if unit.kind == "name" and is_likely_person(unit.text):
                found.setdefault(unit.text.rsplit(" ", 1)[1], set()).add(unit.text)
    unsure = set(subject.name.split())
    return {
        last: min(names) for last, names in found.items() if len(names) == 1 and last not in unsure and len(last) > 2
    }


def resolve_references(
    sentence: Sequence[Unit], subject: Subject, person: str = "", people: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[Unit], str]:
    """Replace words of a sentence that refer to the title or to a person; return the units and the current person.

    `people` has full names by surname. `person` is the person of the previous sentences, which pronouns may refer to
    if the title is not a person; pass the returned one with the next sentence. Ambiguous words are not replaced.
    """
    found: list[Unit] = []
    other = ""  # the first person that this sentence names, whom later pronouns may refer to
    position = 0
    while position < len(sentence):
        known = people.get(sentence[position].text, "") if sentence[position].kind == "name" else ""
        if known:
            found.append(_rename_unit(sentence[position], known, "name"))
            position += 1
            continue
        new, width = _resolve_unit(sentence, position, subject, other or person if subject.kind != "person" else other)
        about = subject.kind == "person" and any(unit.kind == "subject" for unit in found)
        if not other and not about and new[0].kind == "name" and is_likely_person(new[0].text):
            other = new[0].text
        found += new
        position += width
    return found, other or person


def _resolve_unit(sentence: Sequence[Unit], position: int, subject: Subject, other: str) -> tuple[list[Unit], int]:
    """Return the units that replace those at `position`, and the number of units replaced."""
    unit = sentence[position]
    if unit.kind == "name" and subject.surname and _strip_honorific(unit.text) == subject.surname:
        return [_rename_unit(unit, subject.name)], 1
    if unit.kind != "word" or (unit.text.isupper() and len(unit.text) > 1):
        return [unit], 1
    if subject.name and unit.lower in ("the", "this") and _describes_subject(sentence, position, subject):
        return [_rename_unit(unit, subject.name)], 2
    antecedent = _find_antecedent(sentence, position, subject, other)
    if not antecedent:
        return [unit], 1
    named = _rename_unit(unit, antecedent, "subject" if antecedent == subject.name else "name")
    mark = Unit("'s", "'s", "mark", "", unit.start)
    return ([named, mark] if _is_possessive(sentence, position) else [named]), 1


def _strip_honorific(name: str) -> str:
    first, _, rest = name.partition(" ")
    return rest if first in HONORIFICS or f"{first}." in HONORIFICS else name


def _rename_unit(unit: Unit, name: str, kind: Literal["subject", "name"] = "subject") -> Unit:
    return unit._replace(text=name, lower=name.lower(), kind=kind)


def _find_antecedent(sentence: Sequence[Unit], position: int, subject: Subject, other: str) -> str:
    """Return the name that a pronoun refers to, or "" if that is ambiguous."""
    word = sentence[position].lower
    if word not in SUBJECT_PRONOUNS and word not in POSSESSIVE_PRONOUNS and word not in ("him", "them"):
        return ""
    if word in MALE_OR_FEMALE:
        fits = subject.kind == "person" or (subject.kind == "unknown" and may_be_person(subject.name))
        if fits:
            return "" if other else subject.name
        return other
    if word in PLURAL:
        return subject.name if subject.kind == "group" and not other else ""
    return subject.name if subject.kind != "person" and not _is_expletive(sentence, position) else ""


def _is_possessive(sentence: Sequence[Unit], position: int) -> bool:
    """Return whether a pronoun is possessive; only "her" is ambiguous."""
    word = sentence[position].lower
    if word != "her":
        return word in POSSESSIVE_PRONOUNS
    after = sentence[position + 1] if position + 1 < len(sentence) else None
    return after is not None and after.kind != "mark" and after.lower not in ENGLISH_FUNCTION_WORDS


def _is_expletive(sentence: Sequence[Unit], position: int) -> bool:
    """Return whether "it" refers to nothing: "It is said that", "it was not until", "it took"."""
    after = [unit.lower for unit in sentence[position + 1 : position + 12]]
    if not after or sentence[position].lower != "it":
        return False
    told = not JUDGING.isdisjoint(after[1:4]) and not _EXPLETIVE_MARKERS.isdisjoint(after[2:])
    return after[0] in ("took", "takes", "seems", "appears") or "until" in after[1:3] or told


_EXPLETIVE_MARKERS = frozenset(("that", "to", "if", "whether", "who", "how", "why"))


def _describes_subject(sentence: Sequence[Unit], position: int, subject: Subject) -> bool:
    """Return whether "the film" refers to the title: its noun is one of the subject's, and nothing narrows it down."""
    noun, after = (sentence[place] if place < len(sentence) else None for place in (position + 1, position + 2))
    if noun is None or noun.lower not in subject.nouns:
        return False
    if after is None or after.kind == "mark":
        return True
    narrows = after.lower in ("of", "that", "which", "who", "called", "named", "for", "in", "with")
    return (
        after.kind == "word"
        and not narrows
        and (after.lower in _FOLLOWING_WORDS or after.lower.endswith(("ed", "ly", "s")))
    )


_FOLLOWING_WORDS = ENGLISH_FUNCTION_WORDS | AUXILIARIES | PAST_VERBS
