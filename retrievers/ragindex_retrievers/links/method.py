"""The method links."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ragindex.filters import Ids, combine_filters
from ragindex.interfaces import (
    Collection,
    Encoder,
    FilterQuery,
    Floats,
    OpenIndex,
    Part,
    Retriever,
    SearchRequest,
    TextQuery,
    VectorQuery,
)
from ragindex.parts.records import Doubles, Integers
from ragindex.parts.text.passages import Passages
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins.registry import label
from ragindex.retrieval.fusion import raise_scores, scores_differ
from ragindex.retrieval.hits import check_queries, fetch_hits
from ragindex.retrieval.stages import record_ranking, record_search
from ragindex.stores.metered import search_together
from ragindex.text_analysis import analyse, token_spans
from ragindex.types import Query, Retrieval, Step, Triple
from ragindex_retrievers.links.lookups import Link, LinkLookups, LinksParameters
from ragindex_retrievers.links.passage_links import PassageLinks


class Links(LinksParameters):
    """Keyword search and search by meaning, and what the best passages mention by name or are mentioned by.

    The candidates are the `depth` best of BM25 and of dense. Their base score is the mean of both scores, min-max
    normalized over the candidates, with `weight` for the cosine, plus `title_bonus` if the question holds a name of
    the passage. The links of the `seeds` best are followed, `hops` times, in both directions (`backward`); links from
    rarely mentioned names weigh more, and names in more than `max_mentions` passages link nothing. A linked passage
    gains its seed's score times the link's weight times `link_weight` + `novelty_weight` * what it adds to the
    question's words; of a document's linked passages only the best one does. The `kept` best by base score stay first.
    No model is asked, and nothing is encoded beyond what `dense` needs.
    """

    version: ClassVar[int] = 2
    order_depends_on_filter: ClassVar[bool] = True
    kept: int = Field(default=2, ge=0, description="Best passages by their own scores that stay before all others.")

    def depends_on_k(self, k: int) -> bool:
        """Return True for k above `depth`, where more passages are candidates."""
        return k > self.depth

    def _parts(self) -> tuple[Part[Any], ...]:
        """Return the passages, their vectors, and their names and mentions."""
        return link_parts()

    def _open(self, index: OpenIndex) -> Retriever:
        """Open a retriever over the three parts."""
        return LinksRetriever(open_parts(index, self), index.encoder, self.kept, label(self))


def link_parts() -> tuple[Part[Any], ...]:
    """Return the parts that links are walked over: passages, their vectors, and their names and mentions."""
    return (Passages(), Vectors(of=Passages()), PassageLinks())


# ---------------------------------------------------------------- the walk of one question


@dataclass
class CandidateScores:
    """One row per passage: its base score and what its best link adds; `by_word` has BM25 of each word of the question.

    `dense` and `text` are its normalized cosine and BM25 score, `named` whether the question names it.

    The passages that are added first are the candidates: base scores are min-max normalized over them, and passages
    with lower scores than theirs have 0 there. `weight` is that of the cosine.
    """

    weight: float
    rows: dict[str, int] = field(default_factory=dict)
    by_word: Doubles = field(default_factory=lambda: np.empty((0, 0)))
    dense: Doubles = field(default_factory=lambda: np.empty(0))
    text: Doubles = field(default_factory=lambda: np.empty(0))
    base: Doubles = field(default_factory=lambda: np.empty(0))
    named: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    gain: Doubles = field(default_factory=lambda: np.empty(0))
    cosine_range: tuple[float, float] = (0.0, 0.0)
    text_range: tuple[float, float] = (0.0, 0.0)

    @property
    def total(self) -> Doubles:
        """The scores that passages are ranked by, of shape (passages,)."""
        return self.base + self.gain

    def best(self) -> list[str]:
        """Return all ids, best first, equal scores by id."""
        totals = self.total.tolist()
        return sorted(self.rows, key=lambda id: (-totals[self.rows[id]], id))

    def find_first(self, count: int) -> list[str]:
        """Return the `count` ids that are best by base score, equal scores by id."""
        base = self.base.tolist()
        return nsmallest(count, self.rows, key=lambda id: (-base[self.rows[id]], id))

    def rank(self, count: int) -> dict[str, float]:
        """Return all scores by id, best first, where the `kept` best by base score stay before all others.

        So that no score is greater than the one before, theirs are at least those of what follows.
        """
        total, first = self.total.tolist(), self.find_first(count)
        order = [*first, *(id for id in self.best() if id not in first)]
        return dict(zip(order, raise_scores([total[self.rows[id]] for id in order]), strict=True))

    def places(self, ids: Sequence[str]) -> Integers:
        """Return the rows of passages."""
        return np.array([self.rows[id] for id in ids], np.int64)

    def add(self, ids: Sequence[str], cosines: Doubles, by_word: Doubles) -> None:
        """Add passages with their cosines (NaN: none), of shape (ids,), and BM25 scores, of shape (ids, words)."""
        texts = by_word.sum(axis=1)
        if not self.rows:
            known = cosines[~np.isnan(cosines)]
            self.cosine_range = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
            self.text_range = float(texts.min()), float(texts.max())
            self.by_word = by_word[:0]
        dense = np.nan_to_num(_normalize(cosines, *self.cosine_range), nan=0.0)
        text = _normalize(texts, *self.text_range)
        self.rows |= {id: row for row, id in enumerate(ids, len(self.rows))}
        self.by_word = np.concatenate([self.by_word, by_word])
        self.dense = np.concatenate([self.dense, dense])
        self.text = np.concatenate([self.text, text])
        self.base = np.concatenate([self.base, self.weight * dense + (1 - self.weight) * text])
        self.named = np.concatenate([self.named, np.zeros(len(ids), np.bool_)])
        self.gain = np.concatenate([self.gain, np.zeros(len(ids))])

    def add_bonus(self, ids: Sequence[str], bonus: float) -> None:
        """Add a bonus to the base scores of passages that the question names."""
        places = self.places(ids)
        self.base[places] += bonus
        self.named[places] = True

    def find_new(self, seeds: Integers, passages: Integers) -> Doubles:
        """Return by how much BM25 of each word is greater in each passage than in its seed, (links, words)."""
        return np.maximum(0.0, self.by_word[passages] - self.by_word[seeds])

    def share_of_new(self, seeds: Integers, passages: Integers) -> Doubles:
        """Return the sums of `find_new`, as shares of the best candidate's BM25 score, (links,)."""
        high = self.text_range[1]
        return self.find_new(seeds, passages).sum(axis=1) / high if high > 0 else np.zeros(len(seeds))

    def find_best_of_documents(
        self, passages: Integers, gains: Doubles, documents: Sequence[Sequence[str]]
    ) -> npt.NDArray[np.bool_]:
        """Return which of the gains are of a passage that is the best one, with them, of one of its documents.

        Of equal passages the first by id is the best one. All are of shape (links,).
        """
        ids, totals = list(self.rows), (self.base[passages] + np.maximum(self.gain[passages], gains)).tolist()
        rows = passages.tolist()
        best: dict[str, int] = {}
        for place in sorted(range(len(rows)), key=lambda place: (-totals[place], ids[rows[place]])):
            for document in documents[place]:
                best.setdefault(document, rows[place])
        return np.isin(passages, np.array(list(best.values()), np.int64))

    def raise_gains(self, passages: Integers, gains: Doubles) -> Integers:
        """Raise the gains of passages to the largest of `gains`; return the places in `gains` that were taken."""
        places = []
        for place in np.lexsort((np.arange(len(gains)), -gains)).tolist():
            if gains[place] > self.gain[passages[place]]:
                self.gain[passages[place]] = gains[place]
                places.append(place)
        return np.array(places, np.int64)


