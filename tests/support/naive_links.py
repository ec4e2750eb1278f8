"""The method `links` a second time, in plain loops: slow, and meant to be checked by eye."""

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from typing import TypeAlias

from ragindex.english import find_names
from ragindex.english.words import ENGLISH_FUNCTION_WORDS
from ragindex.index.index import Index
from ragindex.retrieval.fusion import scores_differ
from ragindex.text_analysis import analyse
from ragindex.types import Document, Passage
from ragindex_retrievers.links.lookups import LinksParameters
from ragindex_retrievers.links.method import Links

Run: TypeAlias = tuple[int, int, str]  # the numbers of its first word and of the word after its last, and its words
WORD = re.compile(r"\w+")
LAST_PARENTHESES = re.compile(r"\s*\([^()]*\)\s*$")
OPENING = set('"“„«`‘[')
LONGEST, SHORTEST, COUNTED = 8, 4, 3  # words of a key, characters of a key of one word, words that are counted
K1, B = 1.2, 0.75


# ---------------------------------------------------------------- names and mentions


def joined(words: Sequence[str]) -> str | None:
    """The key of these words, if they are one."""
    key = " ".join(words)
    one_short = len(words) == 1 and len(key) < SHORTEST
    return None if one_short or not 1 <= len(words) <= LONGEST else key


def words_of(text: str) -> list[str]:
    return [word.casefold() for word in WORD.findall(text)]


def keys_of(passage: Passage, document: Document, titled: bool) -> set[str]:
    if titled:
        names = [LAST_PARENTHESES.sub("", passage.title) or passage.title]
    else:
        opening = " ".join(passage.text[:2000].split())
        names = list(find_names(opening))[:1]
    before: tuple[str, ...] = ()
    for section in document.sections:
        if passage.start <= section.start < passage.end and section.headings != before:
            names.append(section.headings[-1])
        before = section.headings
    return {key for name in names if (key := joined(words_of(name)))}


def share_of_confirmed(documents: Sequence[Document], first: dict[str, Passage]) -> float:
    """The share of documents whose first passage has a word of their title."""
    judged = []
    for document in documents:
        title = analyse(LAST_PARENTHESES.sub("", document.title) or document.title)
        if title:
            judged.append(any(word in analyse(first[document.id].text) for word in title))
    return sum(judged) / len(judged)


def starts_of(text: str) -> list[int]:
    """The numbers of the words that a name can begin at."""
    starts, words = [], list(WORD.finditer(text))
    for number, word in enumerate(words):
        next_is_upper = number + 1 < len(words) and words[number + 1][0][0].isupper()
        is_function_word = word[0].casefold() in ENGLISH_FUNCTION_WORDS
        is_name = word[0][0].isupper() and (next_is_upper or not is_function_word)
        if is_name or text[word.start() - 1 : word.start()] in OPENING:
            starts.append(number)
    return starts


def runs_of(text: str) -> list[Run]:
    runs, words = [], words_of(text)
    for start in starts_of(text):
        for end in range(start + 1, min(start + LONGEST, len(words)) + 1):
            if key := joined(words[start:end]):
                runs.append((start, end, key))
    return runs


def mentioned(runs: Sequence[Run], known: Collection[str]) -> set[str]:
    """The known keys among the runs, but for those that are only parts of longer ones."""
    known_runs = [run for run in runs if run[2] in known]
    mentions = set()
    for start, end, key in known_runs:
        around = [run for run in known_runs if run[0] <= start and run[1] >= end and run[:2] != (start, end)]
        if not around:
            mentions.add(key)
    return mentions


def n_grams(text: str) -> set[str]:
    words = words_of(text)
    ends = [(start, end) for start in range(len(words)) for end in range(start + 1, len(words) + 1)]
    return {key for start, end in ends if (key := joined(words[start:end]))}


# ---------------------------------------------------------------- a corpus and its questions


