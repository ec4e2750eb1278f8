"""Measures of a ranking against gold: pure functions, named as in ir_measures where it has them.

R@k, Success@k, RR@k and nDCG@k equal trec_eval's (nDCG: gain = grade, discount = log2(rank + 1)). full_R@k is 1 where
every gold document is among the first k. one_doc_R@k is R@k of the ranking of those hits that name one document.

Documents of equal text are one gold document (`ragindex_eval.data.gold_classes`): the first of them that is found
counts as it, and the others take their ranks and gain nothing.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

NO_TWINS: Mapping[str, str] = {}
RETRIEVAL_METRICS = ("R", "full_R", "Success", "RR", "nDCG", "one_doc_R")


def metric_names(ks: Sequence[int]) -> list[str]:
    """The names of all metrics at the cutoffs `ks`: `R@5`, `R@10`, …, `one_doc_R@20`."""
    return [f"{name}@{k}" for name in RETRIEVAL_METRICS for k in ks]


def ranking(hits: Iterable[Sequence[str]], *, one_document: bool = False) -> list[str]:
    """The documents of `hits`, given as the document ids of each, at their first appearance.

    With `one_document`, hits that name several documents, or none, are passed over.
    """
    kept = (doc_ids for doc_ids in hits if not one_document or len(set(doc_ids)) == 1)
    return list(dict.fromkeys(doc_id for doc_ids in kept for doc_id in doc_ids))


def standing(ranked: Iterable[str], twins: Mapping[str, str]) -> list[str]:
    """A document ranking in which the first of each class of equal texts stands as its gold document.

    `twins` are the other documents of each class, by id, with that gold document. Where it comes later itself, it
    changes places with the first.
    """
    if not twins:
        return list(ranked)
    gold, first, stood = set(twins.values()), dict[str, str](), list[str]()
    for doc_id in ranked:
        stands = twins.get(doc_id, doc_id if doc_id in gold else None)
        if stands is None or (stands in first and doc_id != stands):
            stood.append(doc_id)
        else:
            stood.append(first.get(stands, stands))
            first.setdefault(stands, doc_id)
    return stood


def score_hits(
    hits: Sequence[Sequence[str]], gold: Mapping[str, int], ks: Sequence[int], twins: Mapping[str, str] = NO_TWINS
) -> dict[str, float]:
    """All metrics of one question: `hits` are the document ids of each hit, best first; `gold` is from `gains`.

    `twins` are as in `standing`. Raises ValueError where `gold` is empty: no metric is defined there.
    """
    if not gold:
        raise ValueError("a question without gold documents has no metrics")
    ranked = standing(ranking(hits), twins)
    alone = standing(ranking(hits, one_document=True), twins)
    found: dict[str, float] = {}
    for k in ks:
        recall = _recall(ranked[:k], gold)
        found[f"R@{k}"] = recall
        found[f"full_R@{k}"] = float(recall == 1.0)
        found[f"Success@{k}"] = float(recall > 0.0)
        found[f"RR@{k}"] = _reciprocal_rank(ranked[:k], gold)
        found[f"nDCG@{k}"] = _discounted(gold.get(id, 0) for id in ranked[:k]) / _ideal(gold, k)
        found[f"one_doc_R@{k}"] = _recall(alone[:k], gold)
    return {name: found[name] for name in metric_names(ks)}


def means(per_query: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of every metric over the questions that it is defined for; empty where there are none."""
    metric_names = dict.fromkeys(name for one in per_query for name in one)
    values = {name: [one[name] for one in per_query if name in one] for name in metric_names}
    return {name: math.fsum(found) / len(found) for name, found in values.items()}


def _recall(ranked: Sequence[str], gold: Mapping[str, int]) -> float:
    return sum(doc_id in gold for doc_id in ranked) / len(gold)


def _reciprocal_rank(ranked: Sequence[str], gold: Mapping[str, int]) -> float:
    return next((1.0 / rank for rank, doc_id in enumerate(ranked, start=1) if doc_id in gold), 0.0)


def _discounted(grades: Iterable[int]) -> float:
    return math.fsum(grade / math.log2(rank + 1) for rank, grade in enumerate(grades, start=1))


def _ideal(gold: Mapping[str, int], k: int) -> float:
    return _discounted(sorted(gold.values(), reverse=True)[:k])
