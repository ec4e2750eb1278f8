"""Report section on ablations: methods that differ in one parameter from the first method of their name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ragindex.errors import UsageError
from ragindex.plugins import registry
from ragindex.plugins.specs import Spec, render_spec
from ragindex_eval.format import many, percent, points, probability, short
from ragindex_eval.report.plots import svg
from ragindex_eval.report.tables import TOKENS_MEANING, Column, meaning, token_cells, token_shares
from ragindex_eval.results.model import LATENCY, Comparison, MethodResult


@dataclass(frozen=True, slots=True)
class AblationCell:
    """Figure with its interval and its difference from the first row; texts without content are ""."""

    text: str
    interval: str = ""
    difference: str = ""
    p: str = ""


@dataclass(frozen=True, slots=True)
class AblationRow:
    """Method with its value of the parameter."""

    value: str
    label: str
    key: Markup
    cells: tuple[AblationCell, ...]


@dataclass(frozen=True, slots=True)
class Ablation:
    """Table of one parameter of the methods of one registered name; rows are compared with the first one."""

    name: str
    parameter: str
    rows: tuple[AblationRow, ...]


@dataclass(frozen=True, slots=True)
class Ablations:
    """All ablation tables; `others` is a sentence about methods in no table, "" if there are none."""

    columns: tuple[Column, ...]
    tables: tuple[Ablation, ...]
    others: str


def render_ablations(comparison: Comparison) -> Ablations | None:
    """Make the ablation tables; None if no method differs from the first of its name in exactly one parameter."""
    names = [f"{name}@{k}" for name in ("evidence_R", "R") for k in comparison.ks]
    metrics = [name for name in names if any(name in method.metrics for method in comparison.methods)]
    tokens = any(_tokens(method) for method in comparison.methods)
    tables, several = list[Ablation](), 0
    for first, others in _families(comparison):
        varied: dict[str, list[tuple[int, Any, Any]]] = {}
        for at in others:
            changed = differences(comparison.methods[first].params, comparison.methods[at].params)
            several += len(changed) > 1
            if len(changed) == 1:
                varied.setdefault(changed[0][0], []).append((at, *changed[0][1:]))
        tables += [_table(comparison, first, path, rows, metrics, tokens) for path, rows in varied.items()]
    return Ablations(_columns(metrics, tokens), tuple(tables), _describe_others(several)) if tables else None


def differences(first: Any, second: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Return the parameters in which two JSON values differ: path (such as `base.depth`), and both values.

    Plugins with different names are one difference, whatever their parameters, and so are two chunkings: `by`, `size`
    and `overlap` mean something together only.
    """
    if _is_chunking(first) and _is_chunking(second):
        return [] if first == second else [(path, first, second)]
    if _is_plugin(first) and _is_plugin(second) and first["name"] == second["name"]:
        return differences(first["params"], second["params"], path)
    if isinstance(first, Mapping) and isinstance(second, Mapping) and not _is_plugin(first) and not _is_plugin(second):
        keys = dict.fromkeys([*first, *second])
        inside = f"{path}." if path else ""
        return [
            difference for key in keys for difference in differences(first.get(key), second.get(key), f"{inside}{key}")
        ]
    same = first == second and isinstance(first, bool) == isinstance(second, bool)
    return [] if same else [(path, first, second)]


def _is_plugin(value: Any) -> bool:
    return isinstance(value, Mapping) and value.keys() == {"name", "params"} and isinstance(value["params"], Mapping)


def _is_chunking(value: Any) -> bool:
    return _is_plugin(value) and value["name"] == "passages"


def _families(comparison: Comparison) -> Iterator[tuple[int, list[int]]]:
    """Yield the numbers of the first method of each name, in the order given, and of the others of that name."""
    by_name: dict[str, list[int]] = {}
    places = {method.label: number for number, method in enumerate(comparison.methods)}
    for label in comparison.asked or places:
        number = places[label]
        by_name.setdefault(comparison.methods[number].name, []).append(number)
    return ((numbers[0], numbers[1:]) for numbers in by_name.values())


