"""Subject of a passage, and coreference: words that refer to the subject or to a person are replaced by names."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import regex

from ragindex.english.mentions import Unit, iterate_mentions
from ragindex.english.sentences import normalize_text, tokenize
from ragindex.english.words import (
    AUXILIARIES,
    BODIES,
    COMPANIES,
    ENGLISH_FUNCTION_WORDS,
    GROUP_NOUNS,
    HONORIFICS,
    JUDGING,
    MALE_OR_FEMALE,
    PAST_VERBS,
    PERSON_NOUNS,
    PLURAL,
    POSSESSIVE_PRONOUNS,
    PREPOSITIONS,
    SUBJECT_PRONOUNS,
    THING_NOUNS,
)

SubjectKind = Literal["person", "group", "thing", "unknown"]

_NOUNS: tuple[tuple[SubjectKind, frozenset[str]], ...] = (
    ("person", PERSON_NOUNS),
    ("group", GROUP_NOUNS),
    ("thing", THING_NOUNS),
)
_BRACKETED_END = regex.compile(r"(?:(?<!\s)\s++)?+\([^()]*\)\s*$")
_ACRONYM = regex.compile(r"^[^.]{0,120}?\((?:abbreviated |known as |or |the )?(\p{Lu}[\p{Lu}&.-]{1,7})\b")
_BORN = regex.compile(
    r"^[^.]{0,150}\((?:[^()]{0,60} )?(?:born|died|b\.|\d{1,2} \p{L}+ \d{4}|\p{Lu}\p{Ll}+ \d{1,2}, \d{4})"
)
_DEFINITION = regex.compile(r"\b(?:is|was|are|were)(?: \p{Ll}+ly| also| one of)? (?:an?|the)\b")
_HEAD_ENDS = (
    PREPOSITIONS | frozenset(("that", "which", "who", "whose", "where", "when", "and", "or", "is", "was", "are"))
) - {"including"}


@dataclass(frozen=True, slots=True)
class Subject:
    """Subject of a passage.

    `name` is the title without a final parenthesis. `forms` are the names of the subject, each as a tuple of words (see
    `split_units`), longest first. `surname` is "" if there is none. `nouns` are the common nouns of definite
    descriptions such as "the film".
    """

    name: str
    forms: tuple[tuple[str, ...], ...]
    surname: str
    nouns: frozenset[str]
    kind: SubjectKind


def find_subject(title: str, sentences: Sequence[str]) -> Subject:
    """Return the subject of a passage, from its title and its normalized sentences."""
    title = " ".join(normalize_text(title).split())
    name = strip_brackets(title)
    first = sentences[0] if sentences else ""
    nouns = _find_defining_nouns(first)
    nouns |= {word for word in _split_title(title) if any(word in nouns_of_kind for _, nouns_of_kind in _NOUNS)}
    nouns |= {"company"} if COMPANIES & _split_title(name) else set()
    kind = _classify_subject(name, nouns, sentences)
    surname = _find_surname(name) if kind in ("person", "unknown") else ""
    return Subject(name, _list_forms(name, first), surname, frozenset(nouns), kind)


def strip_brackets(title: str) -> str:
    """Return a title without a last parenthesis, unless it is nothing else: "Salt" for "Salt (film)"."""
    return _BRACKETED_END.sub("", title) or title


def _split_title(title: str) -> set[str]:
    return {word.lower() for word in regex.findall(r"\p{L}+", title)}


def _find_defining_nouns(sentence: str) -> set[str]:
    """Return the nouns of "is a … singer and actor from …": the last word before each "and", comma or preposition."""
    match = _DEFINITION.search(sentence[:400])
    if match is None:
        return set()
    nouns: set[str] = set()
    before = ""
    for token in tokenize(sentence[match.end() : match.end() + 150]):
        ends = (
            token.lower in _HEAD_ENDS or token.kind == "mark" or token.lower.endswith("ed") or token.lower in PAST_VERBS
        )
        if ends and before:
            nouns.add(before)
        if ends and token.lower not in ("and", ",", "or", "-", '"', "'"):
            break
        before = token.lower if token.text.islower() and token.kind == "word" else ""
    else:
        nouns |= {before} if before else set()
    return nouns - ENGLISH_FUNCTION_WORDS


def _list_forms(name: str, first: str) -> tuple[tuple[str, ...], ...]:
    """Return the forms of a title: whole, before a comma, in full in the first sentence, and abbreviated there."""
    names = [name]
    head, _, tail = name.partition(", ")
    if tail[:1].isupper() and len(head) > 2:  # "Tellin, Marland", not "Tarzan, the Ape Man"
        names.append(head)
    opening = next(iterate_mentions(first[:100]), None)
    if opening is not None and opening.start == 0 and opening.kind == "name":
        words = name.split()
        if len(words) > 1 and set(words) < set(opening.text.split()):  # James Alan Hetfield for James Hetfield
            names.append(opening.text)
    acronym = _ACRONYM.match(first)
    initials = regex.findall(r"(\p{Lu})\p{L}*", name)
    if acronym and len(initials) > 1 and acronym[1][0] == initials[0]:
        names.append(acronym[1])
    forms = {form for each in names if (form := _split_form(each))}
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _split_form(name: str) -> tuple[str, ...]:
    """Return the words of a title, the first in lower case if it is the only word or others are in lower case."""
    words = [token.text for token in tokenize(name)]
    plain = len(words) == 1 or any(
        word.islower() and word not in ENGLISH_FUNCTION_WORDS and len(word) > 3 for word in words[1:]
    )
    return tuple(words if not plain else [words[0].lower(), *words[1:]])


def _classify_subject(name: str, nouns: Iterable[str], sentences: Sequence[str]) -> SubjectKind:
    """Classify a subject by its nouns and name, or else by the pronouns at the start of sentences."""
    kinds = {next((kind for kind, known in _NOUNS if noun in known), "unknown") for noun in nouns}
    if "person" in kinds and "thing" not in kinds:
        return "person"
    if COMPANIES & _split_title(name) or ("group" in kinds and "person" not in kinds):
        return "group"
    if "thing" in kinds:
        return "thing"
    if sentences and _BORN.match(sentences[0]):
        return "person"
    opening = Counter(sentence.split(" ", 1)[0].lower() for sentence in sentences)
    persons, things = opening["he"] + opening["she"] + opening["his"] + opening["her"], opening["it"] + opening["its"]
    if persons > things and may_be_person(name):
        return "person"
    return "thing" if things else "unknown"


def _find_surname(name: str) -> str:
    """Return the last of two to four capitalized words ("Solovej" of "Jan Philip Solovej"), or ""."""
    words = [word for word in name.split() if word not in ("Jr.", "Sr.", "Jr", "Sr", "II", "III")]
    if not 2 <= len(words) <= 4 or not all(word[:1].isupper() or len(word) < 4 for word in words):
        return ""
    last = words[-1]
    alone = last not in BODIES and last.isalpha() and len(last) > 2
    return last if alone and words[-2].lower() not in ("of", "the") else ""


def may_be_person(name: str) -> bool:
    """Return whether a title can be a person's name: one to four capitalized words, none of them a thing."""
    words = name.split()
    return len(words) < 5 and all(
        word[:1].isupper()
        and word not in BODIES
        and word.lower() not in THING_NOUNS
        and word.lower() not in ENGLISH_FUNCTION_WORDS
        for word in words
    )


