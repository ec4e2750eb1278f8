"""Worker processes end with their process, however it ends."""

import os
import signal
import subprocess
import sys
import time

import pytest
from sessions import live_members, wait_for_end_of_session

_PROGRAM = """
import signal, time
from ragindex import workers

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in jobs that a shell started in the background

def work(number):
    time.sleep(0.2)
    return number

workers.SERIAL_SECONDS = 0.0
with workers.use_workers(2):
    for number in workers.map_in_processes(work, range(10_000)):
        print(number, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="process groups")
@pytest.mark.parametrize("signalled", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_process(signalled: signal.Signals) -> None:
    """Without a guard for `__main__`: workers do not import the caller's program."""
    program = [sys.executable, "-c", _PROGRAM]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True) as run:
        assert run.stdout is not None
        run.stdout.readline()
        assert len(live_members(run.pid)) >= 3
        os.kill(run.pid, signalled)
        run.stdout.read()
    wait_for_end_of_session(run.pid)


_LARGE_ITEMS = """
from ragindex import workers

workers.SERIAL_SECONDS = 0.0
with workers.use_workers(2):
    print("ready", flush=True)
    list(workers.map_in_processes(len, [b"x" * 10_000_000] * 4))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="process groups")
def test_workers_end_with_a_process_that_is_killed_while_it_writes_their_first_item() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _LARGE_ITEMS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as run:
        assert run.stdout is not None
        run.stdout.readline()
        while not (started := live_members(run.pid, "LokyProcess")):
            time.sleep(0.01)
        for pid in started:
            os.kill(pid, signal.SIGSTOP)  # so that the item, larger than a pipe, stays half written
        time.sleep(2.0)
        started = live_members(run.pid, "LokyProcess")
        run.kill()
        run.wait()
        for pid in started:
            os.kill(pid, signal.SIGCONT)
        wait_for_end_of_session(run.pid)
