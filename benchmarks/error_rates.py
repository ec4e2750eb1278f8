"""Rates of false conclusions and of differences found, simulated: of pairs, of methods as the best, and of gates.

    .venv/bin/python -m benchmarks.error_rates [SIMULATIONS]

Recall of a question is that of an easy or a hard question, which all methods share in part; it is a multiple of 1/2.
Skewed quality has equal means, but every other method gains a little on most questions and loses much on few. Latency
is lognormal with a part that the methods share; some questions take many times as long. No method is called better
rightly among equal ones: the rate of comparisons with any such error should be at most 0.05. A gate's method that is
worse by exactly the margin should pass with a rate of 0.025 at most. Intervals of means should hold the mean in 95 %.
Rates of the worst case, in which a method gains the same on all questions but the rare ones that it loses, are exact.
"""

import random
import sys
import time
from collections.abc import Callable, Sequence
from itertools import combinations
from multiprocessing import Pool

import numpy as np
from scipy.stats import binom

from ragindex.types import Query
from ragindex_eval.choose.candidates import TRIAL_QUESTIONS, largest_gain
from ragindex_eval.choose.gate import QuestionScores, judge_gate
from ragindex_eval.choose.recommend import confirmation_level, judge_confirmation, split_questions
from ragindex_eval.conclusions.leaders import DRIFT
from ragindex_eval.run.holdout import hash_question
from ragindex_eval.stats.intervals import LEVEL, SampleArray, mean_interval, percentile_interval
from ragindex_eval.stats.paired_tests import POWER, paired_interval, raise_spread, run_paired_tests, smallest_difference
from ragindex_eval.stats.race import RaceRules, run_races

RESAMPLES = 1_000
SKEWED = 0.15  # the share of questions that take long

Draws = np.random.Generator


def recalls(draws: Draws, questions: int, gains: Sequence[float]) -> SampleArray:
    """Recall of shape (questions, methods): a share of two gold documents, found if a latent score is above 0."""
    hard, shared = draws.normal(0.0, 1.0, (questions, 1, 1)), draws.normal(0.0, 0.7, (questions, 1, 2))
    own = draws.normal(0.0, 0.7, (questions, len(gains), 2))
    return (hard + shared + own + np.asarray(gains)[:, None] > 0).mean(axis=2)


def latencies(draws: Draws, questions: int, gains: Sequence[float]) -> SampleArray:
    """Logarithms of milliseconds: of every method by itself, some questions take up to fifty times as long."""
    slow = (draws.random((questions, len(gains))) < SKEWED) * draws.exponential(2.0, (questions, len(gains)))
    return draws.normal(1.0, 0.5, (questions, 1)) + draws.normal(0.0, 0.2, (questions, len(gains))) + slow + gains


def unequal_tails(draws: Draws, questions: int, gains: Sequence[float]) -> SampleArray:
    """The same, and the tail is that of every other method only, whose other times are lower: equal geometric means."""
    slow = (draws.random((questions, len(gains))) < SKEWED) * draws.exponential(2.0, (questions, len(gains)))
    tailed = np.arange(len(gains)) % 2 * (slow - 2.0 * SKEWED)
    return draws.normal(1.0, 0.5, (questions, 1)) + draws.normal(0.0, 0.2, (questions, len(gains))) + tailed + gains


def skewed_quality(share: float, loss: float) -> Callable[[Draws, int, Sequence[float]], SampleArray]:
    """Quality around 0.5: every other method loses `loss` on a share of the questions and gains the same in sum."""

    def draw(draws: Draws, questions: int, gains: Sequence[float]) -> SampleArray:
        lost = draws.random((questions, len(gains))) < share
        changed = np.arange(len(gains)) % 2 * (share * loss - loss * lost)
        return 0.5 + changed + draws.normal(0.0, 0.01, (questions, len(gains))) + gains

    return draw


