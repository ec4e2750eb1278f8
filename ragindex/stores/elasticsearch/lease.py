"""The writer's lease: one document, changed only by who has seen its latest state (`if_seq_no`).

Its holder renews it; who finds it old takes it over. Clocks of machines differ: a lease that looks old is watched for
a while first, and one that is renewed meanwhile is not taken. A holder who has lost it (a machine that slept) learns
that before its next write.
"""

import os
import socket
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragindex.errors import StoreError, WriterBusyError
from ragindex.stores.elasticsearch import state
from ragindex.stores.elasticsearch.client import Server

_DOCUMENT = "writer"
_DOING = "take the writer's lease"
_WATCHED = 0.5
"""The share of a lease's life that a lease which looks old is watched for before it is taken over."""


@dataclass(slots=True)
class WriterLease:
    """Held by this process until `release`. `seconds` is how long it lives when nobody renews it."""

    server: Server
    index: str
    seconds: float
    document: Mapping[str, Any]
    seen: state.StateTokens
    lost: str = ""
    _renewed: float = field(default_factory=time.monotonic)
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None

    def keep(self) -> None:
        """Renew it from now on, in the background."""
        self._thread = threading.Thread(target=self._renewing, name="ragindex-lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Before a write. Raises StoreError where somebody else has taken the lease over."""
        if time.monotonic() - self._renewed > self.seconds / 2:
            self._renew()
        if self.lost:
            raise StoreError(
                f"The writer's lease at {self.server.where} was taken over by {self.lost}, because this process did "
                "not renew it in time. Nothing more is written. Run the same command to resume."
            )

    def release(self) -> None:
        """Give it back. What is not ours any more stays."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if not self.lost:
            state.delete_state(self.server, self.index, _DOCUMENT, self.seen, _DOING)

    def _renewing(self) -> None:
        while not self._stop.wait(self.seconds / 4):
            try:
                self._renew()
            except StoreError:
                continue  # the server is away: tried again until the lease has run out, and before every write
            if self.lost:
                return

    def _renew(self) -> None:
        with self._lock:
            if self.lost:
                return
            begun = time.monotonic()
            document = {**self.document, "renewed": time.time()}
            written = _put(self.server, self.index, document, self.seen)
            if written is None:
                held = _read(self.server, self.index)
                self.lost = _who(held[0]) if held else "somebody who has released it since"
                return
            self.seen, self._renewed = written, begun


def acquire_lease(server: Server, index: str, owner: str, seconds: float) -> WriterLease:
    """The lease, renewed until it is released. Raises WriterBusyError, which says who holds it."""
    state.create_state_index(server, index, _DOING)
    held = _read(server, index)
    if held is not None and not _abandoned(server, index, *held):
        raise WriterBusyError(_busy(held[0]))
    document = {
        **{"owner": owner, "host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%F %T")},
        **{"machine": _machine(), "token": uuid.uuid4().hex, "seconds": seconds, "renewed": time.time()},
    }
    seen = _put(server, index, document, None if held is None else held[1])
    if seen is None:
        held = _read(server, index)
        raise WriterBusyError(_busy(held[0] if held else {}))
    lease = WriterLease(server, index, seconds, document, seen)
    lease.keep()
    return lease


def _abandoned(server: Server, index: str, document: Mapping[str, Any], seen: state.StateTokens) -> bool:
    """Whether its holder is dead: a process of this machine that is there no more, or nobody renews it."""
    if document["machine"] == _machine() and not _alive(int(document["pid"])):
        return True
    if time.time() - document["renewed"] < document["seconds"]:
        return False
    time.sleep(document["seconds"] * _WATCHED)
    now = _read(server, index)
    return now is None or now[1] == seen


def _machine() -> str:
    """Where process ids mean the same: one boot of a system and, on Linux, one name space (containers have theirs)."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{socket.gethostname()} {uuid.getnode()}"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _who(document: Mapping[str, Any]) -> str:
    if not document:
        return "another process"
    return f"{document['owner']} (process {document['pid']} on {document['host']}, since {document['since']})"


def _busy(document: Mapping[str, Any]) -> str:
    return f"Another process is writing to the index: {_who(document)}. Wait for it or stop it."


def _read(server: Server, index: str) -> tuple[Mapping[str, Any], state.StateTokens] | None:
    return state.read_state(server, index, _DOCUMENT, _DOING)


def _put(
    server: Server, index: str, document: Mapping[str, Any], seen: state.StateTokens | None
) -> state.StateTokens | None:
    """None where somebody else has written meanwhile."""
    written = state.write_state(server, index, _DOCUMENT, document, seen, _DOING)
    if written is None:
        held = _read(server, index)  # a try whose answer was lost has written it
        return held[1] if held is not None and held[0]["token"] == document["token"] else None
    return written
