"""The race of the candidates, block by block of questions, and what follows from it: the choice and its rival."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ragindex.errors import BudgetError
from ragindex.types import Query
from ragindex_eval.choose.candidates import require_racing
from ragindex_eval.choose.recommendation import Candidate, Progress, RaceStep, RecommendRules
from ragindex_eval.format import many, percent
from ragindex_eval.results.model import MethodAnswer
from ragindex_eval.run.experiment import Experiment
from ragindex_eval.run.latency import LazyRetriever
from ragindex_eval.run.notes import unknown_documents_notes
from ragindex_eval.run.scores import ask_scored
from ragindex_eval.stats.intervals import Interval, SampleArray
from ragindex_eval.stats.race import RaceRules, betting_interval, capital_growth, is_below, run_races

MOST_QUESTIONS = 20_000  # more are never proposed


def race_candidates(
    candidates: Sequence[Candidate],
    experiment: Experiment,
    rules: RecommendRules,
    queries: Sequence[Query],
    progress: Progress,
) -> tuple[SampleArray, list[Candidate], tuple[RaceStep, ...]]:
    """Ask the candidates block by block until the cheapest remaining one is accepted, or the questions end.

    A candidate that nothing races against is asked all questions, or until its recall is known if `min_recall` is set.
    Returns the scores of shape (questions asked, racers), NaN where a method was not asked, the candidates, racers
    first, and the race after each block.
    """
    racers = [candidate for candidate in candidates if candidate.state == "racing"]
    others = [candidate for candidate in candidates if candidate.state != "racing"]
    retrievers = [LazyRetriever(racer.scheme, experiment.index) for racer in racers]
    race = RaceRules(
        rules.delta, rules.alpha, len(queries) if rules.estimand == "questions" else None, block=rules.block
    )
    values = np.full((0, len(racers)), math.nan)
    answers: dict[str, list[MethodAnswer]] = {racer.label: [] for racer in racers}
    steps = list[RaceStep]()
    alone = len(racers) == 1 and rules.min_recall is None
    for start in range(0, len(queries), rules.block):
        block = queries[start : start + rules.block]
        rows = np.full((len(block), len(racers)), math.nan)
        for at, racer in enumerate(racers):
            if not racer.remains:
                continue
            try:
                scored = ask_scored(experiment, racer.label, retrievers[at], block, rules.metric)
            except BudgetError as error:
                racers[at] = replace(racer, asked=len(values)).leave(
                    "budget", f"not asked further within the budget: {error}"
                )
                progress.note(f"{racer.label} is left out after {many(len(values), 'question')}: the budget is spent")
                continue
            rows[:, at] = scored.scores
            answers[racer.label] += scored.answers
        values = np.vstack([values, rows])
        racers = _leave_below(racers, values, rules, race.population, progress)
        require_racing(racers)
        racers, ended = _decide(racers, values, race, progress, alone=all(one.state != "budget" for one in others))
        progress.stand(racers)
        asked_all = {
            racer.label: racer.score for racer in racers if racer.asked == len(values) and racer.score is not None
        }
        steps.append(RaceStep(len(values), asked_all, sum(racer.remains for racer in racers)))
        if ended and not alone and _is_recall_known(racers, values, rules, race.population):
            break
    for note in unknown_documents_notes(answers):
        progress.note(note)
    return values, [*racers, *others], tuple(steps)


def _leave_below(
    racers: Sequence[Candidate],
    values: SampleArray,
    rules: RecommendRules,
    population: int | None,
    progress: Progress,
) -> list[Candidate]:
    """Return the racers; those whose recall is shown to be below `min_recall` have left.

    All bets on recall have a risk of alpha of their own, which the racers share. The statements of the race stay true
    without those that left: whatever is more than delta worse than one that is below the bound is below it, too.
    """
    if rules.min_recall is None:
        return list(racers)
    found = list[Candidate]()
    for at, one in enumerate(racers):
        seen = values[~np.isnan(values[:, at]), at]
        if one.remains and is_below(seen, rules.min_recall, rules.alpha / len(racers) / 2, population):
            one = replace(one, asked=len(seen), score=float(seen.mean())).leave(
                "constraint", f"--min-recall {rules.min_recall:g}: {rules.metric} is below it for certain"
            )
            progress.note(
                f"{one.label} is left out after {many(one.asked, 'question')}: "
                f"{rules.metric} {percent(one.score or 0)} is below --min-recall {rules.min_recall:g} for certain"
            )
        found.append(one)
    return found


def _is_recall_known(
    racers: Sequence[Candidate], values: SampleArray, rules: RecommendRules, population: int | None
) -> bool:
    """Return whether it is shown that the cheapest remaining racer has the least recall allowed, if one is set."""
    if rules.min_recall is None:
        return True
    first = next(at for at, racer in enumerate(racers) if racer.remains)
    return recall_interval(values[:, first], rules, len(racers), population)[0] >= rules.min_recall


def recall_interval(scores: SampleArray, rules: RecommendRules, racers: int, population: int | None) -> Interval:
    """Return the interval of a racer's mean; those of all `racers` hold together, at any time."""
    low, high = betting_interval(scores[~np.isnan(scores)], rules.alpha / racers, population)
    return max(0.0, low), min(1.0, high)


