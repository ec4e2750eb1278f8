"""How many questions a paired test needs: its power, for a mean and a spread of the differences of a pair.

The test is that of `paired_tests`: Student's t of the differences and two more, 1 and -1. Of n questions with mean d
and standard deviation s, the mean of all is n d / (n + 2) and its standard error

    e = sqrt(((n - 1) s² + 2 + 2 n d² / (n + 2)) / ((n + 1) (n + 2)))

The difference is shown with the probability POWER if the mean is above c e by t s √n / (n + 2), where c is the quantile
of the test, corrected for the number of pairs (Bonferroni), and t that of POWER, both of Student's distribution.
"""

import math
from functools import cache

from ragindex_eval.stats.intervals import LEVEL

POWER = 0.8
_MOST = 2**40  # questions; more are called infinitely many


def count_questions(mean: float, spread: float, pairs: int = 1, margin: float = 0.0) -> float:
    """Return how many questions show with the probability POWER that a difference is above -`margin`.

    `mean` and `spread` are the mean and the standard deviation of the differences, which one of `pairs` pairs has.
    Returns infinity if no number does.

    Example:
        count_questions(0.02, float(differences.std(ddof=1)))
    """
    if mean + margin < 1e-12:
        return math.inf
    most = 2
    while not _is_shown(mean, spread, pairs, margin, most):
        most *= 2
        if most > _MOST:
            return math.inf
    least = most // 2
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if _is_shown(mean, spread, pairs, margin, middle) else (middle, most)
    return most


def smallest_difference(spread: float, questions: int, pairs: int = 1, size: float = 1.0) -> float | None:
    """Return the smallest difference of means that the questions show with the probability POWER; None if none is.

    It is a multiple of a thousandth. `spread` and `size` are as in `raise_spread`.

    Example:
        smallest_difference(float(differences.std(ddof=1)), questions=200)
    """
    means = (thousandths / 1000 for thousandths in range(1, 1001))
    return next(
        (mean for mean in means if _is_shown(mean, raise_spread(spread, mean, size), pairs, 0.0, questions)), None
    )


def raise_spread(spread: float, mean: float, size: float = 1.0) -> float:
    """Return the standard deviation of the differences of questions, were their mean `mean`.

    It is `spread`, but at least that of differences of 0 and `size`: few of them have a small spread, and a small mean.
    """
    return max(spread, math.sqrt(max(0.0, mean * (size - mean))))


def _is_shown(mean: float, spread: float, pairs: int, margin: float, questions: int) -> bool:
    quantile, reach = _quantiles(questions, pairs)
    squares = (questions - 1) * spread**2 + 2 + 2 * questions * mean**2 / (questions + 2)
    lead = questions * mean + (questions + 2) * margin - reach * spread * math.sqrt(questions)
    return lead > quantile * math.sqrt((questions + 2) / (questions + 1) * squares)


@cache
def _quantiles(questions: int, pairs: int) -> tuple[float, float]:
    """Return the quantiles of the corrected test and of POWER."""
    from scipy import special  # takes a second to import

    test = -float(special.stdtrit(questions + 1, LEVEL / 2 / pairs))
    return test, float(special.stdtrit(max(1, questions - 1), POWER))
