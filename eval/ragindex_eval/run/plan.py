"""The plan of a comparison: its methods with their labels, grid variants and reranked ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import regex

from ragindex.errors import RagindexError, UsageError
from ragindex.index.parts import require_reader, require_working
from ragindex.interfaces import Scheme
from ragindex.plugins import registry
from ragindex.plugins.registry import PluginSpec
from ragindex.plugins.specs import Spec, parse_spec, render_spec
from ragindex_eval.data.published import require_published_data
from ragindex_eval.run.functions import FunctionMethod, is_function
from ragindex_eval.run.settings import ALL, QUICK, CompareSettings

NEEDS_ADDRESS = ("http",)
"""Methods that must be named, with an address: http(url=…)."""
_PARAMETER = regex.compile(r"\s*\w+\s*=")


@dataclass(frozen=True, slots=True)
class Method:
    """Scheme with its label. A method that was not named explicitly may be left out if a dependency is missing."""

    label: str
    scheme: Scheme
    asked_for: bool


@dataclass(frozen=True, slots=True)
class LeftOutMethod:
    """Method that was not named explicitly and is missing in the comparison, with the error that is the reason."""

    label: str
    reason: RagindexError

    def __str__(self) -> str:
        return f"{self.label}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Plan:
    """Methods to compare, and those that are left out."""

    methods: tuple[Method, ...]
    left_out: tuple[LeftOutMethod, ...]

    @property
    def labels(self) -> list[str]:
        """The labels of the methods to compare, in order."""
        return [method.label for method in self.methods]

    @property
    def schemes(self) -> dict[str, Scheme]:
        """The schemes to compare by label, in order."""
        return {method.label: method.scheme for method in self.methods}


def make_plan(settings: CompareSettings) -> Plan:
    """Choose the methods, with grid variants and reranked ones. Raises UsageError for invalid settings of these."""
    require_published_data(settings.published, settings.published_data)
    methods, left_out = choose_methods(settings.written_methods())
    methods = add_reranked(expand_grid(methods, settings.grid), settings.rerank_with())
    if settings.triples is not None:
        require_reader(method.scheme for method in methods)
    return Plan(tuple(methods), tuple(left_out))


def list_all() -> list[str]:
    """Return the names of the methods that ALL stands for. Imports none of them."""
    return [name for name in registry.plugin_names("schemes") if name not in NEEDS_ADDRESS]


def choose_methods(methods: Sequence[PluginSpec] | None) -> tuple[list[Method], list[LeftOutMethod]]:
    """Create the requested methods, or those of QUICK, and return them with those left out.

    ALL among `methods` stands for all of `list_all`. Only methods that were not requested by name are ever left
    out. A mapping {name, label, params} may set the label. A function is a method with its own name. Raises UsageError
    if `methods` is empty, a method or label is invalid, or two labels are equal.
    """
    if methods is None:
        return _choose_registered(QUICK)
    if not methods:
        raise UsageError("compare needs at least one method. Run: ragindex methods")
    chosen, left_out = list[Method](), list[LeftOutMethod]()
    for written in methods:
        if written in (ALL, Spec(ALL)):
            registered, left_out = _choose_registered(list_all())
            chosen += registered
        elif is_function(written):
            function = FunctionMethod.of(written)
            chosen.append(Method(function.name, function, True))
        else:
            scheme = require_working(registry.scheme(written))
            chosen.append(Method(_read_label(written), scheme, True))
    _require_different([method.label for method in chosen])
    return chosen, left_out


def add_reranked(methods: Sequence[Method], reranker: PluginSpec | bool) -> list[Method]:
    """Add after each method the same one reranked, `LABEL + rerank`; nothing is added if `reranker` is False.

    True stands for the default reranker. Nothing is added for a method that is reranked already, or whose reranked one
    is among `methods`. Raises UsageError as `choose_methods` does.
    """
    if reranker is False:
        return list(methods)
    schemes, extended = [method.scheme for method in methods], list[Method]()
    for method in methods:
        base = registry.describe(method.scheme)
        params = {"base": base, **({} if reranker is True else {"reranker": reranker})}
        extended.append(method)
        reranked = registry.scheme({"name": "rerank", "params": params})
        if base["name"] != "rerank" and reranked not in schemes:
            extended.append(Method(f"{method.label} + rerank", reranked, method.asked_for))
    _require_different([method.label for method in extended])
    return extended


def _require_different(labels: Sequence[str]) -> None:
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(
                f"Two methods have the label {label!r}; labels must differ. "
                f"Write one of them {{name: …, label: …, params: …}} in --config."
            )


def _choose_registered(names: Sequence[str]) -> tuple[list[Method], list[LeftOutMethod]]:
    chosen, left_out = [], []
    for name in names:
        try:
            chosen.append(Method(name, require_working(registry.scheme(name)), False))
        except UsageError as error:  # a missing extra, a parameter without default, or a broken plugin
            left_out.append(LeftOutMethod(name, error))
    return chosen, left_out


def _read_label(written: PluginSpec) -> str:
    label = written.get("label") if isinstance(written, Mapping) else None
    if label is None:
        return registry.label(registry.create("schemes", written))
    if not isinstance(label, str) or not label.strip():
        raise UsageError(f"A method's label must be a text that is not blank. Got {label!r} instead.")
    return label


# ---------------------------------------------------------------- variants


def expand_grid(methods: Sequence[Method], grids: Sequence[str]) -> list[Method]:
    """Replace each method that a grid names by its variants: `LABEL:beam_width=5,10;depth=50,100`.

    A grid without a label, as `over=passages(size=64),passages(size=256)`, is one of every method. Several
    parameters give every combination of their values; the label of a variant names the varied parameters.
    Raises UsageError if a grid cannot be parsed or names an unknown method, or if a parameter is invalid.
    """
    values_of: dict[str, dict[str, list[Any]]] = {}
    for grid in grids:
        label, values = _parse_grid(grid)
        values_of.setdefault(label, {}).update(values)
    labels = [method.label for method in methods]
    for label in values_of:
        if label and label not in labels:
            raise UsageError(
                f"--grid names {label!r}, which is not in this comparison. Available: {', '.join(labels)}."
            )
    common = values_of.get("", {})
    return [
        variant
        for method in methods
        for variant in _make_variants(method, {**common, **values_of.get(method.label, {})})
    ]


def _parse_grid(written: str) -> tuple[str, dict[str, list[Any]]]:
    label, colon, rest = ("", ":", written) if _PARAMETER.match(written) else written.rpartition(":")
    pairs = [pair.partition("=") for pair in rest.split(";")]
    if not colon or not all(name.strip() and equals and values.strip() for name, equals, values in pairs):
        raise UsageError(
            "--grid must be parameter=value,value or LABEL:parameter=value,value, as 'hybrid:rrf_k=10,60'. "
            f"Got {written!r}."
        )
    return label.strip(), {name.strip(): _parse_values(values) for name, _, values in pairs}


def _parse_values(values: str) -> list[Any]:
    """Parse the values as in a plugin spec."""
    parsed = parse_spec(f"grid(values=[{values}])").params["values"]
    return parsed if isinstance(parsed, list) else [parsed]


def _make_variants(method: Method, values: Mapping[str, Sequence[Any]]) -> list[Method]:
    if not values:
        return [method]
    described = registry.describe(method.scheme)
    variants = []
    for chosen in product(*values.values()):
        varied = dict(zip(values, chosen, strict=True))
        scheme = registry.scheme(Spec(described["name"], {**described["params"], **varied}))
        variants.append(Method(_variant_label(method.label, varied), scheme, True))
    return variants


def _variant_label(label: str, varied: Mapping[str, Any]) -> str:
    """Add the varied parameters to a label: `hybrid` becomes `hybrid(rrf_k=10)`."""
    added = render_spec(Spec("", dict(varied)))
    return f"{label[:-1]}, {added[1:]}" if label.endswith(")") else f"{label}{added}"
