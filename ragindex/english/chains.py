"""Chains of facts through passages: the rules for multi-step reasoning without an LLM."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ragindex.english.extracting import ALSO, entity_key, extract
from ragindex.english.lexical_overlap import overlaps
from ragindex.english.mentions import find_mentions
from ragindex.english.triples import ASSOCIATED
from ragindex.text_analysis import analyse
from ragindex.types import Triple

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
    found: dict[str, ChainFact] = {}
    for title, text in passages:
        for fact in _extract_facts(title, text):
            found.setdefault(fact.text, fact)
    return list(found.values())


@lru_cache(maxsize=1024)
def _extract_facts(title: str, text: str) -> tuple[ChainFact, ...]:
    """Extract the facts of a passage. They are cached, as a passage is read for many questions."""
    found = extract(title, text)
    entities = {entity_key(name) for name in found.entities}
    topic = entity_key(title)
    return tuple(_make_fact(triple, entities, topic) for triple in found.triples if triple.predicate != ALSO)


def _make_fact(triple: Triple, entities: set[str], topic: str) -> ChainFact:
    text = write_sentence(triple)
    sides = (entity_key(triple.subject), entity_key(triple.object))
    return ChainFact(triple, text, _pad_words(text), tuple(side for side in sides if side in entities), topic)


def write_sentence(triple: Triple) -> str:
    """Return a triple as a sentence."""
    return f"{triple.subject} {triple.predicate} {triple.object}."


def find_next_fact(question: str, facts: Sequence[ChainFact], said: Sequence[str], language: str) -> ChainFact | None:
    """Return the fact that continues the chain of sentences in `said`, or None if there is none.

    A candidate has at least one open name and a new name. The open names are those of the question that no sentence
    contains, and those that the last sentence introduced. The best candidate is the one that overlaps most with the
    open names and the unmentioned words of the question; facts about an open name count double, and facts without a
    verb count half. If the question has no names, any fact can begin the chain.
    """
    held, unsaid = [_pad_words(text) for text in said], [fact for fact in facts if fact.text not in said]
    names = _list_open_names(question, said, held)
    focus = " ".join([*unmentioned_words(question, said, language), *names])
    scores = overlaps(focus, [fact.text for fact in unsaid], language)
    known = [_pad_words(question), *held]
    leading = [
        (score * _weigh_fact(fact, names), place)
        for place, (fact, score) in enumerate(zip(unsaid, scores, strict=True))
        if score and _leads_on(fact, names, known, anywhere=not names and not said)
    ]
    return unsaid[max(leading, key=lambda pair: (pair[0], -pair[1]))[1]] if leading else None


def find_new_name(triple: Triple, question: str, said: Sequence[str]) -> str:
    """Return the object of a triple, or its subject if the question or a sentence in `said` names the object."""
    known = [_pad_words(text) for text in (question, *said)]
    return triple.subject if any(_contains_name(words, entity_key(triple.object)) for words in known) else triple.object


def _leads_on(fact: ChainFact, names: Sequence[str], known: Sequence[str], anywhere: bool) -> bool:
    begins = anywhere or any(_contains_name(fact.words, name) for name in names)
    return begins and bool(_list_new_names(fact, known))


def _list_new_names(fact: ChainFact, known: Sequence[str]) -> list[str]:
    return [name for name in fact.names if not any(_contains_name(words, name) for words in known)]


def _weigh_fact(fact: ChainFact, names: Sequence[str]) -> float:
    told = _ASSOCIATION_WEIGHT if fact.triple.predicate == ASSOCIATED else 1.0
    return told * (_TITLE_WEIGHT if fact.topic in names else 1.0)


def _list_open_names(question: str, said: Sequence[str], held: Sequence[str]) -> list[str]:
    asked = _pad_words(question)
    still = [name for name in _find_name_keys(question) if not any(_contains_name(words, name) for words in held)]
    fresh = [name for text in said[-1:] for name in _find_name_keys(text)]
    earlier = [asked, *held[:-1]]
    return list(dict.fromkeys([*still, *(n for n in fresh if not any(_contains_name(words, n) for words in earlier))]))


def unmentioned_words(question: str, said: Sequence[str], language: str) -> list[str]:
    """Return the distinct words of a question that no sentence in `said` contains, in order."""
    told = {token for text in said for token in analyse(text, language)}
    return [word for word in dict.fromkeys(question.split()) if not told & set(analyse(word, language))]


def unmentioned_names(question: str, said: Sequence[str]) -> list[str]:
    """Return the names in a question, as written, that no sentence in `said` contains."""
    held = [_pad_words(text) for text in said]
    names = [one.text for one in find_mentions(question) if one.kind in ("name", "title")]
    return [name for name in names if not any(_contains_name(words, entity_key(name)) for words in held)]


def _find_name_keys(text: str) -> list[str]:
    return [entity_key(one.text) for one in find_mentions(text) if one.kind in ("name", "title")]


def _pad_words(text: str) -> str:
    return f" {entity_key(text)} "


def _contains_name(words: str, name: str) -> bool:
    return f" {name} " in words
