"""What a comparison was made with; neither the machine's name nor its folders are in it."""

import os
import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ragindex.workspace import manifest

_CPUS = Path("/proc/cpuinfo")  # Linux; elsewhere Python knows the model


@cache
def environment() -> Mapping[str, str]:
    """The system, the processors, and versions of Python and of the libraries that figures can depend on."""
    machine = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "processors": str(_usable() or "unknown"),
    }
    return {**machine, **manifest.libraries()}


def _processor() -> str:
    """The model, as the system names it."""
    try:
        lines = _CPUS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or "unknown"


def _usable() -> int | None:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
