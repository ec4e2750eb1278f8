"""`links` in plain loops over whole texts, written from its page: for comparison with the method, never for use."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ragindex.interfaces import Encoder
from ragindex.llm.rules.words import ENGLISH_FUNCTION_WORDS
from ragindex.retrieval.fusion import scores_differ
from ragindex.text_analysis import analyse
from ragindex.types import Document

Ranking = list[tuple[str, float]]


class NaiveLinks:
    """An index of documents of one passage each, with titles."""

    def __init__(self, documents: Sequence[Document], encoder: Encoder) -> None:
        self.documents = {one.id: one for one in documents}
        self.encoder = encoder
        texts = [f"{one.title}\n{one.text}" for one in documents]
        self.tokens = {one.id: analyse(text) for one, text in zip(documents, texts, strict=True)}
        vectors = encoder.encode_documents(texts).astype(np.float64)
        self.vectors = {one.id: vector for one, vector in zip(documents, vectors, strict=True)}
        self.keys = {one.id: find_keys(one) for one in documents}
        self.known = {key for keys in self.keys.values() for key in keys}
        self.runs = {one.id: find_runs(one.text) for one in documents}

    def bm25(self, token: str, id: str) -> float:
        filled = [one for one in self.tokens.values() if one]
        frequency = sum(token in one for one in filled)
        mean = max(1.0, sum(map(len, filled)) / max(1, len(filled)))
        times, length = self.tokens[id].count(token), len(self.tokens[id])
        idf = math.log(1 + (len(filled) - frequency + 0.5) / (frequency + 0.5))
        return idf * times / (times + 1.2 * (1 - 0.75 + 0.75 * length / mean)) if times else 0.0

    def mentions(self, id: str) -> set[str]:
        """The names that a passage mentions outside of longer ones."""
        places = [(start, end, run) for start, end, run in self.runs[id] if run in self.known]
        return {
            run
            for start, end, run in places
            if not any(other <= start and end <= last and (other, last) != (start, end) for other, last, _ in places)
        }

    def weight(self, key: str, most: int) -> float:
        first = " ".join(key.split()[:3])
        mentioning = sum(any(run == first for *_, run in runs) for runs in self.runs.values())
        holders = sum(key in keys for keys in self.keys.values())
        if mentioning > most or holders > most:
            return 0.0
        return math.log(len(self.documents) / mentioning) / math.log(len(self.documents)) / math.sqrt(holders)

    def links(self, seed: str, most: int) -> list[tuple[str, float, bool]]:
        """(passage, weight, backward) of a seed, each once."""
        best: dict[tuple[str, bool], float] = {}
        for other in self.documents:
            for one, two, backward in ((seed, other, False), (other, seed, True)):
                for key in self.mentions(one) & set(self.keys[two]) if one != two else ():
                    best[other, backward] = max(best.get((other, backward), 0.0), self.weight(key, most))
        return [(passage, weight, backward) for (passage, backward), weight in best.items() if weight > 0]

    def rank(self, question: str, k: int, allowed: set[str], settings: Mapping[str, Any]) -> Ranking:
        """The k best of the passages `allowed`."""
        asked = analyse(question)
        tokens = list(dict.fromkeys(asked))
        vector = self.encoder.encode_queries([question])[0].astype(np.float64)
        cosines = {id: float(self.vectors[id] @ vector) for id in allowed if vector.any() and self.vectors[id].any()}
        whole = {id: sum(self.bm25(token, id) for token in asked) for id in allowed}
        by_token = {id: [self.bm25(token, id) for token in tokens] for id in allowed}
        text = {id: sum(by_token[id]) for id in allowed}
        depth = max(settings["depth"], k)
        candidates = {
            *sorted((id for id in allowed if whole[id] > 0), key=lambda id: (-whole[id], id))[:depth],
            *sorted(cosines, key=lambda id: (-cosines[id], id))[:depth],
        }
        if not candidates:
            return []
        cosine_ends = ends(cosines[id] for id in candidates if id in cosines)
        text_ends = ends(text[id] for id in candidates)
        named = set(list_ngrams(question))

        def base(id: str) -> float:
            dense = normalize(cosines[id], *cosine_ends) if id in cosines else 0.0
            score = settings["weight"] * dense + (1 - settings["weight"]) * normalize(text[id], *text_ends)
            return score + (settings["title_bonus"] if id in candidates and named & set(self.keys[id]) else 0.0)

        scores = {id: base(id) for id in candidates}
        gains = dict.fromkeys(candidates, 0.0)
        walked: set[str] = set()
        for _ in range(settings["hops"]):
            now = {id: score + gains[id] for id, score in scores.items()}
            seeds = sorted((id for id in now if id not in walked), key=lambda id: (-now[id], id))[: settings["seeds"]]
            for seed in seeds:
                for passage, weight, backward in self.links(seed, settings["max_mentions"]):
                    if passage not in allowed or passage in walked:
                        continue
                    if passage not in scores:
                        scores[passage], gains[passage] = base(passage), 0.0
                    added = sum(max(0.0, two - one) for one, two in zip(by_token[seed], by_token[passage], strict=True))
                    new = added / text_ends[1] if text_ends[1] > 0 else 0.0
                    worth = settings["link_weight"] + settings["novelty_weight"] * new
                    side = settings["backward"] if backward else 1.0
                    gains[passage] = max(gains[passage], now[seed] * weight * side * worth)
            walked |= set(seeds)
        found = [(id, score + gains[id]) for id, score in scores.items()]
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:k]


def find_keys(document: Document) -> list[str]:
    bare = re.sub(r"\s*\([^()]*\)\s*$", "", document.title) or document.title
    headings = [line.split(" ", 1)[1] for line in document.text.split("\n") if re.match(r"#{1,6} \S", line)]
    return [key for name in (bare, *headings) if is_key(key := " ".join(re.findall(r"\w+", name.casefold())))]


def is_key(words: str) -> bool:
    count = len(words.split())
    return 2 <= count <= 8 or (count == 1 and len(words) >= 4)


def find_runs(text: str) -> list[tuple[int, int, str]]:
    """(first word, last word + 1, words) of each run in a text that may be a name."""
    words = list(re.finditer(r"\w+", text))
    runs = []
    for place, word in enumerate(words):
        quoted = word.start() > 0 and text[word.start() - 1] in '"“„«`‘['
        capital = word.group()[0].isupper()
        if word.group().casefold() in ENGLISH_FUNCTION_WORDS:
            capital = capital and place + 1 < len(words) and words[place + 1].group()[0].isupper()
        for end in range(place + 1, min(place + 8, len(words)) + 1) if quoted or capital else ():
            run = " ".join(one.group().casefold() for one in words[place:end])
            if is_key(run):
                runs.append((place, end, run))
    return runs


def list_ngrams(question: str) -> list[str]:
    words = re.findall(r"\w+", question.casefold())
    return [" ".join(words[start:end]) for start in range(len(words)) for end in range(start + 1, start + 9)]


def ends(values: Any) -> tuple[float, float]:
    held = list(values)
    return (min(held), max(held)) if held else (0.0, 0.0)


def normalize(value: float, low: float, high: float) -> float:
    if not scores_differ(low, high):
        return float(value >= low)
    return max(0.0, (value - low) / (high - low))
