"""From fact to fact through passages, by rules: how methods that reason step by step do so without a model."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ragindex.llm.rules.extracting import ALSO, entity_key, extract
from ragindex.llm.rules.lexical_overlap import overlaps
from ragindex.llm.rules.mentions import find_mentions
from ragindex.llm.rules.triples import ASSOCIATED
from ragindex.text_analysis import analyse
from ragindex.types import Triple

_OF_ITS_TITLE = 2.0  # a passage says more of what it is about
_ONLY_TOGETHER = 0.5  # the rules found no verb between the two names


@dataclass(frozen=True, slots=True)
class ChainFact:
    """A triple of a passage, and the same as a sentence.

    `names` are those of its sides that name something, `topic` is the passage's title, both as `entity_key` has them;
    `words` are those of the sentence, with a space on either side, to look names up in.
    """

    triple: Triple
    text: str
    words: str
    names: tuple[str, ...]
    topic: str


def list_facts(passages: Iterable[tuple[str, str]]) -> list[ChainFact]:
    """The facts of passages, given as (title, text), each sentence once."""
    found: dict[str, ChainFact] = {}
    for title, text in passages:
        for fact in _facts(title, text):
            found.setdefault(fact.text, fact)
    return list(found.values())


@lru_cache(maxsize=1024)
def _facts(title: str, text: str) -> tuple[ChainFact, ...]:
    """A passage is read for many questions."""
    found = extract(title, text)
    entities = {entity_key(name) for name in found.entities}
    topic = entity_key(title)
    return tuple(_fact(triple, entities, topic) for triple in found.triples if triple.predicate != ALSO)


def _fact(triple: Triple, entities: set[str], topic: str) -> ChainFact:
    text = write_sentence(triple)
    sides = (entity_key(triple.subject), entity_key(triple.object))
    return ChainFact(triple, text, _words(text), tuple(side for side in sides if side in entities), topic)


def write_sentence(triple: Triple) -> str:
    """A triple as a sentence."""
    return f"{triple.subject} {triple.predicate} {triple.object}."


def find_next_fact(question: str, facts: Sequence[ChainFact], said: Sequence[str], language: str) -> ChainFact | None:
    """The fact that leads on from what was `said`; None where none does.

    It has one of the names that are open and brings up a new one. Open are the names of the question that nothing said
    holds, and those that the last sentence brought up. Of these facts it is the one nearest to the open names and to
    the question's words that nothing said holds. A question without names begins with any fact.
    """
    held, unsaid = [_words(text) for text in said], [fact for fact in facts if fact.text not in said]
    names = _open_names(question, said, held)
    focus = " ".join([*unmentioned_words(question, said, language), *names])
    scores = overlaps(focus, [fact.text for fact in unsaid], language)
    known = [_words(question), *held]
    leading = [
        (score * _weight(fact, names), place)
        for place, (fact, score) in enumerate(zip(unsaid, scores, strict=True))
        if score and _leads(fact, names, known, anywhere=not names and not said)
    ]
    return unsaid[max(leading, key=lambda pair: (pair[0], -pair[1]))[1]] if leading else None


def find_new_name(triple: Triple, question: str, said: Sequence[str]) -> str:
    """The side of a triple, as it is written, that neither the question nor what was `said` names: first its object."""
    known = [_words(text) for text in (question, *said)]
    return triple.subject if any(_holds(words, entity_key(triple.object)) for words in known) else triple.object


def _leads(fact: ChainFact, names: Sequence[str], known: Sequence[str], anywhere: bool) -> bool:
    begins = anywhere or any(_holds(fact.words, name) for name in names)
    return begins and bool(_new_names(fact, known))


def _new_names(fact: ChainFact, known: Sequence[str]) -> list[str]:
    return [name for name in fact.names if not any(_holds(words, name) for words in known)]


def _weight(fact: ChainFact, names: Sequence[str]) -> float:
    told = _ONLY_TOGETHER if fact.triple.predicate == ASSOCIATED else 1.0
    return told * (_OF_ITS_TITLE if fact.topic in names else 1.0)


def _open_names(question: str, said: Sequence[str], held: Sequence[str]) -> list[str]:
    asked = _words(question)
    still = [name for name in _names(question) if not any(_holds(words, name) for words in held)]
    fresh = [name for text in said[-1:] for name in _names(text)]
    earlier = [asked, *held[:-1]]
    return list(dict.fromkeys([*still, *(n for n in fresh if not any(_holds(words, n) for words in earlier))]))


def unmentioned_words(question: str, said: Sequence[str], language: str) -> list[str]:
    """The words of a question that nothing said holds, in their order."""
    told = {token for text in said for token in analyse(text, language)}
    return [word for word in dict.fromkeys(question.split()) if not told & set(analyse(word, language))]


def unmentioned_names(question: str, said: Sequence[str]) -> list[str]:
    """The names of a question, as they are written, that nothing said holds."""
    held = [_words(text) for text in said]
    names = [one.text for one in find_mentions(question) if one.kind in ("name", "title")]
    return [name for name in names if not any(_holds(words, entity_key(name)) for words in held)]


def _names(text: str) -> list[str]:
    return [entity_key(one.text) for one in find_mentions(text) if one.kind in ("name", "title")]


def _words(text: str) -> str:
    return f" {entity_key(text)} "


def _holds(words: str, name: str) -> bool:
    return f" {name} " in words
