"""Conversion of records to hits, and checks of hits. Every part that a flat scheme can search has HIT_FIELDS."""

import json
import math
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from ragindex._util.canonical import load_stored_json
from ragindex._util.kept_results import KeptResults
from ragindex.errors import UsageError
from ragindex.filters import Filter, Ids, list_terms
from ragindex.interfaces import Collection, FilterQuery, Schema, SearchingRetriever, SearchResult
from ragindex.retrieval.stages import record_search
from ragindex.types import Hit, Metadata, Query, Retrieval, Step

STORED_FIELDS = ("kind", "title", "text", "metadata")
KEYWORD_FIELDS = ("passage_ids", "doc_ids")
HIT_FIELDS = (*STORED_FIELDS, *KEYWORD_FIELDS)
"""`metadata` is a JSON object keyed by document id, or empty if no document has metadata."""


def text_search_schema(language: str) -> Schema:
    """Return the schema of a collection that flat schemes search by text."""
    return Schema(stored=STORED_FIELDS, keywords=KEYWORD_FIELDS, text=("title", "text"), language=language)


def read_hits(result: SearchResult, source: str) -> tuple[Hit, ...]:
    """Convert a search result that was requested with HIT_FIELDS into hits."""
    records = result.records
    columns = [records.column(name).to_pylist() for name in HIT_FIELDS]
    return tuple(
        Hit(
            id,
            kind,
            tuple(passages),
            tuple(docs),
            title,
            text,
            score,
            source,
            load_stored_json(metadata) if metadata else {},
        )
        for id, score, kind, title, text, metadata, passages, docs in zip(
            result.ids, result.scores.tolist(), *columns, strict=True
        )
    )


def search_batch(retriever: SearchingRetriever, queries: Sequence[Query], k: int, source: str) -> list[Retrieval]:
    """Run all requests of a retriever in one call of the store; return one retrieval per query."""
    check_queries(queries, k)
    requests = retriever.requests(queries, k, HIT_FIELDS)
    start = time.perf_counter()
    results = retriever.collection.search(requests)
    ms = (time.perf_counter() - start) * 1e3 / max(1, len(queries))
    record_search(retriever.step, retriever.collection, requests, [query.text for query in queries])
    return [
        Retrieval(read_hits(result, source), (Step(1, retriever.step, query.text, tuple(result.ids), ms=ms),))
        for query, result in zip(queries, results, strict=True)
    ]


def fetch_records(collection: Collection, ids: Sequence[str], fields: Sequence[str]) -> pa.RecordBatch:
    """Fetch the records of `ids` that exist, each once, in the order of `ids`, with `id` and `fields`.

    Uses a search, which an engine may answer from memory, because `Collection.get` may read the disk.
    """
    distinct_ids = tuple(dict.fromkeys(ids))
    (result,) = collection.search([FilterQuery(Ids(distinct_ids), max(1, len(distinct_ids)), tuple(fields))])
    rows = {id: row for row, id in enumerate(result.ids)}
    return result.records.take(pa.array([rows[id] for id in distinct_ids if id in rows], pa.int64()))


def fetch_hits(collection: Collection, scores: Mapping[str, float], source: str) -> tuple[Hit, ...]:
    """Fetch the records of the ids in `scores` that exist, as hits in the order of `scores`."""
    if not scores:
        return ()
    records = fetch_records(collection, list(scores), HIT_FIELDS)
    ids = records.column("id").to_pylist()
    return read_hits(SearchResult(ids, np.array([scores[id] for id in ids], np.float64), records), source)


def check_queries(queries: Sequence[Query], k: int) -> None:
    """Check the arguments of `retrieve`. Raises UsageError for k below 1 and for an empty question."""
    if type(k) is not int or k < 1:
        raise UsageError(f"The 'k' parameter of retrieve must be an int in the range [1, inf). Got {k!r} instead.")
    for query in queries:
        if not query.text.strip():
            raise UsageError(f"The question {query.id!r} is empty.")