def _normalize(scores: Doubles, low: float, high: float) -> Doubles:
    """Return scores min-max normalized between `low` and `high`, at least 0; with equal ends, 1 from there on."""
    if not scores_differ(low, high):
        return np.where(np.isnan(scores), np.nan, (scores >= low).astype(float))
    return np.maximum(0.0, (scores - low) / (high - low))


# ---------------------------------------------------------------- the walk


_MOST_WORDS = 64
"""The most distinct words of a question that are scored one by one."""
_EXPLAINED_LINKS, _EXPLAINED_WORDS = 10, 3


@dataclass(frozen=True, slots=True)
class LinkParts:
    """The opened parts that a walk searches, and its parameters."""

    passages: Collection
    vectors: Collection
    links: LinkLookups
    settings: LinksParameters


@dataclass(frozen=True, slots=True)
class FollowedLinks:
    """The links that one hop followed, and for each of them the row of its seed and of its passage, the score that the
    seed had, and what is new beyond it (CandidateScores.share_of_new)."""

    links: Sequence[Link]
    seeds: Integers
    passages: Integers
    seed_scores: Doubles
    new: Doubles


class LinkWalk:
    """The work on one question: `scores` has all passages that were reached, `hops` the links that were followed."""

    def __init__(self, parts: LinkParts, query: Query, vector: Floats) -> None:
        self.parts, self.settings, self.query, self.vector = parts, parts.settings, query, vector
        self.words = _list_words(query.text, parts.passages.schema.language)
        self.scores = CandidateScores(self.settings.weight)
        self.hops: list[FollowedLinks] = []
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
        record_search("text", self.parts.passages, [text], [self.query.text])
        record_search("vectors", self.parts.vectors, [near], [self.query.text])
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
        for column, result_of_word in enumerate(by_word):
            text[[rows[id] for id in result_of_word.ids], column] = result_of_word.scores
        cosines = np.full(len(ids), np.nan)
        cosines[[rows[id] for id in near.ids]] = near.scores
        self.scores.add(ids, cosines, text)
        return [id for other in others for result in other for id in result.ids]

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
        (result,) = self.parts.passages.search([FilterQuery(where, len(ids))])
        return result.ids

    def _make_hop(self, links: Sequence[Link]) -> FollowedLinks:
        seeds = self.scores.places([link.seed for link in links])
        passages = self.scores.places([link.passage for link in links])
        return FollowedLinks(
            links, seeds, passages, self.scores.total[seeds], self.scores.share_of_new(seeds, passages)
        )

    def _add_gains(self, hop: FollowedLinks) -> None:
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
        record_ranking("links", ids, query=", ".join(seeds))
        shown = [self.via[id] for id in ids[:_EXPLAINED_LINKS] if id in self.via]
        paths = tuple((Triple(link.seed, link.name, link.passage),) for link in shown)
        note = "\n".join(map(self._describe, shown))
        return Step(len(self.hops), "links", ", ".join(seeds), tuple(ids), paths=paths, ms=ms, note=note)

    def _describe(self, link: Link) -> str:
        seed, passage = self.scores.places([link.seed]), self.scores.places([link.passage])
        added = self.scores.find_new(seed, passage)[0]
        best = [self.words[place] for place in np.argsort(-added, kind="stable")[:_EXPLAINED_WORDS] if added[place] > 0]
        line = f"{link.passage} {'mentions' if link.backward else 'is mentioned by'} {link.seed} ({link.name})"
        return f"{line}; adds {', '.join(best)}" if best else line


