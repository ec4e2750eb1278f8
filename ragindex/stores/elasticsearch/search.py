"""Search of many requests, also to several indices, in one `_msearch`, with the same scores as other stores.

Text: Lucene stores a record's length in one byte, which is exact up to 40 tokens and rounded down by up to an eighth
beyond, so its score is never below the true one. More candidates than requested are therefore fetched with their
tokens and scored again here, from the same statistics as in memory; document frequencies are counted in the same round
trip. If a record that was not fetched could still have a better score, more are fetched, which is rare.

Vectors: scores are cosines of full float32 vectors. They are exact if all vectors are compared (up to `exact_up_to`
records, and within filters that up to 10,000 records pass). Otherwise an HNSW graph of quantized vectors is searched,
and the candidates are scored again with full vectors.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ragindex.filters import Filter, Ids
from ragindex.interfaces import FilterQuery, Schema, SearchRequest, SearchResult, TextQuery, VectorQuery
from ragindex.stores.elasticsearch import filters
from ragindex.stores.elasticsearch.client import Server
from ragindex.stores.elasticsearch.records import build_batch, check_fields, source_fields
from ragindex.stores.memory.bm25 import K1, B, Statistics
from ragindex.stores.memory.search import check_query_vector
from ragindex.stores.records import widen
from ragindex.text_analysis import analyse

# ---------------------------------------------------------------- views of an index


_KEEP_ALIVE = "10m"
"""The time for which the server keeps a point in time between two batches."""


@dataclass(frozen=True, slots=True)
class IndexView:
    """The view that a search has of an index, including its totals (see `indices.count_totals`)."""

    server: Server
    index: str
    name: str
    schema: Schema
    shards: int
    analyser: str | None
    vectors: str
    totals: Mapping[str, Any]
    candidates: int

    def query(self, where: Filter | None) -> dict[str, Any]:
        """Translate a filter to a query."""
        return filters.translate_filter(where, self.schema, frozenset(self.totals["groups"]))


def scan_view(view: IndexView, fields: Sequence[str], where: Filter | None) -> Iterator[pa.RecordBatch]:
    """Yield all records that pass `where`, as of the first batch."""
    check_fields(fields, view.schema)
    doing, query = f"read the collection {view.name}", view.query(where)
    numbers = (view.schema.dimensions or 0) if "vector" in fields else 0
    size = max(50, min(4000, (8 << 20) // (2000 + 22 * numbers)))  # for about 8 MiB of JSON
    point = view.server.ask(doing, lambda client: client.open_point_in_time(index=view.index, keep_alive=_KEEP_ALIVE))[
        "id"
    ]
    after: Any = None
    try:
        while True:
            ask = partial(_fetch_page, point=point, query=query, size=size, fields=fields, after=after)
            answer = view.server.ask(doing, ask)
            hits = answer["hits"]["hits"]
            point = answer.get("pit_id", point)
            if hits:
                yield build_batch([hit["_source"] for hit in hits], fields, view.schema)
            if len(hits) < size:
                return
            after = hits[-1]["sort"]
    finally:
        view.server.ask(doing, lambda client: client.close_point_in_time(id=point))


def _fetch_page(client: Any, point: str, query: Any, size: int, fields: Sequence[str], after: Any) -> Any:
    return client.search(
        pit={"id": point, "keep_alive": _KEEP_ALIVE},
        query=query,
        size=size,
        sort=[{"_shard_doc": "asc"}],
        source=source_fields(fields),
        search_after=after,
        track_total_hits=False,
        allow_partial_search_results=False,
    )


# ---------------------------------------------------------------- requests in progress


WINDOW = 10_000
"""The server's limits on hits per response and on candidates per vector search."""
_PAGE = 1000
"""The first page size if all records that pass a filter are wanted, because the server allocates memory per hit."""
_EXACT_LENGTH = 40
_FEW, _SPARE, _MARGIN = 16, 32, 1e-6
"""Candidates beyond k if the server's scores are exact; candidates beyond k + k/4 if lengths are rounded; and the
relative error of a float32 score."""
_TIE_SPARE = 1000
"""Vectors fetched beyond k, to order equal cosines at the cutoff by id; if more are tied, all vectors are compared."""
_OVERSAMPLE = 3.0
_RESCORE_ALL = {"rescore_vector": {"oversample": 1.0}}
"""Candidates of the quantized graph to score again in full: `_OVERSAMPLE` times k, or all (`_RESCORE_ALL`)."""
_HAS_VECTOR = {"exists": {"field": "vector"}}
"""A filter for records with a vector, because some 9.2 servers also return records without one in filtered searches."""
_MAX_TOKENS = 1000
"""The most distinct tokens in a scored query, because the server limits clauses. For longer queries, every record that
shares a token is fetched."""
_MAX_COUNTED = 500
_MAX_REQUESTS = 1000
"""The most requests in one `_msearch`; one step of a method makes fewer."""
_BY_SCORE = [{"_score": "desc"}, {"id": "asc"}]
_BY_ID = [{"id": "asc"}]