class RankedHit(Protocol):
    """A hit with the fields that the contract of a ranking covers."""

    @property
    def id(self) -> str:
        """The id of the hit."""
        ...

    @property
    def doc_ids(self) -> Sequence[str]:
        """The ids of the documents that the hit represents."""
        ...

    @property
    def score(self) -> float:
        """The score; higher is better."""
        ...


def find_breach(hits: Sequence[RankedHit], k: int, known: Container[str] | None = None) -> str | None:
    """Return how the hits of one question break the contract of a retriever; None if they keep it.

    The contract: at most k hits, no duplicates, finite scores in descending order, and at least one document id per
    hit, all of them among `known` if it is given.
    """
    if len(hits) > k:
        return f"it returned {len(hits)} hits for k = {k}"
    ids = [hit.id for hit in hits]
    if len(set(ids)) < len(ids):
        return f"the hit {next(id for id in ids if ids.count(id) > 1)!r} occurs twice"
    for place, hit in enumerate(hits):
        wrong = _find_score_breach(hit, hits[place - 1] if place else None) or _find_document_breach(hit, known)
        if wrong is not None:
            return f"the hit {hit.id!r} {wrong}"
    return None


def _find_score_breach(hit: RankedHit, before: RankedHit | None) -> str | None:
    if not math.isfinite(hit.score):
        return f"has the score {hit.score}, which is not finite"
    if before is not None and hit.score > before.score:
        return f"scores {hit.score}, more than the hit before it ({before.score}): hits must be sorted best first"
    return None


def _find_document_breach(hit: RankedHit, known: Container[str] | None) -> str | None:
    if not hit.doc_ids:
        return "has no doc_ids"
    unknown = [id for id in hit.doc_ids if known is not None and id not in known]
    return f"names the document {unknown[0]!r}, which is not in the corpus" if unknown else None


def build_document_fields(doc_ids: Sequence[str], metadata: Mapping[str, str]) -> Mapping[str, pa.Array]:
    """Build the columns `metadata`, `doc_ids` and `meta.KEY` of records of one document each.

    `metadata` are those of each document, as JSON. They are read once a document, not once a record.
    """
    place = {id: number for number, id in enumerate(metadata)}
    documents = [json.loads(text) for text in metadata.values()]
    by_document = [
        json.dumps({id: document}, ensure_ascii=False) if document else ""
        for id, document in zip(metadata, documents, strict=True)
    ]
    fields = {
        "metadata": pa.array(by_document, pa.string()),
        "doc_ids": pa.array([[id] for id in metadata], pa.list_(pa.string())),
        **build_filter_fields([document] for document in documents),
    }
    rows = pa.array([place[id] for id in doc_ids], pa.int64())
    return {name: column.take(rows) for name, column in fields.items()}


def build_filter_fields(metadata: Iterable[Sequence[Metadata]]) -> Mapping[str, pa.Array]:
    """Build the `meta.KEY` columns of records from the metadata of each record's documents.

    Each value is a list of the terms of all documents (`ragindex.filters.list_terms`), with a null for each document
    without one.
    """
    rows = [list(documents) for documents in metadata]
    keys = sorted(
        {key for documents in rows for document in documents for key, value in document.items() if list_terms(value)}
    )
    return {f"meta.{key}": pa.array([_build_terms(row, key) for row in rows], pa.list_(pa.string())) for key in keys}


def _build_terms(documents: Sequence[Metadata], key: str) -> list[str | None] | None:
    terms = [list_terms(document.get(key)) for document in documents]
    return [term for those in terms for term in those or (None,)] if any(terms) else None


_KEPT_FILTERS = 4
"""The number of filters whose results are kept: applications ask many questions with the filter of one user."""


@dataclass(frozen=True, slots=True)
class PassingRecords:
    """The records of `collection` that pass a filter, kept for the filters that were used last. Thread-safe."""

    collection: Collection
    results: KeptResults[Filter, frozenset[str]] = field(default_factory=lambda: KeptResults(_KEPT_FILTERS))

    def find(self, where: Filter) -> frozenset[str]:
        """Return the ids of the records that pass."""
        return self.results.find(
            where,
            lambda: frozenset(id for batch in self.collection.scan((), where) for id in batch.column("id").to_pylist()),
        )
