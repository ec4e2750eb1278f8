"""Where files of tests are: in memory where enough is left, for tests wait on thousands of writes."""

import os
import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")


def folder_in_memory(needed: int) -> Path:
    """Return a folder in memory where so many bytes are left, else the folder of temporary files."""
    usable = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK)
    if usable and min(shutil.disk_usage(_MEMORY).free, _available_memory()) > needed:
        return _MEMORY
    return Path(tempfile.gettempdir())


def _available_memory() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), 0)
