"""Score the hits of one question against its gold documents."""

from collections.abc import Mapping, Sequence

from ragindex_eval.data.gold import Gold, gains
from ragindex_eval.metrics import retrieval


def judgements(gold: Mapping[str, Gold] | None, query_id: str) -> Mapping[str, int]:
    """The grades of a question's gold documents; empty where it has none."""
    one = None if gold is None else gold.get(query_id)
    return {} if one is None else gains(one.doc_ids, one.grades)


def twins(gold: Mapping[str, Gold] | None, query_id: str) -> Mapping[str, str]:
    """The other documents of the same text as a question's gold documents, with those."""
    one = None if gold is None else gold.get(query_id)
    return retrieval.NO_TWINS if one is None else one.twins


def score_question(hits: Sequence[Sequence[str]], gold: Gold, ks: Sequence[int]) -> dict[str, float]:
    """Compute all metrics of one question with `score_hits`; twins of gold documents count as gold."""
    return retrieval.score_hits(hits, gains(gold.doc_ids, gold.grades), ks, gold.twins)
