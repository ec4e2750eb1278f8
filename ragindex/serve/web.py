"""Settings of uvicorn, connections bounded in number and in time, and the policy of pages.

uvicorn itself waits without end for the first request of a connection, for the rest of a header, and for a client to
read its answer.
"""

import asyncio
import sys
from typing import TYPE_CHECKING, Any, ClassVar

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:  # a page to judge needs uvicorn alone
    from ragindex.serve.config import RequestLimits

if sys.platform != "win32":
    import resource

ACCEPTED_AT_ONCE = 64
"""Connections that asyncio accepts before it looks at any. Those beyond the cap are closed a few such rounds later."""
_FOR_FILES = 512
"""Descriptors that connections leave: for files of indexes, and for what is accepted beyond the cap."""


def bound_connections(connections: int) -> int:
    """Return how many connections may be open at once; raises the limit of descriptors where the system allows it."""
    if sys.platform == "win32":
        return connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + _FOR_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return connections
    if hard == resource.RLIM_INFINITY or hard > soft:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(connections, max(soft - _FOR_FILES, soft // 4))


class _GatheringTransport(asyncio.Transport):
    """A transport that sends in one call what is written in one round of the event loop: head and body of an answer."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport, self._loop = transport, loop
        self._pieces = list[bytes]()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces.append(bytes(data))

    def _flush(self) -> None:
        pieces, self._pieces = self._pieces, []
        if pieces:
            self._transport.write(b"".join(pieces))

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        self._pieces = []
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()


class BoundedProtocol(H11Protocol):
    """A connection that is closed when a request does not arrive in time or its answer is not read.

    Beyond the cap, the connection whose request has not come for the longest time is closed for a new one.
    """

    most: ClassVar[int]
    limits: ClassVar["RequestLimits"]

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._waits_since = 0.0
        self._arriving: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None

    @property
    def _is_idle(self) -> bool:
        """Whether no request is read or answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def _waits(self) -> bool:
        """Whether the client has not sent a whole request."""
        return self._is_idle or self.cycle.more_body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection; beyond the cap, close the one that waits for the longest time: this one at worst."""
        super().connection_made(_GatheringTransport(transport, self.loop))
        self._waits_since = self.loop.time()
        self._await_request()
        if len(self.connections) > self.most:
            waiting = [
                connection
                for connection in self.connections
                if isinstance(connection, BoundedProtocol) and connection._waits
            ]
            min(waiting, key=lambda connection: connection._waits_since).drop()

    def data_received(self, data: bytes) -> None:
        """Take what the client sends. What comes between requests must become a request in time."""
        super().data_received(data)
        if not self._is_idle:
            self._stop_waiting()
        elif self._arriving is None:
            self._await_request()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._waits_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Watch whether the client reads what has been written."""
        super().pause_writing()
        self._watch_reading(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        if self._reading is not None:
            self._reading.cancel()
        super().connection_lost(exc)

    def drop(self) -> None:
        """Close the connection at once, also if the client does not read."""
        self.connections.discard(self)
        self.transport.abort()

    def _await_request(self) -> None:
        self._arriving = self.loop.call_later(self.limits.header_timeout, self.drop)

    def _stop_waiting(self) -> None:
        if self._arriving is not None:
            self._arriving.cancel()
            self._arriving = None

    def _watch_reading(self, left: int) -> None:
        self._reading = self.loop.call_later(self.limits.timeout, self._drop_unread, left)

    def _drop_unread(self, before: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left < before:
            self._watch_reading(left)
        else:
            self.drop()


def make_protocol(limits: "RequestLimits") -> type[asyncio.Protocol]:
    """Return what uvicorn makes connections with."""
    bounds = {"most": bound_connections(limits.connections), "limits": limits}
    return type(BoundedProtocol.__name__, (BoundedProtocol,), bounds)


def page_policy(nonce: str, images: str = "") -> str:
    """Return the content security policy of a page: its own script and style by nonce, requests to its own server.

    `images` are the sources of images; none if it is "".
    """
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; "
        f"{f'img-src {images}; ' if images else ''}base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def quiet_config(app: Any, **options: Any) -> uvicorn.Config:
    """Return the settings of a server that trusts no proxy's headers, logs warnings only and says nothing of itself."""
    return uvicorn.Config(
        app, access_log=False, log_level="warning", proxy_headers=False, server_header=False, ws="none", **options
    )
