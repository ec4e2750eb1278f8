"""Processes of a session, such as a child with start_new_session and its workers."""

import subprocess
import time

_SECONDS = 30.0


def live_members(session: int, named: str = "") -> list[int]:
    """Return the ids of the processes of a session that are alive and whose command holds `named`."""
    program = ["ps", "-ww", "-s", str(session), "-o", "pid=,stat=,args="]
    listing = subprocess.run(program, capture_output=True, text=True, check=False)
    rows = [line.split(maxsplit=2) for line in listing.stdout.splitlines()]
    return [int(pid) for pid, state, command in rows if not state.startswith("Z") and named in command]


def wait_for_end_of_session(session: int) -> None:
    """Wait until no process of a session is alive. Raises AssertionError if some live on."""
    deadline = time.monotonic() + _SECONDS
    while (left := live_members(session)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []
