"""A Dask cluster of processes: a scheduler and workers of one thread, each in a session of its own to be killed in."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

SUPPORT = Path(__file__).parent
_ADDRESS = re.compile(r"Scheduler at:\s+(tcp://\S+)")
_PATIENCE = 60.0


@dataclass
class Cluster:
    """Scheduler and workers, whose output is in `folder`."""

    folder: Path
    scheduler: "subprocess.Popen[bytes]" = field(init=False)
    address: str = field(init=False)
    workers: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.scheduler = self._start("scheduler", {}, "--port", "0", "--host", "tcp://127.0.0.1")
        self.address = self._await("scheduler", _ADDRESS)

    def add_worker(self, nanny: bool = True, **variables: str) -> None:
        """With a nanny, a worker that dies is started again. Returns when the scheduler knows the worker."""
        name = f"worker-{len(self.workers)}"
        options = ("--nthreads", "1", "--local-directory", str(self.folder), "--nanny" if nanny else "--no-nanny")
        self.workers.append(self._start(name, variables, self.address, *options))
        self._await(name, re.compile(r"Registered to:\s+(tcp://\S+)"))

    def kill_worker(self, number: int) -> None:
        """Kill a worker with its nanny."""
        kill(self.workers[number])

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            kill(process)

    def _start(self, name: str, variables: Mapping[str, str], *options: str) -> "subprocess.Popen[bytes]":
        module = "distributed.cli.dask_scheduler" if name == "scheduler" else "distributed.cli.dask_worker"
        paths = [*filter(None, (variables.get("PYTHONPATH"),)), str(SUPPORT)]
        environment = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(paths)}
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", module, "--no-dashboard", *options],
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def _await(self, name: str, pattern: "re.Pattern[str]") -> str:
        log, end = self.folder / f"{name}.log", time.monotonic() + _PATIENCE
        while (match := pattern.search(log.read_text())) is None:
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        return match[1]


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process with all of its session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def cluster(folder: Path, workers: int = 2, **variables: str) -> Iterator[Cluster]:
    """A cluster that ends with the block."""
    running = Cluster(folder)
    try:
        for _ in range(workers):
            running.add_worker(**variables)
        yield running
    finally:
        running.close()
