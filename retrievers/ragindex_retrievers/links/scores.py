"""Scores of the passages that one question has reached: base scores, and what links add to them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ragindex.parts.records import Doubles, Integers
from ragindex.retrieval.fusion import scores_differ


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

    def rank(self, kept: int) -> dict[str, float]:
        """Return all scores by id, best first, where the `kept` best by base score stay before all others.

        So that no score is greater than the one before, theirs are at least those of what follows.
        """
        base, total = self.base.tolist(), self.total.tolist()
        first = sorted(self.rows, key=lambda id: (-base[self.rows[id]], id))[:kept]
        order = [*first, *(id for id in self.best() if id not in first)]
        scores = [total[self.rows[id]] for id in order]
        raised = np.maximum.accumulate(scores[::-1])[::-1]
        return dict(zip(order, raised.tolist(), strict=True))

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
        taken = []
        for place in np.lexsort((np.arange(len(gains)), -gains)).tolist():
            if gains[place] > self.gain[passages[place]]:
                self.gain[passages[place]] = gains[place]
                taken.append(place)
        return np.array(taken, np.int64)


def _normalize(scores: Doubles, low: float, high: float) -> Doubles:
    """Return scores min-max normalized between `low` and `high`, at least 0; with equal ends, 1 from there on."""
    if not scores_differ(low, high):
        return np.where(np.isnan(scores), np.nan, (scores >= low).astype(float))
    return np.maximum(0.0, (scores - low) / (high - low))
