"""Random examples of property tests: the same in each `make test`, new ones with each commit in `make test-slow`."""

import os

from hypothesis import HealthCheck, settings

RANDOM = os.environ.get("RANDOM_EXAMPLES", "") == "1"
_TIMES = 3 if RANDOM else 1
_FEW = 10
"""A property that takes fewer examples runs commands or processes, and takes no more of them."""


def examples(count: int) -> int:
    """Return `count`, or three times as many where examples are random and not few."""
    return count if count < _FEW else _TIMES * count


def load_profile() -> None:
    """Set what all property tests share. The seed of random examples is pytest's option --hypothesis-seed."""
    settings.register_profile(
        "ragindex",
        derandomize=not RANDOM,
        max_examples=examples(100),
        deadline=None,  # a slow machine is no fault
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
        print_blob=True,
        database=None,
    )
    settings.load_profile("ragindex")
