"""Running a service with uvicorn, until it is told to stop."""

import asyncio
import math
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable

import uvicorn

from ragindex.errors import StaleWarning, UsageError
from ragindex.serve.app import create_app
from ragindex.serve.connections import ACCEPTED_AT_ONCE, make_protocol
from ragindex.serve.service import Service
from ragindex.serve.web import quiet_config

_GRACE_SECONDS = 1
"""How long requests in progress may go on, beyond the time of a request, after the server was told to stop."""
_BACKLOG = 512


class _Server(uvicorn.Server):
    """A server that reads its keys again on SIGHUP, and stops if that says that its terminal is gone."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(_BACKLOG)  # asyncio has set it to the number that it accepts at once
        if sys.platform != "win32" and threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._hang_up, _find_terminals())

    def _hang_up(self, terminals: frozenset[int]) -> None:
        if terminals and not terminals & _find_terminals():
            self.should_exit = True
        else:
            self._service.reload_keys()


def _find_terminals() -> frozenset[int]:
    """Return which of standard input, output and error are a terminal that is still there."""
    return frozenset(filter(os.isatty, range(3)))


def run_server(service: Service, announce: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; requests in progress then end first. Raises UsageError if the port is taken."""
    settings = service.settings
    listening = bind_address(settings.host, settings.port)
    host, port = listening.getsockname()[:2]
    announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")
    with listening, warnings.catch_warnings():
        if not settings.read_only:
            warnings.simplefilter("ignore", StaleWarning)  # the server's own sync makes the parts anew
        make_uvicorn(service).run([listening])


def make_uvicorn(service: Service) -> uvicorn.Server:
    """Return the server."""
    config = quiet_config(
        create_app(service),
        http=make_protocol(service.settings.limits),
        log_config=None,
        backlog=ACCEPTED_AT_ONCE,
        lifespan="on",
        timeout_keep_alive=10,
        timeout_graceful_shutdown=math.ceil(service.settings.limits.timeout) + _GRACE_SECONDS,
    )
    return _Server(config, service)


def bind_address(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises UsageError if the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once (TCP_NODELAY) only if the protocol is named; else a kept connection waits 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise UsageError(
            f"The server cannot listen on {host}:{port}: {error.strerror or error}. Try --port."
        ) from error
    return listening
