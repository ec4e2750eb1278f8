"""Where answers meet gold."""

from collections.abc import Mapping, Sequence

from ragindex_eval.data.datasets import Gold
from ragindex_eval.metrics import retrieval
from ragindex_eval.results.model import Answer


def judgements(gold: Mapping[str, Gold] | None, query_id: str) -> Mapping[str, int]:
    """The grades of a question's gold documents; empty where it has none."""
    one = None if gold is None else gold.get(query_id)
    return {} if one is None else retrieval.gains(one.doc_ids, one.grades)


def twins(gold: Mapping[str, Gold] | None, query_id: str) -> Mapping[str, str]:
    """The other documents of the same text as a question's gold documents, with those."""
    one = None if gold is None else gold.get(query_id)
    return retrieval.NO_TWINS if one is None else one.twins


def measured(hits: Sequence[Sequence[str]], gold: Gold, ks: Sequence[int]) -> dict[str, float]:
    """All metrics of one question, as `metrics.measure`: twins of gold documents count as those."""
    return retrieval.measure(hits, retrieval.gains(gold.doc_ids, gold.grades), ks, gold.twins)


def scores(
    answers: Mapping[int, Sequence[Answer]], gold: Mapping[str, Gold] | None, ks: Sequence[int]
) -> Mapping[str, Mapping[str, float]]:
    """The metrics of every judged question, by its id; one that was not answered scores 0.

    Those at k come from the answers at k, where there are some, else from those at the largest k.
    """
    found: dict[str, dict[str, float]] = {}
    for k in ks:
        for answer in answers.get(k, answers[max(answers)]):
            if gold and judgements(gold, answer.query_id):
                hits = [hit.doc_ids for hit in answer.hits]
                found.setdefault(answer.query_id, {}).update(measured(hits, gold[answer.query_id], (k,)))
    ordered = retrieval.names(ks)
    return {query_id: {name: values[name] for name in ordered} for query_id, values in found.items()}
