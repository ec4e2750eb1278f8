"""Report sections on differences between methods: agreement, all pairs, and what the questions can show."""

from collections.abc import Callable
from dataclasses import dataclass

from ragindex_eval.conclusions import leaders as conclusions
from ragindex_eval.conclusions.leaders import better, differ, differ_slightly
from ragindex_eval.format import about_questions, percent, points, probability, short, signed
from ragindex_eval.report.tables import metrics_shown
from ragindex_eval.results.model import COSTS, LATENCY, RATIO, Comparison, MethodPair


@dataclass(frozen=True, slots=True)
class Agreement:
    """Matrix of overlaps: `rows` in percent, "" on the diagonal and if unknown; `shades` from 0 to 10."""

    k: int
    labels: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    shades: tuple[tuple[int, ...], ...]


def render_agreement(comparison: Comparison) -> Agreement | None:
    """Make the matrix of overlaps; None if no two methods can be compared."""
    k = comparison.ks[0]
    known = conclusions.agreement(comparison, k)
    both = {**known, **{(b, a): value for (a, b), value in known.items()}}
    labels = tuple(method.label for method in comparison.methods)
    if not both:
        return None
    rows = tuple(tuple(f"{100 * both[a, b]:.0f}" if (a, b) in both else "" for b in labels) for a in labels)
    shades = tuple(tuple(round(10 * both.get((a, b), 0.0)) for b in labels) for a in labels)
    return Agreement(k, labels, rows, shades)


# ---------------------------------------------------------------- all pairs

_COSTS = {
    LATENCY: "Latency: how many times as long as, the geometric mean over the questions",
    "input_tokens": "Tokens read, mean a question",
    "output_tokens": "Tokens written, mean a question",
    "money": "Dollars, mean a question",
}


@dataclass(frozen=True, slots=True)
class PairCell:
    """Difference of the method of the row and that of the column, or the ratio of their latencies.

    `tone` is "good", "bad" or "even", and "" on the diagonal.
    """

    tone: str
    word: str = ""
    difference: str = ""
    interval: str = ""
    p: str = ""


@dataclass(frozen=True, slots=True)
class Matrix:
    """All pairs by one metric; `differing` counts pairs that differ significantly, `called` says what they are."""

    title: str
    metric: str
    labels: tuple[str, ...]
    rows: tuple[tuple[PairCell, ...], ...]
    differing: int
    called: str
    pairs: int
    opened: bool


def render_pairs(comparison: Comparison) -> tuple[Matrix, ...] | None:
    """Make a matrix for each metric, opened for the first metric and latency; None if there are no pairs."""
    quality = metrics_shown(comparison)
    order = [*quality[:1], LATENCY, *COSTS, *quality[1:]]
    matrices = [_matrix(comparison, metric, number < 2) for number, metric in enumerate(order)]
    return tuple(matrix for matrix in matrices if matrix.pairs) or None


def _matrix(comparison: Comparison, metric: str, opened: bool) -> Matrix:
    labels = tuple(method.label for method in comparison.methods)
    of_metric = [pair for pair in comparison.pairs if pair.metric == metric]
    known = {(pair.a, pair.b): pair for pair in (*of_metric, *(pair.turned() for pair in of_metric))}
    rows = tuple(tuple(_cell(comparison, known.get((a, b)), same=a == b) for b in labels) for a in labels)
    quality = f"{metric.replace('_', ' ')}, percentage points"
    title = _COSTS.get(metric, quality)
    differing = sum(differ(comparison, pair.a, pair.b, metric) for pair in of_metric)
    called = "faster or slower" if metric == LATENCY else "significantly different"
    return Matrix(title, metric, labels, rows, differing, called, len(of_metric), opened)


def _cell(comparison: Comparison, pair: MethodPair | None, *, same: bool) -> PairCell:
    if pair is None:
        return PairCell("") if same else PairCell("even", "not measured")
    form = _format_ratio if pair.statistic == RATIO else signed if pair.metric in _COSTS else points
    return PairCell(
        *_choose_words(comparison, pair), form(pair.value), _format_interval(pair, form), probability(pair.p_adjusted)
    )


def _choose_words(comparison: Comparison, pair: MethodPair) -> tuple[str, str]:
    """Return tone and word; a difference is stated only if one of the two methods is significantly better.

    A latency that differs significantly, but by less than a factor of two, says so.
    """
    less = ("faster", "slower") if pair.metric == LATENCY else ("less", "more")
    good, bad = less if pair.metric in _COSTS else ("better", "worse")
    if better(comparison, pair.a, pair.b, pair.metric):
        return "good", good
    if better(comparison, pair.b, pair.a, pair.metric):
        return "bad", bad
    return "even", "less than twofold" if differ_slightly(comparison, pair) else "no significant difference"


def _format_ratio(ratio: float) -> str:
    return f"× {short(ratio)}"


def _format_interval(pair: MethodPair, form: Callable[[float], str]) -> str:
    return "" if pair.ci95 is None else f"{form(pair.ci95[0])} to {form(pair.ci95[1])}"


# ---------------------------------------------------------------- are the questions enough?


@dataclass(frozen=True, slots=True)
class EnoughFigures:
    """Rows of numbers of questions with the smallest difference they show, and of open rivals with questions to add."""

    metric: str
    best: str
    power: str
    smallest: tuple[tuple[str, str], ...]
    settle: tuple[tuple[str, str], ...]


def render_enough(comparison: Comparison) -> EnoughFigures | None:
    """Make both tables; None if the comparison says nothing about it."""
    plan = comparison.enough
    if plan is None:
        return None
    return EnoughFigures(
        plan.metric,
        plan.best,
        f"{100 * plan.power:.0f}",
        tuple((f"{count:,}", "none" if least is None else percent(least)) for count, least in plan.smallest),
        tuple((label, "no number" if more is None else about_questions(more)) for label, more in plan.settle),
    )
