"""Documents with nearly the text of a gold document that a method missed, such as the same manual as .html and .pdf."""

from collections.abc import Mapping, Sequence

from ragindex.corpus.near_duplicates import Samples, are_almost_equal, sample_documents
from ragindex.types import Document
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.format import many
from ragindex_eval.metrics.retrieval import ranking, standing
from ragindex_eval.metrics.score import judgements, list_judged, twins
from ragindex_eval.results.model import MethodAnswer, MethodResult

_HITS = 10  # of each method on a question
_MOST_SAMPLED = 2_000  # documents in all


def find_near_gold(dataset: Dataset, methods: Sequence[MethodResult], k: int) -> dict[str, dict[str, str]]:
    """Return by question the found documents that are almost equal to a gold document that a method missed at k.

    Each is mapped to that gold document. The first hits of each method are looked at.
    """
    held = {document.id: document for document in dataset.corpus.documents}
    answers = [{answer.query_id: answer for answer in method.final} for method in methods]
    samples, found = Samples(), dict[str, dict[str, str]]()
    for query in list_judged(dataset):
        grades, equal = judgements(dataset.gold, query.id), twins(dataset.gold, query.id)
        pairs = dict[str, str]()
        for answer in (of_method[query.id] for of_method in answers if query.id in of_method):
            missed = sorted(grades.keys() - standing(ranking(hit.doc_ids for hit in answer.hits[:k]), equal)[:k])
            others = [id for id in _first_documents(answer) if id not in grades and id not in equal] if missed else []
            pairs |= _pair(others, missed, held, samples)
        if pairs:
            found[query.id] = pairs
    return found


def _first_documents(answer: MethodAnswer) -> list[str]:
    return ranking(hit.doc_ids for hit in answer.hits[:_HITS])


def _pair(
    others: Sequence[str], missed: Sequence[str], held: Mapping[str, Document], samples: Samples
) -> dict[str, str]:
    """Return which of the others is almost equal to which missed document; adds to `samples` what it compares."""
    for id in (*others, *missed) if others else ():
        if id not in samples and id in held and len(samples) < _MOST_SAMPLED:
            samples |= sample_documents([held[id]])
    return {
        other: id
        for other in others
        for id in reversed(missed)
        if other in samples and id in samples and are_almost_equal(samples[other], samples[id])
    }


def describe_near_gold(dataset: Dataset, near: Mapping[str, Mapping[str, str]], k: int) -> list[str]:
    """Return a note on what was found in place of gold documents; [] if there is nothing."""
    if not near:
        return []
    query, pairs = next(iter(near.items()))
    other, gold = next(iter(pairs.items()))
    of = "a gold document that a method missed"
    either = f": if either counts, write {gold}|{other} under 'documents'" if dataset.questions_file else ""
    was = "a document was" if sum(map(len, near.values())) == 1 else "documents were"
    return [
        f"on {many(len(near), 'question')} {was} found with nearly the text of {of} at {k}, "
        f"as {other} for {gold} ({query}){either}"
    ]
