"""Subjects of sentences, and the pronouns and descriptions that stand for the title."""

from collections.abc import Sequence
from dataclasses import dataclass

import regex

from ragindex_eval.data.drafting.text import FUNCTION_WORDS, NAME, NAME_WORD, one_line, shouted
from ragindex_eval.data.titles import drop_brackets


@dataclass(frozen=True, slots=True)
class PassageTopic:
    """Topic of a passage: title, whether a sentence begins with it, whether it is a person, nouns for it."""

    title: str
    introduced: bool
    person: bool
    nouns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Clause:
    """Sentence split into its subject and the rest, without the full stop.

    `known`: the subject can be understood without context.
    """

    subject: str
    rest: str
    known: bool
    topic: PassageTopic
    sentence: str

    @property
    def person(self) -> bool:
        """Return whether the subject is a person, as far as pronouns tell."""
        return self.topic.person and self.subject == self.topic.title


# ---------------------------------------------------------------- what a passage is about

_LONGEST_TITLE = 200
_IS_A = regex.compile(r"\b(?:is|was|are|were) (?:an?|the|one of the) ([^,;.]{3,120})")
_NOUN_ENDS = regex.compile(
    r"\b(?:of|in|by|from|at|on|that|which|who|for|located|based|with|to|[a-z]+ed|written|known)\b"
)


def find_topic(title: str, sentences: Sequence[str]) -> PassageTopic:
    """Return the topic of a passage with this title and these sentences."""
    name = drop_brackets(one_line(title[:_LONGEST_TITLE])).strip(" .")
    short = name.split(",")[0]
    first = next(
        (
            sentence
            for sentence in sentences[:5]
            if short and sentence.removeprefix("The ").lstrip('"“').startswith(short)
        ),
        "",
    )
    predicate = _IS_A.search(first[:300])
    nouns = _NOUN_ENDS.split(predicate[1])[0].split()[-2:] if predicate else []
    nouns = [noun for noun in nouns if regex.fullmatch(r"[a-z-]{3,}(?<!ed|ly)", noun) and noun not in _EMPTY_NOUNS]
    return PassageTopic(name, bool(first), _is_person(sentences) and not set(nouns) & _WORK_NOUNS, tuple(nouns))


_EMPTY_NOUNS = frozenset(
    {"name", "one", "part", "type", "kind", "form", "example", "member", "word", "term", "number", "set"}
)
_WORK_NOUNS = frozenset(
    {"film", "album", "song", "novel", "series", "book", "play", "game", "band", "single", "show", "story"}
)


def _is_person(sentences: Sequence[str]) -> bool:
    """Return whether more sentences begin with `he` or `she` than with `it`.

    If none begins with either, the pronouns within the sentences are compared.
    """
    for pattern in (r"^(?:(He|She|His|Her)|Its?)\b", r"\b(?:([Hh]e|[Ss]he|[Hh]is)|[Ii]ts?)\b"):
        male_or_female = [bool(match[1]) for sentence in sentences[:20] for match in regex.finditer(pattern, sentence)]
        if male_or_female:
            return sum(male_or_female) * 2 > len(male_or_female)
    return False


# ---------------------------------------------------------------- subjects

_LEADING_DATE = regex.compile(r"(In|On|Since) ((?:[A-Z][a-z]+ )?(?:\d{1,2}, )?\d{4}|\d{1,2} [A-Z][a-z]+ \d{4}), (?=\S)")
_VERB = (
    r"(?:[a-z]+ly )?(?:is|was|are|were|has|had|have|will|can|would|could|does|did|[a-z]+(?:ed|s)|won|ran|began|became"
    r"|took|made|led|came|went|left|lost|met|built|sold|held|grew|rose|fell|wrote|found|kept|cost|dominate|contain)\b"
)
ANAPHORS = regex.compile(
    r"\b(?:this|these|those|such|former|latter|the following|here|there|they|them|it|he|she|him|we|us|our|I|my|also"
    r"|that (?:case|way|time|reason)"
    r"|however|therefore|thus|then|instead|another|others?|same|both|either|respectively|itself|previously|too)\b",
    regex.IGNORECASE,
)
_WORD_CHARACTER = regex.compile(r"[\p{L}\p{N}’'-]")
_OTHER_NAME = regex.compile(rf"(?:The )?({NAME})")


