"""The race of `ragindex_eval.stats.race` for one race, question by question and pair by pair, in plain Python."""

import math
from collections.abc import Sequence
from itertools import product

INFINITE = math.inf


def naive_race(  # noqa: C901  # one piece, to be read beside the description
    rows: Sequence[Sequence[float]],
    order: Sequence[int],
    delta: float,
    alpha: float,
    population: int | None,
    block: int,
) -> tuple[list[int], list[int], list[int]]:
    """Return after how many questions each method was dropped, accepted (0: never), and how many it was asked."""
    methods = range(len(order))
    near, pairs = dict.fromkeys(methods, 0.0), dict.fromkeys(product(methods, methods), 0.0)
    seen: list[Sequence[float]] = []
    dropped, accepted, counts = ([0] * len(order) for _ in range(3))
    for number, row in enumerate(rows, start=1):
        active = [method for method in methods if not dropped[method]]
        for first, other in product(active, active):
            if first != other:
                pairs[first, other] += bet(
                    [r[first] - r[other] for r in seen], row[first] - row[other], -delta, population
                )
        for first in active:
            if len(active) > 1:
                rival = max((x for x in active if x != first), key=lambda x: (sum(r[x] for r in seen), -x))
                near[first] += bet([r[rival] - r[first] for r in seen], row[rival] - row[first], delta, population)
            counts[first] += 1
        seen.append(row)
        if population is not None:
            for first, other in product(active, active):
                worst = sum(r[first] - r[other] for r in seen) - (population - number)
                if worst > -delta * population - 1e-9 * population:
                    pairs[first, other] = INFINITE
                if worst > delta * population + 1e-9 * population:
                    near[other] = INFINITE
        if number % block and number < len(rows):
            continue
        far = {method: min([pairs[method, x] for x in active if x != method], default=INFINITE) for method in methods}
        least = {method: min(grow(near[method]), grow(far[method])) for method in methods}
        for first in active:
            others = sum(least.values()) - least[first]
            if grow(near[first]) + others >= len(order) / alpha:
                dropped[first] = number
            if grow(far[first]) + others >= len(order) / alpha and not accepted[first]:
                accepted[first] = number
        remaining = [method for method in order if not dropped[method]]
        if len(remaining) == 1 or accepted[remaining[0]]:
            break
    return dropped, accepted, counts


def grow(logarithm: float) -> float:
    """Return the capital of which this is the logarithm, bounded."""
    return math.exp(min(logarithm, 700))


def bet(seen: Sequence[float], now: float, bound: float, population: int | None) -> float:
    """Return the logarithm of the growth of one bet against a mean of `bound` or less."""
    count = len(seen)
    expected = bound if population is None else (population * bound - sum(seen)) / (population - count)
    expected = min(max(expected, -1 + 1e-9), 1.0)
    mean = sum(seen) / (count + 1)
    variance = (0.25 + sum((value - mean) ** 2 for value in seen)) / (count + 1)
    edge = mean - expected
    stake = min(max(edge / (variance + edge**2), 0.0), 0.9 / (1 + expected))
    return math.log1p(stake * (now - expected))
