"""The rank of one wanted document after each stage of a search: candidates, fusion, links, reranking, final order.

Methods call `record_search` and `record_ranking` at their stages. Both do nothing unless `record_stages` runs, which
`ragindex.index.explanation` uses to tell where a document was lost.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from ragindex.interfaces import Collection, SearchRequest
from ragindex.types import Hit

DEEPEST = 1_000
"""The results of a search that are looked at. A document that comes later has no rank there."""


@dataclass(frozen=True, slots=True)
class StageRank:
    """The rank of a document, from 1, among the `results` of one stage, of which the first `passed` went on.

    The rank is that of the document's best passage, and None if it is not among the results. `query` is what was
    searched for, "" if that was the question. `is_cut` says that there are further results, which were not looked at.
    """

    stage: str
    query: str
    rank: int | None
    passed: int
    results: int
    is_cut: bool = False

    @property
    def goes_on(self) -> bool:
        """Whether the document is among the results that went on to the next stage."""
        return self.rank is not None and self.rank <= self.passed


@dataclass(frozen=True, slots=True)
class StageRecorder:
    """The stages of one search, with the rank of what is wanted: hits of `document`, and the records `record_ids`."""

    document: str
    record_ids: frozenset[str]
    stages: list[StageRank] = field(default_factory=list)

    def add(
        self, stage: str, results: Iterable[str | Hit], passed: int | None, query: str = "", *, is_cut: bool = False
    ) -> None:
        """Add a ranking, best first, of which the first `passed` go on (None: all)."""
        ranking = list(results)
        rank = next((place for place, result in enumerate(ranking, start=1) if self._is_wanted(result)), None)
        going_on = len(ranking) if passed is None else min(passed, len(ranking))
        self.stages.append(StageRank(stage, query, rank, going_on, len(ranking), is_cut))

    def _is_wanted(self, result: str | Hit) -> bool:
        if isinstance(result, str):
            return result in self.record_ids
        return result.id in self.record_ids or self.document in (*result.doc_ids, *result.passage_ids)


_RECORDER: ContextVar[StageRecorder | None] = ContextVar("stage recorder", default=None)


@contextmanager
def record_stages(recorder: StageRecorder | None) -> Iterator[None]:
    """Record the stages of the searches in this block; with None, leave them out of a record that runs."""
    token = _RECORDER.set(recorder)
    try:
        yield
    finally:
        _RECORDER.reset(token)


def is_recording() -> bool:
    """Return whether stages are recorded, for a ranking that is not made otherwise."""
    return _RECORDER.get() is not None


def record_ranking(stage: str, results: Iterable[str | Hit], passed: int | None = None, query: str = "") -> None:
    """Record a ranking that a method has made, best first, before it is cut to the first `passed` (None: all go on).

    Example:
        record_ranking("fusion", (id for id, _ in fused), k)
    """
    recorder = _RECORDER.get()
    if recorder is not None:
        recorder.add(stage, results, passed, query)


def record_search(
    stage: str, collection: Collection, requests: Sequence[SearchRequest], queries: Sequence[str]
) -> None:
    """Record what requests find, beyond the results that they ask for; `queries` are their texts.

    The store is searched once more for this, which costs nothing: vectors are those of the requests.
    """
    recorder = _RECORDER.get()
    if recorder is None or not requests:
        return
    deeper = collection.search([replace(request, k=max(DEEPEST, request.k), fields=()) for request in requests])
    for request, query, result in zip(requests, queries, deeper, strict=True):
        recorder.add(stage, result.ids, request.k, query, is_cut=len(result.ids) >= max(DEEPEST, request.k))
