"""The tests by sign flips again, in loops, with Student's t and all sign patterns or drawn ones."""

import math
from collections.abc import Sequence
from itertools import product
from random import Random
from typing import TypeAlias

Pair: TypeAlias = tuple[int, int]
Rows: TypeAlias = Sequence[Sequence[float]]


def student_t(differences: Sequence[float]) -> float:
    """Student's t of the mean; infinite where all differences are the same, 0 where they are 0."""
    count, mean = len(differences), sum(differences) / len(differences)
    if all(abs(one) < 1e-12 for one in differences):
        return 0.0
    variance = sum((one - mean) ** 2 for one in differences) / (count - 1) if count > 1 else 0.0
    return math.copysign(math.inf, mean) if variance < 1e-12 else mean / math.sqrt(variance / count)


def sign_patterns(questions: int, drawn: int | None) -> list[tuple[int, ...]]:
    """All patterns, or `drawn` ones and the observed one."""
    if drawn is None:
        return list(product((1, -1), repeat=questions))
    random = Random(3)
    return [(1,) * questions, *(tuple(random.choice((1, -1)) for _ in range(questions)) for _ in range(drawn))]


def naive_tests(
    rows: Rows, pairs: Sequence[Pair], drawn: int | None = None
) -> tuple[list[float], list[float], list[float]]:
    """p, step-down p of each pair, and p of each method as the best; `rows` are questions, without missing values."""
    patterns = sign_patterns(len(rows), drawn)

    def t_values(signs: Sequence[int]) -> dict[Pair, float]:
        return {
            (a, b): student_t([s * (row[a] - row[b]) for s, row in zip(signs, rows, strict=True)]) for a, b in pairs
        }

    observed, flipped = t_values((1,) * len(rows)), [t_values(signs) for signs in patterns]

    def share(reached: Sequence[bool]) -> float:
        return sum(reached) / len(patterns)

    single = [share([at_least(abs(one[pair]), abs(observed[pair])) for one in flipped]) for pair in pairs]
    falling = sorted(pairs, key=lambda pair: -abs(observed[pair]))
    adjusted, highest = dict[Pair, float](), 0.0
    for rank, pair in enumerate(falling):
        rest = falling[rank:]
        reached = [at_least(max(abs(one[each]) for each in rest), abs(observed[pair])) for one in flipped]
        highest = max(highest, share(reached))
        adjusted[pair] = highest
    best = []
    for method in range(len(rows[0])):
        others = [other for pair in pairs if method in pair for other in pair if other != method]

        def lead(one: dict[Pair, float], method: int = method, others: Sequence[int] = others) -> float:
            return max(one[other, method] if (other, method) in one else -one[method, other] for other in others)

        reached = [at_least(lead(one), lead(observed)) for one in flipped]
        best.append(min(1.0, 2 * share(reached)))
    return single, [adjusted[pair] for pair in pairs], best


def at_least(value: float, least: float) -> bool:
    return value == least or value >= least - 1e-9 * (1 + abs(least))
