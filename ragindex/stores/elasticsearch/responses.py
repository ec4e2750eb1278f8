"""What an answer of Elasticsearch must say before anything in it is believed.

A server answers with status 200 where some shards failed, where its time was over, and where a write was refused: the
rest is then in the answer, and looks like the whole. Every request goes through `check` here, because the client that
client makes asks it about each (its transport does). A request for which there is no rule is not sent.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ragindex.http import Trouble, TroubleError

Body: TypeAlias = Mapping[str, Any]
_Rule: TypeAlias = Callable[[Body, Any], Trouble | None]
PARTIAL = "partial"
"""The code of a trouble that is none of the server's words: some of what was asked for is missing."""
_OTHER = Trouble("it does not answer like Elasticsearch", 501, "other")
_OURS = frozenset(
    {"illegal_argument_exception", "parsing_exception", "query_shard_exception", "too_many_nested_clauses"}
)
"""Failures of a shard that come again however often one asks."""
_DONE = frozenset({"created", "updated", "deleted", "noop"})
_FINE, _GONE = 300, 404


class ItemsError(TroubleError):
    """Some of many writes failed: `troubles` has one or None for each, in the order in which they were sent.

    Not to be tried again as a whole.
    """

    def __init__(self, troubles: Sequence[Trouble | None]) -> None:
        first = next(trouble for trouble in troubles if trouble is not None)
        super().__init__(Trouble(first.message, 501, "items"))
        self.troubles = troubles


def parse_error(body: Any) -> tuple[str, str]:
    """The type of an error that the server answered with, and its reason."""
    error = body.get("error") if isinstance(body, Mapping) else None
    if not isinstance(error, Mapping):
        return "", str(error or "")
    causes = error.get("failed_shards") or error.get("root_cause") or [{}]
    cause = causes[0].get("reason", causes[0])
    deeper = cause.get("reason", "") if isinstance(cause, Mapping) else str(cause)
    reason = str(error.get("reason", ""))
    return str(error.get("type", "")), reason if not deeper or deeper in reason else f"{reason}: {deeper}"


def parse_endpoint(method: str, target: str) -> tuple[str, str]:
    """What a request is for: its method, and the first part of its path that is no name of an index."""
    parts = [part for part in target.partition("?")[0].split("/") if part]
    return method, next((part for part in parts if part.startswith("_")), "INDEX" if parts else "")


def require_rule(method: str, target: str, sent: Any) -> None:
    """Raises NotImplementedError, a fault of ours, for a request whose answer cannot be checked or may be partial."""
    kind = parse_endpoint(method, target)
    if kind not in RULES:
        raise NotImplementedError(f"Add a rule to responses for {' '.join(kind)}: its answer could be partial.")
    headers = sent[::2] if kind[1] == "_msearch" else []
    whole = all(header.get("allow_partial_search_results") is False for header in headers)
    if not whole or (kind[1] == "_search" and "allow_partial_search_results=false" not in target):
        raise NotImplementedError(f"Ask {kind[1]} with allow_partial_search_results=false.")


def check_response(method: str, target: str, sent: Any, body: Any) -> None:
    """`body` is the answer to a request that got a status below 300. Raises TroubleError where anything is missing."""
    trouble = RULES[parse_endpoint(method, target)](body, sent) if isinstance(body, Mapping) else _OTHER
    if trouble is not None:
        raise TroubleError(trouble)


# ---------------------------------------------------------------- shards


def _whole(shards: Any) -> Trouble | None:
    """Every shard has answered."""
    return _shards(shards, lambda total, successful: successful == total)


def _some(shards: Any) -> Trouble | None:
    """No shard has failed, and one has answered: copies that are nowhere are counted among all, and may be missing."""
    return _shards(shards, lambda total, successful: successful > 0 or total == 0)


