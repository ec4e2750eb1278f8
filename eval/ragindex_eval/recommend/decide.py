"""What follows from a race: the choice, its rival, its confirmation, and what would change it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragindex.types import Query
from ragindex_eval.format import percent, short
from ragindex_eval.recommend.rules import RecommendRules
from ragindex_eval.recommend.values import Candidate, Confirmation
from ragindex_eval.run.ask_scored import compare_scores
from ragindex_eval.run.experiment import Experiment
from ragindex_eval.stats.race import capital_growth
from ragindex_eval.stats.resampling import SampleArray

MOST_QUESTIONS = 20_000  # more are never proposed


@dataclass(frozen=True, slots=True)
class Choice:
    """Numbers of the chosen racer, of its rival, the best of the others, and of the cheaper ones that remain."""

    chosen: int
    accepted: bool
    rival: int | None
    cheaper: tuple[int, ...]


def choose(racers: Sequence[Candidate]) -> Choice:
    """Choose the cheapest racer that was accepted, else the remaining one with the best mean.

    Racers are sorted by price. The rival is the best of the others by its mean, dropped ones only if none remains.
    """
    remaining = [at for at, one in enumerate(racers) if one.remains]
    accepted = [at for at in remaining if racers[at].state == "accepted" or len(remaining) == 1]
    score = [-1.0 if one.score is None else one.score for one in racers]
    chosen = accepted[0] if accepted else max(remaining, key=lambda at: score[at])
    others = [at for at in remaining if at != chosen] or [at for at in range(len(racers)) if at != chosen]
    cheaper = tuple(at for at in remaining if at < chosen)
    return Choice(chosen, bool(accepted), max(others, key=lambda at: score[at], default=None), cheaper)


def more_questions(
    values: SampleArray, racers: Sequence[Candidate], choice: Choice, rules: RecommendRules
) -> int | None:
    """Return about how many more questions would settle what is open; 0 if nothing is, None if no number would.

    Open is whether the chosen method is within delta of each remaining one, if it was not accepted, and whether each
    cheaper one is more than delta worse than it. Each capital is carried on with the differences seen so far, in the
    same order, until it reaches racers / alpha.
    """
    goal = math.log(len(racers) / rules.alpha)
    remaining = [at for at, one in enumerate(racers) if one.remains and at != choice.chosen]
    bets = [] if choice.accepted else [(at, -rules.delta) for at in remaining]
    bets += [(at, rules.delta) for at in choice.cheaper]
    counts = [_questions_to(goal, values[:, choice.chosen] - values[:, at], bound) for at, bound in bets]
    known = [count for count in counts if count is not None]
    return max(known, default=0) if len(known) == len(counts) else None


def _questions_to(goal: float, differences: SampleArray, bound: float) -> int | None:
    total = squares = capital = 0.0
    for seen in range(MOST_QUESTIONS):
        now = float(differences[seen % len(differences)])
        sums = (np.array([now]), np.array([total]), np.array([squares]))
        capital += float(capital_growth(*sums, seen=seen, bound=bound, population=None)[0])
        total, squares = total + now, squares + now**2
        if capital >= goal and seen >= len(differences):
            return seen + 1 - len(differences)
    return None


def confirm(
    chosen: Candidate, rival: Candidate, experiment: Experiment, queries: Sequence[Query], metric: str
) -> Confirmation:
    """Ask the chosen method and its rival the questions that were kept apart; the interval is a 95 % bootstrap."""
    own, other = (chosen.label, chosen.scheme), (rival.label, rival.scheme)
    return Confirmation(len(queries), *compare_scores(experiment, own, other, queries, metric))


def find_pareto(racers: Sequence[Candidate]) -> tuple[str, ...]:
    """Return the labels of the racers that no other equals or beats in quality, latency, money and index at once."""

    def figures(one: Candidate) -> tuple[float, ...]:
        costs = one.costs
        values = (costs.p95_ms, costs.dollars_per_1000, costs.index_dollars, costs.index_seconds, costs.index_bytes)
        return (-(one.score or 0.0), *(math.inf if value is None else value for value in values))

    known = [(one.label, figures(one)) for one in racers if one.asked and one.state != "constraint"]
    return tuple(
        label for label, own in known if not any(_dominates(other, own) for name, other in known if name != label)
    )


def _dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True)) and one != other


def describe_changes(candidates: Sequence[Candidate], chosen: Candidate) -> tuple[str, ...]:
    """Say which other rules would let another candidate be chosen."""
    said = [f"{one.label} may enter without {one.reason}" for one in candidates if one.state == "constraint"]
    said += [
        f"{one.label} was left out on a part of the corpus: {one.reason}"
        for one in candidates
        if one.state == "sub-corpus"
    ]
    better = [
        one
        for one in candidates
        if one.label != chosen.label and one.remains and (one.score or 0.0) > (chosen.score or 0.0)
    ]
    for one in better:
        gap = (one.score or 0.0) - (chosen.score or 0.0)
        said.append(f"{one.label} scores {percent(gap)} points more so far: a --delta below {short(gap)} may prefer it")
    return tuple(said)
