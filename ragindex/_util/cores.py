"""How many cores this process may use, and how our work and the libraries that start threads are kept to them.

NumPy's BLAS starts a thread per core for every product. Several searches at once then run cores times as many threads
as there are cores, which wait for one another: throughput falls to a tenth.
"""

import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import BoundedSemaphore, Condition, Thread, local
from typing import Any

from threadpoolctl import ThreadpoolController

LINGER = 1.0
"""Seconds without a search after which BLAS gets its threads back."""


@cache
def available_cores() -> int:
    """Return the cores of this process: of its affinity and of the limits of its control groups, at least 1.

    LOKY_MAX_CPU_COUNT lowers it, as for scikit-learn. Parts of a core count as one. `joblib.cpu_count` counts alike,
    but for limits below the topmost group, and its import takes longer than a search.
    """
    quota = read_cgroup_limit()
    counts = [os.cpu_count() or 1, math.ceil(quota) if math.isfinite(quota) else sys.maxsize]
    if hasattr(os, "sched_getaffinity"):
        counts.append(len(os.sched_getaffinity(0)))
    if limit := os.environ.get("LOKY_MAX_CPU_COUNT"):
        counts.append(int(limit))
    return max(1, min(counts))


def read_cgroup_limit(root: Path = Path("/")) -> float:
    """Return the cores that the control groups (cgroups) of this process allow, infinity without a limit.

    A limit is a quota divided by a period, in the group of a container or a service, or in one above it: the lowest
    holds. Both versions of cgroups are read, in `proc` and `sys` of `root`. (joblib reads the topmost group only.)
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return math.inf
    limits = [math.inf]
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if not controllers or "cpu" in controllers.split(","):
            top = root / "sys/fs/cgroup" / controllers
            group = top / path.lstrip("/")
            limits += [_read_quota(folder) for folder in (group, *group.parents) if folder.is_relative_to(top)]
    return min(limits)


def _read_quota(group: Path) -> float:
    """Return the quota of a control group in cores; infinity if it has none or is not visible from a container."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return int(quota) / int(period) if int(quota) > 0 else math.inf
    except (OSError, ValueError):  # no such file, or "max"
        return math.inf


@contextmanager
def limit_blas(threads: int) -> Iterator[None]:
    """Keep BLAS to `threads` threads per product inside the block, for the whole process.

    Blocks of several threads may overlap: the lowest limit holds. LINGER seconds after the last block, the limits are
    as they were before the first.
    """
    _limits.enter(threads)
    try:
        yield
    finally:
        _limits.leave(threads)


@contextmanager
def search_slot() -> Iterator[None]:
    """Do the work of a search that needs no network: one thread per core at a time, each with one BLAS thread.

    More threads than cores would only take turns holding Python's interpreter lock. A thread that has a slot gets no
    second one. Callers may be inside `limit_blas` already: entering it again takes microseconds.
    """
    with limit_blas(1):
        if getattr(_mine, "has_slot", False):
            yield
            return
        with _slots():
            _mine.has_slot = True
            try:
                yield
            finally:
                _mine.has_slot = False


_mine = local()


@cache
def _slots() -> BoundedSemaphore:
    return BoundedSemaphore(available_cores())


class _BlasLimits:
    """The limits of all blocks that are open in this process, set by one thread.

    threadpoolctl lets only the first thread that limits OpenBLAS change the limit, as long as that thread lives. So one
    thread sets all limits; if another thread of the application was first, the application's limit holds. The limits
    from before return a while after the last block: OpenBLAS allocates its buffers anew with every change, which costs
    more than a search.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._open: list[int] = []
        self._set: int | None = None
        self._idle_since = 0.0
        self._thread: Thread | None = None
        self._before: Any = None
        self._controller: Any = None
        self._libraries: frozenset[str] | None = None  # paths of the BLAS libraries that the limits were set in
        self._modules = 0  # modules that were loaded when their libraries were looked up

    def enter(self, threads: int) -> None:
        with self._changed:
            self._open.append(threads)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="ragindex-blas-limits", daemon=True)
                self._thread.start()
            try:
                self._await_lowest()
            except BaseException:  # an interrupt while waiting: the block is not entered
                self._open.remove(threads)
                raise

    def leave(self, threads: int) -> None:
        with self._changed:
            self._open.remove(threads)
            self._idle_since = time.monotonic()
            self._await_lowest()

    def _await_lowest(self) -> None:
        """Wait until the lowest limit of the open blocks is set."""
        while self._is_due() and self._thread is not None and self._thread.is_alive():
            self._changed.notify_all()
            self._changed.wait(1.0)

    def _is_due(self) -> bool:
        return bool(self._open) and (min(self._open) != self._set or len(sys.modules) != self._modules)

    def _run(self) -> None:
        with self._changed:
            while True:
                left = self._idle_since + LINGER - time.monotonic()
                if self._is_due():
                    self._limit(min(self._open))
                    self._changed.notify_all()
                elif self._set is not None and not self._open and left <= 0:
                    self._restore()
                else:
                    self._changed.wait(None if self._set is None else LINGER if self._open else left)

    def _limit(self, threads: int) -> None:
        modules = len(sys.modules)
        if modules != self._modules:  # a package is listed before its library is loaded, and the library's module after
            controller = ThreadpoolController().select(user_api="blas")  # takes milliseconds
            libraries = frozenset(library.filepath for library in controller.lib_controllers)
            if libraries != self._libraries:
                self._restore()
                self._controller, self._libraries = controller, libraries
            self._modules = modules
        if threads != self._set:
            limiter = self._controller.limit(limits=threads)
            self._before = self._before or limiter
            self._set = threads

    def _restore(self) -> None:
        if self._before is not None:
            self._before.restore_original_limits()
        self._before = self._set = None


def _reset() -> None:
    """Start anew in a forked process, which has none of the threads."""
    global _limits
    _limits = _BlasLimits()
    _slots.cache_clear()


_limits = _BlasLimits()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset)
