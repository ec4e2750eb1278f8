"""Answers by rule: texts and triples nearest to a question, short answers from passages, and chains of facts.

Overlaps are of tokens (`ragindex.text_analysis`), so that they hold for texts of any `language`.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeVar

import regex

from ragindex.english.coreference import is_likely_person
from ragindex.english.extracting import ALSO, Extraction, entity_key, extract
from ragindex.english.mentions import MentionSpan, find_mentions, find_names
from ragindex.english.sentences import MAX_TEXT_LENGTH
from ragindex.english.triples import ASSOCIATED
from ragindex.english.words import AUXILIARIES
from ragindex.text_analysis import analyse
from ragindex.types import Triple

_Item = TypeVar("_Item")


def nearest_triples(question: str, triples: Sequence[Triple], count: int, language: str = "english") -> list[Triple]:
    """Return at most `count` distinct triples, those with the highest overlap with the question first.

    See `overlaps` for the score. Triples without overlap are left out; ties keep their order.
    """
    distinct = list(dict.fromkeys(triples))
    texts = [f"{triple.subject} {triple.predicate} {triple.object}" for triple in distinct]
    return _take_best(distinct, overlaps(question, texts, language), count)


def nearest_texts(question: str, texts: Sequence[str], count: int, language: str = "english") -> list[str]:
    """Return at most `count` distinct texts, as `nearest_triples` does for triples."""
    distinct = list(dict.fromkeys(texts))
    return _take_best(distinct, overlaps(question, distinct, language), count)


def _take_best(items: Sequence[_Item], scores: Sequence[float], count: int) -> list[_Item]:
    order = sorted(range(len(items)), key=lambda place: -scores[place])
    return [items[place] for place in order[:count] if scores[place] > 0]


def overlaps(question: str, texts: Sequence[str], language: str = "english") -> list[float]:
    """Return the overlap of each text with the question, from 0 to 1.

    It is the weight of the shared tokens divided by the geometric mean of the weights of the question and the text. The
    weight of a token is ln(1 + N / df) over the `texts`, so that rare words count more.
    """
    tokens = [frozenset(analyse(text, language)) for text in texts]
    frequency = Counter(token for each in tokens for token in each)
    weights = {token: math.log(1 + len(texts) / times) for token, times in frequency.items()}
    question_words = frozenset(analyse(question, language))
    of_question = _add_weights(question_words & weights.keys(), weights)
    scores = []
    for each in tokens:
        shared = _add_weights(each & question_words, weights)
        scores.append(shared / math.sqrt(of_question * _add_weights(each, weights)) if shared else 0.0)
    return scores


def _add_weights(tokens: frozenset[str], weights: dict[str, float]) -> float:
    return math.fsum(weights[token] for token in sorted(tokens))


# ---------------------------------------------------------------- answers

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

    >>> extract_answer("Who painted Salt?", [("Salt", "Salt is a fresco. It was painted by Ada Lund in 1950.")])
    'Ada Lund'
    """
    extractions = [_extract_passage(title, text) for title, text in _limit_passages(passages)]
    texts = list(dict.fromkeys(proposition.text for each in extractions for proposition in each.propositions))
    scores = overlaps(question, texts, language)
    order = sorted(range(len(texts)), key=lambda place: -scores[place])[:_BEST_SENTENCES]
    best = [(texts[place], scores[place]) for place in order if scores[place] > 0]
    if not best:
        return ""
    kind = classify_question(question)
    if kind == "yes or no":
        return _answer_yes_or_no(question, best[0][0], language)
    if kind == "choice":
        answer = _answer_choice(question, best)
    else:
        answer = _find_best_mention(question, kind, best, language)
        if not answer and kind in ("name", "person", "place"):
            triples = [triple for each in extractions for triple in each.triples]
            answer = _answer_from_triples(question, triples, language)
    return " ".join(answer.split()[:LONGEST_ANSWER])


@lru_cache(maxsize=1024)
def _extract_passage(title: str, text: str) -> Extraction:
    """Extract from a passage. The result is cached, as a passage is read for many questions."""
    return extract(title, text)


