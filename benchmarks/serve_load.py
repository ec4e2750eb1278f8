"""A server under load: latencies and throughput at 1, 8 and 32 clients, beside a sync, and memory over many requests.

    .venv/bin/python -m benchmarks.serve_load build FOLDER [SIZE]
    .venv/bin/python -m benchmarks.serve_load load FOLDER METHOD [SECONDS]
    .venv/bin/python -m benchmarks.serve_load route FOLDER METHOD [SECONDS]
    .venv/bin/python -m benchmarks.serve_load sync FOLDER METHOD [SECONDS]
    .venv/bin/python -m benchmarks.serve_load memory FOLDER METHOD REQUESTS

Passages and questions are those of worlds. Clients are one process that keeps a connection per client; `bare` are as
many threads that call the retriever in a process without a server; `route` has a bare Starlette route in their place.
Both are measured in turn, so that other work on the machine meets both; give ratios where it was not quiet, of `route`
those of the processes' CPU time. `sync` leaves 1,000 documents more in the index.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

import ragindex
from benchmarks import alone
from benchmarks.load_clients import K
from ragindex_eval.data import worlds

CLIENTS, TURNS = (1, 8, 32), 2
METHODS = ("hybrid", "hipporag(mode=facts)")
KEY = "write-key-of-the-benchmark"


def build(folder: Path, size: int) -> None:
    """Build the index; a second run goes on where the first was stopped."""
    with ragindex.open(folder, encoder="lsa:384", create=True, chunking=None) as index:
        if not len(index):
            index.add(list(worlds.make_documents(size)), source="served")
        for method in METHODS:
            start = time.perf_counter()
            index.build(method)
            print(f"{method}: {time.perf_counter() - start:.0f} s", flush=True)


@cache
def questions() -> list[str]:
    """Some questions of all kinds, mixed."""
    texts = [question.text for question in worlds.make_questions(1_000, per_kind=30)]
    return [texts[number] for number in np.random.default_rng(0).permutation(len(texts))]


def run_clients(port: int, clients: int, seconds: float) -> list[float]:
    """Run the clients in a process of their own; return the milliseconds of each request."""
    command = alone.command("benchmarks.load_clients", str(port), str(clients), str(seconds))
    texts = json.dumps(questions())
    milliseconds: list[float] = json.loads(
        subprocess.run(command, input=texts, capture_output=True, text=True, check=True).stdout
    )
    return milliseconds


# ---------------------------------------------------------------- the server, and the bare retriever


@contextmanager
def server(folder: Path, method: str) -> Iterator[tuple[int, int]]:
    """A server process; gives its port and process id."""
    command = [sys.executable, "-m", "ragindex", "serve", f"docs={folder}", "--method", method, "--port", "0"]
    environment = {**os.environ, "RAGINDEX_WRITE_KEY": KEY}
    with open(os.devnull, "w") as nothing:
        running = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=nothing, text=True)
    assert running.stderr is not None
    try:
        address = next(line for line in running.stderr if "Serving docs at " in line).rpartition(":")[2]
        threading.Thread(target=running.stderr.read, daemon=True).start()  # else its log fills the pipe
        yield int(address), running.pid
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait()


@contextmanager
def bare_route(folder: Path, method: str) -> Iterator[tuple[int, int]]:
    """A process with a bare Starlette route around the same method; gives its port and process id."""
    command = alone.command("benchmarks.bare_route", str(folder), method)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            yield int(running.stdout.readline()), running.pid
        finally:
            running.kill()


def ask_bare(retriever: Any, clients: int, seconds: float) -> list[float]:
    """Search in `clients` threads for a time; return the milliseconds of each search."""
    texts, taken = questions(), list[float]()
    until = time.perf_counter() + seconds

    def ask_repeatedly(number: int) -> None:
        while time.perf_counter() < until:
            start = time.perf_counter()
            retriever.search(texts[number % len(texts)], k=K)
            taken.append(1e3 * (time.perf_counter() - start))
            number += clients

    threads = [threading.Thread(target=ask_repeatedly, args=[number]) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return taken


def figures(taken: list[float], seconds: float) -> str:
    """Format latencies and throughput."""
    p50, p95, p99 = np.percentile(taken, [50, 95, 99])
    return f"p50 {p50:8.1f}  p95 {p95:8.1f}  p99 {p99:8.1f} ms  {len(taken) / seconds:7.1f} /s  ({len(taken)} requests)"


# ---------------------------------------------------------------- measurements


def load(folder: Path, method: str, seconds: float) -> None:
    """Measure served and bare in turn."""
    with ragindex.open(folder, read_only=True) as index, server(folder, method) as (port, _):
        retriever = index.retriever(method)
        ask_bare(retriever, 1, 2)
        run_clients(port, 1, 2)
        for clients in CLIENTS:
            served, bare = list[float](), list[float]()
            for _ in range(TURNS):
                served += run_clients(port, clients, seconds / TURNS)
                bare += ask_bare(retriever, clients, seconds / TURNS)
            print(f"{method:22s}{clients:3d} clients  {figures(served, seconds)}", flush=True)
            ratio = len(served) / len(bare)
            print(f"{'':22s}{clients:3d} threads  {figures(bare, seconds)}  served/bare {ratio:.2f}", flush=True)


def route(folder: Path, method: str, seconds: float) -> None:
    """Measure the server and a bare Starlette route in turn."""
    with bare_route(folder, method) as bare, server(folder, method) as served:
        for port, _ in (served, bare):
            run_clients(port, 1, 2)
        for clients in CLIENTS:
            taken, used = {served: list[float](), bare: list[float]()}, {served: 0.0, bare: 0.0}
            for target in [served, bare] * TURNS:
                before = _cpu_seconds(target[1])
                taken[target] += run_clients(target[0], clients, seconds / TURNS)
                used[target] += _cpu_seconds(target[1]) - before
            cost = {target: 1e3 * used[target] / len(taken[target]) for target in used}
            for name, target in (("served", served), ("bare", bare)):
                print(
                    f"{clients:3d} clients  {name:6s}  {figures(taken[target], seconds)}  CPU {cost[target]:.2f} ms",
                    flush=True,
                )
            ratio = len(taken[served]) / len(taken[bare])
            print(f"{'':13s}served/bare {ratio:.2f}, by CPU time {cost[bare] / cost[served]:.2f}", flush=True)


def _cpu_seconds(process: int) -> float:
    times = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def sync(folder: Path, method: str, seconds: float) -> None:
    """Measure 8 clients before, beside and after a sync of 1,000 documents."""
    with server(folder, method) as (port, _), httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
        run_clients(port, 8, 2)
        print(f"{method}, 8 clients, alone:  {figures(run_clients(port, 8, seconds), seconds)}", flush=True)
        documents = [
            {"id": f"more {each.id}", "title": each.title, "text": f"More. {each.text}"}
            for each in list(worlds.make_documents(1000, seed=int(time.time())))[:1000]
        ]
        start = time.perf_counter()
        http.post(
            "/documents", json={"documents": documents}, headers={"Authorization": f"Bearer {KEY}"}
        ).raise_for_status()
        taken = list[float]()
        while not _is_synced(http):
            taken += run_clients(port, 8, 5)
        took = time.perf_counter() - start
        print(f"{method}, 8 clients, beside: {figures(taken, took)}, sync {took:.0f} s", flush=True)
        print(f"{method}, 8 clients, after:  {figures(run_clients(port, 8, seconds), seconds)}", flush=True)


def _is_synced(http: httpx2.Client) -> bool:
    state = http.get("/ready").json()["collections"]["docs"]
    assert not state["sync_failure"], state
    return state["pending"] == 0 and bool(state["newest"])


def memory(folder: Path, method: str, requests: int) -> None:
    """Measure the server's memory after each tenth of the requests."""
    with server(folder, method) as (port, process):
        done = 0
        while done < requests:
            done += len(run_clients(port, 8, 20))
            print(f"{method}: {done:7d} requests, {_resident(process):7.1f} MB", flush=True)


def _resident(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1e3


def main(what: str, *given: str) -> None:
    """Run one of the measurements."""
    match what:
        case "build":
            build(Path(given[0]), int(given[1]) if given[1:] else 100_000)
        case "load":
            load(Path(given[0]), given[1], float(given[2]) if given[2:] else 20.0)
        case "route":
            route(Path(given[0]), given[1], float(given[2]) if given[2:] else 20.0)
        case "sync":
            sync(Path(given[0]), given[1], float(given[2]) if given[2:] else 20.0)
        case "memory":
            memory(Path(given[0]), given[1], int(given[2]))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["help"]))
