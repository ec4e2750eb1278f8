"""Whether passages hold the evidence of a question, and how much must be read until they do.

Evidence is found by the first k hits if their positions together cover all its words: a quote that a boundary of
chunks divides is found when both chunks are. Hits without positions, and texts that were written anew (summaries),
hold evidence only as far as they state the positions of the passages that they were made from.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ragindex.types import Position
from ragindex_eval.data.gold import EvidencePlace, Gold, gains
from ragindex_eval.metrics.retrieval import ranking, standing

TARGETS = (0.5, 0.8)
"""The mean recalls up to which the tokens are counted."""
_RESAMPLES = 1_000
_BLOCK = 1_000_000  # numbers that are resampled at once
Steps: TypeAlias = Sequence[tuple[int, float]]
"""Of one question: tokens read so far, and what they add to its recall."""


@dataclass(frozen=True, slots=True)
class TokensToRecall:
    """The tokens of hits that a reader of each question must be given until the mean recall reaches a target.

    Every question is given the same number of tokens, its best hits first. `tokens` is None if the target is not
    reached by all hits together. `ci95` is the interval over resamples of the questions; its high end is None if the
    target is not reached in 2.5 % of them. None for fewer than two questions, or if most resamples do not reach it.
    """

    tokens: int | None
    ci95: tuple[int, int | None] | None

    def to_json(self) -> dict[str, Any]:
        """Convert to the JSON object `{"tokens", "ci95"}`."""
        return {"tokens": self.tokens, "ci95": None if self.ci95 is None else list(self.ci95)}


def write_tokens(recall: TokensToRecall) -> str:
    """Write the tokens for people: "1,983" or "not reached"."""
    return "not reached" if recall.tokens is None else f"{recall.tokens:,}"


def write_interval(recall: TokensToRecall) -> str:
    """Write the interval for people: "560 to 7,146", "560 to …", or "" if there is none."""
    if recall.ci95 is None:
        return ""
    low, high = recall.ci95
    return f"{low:,} to {'…' if high is None else f'{high:,}'}"


def evidence_recall(hits: Sequence[Sequence[Position]], gold: Gold, ks: Sequence[int]) -> dict[str, float]:
    """Return `evidence_R@k`, the share of a question's evidence that its first k hits hold; {} if it names none.

    `hits` are the positions of each hit, best first.
    """
    if not gold.evidence:
        return {}
    ranks = find_ranks(hits, gold)
    counts = {k: sum(rank is not None and rank <= k for rank in ranks) for k in ks}
    return {f"evidence_R@{k}": count / len(gold.evidence) for k, count in counts.items()}


def find_ranks(hits: Sequence[Sequence[Position]], gold: Gold) -> list[int | None]:
    """Return for each place of evidence the number of hits (from 1) that together hold it; None if they do not."""
    same_offsets = gold.equivalents.keys() - gold.alternatives
    equal = {id: gold.equivalents[id] for id in same_offsets}
    return [_find_rank(hits, place, equal) for place in gold.evidence]


def _find_rank(
    hits: Sequence[Sequence[Position]], evidence: EvidencePlace, equivalents: Mapping[str, str]
) -> int | None:
    document, missing = equivalents.get(evidence.doc_id, evidence.doc_id), set(evidence.words)
    for rank, positions in enumerate(hits, start=1):
        for position in positions:
            if equivalents.get(position.doc_id, position.doc_id) == document:
                missing -= {word for word in missing if position.start <= word[0] and word[1] <= position.end}
        if not missing:
            return rank
    return None


def recall_steps(hits: Sequence[tuple[Sequence[str], Sequence[Position], int]], gold: Gold) -> Steps:
    """Return where the recall of a question grows: of its evidence, or of its gold documents if it names none.

    Each hit is given as its documents, its positions, and its tokens.
    """
    read = np.cumsum([tokens for _, _, tokens in hits], dtype=np.int64)
    if gold.evidence:
        ranks = find_ranks([positions for _, positions, _ in hits], gold)
        return [(int(read[rank - 1]), 1 / len(ranks)) for rank in ranks if rank is not None]
    grades = gains(gold.doc_ids, gold.grades)
    steps, covered = [], set[str]()
    for at in range(len(hits)):
        ranked = standing(ranking(documents for documents, _, _ in hits[: at + 1]), gold.equivalents)
        new = {doc_id for doc_id in ranked if doc_id in grades} - covered
        covered |= new
        steps += [(int(read[at]), len(new) / len(grades))] if new else []
    return steps


def tokens_to_recall(questions: Iterable[Steps], seed: int) -> dict[str, TokensToRecall]:
    """Return the tokens up to each of TARGETS, over the judged questions, by `tokens_to_recall@0.8` and so on."""
    given = list(questions)
    if not given:
        return {}
    events = sorted((tokens, number, added) for number, steps in enumerate(given) for tokens, added in steps)
    read = np.array([tokens for tokens, _, _ in events], np.int64)
    rows = np.array([number for _, number, _ in events], np.int64)
    added = np.array([gained for _, _, gained in events], np.float64) / len(given)
    counts = np.random.default_rng(seed).multinomial(len(given), [1 / len(given)] * len(given), size=_RESAMPLES)
    reached = _first_reaching(read, added[np.newaxis])
    blocks = np.array_split(counts, len(rows) * _RESAMPLES // _BLOCK + 1)
    drawn = np.concatenate([_first_reaching(read, added * block[:, rows]) for block in blocks])
    tokens_by_target = {}
    for target, of_all, resampled in zip(TARGETS, reached[0], drawn.T, strict=True):
        interval = _make_interval(resampled) if len(given) > 1 else None
        tokens_by_target[f"tokens_to_recall@{target:g}"] = TokensToRecall(
            None if np.isinf(of_all) else int(of_all), interval
        )
    return tokens_by_target


def _first_reaching(read: npt.NDArray[np.int64], added: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the tokens up to each of TARGETS, infinite if it is not reached, for each row of `added`."""
    recalls, ends = np.cumsum(added, axis=1), np.append(read.astype(np.float64), np.inf)
    return np.stack([ends[(recalls < target - 1e-9).sum(axis=1)] for target in TARGETS], axis=1)


def _make_interval(drawn: npt.NDArray[np.float64]) -> tuple[int, int | None] | None:
    low, high = np.quantile(drawn, [0.025, 0.975], method="inverted_cdf")
    return None if np.isinf(low) else (int(low), None if np.isinf(high) else int(high))
