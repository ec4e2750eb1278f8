"""What is nearest to a question by the words they share, rarer words counting for more."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from ragindex.text_analysis import analyse
from ragindex.types import Triple

_Item = TypeVar("_Item")


def nearest_triples(question: str, triples: Sequence[Triple], count: int, language: str = "english") -> list[Triple]:
    """At most `count` of `triples`, those that share most with the question first; none that shares nothing.

    Each token that both hold counts its inverse document frequency among `triples`; a triple that says more besides
    counts less. Equal ones keep their order; a triple that was given twice counts once.
    """
    distinct = list(dict.fromkeys(triples))
    texts = [f"{one.subject} {one.predicate} {one.object}" for one in distinct]
    return _best(distinct, overlaps(question, texts, language), count)


def nearest_texts(question: str, texts: Sequence[str], count: int, language: str = "english") -> list[str]:
    """As `nearest_triples`, of texts."""
    distinct = list(dict.fromkeys(texts))
    return _best(distinct, overlaps(question, distinct, language), count)


def _best(items: Sequence[_Item], scores: Sequence[float], count: int) -> list[_Item]:
    order = sorted(range(len(items)), key=lambda place: -scores[place])
    return [items[place] for place in order[:count] if scores[place] > 0]


def overlaps(question: str, texts: Sequence[str], language: str = "english") -> list[float]:
    """For each text, the weight of the question's tokens in it, over the square root of the text's own; 0 to 1.

    The weight of a token is ln(1 + N / df) over the `texts`: shared rare words tell more than shared common ones.
    """
    held = [frozenset(analyse(text, language)) for text in texts]
    frequency = Counter(token for tokens in held for token in tokens)
    weight = {token: math.log(1 + len(texts) / times) for token, times in frequency.items()}
    asked = frozenset(analyse(question, language))
    whole = math.fsum(weight.get(token, 0.0) for token in sorted(asked))
    return [_overlap(tokens, asked, weight, whole) for tokens in held]


def _overlap(tokens: frozenset[str], asked: frozenset[str], weight: dict[str, float], whole: float) -> float:
    shared = math.fsum(weight[token] for token in sorted(tokens & asked))
    own = math.fsum(weight[token] for token in sorted(tokens))
    return shared / math.sqrt(whole * own) if shared else 0.0
