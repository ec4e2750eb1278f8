"""The text of a recommendation in the terminal: a sentence, the table of candidates, what would change it."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ragindex.cli.console import text_table
from ragindex.index.parts import topological_order, uses_encoder
from ragindex.types import Usage
from ragindex_eval.choose.candidates import sort_by_price
from ragindex_eval.choose.recommend import judge_confirmation
from ragindex_eval.choose.recommendation import (
    Candidate,
    Confirmation,
    ConfirmationVerdict,
    Recommendation,
    RecommendRules,
)
from ragindex_eval.format import describe_lsa, join_names, many, percent, points, short
from ragindex_eval.stats.intervals import Interval


def render_recommendation(recommendation: Recommendation, rules: RecommendRules) -> RenderableType:
    """Return the recommendation as the terminal shows it."""
    lines = [Text(describe_decision(recommendation, rules), style="bold")]
    if recommendation.recall is not None:
        lines.append(Text(_describe_recall(recommendation.recall, recommendation.chosen, rules)))
    if rules.max_p95_ms is not None:
        lines.append(Text(_describe_p95(recommendation.candidate(recommendation.chosen), rules.max_p95_ms)))
    lines.append(Text(describe_spending(recommendation)))
    if recommendation.confirmation is not None:
        lines.append(Text(_describe_confirmation(recommendation.confirmation, recommendation, percent(rules.delta))))
    elif recommendation.kept and not recommendation.decided:
        lines.append(
            Text(f"{many(recommendation.kept, 'question')} stay kept apart, to confirm a choice once one is made.")
        )
    if recommendation.holdout is not None:
        lines += map(Text, recommendation.holdout.describe())
        if not recommendation.holdout.earlier:
            verdict = judge_confirmation(recommendation.holdout.difference, rules.delta)
            lines.append(Text(f"{_state_verdict(verdict, 'the holdout', recommendation, percent(rules.delta))}."))
    lines += [Text(f"It would change: {change}.") for change in recommendation.would_change]
    resting = [
        candidate.label
        for candidate in recommendation.candidates
        if any(map(uses_encoder, topological_order(candidate.scheme.parts())))
    ]
    lines.append(Text(describe_lsa(recommendation.encoder, resting) or f"Encoder {recommendation.encoder}."))
    rows = [_row(candidate, recommendation) for candidate in recommendation.candidates]
    table = text_table(
        ("", "method", rules.metric, "asked", "p95 ms", "index s", "MB", "$/1,000", "state"), tuple(rows)
    )
    return Group(Text(), table, Text("* on the Pareto set of quality, latency, money and index cost"), Text(), *lines)


def describe_standing(candidates: Sequence[Candidate], metric: str, command: str) -> str:
    """Say how an interrupted race stands, and the command to go on with; "" if no method was asked a question."""
    scored = [candidate for candidate in candidates if candidate.remains and candidate.score is not None]
    if not scored:
        return ""
    best, *others = sorted(scored, key=lambda candidate: -(candidate.score or 0.0))
    score = f"{metric} {percent(best.score or 0.0)} on {many(best.asked, 'question')}"
    rest = ", ".join(f"{candidate.label} {percent(candidate.score or 0.0)}" for candidate in others)
    waiting = [candidate.label for candidate in candidates if candidate.state == "racing" and candidate.score is None]
    left = [candidate.label for candidate in candidates if not candidate.remains]
    sentences = [
        f"Provisional: {best.label} leads, {score}{f'; {rest}' if rest else ''}.",
        *(
            [f"Nothing is decided between {join_names([best.label, *(candidate.label for candidate in others)])}."]
            if others
            else []
        ),
        *([f"Not built or not asked yet: {join_names(waiting)}."] if waiting else []),
        *([f"Left the race: {join_names(left)}."] if left else []),
        f"To go on: {command}",
    ]
    return " ".join(sentences)


def describe_decision(recommendation: Recommendation, rules: RecommendRules) -> str:
    """Return the decision in one sentence, and what was tested of the other candidates."""
    margin, risk = percent(rules.delta), f"{100 * rules.alpha:g} %"
    about = _describe_questions(recommendation) if rules.estimand == "questions" else "questions like these"
    chosen = recommendation.candidate(recommendation.chosen)
    others = [candidate for candidate in recommendation.candidates if candidate.label != recommendation.chosen]
    score = f"{rules.metric} {percent(chosen.score)} so far" if chosen.score is not None else "not asked"
    if recommendation.decided and not any(other.remains or other.state == "dropped" for other in others):
        reached = f"{rules.metric} {percent(chosen.score or 0.0)} on {many(chosen.asked, 'question')}"
        if all(other.state == "constraint" for other in others):
            return f"Use {recommendation.chosen}: it is the only candidate that meets the constraints. {reached}."
        return f"Use {recommendation.chosen}: no other candidate is left. {_list_untested(others)}. {reached}."
    if recommendation.decided:
        enough = "BM25 is enough" if chosen.scheme.__class__.__name__ == "BM25" else f"Use {recommendation.chosen}"
        raced = sum(candidate.asked > 0 for candidate in recommendation.candidates)
        best = "best candidate" if raced == len(recommendation.candidates) else f"best of the {raced} candidates raced"
        return (
            f"{enough}: on {about} it is within {margin} points of the {best} in {rules.metric} (risk {risk}). "
            f"{score}; {_describe_difference(recommendation)}. {_describe_cheaper(recommendation)}"
        )
    if recommendation.over_budget:
        return f"{_describe_budget(recommendation)} Best of the others so far: {recommendation.chosen}, {score}."
    left = join_names([candidate.label for candidate in recommendation.candidates if candidate.remains])
    return (
        f"Undecided between {left} (the cheapest first) on {about}, with a margin of {margin} points. Best so far: "
        f"{recommendation.chosen}, {score}; {_describe_difference(recommendation)}. "
        "These bounds hold whenever one stops, so they are wider than the intervals of compare. "
        f"{recommendation.tells_more}"
    )


def _describe_budget(recommendation: Recommendation) -> str:
    """Say which candidates the budget did not suffice for, so that the race has not judged them."""
    names = join_names([candidate.label for candidate in recommendation.over_budget])
    unbuilt = "could not be built or asked within --budget"
    return f"Undecided: {names} {unbuilt}, so nothing is known of {'it' if ' and ' not in names else 'them'}."


def _describe_questions(recommendation: Recommendation) -> str:
    """Name the questions that a race without replacement is about."""
    if not recommendation.kept:
        return "these questions"
    return f"the {recommendation.questions:,} questions of the race (not the {recommendation.kept:,} kept apart)"


def _describe_cheaper(recommendation: Recommendation) -> str:
    """Say of each candidate that is cheaper than the chosen one what was tested."""
    by_price = sort_by_price(recommendation.candidates)
    cheaper = by_price[: [candidate.label for candidate in by_price].index(recommendation.chosen)]
    if not cheaper:
        return "No candidate is cheaper."
    dropped = [candidate.label for candidate in cheaper if candidate.state == "dropped"]
    untested = [candidate for candidate in cheaper if not candidate.remains and candidate.state != "dropped"]
    sentences = list[str]()
    if dropped:
        none = "No cheaper candidate is" if len(dropped) == len(cheaper) else "Cheaper ones that are not"
        sentences.append(f"{none}: the race dropped {join_names(dropped)}.")
    if untested:
        sentences.append(f"Cheaper too, but left before that was known: {_list_untested(untested)}.")
    if recommendation.cheaper:
        names = ", ".join(recommendation.cheaper)
        sentences.append(f"Whether a cheaper one is ({names}) is undecided. {recommendation.tells_more}")
    return " ".join(sentences)


def _list_untested(candidates: Sequence[Candidate]) -> str:
    """Say why candidates were not raced to the end."""
    reasons = {
        "constraint": "for a constraint",
        "budget": "for the budget",
        "sub-corpus": "after a trial on a part of the corpus, a heuristic outside the risk",
    }
    labels: dict[str, list[str]] = {}
    for candidate in candidates:
        labels.setdefault(reasons.get(candidate.state, candidate.state), []).append(candidate.label)
    return "; ".join(f"{join_names(names)} left {reason}" for reason, names in labels.items())


def _describe_difference(recommendation: Recommendation) -> str:
    if recommendation.difference is None:
        return "no other was asked"
    low, high = recommendation.difference
    return f"{recommendation.chosen} less {recommendation.rival}: {points(low)} to {points(high)} points"


def _describe_recall(interval: Interval, chosen: str, rules: RecommendRules) -> str:
    low, high = interval
    least = rules.min_recall or 0.0
    met = "is met" if low >= least else "is not met" if high < least else "may be met or not"
    return (
        f"--min-recall {least:g} {met}: {rules.metric} of {chosen} is {percent(low)} to {percent(high)} "
        f"(risk {100 * rules.alpha:g} %)."
    )


def describe_spending(recommendation: Recommendation) -> str:
    """Return how many questions were asked, beside those of a full comparison, and what was paid if anything was."""
    share = 100 * recommendation.questions_asked / recommendation.full if recommendation.full else 0.0
    return (
        f"Asked {recommendation.questions_asked:,} questions in all. "
        f"Asking {many(len(recommendation.candidates), 'candidate')} all "
        f"{recommendation.questions:,} takes {recommendation.full:,} ({share:.0f} %)."
        f"{_describe_paid(recommendation.paid)}"
    )


def _describe_paid(paid: Usage) -> str:
    """Return a sentence on what was paid; "" if nothing was."""
    if paid.money is None:
        return " What it paid is not known: a model has no price."
    about = "about " if paid.estimated else ""
    return f" Paid {about}${paid.money:.4f}." if paid.money else ""


def _describe_p95(candidate: Candidate, limit: float) -> str:
    """Say whether the 95th percentile of a method is shown to be within the limit."""
    low, high = candidate.costs.p95_bounds
    if high is None:
        return (
            f"--max-p95-ms {limit:g} may be met or not by {candidate.label}: "
            "an upper bound of the 95th percentile takes 59 questions that were timed."
        )
    met = "is met" if high <= limit else "may be met or not"
    return (
        f"--max-p95-ms {limit:g} {met}: the 95th percentile of {candidate.label} is "
        f"{short(low or 0.0)} to {short(high)} ms "
        "(a risk of 5 % for each bound). One question in twenty may take longer, however much."
    )


def _describe_confirmation(seen: Confirmation, recommendation: Recommendation, margin: str) -> str:
    low, high = seen.difference
    verdict = _state_verdict(seen.verdict, f"{many(seen.questions, 'question')} kept apart", recommendation, margin)
    earlier = many(seen.earlier, "earlier confirmation")
    again = f" {earlier} used some of these questions, so the interval is wider." if seen.earlier else ""
    return (
        f"{verdict}. {percent(seen.score)} and {percent(seen.rival_score)}, difference {points(low)} to "
        f"{points(high)} ({100 * seen.confidence:.3g} %).{again}"
    )


def _state_verdict(verdict: ConfirmationVerdict, questions: str, recommendation: Recommendation, margin: str) -> str:
    is_worse = {"confirmed": "is not", "contradicted": "is", "open": "may be"}[verdict]
    return (
        f"{verdict.capitalize()} on {questions}: {recommendation.chosen} {is_worse} more than {margin} points "
        f"worse than {recommendation.rival}"
    )


def _row(candidate: Candidate, recommendation: Recommendation) -> tuple[str, ...]:
    costs = candidate.costs
    about = "~" if costs.estimated else ""
    return (
        "*" if candidate.label in recommendation.pareto else "",
        candidate.label,
        "–" if candidate.score is None else percent(candidate.score),
        f"{candidate.asked:,}",
        _figure(costs.p95_ms),
        about + _figure(costs.index_seconds),
        about + _figure(None if costs.index_bytes is None else costs.index_bytes / 1e6),
        _figure(costs.dollars_per_1000),
        _describe_state(candidate),
    )


def _describe_state(candidate: Candidate) -> str:
    if candidate.state == "racing":
        return "not decided"
    return f"{candidate.state}: {candidate.reason}" if candidate.reason else candidate.state


def _figure(value: float | None) -> str:
    return "–" if value is None else short(value)
