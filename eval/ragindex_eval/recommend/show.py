"""The text of a recommendation in the terminal: a sentence, the table of candidates, what would change it."""

from rich.console import Group, RenderableType
from rich.text import Text

from ragindex.cli.console import text_table
from ragindex_eval.format import join_names, many, percent, points, round_up, short
from ragindex_eval.recommend.decide import MOST_QUESTIONS
from ragindex_eval.recommend.rules import RecommendRules
from ragindex_eval.recommend.values import Candidate, Recommendation
from ragindex_eval.results.model import Interval


def render_recommendation(found: Recommendation, rules: RecommendRules) -> RenderableType:
    """Return the recommendation as the terminal shows it."""
    lines = [Text(describe_decision(found, rules), style="bold")]
    if found.recall is not None:
        lines.append(Text(_describe_recall(found.recall, found.chosen, rules)))
    lines.append(Text(describe_spending(found)))
    if found.confirmation is not None:
        lines.append(Text(_describe_confirmation(found)))
    lines += [Text(said) for said in (found.holdout.describe() if found.holdout else ())]
    lines += [Text(f"It would change: {said}.") for said in found.would_change]
    lines.append(Text(f"Encoder {found.encoder}."))
    rows = [_row(one, found) for one in found.candidates]
    table = text_table(
        ("", "method", rules.metric, "asked", "p95 ms", "index s", "MB", "$/1,000", "state"), tuple(rows)
    )
    return Group(Text(), table, Text("* on the Pareto set of quality, latency, money and index cost"), Text(), *lines)


def describe_decision(found: Recommendation, rules: RecommendRules) -> str:
    """Return the decision in one sentence."""
    margin, risk = percent(rules.delta), f"{100 * rules.alpha:g} %"
    about = "these questions" if rules.estimand == "questions" else "questions like these"
    chosen = found.candidate(found.chosen)
    score = f"{rules.metric} {percent(chosen.score)} so far" if chosen.score is not None else "not asked"
    if found.decided and found.rival is None:
        reached = f"{rules.metric} {percent(chosen.score or 0.0)} on {many(chosen.asked, 'question')}"
        return f"Use {found.chosen}: it is the only candidate that meets the constraints. {reached}."
    if found.decided:
        enough = "BM25 is enough" if chosen.scheme.__class__.__name__ == "BM25" else f"Use {found.chosen}"
        return (
            f"{enough}: on {about} it is within {margin} points of the best candidate in {rules.metric} (risk {risk}). "
            f"{score}; {_describe_difference(found)}. {_describe_cheaper(found, margin)}"
        )
    left = join_names([one.label for one in found.candidates if one.remains])
    return (
        f"Undecided between {left} (the cheapest first) on {about}, with a margin of {margin} points: "
        f"{_describe_more(found, margin)}. Best so far: {found.chosen}, {score}; {_describe_difference(found)}. These "
        "bounds hold whenever one stops, so they are wider than the intervals of compare."
    )


def _describe_cheaper(found: Recommendation, margin: str) -> str:
    if not found.cheaper:
        return "No cheaper candidate is."
    return f"Whether a cheaper one is ({', '.join(found.cheaper)}) is undecided: {_describe_more(found, margin)}."


def _describe_more(found: Recommendation, margin: str) -> str:
    if found.more_questions:
        more = many(round_up(found.more_questions), "question")
        return f"add about {more} to tell whether {margin} points lie between them"
    return f"not even {MOST_QUESTIONS:,} more like them would tell whether {margin} points lie between them"


def _describe_difference(found: Recommendation) -> str:
    if found.difference is None:
        return "no other was asked"
    low, high = found.difference
    return f"{found.chosen} less {found.rival}: {points(low)} to {points(high)} points"


def _describe_recall(interval: Interval, chosen: str, rules: RecommendRules) -> str:
    low, high = interval
    least = rules.min_recall or 0.0
    met = "is met" if low >= least else "is not met" if high < least else "may be met or not"
    return (
        f"--min-recall {least:g} {met}: {rules.metric} of {chosen} is {percent(low)} to {percent(high)} "
        f"(risk {100 * rules.alpha:g} %)."
    )


def describe_spending(found: Recommendation) -> str:
    """Return how many questions were asked, beside those of a full comparison."""
    share = 100 * found.spent / found.full if found.full else 0.0
    return (
        f"Asked {found.spent:,} questions in all. Asking {many(len(found.candidates), 'candidate')} all "
        f"{found.questions:,} takes {found.full:,} ({share:.0f} %)."
    )


def _describe_confirmation(found: Recommendation) -> str:
    seen = found.confirmation
    assert seen is not None  # noqa: S101  # the caller checks it
    low, high = seen.difference
    return (
        f"Confirmed once on {many(seen.questions, 'question')} kept apart: {found.chosen} {percent(seen.score)}, "
        f"{found.rival} {percent(seen.rival_score)}, difference {points(low)} to {points(high)} (95 %)."
    )


def _row(one: Candidate, found: Recommendation) -> tuple[str, ...]:
    costs = one.costs
    about = "~" if costs.estimated else ""
    return (
        "*" if one.label in found.pareto else "",
        one.label,
        "–" if one.score is None else percent(one.score),
        f"{one.asked:,}",
        _figure(costs.p95_ms),
        about + _figure(costs.index_seconds),
        about + _figure(None if costs.index_bytes is None else costs.index_bytes / 1e6),
        _figure(costs.dollars_per_1000),
        _describe_state(one),
    )


def _describe_state(one: Candidate) -> str:
    if one.state == "racing":
        return "not decided"
    return f"{one.state}: {one.reason}" if one.reason else one.state


def _figure(value: float | None) -> str:
    return "–" if value is None else short(value)
