"""Subject of a passage: the names of its title, and whether it is a person, a group or a thing."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import regex

from ragindex.english.mentions import iterate_mentions
from ragindex.english.sentences import normalize_text
from ragindex.english.tokens import tokenize
from ragindex.english.words import (
    BODIES,
    COMPANIES,
    ENGLISH_FUNCTION_WORDS,
    GROUP_NOUNS,
    PAST_VERBS,
    PERSON_NOUNS,
    PREPOSITIONS,
    THING_NOUNS,
)

SubjectKind = Literal["person", "group", "thing", "unknown"]

_DISAMBIGUATION = regex.compile(r"(?:(?<!\s)\s++)?+\(([^()]*)\)\s*$")
_ACRONYM = regex.compile(r"^[^.]{0,120}?\((?:abbreviated |known as |or |the )?(\p{Lu}[\p{Lu}&.-]{1,7})\b")
_BORN = regex.compile(
    r"^[^.]{0,150}\((?:[^()]{0,60} )?(?:born|died|b\.|\d{1,2} \p{L}+ \d{4}|\p{Lu}\p{Ll}+ \d{1,2}, \d{4})"
)
_KNOWN_WORD = regex.compile(r"(?<![\p{L}\p{N}'-])\p{Ll}[\p{Ll}\p{M}]+(?![\p{L}\p{N}])")


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


def find_lower_case_words(text: str) -> frozenset[str]:
    """Return the words that a text writes in lower case; they are not names even at the start of a sentence."""
    return frozenset(_KNOWN_WORD.findall(text))


def find_subject(title: str, sentences: Sequence[str]) -> Subject:
    """Return the subject of a passage, from its title and its normalized sentences."""
    whole = " ".join(normalize_text(title).split())
    name = _DISAMBIGUATION.sub("", whole) or whole
    first = sentences[0] if sentences else ""
    defined = _find_defining_nouns(first)
    told = defined | {
        word for word in _split_title(whole) if word in THING_NOUNS or word in PERSON_NOUNS or word in GROUP_NOUNS
    }
    told |= {"company"} if COMPANIES & _split_title(name) else set()
    kind = _classify_subject(name, told, first, sentences)
    surname = _find_surname(name) if kind in ("person", "unknown") else ""
    return Subject(name, _list_forms(name, first), surname, frozenset(told), kind)


def _split_title(title: str) -> set[str]:
    return {word.lower() for word in regex.findall(r"\p{L}+", title)}


def _list_forms(name: str, first: str) -> tuple[tuple[str, ...], ...]:
    """Return the forms of a title: whole, before a comma, in full in the first sentence, and abbreviated there."""
    names = [name]
    head, _, tail = name.partition(", ")
    if tail[:1].isupper() and head[:1].isupper() and len(head) > 2:  # "Tellin, Marland", not "Tarzan, the Ape Man"
        names.append(head)
    opening = next(iterate_mentions(first[:100]), None)
    if opening is not None and opening.start == 0 and opening.kind == "name" and _is_longer_form(opening.text, name):
        names.append(opening.text)
    acronym = _ACRONYM.match(first)
    initials = "".join(word[0] for word in regex.findall(r"\p{Lu}\p{L}*", name))
    if acronym and len(initials) > 1 and acronym[1].replace(".", "").upper()[:1] == initials[:1].upper():
        names.append(acronym[1])
    forms = {words for one in names if (words := _split_form(one))}
    return tuple(sorted(forms, key=lambda words: (-len(words), words)))


def _is_longer_form(opening: str, name: str) -> bool:
    """Return whether the first name in a passage is its title in full: James Alan Hetfield for James Hetfield."""
    return opening != name and len(name.split()) > 1 and set(name.split()) < set(opening.split())


def _split_form(name: str) -> tuple[str, ...]:
    """Return the words of a title, the first in lower case if it is the only word or others are in lower case."""
    words = [token.text for token in tokenize(name)]
    plain = len(words) == 1 or any(
        word.islower() and word not in ENGLISH_FUNCTION_WORDS and len(word) > 3 for word in words[1:]
    )
    return tuple(words if not plain else [words[0].lower(), *words[1:]])


# ---------------------------------------------------------------- kind of the subject

_DEFINITION = regex.compile(r"\b(?:is|was|are|were)(?: \p{Ll}+ly| also| one of)? (?:an?|the)\b")
_HEAD_ENDS = (
    PREPOSITIONS | frozenset(("that", "which", "who", "whose", "where", "when", "and", "or", "is", "was", "are"))
) - {"including"}


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


def _classify_subject(name: str, nouns: Iterable[str], first: str, sentences: Sequence[str]) -> SubjectKind:
    """Classify a subject by its nouns and name, or else by the pronouns at the start of sentences."""
    told = Counter(_classify_noun(noun) for noun in nouns)
    if told["person"] and not told["thing"]:
        return "person"
    if COMPANIES & _split_title(name):
        return "group"
    if told["group"] and not told["person"]:
        return "group"
    if told["thing"]:
        return "thing"
    if _BORN.match(first) and len(name.split()) < 6:
        return "person"
    opening = Counter(sentence.split(" ", 1)[0].lower() for sentence in sentences)
    persons, things = opening["he"] + opening["she"] + opening["his"] + opening["her"], opening["it"] + opening["its"]
    if persons > things and may_be_person(name):
        return "person"
    return "thing" if things else "unknown"


def may_be_person(name: str) -> bool:
    """Return whether a title can be a person's name: one to four capitalized words, none of them a thing."""
    words = name.split()
    return len(words) < 5 and all(_may_be_person_word(word) for word in words)


def is_likely_person(name: str) -> bool:
    """Return whether a name is likely a person's: `may_be_person`, and at least two words."""
    return " " in name and may_be_person(name)


def _may_be_person_word(word: str) -> bool:
    common = word in BODIES or word.lower() in THING_NOUNS or word.lower() in ENGLISH_FUNCTION_WORDS
    return word[:1].isupper() and not common


def _classify_noun(noun: str) -> SubjectKind:
    if noun in PERSON_NOUNS:
        return "person"
    if noun in GROUP_NOUNS:
        return "group"
    return "thing" if noun in THING_NOUNS else "unknown"


def _find_surname(name: str) -> str:
    """Return the last of two to four capitalized words ("Solovej" of "Jan Philip Solovej"), or ""."""
    words = [word for word in name.split() if word not in ("Jr.", "Sr.", "Jr", "Sr", "II", "III")]
    last = words[-1] if words else ""
    fits = 2 <= len(words) <= 4 and all(word[:1].isupper() or len(word) < 4 for word in words)
    alone = last.lower() not in THING_NOUNS and last not in BODIES and last.isalpha() and len(last) > 2
    return last if fits and alone and words[-2].lower() not in ("of", "the") else ""
