"""The open retriever of links: candidates of BM25 and dense, then the links of the best of them."""

import time
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ragindex.filters import Ids, combine_filters
from ragindex.interfaces import Collection, Encoder, FilterQuery, Floats, SearchRequest, TextQuery, VectorQuery
from ragindex.parts.support.arrays import Integers
from ragindex.retrieval.hits import HIT_FIELDS, check_queries, read_hits
from ragindex.stores.multi_search import search_together
from ragindex.text_analysis import analyse, token_spans
from ragindex.types import Hit, Query, Retrieval, Step
from ragindex_retrievers.links.lookups import Link, LinkLookups
from ragindex_retrievers.links.parameters import LinksParameters
from ragindex_retrievers.links.scores import CandidateScores

_MOST_WORDS = 64
"""The most distinct words of a question that are scored one by one."""
_EXPLAINED_LINKS, _EXPLAINED_WORDS = 10, 3


@dataclass(frozen=True, slots=True)
class LinksRetriever:
    """The open retriever of Links."""

    passages: Collection
    vectors: Collection
    links: LinkLookups
    encoder: Encoder
    settings: LinksParameters
    source: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Answer the questions one after the other, with one batch of the encoder."""
        check_queries(queries, k)
        vectors = self.encoder.encode_queries([query.text for query in queries])
        return [_Question(self, query, vector).answer(k) for query, vector in zip(queries, vectors, strict=True)]


class _Question:
    """The work on one question."""

    def __init__(self, opened: LinksRetriever, query: Query, vector: Floats) -> None:
        self.opened, self.settings, self.query, self.vector = opened, opened.settings, query, vector
        self.words = _list_words(query.text, opened.passages.schema.language)
        self.scores = CandidateScores(self.settings.weight)
        self.via: dict[str, Link] = {}
        self.steps: list[Step] = []

    def answer(self, k: int) -> Retrieval:
        """Return the k best passages, with the links that led to them in the trace."""
        candidates = self._find_candidates(max(self.settings.depth, k))
        if candidates:
            naming = self.opened.links.make_naming_query(self.query.text, candidates)
            named = self._look_up(candidates, [naming])
            self.scores.add_bonus(named, self.settings.title_bonus)
            walked: set[str] = set()
            for hop in range(1, self.settings.hops + 1):
                walked |= self._follow_links(hop, walked)
        return Retrieval(self._read_hits(self.scores.best()[:k]), tuple(self.steps))

    def _find_candidates(self, depth: int) -> list[str]:
        start = time.perf_counter()
        text = TextQuery(self.query.text, depth, (), self.query.filter)
        near = VectorQuery(self.vector, depth, (), self.query.filter)
        (matched,), (nearest,) = search_together([(self.opened.passages, [text]), (self.opened.vectors, [near])])
        ms = _ms(start) / 2
        self.steps.append(Step(1, "text", self.query.text, tuple(matched.ids), ms=ms))
        self.steps.append(Step(1, "vectors", self.query.text, tuple(nearest.ids), ms=ms))
        return sorted({*matched.ids, *nearest.ids})

    def _look_up(self, ids: Sequence[str], of_links: Sequence[SearchRequest] = ()) -> list[str]:
        """Score passages; return the ids that `of_links` finds."""
        opened, within = self.opened, Ids(tuple(ids))
        texts = [TextQuery(word, len(ids), (), within) for word in self.words]
        by_word, (near,), *others = search_together(
            [
                (opened.passages, texts),
                (opened.vectors, [VectorQuery(self.vector, len(ids), (), within)]),
                *([(opened.links.records, of_links)] if of_links else []),
            ]
        )
        rows = {id: row for row, id in enumerate(ids)}
        text = np.zeros((len(ids), len(self.words)))
        for column, found in enumerate(by_word):
            text[[rows[id] for id in found.ids], column] = found.scores
        cosines = np.full(len(ids), np.nan)
        cosines[[rows[id] for id in near.ids]] = near.scores
        self.scores.add(ids, cosines, text)
        return [id for found in others for one in found for id in one.ids]

    def _follow_links(self, hop: int, walked: Container[str]) -> set[str]:
        """Follow the links of the best passages that are not among those `walked` before, except back to these."""
        start = time.perf_counter()
        seeds = [id for id in self.scores.best() if id not in walked][: self.settings.seeds]
        links = [link for link in self.opened.links.find(seeds) if link.passage not in walked]
        passing = self._find_passing(sorted({link.passage for link in links} - self.scores.rows.keys()))
        if passing:
            self._look_up(passing)
        links = [link for link in links if link.passage in self.scores.rows]
        self._add_links(links)
        self.steps.append(self._explain(hop, seeds, links, _ms(start)))
        return set(seeds)

    def _find_passing(self, ids: Sequence[str]) -> Sequence[str]:
        """Return those of `ids` that pass the question's filter."""
        if self.query.filter is None or not ids:
            return ids
        where = combine_filters(Ids(tuple(ids)), self.query.filter)
        (found,) = self.opened.passages.search([FilterQuery(where, len(ids))])
        return found.ids

    def _add_links(self, links: Sequence[Link]) -> None:
        settings, scores = self.settings, self.scores
        seeds, passages = (
            _places(scores, [link.seed for link in links]),
            _places(scores, [link.passage for link in links]),
        )
        weights = np.array([link.weight * (settings.backward if link.backward else 1.0) for link in links])
        worth = settings.link_weight + settings.novelty_weight * scores.share_of_new(seeds, passages)
        gains = scores.total[seeds] * weights * worth
        for place in scores.raise_gains(passages, gains).tolist():
            self.via[links[place].passage] = links[place]

    # ------------------------------------------------------------ results

    def _explain(self, hop: int, seeds: Sequence[str], links: Sequence[Link], ms: float) -> Step:
        reached = {link.passage for link in links}
        ids = [id for id in self.scores.best() if id in reached]
        notes = [self._describe(self.via[id]) for id in ids[:_EXPLAINED_LINKS] if id in self.via]
        return Step(hop, "links", ", ".join(seeds), tuple(ids), ms=ms, note="\n".join(notes))

    def _describe(self, link: Link) -> str:
        seed, passage = _places(self.scores, [link.seed]), _places(self.scores, [link.passage])
        added = self.scores.find_new(seed, passage)[0]
        best = [self.words[place] for place in np.argsort(-added, kind="stable")[:_EXPLAINED_WORDS] if added[place] > 0]
        told = f"{link.passage} {'mentions' if link.backward else 'is mentioned by'} {link.seed} ({link.name})"
        return f"{told}; adds {', '.join(best)}" if best else told

    def _read_hits(self, ids: Sequence[str]) -> tuple[Hit, ...]:
        if not ids:
            return ()
        (found,) = self.opened.passages.search([FilterQuery(Ids(tuple(ids)), len(ids), HIT_FIELDS)])
        hits = {hit.id: hit for hit in read_hits(found, self.opened.source)}
        scores = self.scores.total[_places(self.scores, ids)].tolist()
        return tuple(replace(hits[id], score=score) for id, score in zip(ids, scores, strict=True))


def _places(scores: CandidateScores, ids: Sequence[str]) -> Integers:
    return np.array([scores.rows[id] for id in ids], np.int64)


def _list_words(question: str, language: str) -> list[str]:
    """Return the words of a question that are searched, as written, each token once."""
    words: dict[tuple[str, ...], str] = {}
    for _, start, end in token_spans(question, language):
        word = question[start:end]
        words.setdefault(tuple(analyse(word, language)), word)
    return list(words.values())[:_MOST_WORDS]


def _ms(start: float) -> float:
    return (time.perf_counter() - start) * 1e3
