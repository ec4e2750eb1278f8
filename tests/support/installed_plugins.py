"""A folder of installed plugins."""

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from unittest.mock import patch

import pytest

from ragindex._util import distribution
from ragindex.plugins import code_fingerprint, registry


@cache
def _environment() -> Mapping[str, list[str]]:
    """The distributions of every package that is really installed, which take a second to read."""
    return packages_distributions()


@dataclass
class Installed:
    """A folder on the import path, with distributions as pip would leave them."""

    folder: Path

    def distribution(self, name: str, entry_points: str, files: Mapping[str, str]) -> None:
        info = self.folder / f"{name}-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry_points)
        (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
        for file, code in files.items():
            self.write(file, code)
        self.reload()

    def write(self, file: str, code: str) -> None:
        (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / file).write_text(code)

    def packages(self) -> Mapping[str, list[str]]:
        """The distributions of every package, of which only those of this folder change."""
        with patch.object(sys, "path", [str(self.folder)]):
            return {**_environment(), **packages_distributions()}

    def reload(self, *names: str) -> None:
        """As a new process would see it."""
        for name in [module for module in sys.modules if module.partition(".")[0] in names]:
            del sys.modules[name]
        importlib.invalidate_caches()
        distribution._read_entry_points.cache_clear()
        code_fingerprint._distributions.cache_clear()
        registry._table.cache_clear()


@contextmanager
def plugins_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    """Put a new folder on the import path; what was imported from it is forgotten behind the block."""
    folder = tmp_path / "site"
    folder.mkdir()
    _environment()
    monkeypatch.syspath_prepend(str(folder))
    installed = Installed(folder)
    monkeypatch.setattr(code_fingerprint, "packages_distributions", installed.packages)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a file may be written twice in one second
    yield installed
    for name in [module for module in sys.modules if module.startswith("another_")]:
        del sys.modules[name]
    code_fingerprint._distributions.cache_clear()
    registry._table.cache_clear()
