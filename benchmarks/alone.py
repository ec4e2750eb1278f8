"""One size of a benchmark in a process of its own, so that its memory is its own."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any


def command(module: str, *given: str) -> list[str]:
    """What runs `python -m MODULE GIVEN …` with this Python."""
    return [sys.executable, "-W", "ignore", "-m", module, *given]


def figures(module: str, size: int) -> Iterator[dict[str, Any]]:
    """The lines of JSON that `python -m MODULE one SIZE FOLDER` prints, as they come; the folder is a new one.

    Raises subprocess.CalledProcessError where it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        arguments = command(module, "one", str(size), folder)
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as run:
            for line in run.stdout or ():
                if line.startswith("{"):
                    yield json.loads(line)
        if run.returncode:
            raise subprocess.CalledProcessError(run.returncode, arguments)
