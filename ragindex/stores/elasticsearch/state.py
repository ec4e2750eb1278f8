"""Small documents of the store itself, in one index on the server: the writer's lease and the list of collections.

A document can be changed only by a process that has seen its latest state (`if_seq_no`).
"""

from collections.abc import Callable, Mapping
from typing import Any

from ragindex.http import TroubleError
from ragindex.stores.elasticsearch.client import Server
from ragindex.stores.elasticsearch.records import server_id

_CONFLICT, _NOT_FOUND = 409, 404
StateTokens = dict[str, int]


def create_state_index(server: Server, index: str, doing: str) -> None:
    """Create the index if it does not exist."""
    settings = {"number_of_shards": 1, "auto_expand_replicas": "0-1"}
    try:
        server.try_to(lambda client: client.indices.create(index=index, settings=settings, mappings={"enabled": False}))
    except TroubleError as error:
        if error.trouble.code != "resource_already_exists_exception":
            raise server.failure(doing, error.trouble) from None


def read_state(server: Server, index: str, name: str, doing: str) -> tuple[Mapping[str, Any], StateTokens] | None:
    """Read a document and its state tokens. Return None if it does not exist."""
    found = _ask(server, doing, lambda client: client.get(index=index, id=server_id(name)))
    if found is None:
        return None
    return found["_source"], {"if_seq_no": found["_seq_no"], "if_primary_term": found["_primary_term"]}


def write_state(
    server: Server, index: str, name: str, document: Mapping[str, Any], seen: StateTokens | None, doing: str
) -> StateTokens | None:
    """Write a document if it is still in the state `seen` (None: does not exist), and return its new state tokens.

    Return None, without writing, if it is in another state.
    """
    how: dict[str, Any] = {"op_type": "create"} if seen is None else dict(seen)
    written = _ask(
        server, doing, lambda client: client.index(index=index, id=server_id(name), document=document, **how)
    )
    if written is None:
        return None
    return {"if_seq_no": written["_seq_no"], "if_primary_term": written["_primary_term"]}


def delete_state(server: Server, index: str, name: str, seen: StateTokens | None, doing: str) -> None:
    """Delete a document if it is still in the state `seen` (None: any state)."""
    _ask(server, doing, lambda client: client.delete(index=index, id=server_id(name), **(seen or {})))


def _ask(server: Server, doing: str, call: Callable[[Any], Any]) -> Any:
    """Return the response, or None for a conflict or a missing document, which are not errors and not retried."""
    answer = server.ask(doing, lambda client: call(client.options(ignore_status=(_CONFLICT, _NOT_FOUND))))
    return None if answer.meta.status in (_CONFLICT, _NOT_FOUND) else answer
