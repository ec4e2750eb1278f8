"""Choice of the methods to compare, and their labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragindex.errors import UsageError
from ragindex.index.parts import require_working
from ragindex.interfaces import Scheme
from ragindex.plugins import registry
from ragindex.plugins.registry import PluginSpec
from ragindex.plugins.specs import Spec

QUICK = ("bm25", "dense", "hybrid", "links", "evidence")
"""The methods that are compared if none is named: they ask no language model and read no triples."""
ALL = "all"
"""Stands for every installed method, but those of NEEDS_ADDRESS."""
NEEDS_ADDRESS = ("http",)
"""Methods that must be named, with an address: http(url=…)."""


def list_all() -> list[str]:
    """Return the names of the methods that ALL stands for. Imports none of them."""
    return [name for name in registry.plugin_names("schemes") if name not in NEEDS_ADDRESS]


@dataclass(frozen=True, slots=True)
class Method:
    """Scheme with its label. A method that was not named explicitly may be left out if a dependency is missing."""

    label: str
    scheme: Scheme
    asked_for: bool


def choose_methods(methods: Sequence[PluginSpec] | None) -> tuple[list[Method], list[str]]:
    """Create the requested methods, or those of QUICK, and return them with reasons for those left out.

    ALL among `methods` stands for all of `list_all`. Only methods that were not requested by name are ever left
    out. A mapping {name, label, params} may set the label. Raises UsageError if `methods` is empty, a method or label
    is invalid, or two labels are equal.
    """
    if methods is None:
        return _choose_registered(QUICK)
    if not methods:
        raise UsageError("compare needs at least one method. Run: ragindex methods")
    made, left_out = list[Method](), list[str]()
    for written in methods:
        if written in (ALL, Spec(ALL)):
            found, left_out = _choose_registered(list_all())
            made += found
        else:
            scheme = require_working(registry.scheme(written))
            made.append(Method(_read_label(written), scheme, True))
    _require_different([method.label for method in made])
    return made, left_out


def add_reranked(methods: Sequence[Method], reranker: PluginSpec | bool) -> list[Method]:
    """Add after each method its reranked twin `LABEL + rerank`; no twins if `reranker` is False.

    True stands for the default reranker. A method gets no twin if it is reranked already or its twin is among
    `methods`. Raises UsageError as `choose_methods` does.
    """
    if reranker is False:
        return list(methods)
    schemes, found = [method.scheme for method in methods], []
    for method in methods:
        base = registry.describe(method.scheme)
        params = {"base": base, **({} if reranker is True else {"reranker": reranker})}
        found.append(method)
        twin = registry.scheme({"name": "rerank", "params": params})
        if base["name"] != "rerank" and twin not in schemes:
            found.append(Method(f"{method.label} + rerank", twin, method.asked_for))
    _require_different([method.label for method in found])
    return found


def _require_different(labels: Sequence[str]) -> None:
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(
                f"Two methods have the label {label!r}; labels must differ. "
                f"Write one of them {{name: …, label: …, params: …}} in --config."
            )


def _choose_registered(names: Sequence[str]) -> tuple[list[Method], list[str]]:
    made, left_out = [], []
    for name in names:
        try:
            made.append(Method(name, require_working(registry.scheme(name)), False))
        except UsageError as error:  # a missing extra, a parameter without default, or a broken plugin
            left_out.append(f"{name}: {error}")
    return made, left_out


def _read_label(written: PluginSpec) -> str:
    label = written.get("label") if isinstance(written, Mapping) else None
    if label is None:
        return registry.label(registry.create("schemes", written))
    if not isinstance(label, str) or not label.strip():
        raise UsageError(f"A method's label must be a text that is not blank. Got {label!r} instead.")
    return label
