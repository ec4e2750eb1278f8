"""The installed distribution of this package: its name, version and optional packages, read from its metadata.

Messages that say what to install use these functions, so they stay correct under whatever name it is published.
"""

import ast
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module, metadata
from importlib.metadata import Distribution, EntryPoint, EntryPoints
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from ragindex.errors import MissingExtraError
from ragindex.plugins.code_fingerprint import OURS

SERVER_PACKAGES = ("fastapi", "mcp", "prometheus-client", "sse-starlette", "starlette", "uvicorn")
"""What `ragindex serve` and `ragindex mcp` need: the extra `serve`."""


def entry_points(group: str) -> EntryPoints:
    """Return the installed entry points of a group. Those of all groups are read once, as it takes a while."""
    points: EntryPoints = _read_entry_points(tuple(sys.path)).select(group=group)
    return points


@cache
def _read_entry_points(path: tuple[str, ...]) -> Any:
    """Return the entry points of the distributions on `path`, the import path."""
    return metadata.entry_points()


@cache
def find_distribution() -> Distribution:
    """Return the distribution that installs the command `ragindex`. Raises LookupError if none is installed."""
    for point in entry_points("console_scripts"):
        if (point.name, point.value) == ("ragindex", "ragindex.__main__:main") and point.dist is not None:
            return point.dist
    raise LookupError("ragindex is not installed: its metadata is missing")


@cache
def read_extras() -> dict[str, tuple[str, ...]]:
    """Return the requirements of each extra, for example `{"pdf": ("pypdf>=5",)}`."""
    extras: dict[str, tuple[str, ...]] = {}
    for line in find_distribution().requires or ():
        requirement, _, marker = line.partition(";")
        extra = re.search(r"""extra\s*==\s*['"]([^'"]+)""", marker)
        if extra:
            extras[extra[1]] = (*extras.get(extra[1], ()), requirement.strip())
    return extras


def package_of(requirement: str) -> str:
    """Return the package name of a requirement: `pypdf` for `pypdf>=5`."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def install_line(*packages: str) -> str:
    """Return the command that installs optional packages in supported versions: `pip install 'pypdf>=5'`."""
    requirements = {package_of(line): line for lines in read_extras().values() for line in lines}
    return " ".join(["pip install", *(f"'{requirements.get(package, package)}'" for package in packages)])


def upgrade_line() -> str:
    """Return the command that installs the newest version of this distribution."""
    return f"pip install --upgrade {find_distribution().name}"


def require_installed(module: str, package: str, wanted_by: str) -> None:
    """Raise MissingExtraError, with the install command, if a top-level module of an optional package is missing."""
    if find_spec(module) is None:
        raise _missing_error([package], wanted_by)


def require_all_installed(packages: Iterable[str], wanted_by: str) -> None:
    """Raise MissingExtraError, with one install command, if any of the packages is missing.

    The module of a package has its name, with _ in place of -.
    """
    missing = [package for package in packages if find_spec(package.replace("-", "_")) is None]
    if missing:
        raise _missing_error(missing, wanted_by)


def require_module(module: str, package: str, wanted_by: str) -> ModuleType:
    """Import a module of an optional package. Raises MissingExtraError with the install command if it is missing."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise _missing_error([package], wanted_by) from error


def _missing_error(packages: Sequence[str], wanted_by: str) -> MissingExtraError:
    what = "package" if len(packages) == 1 else "packages"
    lacks = "which is not installed" if len(packages) == 1 else "which are not installed"
    return MissingExtraError(
        f"{wanted_by} needs the {what} {', '.join(packages)}, {lacks}. Run: {install_line(*packages)}"
    )


def read_docstring(point: EntryPoint) -> str | None:
    """Return the docstring of a function or class of this distribution from its source; None for other packages.

    Nothing is imported, so lists of plugins take no time.
    """
    source = find_spec(point.module) if point.module.partition(".")[0] in OURS else None
    if source is None or source.origin is None:
        return None
    lines = Path(source.origin).read_text(encoding="utf-8").splitlines()
    defines = tuple(f"{keyword} {point.attr}{end}" for keyword in ("def", "class") for end in "(:")
    start = next((number for number, line in enumerate(lines) if line.startswith(defines)), None)
    if start is None:
        return None
    rest = range(start + 1, len(lines))
    end = next((number for number in rest if lines[number][:1] not in ("", " ", ")")), len(lines))
    (node,) = ast.parse("\n".join(lines[start:end])).body  # to parse whole modules takes a quarter of `--help`
    return ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.ClassDef) else None
