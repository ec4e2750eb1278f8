"""Metrics of a ranking against gold documents: pure functions, with the names of ir_measures where it has them.

A metric at k is of the first k documents that the first k hits name. So it is that of a search for k hits, whatever
other cutoffs there are, and several hits on one document leave fewer documents. Of these, R@k, Success@k, RR@k and
nDCG@k equal those of trec_eval (nDCG: gain = grade, discount = log2(rank + 1)). full_R@k is 1 if every gold document is
among them. one_doc_R@k is R@k of the ranking without the hits that name several documents, or none.

Documents of equal text and alternatives that a question names count as one gold document
(`ragindex_eval.data.gold_classes`): the first one in the ranking scores, and the others keep their ranks and gain
nothing.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ragindex.types import Query
from ragindex_eval.data.gold import Gold, gains

if TYPE_CHECKING:  # it imports the readers of documents, which rankings in files do not need
    from ragindex_eval.data.datasets import Dataset


NO_EQUIVALENTS: Mapping[str, str] = {}
RETRIEVAL_METRICS = ("R", "full_R", "Success", "RR", "nDCG", "one_doc_R")


def metric_names(ks: Sequence[int]) -> list[str]:
    """Return the names of all metrics at the cutoffs `ks`: `R@5`, `R@10`, …, `one_doc_R@20`."""
    return [f"{name}@{k}" for name in RETRIEVAL_METRICS for k in ks]


def ranking(hits: Iterable[Sequence[str]]) -> list[str]:
    """Return the document ids of `hits`, which are given as the ids of each hit, in order of first appearance."""
    return list(dict.fromkeys(doc_id for doc_ids in hits for doc_id in doc_ids))


def standing(ranked: Iterable[str], equivalents: Mapping[str, str]) -> list[str]:
    """Return a document ranking in which the first document of each class of equal texts is its gold document.

    `equivalents` maps the ids of the other documents of a class to the id of its gold document. If the gold document
    itself comes later in the ranking, it changes places with the first one.
    """
    if not equivalents:
        return list(ranked)
    gold, first, stood = set(equivalents.values()), dict[str, str](), list[str]()
    for doc_id in ranked:
        stands = equivalents.get(doc_id, doc_id if doc_id in gold else None)
        if stands is None or (stands in first and doc_id != stands):
            stood.append(doc_id)
        else:
            stood.append(first.get(stands, stands))
            first.setdefault(stands, doc_id)
    return stood


def gold_ranks(
    hits: Iterable[Sequence[str]], gold: Collection[str], equivalents: Mapping[str, str] = NO_EQUIVALENTS
) -> dict[str, int]:
    """Return the rank of the first hit on each gold document that is found, or on a document of equal text."""
    ranks: dict[str, int] = {}
    for rank, doc_ids in enumerate(hits, start=1):
        for doc_id in doc_ids:
            if (stands := equivalents.get(doc_id, doc_id)) in gold:
                ranks.setdefault(stands, rank)
    return ranks


def score_hits(
    hits: Sequence[Sequence[str]],
    gold: Mapping[str, int],
    ks: Sequence[int],
    equivalents: Mapping[str, str] = NO_EQUIVALENTS,
) -> dict[str, float]:
    """Compute all metrics of one question.

    `hits` are the document ids of each hit, best first. `gold` maps document ids to positive grades, as `gains` returns
    them. `equivalents` is as in `standing`. Raises ValueError if `gold` is empty, for which no metric is defined.
    """
    if not gold:
        raise ValueError("a question without gold documents has no metrics")
    alone = [doc_ids for doc_ids in hits if len(set(doc_ids)) == 1]
    scores: dict[str, float] = {}
    for k in ks:
        ranked = standing(ranking(hits[:k]), equivalents)[:k]
        recall = _recall(ranked, gold)
        scores[f"R@{k}"] = recall
        scores[f"full_R@{k}"] = float(recall == 1.0)
        scores[f"Success@{k}"] = float(recall > 0.0)
        scores[f"RR@{k}"] = next((1.0 / rank for rank, doc_id in enumerate(ranked, start=1) if doc_id in gold), 0.0)
        ideal = _discounted_gain(sorted(gold.values(), reverse=True)[:k])
        scores[f"nDCG@{k}"] = _discounted_gain(gold.get(id, 0) for id in ranked) / ideal
        one_doc = recall if len(alone) == len(hits) else _recall(standing(ranking(alone[:k]), equivalents), gold)
        scores[f"one_doc_R@{k}"] = one_doc
    return {name: scores[name] for name in metric_names(ks)}


def means(per_query: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of every metric over the questions for which it is defined; {} if there are no questions."""
    metric_names = dict.fromkeys(name for scores in per_query for name in scores)
    values = {name: [scores[name] for scores in per_query if name in scores] for name in metric_names}
    return {name: math.fsum(of_metric) / len(of_metric) for name, of_metric in values.items()}


def _recall(ranked: Sequence[str], gold: Mapping[str, int]) -> float:
    return sum(doc_id in gold for doc_id in ranked) / len(gold)


def _discounted_gain(grades: Iterable[int]) -> float:
    return math.fsum(grade / math.log2(rank + 1) for rank, grade in enumerate(grades, start=1) if grade)


def judgements(gold: Mapping[str, Gold] | None, query_id: str) -> Mapping[str, int]:
    """Return the grades of a question's gold documents by id; {} if it has none."""
    of_query = None if gold is None else gold.get(query_id)
    return {} if of_query is None else gains(of_query.doc_ids, of_query.grades)


def list_judged(dataset: "Dataset") -> tuple[Query, ...]:
    """Return the questions that have gold documents, in their order."""
    return tuple(query for query in dataset.queries if judgements(dataset.gold, query.id))


def equivalents(gold: Mapping[str, Gold] | None, query_id: str) -> Mapping[str, str]:
    """Return the other documents that count as a gold document of the question, mapped to that gold document."""
    of_query = None if gold is None else gold.get(query_id)
    return NO_EQUIVALENTS if of_query is None else of_query.equivalents


def score_question(hits: Sequence[Sequence[str]], gold: Gold, ks: Sequence[int]) -> dict[str, float]:
    """Compute all metrics of one question with `score_hits`; equivalents of gold documents count as gold."""
    return score_hits(hits, gains(gold.doc_ids, gold.grades), ks, gold.equivalents)
