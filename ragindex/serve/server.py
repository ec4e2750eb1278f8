"""Running a service with uvicorn, until it is told to stop."""

import socket
import warnings
from collections.abc import Callable

import uvicorn

from ragindex.errors import StaleWarning, UsageError
from ragindex.serve.app import create_app
from ragindex.serve.service import Service
from ragindex.serve.web import quiet_config

_GRACE_SECONDS = 10
"""How long requests in progress may go on after the server was told to stop."""
_BACKLOG = 512


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
        create_app(service), lifespan="on", timeout_keep_alive=10, timeout_graceful_shutdown=_GRACE_SECONDS
    )
    return uvicorn.Server(config)


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