TokenCounts: TypeAlias = dict[str, int]
"""The document frequencies of tokens in an index."""


@dataclass(slots=True)
class PendingSearch:
    """A request in progress: its index view, the search body, the page size, and the hits so far."""

    view: IndexView
    request: SearchRequest
    wanted: int
    size: int
    body: dict[str, Any]
    tokens: Counter[str] = field(default_factory=Counter)
    hits: list[Mapping[str, Any]] = field(default_factory=list)
    done: bool = False


def search_views(groups: Sequence[tuple[IndexView, Sequence[SearchRequest]]]) -> list[list[SearchResult]]:
    """Answer the requests to each view; all views must be of one server.

    Raises StoreError, and UsageError if a field is unknown or a vector has another length or is not finite.
    """
    every = [(view, request) for view, requests in groups for request in requests]
    results: list[SearchResult] = []
    for start in range(0, len(every), _MAX_REQUESTS):
        results += _answer_requests([_prepare_search(*search) for search in every[start : start + _MAX_REQUESTS]])
    remaining = iter(results)
    return [[next(remaining) for _ in requests] for _, requests in groups]


def _answer_requests(searches: Sequence[PendingSearch]) -> list[SearchResult]:
    counts: dict[str, TokenCounts] = {search.view.index: {} for search in searches}
    while open_ones := [search for search in searches if not search.done]:
        _fetch(open_ones, counts)
        for search in open_ones:
            _update_progress(search, counts[search.view.index])
    return [
        _compare_all(search) if _exceeds_window(search) else _build_result(search, counts[search.view.index])
        for search in searches
    ]


# ---------------------------------------------------------------- requests


def _prepare_search(view: IndexView, request: SearchRequest) -> PendingSearch:
    check_fields(request.fields, view.schema)
    limit = max(0, min(request.k, view.totals["records"]))
    if isinstance(request, TextQuery):
        return _prepare_text_search(view, request, limit)
    if isinstance(request, VectorQuery):
        return _prepare_vector_search(view, request, limit)
    body = {"query": view.query(request.where), "sort": _BY_ID, "_source": source_fields(request.fields)}
    unbounded = request.where is not None and not isinstance(request.where, Ids) and limit == view.totals["records"]
    size = min(limit, _PAGE if unbounded else WINDOW)
    return PendingSearch(view, request, limit, size, body, done=limit == 0)


def _prepare_text_search(view: IndexView, request: TextQuery, limit: int) -> PendingSearch:
    tokens = Counter(analyse(request.text, view.schema.language)) if view.schema.text else Counter[str]()
    totals = view.totals
    exact = totals["longest"] <= _EXACT_LENGTH and not totals["stale"]
    coarse = 2 * limit + 4 * _SPARE if totals["stale"] else limit // 4 + _SPARE
    spare = _FEW if exact or view.analyser else coarse
    if view.analyser is not None:
        scored: dict[str, Any] = {"match": {"tokens": request.text}}
    elif len(tokens) > _MAX_TOKENS:
        scored = {"terms": {"tokens": sorted(tokens)}}
    else:
        terms = [{"term": {"tokens": {"value": token, "boost": times}}} for token, times in sorted(tokens.items())]
        scored = {"bool": {"should": terms, "minimum_should_match": 1}}
    body = {
        "query": {"bool": {"must": [scored], "filter": [] if request.where is None else [view.query(request.where)]}},
        "sort": _BY_ID if len(tokens) > _MAX_TOKENS and view.analyser is None else _BY_SCORE,
        "track_scores": True,
        "_source": [*source_fields(request.fields), *([] if view.analyser else ["tokens"])],
    }
    nothing = limit == 0 or not (request.text.strip() if view.analyser else tokens)
    counted = Counter[str]() if view.analyser else tokens
    return PendingSearch(view, request, limit, min(limit + spare, WINDOW), body, counted, done=nothing)