def is_likely_person(name: str) -> bool:
    """Return whether a name is likely a person's: `may_be_person`, and at least two words."""
    return " " in name and may_be_person(name)


# ---------------------------------------------------------------- coreference

_EXPLETIVE_MARKERS = frozenset(("that", "to", "if", "whether", "who", "how", "why"))
_NARROWING = frozenset(("of", "that", "which", "who", "called", "named", "for", "in", "with"))
_FOLLOWING_WORDS = ENGLISH_FUNCTION_WORDS | AUXILIARIES | PAST_VERBS


def find_surnames(sentences: Iterable[Sequence[Unit]], subject: Subject) -> dict[str, str]:
    """Return the persons of a passage by unambiguous surname, except surnames that are words of the title."""
    persons: dict[str, set[str]] = {}
    for sentence in sentences:
        for unit in sentence:
            if unit.kind == "name" and is_likely_person(unit.text):
                persons.setdefault(unit.text.rsplit(" ", 1)[1], set()).add(unit.text)
    unsure = set(subject.name.split())
    return {
        last: min(names) for last, names in persons.items() if len(names) == 1 and last not in unsure and len(last) > 2
    }


def resolve_references(
    sentence: Sequence[Unit], subject: Subject, person: str = "", people: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[Unit], str]:
    """Replace words of a sentence that refer to the title or to a person; return the units and the current person.

    `people` has full names by surname. `person` is the person of the previous sentences, which pronouns may refer to
    if the title is not a person; pass the returned one with the next sentence. Ambiguous words are not replaced.
    """
    resolved: list[Unit] = []
    other = ""  # the first person that this sentence names, whom later pronouns may refer to
    about = False  # whether the subject, a person, was mentioned
    position = 0
    while position < len(sentence):
        unit = sentence[position]
        full_name = people.get(unit.text, "") if unit.kind == "name" else ""
        if full_name:
            resolved.append(_rename_unit(unit, full_name, "name"))
            position += 1
            continue
        new, width = _resolve_unit(sentence, position, subject, other or ("" if subject.kind == "person" else person))
        if not other and not about and new[0].kind == "name" and is_likely_person(new[0].text):
            other = new[0].text
        about = about or (subject.kind == "person" and new[0].kind == "subject")
        resolved += new
        position += width
    return resolved, other or person


