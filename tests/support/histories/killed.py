"""Histories whose steps are done by real processes, killed with SIGKILL at any moment.

`python -m histories.killed` is what they are forked from: it has imported everything and used nothing. Each line of its
standard input is a step; it answers with the process that is at it, and how that ended.
"""

import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from forking import fork_for_requests

from histories.faults import pressed
from histories.played import WORK, History, Setting, Step, opened

_DRAWN_UP_TO = 150
"""A death at write n of so many is a kill at that share of the time that the work takes, by their logarithms."""


@dataclass
class Killed(History):
    """As any history, but that a step which dies is done by another process, and killed."""

    took: dict[str, float] = field(default_factory=dict)
    """Seconds that the last work of each kind took a process."""

    def _dying(self, work: Step, death: Sequence[Any]) -> bool:
        if not death:
            return super()._dying(work, death)
        name, given = work
        at = death[0] if isinstance(death[0], int) else len(death[0])
        share = math.log(min(at, _DRAWN_UP_TO)) / math.log(_DRAWN_UP_TO)
        request = {
            **{"folder": str(self.folder), "setting": asdict(self.setting), "encoder": self.encoder},
            **{"memory_gib": self.memory_gib, "name": name, "given": given},
        }
        seconds = share * self.took.get(name, 0.5)
        status, took = _at_work(request, seconds)
        self._forget()
        if status == -signal.SIGKILL:
            self.met.add(f"killed: {name}")
            self.took[name] = max(self.took.get(name, 0.0), took)
            return True
        assert status == 0, f"{name} ended with {status}"
        self.took[name] = took
        return False


def _at_work(request: Mapping[str, Any], seconds: float) -> tuple[int, float]:
    """How the process ended that is killed after so many seconds, and the seconds it was there."""
    requests, replies = _parent()
    os.write(requests, json.dumps(request).encode() + b"\n")
    process, begun = int(_line(replies)), time.monotonic()
    if not select.select([replies], [], [], seconds)[0]:
        os.kill(process, signal.SIGKILL)  # nobody has looked at how it ended, so the number is still its own
    return int(_line(replies)), time.monotonic() - begun


def _line(replies: int) -> bytes:
    """Nothing beyond it is read, so that what comes next can be waited for."""
    line = b""
    while not line.endswith(b"\n"):
        read = os.read(replies, 1)
        assert read, "the process that the others are forked from has ended"
        line += read
    return line


@cache
def _parent() -> tuple[int, int]:
    """It ends with this process: its standard input ends."""
    started = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "histories.killed"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    _STARTED.append(started)
    assert started.stdin is not None
    assert started.stdout is not None
    assert _line(started.stdout.fileno()) == b"ready\n"
    return started.stdin.fileno(), started.stdout.fileno()


_STARTED: list[subprocess.Popen[bytes]] = []  # whose pipes stay open


# ---------------------------------------------------------------- the processes


def _do(request: Mapping[str, Any]) -> NoReturn:
    """Nothing else runs in this process: it is a copy."""
    status = 1
    try:
        setting = Setting(**request["setting"])
        with pressed(setting.batch, setting.fragments):
            space = opened(Path(request["folder"]), setting, request["encoder"], request["memory_gib"])
            WORK[request["name"]](space, **request["given"])
        status = 0
    finally:
        if status:
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        os._exit(status)


if __name__ == "__main__":
    fork_for_requests(_do)
