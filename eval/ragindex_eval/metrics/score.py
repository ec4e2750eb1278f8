"""Scores of the hits of one question against its gold documents."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ragindex.types import Query
from ragindex_eval.data.gold import Gold, gains
from ragindex_eval.metrics import retrieval

if TYPE_CHECKING:  # it imports the readers of documents, which rankings in files do not need
    from ragindex_eval.data.datasets import Dataset


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
    return retrieval.NO_EQUIVALENTS if of_query is None else of_query.equivalents


def score_question(hits: Sequence[Sequence[str]], gold: Gold, ks: Sequence[int]) -> dict[str, float]:
    """Compute all metrics of one question with `score_hits`; equivalents of gold documents count as gold."""
    return retrieval.score_hits(hits, gains(gold.doc_ids, gold.grades), ks, gold.equivalents)
