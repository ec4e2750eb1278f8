"""Commands in processes of their own, forked from one that has imported everything and used nothing.

`with ForkedCommands() as commands:` gives `commands.start(...)`, which returns a process that may be killed at any
moment. Comparisons are recorded in MLflow only on demand, and waits between attempts are short.
"""

import gc
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Self

import pytest
from forking import fork_for_requests
from made_language import QUICK
from unrecorded import record_nothing

from ragindex.cli import main as command_line
from ragindex.llm import rate_limits

_USED = ("lancedb", "pyarrow", "scipy.sparse", "scipy.stats", "sklearn.decomposition", "pandas", "httpx", "mlflow")
"""What commands import when they need it."""
_PACKAGES = ("ragindex.cli", "ragindex.parts", "ragindex_baselines", "ragindex_retrievers", "ragindex_eval")


@dataclass(frozen=True)
class RunningCommand:
    """A command in a process; what it prints is in two files."""

    process: int
    parent: subprocess.Popen[str]
    folder: Path

    def wait(self) -> int:
        """Return the exit code, or the negative number of the signal that ended it."""
        assert self.parent.stdout is not None
        return int(self.parent.stdout.readline())

    @property
    def errors(self) -> str:
        return (self.folder / "stderr.txt").read_text(encoding="utf-8")


class ForkedCommands:
    """The process that commands are forked from; one command runs at a time."""

    def __enter__(self) -> Self:
        self._parent = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "forked_commands"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert self._parent.stdout is not None
        assert self._parent.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.close()
        self._parent.wait()
        self._parent.stdout.close()

    def start(
        self, *arguments: str, folder: Path, environment: Mapping[str, str], recorded: bool = False
    ) -> RunningCommand:
        """Start a command in a folder; `recorded` comparisons are recorded in MLflow."""
        request = {"arguments": arguments, "folder": str(folder), "recorded": recorded}
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(json.dumps({**request, "environment": dict(environment)}) + "\n")
        self._parent.stdin.flush()
        return RunningCommand(int(self._parent.stdout.readline()), self._parent, folder)


# ---------------------------------------------------------------- the processes


def _import_everything() -> None:
    for name in _USED:
        importlib.import_module(name)
    for package in map(importlib.import_module, _PACKAGES):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if "plugin_template" not in module.name and not module.name.endswith("__main__"):
                importlib.import_module(module.name)


def _run(request: Mapping[str, Any]) -> NoReturn:
    """Nothing else runs in this process: it is a copy."""
    status = 1
    try:
        os.chdir(request["folder"])
        os.environ.update(request["environment"])
        for number, name in ((1, "stdout.txt"), (2, "stderr.txt")):
            os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), number)
        sys.argv = ["ragindex", *request["arguments"]]
        rate_limits.Clock = lambda: QUICK  # type: ignore[assignment,misc]
        with pytest.MonkeyPatch.context() as patch:
            if not request["recorded"]:
                record_nothing(patch)
            command_line.run_cli()
    except SystemExit as ended:
        status = int(ended.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    _import_everything()
    gc.freeze()  # what is imported stays shared with the copies
    fork_for_requests(_run)
