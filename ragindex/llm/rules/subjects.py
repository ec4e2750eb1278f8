"""What a passage is about: the names its title goes by, and what kind of thing it is."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import regex

from ragindex.llm.rules.mentions import find_mentions
from ragindex.llm.rules.sentences import normalize_text
from ragindex.llm.rules.tokens import tokenize
from ragindex.llm.rules.words import (
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

_DISAMBIGUATION = regex.compile(r"\s*\(([^()]*)\)\s*$")
_ACRONYM = regex.compile(r"^[^.]{0,120}?\((?:abbreviated |known as |or |the )?(\p{Lu}[\p{Lu}&.-]{1,7})\b")
_BORN = regex.compile(
    r"^[^.]{0,150}\((?:[^()]{0,60} )?(?:born|died|b\.|\d{1,2} \p{L}+ \d{4}|\p{Lu}\p{Ll}+ \d{1,2}, \d{4})"
)
_KNOWN_WORD = regex.compile(r"(?<![\p{L}\p{N}'-])\p{Ll}[\p{Ll}\p{M}]+(?![\p{L}\p{N}])")


@dataclass(frozen=True, slots=True)
class Subject:
    """What a passage is about.

    `name` is its title without what stands in parentheses; `forms` are the names it goes by, each as its words in lower
    case, longest first; `surname` is "" where it has none; `nouns` are what a definite description may call it.
    """

    name: str
    forms: tuple[tuple[str, ...], ...]
    surname: str
    nouns: frozenset[str]
    kind: SubjectKind


def find_lower_case_words(text: str) -> frozenset[str]:
    """The words that a text writes without a capital: no names even where they open a sentence."""
    return frozenset(_KNOWN_WORD.findall(text))


def find_subject(title: str, sentences: Sequence[str]) -> Subject:
    """What the title of a passage tells about it together with the passage's normalised sentences."""
    whole = " ".join(normalize_text(title).split())
    name = _DISAMBIGUATION.sub("", whole) or whole
    first = sentences[0] if sentences else ""
    defined = _defining_nouns(first)
    told = defined | {
        word for word in _title_nouns(whole) if word in THING_NOUNS or word in PERSON_NOUNS or word in GROUP_NOUNS
    }
    told |= {"company"} if COMPANIES & _title_nouns(name) else set()
    kind = _kind(name, told, first, sentences)
    surname = _surname(name) if kind in ("person", "unknown") else ""
    return Subject(name, _forms(name, first), surname, frozenset(told), kind)


def _title_nouns(title: str) -> set[str]:
    return {word.lower() for word in regex.findall(r"\p{L}+", title)}


def _forms(name: str, first: str) -> tuple[tuple[str, ...], ...]:
    """The title, the title before a comma, and the abbreviation that the first sentence gives it."""
    names = [name]
    head, _, tail = name.partition(", ")
    if tail[:1].isupper() and head[:1].isupper() and len(head) > 2:  # "Tellin, Marland", not "Tarzan, the Ape Man"
        names.append(head)
    opening = next(iter(find_mentions(first[:100])), None)
    if opening is not None and opening.start == 0 and opening.kind == "name" and _longer(opening.text, name):
        names.append(opening.text)
    acronym = _ACRONYM.match(first)
    initials = "".join(word[0] for word in regex.findall(r"\p{Lu}\p{L}*", name))
    if acronym and len(initials) > 1 and acronym[1].replace(".", "").upper()[:1] == initials[:1].upper():
        names.append(acronym[1])
    forms = {words for one in names if (words := _as_written(one))}
    return tuple(sorted(forms, key=lambda words: (-len(words), words)))


def _longer(opening: str, name: str) -> bool:
    """Whether the name that opens a passage is its title in full: James Alan Hetfield for James Hetfield."""
    return opening != name and len(name.split()) > 1 and set(name.split()) < set(opening.split())


def _as_written(name: str) -> tuple[str, ...]:
    """The words of a title: its first in lower case too where the others tell that its capital is the sentence's."""
    words = [token.text for token in tokenize(name)]
    plain = len(words) == 1 or any(
        word.islower() and word not in ENGLISH_FUNCTION_WORDS and len(word) > 3 for word in words[1:]
    )
    return tuple(words if not plain else [words[0].lower(), *words[1:]])


# ---------------------------------------------------------------- what kind of thing it is

_DEFINES = regex.compile(r"\b(?:is|was|are|were)(?: \p{Ll}+ly| also| one of)? (?:an?|the)\b")
_HEAD_ENDS = (
    PREPOSITIONS | frozenset(("that", "which", "who", "whose", "where", "when", "and", "or", "is", "was", "are"))
) - {"including"}


def _defining_nouns(sentence: str) -> set[str]:
    """The nouns of "is a … singer and actor from …": the last word before each "and", comma or preposition."""
    match = _DEFINES.search(sentence[:400])
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


def _kind(name: str, nouns: Iterable[str], first: str, sentences: Sequence[str]) -> SubjectKind:
    """By what it is called; failing that, by the pronouns that open the sentences."""
    told = Counter(_kind_of_noun(noun) for noun in nouns)
    if told["person"] and not told["thing"]:
        return "person"
    if COMPANIES & _title_nouns(name):
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
    """Whether a title is written as a person's name is: one to four words with capitals, none of them a thing."""
    words = name.split()
    return len(words) < 5 and all(_of_a_person(word) for word in words)


def is_likely_person(name: str) -> bool:
    """Whether a name is most likely a person's: as `may_be_person`, of two words at least."""
    return " " in name and may_be_person(name)


def _of_a_person(word: str) -> bool:
    common = word in BODIES or word.lower() in THING_NOUNS or word.lower() in ENGLISH_FUNCTION_WORDS
    return word[:1].isupper() and not common


def _kind_of_noun(noun: str) -> SubjectKind:
    if noun in PERSON_NOUNS:
        return "person"
    if noun in GROUP_NOUNS:
        return "group"
    return "thing" if noun in THING_NOUNS else "unknown"


def _surname(name: str) -> str:
    """The last of two to four words with capitals: "Solovej" of "Jan Philip Solovej"; "" where it is no such name."""
    words = [word for word in name.split() if word not in ("Jr.", "Sr.", "Jr", "Sr", "II", "III")]
    last = words[-1] if words else ""
    fits = 2 <= len(words) <= 4 and all(word[:1].isupper() or len(word) < 4 for word in words)
    alone = last.lower() not in THING_NOUNS and last not in BODIES and last.isalpha() and len(last) > 2
    return last if fits and alone and words[-2].lower() not in ("of", "the") else ""