def _limit_passages(passages: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the passages to read, within the limits of passages and characters."""
    left = MAX_TEXT_LENGTH
    for title, text in passages[:_MOST_PASSAGES]:
        if left <= 0:
            return
        yield title, text[:left]
        left -= len(text)


def classify_question(question: str) -> AnswerKind:
    """Return the kind of answer that a question asks for."""
    first = _FIRST_WORD.search(question)
    if _CHOICE.search(question):
        return "choice"
    if first is not None and first[0].lower() in AUXILIARIES:
        return "yes or no"
    return next((kind for pattern, kind in _KINDS if pattern.search(question)), "name")


def _answer_yes_or_no(question: str, sentence: str, language: str) -> str:
    question_words, sentence_words = set(analyse(question, language)), set(analyse(sentence, language))
    covered = len(question_words & sentence_words) >= _MIN_COVERAGE * len(question_words)
    return "yes" if covered and bool(_NEGATION.search(question)) == bool(_NEGATION.search(sentence)) else "no"


def _answer_choice(question: str, best: Sequence[tuple[str, float]]) -> str:
    """Return the alternative whose sentences overlap more with the question; the first of equals."""
    match = _CHOICE.search(question)
    names = [] if match is None else [name.strip() for name in match.groups()]
    support = {name: max((score for text, score in best if name in text), default=0.0) for name in names}
    return max(names, key=lambda name: support[name]) if any(support.values()) else ""


def _find_best_mention(question: str, kind: AnswerKind, best: Sequence[tuple[str, float]], language: str) -> str:
    """Return the mention that fits the question best; the first of equals, "" if there is none.

    A mention scores more the more of the question's tokens are near it.
    """
    question_words = set(analyse(question, language))
    top, answer = 0.0, ""
    for text, score in best:
        for mention in find_mentions(text):
            fit = _score_kind(text, mention, kind)
            if not fit or set(analyse(mention.text, language)) <= question_words:
                continue
            around = text[max(0, mention.start - _WINDOW) : mention.start + len(mention.text) + _WINDOW]
            near = len(question_words & set(analyse(around, language))) / max(1, len(question_words))
            if score * fit * (1 + near) > top:
                year = _YEAR.search(mention.text) if kind == "year" else None
                top, answer = score * fit * (1 + near), year[0] if year else mention.text
    return answer


def _score_kind(text: str, mention: MentionSpan, kind: AnswerKind) -> float:
    """Return how well a mention fits the kind of answer, from 0 (not at all) to 1."""
    if kind == "year":
        return float(mention.kind == "date" and bool(_YEAR.search(mention.text)))
    if kind in ("date", "number"):
        return float(mention.kind == kind)
    if mention.kind not in ("name", "title"):
        return 0.0
    if kind == "person":
        return 1.0 if is_likely_person(mention.text) else 0.4
    if kind == "place":
        return 1.0 if _PLACE_PREPOSITION.search(text, max(0, mention.start - 12), mention.start) else 0.3
    return 1.0


def _answer_from_triples(question: str, triples: Sequence[Triple], language: str) -> str:
    """Return the object or subject of the nearest triple that shares no token with the question, or ""."""
    question_words = set(analyse(question, language))
    nearest = nearest_triples(question, triples, _BEST_SENTENCES, language)
    sides = (side for triple in nearest for side in (triple.object, triple.subject))
    return next((side for side in sides if not set(analyse(side, language)) & question_words), "")


# ---------------------------------------------------------------- chains of facts

_TITLE_WEIGHT = 2.0  # a passage says more about its own subject
_ASSOCIATION_WEIGHT = 0.5  # weaker: the rules found no verb between the two names


@dataclass(frozen=True, slots=True)
class ChainFact:
    """A triple of a passage, and its sentence as `text`.

    `names` are the entities among its subject and object, and `topic` is the passage's title, both as `entity_key`.
    `words` is the normalized sentence with a space on either side, for the lookup of names.
    """

    triple: Triple
    text: str
    words: str
    names: tuple[str, ...]
    topic: str


def list_facts(passages: Iterable[tuple[str, str]]) -> list[ChainFact]:
    """Return the distinct facts of passages, which are given as (title, text)."""
    facts: dict[str, ChainFact] = {}
    for title, text in passages:
        for fact in _extract_facts(title, text):
            facts.setdefault(fact.text, fact)
    return list(facts.values())


@lru_cache(maxsize=1024)
def _extract_facts(title: str, text: str) -> tuple[ChainFact, ...]:
    """Extract the facts of a passage. They are cached, as a passage is read for many questions."""
    extraction = extract(title, text)
    entities = {entity_key(name) for name in extraction.entities}
    facts = []
    for triple in extraction.triples:
        if triple.predicate != ALSO:
            sentence = write_sentence(triple)
            sides = (entity_key(triple.subject), entity_key(triple.object))
            names = tuple(side for side in sides if side in entities)
            facts.append(ChainFact(triple, sentence, _pad_words(sentence), names, entity_key(title)))
    return tuple(facts)


def write_sentence(triple: Triple) -> str:
    """Return a triple as a sentence."""
    return f"{triple.subject} {triple.predicate} {triple.object}."


def find_next_fact(
    question: str, facts: Sequence[ChainFact], sentences: Sequence[str], language: str
) -> ChainFact | None:
    """Return the fact that continues the chain of sentences in `said`, or None if there is none.

    A candidate has at least one open name and a new name. The open names are those of the question that no sentence
    contains, and those that the last sentence introduced. The best candidate is the one that overlaps most with the
    open names and the unmentioned words of the question; facts about an open name count double, and facts without a
    verb count half. If the question has no names, any fact can begin the chain.
    """
    known = [_pad_words(text) for text in (question, *sentences)]
    entities, fresh = (
        list(map(entity_key, find_names(text))) for text in (question, sentences[-1] if sentences else "")
    )
    names = [name for name in entities if not _any_contains(known[1:], name)]
    names += [name for name in fresh if not _any_contains(known[:-1], name)]
    names = list(dict.fromkeys(names))
    candidates = [fact for fact in facts if fact.text not in sentences]
    focus = " ".join([*unmentioned_words(question, sentences, language), *names])
    scores = overlaps(focus, [fact.text for fact in candidates], language)
    best: ChainFact | None = None
    top = 0.0
    for fact, score in zip(candidates, scores, strict=True):
        if fact.topic in names:
            score *= _TITLE_WEIGHT
        if fact.triple.predicate == ASSOCIATED:
            score *= _ASSOCIATION_WEIGHT
        begins = (not names and not sentences) or any(_any_contains([fact.words], name) for name in names)
        if score > top and begins and not all(_any_contains(known, name) for name in fact.names):
            best, top = fact, score
    return best


def find_new_name(triple: Triple, question: str, sentences: Sequence[str]) -> str:
    """Return the object of a triple, or its subject if the question or a sentence in `said` names the object."""
    known = [_pad_words(text) for text in (question, *sentences)]
    return triple.subject if _any_contains(known, entity_key(triple.object)) else triple.object


def unmentioned_words(question: str, sentences: Sequence[str], language: str) -> list[str]:
    """Return the distinct words of a question that no sentence in `said` contains, in order."""
    mentioned = {token for text in sentences for token in analyse(text, language)}
    return [word for word in dict.fromkeys(question.split()) if mentioned.isdisjoint(analyse(word, language))]


def unmentioned_names(question: str, sentences: Sequence[str]) -> list[str]:
    """Return the names in a question, as written, that no sentence in `said` contains."""
    known = [_pad_words(text) for text in sentences]
    return [name for name in find_names(question) if not _any_contains(known, entity_key(name))]


def _pad_words(text: str) -> str:
    return f" {entity_key(text)} "


def _any_contains(texts: Iterable[str], name: str) -> bool:
    """Return whether a text from `_pad_words` contains the words of a name."""
    return any(f" {name} " in text for text in texts)
