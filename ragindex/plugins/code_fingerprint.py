"""Hashes of the code of third-party plugins, so that edited code is detected even if its version stays the same.

The hash covers the module that defines a plugin and its imports, transitively, as far as they belong to the same
distribution or to none (files beside it, an editable installation). The files are read, not imported. Imports by a name
that is computed at run time are not seen. Plugins of this distribution are identified by their version alone.
"""

import ast
import hashlib
import inspect
import secrets
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import packages_distributions
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import Any

OURS = frozenset({"ragindex", "ragindex_retrievers", "ragindex_baselines", "ragindex_eval"})
"""The packages of this distribution."""
_ROOT = Path(__file__).resolve().parents[2]
_SESSION = secrets.token_hex(8)  # makes code without a file unique to this process
_code_cache: dict[str, tuple[object, "_Code"]] = {}


class _Code:
    """The hash of a module's file, and the absolute names of its imports."""

    def __init__(self, name: str, file: Path) -> None:
        content = file.read_bytes()
        self.hash = hashlib.sha256(content).hexdigest()
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        self.imports = frozenset(_parse_imports(content, package)) if file.suffix == ".py" else frozenset[str]()


def of(*defined: Any) -> str | None:
    """Return a hash of the code of these classes and functions; None if none of it is third-party code."""
    modules = {name for value in defined for name in _find_defining_modules(value)}
    if not modules:
        return None
    parts = sorted(f"{name} {hash}" for name, hash in _hash_closure(modules).items())
    typed = sorted(
        _identify_session_code(value)
        for value in defined
        if any(_find_file(name) is None for name in _find_defining_modules(value))
    )
    return hashlib.sha256("\n".join([*parts, *typed]).encode()).hexdigest()[:16]


def of_modules(modules: Iterable[str]) -> str | None:
    """Return a hash of the code of these modules, without importing them; None if none of it is third-party code."""
    hashes = _hash_closure({name for name in modules if foreign(name)})
    joined = "\n".join(sorted(f"{name} {hash}" for name, hash in hashes.items()))
    return hashlib.sha256(joined.encode()).hexdigest()[:16] if hashes else None


def sourced(plugin: object, id: str) -> str:
    """Return `id`, with the hash of the plugin's code appended if the plugin is third-party."""
    source = of(type(plugin))
    return id if source is None else f"{id}-{source}"


def foreign(module: str) -> bool:
    """Return whether a module belongs neither to this distribution nor to the standard library."""
    top = module.partition(".")[0]
    if top in OURS:
        return not _is_ours(top)
    return top not in sys.stdlib_module_names or top == "__main__"


@cache
def _is_ours(top: str) -> bool:
    """Return whether a package is ours: a folder of the user may have the name of one of our packages."""
    return any(place.is_relative_to(_ROOT) for place in _find_locations(top))


# ---------------------------------------------------------------- which modules


def _find_defining_modules(value: Any) -> list[str]:
    """Return the foreign modules that define a function, or a class and its base classes without pydantic's."""
    modules = [cls.__module__ or "__main__" for cls in (value.__mro__ if isinstance(value, type) else [value])]
    return [module for module in modules if foreign(module) and not module.startswith("pydantic.")]


def _hash_closure(modules: set[str]) -> dict[str, str]:
    """Return the file hashes of the modules and of their transitive imports from the same distribution or from none."""
    hashes: dict[str, str] = {}
    tops = {name.partition(".")[0] for name in modules}
    own = {distribution for top in tops for distribution in _distributions().get(top, ())}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        file = _find_file(name)
        if name in hashes or file is None:
            continue
        code = _code(name, file)
        hashes[name] = code.hash
        names = {part for module in (name, *code.imports) for part in _with_parents(module)}
        waiting += [module for module in sorted(names) if module not in hashes and _is_covered(module, tops, own)]
    return hashes


def _is_covered(name: str, tops: set[str], own: set[str]) -> bool:
    top = name.partition(".")[0]
    distributions = _distributions().get(top, ())
    return foreign(name) and (top in tops or not distributions or bool(own.intersection(distributions)))


def _with_parents(name: str) -> Iterator[str]:
    """Yield the names of the packages that contain the module, then of the module."""
    parts = name.split(".")
    return (".".join(parts[:length]) for length in range(1, len(parts) + 1))


@cache
def _distributions() -> dict[str, list[str]]:
    return dict(packages_distributions())


# ---------------------------------------------------------------- their files


def _code(name: str, file: Path) -> _Code:
    """Return a module's code, read once per load of the module, because the loaded version is what runs."""
    loaded = getattr(sys.modules.get(name), "__spec__", None)
    cached = _code_cache.get(name)
    if cached is not None and loaded is not None and cached[0] is loaded:
        return cached[1]
    code = _Code(name, file)
    if loaded is not None:
        _code_cache[name] = (loaded, code)
    return code


def _find_file(name: str) -> Path | None:
    """Return the file of a module, loaded or not; None for an interactive session or a namespace package."""
    file_name = getattr(sys.modules.get(name), "__file__", None)
    if file_name is not None:
        return file.resolve() if (file := Path(file_name)).is_file() else None
    top, *rest = name.split(".")
    if top in sys.modules and not rest:
        return None
    places = _find_locations(top)
    if not rest:
        return places[0] if places and places[0].is_file() else None
    candidates = (place.joinpath(*rest) for place in places if place.is_dir())
    files = (file for path in candidates for file in (path / "__init__.py", path.with_suffix(".py")))
    return next((file.resolve() for file in files if file.is_file()), None)


def _find_locations(top: str) -> list[Path]:
    """Return the file of a top-level module and the folders of a package, without importing it."""
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


def _parse_imports(content: bytes, package: str) -> Iterator[str]:
    """Yield the names in all import statements; `from a import b` yields `a` and `a.b`, which may be a module."""
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError):
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from _parse_import_from(node, package)


def _parse_import_from(node: ast.ImportFrom, package: str) -> Iterator[str]:
    try:
        module = resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module or ""
    except ImportError:  # a relative import beyond the top-level package
        return
    yield module
    yield from (f"{module}.{alias.name}" for alias in node.names)


def _identify_session_code(value: Any) -> str:
    """Identify code defined in an interactive session: its source, if available, prefixed by an id of the session."""
    try:
        return f"{_SESSION} {inspect.getsource(value)}"
    except (OSError, TypeError):
        return _SESSION