def _decide(
    racers: Sequence[Candidate], values: SampleArray, race: RaceRules, progress: Progress, *, alone: bool
) -> tuple[list[Candidate], bool]:
    """Return the racers with what the race says of them after these scores, and whether it is over.

    A single racer is accepted if it is `alone`, because all others break a constraint or are worse.
    """
    left = np.array([racer.asked or -1 if racer.state in ("constraint", "budget") else 0 for racer in racers])
    races = run_races(np.nan_to_num(values)[None], np.arange(len(racers)), race, left)
    decided = list[Candidate]()
    for at, racer in enumerate(racers):
        seen = values[~np.isnan(values[:, at]), at]
        updated = replace(racer, asked=len(seen), score=float(seen.mean()) if len(seen) else None)
        dropped, accepted = int(races.dropped[0, at]), int(races.accepted[0, at])
        if racer.state in ("constraint", "budget"):
            updated = racer
        elif dropped and racer.state != "dropped":
            updated = updated.leave("dropped", f"more than {percent(race.delta)} points worse than another")
            progress.note(f"{racer.label} is dropped after {many(dropped, 'question')}: {percent(updated.score or 0)}")
        elif len(racers) == 1:
            updated = updated.leave("accepted", "no other meets the constraints") if alone else updated
        elif accepted and racer.state == "racing":
            updated = updated.leave("accepted", f"within {percent(race.delta)} points of the best")
            progress.note(
                f"{racer.label} is within {percent(race.delta)} points of the best, after {many(accepted, 'question')}"
            )
        decided.append(updated)
    return decided, bool(races.ended[0])


# ---------------------------------------------------------------- choice


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
    remaining = [at for at, racer in enumerate(racers) if racer.remains]
    accepted = [at for at in remaining if racers[at].state == "accepted" or len(remaining) == 1]
    score = [-1.0 if racer.score is None else racer.score for racer in racers]
    chosen = accepted[0] if accepted else max(remaining, key=lambda at: score[at])
    others = [at for at in remaining if at != chosen] or [at for at in range(len(racers)) if at != chosen]
    cheaper = tuple(at for at in remaining if at < chosen)
    return Choice(chosen, bool(accepted), max(others, key=lambda at: score[at], default=None), cheaper)


def more_questions(
    values: SampleArray, racers: Sequence[Candidate], choice: Choice, rules: RecommendRules
) -> dict[int, int | None]:
    """Return about how many more questions would settle each racer that is open against the chosen one, by number.

    None if no number would. Open are the cheaper ones that remain and, if the chosen one was not accepted, all others
    that do. Settled is on which side of the margin the difference lies: whether a cheaper one is within delta of the
    chosen one, and the chosen one within delta of a dearer one. Each capital is carried on with the differences seen so
    far, in the same order, until it reaches racers / alpha.
    """
    remaining = [at for at, racer in enumerate(racers) if racer.remains and at != choice.chosen]
    open_ones = [at for at in remaining if at in choice.cheaper or not choice.accepted]
    bounds = np.array([rules.delta if at in choice.cheaper else -rules.delta for at in open_ones])
    differences = values[:, [choice.chosen]] - values[:, open_ones]
    counts = _questions_to(
        math.log(len(racers) / rules.alpha), np.hstack([differences, -differences]), np.hstack([bounds, -bounds])
    )
    settled = zip(counts[: len(open_ones)], counts[len(open_ones) :], strict=True)
    fewest = (min((one for one in both if one is not None), default=None) for both in settled)
    return dict(zip(open_ones, fewest, strict=True))


def _questions_to(goal: float, differences: SampleArray, bounds: SampleArray) -> list[int | None]:
    """Return after how many more questions bets on columns of differences above `bounds` reach the goal."""
    asked, seen = len(differences), np.arange(max(MOST_QUESTIONS, len(differences) + 1))
    now = differences[seen % asked]
    totals, squares = (np.cumsum(values, axis=0) - values for values in (now, now**2))
    growth = capital_growth(now, totals, squares, seen=seen[:, None], bound=bounds, population=None)
    reached = np.cumsum(growth, axis=0)[asked:] >= goal
    firsts = reached.argmax(axis=0).tolist()
    return [first + 1 if reached[first, at] else None for at, first in enumerate(firsts)]


def find_pareto(racers: Sequence[Candidate]) -> tuple[str, ...]:
    """Return the labels of the racers that no other equals or beats in quality, latency, money and index at once."""

    def figures(one: Candidate) -> tuple[float, ...]:
        costs = one.costs
        values = (costs.p95_ms, costs.dollars_per_1000, costs.index_dollars, costs.index_seconds, costs.index_bytes)
        return (-(one.score or 0.0), *(math.inf if value is None else value for value in values))

    known = [(one.label, figures(one)) for one in racers if one.asked and one.state not in ("constraint", "budget")]
    return tuple(
        label for label, own in known if not any(_dominates(other, own) for name, other in known if name != label)
    )


def _dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True)) and one != other
