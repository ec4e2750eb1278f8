"""Checks that a response of Elasticsearch is complete.

A server answers with status 200 even if some shards failed, a timeout expired, or a write was refused; the response
then contains the rest and looks complete. The transport of the client in `client` passes every response to
`check_response`. A request for which there is no rule is not sent.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ragindex._util.http import RequestProblem, RequestProblemError

Body: TypeAlias = Mapping[str, Any]
_Rule: TypeAlias = Callable[[Body, Any], RequestProblem | None]
PARTIAL = "partial"
"""Our own code for an incomplete response; the other codes come from the server."""
_UNEXPECTED = RequestProblem("it does not answer like Elasticsearch", 501, "other")
_REQUEST_ERRORS = frozenset(
    {"illegal_argument_exception", "parsing_exception", "query_shard_exception", "too_many_nested_clauses"}
)
"""Shard failures that are caused by the request, so that a retry cannot succeed."""
_WRITE_RESULTS = frozenset({"created", "updated", "deleted", "noop"})
_ERROR_STATUS, _NOT_FOUND = 300, 404


class ItemsError(RequestProblemError):
    """Raised if some writes of a bulk request failed. `problems` has a RequestProblem or None for each write, in order.

    The request must not be retried as a whole.
    """

    def __init__(self, problems: Sequence[RequestProblem | None]) -> None:
        first = next(problem for problem in problems if problem is not None)
        super().__init__(RequestProblem(first.message, 501, "items"))
        self.problems = problems


def parse_error(body: Any) -> tuple[str, str]:
    """Return the type and the reason of a server error."""
    error = body.get("error") if isinstance(body, Mapping) else None
    if not isinstance(error, Mapping):
        return "", str(error or "")
    causes = error.get("failed_shards") or error.get("root_cause") or [{}]
    cause = causes[0].get("reason", causes[0])
    deeper = cause.get("reason", "") if isinstance(cause, Mapping) else str(cause)
    reason = str(error.get("reason", ""))
    return str(error.get("type", "")), reason if not deeper or deeper in reason else f"{reason}: {deeper}"


def parse_endpoint(method: str, target: str) -> tuple[str, str]:
    """Return the method of a request and the first part of its path that is not an index name."""
    parts = [part for part in target.partition("?")[0].split("/") if part]
    return method, next((part for part in parts if part.startswith("_")), "INDEX" if parts else "")


def require_rule(method: str, target: str, request: Any) -> None:
    """Raise NotImplementedError (a bug in ragindex) if a response cannot be checked or is allowed to be partial."""
    kind = parse_endpoint(method, target)
    if kind not in RULES:
        raise NotImplementedError(f"Add a rule to responses for {' '.join(kind)}: its answer could be partial.")
    headers = request[::2] if kind[1] == "_msearch" else []
    complete = all(header.get("allow_partial_search_results") is False for header in headers)
    if not complete or (kind[1] == "_search" and "allow_partial_search_results=false" not in target):
        raise NotImplementedError(f"Ask {kind[1]} with allow_partial_search_results=false.")


def check_response(method: str, target: str, request: Any, body: Any) -> None:
    """Check the body of a response with a status below 300. Raises RequestProblemError if anything is missing."""
    problem = RULES[parse_endpoint(method, target)](body, request) if isinstance(body, Mapping) else _UNEXPECTED
    if problem is not None:
        raise RequestProblemError(problem)


# ---------------------------------------------------------------- shards


def _check_shards(shards: Any, *, every: bool) -> RequestProblem | None:
    """Check that no shard has failed, and that every or at least one has answered.

    Unassigned replicas count in the total only, so not all answer to a write.
    """
    if not isinstance(shards, Mapping):
        return _UNEXPECTED
    total, successful, failed = (shards.get(name) for name in ("total", "successful", "failed"))
    if not (isinstance(total, int) and isinstance(successful, int) and isinstance(failed, int)):
        return _UNEXPECTED
    if not failed and (successful == total if every else successful > 0 or total == 0):
        return None
    failures = shards.get("failures") or [{}]
    code, reason = parse_error({"error": failures[0].get("reason")})
    message = f"{successful} of {total} shards have answered{f': {reason}' if reason else ''}"
    return RequestProblem(
        message, 400 if code in _REQUEST_ERRORS else None, code if code in _REQUEST_ERRORS else PARTIAL
    )


def _check_search(body: Body, _: Any = None) -> RequestProblem | None:
    if body.get("timed_out"):
        return RequestProblem("its time was over before all was searched", code=PARTIAL)
    if body.get("timed_out") is not False or not isinstance(body.get("hits"), Mapping):
        return _UNEXPECTED
    if (problem := _check_shards(body.get("_shards"), every=True)) is not None:
        return problem
    total = body["hits"].get("total")
    if isinstance(total, Mapping) and total.get("relation") != "eq":
        return RequestProblem("it has counted only some of the hits", code=PARTIAL)
    aggregations = (body.get("aggregations") or {}).items()
    cut = [name for name, aggregation in aggregations if aggregation.get("sum_other_doc_count")]
    return RequestProblem(f"there are more {cut[0]} than it lists", 400, PARTIAL) if cut else None


# ---------------------------------------------------------------- bulk requests


def _check_searches(body: Body, request: Any) -> RequestProblem | None:
    responses = body.get("responses")
    if not isinstance(responses, list):
        return _UNEXPECTED
    failed = next((problem for response in responses if (problem := _check_one_search(response)) is not None), None)
    return failed or (None if len(responses) == len(request) // 2 else _UNEXPECTED)


def _check_one_search(response: Body) -> RequestProblem | None:
    if "error" not in response:
        return _check_search(response)
    code, reason = parse_error(response)
    return RequestProblem(reason or "a search failed", int(response.get("status", 500)), code)


def _check_documents(body: Body, request: Any) -> RequestProblem | None:
    """Check each document of an `_mget` response."""
    documents = body.get("docs")
    if not isinstance(documents, list):
        return _UNEXPECTED
    failed = next((problem for document in documents if (problem := _check_document(document)) is not None), None)
    return failed or (None if len(documents) == len(request.get("ids") or request.get("docs") or ()) else _UNEXPECTED)


def _check_document(document: Body) -> RequestProblem | None:
    if "error" in document:
        code, reason = parse_error(document)
        statuses = {"security_exception": 403, "index_not_found_exception": 404}  # documents have no own status
        return RequestProblem(reason, statuses.get(code), code if code in statuses else PARTIAL)
    exists = document.get("found")
    return None if exists is False or (exists is True and isinstance(document.get("_source"), Mapping)) else _UNEXPECTED


def _check_writes(body: Body, request: Any) -> RequestProblem | None:
    """Check each write of a `_bulk` response. Raises ItemsError if some were rejected."""
    items = body.get("items")
    if not isinstance(items, list) or len(items) != _count_actions(request):
        return _UNEXPECTED
    outcomes: list[Any] = [next(iter(item.values()), None) for item in items]
    if not all(isinstance(outcome, Mapping) and type(outcome.get("status")) is int for outcome in outcomes):
        return _UNEXPECTED
    problems = [_check_write(outcome) for outcome in outcomes]
    if any(problem is not None for problem in problems):
        raise ItemsError(problems)
    return _UNEXPECTED if body.get("errors") is not False else None


def _check_write(outcome: Body) -> RequestProblem | None:
    error, failed = outcome.get("error"), (outcome.get("_shards") or {}).get("failed")
    if error is None and (outcome["status"] < _ERROR_STATUS or outcome["status"] == _NOT_FOUND):  # 404: deleted before
        return RequestProblem("a copy of its shard failed", code=PARTIAL) if failed else None
    error = error if isinstance(error, Mapping) else {"reason": error}
    cause = (error.get("caused_by") or {}).get("reason", "")
    return RequestProblem(
        f"{error.get('reason') or ''} {cause}".strip(),
        max(outcome["status"], _ERROR_STATUS),
        str(error.get("type", "")),
    )


def _count_actions(lines: Sequence[bytes]) -> int:
    """Count the writes in the lines of a bulk request; a deletion has one line, any other write two."""
    count = at = 0
    while at < len(lines):
        at += 1 if lines[at].startswith(b'{"delete"') else 2
        count += 1
    return count


# ---------------------------------------------------------------- other requests


def _check_written(body: Body, _: Any) -> RequestProblem | None:
    """Check that one document was written."""
    return _check_shards(body.get("_shards"), every=False) if body.get("result") in _WRITE_RESULTS else _UNEXPECTED


def _check_found(body: Body, _: Any) -> RequestProblem | None:
    """Check that one document was read."""
    return None if body.get("found") is True and isinstance(body.get("_source"), Mapping) else _UNEXPECTED


def _check_broadcast(body: Body, _: Any) -> RequestProblem | None:
    return _check_shards(body.get("_shards"), every=False)


def _check_point(body: Body, _: Any) -> RequestProblem | None:
    if not body.get("id"):
        return _UNEXPECTED
    return _check_shards(body["_shards"], every=True) if "_shards" in body else None  # servers before 8.16 do not say


def _check_acknowledged(body: Body, _: Any) -> RequestProblem | None:
    if type(body.get("acknowledged")) is not bool:
        return _UNEXPECTED
    return None if body["acknowledged"] else RequestProblem("not all nodes know of it yet", code=PARTIAL)


def _check_created(body: Body, request: Any) -> RequestProblem | None:
    """Check that an index was created. The caller checks whether its shards have started."""
    return _check_acknowledged(body, request) or (
        None if type(body.get("shards_acknowledged")) is bool else _UNEXPECTED
    )


def _check_blocked(body: Body, request: Any) -> RequestProblem | None:
    indices = body.get("indices")
    if (problem := _check_created(body, request)) is not None or not isinstance(indices, list):
        return problem or _UNEXPECTED
    if not indices:
        return None  # already blocked by an earlier try whose response was lost
    complete = body["shards_acknowledged"] and all(index.get("blocked") is True for index in indices)
    return None if complete else RequestProblem("some shards still take writes", code=PARTIAL)


def _check_health(body: Body, _: Any) -> RequestProblem | None:
    if type(body.get("timed_out")) is not bool:
        return _UNEXPECTED
    return RequestProblem("some shards are not there yet", code=PARTIAL) if body["timed_out"] else None


def _check_info(body: Body, _: Any) -> RequestProblem | None:
    version = body.get("version")
    return None if isinstance(version, Mapping) and "number" in version else _UNEXPECTED


def _check_indices(body: Body, _: Any) -> RequestProblem | None:
    """Check the shape of index metadata, which come from the cluster state and are never partial."""
    return None if all(isinstance(index, Mapping) for index in body.values()) else _UNEXPECTED


def _check_closed(body: Body, _: Any) -> RequestProblem | None:
    """Check the shape only: if a point in time was not closed completely, the nodes release the rest themselves."""
    return None if "succeeded" in body else _UNEXPECTED


RULES: Mapping[tuple[str, str], _Rule] = {
    ("GET", ""): _check_info,
    ("GET", "INDEX"): _check_indices,
    ("PUT", "INDEX"): _check_created,
    ("DELETE", "INDEX"): _check_acknowledged,
    ("PUT", "_clone"): _check_created,
    ("PUT", "_block"): _check_blocked,
    ("PUT", "_mapping"): _check_acknowledged,
    ("PUT", "_settings"): _check_acknowledged,
    ("POST", "_refresh"): _check_broadcast,
    ("POST", "_flush"): _check_broadcast,
    ("POST", "_forcemerge"): _check_broadcast,
    ("GET", "_stats"): _check_broadcast,
    ("GET", "_cluster"): _check_health,
    ("POST", "_pit"): _check_point,
    ("DELETE", "_pit"): _check_closed,
    ("POST", "_search"): _check_search,
    ("POST", "_msearch"): _check_searches,
    ("POST", "_mget"): _check_documents,
    ("PUT", "_bulk"): _check_writes,
    ("POST", "_bulk"): _check_writes,
    ("GET", "_doc"): _check_found,
    ("PUT", "_doc"): _check_written,
    ("POST", "_doc"): _check_written,
    ("DELETE", "_doc"): _check_written,
}
"""The check of the response to each kind of request, by the key that `parse_endpoint` returns."""