def _shards(shards: Any, enough: Callable[[int, int], bool]) -> Trouble | None:
    if not isinstance(shards, Mapping):
        return _OTHER
    total, successful, failed = (shards.get(name) for name in ("total", "successful", "failed"))
    if not (isinstance(total, int) and isinstance(successful, int) and isinstance(failed, int)):
        return _OTHER
    if not failed and enough(total, successful):
        return None
    said = shards.get("failures") or [{}]
    code, reason = parse_error({"error": said[0].get("reason")})
    told = f"{successful} of {total} shards have answered{f': {reason}' if reason else ''}"
    return Trouble(told, 400 if code in _OURS else None, code if code in _OURS else PARTIAL)


def _search(body: Body, _: Any = None) -> Trouble | None:
    if body.get("timed_out") is not False or not isinstance(body.get("hits"), Mapping):
        return Trouble("its time was over before all was searched", code=PARTIAL) if body.get("timed_out") else _OTHER
    return _whole(body.get("_shards")) or _counted(body["hits"].get("total")) or _cut(body.get("aggregations") or {})


def _counted(total: Any) -> Trouble | None:
    """Where hits are counted, all are."""
    short = isinstance(total, Mapping) and total.get("relation") != "eq"
    return Trouble("it has counted only some of the hits", code=PARTIAL) if short else None


def _cut(aggregations: Body) -> Trouble | None:
    left = [name for name, one in aggregations.items() if one.get("sum_other_doc_count")]
    return Trouble(f"there are more {left[0]} than it lists", 400, PARTIAL) if left else None


# ---------------------------------------------------------------- many in one


