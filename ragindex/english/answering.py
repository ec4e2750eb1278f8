"""Extraction of answers from passages: a name, a date, a number, yes or no, depending on the question."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import regex

from ragindex.english.extracting import Extraction, extract
from ragindex.english.lexical_overlap import nearest_triples, overlaps
from ragindex.english.mentions import MentionSpan, find_mentions
from ragindex.english.sentences import MAX_TEXT_LENGTH
from ragindex.english.subjects import is_likely_person
from ragindex.english.words import AUXILIARIES
from ragindex.text_analysis import analyse
from ragindex.types import Triple

AnswerKind = Literal["person", "date", "year", "place", "number", "yes or no", "choice", "name"]

LONGEST_ANSWER = 6
"""Words of an answer."""

_MOST_PASSAGES = 50
_BEST_SENTENCES = 8
_WINDOW = 60
_MIN_COVERAGE = 0.6

_FIRST_WORD = regex.compile(r"\p{L}+")
_PATTERNS: tuple[tuple[str, AnswerKind], ...] = (
    (r"\b(?:which|what|in what|in which) (?:year|decade|century)\b", "year"),
    (r"\bwhen\b|\bwh(?:at|ich) (?:date|day|month)\b", "date"),
    (r"\bhow (?:many|much|old|long|tall|far|high|large|big|deep)\b|\bwhat (?:number|percentage)\b", "number"),
    (r"\bwh(?:o|om|ose)\b", "person"),
    (r"\bwhere\b|\bwh(?:at|ich) (?:city|town|country|county|state|place|village|region|continent)\b", "place"),
)
_KINDS = tuple((regex.compile(pattern, regex.IGNORECASE), kind) for pattern, kind in _PATTERNS)
_CHOICE = regex.compile(
    r"(?:^|[,:?]|\b(?:between|is|was|did|has|first|older|younger)\b)\s*(\p{Lu}[^,?]{1,80}?),? or (\p{Lu}[^,?]{1,80})\?"
)
_YEAR = regex.compile(r"(?<!\d)(?:1\d{3}|20\d\d)(?!\d)")
_PLACE_PREPOSITION = regex.compile(r"\b(?:in|at|near|from|to|of|around)(?: the)? $")
_NEGATION = regex.compile(r"\b(?:not|never|no longer|neither)\b|n't\b", regex.IGNORECASE)


def extract_answer(question: str, passages: Sequence[tuple[str, str]], language: str = "english") -> str:
    """Extract the answer to a question from passages (title, text): at most six words, or "" if nothing fits.

    The sentences that overlap most with the question are searched for what it asks for: a person, a place, a date, a
    number, or another name that is not in the question. A yes-or-no question is answered "yes" if the best sentence
    contains at least 60 % of the question's tokens and both or neither are negated. Pronouns are resolved first. At
    most 50 passages and MAX_TEXT_LENGTH characters are read.
    """
    read = [_extract_passage(title, text) for title, text in _limit_passages(passages)]
    texts = list(dict.fromkeys(one.text for extraction in read for one in extraction.propositions))
    scores = overlaps(question, texts, language)
    order = sorted(range(len(texts)), key=lambda place: -scores[place])[:_BEST_SENTENCES]
    best = [(texts[place], scores[place]) for place in order if scores[place] > 0]
    if not best:
        return ""
    kind = classify_question(question)
    if kind == "yes or no":
        return _answer_yes_or_no(question, best[0][0], language)
    if kind == "choice":
        return _answer_choice(question, best)
    found = _find_best_candidate(question, kind, best, language)
    triples = [triple for extraction in read for triple in extraction.triples]
    return _shorten(
        found or (_answer_from_triples(question, triples, language) if kind in ("name", "person", "place") else "")
    )


@lru_cache(maxsize=1024)
def _extract_passage(title: str, text: str) -> Extraction:
    """Extract from a passage. The result is cached, as a passage is read for many questions."""
    return extract(title, text)


def _limit_passages(passages: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the passages to read, within the limits of passages and characters."""
    room = MAX_TEXT_LENGTH
    for title, text in passages[:_MOST_PASSAGES]:
        if room <= 0:
            return
        yield title, text[:room]
        room -= len(text)


