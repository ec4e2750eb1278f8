"""The text of what was judged, for the terminal: counts, a table of methods, the worth of the model's judgements."""

from rich.console import Group, RenderableType
from rich.text import Text

from ragindex._util.text import many
from ragindex.cli.console import text_table
from ragindex_eval.format import percent
from ragindex_eval.judge.estimate import JUDGED, RECALL, JudgeAgreement, JudgedMethod, PoolEstimates
from ragindex_eval.stats.intervals import Interval
from ragindex_eval.stats.prediction_powered import FEWEST_JUDGED

_COLUMNS = ("metric", "method", "%", "95 %", "judged", "bounds")


def render_judged(estimates: PoolEstimates) -> RenderableType:
    """Return what was judged as the terminal shows it."""
    lines = [Text(describe_counts(estimates), style="bold")]
    table = text_table(
        _COLUMNS,
        tuple(
            _row(method, place) for place in range(len(estimates.methods[0].estimates)) for method in estimates.methods
        ),
    )
    if estimates.agreement is not None:
        lines.append(Text(describe_agreement(estimates.agreement, estimates.model or "the model")))
    worth = describe_worth(estimates)
    notes = [Text(term, style="dim") for term in describe_terms(estimates)]
    return Group(*lines, Text(), table, Text(), *notes, *([Text(worth, style="bold")] if worth else []))


def describe_counts(estimates: PoolEstimates) -> str:
    """Return how much was pooled, and how much of it a person judged."""
    pool = f"{many(len(estimates.methods), 'method')} to a depth of {estimates.depth}"
    return (
        f"Judged by you: {estimates.by_person} of {many(estimates.questions, 'question')} "
        f"({estimates.documents_by_person:,} of {estimates.documents:,} pooled documents; {pool}, "
        f"seed {estimates.seed})."
    )


def describe_agreement(agreement: JudgeAgreement, model: str) -> str:
    """Return how the model's judgements compare with the person's."""
    kappa = "" if agreement.kappa is None else f", Cohen's kappa {agreement.kappa:.2f}"
    missed = "" if agreement.missed is None else f"; it misses {percent(agreement.missed)} % of what you call relevant"
    accepted = "" if agreement.accepted is None else f" and accepts {percent(agreement.accepted)} % of the rest"
    about = f"{percent(agreement.share)} % of {many(agreement.documents, 'document')}"
    return f"{model} agrees with you on {about}{kappa}{missed}{accepted}."


def describe_terms(estimates: PoolEstimates) -> list[str]:
    """Return what the figures mean."""
    lines = [
        f"{RECALL}: the share of the relevant documents of the pool, not of all documents; 0 where the pool has none"
        + (f" ({many(estimates.without_relevant, 'question')})." if estimates.by_person else ".")
    ]
    if estimates.by_person < FEWEST_JUDGED:
        lines.append(f"An interval needs {FEWEST_JUDGED} questions that you judged completely.")
    else:
        lines.append("95 %: the interval of the mean over questions like these.")
    if any(share < 1 for method in estimates.methods for share in method.judged.values()) and estimates.by_person:
        lines.append("judged: the share of the first k that you judged; the rest counts as not relevant.")
        lines.append("bounds: the least and the greatest mean over your questions, whatever the rest is.")
    if estimates.model is not None and estimates.by_person < FEWEST_JUDGED:
        lines.append(f"The figures are those of {estimates.model} alone, which nothing corrects.")
    return lines


def describe_worth(estimates: PoolEstimates) -> str:
    """Return how many judged questions the model's judgements are worth, or "" without a model or an interval."""
    first = estimates.methods[0].estimates[0].metric
    gains = {method.label: method.estimates[0].powered for method in estimates.methods}
    if estimates.model is None or estimates.by_person in (0, estimates.questions) or None in gains.values():
        return ""
    worth = {label: max(0.0, gain.effective_questions - estimates.by_person) for label, gain in gains.items() if gain}
    least, most = min(worth.values()), max(worth.values())
    span = f"{least:.0f} to {most:.0f}" if round(least) < round(most) else f"{most:.0f}"
    return (
        f"For {first}, the judgements of {estimates.model} are worth about {span} more questions judged by you "
        f"(effective sample size less {estimates.by_person}, by method)."
    )


def _row(method: JudgedMethod, place: int) -> tuple[str, ...]:
    """Return the row of one metric of a method."""
    estimate = method.estimates[place]
    judged = method.judged[f"{JUDGED}@{estimate.metric.rpartition('@')[2]}"]
    unsure = estimate.bounds if estimate.bounds is not None and estimate.bounds[0] < estimate.bounds[1] else None
    alone = estimate.person if estimate.model is None else estimate.model
    mean = alone if estimate.powered is None else estimate.powered.estimate
    return (
        estimate.metric,
        method.label,
        "–" if mean is None else percent(mean),
        "–" if estimate.powered is None else _describe_interval(estimate.powered.interval),
        percent(judged),
        "" if unsure is None else _describe_interval(unsure),
    )


def _describe_interval(ends: Interval) -> str:
    return f"{percent(ends[0])} to {percent(ends[1])}"
