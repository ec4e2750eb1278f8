"""The process that reads files: it may need too much of everything, or crash, and the process that asked goes on.

It imports the readers and little more, says that it is ready, and answers requests until its input ends.
"""

import math
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

from ragindex.corpus.readers import READERS
from ragindex.corpus.readers.messages import (
    OUT_OF_MEMORY,
    ReadingLimits,
    dump_json,
    list_content,
    load_json,
    receive,
    send,
)
from ragindex.errors import DataError, MissingExtraError

_IDLE_SECONDS = 60
"""Seconds without a request after which the process ends."""
_SPARE_SECONDS = 5


def main() -> None:
    """Answer requests from standard input on standard output, where nothing else is written from now on."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes of a terminal; the parent decides
    sys.excepthook = lambda kind, error, trace: _answer_fault(answers, f"{kind.__name__}: {error}")
    send(answers, b"")
    while True:
        _set_alarm(_IDLE_SECONDS)
        request, raw = receive(requests), receive(requests)
        _set_alarm(0)
        if request is None or raw is None:
            return
        send(answers, _answer(load_json(request), raw))


def _answer(request: dict[str, Any], raw: bytes) -> bytes:
    limits, path = ReadingLimits(**request["limits"]), Path(request["path"])
    _limit_process(limits)
    try:
        content = READERS[request["suffix"]](raw, path, request["encoding"])
        characters = len(content.text) + sum(len(heading) for one in content.sections for heading in one.headings)
        if characters > limits.characters:
            return dump_json({"characters": characters})
        return dump_json(list_content(content))
    except DataError as error:
        return dump_json({"expected": error.expected, "found": error.found, "line": error.line})
    except MissingExtraError as error:
        found = f"none: {error}".removesuffix(".")
        return dump_json({"expected": f"an installed reader of {path.suffix} files", "found": found, "line": None})
    except MemoryError:
        os._exit(OUT_OF_MEMORY)  # what is left may not be enough to say so


def _answer_fault(answers: BinaryIO, fault: str) -> None:
    send(answers, dump_json({"fault": fault}))


def _set_alarm(seconds: int) -> None:
    """Let the system end this process after so many seconds (0: never), where it can."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)


def _limit_process(limits: ReadingLimits) -> None:
    """Limit memory and time of this process, where the system can.

    Time is the parent's to measure; a process that no parent ends any more has this limit too.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seconds = math.ceil(time.process_time() + limits.seconds) + _SPARE_SECONDS
    _lower_limit(resource, resource.RLIMIT_CPU, seconds)
    if sys.platform == "linux":  # elsewhere it is not kept, or the libraries alone are above it
        _lower_limit(resource, resource.RLIMIT_AS, limits.memory)


def _lower_limit(resource: Any, kind: int, limit: int) -> None:
    _, most = resource.getrlimit(kind)
    resource.setrlimit(kind, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))