class Corpus:
    """What is known before anything is asked, and the scores of every question that was asked."""

    def __init__(
        self, workspace: Index, documents: Sequence[Document], passages: Sequence[Passage], least: float
    ) -> None:
        self.ids = [passage.id for passage in passages]
        self.documents = {passage.id: passage.doc_id for passage in passages}
        by_id = {document.id: document for document in documents}
        first = {passage.doc_id: passage for passage in reversed(passages)}
        titled = share_of_confirmed(documents, first) >= least
        self.keys = {passage.id: keys_of(passage, by_id[passage.doc_id], titled) for passage in passages}
        known = {key for keys in self.keys.values() for key in keys}
        runs = {passage.id: runs_of(passage.text) for passage in passages}
        self.mentions = {id: mentioned(runs[id], known) for id in self.ids}
        spoken = {id: {key for *_, key in runs[id]} for id in self.ids}
        self.counts = {key: self._count(" ".join(key.split(" ")[:COUNTED]), spoken) for key in known}
        self.holders = {key: self._count(key, self.keys) for key in known}
        texts = [f"{passage.title}\n{passage.text}" for passage in passages]
        self.tokens = {id: Counter(analyse(text)) for id, text in zip(self.ids, texts, strict=True)}
        self.encoder = workspace.encoder
        vectors = self.encoder.encode_documents(texts).tolist()
        self.vectors: dict[str, list[float]] = dict(zip(self.ids, vectors, strict=True))
        self.cosines = cache(self._cosines)
        self.bm25 = cache(self._bm25)
        self.links = cache(self._links)

    def _count(self, key: str, keys_by_passage: dict[str, set[str]]) -> tuple[int, int]:
        """How many documents hold the key, and how many passages."""
        holding = [id for id in self.ids if key in keys_by_passage[id]]
        return len({self.documents[id] for id in holding}), len(holding)

    def weight(self, key: str, max_mentions: int) -> float | None:
        """The weight of a link by this key; None if it links nothing."""
        for documents, passages in (self.counts[key], self.holders[key]):
            if documents > max_mentions or passages > 4 * max_mentions:
                return None
        count, holders = self.counts[key][0], self.holders[key][1]
        return math.log(len(self.ids) / count) / math.log(len(self.ids)) / math.sqrt(holders)

    def _links(self, seed: str, max_mentions: int, backward: float) -> list[tuple[str, float]]:
        """The passages that the seed is linked to, with the weights of their links."""
        links = []
        for id in self.ids:
            if self.documents[id] == self.documents[seed]:
                continue
            for key in (self.mentions[seed] - self.keys[seed]) & self.keys[id]:
                if (weight := self.weight(key, max_mentions)) is not None:
                    links.append((id, weight))
            for key in (self.mentions[id] - self.keys[id]) & self.keys[seed]:
                if (weight := self.weight(key, max_mentions)) is not None:
                    links.append((id, backward * weight))
        return links

    def _cosines(self, question: str) -> dict[str, float]:
        """The cosine of the question with every passage that has one."""
        (question_vector,) = self.encoder.encode_queries([question]).tolist()
        return {
            id: math.fsum(value * other for value, other in zip(question_vector, vector, strict=True))
            for id, vector in self.vectors.items()
            if any(question_vector) and any(vector)
        }

    def _bm25(self, token: str) -> dict[str, float]:
        """The score of every passage for one token."""
        lengths = {id: sum(tokens.values()) for id, tokens in self.tokens.items()}
        filled = sum(length > 0 for length in lengths.values())
        mean = sum(lengths.values()) / filled
        frequency = sum(token in tokens for tokens in self.tokens.values())
        idf = math.log(1 + (filled - frequency + 0.5) / (frequency + 0.5))
        scores = {}
        for id, tokens in self.tokens.items():
            scores[id] = idf * tokens[token] / (tokens[token] + K1 * (1 - B + B * lengths[id] / mean))
        return scores


