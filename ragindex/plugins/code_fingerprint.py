"""The code of plugins that are not ours, as a hash: edited code is other code, though its version was not raised.

Of a plugin count the module that defines it and what that imports, as far as it is of the same distribution or of none
(files beside it, an editable installation): read from their files, not imported. Modules that are imported by a name
made at run time are not seen. Ours are known by their version alone.
"""

import ast
import hashlib
import inspect
import secrets
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import Any

from pydantic import BaseModel

OURS = frozenset({"ragindex", "ragindex_retrievers", "ragindex_baselines", "ragindex_eval"})
"""The packages of this distribution."""
_ROOT = Path(__file__).resolve().parents[2]
_SESSION = secrets.token_hex(8)  # code without a file is known to this process alone
_read: dict[str, tuple[object, "_Code"]] = {}


class _Code:
    """A module's file: its hash, and what it imports, by absolute name."""

    def __init__(self, name: str, file: Path) -> None:
        content = file.read_bytes()
        self.hash = hashlib.sha256(content).hexdigest()
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        self.imports = frozenset(_imports(content, package)) if file.suffix == ".py" else frozenset[str]()


def of(*defined: Any) -> str | None:
    """A hash of the code of these classes and functions; None where all of them are ours, or are no plugin's."""
    modules = {name for one in defined for name in _defining(one)}
    if not modules:
        return None
    parts = sorted(f"{name} {hash}" for name, hash in _closure(modules).items())
    typed = sorted(_typed(one) for one in defined if any(_file(name) is None for name in _defining(one)))
    return hashlib.sha256("\n".join([*parts, *typed]).encode()).hexdigest()[:16]


def sourced(plugin: object, id: str) -> str:
    """The id of what a plugin opened, and where the plugin is not ours, its code."""
    source = of(type(plugin))
    return id if source is None else f"{id}-{source}"


def foreign(module: str) -> bool:
    """Whether a module is neither ours, nor Python's, nor one that all plugins are made with."""
    top = module.partition(".")[0]
    if top in OURS:
        return not _is_ours(top)
    return top not in sys.stdlib_module_names or top == "__main__"


@cache
def _is_ours(top: str) -> bool:
    """Somebody's own folder may have the name of one of our packages."""
    return any(place.is_relative_to(_ROOT) for place in _places(top))


# ---------------------------------------------------------------- which modules


def _defining(one: Any) -> list[str]:
    """The modules of a class and of what it inherits from, or of a function, that are foreign."""
    classes = [cls for cls in one.__mro__ if cls not in BaseModel.__mro__] if isinstance(one, type) else [one]
    return [cls.__module__ for cls in classes if foreign(cls.__module__ or "__main__")]


def _closure(modules: set[str]) -> dict[str, str]:
    """The hash of each module's file, and of what these import from their own distribution or from none."""
    found: dict[str, str] = {}
    tops = {name.partition(".")[0] for name in modules}
    own = {distribution for top in tops for distribution in _distributions().get(top, ())}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        file = _file(name)
        if name in found or file is None:
            continue
        code = _code(name, file)
        found[name] = code.hash
        names = {part for one in (name, *code.imports) for part in _with_parents(one)}
        waiting += [one for one in sorted(names) if one not in found and _belongs(one, tops, own)]
    return found


def _belongs(name: str, tops: set[str], own: set[str]) -> bool:
    top = name.partition(".")[0]
    distributions = _distributions().get(top, ())
    return foreign(name) and (top in tops or not distributions or bool(own.intersection(distributions)))


def _with_parents(name: str) -> Iterator[str]:
    """The module and the packages that it lies in."""
    parts = name.split(".")
    return (".".join(parts[:length]) for length in range(1, len(parts) + 1))


@cache
def _distributions() -> dict[str, list[str]]:
    return dict(packages_distributions())


# ---------------------------------------------------------------- their files


def _code(name: str, file: Path) -> _Code:
    """Read once for each time that the module is loaded: what runs is what was there then."""
    loaded = getattr(sys.modules.get(name), "__spec__", None)
    held = _read.get(name)
    if held is not None and loaded is not None and held[0] is loaded:
        return held[1]
    code = _Code(name, file)
    if loaded is not None:
        _read[name] = (loaded, code)
    return code


def _file(name: str) -> Path | None:
    """The file of a module, loaded or not; None where there is none, as in a session and for packages without one."""
    written = getattr(sys.modules.get(name), "__file__", None)
    if written is not None:
        return file.resolve() if (file := Path(written)).is_file() else None
    top, *rest = name.split(".")
    if top in sys.modules and not rest:
        return None
    places = _places(top)
    if not rest:
        return places[0] if places and places[0].is_file() else None
    candidates = (place.joinpath(*rest) for place in places if place.is_dir())
    files = (file for one in candidates for file in (one / "__init__.py", one.with_suffix(".py")))
    return next((file.resolve() for file in files if file.is_file()), None)


def _places(top: str) -> list[Path]:
    """Where a top-level module or package lies, without importing it: its file, or the folders of a package."""
    loaded = sys.modules.get(top)
    if loaded is not None:
        return [Path(place) for place in getattr(loaded, "__path__", ())]
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    file = [Path(spec.origin)] if spec.origin and spec.has_location else []
    return [*file, *(Path(place) for place in spec.submodule_search_locations or ())]


def _imports(content: bytes, package: str) -> Iterator[str]:
    """What the code names in its imports, wherever they stand; a name imported from a package may be a module of it."""
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError):
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from _imported_from(node, package)


def _imported_from(node: ast.ImportFrom, package: str) -> Iterator[str]:
    try:
        module = resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module or ""
    except ImportError:  # more dots than packages
        return
    yield module
    yield from (f"{module}.{alias.name}" for alias in node.names)


def _typed(one: Any) -> str:
    """What was defined in a session: its text where that can be had, and never another session's."""
    try:
        return f"{_SESSION} {inspect.getsource(one)}"
    except (OSError, TypeError):
        return _SESSION
