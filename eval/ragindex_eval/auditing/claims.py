"""Claims of a table, that a method is better than another one: what its printed means can and cannot show."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import ceil, floor, isinf
from typing import Any, Literal, TypeAlias

from ragindex._util.text import suggest_names
from ragindex.errors import UsageError
from ragindex_eval.auditing.metrics import MetricName
from ragindex_eval.auditing.tables import TableFigure
from ragindex_eval.format import percent
from ragindex_eval.stats.intervals import LEVEL
from ragindex_eval.stats.printed_means import (
    BINARY,
    GRADED,
    PairBounds,
    Plausible,
    PrintedMean,
    bound_p,
    fitting_counts,
    most_disagreements,
    needed_correlation,
    needed_questions,
    plausible_p,
    printed_interval,
    smallest_differences,
)

ClaimVerdict: TypeAlias = Literal["significant", "likely", "open", "unlikely", "impossible"]
VERDICTS: dict[ClaimVerdict, str] = {
    "significant": "significant, however the questions fell",
    "likely": "significant at every plausible correlation",
    "open": "significant if so few questions are answered by only one, or outcomes correlate so much",
    "unlikely": "not significant at any plausible correlation",
    "impossible": "not significant, however the questions fell",
}
_ROUNDED = 0.011  # two shares of the same questions that are printed in whole percent differ from 1 by at most this
_OPPOSITE = (-1.0, -1.0)  # the correlations of two shares of the same questions
_FEWEST_DIVISIONS = 20  # a number of questions of whose multiples a figure may be is looked for up to this many times n


@dataclass(frozen=True, slots=True)
class AuditedFigure:
    """A figure with its 95 % interval, which is at most as wide as `interval` if the metric is not of 0 and 1.

    `smallest` is the smallest difference from it that its questions show with 80 % power: for outcomes that agree as
    much, and as little, as is plausible; None if they show none.
    """

    data: str
    metric: str
    method: str
    questions: int
    value: float
    binary: bool
    interval: tuple[float, float]
    smallest: tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class Claim:
    """A difference of two figures, and what they show of it.

    `p` bounds p of ragindex's paired test over all samples with the printed means, and `exact_p` that of McNemar's for
    values of 0 and 1. `plausible_p` is p where outcomes agree as much, and as little, as is plausible.
    `disagreements` is how many questions may be answered by only one of the two for the difference to be significant
    (None if values are not 0 or 1), `correlation` from which correlation on it is; None if no one is enough.
    `needed_questions` show it with 80 % power; None if no number does. `level` is 0.05 over `comparisons`, the claims
    that a table makes by one metric on one data set.
    """

    data: str
    metric: str
    method: str
    baseline: str
    questions: int
    difference: float
    comparisons: int
    level: float
    p: tuple[float, float]
    exact_p: tuple[float, float] | None
    plausible_p: tuple[float, float]
    correlation: float | None
    disagreements: int | None
    needed_questions: tuple[int | None, int | None]
    verdict: ClaimVerdict

    def to_json(self) -> dict[str, Any]:
        """Convert to an element of the JSON field `claims`."""
        return {**asdict(self), "says": VERDICTS[self.verdict]}


def audit_figures(figures: Sequence[TableFigure]) -> tuple[AuditedFigure, ...]:
    """Return each figure with its interval and the smallest difference that its questions show."""
    return tuple(
        AuditedFigure(
            figure.data,
            figure.metric.name,
            figure.method,
            figure.mean.questions,
            figure.mean.value,
            figure.mean.binary,
            printed_interval(figure.mean),
            smallest_differences(figure.mean.value, figure.mean.questions, BINARY if figure.mean.binary else GRADED),
        )
        for figure in figures
    )


def audit_claims(
    figures: Sequence[TableFigure], baseline: str = "", methods: Collection[str] = ()
) -> tuple[Claim, ...]:
    """Return the claims of a table: each method against its baseline, or else the best against the second best.

    `baseline` names the row of all; without it, rows of a study are compared with those that the study names. `methods`
    are the rows whose claims are meant, all if there are none; without a baseline, they are compared with the best of
    the others. Raises UsageError if no row is called so, or if two figures of a claim have different numbers of
    questions.
    """
    known = dict.fromkeys(figure.method for figure in figures)
    for name in (*([baseline] if baseline else []), *methods):
        if name not in known:
            raise UsageError(f"No row is called {name!r}. {suggest_names(name, known)}".rstrip())
    claims = list[Claim]()
    for column in _columns(figures).values():
        pairs = list(_pair(column, baseline, methods))
        chosen = not baseline and not methods and not any(figure.baseline for figure in column)
        comparisons = max(1, len(column) - 1 if chosen else len(pairs))
        claims += [_audit_claim(first, second, comparisons) for first, second in pairs]
    return tuple(claims)


def check_figures(figures: Sequence[TableFigure]) -> list[str]:
    """Return what cannot be: shares of no whole number, recall that falls with k, exact matches above F1."""
    return [*_check_counts(figures), *_check_cutoffs(figures), *_check_matches(figures)]


def _columns(figures: Sequence[TableFigure]) -> dict[tuple[str, str], list[TableFigure]]:
    columns: dict[tuple[str, str], list[TableFigure]] = {}
    for figure in figures:
        columns.setdefault((figure.data, figure.metric.name), []).append(figure)
    return columns


def _pair(
    column: Sequence[TableFigure], baseline: str, methods: Collection[str]
) -> Iterator[tuple[TableFigure, TableFigure]]:
    by_method = {figure.method: figure for figure in column}
    ranked = sorted(column, key=lambda figure: -figure.mean.value)
    meant = [figure for figure in column if not methods or figure.method in methods]
    if baseline or any(figure.baseline for figure in column):
        for figure in meant:
            other = by_method.get(baseline or figure.baseline)
            if other is not None and other is not figure:
                yield figure, other
        return
    others = [figure for figure in ranked if figure.method not in methods]
    if methods:
        yield from ((figure, others[0]) for figure in meant if others)
    elif len(ranked) > 1:
        yield ranked[0], ranked[1]


def _audit_claim(first: TableFigure, second: TableFigure, comparisons: int) -> Claim:
    if first.mean.questions != second.mean.questions:
        counts = f"{first.mean.questions:,} and {second.mean.questions:,}"
        raise UsageError(f"{first.method!r} and {second.method!r} must be of the same questions. Got {counts}.")
    level = LEVEL / comparisons
    bounds = bound_p(first.mean, second.mean)
    divided = _divide_questions(first, second)
    if divided and bounds.exact is not None:
        bounds = PairBounds(bounds.most, bounds.most, (bounds.exact[1], bounds.exact[1]))
    assumed = BINARY if bounds.exact is not None else GRADED
    assumed = Plausible(_OPPOSITE, assumed.shares) if divided else assumed
    p = plausible_p(first.mean, second.mean, assumed)
    needed = needed_questions(first.mean.value, second.mean.value, assumed, comparisons)
    verdict = _judge(bounds, p, level)
    possible = verdict != "impossible" and not divided
    most = min(most_disagreements(first.mean, second.mean, level), first.mean.questions)
    return Claim(
        data=first.data,
        metric=first.metric.name,
        method=first.method,
        baseline=second.method,
        questions=first.mean.questions,
        difference=first.mean.value - second.mean.value,
        comparisons=comparisons,
        level=level,
        p=(bounds.least, bounds.most),
        exact_p=bounds.exact,
        plausible_p=p,
        correlation=needed_correlation(first.mean, second.mean, level) if possible else None,
        disagreements=floor(most) if possible and bounds.exact is not None else None,
        needed_questions=(_round_up(needed[0]), _round_up(needed[1])),
        verdict=verdict,
    )


def _divide_questions(first: TableFigure, second: TableFigure) -> bool:
    """Return whether each question is won by one of the two methods: then their shares say all."""
    return first.metric.wins and abs(first.mean.value + second.mean.value - 1) < _ROUNDED


def _judge(bounds: PairBounds, plausible: tuple[float, float], level: float) -> ClaimVerdict:
    """Return the verdict; a statement about every sample must hold for McNemar's test too."""
    exact = bounds.exact or (bounds.least, bounds.most)
    if min(bounds.least, exact[0]) >= level:
        return "impossible"
    if max(bounds.most, exact[1]) < level:
        return "significant"
    if max(plausible) < level:
        return "likely"
    return "unlikely" if min(plausible) >= level else "open"