def _searches(body: Body, sent: Any) -> Trouble | None:
    responses = body.get("responses")
    if not isinstance(responses, list):
        return _OTHER
    failed = next((trouble for one in responses if (trouble := _one_search(one)) is not None), None)
    return failed or (None if len(responses) == len(sent) // 2 else _OTHER)


def _one_search(response: Body) -> Trouble | None:
    if "error" not in response:
        return _search(response)
    code, reason = parse_error(response)
    return Trouble(reason or "a search failed", int(response.get("status", 500)), code)


def _documents(body: Body, sent: Any) -> Trouble | None:
    """Looking up many is answered one by one."""
    documents = body.get("docs")
    if not isinstance(documents, list):
        return _OTHER
    failed = next((trouble for one in documents if (trouble := _one_document(one)) is not None), None)
    return failed or (None if len(documents) == len(sent.get("ids") or sent.get("docs") or ()) else _OTHER)


def _one_document(one: Body) -> Trouble | None:
    if "error" in one:
        code, reason = parse_error(one)
        statuses = {"security_exception": 403, "index_not_found_exception": 404}  # which one is not said of each
        return Trouble(reason, statuses.get(code), code if code in statuses else PARTIAL)
    found = one.get("found")
    return None if found is False or (found is True and isinstance(one.get("_source"), Mapping)) else _OTHER


def _writes(body: Body, sent: Any) -> Trouble | None:
    """Raises ItemsError where some were turned away or refused."""
    items = body.get("items")
    if not isinstance(items, list) or len(items) != _actions(sent):
        return _OTHER
    outcomes: list[Any] = [next(iter(item.values()), None) for item in items]
    if not all(isinstance(one, Mapping) and type(one.get("status")) is int for one in outcomes):
        return _OTHER
    troubles = [_one_write(one) for one in outcomes]
    if any(trouble is not None for trouble in troubles):
        raise ItemsError(troubles)
    return _OTHER if body.get("errors") is not False else None


def _one_write(outcome: Body) -> Trouble | None:
    error, failed = outcome.get("error"), (outcome.get("_shards") or {}).get("failed")
    if error is None and (outcome["status"] < _FINE or outcome["status"] == _GONE):  # gone is what was to be removed
        return Trouble("a copy of its shard failed", code=PARTIAL) if failed else None
    error = error if isinstance(error, Mapping) else {"reason": error}
    cause = (error.get("caused_by") or {}).get("reason", "")
    return Trouble(
        f"{error.get('reason') or ''} {cause}".strip(), max(outcome["status"], _FINE), str(error.get("type", ""))
    )


def _actions(lines: Sequence[bytes]) -> int:
    """How many writes there are in lines of which those that remove have no second."""
    count = at = 0
    while at < len(lines):
        at += 1 if lines[at].startswith(b'{"delete"') else 2
        count += 1
    return count


# ---------------------------------------------------------------- all else


def _done(body: Body, _: Any) -> Trouble | None:
    """Writing one document."""
    return _some(body.get("_shards")) if body.get("result") in _DONE else _OTHER


def _there(body: Body, _: Any) -> Trouble | None:
    """Reading one document."""
    return None if body.get("found") is True and isinstance(body.get("_source"), Mapping) else _OTHER


def _broadcast(body: Body, _: Any) -> Trouble | None:
    return _some(body.get("_shards"))


def _point(body: Body, _: Any) -> Trouble | None:
    if not body.get("id"):
        return _OTHER
    return _whole(body["_shards"]) if "_shards" in body else None  # servers before 8.16 do not say


def _acknowledged(body: Body, _: Any) -> Trouble | None:
    if type(body.get("acknowledged")) is not bool:
        return _OTHER
    return None if body["acknowledged"] else Trouble("not all nodes know of it yet", code=PARTIAL)


def _made(body: Body, sent: Any) -> Trouble | None:
    """Whether its shards are there is said too, and looked at by who made it."""
    return _acknowledged(body, sent) or (None if type(body.get("shards_acknowledged")) is bool else _OTHER)


def _blocked(body: Body, sent: Any) -> Trouble | None:
    indices = body.get("indices")
    if (trouble := _made(body, sent)) is not None or not isinstance(indices, list):
        return trouble or _OTHER
    if not indices:
        return None  # it was blocked before: a try whose answer was lost
    whole = body["shards_acknowledged"] and all(one.get("blocked") is True for one in indices)
    return None if whole else Trouble("some shards still take writes", code=PARTIAL)


def _health(body: Body, _: Any) -> Trouble | None:
    if type(body.get("timed_out")) is not bool:
        return _OTHER
    return Trouble("some shards are not there yet", code=PARTIAL) if body["timed_out"] else None


def _info(body: Body, _: Any) -> Trouble | None:
    version = body.get("version")
    return None if isinstance(version, Mapping) and "number" in version else _OTHER


def _indices(body: Body, _: Any) -> Trouble | None:
    """What is known of indices comes from the cluster's state, which is whole or not there."""
    return None if all(isinstance(one, Mapping) for one in body.values()) else _OTHER


def _closed(body: Body, _: Any) -> Trouble | None:
    """Not requested: a node releases the rest by itself."""
    return None if "succeeded" in body else _OTHER


RULES: Mapping[tuple[str, str], _Rule] = {
    ("GET", ""): _info,
    ("GET", "INDEX"): _indices,
    ("PUT", "INDEX"): _made,
    ("DELETE", "INDEX"): _acknowledged,
    ("PUT", "_clone"): _made,
    ("PUT", "_block"): _blocked,
    ("PUT", "_mapping"): _acknowledged,
    ("PUT", "_settings"): _acknowledged,
    ("POST", "_refresh"): _broadcast,
    ("POST", "_flush"): _broadcast,
    ("POST", "_forcemerge"): _broadcast,
    ("GET", "_stats"): _broadcast,
    ("GET", "_cluster"): _health,
    ("POST", "_pit"): _point,
    ("DELETE", "_pit"): _closed,
    ("POST", "_search"): _search,
    ("POST", "_msearch"): _searches,
    ("POST", "_mget"): _documents,
    ("PUT", "_bulk"): _writes,
    ("POST", "_bulk"): _writes,
    ("GET", "_doc"): _there,
    ("PUT", "_doc"): _done,
    ("POST", "_doc"): _done,
    ("DELETE", "_doc"): _done,
}
"""What must be true of the answer to each request that is made, by `parse_endpoint`."""