CASES: dict[str, tuple[Callable[[Draws, int, Sequence[float]], SampleArray], Sequence[float]]] = {
    "recall, 2 methods, all equal": (recalls, [0.0] * 2),
    "recall, 5 methods, all equal": (recalls, [0.0] * 5),
    "recall, 12 methods, all equal": (recalls, [0.0] * 12),
    "recall, 6 methods: 1 far behind": (recalls, [-2.0, *[0.0] * 5]),
    "recall, 6 methods: 3 equal, 3 others behind": (recalls, [0.0, 0.0, 0.0, -0.4, -0.8, -1.6]),
    "recall, 6 methods: two groups of equal ones": (recalls, [0.0, 0.0, 0.0, -1.0, -1.0, -1.0]),
    **{
        f"skewed: -{loss} on {share:.0%}, {count} methods": (skewed_quality(share, loss), [0.0] * count)
        for share, loss in ((0.02, 0.9), (0.05, 0.9), (0.1, 0.9), (0.2, 0.5))
        for count in (2, 6, 12)
    },
    "latency, 6 methods, all equal, skewed": (latencies, [0.0] * 6),
    "latency, 6 methods: 3 equal, 3 slower, skewed": (latencies, [0.0, 0.0, 0.0, 0.7, 1.4, 2.1]),
    "latency, 6 methods, equal means, unequal tails": (unequal_tails, [0.0] * 6),
}
SIZES = (10, 20, 50, 100, 200)
_TIMES = (latencies, unequal_tails)


def simulate(case: str, questions: int, seed: int) -> tuple[float, ...]:
    """Return whether the test distinguishes any pair of equal methods, and the error of the words of a report.

    The latter is whether the first sentence excludes any of the best methods or, of latencies, whether any of the equal
    methods is called faster. Then the shares of the differing pairs that are distinguished, by max-T, and by Holm's
    correction of the same p.
    """
    make, gains = CASES[case]
    values = make(np.random.default_rng([seed, questions]), questions, gains)
    pairs = list(combinations(range(len(gains)), 2))
    tests = run_paired_tests(values[:, :, None], pairs, seed, None if make in _TIMES else 1.0, RESAMPLES)
    differ = np.array([gains[share] != gains[other] for share, other in pairs])
    called, holm = tests.adjusted[:, 0] < LEVEL, correct_by_holm(tests.p[:, 0]) < LEVEL
    if make not in _TIMES:
        worded = is_best_excluded(tests.low[:, 0] > 0, tests.high[:, 0] < 0, np.array(pairs), np.array(gains))
    else:
        worded = any(is_called_faster(values, *pair) for pair in np.array(pairs)[called & ~differ])
    shares = (float(share[differ].mean()) if differ.any() else 0.0 for share in (called, holm))
    return float(called[~differ].any()), float(worded), *shares


def is_best_excluded(ahead: np.ndarray, behind: np.ndarray, pairs: np.ndarray, gains: np.ndarray) -> bool:
    """Return whether a best method is significantly worse than another: the first or the second one of a pair."""
    worse = np.concatenate([pairs[ahead, 1], pairs[behind, 0]])
    return bool((gains[worse] == gains.max()).any())


def is_called_faster(values: SampleArray, first: int, second: int) -> bool:
    """Return whether a difference of latencies is also one of a factor, in the mean and p50, and not against p95."""
    means, p50, p95 = values.mean(axis=0), *np.percentile(values, (50, 95), axis=0)
    fast, slow = sorted((first, second), key=lambda at: means[at])
    least = np.log(DRIFT)
    return bool(min(means[slow] - means[fast], p50[slow] - p50[fast]) >= least and p95[fast] <= p95[slow])


def correct_by_holm(p: SampleArray) -> SampleArray:
    order = np.argsort(p)
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return corrected


def rates(case: str, questions: int, simulations: int) -> np.ndarray:
    return np.array([simulate(case, questions, seed) for seed in range(simulations)], dtype=float).mean(axis=0)