def _round_up(questions: float) -> int | None:
    return None if isinf(questions) else ceil(questions)


# ---------------------------------------------------------------- what cannot be


def _check_counts(figures: Sequence[TableFigure]) -> Iterator[str]:
    """Yield figures of 0 and 1 that no number of right answers gives (GRIM: Brown and Heathers 2017)."""
    for key, column in _columns(figures).items():
        misfits = [figure for figure in column if figure.mean.binary and figure.mean.sums is None]
        if not misfits:
            continue
        questions = misfits[0].mean.questions
        shown = ", ".join(f"{figure.method} {percent(figure.mean.value)}" for figure in misfits[:3])
        count = next(
            (
                times * questions
                for times in range(2, _FEWEST_DIVISIONS + 1)
                if all(
                    fitting_counts(figure.mean.low, figure.mean.high, times * questions, times * questions)
                    for figure in column
                )
            ),
            None,
        )
        also = f"; all figures are shares of {count:,}, as of {count // questions} runs" if count else ""
        also = ", unless digits were cut off instead of rounded" if all(map(_may_be_cut, misfits)) else also
        where = _name(key[0], column[0].metric)
        counted = f"{len(misfits)} of {len(column)} figures"
        yield f"{where}: {counted} are no share of {questions:,} questions ({shown}){also}"


