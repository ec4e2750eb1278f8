"""Software and hardware of a comparison, without the name and the folders of the machine."""

import os
import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ragindex.index import manifest

_CPUS = Path("/proc/cpuinfo")  # on Linux; on other systems Python knows the model


@cache
def environment() -> Mapping[str, str]:
    """Return the system, the processors, and the versions of Python and of libraries that can affect the figures."""
    machine = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor_model(),
        "processors": str(_count_processors() or "unknown"),
    }
    return {**machine, **manifest.libraries()}


def _processor_model() -> str:
    """Return the processor model as the system names it."""
    try:
        lines = _CPUS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or "unknown"


def _count_processors() -> int | None:
    """Return the number of processors that this process may use; None if unknown."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
