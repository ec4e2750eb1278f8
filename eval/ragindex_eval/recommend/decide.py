"""What follows from a race: the choice, its rival, its confirmation, and what would change it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from ragindex._util.canonical import digest
from ragindex.types import Query
from ragindex_eval.format import percent, short
from ragindex_eval.recommend.rules import RecommendRules
from ragindex_eval.recommend.values import Candidate, Confirmation, ConfirmationVerdict
from ragindex_eval.results.model import Interval
from ragindex_eval.run.experiment import Experiment
from ragindex_eval.run.holdout import HoldoutUse, Ledger, hash_question, record_use
from ragindex_eval.run.scores import compare_scores
from ragindex_eval.stats.intervals import LEVEL, SampleArray
from ragindex_eval.stats.race import capital_growth

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


def confirm(
    chosen: Candidate,
    rival: Candidate,
    experiment: Experiment,
    queries: Sequence[Query],
    rules: RecommendRules,
    ledger: Ledger,
) -> Confirmation:
    """Ask the chosen method and its rival the questions that were kept apart, and write the use down before.

    Raises StoreError if the ledger cannot be read or written.
    """
    hashes = tuple(hash_question(query.text) for query in queries)
    methods = (chosen.scheme, rival.scheme)
    use = HoldoutUse(
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        command="recommend",
        file=experiment.dataset.questions_file or experiment.dataset.name,
        chosen=chosen.label,
        rival=rival.label,
        metric=rules.metric,
        asked=digest(
            [rules.metric, *(experiment.index.result_fingerprint(method) for method in methods), sorted(hashes)]
        ),
        questions=hashes,
        reused=False,
    )
    earlier = len(record_use(ledger, use, counts=True))
    level = confirmation_level(earlier)
    own, other = (chosen.label, chosen.scheme), (rival.label, rival.scheme)
    score, rival_score, difference = compare_scores(experiment, own, other, queries, rules.metric, level)
    return Confirmation(
        judge_confirmation(difference, rules.delta), len(queries), score, rival_score, difference, 1 - level, earlier
    )


def confirmation_level(earlier: int) -> float:
    """Return the risk of a confirmation after so many earlier ones by any of its questions.

    The first has 2.5 %, the next 0.8 %, and all together 5 %, however often a choice is made with more questions.
    """
    return LEVEL / ((earlier + 1) * (earlier + 2))


def judge_confirmation(difference: Interval, margin: float) -> ConfirmationVerdict:
    """Return what the interval of chosen minus rival says of the claim that the chosen one is within the margin."""
    low, high = difference
    return "confirmed" if low >= -margin else "contradicted" if high < -margin else "open"


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


def describe_changes(candidates: Sequence[Candidate], chosen: Candidate) -> tuple[str, ...]:
    """Say which other rules would let another candidate be chosen."""
    said = [
        f"{candidate.label} may enter without {candidate.reason}"
        for candidate in candidates
        if candidate.state == "constraint"
    ]
    said += [
        f"{candidate.label} was left out on a part of the corpus: {candidate.reason}"
        for candidate in candidates
        if candidate.state == "sub-corpus"
    ]
    said += [
        f"{candidate.label} may be chosen with a larger --budget: {candidate.reason}"
        for candidate in candidates
        if candidate.state == "budget"
    ]
    better = [
        candidate
        for candidate in candidates
        if candidate.label != chosen.label and candidate.remains and (candidate.score or 0.0) > (chosen.score or 0.0)
    ]
    for one in better:
        gap = (one.score or 0.0) - (chosen.score or 0.0)
        said.append(f"{one.label} scores {percent(gap)} points more so far: a --delta below {short(gap)} may prefer it")
    return tuple(said)