# ---------------------------------------------------------------- one question


def min_max(value: float | None, values: Sequence[float]) -> float:
    if value is None:
        return 0.0
    least, greatest = min(values), max(values)
    if not scores_differ(least, greatest):
        return 1.0 if value >= least else 0.0
    return max(0.0, (value - least) / (greatest - least))


def best(scores: dict[str, float], number: int) -> list[str]:
    return sorted(scores, key=lambda id: (-scores[id], id))[:number]


class QuestionScores:
    """One question: its candidates, and how any passage is scored beside them."""

    def __init__(
        self, corpus: Corpus, question: str, k: int, allowed: Collection[str], parameters: LinksParameters
    ) -> None:
        self.corpus, self.parameters = corpus, parameters
        tokens, depth = analyse(question), max(parameters.depth, k)
        self.tokens = sorted(set(tokens))
        self.cosines = {id: cosine for id, cosine in corpus.cosines(question).items() if id in allowed}
        self.texts = {id: sum(corpus.bm25(token)[id] for token in self.tokens) for id in corpus.ids}
        searched = {id: sum(corpus.bm25(token)[id] for token in sorted(tokens)) for id in allowed}
        by_text = best({id: score for id, score in searched.items() if score > 0}, depth)
        self.candidates = set(by_text) | set(best(self.cosines, depth))
        self.candidate_cosines = [self.cosines[id] for id in self.candidates if id in self.cosines]
        self.candidate_texts = [self.texts[id] for id in self.candidates]

    def base(self, id: str) -> float:
        weight = self.parameters.weight
        cosine = min_max(self.cosines.get(id), self.candidate_cosines)
        return weight * cosine + (1 - weight) * min_max(self.texts[id], self.candidate_texts)

    def gain(self, seed: str, id: str, weight: float, score: float) -> float:
        """What a passage gains by a link of this weight from a seed of this score."""
        greatest = max(self.candidate_texts)
        scores = [self.corpus.bm25(token) for token in self.tokens]
        added = sum(max(0.0, token_scores[id] - token_scores[seed]) for token_scores in scores)
        new = added / greatest if greatest else 0.0
        return score * weight * (self.parameters.link_weight + self.parameters.novelty_weight * new)


def ranked(corpus: Corpus, question: str, k: int, allowed: Collection[str], parameters: Links) -> dict[str, float]:
    """All passages that were scored, best first; only `allowed` ones can be found."""
    scored, named = QuestionScores(corpus, question, k, allowed, parameters), n_grams(question)
    base = {
        id: scored.base(id) + (parameters.title_bonus if corpus.keys[id] & named else 0.0) for id in scored.candidates
    }
    gains: dict[str, float] = {}
    followed: set[str] = set()
    for _ in range(parameters.hops):
        scores = {id: base[id] + gains.get(id, 0.0) for id in base}
        seeds = best({id: score for id, score in scores.items() if id not in followed}, parameters.seeds)
        lifted: dict[str, float] = {}
        for seed in seeds:
            for id, weight in corpus.links(seed, parameters.max_mentions, parameters.backward):
                if id in allowed and id not in followed:
                    base.setdefault(id, scored.base(id))
                    lifted[id] = max(scored.gain(seed, id, weight, scores[seed]), lifted.get(id, gains.get(id, 0.0)))
        by_document: dict[str, dict[str, float]] = {}
        for id, gain in lifted.items():
            by_document.setdefault(corpus.documents[id], {})[id] = base[id] + gain
        for totals in by_document.values():
            (id,) = best(totals, 1)
            gains[id] = lifted[id]
        followed |= set(seeds)
    scores = {id: base[id] + gains.get(id, 0.0) for id in base}
    order = best(base, parameters.kept)
    order += [id for id in best(scores, len(scores)) if id not in order]
    return {id: max(scores[below] for below in order[place:]) for place, id in enumerate(order)}
