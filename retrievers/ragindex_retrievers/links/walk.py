"""The walk of one question: candidates of BM25 and dense, then the links of the best of them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragindex.filters import Ids, combine_filters
from ragindex.interfaces import Collection, FilterQuery, Floats, SearchRequest, TextQuery, VectorQuery
from ragindex.parts.records import Doubles, Integers
from ragindex.stores.metered import search_together
from ragindex.text_analysis import analyse, token_spans
from ragindex.types import Query, Step, Triple
from ragindex_retrievers.links.lookups import Link, LinkLookups, LinksParameters
from ragindex_retrievers.links.scores import CandidateScores

_MOST_WORDS = 64
"""The most distinct words of a question that are scored one by one."""
_EXPLAINED_LINKS, _EXPLAINED_WORDS = 10, 3


@dataclass(frozen=True, slots=True)
class WalkedParts:
    """The opened parts that a walk searches, and its parameters."""

    passages: Collection
    vectors: Collection
    links: LinkLookups
    settings: LinksParameters


@dataclass(frozen=True, slots=True)
class Hop:
    """The links that one hop followed, and for each of them the row of its seed and of its passage, the score that the
    seed had, and what is new beyond it (CandidateScores.share_of_new)."""

    links: Sequence[Link]
    seeds: Integers
    passages: Integers
    seed_scores: Doubles
    new: Doubles


class LinkWalk:
    """The work on one question: `scores` has all passages that were reached, `hops` the links that were followed."""

    def __init__(self, parts: WalkedParts, query: Query, vector: Floats) -> None:
        self.parts, self.settings, self.query, self.vector = parts, parts.settings, query, vector
        self.words = _list_words(query.text, parts.passages.schema.language)
        self.scores = CandidateScores(self.settings.weight)
        self.hops: list[Hop] = []
        self.via: dict[str, Link] = {}
        self.steps: list[Step] = []
        self._walked: set[str] = set()

    def find_candidates(self, k: int) -> None:
        """Score the best passages of BM25 and of dense: `depth` of each, or k if that is more."""
        candidates = self._search(max(self.settings.depth, k))
        if candidates:
            naming = self.parts.links.make_naming_query(self.query.text, candidates)
            self.scores.add_bonus(self.look_up(candidates, [naming]), self.settings.title_bonus)

    def _search(self, depth: int) -> list[str]:
        start = time.perf_counter()
        text = TextQuery(self.query.text, depth, (), self.query.filter)
        near = VectorQuery(self.vector, depth, (), self.query.filter)
        (matched,), (nearest,) = search_together([(self.parts.passages, [text]), (self.parts.vectors, [near])])
        ms = (time.perf_counter() - start) * 1e3 / 2
        self.steps.append(Step(1, "text", self.query.text, tuple(matched.ids), ms=ms))
        self.steps.append(Step(1, "vectors", self.query.text, tuple(nearest.ids), ms=ms))
        return sorted({*matched.ids, *nearest.ids})

    def look_up(self, ids: Sequence[str], of_links: Sequence[SearchRequest] = ()) -> list[str]:
        """Score passages; return the ids that `of_links` finds."""
        parts, within = self.parts, Ids(tuple(ids))
        texts = [TextQuery(word, len(ids), (), within) for word in self.words]
        by_word, (near,), *others = search_together(
            [
                (parts.passages, texts),
                (parts.vectors, [VectorQuery(self.vector, len(ids), (), within)]),
                *([(parts.links.records, of_links)] if of_links else []),
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

    def follow_links(self) -> None:
        """Follow the links of the best passages that were no seeds yet, except back to earlier seeds."""
        if not self.scores.rows:
            return
        start = time.perf_counter()
        seeds = [id for id in self.scores.best() if id not in self._walked][: self.settings.seeds]
        links = [link for link in self.parts.links.find(seeds) if link.passage not in self._walked]
        passing = self._find_passing(sorted({link.passage for link in links} - self.scores.rows.keys()))
        if passing:
            self.look_up(passing)
        hop = self._make_hop([link for link in links if link.passage in self.scores.rows])
        self._add_gains(hop)
        self._walked |= set(seeds)
        self.hops.append(hop)
        self.steps.append(self._explain(seeds, hop.links, (time.perf_counter() - start) * 1e3))

    def _find_passing(self, ids: Sequence[str]) -> Sequence[str]:
        """Return those of `ids` that pass the question's filter."""
        if self.query.filter is None or not ids:
            return ids
        where = combine_filters(Ids(tuple(ids)), self.query.filter)
        (found,) = self.parts.passages.search([FilterQuery(where, len(ids))])
        return found.ids

    def _make_hop(self, links: Sequence[Link]) -> Hop:
        seeds = self.scores.places([link.seed for link in links])
        passages = self.scores.places([link.passage for link in links])
        return Hop(links, seeds, passages, self.scores.total[seeds], self.scores.share_of_new(seeds, passages))

    def _add_gains(self, hop: Hop) -> None:
        settings = self.settings
        weights = np.array([link.weight * (settings.backward if link.backward else 1.0) for link in hop.links])
        gains = hop.seed_scores * weights * (settings.link_weight + settings.novelty_weight * hop.new)
        gains[~self.scores.find_best_of_documents(hop.passages, gains, [link.documents for link in hop.links])] = 0
        for place in self.scores.raise_gains(hop.passages, gains).tolist():
            self.via[hop.links[place].passage] = hop.links[place]

    # ------------------------------------------------------------ explanation

    def _explain(self, seeds: Sequence[str], links: Sequence[Link], ms: float) -> Step:
        reached = {link.passage for link in links}
        ids = [id for id in self.scores.best() if id in reached]
        told = [self.via[id] for id in ids[:_EXPLAINED_LINKS] if id in self.via]
        paths = tuple((Triple(link.seed, link.name, link.passage),) for link in told)
        note = "\n".join(map(self._describe, told))
        return Step(len(self.hops), "links", ", ".join(seeds), tuple(ids), paths=paths, ms=ms, note=note)

    def _describe(self, link: Link) -> str:
        seed, passage = self.scores.places([link.seed]), self.scores.places([link.passage])
        added = self.scores.find_new(seed, passage)[0]
        best = [self.words[place] for place in np.argsort(-added, kind="stable")[:_EXPLAINED_WORDS] if added[place] > 0]
        told = f"{link.passage} {'mentions' if link.backward else 'is mentioned by'} {link.seed} ({link.name})"
        return f"{told}; adds {', '.join(best)}" if best else told


def _list_words(question: str, language: str) -> list[str]:
    """Return the words of a question that are searched, as written, each token once."""
    words: dict[tuple[str, ...], str] = {}
    for _, start, end in token_spans(question, language):
        word = question[start:end]
        words.setdefault(tuple(analyse(word, language)), word)
    return list(words.values())[:_MOST_WORDS]
