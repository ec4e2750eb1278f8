"""Sync processes of servers, forked from one that has imported everything: to import LanceDB takes seconds.

A server starts a small program in place of the module `ragindex.serve.sync_process`. It passes what it was given on to
the process that forks, and ends with the exit code of the fork. A fork is killed when its program is.
"""

import asyncio
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from ragindex.serve import sync_process

_MODULE = sync_process.__name__
_IMPORTED = ("lancedb.background_loop", "pyarrow.compute", "httpx", "scipy.sparse", "sklearn.decomposition")
_PROGRAM = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    socket.send_fds(connection, [b"\\n"], [0, 1, 2])
    request = {"arguments": sys.argv[2:], "environment": dict(os.environ), "folder": os.getcwd()}
    connection.sendall(json.dumps(request).encode() + b"\\n")
    os._exit(int(connection.recv(16)))
"""
CAN_FORK = hasattr(os, "pidfd_open")


@contextmanager
def forked_syncs(folder: Path) -> Iterator[Callable[..., Any]]:
    """Yield what starts sync processes in place of `asyncio.create_subprocess_exec`."""
    address, start = str(folder / "forks"), asyncio.create_subprocess_exec

    async def start_forked(program: str, *arguments: str, **options: Any) -> asyncio.subprocess.Process:
        if arguments[:2] != ("-m", _MODULE):
            return await start(program, *arguments, **options)
        return await start(program, "-I", "-S", "-c", _PROGRAM, address, *arguments[1:], **options)

    command = [sys.executable, "-W", "ignore", __file__, address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield start_forked
        process.stdin.close()


# ---------------------------------------------------------------- the process that forks


def _fork_on_demand(address: str) -> None:
    """Fork a process for each connection, until standard input ends."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        print("ready", flush=True)
        while sys.stdin not in select.select([sys.stdin, listening], [], [])[0]:
            connection, _ = listening.accept()
            if not os.fork():
                _watch_sync(connection)
            connection.close()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:  # those that have ended
                    pass


def _watch_sync(connection: socket.socket) -> NoReturn:
    """Fork the sync process of a connection and report its exit code; kill it when the connection ends."""
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile("rb") as lines:
        request = json.loads(lines.readline())
    process = os.fork()
    if not process:
        _run_sync(descriptors, **request)
    for descriptor in descriptors:
        os.close(descriptor)
    ended = os.pidfd_open(process)
    if ended not in select.select([ended, connection], [], [])[0]:
        os.kill(process, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with suppress(OSError):
        connection.sendall(str(code).encode())
    os._exit(0)


def _run_sync(
    descriptors: Sequence[int], arguments: list[str], environment: Mapping[str, str], folder: str
) -> NoReturn:
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    try:
        sync_process.run_process()  # which ends the process
    finally:
        traceback.print_exc()
        os._exit(1)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name in _IMPORTED:
        importlib.import_module(name)
    del sys.path[0]  # of this file: no server has it
    gc.freeze()  # what is imported stays shared with the forks
    _fork_on_demand(sys.argv[1])