def parse_clause(sentence: str, about: PassageTopic, previous: str) -> Clause | None:
    """Parse a sentence into subject and rest, with pronouns and definite descriptions replaced by the title.

    `previous` is the subject of the sentence before. Returns None if the sentence depends on context that is
    not in it.
    """
    text = sentence.rstrip(".。!！ ")
    leading = _LEADING_DATE.match(text)
    body = text[leading.end() :] if leading else text
    match = _find_subject(body, about, previous)
    if match is None:
        return None
    subject, end, known = match
    # without a leading apposition: `, a composer, was born` → ` was born`
    rest = str(regex.sub(r"\A, (?:an?|the|also|or) [^,]{2,80},(?= [a-z])", "", body[end:])).strip()
    if leading:
        end_of_clause = clause_end(rest)
        rest = f"{rest[:end_of_clause]} {leading[1].lower()} {leading[2]}{rest[end_of_clause:]}"
    if not regex.match(_VERB, rest) or ANAPHORS.search(rest) or len(rest.split()) < 3:
        return None
    return Clause(subject, rest, known, about, sentence)


def _find_subject(text: str, about: PassageTopic, previous: str) -> tuple[str, int, bool] | None:
    """Return (subject, its end, whether it can be understood without context), or None."""
    named = _match_title(text, about)
    if named is not None:
        return named
    if about.introduced and (end := _match_stand_in(text, about, previous)):
        return about.title, end, True
    other = _OTHER_NAME.match(text)
    if other and len(other[1].split()) > 1 and other[1].split()[0].lower() not in FUNCTION_WORDS and not shouted(text):
        article = "the " if text.startswith("The ") else ""
        return article + other[1], other.end(), True
    return _match_plain_subject(text)


def _match_title(text: str, about: PassageTopic) -> tuple[str, int, bool] | None:
    """Match `Title`, `the title`, `"Title"`, or the part before the comma of `Town, Country`."""
    lead = next((prefix for prefix in ("The ", "the ", '"', "“") if text.startswith(prefix)), "")
    for name in dict.fromkeys((about.title, about.title.split(",")[0])):
        start = 0 if name and text.startswith(name) else len(lead)
        end = start + len(name)
        if not name or not text.startswith(name, start) or _WORD_CHARACTER.match(text, end):
            continue
        if start and lead not in ("The ", "the "):
            closed = text[end : end + 1] in ('"', "”")
            return (f"“{about.title}”", end + 1, True) if closed else None
        return ("the " if start else "") + about.title, end, True
    return None


_DEFINITE = regex.compile(rf"The ([a-z]+)(?= {_VERB})")


def _match_stand_in(text: str, about: PassageTopic, previous: str) -> int:
    """Return the end of a pronoun, surname or description ("the river") that stands for the title, or 0."""
    first = text.split(" ", 1)[0]
    if first in ("He", "She") and about.person:
        return len(first)
    if first == "It" and not about.person and previous.endswith(about.title):
        return 0 if regex.match(r"It (?:is|was)(?: \w+)? (?:not|that|to|who|when|until)\b", text) else 2
    words = about.title.split()
    if about.person and len(words) > 1 and first == words[-1]:
        return len(first)
    match = _DEFINITE.match(text)
    return match.end(1) if match and match[1] in about.nouns else 0


_NON_NOUN = regex.compile(
    r"[,:;=\"]|['’](?:ll|re|ve)\b|\b(?:that|which|who|whose|when|if|while|you|must|can|could|may|might|shall|should|will|would|do|does|did|not|to)\b"
    r"|\S (?:every|each|the|an?) "
)
_FIRST_VERB = regex.compile(
    r" (?=(?:is|are|was|were|has|have|had|takes?|holds?|reaches|costs?|needs?|covers?|keeps?)\b)"
)


def _match_plain_subject(text: str) -> tuple[str, int, bool] | None:
    """Return the words before the first plain verb as the subject, if they refer to nothing else."""
    verb = _FIRST_VERB.search(text[:80])
    if verb is None:
        return None
    subject = text[: verb.start()]
    leaning = subject.split(" ", 1)[0].lower() in FUNCTION_WORDS - {"a", "an", "the"}
    if leaning or ANAPHORS.search(subject) or _NON_NOUN.search(subject):
        return None
    return subject, verb.start(), False


# ---------------------------------------------------------------- clauses

_BOUNDARY = regex.compile(
    r"[;:—]| – |,(?=\s)| (?=(?:and|but|or|which|who|whose|whom|where|when|while|that|after|before|because|although"
    r"|though|until|since|making|becoming|including|than|if|so)\b)"
)
_JOINED_NAMES = regex.compile(  # looks back from each "and", because a search for names would be quadratic
    rf"(?<={NAME_WORD}) and (?=\p{{Lu}})|(?<=\b(?:written|produced|directed|designed|founded|owned)) and "
    r"(?=(?:written|produced|directed|built|led|operated)\b)"
)


def runs_on(text: str) -> bool:
    """Return whether the text is more than one clause."""
    return _BOUNDARY.search(_JOINED_NAMES.sub("", text).rstrip(" ,")) is not None


def clause_end(text: str) -> int:
    """Return the end of the first clause of a text."""
    masked = _JOINED_NAMES.sub(lambda match: "x" * len(match[0]), text)
    boundary = _BOUNDARY.search(masked)
    return boundary.start() if boundary else len(text)