def classify_question(question: str) -> AnswerKind:
    """Return the kind of answer that a question asks for."""
    first = _FIRST_WORD.search(question)
    if _CHOICE.search(question):
        return "choice"
    if first is not None and first[0].lower() in AUXILIARIES:
        return "yes or no"
    return next((kind for pattern, kind in _KINDS if pattern.search(question)), "name")


def _shorten(text: str) -> str:
    return " ".join(text.split()[:LONGEST_ANSWER])


# ---------------------------------------------------------------- yes, no, or one of two


def _answer_yes_or_no(question: str, sentence: str, language: str) -> str:
    """Return "yes" if the sentence covers most of the question and both or neither are negated, else "no"."""
    wanted, held = set(analyse(question, language)), set(analyse(sentence, language))
    covered = len(wanted & held) >= _MIN_COVERAGE * len(wanted)
    return "yes" if covered and bool(_NEGATION.search(question)) == bool(_NEGATION.search(sentence)) else "no"


def _answer_choice(question: str, best: Sequence[tuple[str, float]]) -> str:
    """Return the alternative whose sentences overlap more with the question; the first of equals."""
    match = _CHOICE.search(question)
    names = [] if match is None else [name.strip() for name in match.groups()]
    support = {name: max((score for text, score in best if name in text), default=0.0) for name in names}
    return _shorten(max(names, key=lambda name: support[name])) if any(support.values()) else ""


# ---------------------------------------------------------------- names, dates and numbers


@dataclass(frozen=True, slots=True)
class _Candidate:
    text: str
    score: float


def _find_best_candidate(question: str, kind: AnswerKind, best: Sequence[tuple[str, float]], language: str) -> str:
    """Return the mention that fits the question best; the first of equals, "" if there is none."""
    told = set(analyse(question, language))
    found = [
        _Candidate(_answer_text(mention, kind), score * fit * (1 + _score_context(text, mention, told, language)))
        for text, score in best
        for mention in find_mentions(text)
        if (fit := _score_kind(text, mention, kind)) and not set(analyse(mention.text, language)) <= told
    ]
    return max(found, key=lambda one: one.score).text if found else ""


def _answer_text(mention: MentionSpan, kind: AnswerKind) -> str:
    year = _YEAR.search(mention.text) if kind == "year" else None
    return year[0] if year else mention.text


def _score_kind(text: str, mention: MentionSpan, kind: AnswerKind) -> float:
    """Return how well a mention fits the kind of answer, from 0 (not at all) to 1."""
    named = mention.kind in ("name", "title")
    if kind in ("date", "year"):
        wanted = kind == "date" or bool(_YEAR.search(mention.text))
        return float(mention.kind == "date" and wanted)
    if kind == "number":
        return float(mention.kind == "number")
    if kind == "person":
        return (1.0 if is_likely_person(mention.text) else 0.4) * named
    if kind == "place":
        return (1.0 if _PLACE_PREPOSITION.search(text, max(0, mention.start - 12), mention.start) else 0.3) * named
    return float(named)


def _score_context(text: str, mention: MentionSpan, told: set[str], language: str) -> float:
    """Return the share of the question's tokens that are near a mention."""
    around = text[max(0, mention.start - _WINDOW) : mention.start + len(mention.text) + _WINDOW]
    return len(told & set(analyse(around, language))) / max(1, len(told))


def _answer_from_triples(question: str, triples: Sequence[Triple], language: str) -> str:
    """Return the object or subject of the nearest triple that shares no token with the question, or ""."""
    told = set(analyse(question, language))
    for triple in nearest_triples(question, triples, _BEST_SENTENCES, language):
        for side in _yield_sides(triple):
            if not set(analyse(side, language)) & told:
                return side
    return ""


def _yield_sides(triple: Triple) -> Iterator[str]:
    yield triple.object
    yield triple.subject