def _prepare_vector_search(view: IndexView, request: VectorQuery, limit: int) -> PendingSearch:
    vector = check_query_vector(request.vector, view.schema.dimensions)
    knn: dict[str, Any] = {"field": "vector", "query_vector": vector.tolist(), **_choose_depth(view, request, limit)}
    if request.where is not None:
        knn["filter"] = [view.query(request.where), _HAS_VECTOR]
    body = {"query": {"knn": knn}, "sort": _BY_SCORE, "_source": source_fields(request.fields)}
    search = PendingSearch(view, request, limit, min(limit + 1, WINDOW), body)
    search.done = limit == 0 or not vector.any() or _exceeds_window(search)
    return search


def _choose_depth(view: IndexView, request: VectorQuery, limit: int) -> dict[str, Any]:
    """Return the numbers of candidates: more than wanted, so that equal scores at the cutoff are ordered by id."""
    if view.vectors != "flat" and request.where is None:
        depth = min(limit + _FEW, WINDOW)
        near = {"k": depth, "num_candidates": min(WINDOW, max(view.candidates, depth))}
        return {**near, "rescore_vector": {"oversample": _OVERSAMPLE}}
    if isinstance(request.where, Ids):
        depth = len(set(request.where.ids))
    else:
        depth = limit + _TIE_SPARE if view.vectors == "flat" else WINDOW  # up to WINDOW records are compared exactly
    depth = max(1, min(depth, WINDOW, view.totals["records"]))
    return {"k": depth, "num_candidates": depth, **({} if view.vectors == "flat" else _RESCORE_ALL)}


def _exceeds_window(search: PendingSearch) -> bool:
    return isinstance(search.request, VectorQuery) and search.wanted > WINDOW and bool(search.request.vector.any())


def _fetch(pending: Sequence[PendingSearch], counts: Mapping[str, TokenCounts]) -> None:
    """Fetch the next hits of each request, and the document frequencies of new tokens, in one round trip."""
    searches = list[dict[str, Any]]()
    for search in pending:
        after = {"search_after": search.hits[-1]["sort"]} if search.hits else {}
        searches += [
            _build_header(search.view),
            {**search.body, "size": search.size, "track_total_hits": False, **after},
        ]
    blocks = _find_uncounted(pending, counts)
    for view, block in blocks:
        holding = {str(number): {"term": {"tokens": token}} for number, token in enumerate(block)}
        count = {"size": 0, "track_total_hits": False, "aggs": {"held": {"filters": {"filters": holding}}}}
        searches += [_build_header(view), count]
    names = " and ".join(dict.fromkeys(search.view.name for search in pending))
    answer = pending[0].view.server.ask(
        f"search the collection {names}", lambda client: client.msearch(searches=searches)
    )
    responses = answer["responses"]
    for search, response in zip(pending, responses, strict=False):
        hits = response["hits"]["hits"]
        search.hits += hits
        search.done = len(hits) < search.size
    for (view, block), response in zip(blocks, responses[len(pending) :], strict=True):
        buckets = response["aggregations"]["held"]["buckets"]
        counts[view.index].update((token, buckets[str(number)]["doc_count"]) for number, token in enumerate(block))


def _build_header(view: IndexView) -> dict[str, Any]:
    spread = {"search_type": "dfs_query_then_fetch"} if view.shards > 1 else {}
    return {"index": view.index, "allow_partial_search_results": False, **spread}


def _find_uncounted(
    pending: Sequence[PendingSearch], counts: Mapping[str, TokenCounts]
) -> list[tuple[IndexView, list[str]]]:
    views = {search.view.index: search.view for search in pending}
    blocks = []
    for index, view in views.items():
        tokens = {token for search in pending if search.view.index == index for token in search.tokens}
        missing = sorted(tokens - set(counts[index]))
        blocks += [(view, missing[start : start + _MAX_COUNTED]) for start in range(0, len(missing), _MAX_COUNTED)]
    return blocks


# ---------------------------------------------------------------- completeness


def _update_progress(search: PendingSearch, counts: TokenCounts) -> None:
    """Mark a request as done if its hits contain the answer; otherwise prepare the next, larger page."""
    if search.done:
        return
    if isinstance(search.request, TextQuery) and search.view.analyser is None:
        search.done = len(search.tokens) <= _MAX_TOKENS and _is_proven(search, counts)
    elif isinstance(search.request, VectorQuery):
        search.done = not _request_all_if_tied(search)
    else:
        search.done = len(search.hits) >= search.wanted
    search.size = min(WINDOW, max(2 * search.size, _FEW))


