"""The text of what was judged, for the terminal: counts, a table of methods, the worth of the model's judgements."""

from rich.console import Group, RenderableType
from rich.text import Text

from ragindex._util.text import many
from ragindex.cli.console import text_table
from ragindex_eval.format import percent
from ragindex_eval.judge.estimate import JUDGED, RECALL, JudgeAgreement, JudgedMethod, PoolEstimates
from ragindex_eval.results.model import Interval
from ragindex_eval.stats.prediction_powered import FEWEST_JUDGED

_COLUMNS = ("metric", "method", "%", "95 %", "judged", "bounds")


def render_judged(found: PoolEstimates) -> RenderableType:
    """Return what was judged as the terminal shows it."""
    lines = [Text(describe_counts(found), style="bold")]
    table = text_table(
        _COLUMNS,
        tuple(_row(method, place) for place in range(len(found.methods[0].estimates)) for method in found.methods),
    )
    if found.agreement is not None:
        lines.append(Text(describe_agreement(found.agreement, found.model or "the model")))
    worth = describe_worth(found)
    notes = [Text(term, style="dim") for term in describe_terms(found)]
    return Group(*lines, Text(), table, Text(), *notes, *([Text(worth, style="bold")] if worth else []))


def describe_counts(found: PoolEstimates) -> str:
    """Return how much was pooled, and how much of it a person judged."""
    pool = f"{many(len(found.methods), 'method')} to a depth of {found.depth}"
    return (
        f"Judged by you: {found.by_person} of {many(found.questions, 'question')} "
        f"({found.documents_by_person:,} of {found.documents:,} pooled documents; {pool}, seed {found.seed})."
    )


def describe_agreement(one: JudgeAgreement, model: str) -> str:
    """Return how the model's judgements compare with the person's."""
    kappa = "" if one.kappa is None else f", Cohen's kappa {one.kappa:.2f}"
    missed = "" if one.missed is None else f"; it misses {percent(one.missed)} % of what you call relevant"
    accepted = "" if one.accepted is None else f" and accepts {percent(one.accepted)} % of the rest"
    about = f"{percent(one.share)} % of {many(one.documents, 'document')}"
    return f"{model} agrees with you on {about}{kappa}{missed}{accepted}."


def describe_terms(found: PoolEstimates) -> list[str]:
    """Return what the figures mean."""
    lines = [
        f"{RECALL}: the share of the relevant documents of the pool, not of all documents; 0 where the pool has none"
        + (f" ({many(found.without_relevant, 'question')})." if found.by_person else ".")
    ]
    if found.by_person < FEWEST_JUDGED:
        lines.append(f"An interval needs {FEWEST_JUDGED} questions that you judged completely.")
    else:
        lines.append("95 %: the interval of the mean over questions like these.")
    if any(share < 1 for method in found.methods for share in method.judged.values()) and found.by_person:
        lines.append("judged: the share of the first k that you judged; the rest counts as not relevant.")
        lines.append("bounds: the least and the greatest mean over your questions, whatever the rest is.")
    if found.model is not None and found.by_person < FEWEST_JUDGED:
        lines.append(f"The figures are those of {found.model} alone, which nothing corrects.")
    return lines


def describe_worth(found: PoolEstimates) -> str:
    """Return how many judged questions the model's judgements are worth, or "" without a model or an interval."""
    first = found.methods[0].estimates[0].metric
    gains = {method.label: method.estimates[0].powered for method in found.methods}
    if found.model is None or found.by_person in (0, found.questions) or None in gains.values():
        return ""
    worth = {label: max(0.0, gain.effective_questions - found.by_person) for label, gain in gains.items() if gain}
    least, most = min(worth.values()), max(worth.values())
    span = f"{least:.0f} to {most:.0f}" if round(least) < round(most) else f"{most:.0f}"
    return (
        f"For {first}, the judgements of {found.model} are worth about {span} more questions judged by you "
        f"(effective sample size less {found.by_person}, by method)."
    )


def _row(method: JudgedMethod, place: int) -> tuple[str, ...]:
    """Return the row of one metric of a method."""
    one = method.estimates[place]
    judged = method.judged[f"{JUDGED}@{one.metric.rpartition('@')[2]}"]
    unsure = one.bounds if one.bounds is not None and one.bounds[0] < one.bounds[1] else None
    alone = one.person if one.model is None else one.model
    mean = alone if one.powered is None else one.powered.estimate
    return (
        one.metric,
        method.label,
        "–" if mean is None else percent(mean),
        "–" if one.powered is None else _describe_interval(one.powered.interval),
        percent(judged),
        "" if unsure is None else _describe_interval(unsure),
    )


def _describe_interval(ends: Interval) -> str:
    return f"{percent(ends[0])} to {percent(ends[1])}"
