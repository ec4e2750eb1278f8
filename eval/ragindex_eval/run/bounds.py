"""Bounds of a reader: its answers without passages, and from the passages of the gold documents.

The first show what the model knows by itself, the second how well it uses all that it needs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from ragindex._util.canonical import digest
from ragindex.accounting import ledger
from ragindex.corpus import Chunking, chunk
from ragindex.english import overlaps
from ragindex.interfaces import Retriever
from ragindex.types import Document, Hit, Passage, Query, Retrieval
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.data.gold import Gold
from ragindex_eval.metrics import retrieval
from ragindex_eval.metrics.long_answers import add_disambiguated_rouge
from ragindex_eval.results.model import NOT_TIMED, MethodResult
from ragindex_eval.run.ask import Asking, answer_all
from ragindex_eval.run.experiment import Experiment
from ragindex_eval.run.read_answers import AnswerReader
from ragindex_eval.run.scores import score_answers

NO_PASSAGES, GOLD_PASSAGES = "no-passages", "gold-passages"


def read_bounds(experiment: Experiment) -> list[MethodResult]:
    """Score the reader's answers without passages and from the gold documents, on questions with accepted answers.

    Returns [] if there is no reader, or no question has accepted answers. Answers are saved beside those of methods.
    Raises as `answer_all` does.
    """
    reader, dataset, chunking = experiment.reader, experiment.dataset, experiment.index.chunking
    if reader is None:
        return []
    queries, sources = bound_sources(dataset, chunking, reader.language)
    shape = None if chunking is None else [chunking.size, chunking.overlap]
    results = []
    for label, source in sources.items():
        identity = digest([label, dataset.fingerprint, shape, experiment.ks[-1], reader.id])
        folder = experiment.index.folder / "runs" / identity
        if experiment.fresh:
            (folder / "answers.jsonl").unlink(missing_ok=True)
        results.append(_read_bound(experiment, label, source, queries, folder, reader))
    return results


def bound_sources(
    dataset: Dataset, chunking: Chunking | None, language: str
) -> tuple[list[Query], dict[str, Retriever]]:
    """Return the questions with accepted answers, and what the reader gets for each bound; no bounds without them."""
    gold = dataset.gold or {}
    queries = [query for query in dataset.queries if query.id in gold and gold[query.id].answers]
    if not queries:
        return [], {}
    wanted = {id for query in queries for id in gold[query.id].doc_ids}
    documents = {document.id: document for document in dataset.corpus.documents if document.id in wanted}
    return queries, {
        NO_PASSAGES: NoPassages(),
        GOLD_PASSAGES: GoldPassages(gold, documents, chunking, language),
    }


def _read_bound(
    experiment: Experiment, label: str, source: Retriever, queries: Sequence[Query], folder: Path, reader: AnswerReader
) -> MethodResult:
    k = experiment.ks[-1]
    with ledger.attribute_calls(method=label), ledger.record_calls() as paid:
        answers = answer_all(source, queries, k, folder / "answers.jsonl", Asking(label, reader=reader.read))
    per_query = score_answers(answers, experiment.dataset.gold, experiment.find_spans)
    return MethodResult(
        label,
        label,
        {},
        folder.name,
        {k: answers},
        per_query,
        add_disambiguated_rouge(retrieval.means(list(per_query.values()))),
        NOT_TIMED,
        {},
        spent=paid.spent,
    )


@dataclass(frozen=True, slots=True)
class NoPassages:
    """Retriever that finds nothing."""

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Return no hits for each question."""
        return [Retrieval(()) for _ in queries]


@dataclass(frozen=True, slots=True)
class GoldPassages:
    """Retriever that finds the passages of the gold documents; it reads the gold, so it is no method.

    The documents take turns, in order of their grades. Each contributes its passage nearest to the question, then the
    next nearest, and so on.
    """

    gold: Mapping[str, Gold]
    documents: Mapping[str, Document]
    chunking: Chunking | None
    language: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Return the first `k` gold passages for each question."""
        return [Retrieval(tuple(self._hits(query)[:k])) for query in queries]

    def _hits(self, query: Query) -> list[Hit]:
        grades = self.gold[query.id].grades
        ids = sorted((id for id in grades if id in self.documents), key=lambda id: (-grades[id], id))
        each = [self._nearest_first(query.text, chunk(self.documents[id], self.chunking)) for id in ids]
        turns = [passage for turn in zip_longest(*each) for passage in turn if passage is not None]
        return [_make_hit(passage, rank) for rank, passage in enumerate(turns, start=1)]

    def _nearest_first(self, question: str, passages: Sequence[Passage]) -> list[Passage]:
        near = overlaps(question, [passage.text for passage in passages], self.language)
        order = sorted(range(len(passages)), key=lambda place: -near[place])
        return [passages[place] for place in order]


def _make_hit(passage: Passage, rank: int) -> Hit:
    ids = (passage.id,), (passage.doc_id,)
    return Hit(passage.id, "passage", *ids, passage.title, passage.text, 1.0 / rank, GOLD_PASSAGES)
