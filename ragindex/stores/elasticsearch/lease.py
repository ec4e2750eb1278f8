"""Small documents of the store itself, in one index on the server: the writer's lease and the list of collections.

A document can be changed only by a process that has seen its latest state (`if_seq_no`). The holder of the lease
renews it; another process can take over an expired one. Clocks of machines differ, so a lease that looks expired is
watched for a while first, and is not taken over if it is renewed meanwhile. A holder that has lost the lease (on a
machine that was asleep, say) notices this before its next write.
"""

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragindex._util.http import RequestProblemError
from ragindex.errors import StoreError, WriterBusyError
from ragindex.stores.elasticsearch.client import Server
from ragindex.stores.elasticsearch.records import server_id

# ---------------------------------------------------------------- state documents


_CONFLICT, _NOT_FOUND = 409, 404
StateTokens = dict[str, int]


def create_state_index(server: Server, index: str, doing: str) -> None:
    """Create the index if it does not exist."""
    settings = {"number_of_shards": 1, "auto_expand_replicas": "0-1"}
    try:
        server.try_to(lambda client: client.indices.create(index=index, settings=settings, mappings={"enabled": False}))
    except RequestProblemError as error:
        if error.problem.code != "resource_already_exists_exception":
            raise server.failure(doing, error.problem) from None


def read_state(server: Server, index: str, name: str, doing: str) -> tuple[Mapping[str, Any], StateTokens] | None:
    """Read a document and its state tokens. Return None if it does not exist."""
    response = _ask(server, doing, lambda client: client.get(index=index, id=server_id(name)))
    if response is None:
        return None
    return response["_source"], {"if_seq_no": response["_seq_no"], "if_primary_term": response["_primary_term"]}


def write_state(
    server: Server, index: str, name: str, document: Mapping[str, Any], tokens: StateTokens | None, doing: str
) -> StateTokens | None:
    """Write a document if it is still in the state of `tokens` (None: does not exist), and return its new state tokens.

    Return None, without writing, if it is in another state.
    """
    how: dict[str, Any] = {"op_type": "create"} if tokens is None else dict(tokens)
    response = _ask(
        server, doing, lambda client: client.index(index=index, id=server_id(name), document=document, **how)
    )
    if response is None:
        return None
    return {"if_seq_no": response["_seq_no"], "if_primary_term": response["_primary_term"]}


def delete_state(server: Server, index: str, name: str, tokens: StateTokens | None, doing: str) -> None:
    """Delete a document if it is still in the state of `tokens` (None: any state)."""
    _ask(server, doing, lambda client: client.delete(index=index, id=server_id(name), **(tokens or {})))


def _ask(server: Server, doing: str, call: Callable[[Any], Any]) -> Any:
    """Return the response, or None for a conflict or a missing document, which are not errors and not retried."""
    answer = server.ask(doing, lambda client: call(client.options(ignore_status=(_CONFLICT, _NOT_FOUND))))
    return None if answer.meta.status in (_CONFLICT, _NOT_FOUND) else answer


# ---------------------------------------------------------------- the lease


_DOCUMENT = "writer"
_DOING = "take the writer's lease"
_WATCHED = 0.5
"""The share of its lifetime for which a lease that looks expired is watched before it is taken over."""


@dataclass(slots=True)
class WriterLease:
    """The writer's lease, held by this process until `release`. It expires if it is not renewed for `seconds`.

    `lost` describes the process that has taken it over, if any.
    """

    server: Server
    index: str
    seconds: float
    document: Mapping[str, Any]
    seen: StateTokens
    lost: str = ""
    _renewed: float = field(default_factory=time.monotonic)
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None

    def keep(self) -> None:
        """Start to renew the lease in the background."""
        self._thread = threading.Thread(target=self._renewing, name="ragindex-lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Check the lease before a write. Raises StoreError if another process has taken it over."""
        if time.monotonic() - self._renewed > self.seconds / 2:
            self._renew()
        if self.lost:
            raise StoreError(
                f"The writer's lease at {self.server.where} was taken over by {self.lost}, because this process did "
                "not renew it in time. Nothing more is written. Run the same command to resume."
            )

    def release(self) -> None:
        """Release the lease. A lease that was taken over is left as it is."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if not self.lost:
            delete_state(self.server, self.index, _DOCUMENT, self.seen, _DOING)

    def _renewing(self) -> None:
        while not self._stop.wait(self.seconds / 4):
            try:
                self._renew()
            except StoreError:
                continue  # the server is unavailable; tried again in the next round and before every write
            if self.lost:
                return

    def _renew(self) -> None:
        with self._lock:
            if self.lost:
                return
            start = time.monotonic()
            document = {**self.document, "renewed": time.time()}
            new_tokens = _put(self.server, self.index, document, self.seen)
            if new_tokens is None:
                stored = _read(self.server, self.index)
                self.lost = _describe_holder(stored[0]) if stored else "somebody who has released it since"
                return
            self.seen, self._renewed = new_tokens, start


def acquire_lease(server: Server, index: str, owner: str, seconds: float) -> WriterLease:
    """Acquire the lease and renew it until it is released. Raises WriterBusyError, naming the holder."""
    create_state_index(server, index, _DOING)
    stored = _read(server, index)
    if stored is not None and not _is_abandoned(server, index, *stored):
        raise WriterBusyError(_describe_holder(stored[0]))
    document = {
        **{"owner": owner, "host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%F %T")},
        **{"machine": _machine(), "token": uuid.uuid4().hex, "seconds": seconds, "renewed": time.time()},
    }
    tokens = _put(server, index, document, None if stored is None else stored[1])
    if tokens is None:
        stored = _read(server, index)
        raise WriterBusyError(_describe_holder(stored[0] if stored else {}))
    lease = WriterLease(server, index, seconds, document, tokens)
    lease.keep()
    return lease


def _is_abandoned(server: Server, index: str, document: Mapping[str, Any], tokens: StateTokens) -> bool:
    """Return whether the holder is dead: its process on this machine has ended, or the lease is not renewed."""
    if document["machine"] == _machine() and not _is_alive(int(document["pid"])):
        return True
    if time.time() - document["renewed"] < document["seconds"]:
        return False
    time.sleep(document["seconds"] * _WATCHED)
    now = _read(server, index)
    return now is None or now[1] == tokens


def _machine() -> str:
    """Return an id of the scope of process ids: one boot of a system and, on Linux, one PID namespace (container)."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{socket.gethostname()} {uuid.getnode()}"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _describe_holder(document: Mapping[str, Any]) -> str:
    if not document:
        return "another process"
    return f"{document['owner']} (process {document['pid']} on {document['host']}, since {document['since']})"


def _read(server: Server, index: str) -> tuple[Mapping[str, Any], StateTokens] | None:
    return read_state(server, index, _DOCUMENT, _DOING)


def _put(server: Server, index: str, document: Mapping[str, Any], tokens: StateTokens | None) -> StateTokens | None:
    """Write the lease document. Return None if another process has changed it in the meantime."""
    new_tokens = write_state(server, index, _DOCUMENT, document, tokens, _DOING)
    if new_tokens is None:
        stored = _read(server, index)  # an earlier try whose response was lost may have written it
        return stored[1] if stored is not None and stored[0]["token"] == document["token"] else None
    return new_tokens