def _request_all_if_tied(search: PendingSearch) -> bool:
    """Return whether the last wanted hit and the next one have equal scores, and then request all vectors.

    Other records with the same score may be missing from the hits in that case.
    """
    knn = search.body["query"]["knn"]
    deepest = min(WINDOW, search.view.totals["records"])
    edge = [hit["_score"] for hit in search.hits[search.wanted - 1 : search.wanted + 1]]
    if (
        len(edge) < 2
        or edge[0] != edge[1]
        or search.view.vectors != "flat"
        or knn["k"] >= deepest
        or isinstance(search.request.where, Ids)
    ):
        return False
    search.hits, search.size = [], search.wanted + 1
    knn.update(k=deepest, num_candidates=deepest)
    return True


def _is_proven(search: PendingSearch, counts: TokenCounts) -> bool:
    if len(search.hits) < search.wanted:
        return False
    if search.view.totals["stale"]:
        return True  # with deleted records in the server's statistics, its order is close, but its scores are no bound
    scores = sorted(_score_hits(search, counts), reverse=True)
    return bool(scores[search.wanted - 1] >= search.hits[-1]["_score"] / (K1 + 1) * (1 - _MARGIN))


def _score_hits(search: PendingSearch, counts: TokenCounts) -> list[float]:
    """Return the BM25 scores of the hits, computed as in ragindex.stores.memory.bm25."""
    if not search.hits:
        return []
    statistics = Statistics(search.view.totals["filled"], search.view.totals["tokens"], counts.__getitem__)
    weights = [(token, times * statistics.idf(token)) for token, times in sorted(search.tokens.items())]
    scores = []
    for hit in search.hits:
        tokens = hit["_source"]["tokens"].split(" ")
        saturation, times = K1 * (1 - B + B * len(tokens) / statistics.mean), Counter(tokens)
        scores.append(float(sum(weight * times[token] / (times[token] + saturation) for token, weight in weights)))
    return scores


# ---------------------------------------------------------------- results


def _build_result(search: PendingSearch, counts: TokenCounts) -> SearchResult:
    scores = _compute_scores(search, counts)
    ids = [hit["_source"]["id"] for hit in search.hits]
    order = sorted(range(len(ids)), key=lambda row: (-scores[row], ids[row]))[: search.wanted]
    records = build_batch([search.hits[row]["_source"] for row in order], search.request.fields, search.view.schema)
    return SearchResult(
        [ids[row] for row in order], np.array([scores[row] for row in order], dtype=np.float64), records
    )


def _compare_all(search: PendingSearch) -> SearchResult:
    """Read all vectors and compare them here, because more records are wanted than the server compares at once."""
    assert isinstance(search.request, VectorQuery)  # noqa: S101  # `_exceeds_window` is true for vector queries only
    fields = tuple(dict.fromkeys((*search.request.fields, "vector")))
    empty = build_batch([], fields, search.view.schema)
    table = widen(
        pa.Table.from_batches(scan_view(search.view, fields, search.request.where), empty.schema)
    ).combine_chunks()
    vectors = table.column("vector").combine_chunks().flatten().to_numpy().reshape(len(table), -1).astype(np.float64)
    unit = search.request.vector.astype(np.float64) / np.linalg.norm(search.request.vector.astype(np.float64))
    rows = np.flatnonzero(vectors.any(axis=1))
    scores, ids = vectors @ unit, table.column("id").to_pylist()
    order = sorted(rows.tolist(), key=lambda row: (-scores[row], ids[row]))[: search.wanted]
    best = table.select(["id", *search.request.fields]).take(pa.array(order, pa.int64())).combine_chunks()
    records = best.to_batches()[0] if len(best) else empty.select(["id", *search.request.fields])
    return SearchResult([ids[row] for row in order], scores[order], records)


def _compute_scores(search: PendingSearch, counts: TokenCounts) -> list[float]:
    if isinstance(search.request, FilterQuery):
        return [0.0] * len(search.hits)
    if isinstance(search.request, VectorQuery):
        return [2.0 * hit["_score"] - 1.0 for hit in search.hits]
    if search.view.analyser is not None:
        return [hit["_score"] / (K1 + 1) for hit in search.hits]
    return _score_hits(search, counts)