# Shares of questions that are lost, lost by half, won by half and won.
GATES: dict[str, tuple[tuple[float, float, float, float], float]] = {
    "2 % lost, margin 2": ((0.02, 0.0, 0.0, 0.0), 0.02),
    "5 % lost, 3 % won, margin 2": ((0.05, 0.0, 0.0, 0.03), 0.02),
    "12 % lost, 10 % won, margin 2": ((0.12, 0.0, 0.0, 0.10), 0.02),
    "2 % lost, 6 % by half, 4 % won by half, 1 % won, margin 2": ((0.02, 0.06, 0.04, 0.01), 0.02),
    "12 % lost, 7 % won, margin 5": ((0.12, 0.0, 0.0, 0.07), 0.05),
    "level everywhere, margin 2": ((0.0, 0.0, 0.0, 0.0), 0.02),
    "2 % lost, 2 % won, margin 5": ((0.02, 0.0, 0.0, 0.02), 0.05),
    "10 % lost, 10 % won, margin 5": ((0.10, 0.0, 0.0, 0.10), 0.05),
}
GATE_SIZES = (8, 20, 50, 100, 200, 500)


def pass_rate(case: str, questions: int, simulations: int) -> float:
    """Return how often a gate passes."""
    shares, margin = GATES[case]
    passed = 0
    for seed in range(simulations):
        draws = np.random.default_rng(seed)
        values = draws.choice([-1.0, -0.5, 0.5, 1.0, 0.0], questions, p=[*shares, 1 - sum(shares)])
        ids = [(f"q{number}", ("d",)) for number in range(questions)]
        new = QuestionScores("new", dict(zip(ids, values.tolist(), strict=True)), {}, "lsa")
        level = QuestionScores("baseline", dict.fromkeys(ids, 0.0), {}, "lsa")
        passed += judge_gate(new, level, "R@5", margin).verdict == "PASS"
    return passed / simulations


def print_gates(simulations: int) -> None:
    print(f"\nGates that pass, {simulations:,} simulations each\n")
    with Pool() as pool:
        for case in GATES:
            rates = pool.starmap(pass_rate, [(case, questions, simulations) for questions in GATE_SIZES])
            print(f"| {case} | {' | '.join(f'{rate:.1%}' for rate in rates)} |", flush=True)


POWERS = [(spread, methods) for spread in (0.1, 0.3, 0.5) for methods in (2, 5, 12)]


def shown_rate(spread: float, methods: int, questions: int, simulations: int) -> float:
    """Return how often the smallest difference that a report states is significant; nan if there is none.

    Recall has one gold document. The first method is as far ahead of every other one, of which one counts.
    """
    pairs = list(combinations(range(methods), 2))
    mean = smallest_difference(spread, questions, len(pairs))
    if mean is None:
        return float("nan")
    squares = raise_spread(spread, mean) ** 2 + mean**2
    shown = 0
    for seed in range(simulations):
        draws = np.random.default_rng([seed, questions, methods])
        first = draws.random((questions, 1)) < 0.5
        changed = draws.random((questions, methods - 1)) < np.where(first, squares + mean, squares - mean)
        values = np.concatenate([first, first ^ changed], axis=1).astype(float)
        shown += int(run_paired_tests(values[:, :, None], pairs, seed, resamples=RESAMPLES).low[0, 0] > 0)
    return shown / simulations


def print_power(simulations: int) -> None:
    sizes = (20, 30, 50, 100, 200)
    print(f"\nPower at the smallest difference for {POWER:.0%}, over {', '.join(map(str, sizes))} questions\n")
    with Pool() as pool:
        for spread, methods in POWERS:
            rates = pool.starmap(shown_rate, [(spread, methods, questions, simulations) for questions in sizes])
            cells = ["–" if np.isnan(rate) else f"{rate:.0%}" for rate in rates]
            print(f"| spread {spread}, {methods} methods | {' | '.join(cells)} |", flush=True)


MEANS = (0.5, 0.8, 0.95, 0.98)


def cover_rate(mean: float, questions: int, simulations: int) -> float:
    """Return how often the interval of a mean recall of 0 or 1 holds the mean."""
    draws = np.random.default_rng(questions)
    samples = (draws.random((simulations, questions)) < mean).astype(float)
    intervals = [mean_interval(sample) for sample in samples]
    return float(np.mean([low <= mean <= high for low, high in intervals]))


