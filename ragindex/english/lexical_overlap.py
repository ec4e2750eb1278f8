"""Ranking of texts and triples by the words they share with a question, weighted by rarity."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from ragindex.text_analysis import analyse
from ragindex.types import Triple

_Item = TypeVar("_Item")


def nearest_triples(question: str, triples: Sequence[Triple], count: int, language: str = "english") -> list[Triple]:
    """Return at most `count` distinct triples, those with the highest overlap with the question first.

    See `overlaps` for the score. Triples without overlap are left out; ties keep their order.
    """
    distinct = list(dict.fromkeys(triples))
    texts = [f"{one.subject} {one.predicate} {one.object}" for one in distinct]
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
    held = [frozenset(analyse(text, language)) for text in texts]
    frequency = Counter(token for tokens in held for token in tokens)
    weight = {token: math.log(1 + len(texts) / times) for token, times in frequency.items()}
    asked = frozenset(analyse(question, language))
    whole = math.fsum(weight.get(token, 0.0) for token in sorted(asked))
    return [_score_overlap(tokens, asked, weight, whole) for tokens in held]


def _score_overlap(tokens: frozenset[str], asked: frozenset[str], weight: dict[str, float], whole: float) -> float:
    shared = math.fsum(weight[token] for token in sorted(tokens & asked))
    own = math.fsum(weight[token] for token in sorted(tokens))
    return shared / math.sqrt(whole * own) if shared else 0.0