def _list_words(question: str, language: str) -> list[str]:
    """Return the words of a question that are searched, as written, each token once."""
    words: dict[tuple[str, ...], str] = {}
    for _, start, end in token_spans(question, language):
        word = question[start:end]
        words.setdefault(tuple(analyse(word, language)), word)
    return list(words.values())[:_MOST_WORDS]


# ---------------------------------------------------------------- the open retriever


def open_parts(index: OpenIndex, settings: LinksParameters) -> LinkParts:
    """Open `link_parts`. Raises MissingPartError."""
    passages, vectors, links = (index.open_part(part) for part in link_parts())
    return LinkParts(passages, vectors, LinkLookups(links, settings), settings)


@dataclass(frozen=True, slots=True)
class LinksRetriever:
    """The open retriever of Links."""

    parts: LinkParts
    encoder: Encoder
    kept: int
    source: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Answer the questions one after the other, with one batch of the encoder."""
        check_queries(queries, k)
        vectors = self.encoder.encode_queries([query.text for query in queries])
        walks = [LinkWalk(self.parts, query, vector) for query, vector in zip(queries, vectors, strict=True)]
        return [self._answer(walk, k) for walk in walks]

    def _answer(self, walk: LinkWalk, k: int) -> Retrieval:
        walk.find_candidates(k)
        for _ in range(self.parts.settings.hops):
            walk.follow_links()
        ranked = walk.scores.rank(self.kept)
        record_ranking("scores with links", ranked, k)
        scores = dict(islice(ranked.items(), k))
        return Retrieval(fetch_hits(self.parts.passages, scores, self.source), tuple(walk.steps))