def print_coverage(simulations: int) -> None:
    print(f"\nIntervals that hold the mean, {simulations:,} simulations each\n")
    for mean in MEANS:
        print(f"| {mean} | {' | '.join(f'{cover_rate(mean, questions, simulations):.1%}' for questions in SIZES)} |")


GAINS = (0.0, *np.geomspace(0.003, 0.3, 15))


def rare_loss_rate(gain: float, margin: float, questions: int) -> float:
    """Return how often the interval leaves out the true mean -margin, on its other side for a gate.

    The method gains `gain` on every question, but on some, drawn with the probability that makes the mean -margin, it
    loses 1.
    """
    share = (margin + gain) / (1 + gain)
    rate = 0.0
    for lost in range(questions + 1):
        probability = float(binom.pmf(lost, questions, share))
        if probability < 1e-6:
            continue
        low, high = paired_interval(np.array([-1.0] * lost + [gain] * (questions - lost)))
        rate += probability * (low > -margin or (margin == 0 and high < 0))
    return rate


def print_rare_losses() -> None:
    sizes = (*SIZES, 400)
    print(f"\nRare losses, over {', '.join(map(str, sizes))} questions, at the worst of gains up to {GAINS[-1]:.1f}\n")
    for name, margin, gains in (
        ("equal means called different", 0.0, GAINS[1:]),
        ("gates that pass, margin 2", 0.02, GAINS),
        ("gates that pass, margin 5", 0.05, GAINS),
    ):
        rates = [max(rare_loss_rate(gain, margin, questions) for gain in gains) for questions in sizes]
        print(f"| {name} | {' | '.join(f'{rate:.1%}' for rate in rates)} |", flush=True)


RERUNS = range(100, 481, 20)  # questions of each run of a recommendation, 20 runs
_MARGIN = 0.02
# Shares of questions that the cheaper method wins and loses: it is worse by exactly the margin.
RERUN_CASES = {"5 % won, 7 % lost": (0.05, 0.07), "2 % lost": (0.0, 0.02), "20 % won, 22 % lost": (0.20, 0.22)}