def _describe_others(several: int) -> str:
    what = f"{many(several, 'method')} more {'differs' if several == 1 else 'differ'} from the first of the name"
    return f"{what} in several parameters at once." if several else ""


# ---------------------------------------------------------------- a table


def _columns(metrics: Sequence[str], tokens: bool) -> tuple[Column, ...]:
    quality = [Column(name, f"{meaning(name)}; below, the difference to the first row") for name in metrics]
    paid = [Column("tokens a question", "tokens of finding, in and out: the mean")] if tokens else []
    reading = [Column(f"tokens to {share} of evidence", TOKENS_MEANING) for share in token_shares(metrics)]
    return (
        *quality,
        *reading,
        *paid,
        Column("p50 ms", "half of the questions were answered within this time, one by one"),
    )


def _table(
    comparison: Comparison,
    first: int,
    path: str,
    varied: Sequence[tuple[int, Any, Any]],
    metrics: Sequence[str],
    tokens: bool,
) -> Ablation:
    """Make a table; each item of `varied` holds the number of a method, the first method's value, and its own."""
    values = [(first, varied[0][1]), *((at, value) for at, _, value in varied)]
    reference = comparison.methods[first]
    rows = []
    for at, value in values:
        method = comparison.methods[at]
        quality = [_quality_cell(comparison, method, reference, name) for name in metrics]
        paid = [AblationCell(f"{_tokens(method):,.0f}")] if tokens else []
        read = [AblationCell(cell.text, cell.interval) for cell in token_cells(method, metrics)]
        key = Markup(svg.key(at))  # noqa: S704  # drawn by us, holds no text
        rows.append(AblationRow(written(value), method.label, key, (*quality, *read, *paid, _latency_cell(method))))
    return Ablation(reference.name, path, tuple(rows))


def _quality_cell(comparison: Comparison, method: MethodResult, first: MethodResult, name: str) -> AblationCell:
    if name not in method.metrics:
        return AblationCell("–")
    bounds = method.ci95.get(name)
    text, interval = percent(method.metrics[name]), "" if bounds is None else " – ".join(map(percent, bounds))
    if method is first:
        return AblationCell(text, interval)
    try:
        pair = comparison.pair(method.label, first.label, name)
    except KeyError:  # this metric was not measured for the first method of the name
        return AblationCell(text, interval, "–")
    reach = "" if pair.ci95 is None else f" ({points(pair.ci95[0])} to {points(pair.ci95[1])})"
    return AblationCell(text, interval, points(pair.value) + reach, probability(pair.p_adjusted))


def _latency_cell(method: MethodResult) -> AblationCell:
    value, bounds = method.latency.total.p50, method.ci95.get(f"{LATENCY}_p50")
    if value is None:
        return AblationCell("–")
    return AblationCell(short(value), "" if bounds is None else " – ".join(map(short, bounds)))


def _tokens(method: MethodResult) -> float:
    used = method.query_usage
    return used.input_tokens + used.output_tokens


# ---------------------------------------------------------------- values


def written(value: Any) -> str:
    """Format a parameter value; a plugin becomes the shortest spec that creates it."""
    if _is_plugin(value):
        return _format_plugin(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(written, value))}]"
    return render_spec(Spec("", {"": value})).removeprefix("(=").removesuffix(")")


def _format_plugin(value: Mapping[str, Any]) -> str:
    """Format a plugin as a spec.

    All parameters are shown if the plugin cannot be created here, because results may come from a machine with other
    plugins.
    """
    for group in ("schemes", "parts"):
        if value["name"] in registry.plugin_names(group):
            try:
                return registry.label(registry.create(group, value))
            except UsageError:
                break
    inner = ", ".join(f"{key}={written(inner_value)}" for key, inner_value in value["params"].items())
    return f"{value['name']}({inner})" if inner else str(value["name"])
