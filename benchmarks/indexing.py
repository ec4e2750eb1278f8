"""Time, peak memory and size of building each method in an index and a process of its own.

    .venv/bin/python -m benchmarks.indexing DATA ENCODER [METHODS] [TRIPLES]

DATA is a data set, METHODS are separated by semicolons (default: all), and TRIPLES is a file of published
extractions; without it, rules extract. Seconds include starting Python and loading the encoder. Another
version of ragindex is measured by putting its folders on PYTHONPATH.
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.alone import command
from ragindex.plugins import registry


def main(data: str, encoder: str, methods: str = "", triples: str = "") -> None:
    print(f"{'':28} {'seconds':>8} {'cpu s':>8} {'peak MB':>8} {'index MB':>9}", flush=True)
    for method in methods.split(";") if methods else registry.plugin_names("schemes"):
        given = ("--methods", method, "--encoder", encoder, "--llm", "offline")
        row = _build(data, *given, "--triples", triples) if triples else None  # refused if the method uses none
        row = row or _build(data, *given)
        print(f"{method:28} " + ("{:8.1f} {:8.1f} {:8.0f} {:9.1f}".format(*row) if row else "failed"), flush=True)


def _build(data: str, *given: str) -> tuple[float, float, float, float] | None:
    """Return seconds, processor seconds, peak memory and size of the index in MB; None if the command fails."""
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        start = time.perf_counter()
        code, used = _run(command("ragindex.cli.main", "index", data, "--index", str(index), *given))
        seconds = time.perf_counter() - start
        size = sum(path.stat().st_size for path in index.rglob("*") if path.is_file())
    return None if code else (seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, size / 1e6)


def _run(program: list[str]) -> tuple[int, Any]:
    """Run a program without output; return its exit code and what it used (struct_rusage)."""
    silent = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    pid = os.posix_spawn(program[0], program, os.environ, file_actions=silent)
    _, status, used = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), used


if __name__ == "__main__":
    main(*sys.argv[1:])