def redraw_questions(queries: Sequence[Query]) -> tuple[list[Query], list[Query]]:
    """Split questions as recommendations did that drew a new order for every number of questions."""
    shuffled = random.Random(0).sample(queries, len(queries))  # an order, no secret
    apart = max(100, len(queries) // 3) if len(queries) >= 200 else 0
    return shuffled[apart:], shuffled[:apart]


def rerun_errors(case: str, simulations: int, *, redrawn: bool) -> tuple[float, float, float, float]:
    """Return how often any of 20 runs with more and more questions drops, accepts, contradicts or confirms wrongly.

    To drop a method that is worse by the margin is wrong, and so it is to accept one that is a little more than that
    worse: the values are the same. Confirmations of the cheaper method are contradicted and confirmed likewise.
    """
    won, lost = RERUN_CASES[case]
    draws = np.random.default_rng(simulations)
    queries = [Query(f"q{number}", f"question {number}") for number in range(RERUNS[-1])]
    drawn = draws.choice([1.0, -1.0, 0.0], (simulations, len(queries)), p=[won, lost, 1 - won - lost])
    values = np.stack([0.5 + drawn / 2, 0.5 - drawn / 2], axis=2)
    wrong = np.zeros((4, simulations), bool)
    raced: list[str] = []
    for run, count in enumerate(RERUNS):
        first = queries[:count]
        racing, sealed = redraw_questions(first) if redrawn else split_questions(first, 0, raced)
        raced = list(dict.fromkeys([*raced, *(hash_question(query.text) for query in racing)]))
        order, apart = ([int(query.id[1:]) for query in side] for side in (racing, sealed))
        decisions = run_races(values[:, order], np.array([0, 1]), RaceRules(_MARGIN, LEVEL, None, block=10))
        wrong[0] |= decisions.dropped[:, 0] > 0
        wrong[1] |= decisions.accepted[:, 0] > 0
        level = LEVEL if redrawn else confirmation_level(run)
        for at in range(simulations if apart else 0):
            verdict = judge_confirmation(paired_interval(drawn[at, apart], level=level), _MARGIN)
            wrong[2, at] |= verdict == "contradicted"
            wrong[3, at] |= verdict == "confirmed"
    dropped, accepted, contradicted, confirmed = wrong.mean(axis=1).tolist()
    return dropped, accepted, contradicted, confirmed


def print_reruns(simulations: int) -> None:
    print(f"\nWrong in any of 20 runs with {RERUNS[0]} to {RERUNS[-1]} questions, {simulations:,} simulations each:")
    print("dropped / accepted / contradicted / confirmed, by redrawn questions and by appended ones\n")
    for case in RERUN_CASES:
        rows = (rerun_errors(case, simulations, redrawn=redrawn) for redrawn in (True, False))
        print(f"| {case} | {' | '.join(' / '.join(f'{rate:.1%}' for rate in row) for row in rows)} |", flush=True)


TRIAL_GAINS = {"3 % won": (0.03, 0.0), "6 % won, 3 % lost": (0.06, 0.03), "20 % won, 17 % lost": (0.20, 0.17)}


def print_trials(simulations: int) -> None:
    """Print how often a trial drops an expensive method that gains 3 points, with a margin of 2."""
    print(f"\nTrials of {TRIAL_QUESTIONS} questions that drop a gain of 3 points, {simulations:,} simulations each\n")
    draws = np.random.default_rng(0)
    for case, (won, lost) in TRIAL_GAINS.items():
        gains = draws.choice([1.0, -1.0, 0.0], (simulations, TRIAL_QUESTIONS), p=[won, lost, 1 - won - lost])
        highest = np.array([largest_gain(gain, np.zeros_like(gain)) for gain in gains])
        print(f"| {case} | {float((highest < _MARGIN).mean()):.1%} |")


def print_percentiles(simulations: int) -> None:
    """Print how often intervals of the 95th percentile hold it, of lognormal times of which some take far longer."""
    print(f"\nIntervals that hold the 95th percentile, {simulations:,} simulations each:")
    print("resampled, from order statistics\n")
    draws = np.random.default_rng(0)
    truth = float(np.percentile(slow_times(draws, 1_000_000), 95))
    for count in (20, 50, 72, 100, 200):
        samples = [slow_times(draws, count) for _ in range(simulations)]
        resampled = [
            np.quantile(np.percentile(draws.choice(sample, (RESAMPLES, count)), 95, axis=1), (0.025, 0.975))
            for sample in samples
        ]
        exact = [percentile_interval(sample.tolist(), 95) for sample in samples]
        share = f"{np.mean([low <= truth <= high for low, high in resampled]):.1%}"
        bounds = [sample for sample in exact if sample is not None]
        print(
            f"| {count} | {share} | {f'{np.mean([a <= truth <= b for a, b in bounds]):.1%}' if bounds else 'too few'} |"
        )


def slow_times(draws: Draws, count: int) -> SampleArray:
    """Milliseconds, lognormal; 4 % of the questions take twenty times as long."""
    return np.exp(draws.normal(1.0, 0.5, count)) * np.where(draws.random(count) < 0.04, 20.0, 1.0)


def main() -> None:
    simulations = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    start = time.perf_counter()
    print(f"{simulations:,} simulations each, {RESAMPLES:,} draws of t; rate of any false difference of pairs / of a")
    print("best method excluded, by the number of questions; then the share of true differences found (with Holm)\n")
    with Pool() as pool:
        for case, (_, gains) in CASES.items():
            outcomes = pool.starmap(rates, [(case, questions, simulations) for questions in SIZES])
            cells = [f"{pairs:.3f} / {worded:.3f}" for pairs, worded, _, _ in outcomes]
            power = [f"{called:.0%} ({holm:.0%})" for _, _, called, holm in outcomes] if len(set(gains)) > 1 else []
            print(f"| {case} | {' | '.join(cells)} | {', '.join(power)} |", flush=True)
    print_gates(simulations)
    print_power(simulations)
    print_coverage(simulations)
    print_rare_losses()
    print_reruns(simulations)
    print_trials(simulations)
    print_percentiles(min(simulations, 500))
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