def _resolve_unit(sentence: Sequence[Unit], position: int, subject: Subject, other: str) -> tuple[list[Unit], int]:
    """Return the units that replace those at `position`, and the number of units replaced."""
    unit = sentence[position]
    if unit.kind == "name" and subject.surname:
        first, _, rest = unit.text.partition(" ")
        honoured = first in HONORIFICS or f"{first}." in HONORIFICS
        if (rest if honoured else unit.text) == subject.surname:
            return [_rename_unit(unit, subject.name)], 1
    if unit.kind != "word" or (unit.text.isupper() and len(unit.text) > 1):
        return [unit], 1
    if subject.name and unit.lower in ("the", "this") and _describes_subject(sentence, position, subject):
        return [_rename_unit(unit, subject.name)], 2
    antecedent = _find_antecedent(sentence, position, subject, other)
    if not antecedent:
        return [unit], 1
    name = _rename_unit(unit, antecedent, "subject" if antecedent == subject.name else "name")
    possessive = unit.lower in POSSESSIVE_PRONOUNS
    if unit.lower == "her":  # or an object
        after = sentence[position + 1] if position + 1 < len(sentence) else None
        possessive = after is not None and after.kind != "mark" and after.lower not in ENGLISH_FUNCTION_WORDS
    return [name, Unit("'s", "'s", "mark", "", unit.start)] if possessive else [name], 1


def _rename_unit(unit: Unit, name: str, kind: Literal["subject", "name"] = "subject") -> Unit:
    return unit._replace(text=name, lower=name.lower(), kind=kind)


def _find_antecedent(sentence: Sequence[Unit], position: int, subject: Subject, other: str) -> str:
    """Return the name that a pronoun refers to, or "" if that is ambiguous."""
    word = sentence[position].lower
    if word not in SUBJECT_PRONOUNS and word not in POSSESSIVE_PRONOUNS and word not in ("him", "them"):
        return ""
    if word in MALE_OR_FEMALE:
        if subject.kind == "person" or (subject.kind == "unknown" and may_be_person(subject.name)):
            return "" if other else subject.name
        return other
    if word in PLURAL:
        return subject.name if subject.kind == "group" and not other else ""
    return subject.name if subject.kind != "person" and not _is_expletive(sentence, position) else ""


def _is_expletive(sentence: Sequence[Unit], position: int) -> bool:
    """Return whether "it" refers to nothing: "It is said that", "it was not until", "it took"."""
    after = [unit.lower for unit in sentence[position + 1 : position + 12]]
    if not after or sentence[position].lower != "it":
        return False
    judges = not JUDGING.isdisjoint(after[1:4]) and not _EXPLETIVE_MARKERS.isdisjoint(after[2:])
    return after[0] in ("took", "takes", "seems", "appears") or "until" in after[1:3] or judges


def _describes_subject(sentence: Sequence[Unit], position: int, subject: Subject) -> bool:
    """Return whether "the film" refers to the title: its noun is one of the subject's, and nothing narrows it down."""
    if position + 1 >= len(sentence) or sentence[position + 1].lower not in subject.nouns:
        return False
    after = sentence[position + 2] if position + 2 < len(sentence) else None
    if after is None or after.kind == "mark":
        return True
    goes_on = after.lower in _FOLLOWING_WORDS or after.lower.endswith(("ed", "ly", "s"))
    return after.kind == "word" and goes_on and after.lower not in _NARROWING