def _may_be_cut(figure: TableFigure) -> bool:
    """Return whether a figure is a share of its questions whose further digits were cut off."""
    mean = figure.mean
    return PrintedMean(mean.questions, mean.low, mean.high + (mean.high - mean.low) / 2, binary=True).sums is not None


def _check_cutoffs(figures: Sequence[TableFigure]) -> Iterator[str]:
    """Yield figures that fall with k though the metric cannot."""
    groups: dict[tuple[str, str, str], list[TableFigure]] = {}
    for figure in figures:
        if figure.metric.k is not None:
            groups.setdefault((figure.data, figure.metric.family, figure.method), []).append(figure)
    for group in groups.values():
        for first, second in pairwise(sorted(group, key=lambda figure: figure.metric.k or 0)):
            if first.mean.low > second.mean.high and first.mean.questions == second.mean.questions:
                figures_shown = f"{percent(first.mean.value)} to {percent(second.mean.value)}"
                names = f"{first.metric.name} to {second.metric.name}"
                yield f"{_name(first.data)}{first.method} falls from {names}, {figures_shown}, which cannot be"


def _check_matches(figures: Sequence[TableFigure]) -> Iterator[str]:
    """Yield exact matches above F1, to which each of them contributes 1."""
    by_row = {(figure.data, figure.method, figure.metric.name.casefold()): figure for figure in figures}
    for (data, method, name), match in by_row.items():
        other = by_row.get((data, method, "f1")) if name == "em" else None
        if other is not None and match.mean.low > other.mean.high:
            shown = f"EM {percent(match.mean.value)} and F1 {percent(other.mean.value)}"
            yield f"{_name(data)}{method} has {shown}; F1 cannot be below EM"


def _name(data: str, metric: MetricName | None = None) -> str:
    if metric is None:
        return f"{data}: " if data else ""
    return " ".join(filter(None, (data, metric.name))) or "the figures"
